import type { Finish, FinishReason } from "../../canonical.ts";

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
const WORDS: Readonly<Record<string, FinishReason>> = {
  ...FROM_CONVERSE,
  refusal: "refusal",
  pause_turn: "pause",
};

export interface Stop {
  readonly word: string | undefined;
  readonly stopString: string | undefined;
  readonly detail: string | undefined;
}

/** With the output tool's call turned back into text, no call was made. */
export function readFinish({ word, stopString, detail }: Stop, calls: boolean): Finish {
  let reason: FinishReason = (word === undefined ? undefined : WORDS[word]) ?? "stop";
  if (reason === "tool_calls" && !calls) reason = "stop";
  else if (calls && (reason === "stop" || reason === "bad_tool_call")) reason = "tool_calls";
  return { reason, native: word, stopString, detail };
}
