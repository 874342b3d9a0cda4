// What a model may lack on order, in the words of providers whose models do.

import type { Ask } from "./ask.ts";
import type { Order } from "./directives.ts";
import type { Failure } from "./wire.ts";

export function lackOf(ask: Ask, order: Order): Failure | undefined {
  if (order["no-schema"] === true && ask.format.kind === "schema")
    return { status: 400, message: "This response_format type is unavailable now" };
  const { kind } = ask.toolChoice;
  if (order["no-forced-call"] === true && (kind === "required" || kind === "named"))
    return { status: 400, message: "Thinking mode does not support this tool_choice" };
  return undefined;
}

const INSTRUCTED = /\bJSON Schema\b[^{]*(\{.*\})/i;

/** The schema that stands in a text of the prompt: a model that was told to answer in JSON keeps to it. */
export function instructedSchema({ segments }: Ask): unknown {
  for (const { text } of segments) {
    const [, schema] = INSTRUCTED.exec(text) ?? [];
    try {
      if (schema !== undefined) return JSON.parse(schema);
    } catch {
      // Something else in braces.
    }
  }
  return undefined;
}
