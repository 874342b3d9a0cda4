// Rejects bodies that parsers read differently. The gateway reads the last of two members with one name, and names as they are
// written; a provider may read the first, or ignore case as Go does. What the gateway reads decides the price and what is allowed.

import { invalid } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import { COLON, type ObjectSpans, skipWhitespace, stringEnd } from "./json-edit.ts";

/** Fields whose value decides the price, or what is stored and where. */
const DECISIVE_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "models",
  "provider",
  "postern",
  "messages",
  "input",
  "system",
  "tools",
  "stream",
  "stream_options",
  "n",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "service_tier",
  "speed",
  "store",
  "background",
  "deferred",
  "container",
  "conversation",
  "thread",
  "prompt",
  "previous_response_id",
  "cached_content",
  "extra_body",
  "web_search_options",
  "audio",
  "modalities",
  "size",
  "quality",
  "query",
  "documents",
  "image",
  "images",
  "mask",
  "markup",
  "partial_images",
  "frame_count",
  "stream_format",
]);

/** `spans` are those of `text`, and `json` is its value. */
export function rejectAmbiguousMembers(text: string, spans: ObjectSpans, json: JsonObject): void {
  // Comparing counts detects a duplicate in a fraction of the time that finding it takes.
  if (countMembers(json) !== spans.memberCount) {
    const name = findDuplicate(text);
    throw invalid(name, `Duplicate field \`${name}\`. Send it once.`);
  }
  for (const name of spans.members.keys()) {
    if (!/[^a-z0-9_]/.test(name)) continue;
    const folded = foldCase(name);
    if (folded !== name && (DECISIVE_FIELDS.has(folded) || spans.members.has(folded)))
      throw invalid(name, `Unknown field \`${name}\`. Did you mean \`${folded}\`?`);
  }
}

// Go compares names by simple case folding, to which the long s and the Kelvin sign belong.
function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/** The members of all objects in the value. */
function countMembers(value: object): number {
  let count = 0;
  if (Array.isArray(value)) {
    for (const member of value)
      if (typeof member === "object" && member !== null) count += countMembers(member);
    return count;
  }
  for (const name in value) {
    count++;
    // Safe because `name` is one of its own members: it was parsed from JSON.
    const member = (value as JsonObject)[name];
    if (typeof member === "object" && member !== null) count += countMembers(member);
  }
  return count;
}

function findDuplicate(text: string): string {
  // The names of each open object; undefined for an array.
  const open: (Set<string> | undefined)[] = [];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x7b) open.push(new Set());
    else if (code === 0x5b) open.push(undefined);
    else if (code === 0x7d || code === 0x5d) open.pop();
    if (code !== 0x22) continue;
    const end = stringEnd(text, at);
    const names = open.at(-1);
    const isName = names !== undefined && text.charCodeAt(skipWhitespace(text, end)) === COLON;
    // Safe because the text is valid JSON, and a name is a string.
    const name = isName ? (JSON.parse(text.slice(at, end)) as string) : undefined;
    if (name !== undefined && names?.has(name)) return name;
    if (name !== undefined) names?.add(name);
    at = end - 1;
  }
  return "";
}
