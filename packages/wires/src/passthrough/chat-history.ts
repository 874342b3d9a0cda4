// Removes fields from a chat's earlier assistant messages that other providers or this gateway added. Some providers reject
// a request that contains them, which would tie a conversation to one model.

import { API_TRAITS } from "../api-traits.ts";
import type { Abilities } from "../canonical/wire-interfaces.ts";
import { isObject, type JsonObject } from "../json-fields.ts";
import type { PassedRequest } from "./foreign-history.ts";

export interface SanitizedHistory {
  /** The messages without the fields that the provider rejects; undefined if nothing was removed. */
  readonly messages: string | undefined;
  readonly dropped: readonly string[];
}

const UNCHANGED: SanitizedHistory = { messages: undefined, dropped: [] };
/** The field in which this gateway returns a tool call's signature from other wires. */
const CALL_EXTRA_FIELD = "extra_content";

/** The type of content parts in which Mistral returns reasoning; others know no such type. */
const THINKING = "thinking";

export function sanitizeHistory(
  { api, text, json: { messages } }: PassedRequest,
  rejectedHistoryFields: readonly string[] | undefined,
  { reasoningField }: Abilities,
): SanitizedHistory {
  if (!API_TRAITS[api].hasProviderFields || !Array.isArray(messages)) return UNCHANGED;
  const rejectedFields = rejectedFieldsIn(text, rejectedHistoryFields);
  const dropsThinking = text.includes(`"${THINKING}"`) && reasoningField !== "content";
  if (rejectedFields === undefined && !dropsThinking) return UNCHANGED;
  const dropped: string[] = [];
  const kept = messages.flatMap((message: unknown, index) => {
    if (!isObject(message) || message["role"] !== "assistant") return [message];
    const context = { path: `messages[${index}]`, dropped };
    const reply = dropsThinking ? withoutThinking(message, context) : message;
    if (reply === undefined) return [];
    return rejectedFields === undefined ? [reply] : [sanitizeReply(reply, rejectedFields, context)];
  });
  return dropped.length === 0 ? UNCHANGED : { messages: JSON.stringify(kept), dropped };
}

/** Undefined if the request contains none of them. */
function rejectedFieldsIn(
  text: string,
  rejected: readonly string[] | undefined,
): readonly string[] | undefined {
  if (rejected === undefined) return undefined;
  return [...rejected, CALL_EXTRA_FIELD].some((name) => text.includes(`"${name}"`))
    ? rejected
    : undefined;
}

/** Undefined if nothing else is in the message, because providers refuse a message without content. */
function withoutThinking(
  reply: JsonObject,
  { path, dropped }: RemovalContext,
): JsonObject | undefined {
  const { content } = reply;
  if (!Array.isArray(content)) return reply;
  const kept = content.filter((part: unknown, index) => {
    const isThinking = isObject(part) && part["type"] === THINKING;
    if (isThinking) dropped.push(`${path}.content[${index}]`);
    return !isThinking;
  });
  if (kept.length === content.length) return reply;
  if (kept.length > 0) return { ...reply, content: kept };
  return reply["tool_calls"] === undefined ? undefined : { ...reply, content: null };
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
