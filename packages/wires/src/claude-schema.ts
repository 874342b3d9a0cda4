// The JSON schema of a reply's output for Claude, on Anthropic's API and on Bedrock: in the model's own field, by a
// tool, or in the instructions.

import type { Loss } from "./canonical/canonical-losses.ts";
import type { CanonicalRequest } from "./canonical/canonical-request.ts";
import { CLAUDE_SCHEMA } from "./canonical/reduced-schema.ts";
import {
  addSchemaInstruction,
  emulateByTool,
  reduceOutput,
} from "./canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "./canonical/wire-interfaces.ts";
import type { JsonObject } from "./json-fields.ts";

interface ClaudeOutput {
  /** For the model's own field. */
  readonly schema?: JsonObject | undefined;
  /** For a model without that field. */
  readonly emulation?: SchemaEmulation | undefined;
  /** The request, with instructions about its output if the model needs them. */
  readonly request: CanonicalRequest;
}

export function writeClaudeOutput(
  request: CanonicalRequest,
  { abilities }: Target,
  losses: Loss[],
): ClaudeOutput {
  const { output } = request;
  if (output?.type !== "json_schema") return { request };
  const schema =
    abilities?.jsonSchema === false
      ? undefined
      : reduceOutput(output, request, CLAUDE_SCHEMA, losses);
  if (schema !== undefined) return { request, schema };
  return abilities?.forcedTools === false
    ? { request: addSchemaInstruction(request, output, losses) }
    : { request, emulation: emulateByTool(request, output, losses) };
}
