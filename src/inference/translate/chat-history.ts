// Removes fields from a chat's earlier assistant messages that other providers or this gateway added. Some providers reject
// a request that contains them, which would tie a conversation to one model.

import type { ParsedRequest } from "../request/parse-request.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { Provider } from "../providers/providers.ts";

export interface SanitizedHistory {
  /** The messages without the fields that the provider rejects; undefined if nothing was removed. */
  readonly messages: string | undefined;
  readonly dropped: readonly string[];
}

const UNCHANGED: SanitizedHistory = { messages: undefined, dropped: [] };
/** The field in which this gateway returns a tool call's signature from other wires. */
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
