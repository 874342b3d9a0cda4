// Finds the usage object in the last bytes of a reply that is too long to be parsed: every wire writes it after the output.

import { isObject, type JsonObject, parseJson } from "../json-fields.ts";

const NAMES = /"(?:usage|usageMetadata)"\s*:\s*\{/g;
/** Only counts are numbers; the schema of a caller's tool can have a member of this name, too. */
const COUNT = /^(?:input|output|prompt|completion|total)_?tokens?(?:Count)?$/i;
const USAGE_MAX_CHARS = 16_384;

/** The last one: what a caller writes stands before it, or within a string, where its quotes are escaped. */
export function lastUsageIn(tail: string): JsonObject | undefined {
  for (const { index, 0: start } of [...tail.matchAll(NAMES)].toReversed()) {
    const usage = objectAt(tail, index + start.length - 1);
    if (usage !== undefined && hasCounts(usage)) return usage;
  }
  return undefined;
}

function hasCounts(usage: JsonObject): boolean {
  return Object.entries(usage).some(
    ([name, value]) => typeof value === "number" && COUNT.test(name),
  );
}

/** Usage objects have no braces in strings, so counting them finds the end. */
function objectAt(text: string, start: number): JsonObject | undefined {
  let depth = 0;
  for (let at = start; at < Math.min(text.length, start + USAGE_MAX_CHARS); at++) {
    if (text[at] === "{") depth += 1;
    else if (text[at] === "}" && --depth === 0) {
      const value = parseJson(text.slice(start, at + 1));
      return isObject(value) ? value : undefined;
    }
  }
  return undefined;
}
