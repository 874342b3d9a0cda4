import type { ChatCompletion } from "openai/resources/chat/completions";
import type { Finish, FinishReason } from "../../canonical/canonical-reply.ts";
import { lookUp } from "../../json-fields.ts";

type ChatFinish = ChatCompletion.Choice["finish_reason"];

const FROM_CHAT = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter",
} as const satisfies Record<ChatFinish, FinishReason>;

// Reasons that compatible servers send in addition to OpenAI's five.
const FROM_PROVIDERS: Readonly<Record<string, FinishReason>> = {
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

/** The finish also depends on the contents: servers send `stop` after a tool call or a refusal. */
export interface ReplyContents {
  readonly hasToolCalls: boolean;
  readonly hasRefusal: boolean;
  readonly stopSequence?: string | undefined;
}

export function readFinish(
  providerReason: string | undefined,
  nativeReason: string | undefined,
  contents: ReplyContents,
): Finish {
  let reason: FinishReason =
    providerReason === undefined ? "stop" : (lookUp(FROM_PROVIDERS, providerReason) ?? "stop");
  if (reason === "stop" && contents.hasToolCalls) reason = "tool_calls";
  else if (reason === "tool_calls" && !contents.hasToolCalls) reason = "stop";
  else if (reason === "stop" && contents.hasRefusal) reason = "refusal";
  else if (reason === "stop" && contents.stopSequence !== undefined) reason = "stop_sequence";
  return {
    reason,
    nativeReason: nativeReason ?? providerReason,
    stopSequence: contents.stopSequence,
  };
}

export interface WrittenFinish {
  readonly finish_reason: ChatFinish;
  readonly native_finish_reason?: string;
  readonly stop_reason?: string;
}

/** The provider's own reason is added if it differs. */
export function writeFinish(
  finish: Finish,
  contents: { readonly hasRefusal: boolean; readonly usesLegacyFunctions: boolean },
): WrittenFinish {
  let finishReason: ChatFinish = TO_CHAT[finish.reason];
  if (finish.reason === "refusal" && contents.hasRefusal) finishReason = "stop";
  if (finishReason === "tool_calls" && contents.usesLegacyFunctions) finishReason = "function_call";
  return {
    finish_reason: finishReason,
    ...(finish.nativeReason !== undefined && finish.nativeReason !== finishReason
      ? { native_finish_reason: finish.nativeReason }
      : undefined),
    ...(finish.stopSequence === undefined ? undefined : { stop_reason: finish.stopSequence }),
  };
}
