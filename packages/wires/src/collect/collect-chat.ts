// Collects chunks of a chat completion. Chunks of other members than OpenAI's are merged by the same rules: text is continued,
// lists are continued by index, and anything else is replaced.

import { arrayIn, indexIn, isObject, type JsonObject } from "../json-fields.ts";
import { chatCutUsage } from "../length-stop.ts";
import { append, type Collected, indexOf, type StreamCollector } from "./stream-collector.ts";

/** Texts that are sent whole, by some providers in every chunk. */
const LABELS: ReadonlySet<string> = new Set(["role", "type", "id", "name", "format", "status"]);

export function createChatCollector(): StreamCollector {
  let head: Collected | undefined;
  const choices: CollectedChoice[] = [];
  return {
    push: ({ choices: pieces, ...rest }) => {
      head = { ...head, ...withoutNulls(rest) };
      for (const piece of arrayIn(pieces)) {
        if (!isObject(piece)) continue;
        const { delta, index: _index, logprobs, ...members } = piece;
        const choice = (choices[indexOf(piece)] ??= emptyChoice());
        Object.assign(choice.members, withoutNulls(members));
        if (isObject(delta)) merge(choice.message, delta);
        if (isObject(logprobs)) merge(choice.members, { logprobs });
      }
    },
    stop: (usage) => {
      const choice = (choices[0] ??= emptyChoice());
      choice.members["finish_reason"] = "length";
      head = { ...head, usage: chatCutUsage(usage) };
    },
    reply: () =>
      head && {
        ...head,
        object: "chat.completion",
        choices: choices.flatMap((choice, index) => [
          { index, message: withoutIndexes(choice.message), ...choice.members },
        ]),
      },
  };
}

interface CollectedChoice {
  readonly message: Collected;
  readonly members: Collected;
}

function emptyChoice(): CollectedChoice {
  return {
    message: { role: "assistant", content: null },
    members: { logprobs: null, finish_reason: null },
  };
}

function withoutNulls(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}

/** In place: a copy for each of the chunks would take quadratic time. Only what was made here is changed. */
function merge(whole: Collected, piece: JsonObject): void {
  for (const [name, value] of Object.entries(piece)) {
    const { [name]: before } = whole;
    if (value === null || value === undefined) whole[name] ??= value;
    else if (typeof value === "string" && !LABELS.has(name)) {
      if (Array.isArray(before)) whole[name] = mergedList(before, [{ type: "text", text: value }]);
      else append(whole, name, value);
    } else if (Array.isArray(value)) whole[name] = mergedList(before, value);
    else if (isObject(value)) {
      const inner: Collected = isObject(before) ? before : {};
      merge(inner, value);
      whole[name] = inner;
    } else whole[name] = value;
  }
}

function mergedList(before: unknown, pieces: readonly unknown[]): readonly unknown[] {
  // Mistral continues a list of parts with plain text, and the reverse.
  const text = typeof before === "string" && before !== "" ? [{ type: "text", text: before }] : [];
  // Made here, of untyped values.
  const list: unknown[] = Array.isArray(before) ? before : text;
  for (const piece of pieces) {
    const index = isObject(piece) ? indexIn(piece["index"], INDEXED_MAX) : undefined;
    if (!isObject(piece) || index === undefined) {
      list.push(piece);
      continue;
    }
    const found = list.find((one) => isObject(one) && one["index"] === index);
    const target: Collected = isObject(found) ? found : {};
    merge(target, piece);
    if (found === undefined) list.push(target);
  }
  return list;
}

const INDEXED_MAX = 1_000;

/** Only a stream numbers its tool calls. */
function withoutIndexes(message: Collected): Collected {
  if (!Array.isArray(message["tool_calls"])) return message;
  const calls = message["tool_calls"].map((call: unknown) => {
    if (!isObject(call)) return call;
    const { index: _, ...rest } = call;
    return rest;
  });
  return { ...message, tool_calls: calls };
}
