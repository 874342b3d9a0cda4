// Items of the Responses API that have an id and nothing else: the provider would look for what it has stored under the id.

import type { JsonObject } from "../../base/json.ts";

/** What an item of any type sends. */
const PAYLOAD =
  "content text summary encrypted_content arguments name input output result results action actions code queries tools " +
  "operation reasoning approve";
const PAYLOAD_MEMBERS: readonly string[] = PAYLOAD.split(" ");

/** Clients send them back as they were, and they say nothing to the model. */
const EMPTY_TYPES: ReadonlySet<unknown> = new Set(["reasoning", "web_search_call"]);

export function isBareItem(item: JsonObject): boolean {
  const { id } = item;
  if (typeof id !== "string" || id === "") return false;
  return !PAYLOAD_MEMBERS.some((name) => hasContent(name, item[name]));
}

/** Whether it can be left out: there is nothing of it that the provider could read without looking it up. */
export function isEmptyItem(item: JsonObject): boolean {
  return EMPTY_TYPES.has(item["type"]) && isBareItem(item);
}

function hasContent(name: string, value: unknown): boolean {
  if (value === undefined || value === null) return false;
  // The result of a function may be empty.
  if (value === "") return name === "output";
  return !Array.isArray(value) || value.length > 0;
}
