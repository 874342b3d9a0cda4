// What a chat's earlier replies bear that other providers and this gateway have put there, and that some providers refuse a
// whole request for: a conversation goes on with any model.

import type { ParsedRequest } from "../request/parse-request.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { Provider } from "../providers/providers.ts";

export interface SanitizedHistory {
  /** The messages without what the provider refuses; undefined where they can stay as they came. */
  readonly messages: string | undefined;
  readonly dropped: readonly string[];
}

const UNCHANGED: SanitizedHistory = { messages: undefined, dropped: [] };
/** Where other wires keep the signature of a call. */
const CALL_EXTRA_FIELD = "extra_content";

export function sanitizeHistory(
  { api, text, json: { messages } }: ParsedRequest,
  { rejectedHistoryFields }: Provider,
): SanitizedHistory {
  if (api !== "chat" || rejectedHistoryFields === undefined || !Array.isArray(messages))
    return UNCHANGED;
  if (![...rejectedHistoryFields, CALL_EXTRA_FIELD].some((name) => text.includes(`"${name}"`)))
    return UNCHANGED;
  const dropped: string[] = [];
  const kept = messages.map((message: unknown, index) =>
    isObject(message) && message["role"] === "assistant"
      ? sanitizeReply(message, rejectedHistoryFields, { path: `messages[${index}]`, dropped })
      : message,
  );
  return dropped.length === 0 ? UNCHANGED : { messages: JSON.stringify(kept), dropped };
}

interface RemovalContext {
  readonly path: string;
  readonly dropped: string[];
}

function sanitizeReply(
  reply: JsonObject,
  rejectedFields: readonly string[],
  { path, dropped }: RemovalContext,
): JsonObject {
  const calls = reply["tool_calls"];
  const kept = omitFields(reply, rejectedFields, { path, dropped });
  if (!Array.isArray(calls)) return kept;
  const sent = calls.map((call: unknown, index) =>
    isObject(call)
      ? omitFields(call, [CALL_EXTRA_FIELD], { path: `${path}.tool_calls[${index}]`, dropped })
      : call,
  );
  return { ...kept, tool_calls: sent };
}

function omitFields(
  object: JsonObject,
  names: readonly string[],
  { path, dropped }: RemovalContext,
): JsonObject {
  const present = names.filter((name) => object[name] !== undefined);
  if (present.length === 0) return object;
  dropped.push(...present.map((name) => `${path}.${name}`));
  return Object.fromEntries(Object.entries(object).filter(([name]) => !present.includes(name)));
}
