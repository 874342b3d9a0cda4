// What a model may lack on order, in the words of providers whose models do.

import type { NormalizedRequest } from "./normalized-request.ts";
import type { Directives } from "../faults/directives.ts";
import type { ApiError } from "../wires/wire.ts";

export function unsupportedFeature(
  request: NormalizedRequest,
  directives: Directives,
): ApiError | undefined {
  if (directives["no-schema"] === true && request.responseFormat.kind === "schema")
    return { status: 400, message: "This response_format type is unavailable now" };
  const { kind } = request.toolChoice;
  if (directives["no-forced-call"] === true && (kind === "required" || kind === "named"))
    return { status: 400, message: "Thinking mode does not support this tool_choice" };
  return undefined;
}

const SCHEMA_IN_PROMPT = /\bJSON Schema\b[^{]*(\{.*\})/i;

/** The schema that stands in a text of the prompt: a model that was told to answer in JSON keeps to it. */
export function schemaInPrompt({ segments }: NormalizedRequest): unknown {
  for (const { text } of segments) {
    const [, schema] = SCHEMA_IN_PROMPT.exec(text) ?? [];
    try {
      if (schema !== undefined) return JSON.parse(schema);
    } catch {
      // Something else in braces.
    }
  }
  return undefined;
}
