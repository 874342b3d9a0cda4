import type { Finish, FinishReason } from "../../canonical/canonical-reply.ts";
import { lookUp } from "../../json-fields.ts";

/** The values of Converse's StopReason. */
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

// Includes models' own stop reasons, which Converse passes through.
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

/** A call to the schema emulation's output tool is text, so it does not count in `hasToolCalls`. */
export function readFinish(
  { reason: nativeReason, stopSequence, detail }: StopInfo,
  hasToolCalls: boolean,
): Finish {
  let reason: FinishReason =
    (nativeReason === undefined ? undefined : lookUp(FINISH_REASON_BY_NAME, nativeReason)) ??
    "stop";
  if (reason === "tool_calls" && !hasToolCalls) reason = "stop";
  else if (hasToolCalls && (reason === "stop" || reason === "bad_tool_call")) reason = "tool_calls";
  return { reason, nativeReason, stopSequence, detail };
}
