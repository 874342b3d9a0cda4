import type { CanonicalRequest, JsonObject, Loss } from "../../canonical.ts";
import { emulateByTool, instructOutput, strictnessOf } from "../../canonical-output.ts";
import type { Emulation, Target } from "../../canonical-wire.ts";

export interface WrittenOutput {
  readonly format?: JsonObject | undefined;
  readonly emulation?: Emulation | undefined;
  /** The request, with what the model must be told about its answer. */
  readonly request: CanonicalRequest;
}

export function writeOutput(
  request: CanonicalRequest,
  { abilities = {} }: Target,
  losses: Loss[],
): WrittenOutput {
  const { output } = request;
  if (output === undefined) return { request };
  if (output.type !== "json_schema") return { request, format: { type: output.type } };
  if (abilities.jsonSchema !== false) {
    const { name = "structured_output", description, schema } = output;
    const held = { name, description, schema, strict: strictnessOf(output, losses) };
    return { request, format: { type: "json_schema", json_schema: held } };
  }
  return abilities.schemaBy === "instructions"
    ? { request: instructOutput(request, output, losses), format: { type: "json_object" } }
    : { request, emulation: emulateByTool(request, output, losses) };
}
