// Features that a model lacks if a directive says so. The messages are those of real providers.

import type { Directives } from "../faults/directives.ts";
import {
  invalidRequest,
  type InvalidRequest,
  type NormalizedRequest,
} from "./normalized-request.ts";

export function unsupportedFeature(
  request: NormalizedRequest,
  directives: Directives,
): InvalidRequest | undefined {
  if (directives["no-schema"] === true && request.responseFormat.kind === "schema")
    return invalidRequest(400, "This response_format type is unavailable now");
  const { kind } = request.toolChoice;
  if (directives["no-forced-call"] === true && (kind === "required" || kind === "named"))
    return invalidRequest(400, "Thinking mode does not support this tool_choice");
  return undefined;
}

const JSON_INSTRUCTION = /\bonly (?:with|in) (?:(?:a|one|valid|raw) )*JSON\b/i;

/** An instruction to reply in JSON, which a model follows on APIs without a JSON mode. */
export function asksForJson({ segments }: NormalizedRequest): boolean {
  return segments.some(({ text }) => text.includes("JSON") && JSON_INSTRUCTION.test(text));
}

const SCHEMA_IN_PROMPT = /\bJSON Schema\b[^{]*(\{.*\})/i;

/** A JSON schema in the prompt's text; a reply in JSON mode follows it. */
export function schemaInPrompt({ segments }: NormalizedRequest): unknown {
  for (const { text } of segments) {
    const [, schema] = SCHEMA_IN_PROMPT.exec(text) ?? [];
    try {
      if (schema !== undefined) return JSON.parse(schema);
    } catch {
      // Not JSON.
    }
  }
  return undefined;
}
