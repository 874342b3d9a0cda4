// The JSON schema of a reply's output for Claude, on Anthropic's API and on Bedrock: in the model's own field, or by a tool.

import type { JsonObject } from "../../base/json.ts";
import type { Loss } from "../canonical/loss.ts";
import { CLAUDE_SCHEMA } from "../canonical/reduced-schema.ts";
import type { CanonicalRequest } from "../canonical/request.ts";
import { emulateByTool, reduceOutput } from "../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../canonical/wire.ts";

interface ClaudeOutput {
  /** For the model's own field. */
  readonly schema?: JsonObject | undefined;
  /** For a model without that field. */
  readonly emulation?: SchemaEmulation | undefined;
}

export function writeClaudeOutput(
  request: CanonicalRequest,
  { abilities }: Target,
  losses: Loss[],
): ClaudeOutput {
  const { output } = request;
  if (output?.type !== "json_schema") return {};
  const schema =
    abilities?.jsonSchema === false
      ? undefined
      : reduceOutput(output, request, CLAUDE_SCHEMA, losses);
  return schema === undefined ? { emulation: emulateByTool(request, output, losses) } : { schema };
}
