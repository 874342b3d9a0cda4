// Strict tools that OpenAI rejects on its own API: the schemas of other chat providers may be open. `strict` is a hint, so it
// is left out for a caller that changes only `model`.

import { isStrictCompatible } from "@postern/wires";
import { isObject, type JsonObject } from "../../../base/json.ts";
import type { Model } from "../../../models/catalog.ts";
import { abilitiesOf } from "../abilities.ts";

export interface RelaxedTools {
  /** The tools as JSON text. */
  readonly tools: string;
  readonly dropped: readonly string[];
}

/** Undefined if the model takes the tools as they are. */
export function relaxTools(json: JsonObject, model: Model): RelaxedTools | undefined {
  const { tools } = json;
  if (!Array.isArray(tools) || abilitiesOf(model).openaiFields !== true) return undefined;
  const dropped: string[] = [];
  const relaxed = tools.map((tool: unknown, index) => {
    const fn = isObject(tool) ? tool["function"] : undefined;
    if (!isObject(tool) || !isObject(fn) || fn["strict"] !== true) return tool;
    if (isStrictCompatible(fn["parameters"] ?? { type: "object" })) return tool;
    dropped.push(`tools[${index}].function.strict`);
    // Leaves `strict` out of the text.
    return Object.assign({}, tool, { function: Object.assign({}, fn, { strict: undefined }) });
  });
  return dropped.length === 0 ? undefined : { tools: JSON.stringify(relaxed), dropped };
}
