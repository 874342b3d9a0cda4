import type { ChatCompletion } from "openai/resources/chat/completions";
import type { Finish, FinishReason } from "../../canonical.ts";

type ChatFinish = ChatCompletion.Choice["finish_reason"];

const FROM_CHAT = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter",
} as const satisfies Record<ChatFinish, FinishReason>;

// What servers of this API say beside the five words that it has.
const FROM_OTHERS: Readonly<Record<string, FinishReason>> = {
  ...FROM_CHAT,
  "": "stop",
  eos: "stop",
  COMPLETE: "stop",
  end_turn: "stop",
  stop_sequence: "stop_sequence",
  TOOL_CALL: "tool_calls",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_length: "context_full",
  insufficient_system_resource: "error",
  error: "error",
};

const TO_CHAT = {
  stop: "stop",
  stop_sequence: "stop",
  tool_calls: "tool_calls",
  length: "length",
  context_full: "length",
  refusal: "content_filter",
  content_filter: "content_filter",
  pause: "stop",
  bad_tool_call: "stop",
  error: "length",
} as const satisfies Record<FinishReason, ChatFinish>;

/** What a reply holds decides together with the word: servers say `stop` where they called a tool or refused. */
export interface Held {
  readonly calls: boolean;
  readonly refusal: boolean;
  readonly stopString?: string | undefined;
}

export function readFinish(
  word: string | undefined,
  nativeWord: string | undefined,
  held: Held,
): Finish {
  let reason: FinishReason = word === undefined ? "stop" : (FROM_OTHERS[word] ?? "stop");
  if (reason === "stop" && held.calls) reason = "tool_calls";
  else if (reason === "tool_calls" && !held.calls) reason = "stop";
  else if (reason === "stop" && held.refusal) reason = "refusal";
  else if (reason === "stop" && held.stopString !== undefined) reason = "stop_sequence";
  return { reason, native: nativeWord ?? word, stopString: held.stopString };
}

export interface WrittenFinish {
  readonly finish_reason: ChatFinish;
  readonly native_finish_reason?: string;
  readonly stop_reason?: string;
}

/** The provider's own word is shown beside ours where it says something else. */
export function writeFinish(
  finish: Finish,
  held: { readonly refusal: boolean; readonly legacy: boolean },
): WrittenFinish {
  let word: ChatFinish = TO_CHAT[finish.reason];
  if (finish.reason === "refusal" && held.refusal) word = "stop";
  if (word === "tool_calls" && held.legacy) word = "function_call";
  return {
    finish_reason: word,
    ...(finish.native !== undefined && finish.native !== word
      ? { native_finish_reason: finish.native }
      : undefined),
    ...(finish.stopString === undefined ? undefined : { stop_reason: finish.stopString }),
  };
}
