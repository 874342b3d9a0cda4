// What a chat's earlier replies bear that other providers and this gateway have put there, and that some providers refuse a
// whole request for: a conversation goes on with any model.

import { type Ask, isObject, type Json } from "./ask.ts";
import type { Provider } from "./providers.ts";

export interface SentHistory {
  /** The messages without what the provider refuses; undefined where they can stay as they came. */
  readonly messages: string | undefined;
  readonly dropped: readonly string[];
}

const AS_IT_CAME: SentHistory = { messages: undefined, dropped: [] };
/** Where other wires keep the signature of a call. */
const ON_CALLS = "extra_content";

export function historyFor(
  { api, text, json: { messages } }: Ask,
  { refusesBack }: Provider,
): SentHistory {
  if (api !== "chat" || refusesBack === undefined || !Array.isArray(messages)) return AS_IT_CAME;
  if (![...refusesBack, ON_CALLS].some((name) => text.includes(`"${name}"`))) return AS_IT_CAME;
  const dropped: string[] = [];
  const kept = messages.map((message: unknown, place) =>
    isObject(message) && message["role"] === "assistant"
      ? replyFor(message, refusesBack, { path: `messages[${place}]`, dropped })
      : message,
  );
  return dropped.length === 0 ? AS_IT_CAME : { messages: JSON.stringify(kept), dropped };
}

interface Place {
  readonly path: string;
  readonly dropped: string[];
}

function replyFor(reply: Json, refused: readonly string[], { path, dropped }: Place): Json {
  const calls = reply["tool_calls"];
  const kept = without(reply, refused, { path, dropped });
  if (!Array.isArray(calls)) return kept;
  const sent = calls.map((call: unknown, place) =>
    isObject(call)
      ? without(call, [ON_CALLS], { path: `${path}.tool_calls[${place}]`, dropped })
      : call,
  );
  return { ...kept, tool_calls: sent };
}

function without(object: Json, names: readonly string[], { path, dropped }: Place): Json {
  const there = names.filter((name) => object[name] !== undefined);
  if (there.length === 0) return object;
  dropped.push(...there.map((name) => `${path}.${name}`));
  return Object.fromEntries(Object.entries(object).filter(([name]) => !there.includes(name)));
}
