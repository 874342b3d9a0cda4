import type { Loss } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../../canonical/canonical-request.ts";
import {
  addSchemaInstruction,
  emulateByTool,
  strictFlag,
} from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";

export interface WrittenResponseFormat {
  readonly format?: JsonObject | undefined;
  readonly emulation?: SchemaEmulation | undefined;
  /** The request, with instructions about its output if the model needs them. */
  readonly request: CanonicalRequest;
}

export function writeResponseFormat(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenResponseFormat {
  const { output } = request;
  const { abilities = {} } = target;
  if (output === undefined) return { request };
  if (output.type !== "json_schema") return { request, format: { type: output.type } };
  if (abilities.jsonSchema !== false) {
    const { name = "structured_output", description, schema } = output;
    const strict = strictFlag(output, target, losses);
    const format = { name, description, schema, strict };
    return { request, format: { type: "json_schema", json_schema: format } };
  }
  return abilities.schemaEmulation === "instructions"
    ? { request: addSchemaInstruction(request, output, losses), format: { type: "json_object" } }
    : { request, emulation: emulateByTool(request, output, losses) };
}
