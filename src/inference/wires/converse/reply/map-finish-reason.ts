import type { Finish, FinishReason } from "../../../canonical/reply.ts";

/** The words of Converse's StopReason. */
const FROM_CONVERSE = {
  end_turn: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  stop_sequence: "stop_sequence",
  guardrail_intervened: "content_filter",
  content_filtered: "content_filter",
  malformed_model_output: "error",
  malformed_tool_use: "bad_tool_call",
  model_context_window_exceeded: "context_full",
} as const satisfies Record<string, FinishReason>;

// What models say that Converse passes on as it is.
const FINISH_REASON_BY_NAME: Readonly<Record<string, FinishReason>> = {
  ...FROM_CONVERSE,
  refusal: "refusal",
  pause_turn: "pause",
};

export interface StopInfo {
  readonly reason: string | undefined;
  readonly stopSequence: string | undefined;
  readonly detail: string | undefined;
}

/** With the output tool's call turned back into text, no call was made. */
export function readFinish(
  { reason: word, stopSequence, detail }: StopInfo,
  hasToolCalls: boolean,
): Finish {
  let reason: FinishReason =
    (word === undefined ? undefined : FINISH_REASON_BY_NAME[word]) ?? "stop";
  if (reason === "tool_calls" && !hasToolCalls) reason = "stop";
  else if (hasToolCalls && (reason === "stop" || reason === "bad_tool_call")) reason = "tool_calls";
  return { reason, nativeReason: word, stopSequence, detail };
}
