// Schemas of generated tools: closed, with required properties only, which providers take for strict tools too.

import type { JsonObject } from "../../../src/base/json.ts";

export function closedSchema(values: JsonObject): JsonObject {
  const names = Object.keys(values);
  return {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    required: names,
    additionalProperties: false,
  };
}
