import type { StopReason } from "@anthropic-ai/sdk/resources/messages/messages";
import type { Finish, FinishReason } from "../../canonical/canonical-reply.ts";
import { lookUp } from "../../json-fields.ts";

const FROM_MESSAGES = {
  end_turn: "stop",
  max_tokens: "length",
  stop_sequence: "stop_sequence",
  tool_use: "tool_calls",
  pause_turn: "pause",
  refusal: "refusal",
  model_context_window_exceeded: "context_full",
} as const satisfies Record<StopReason, FinishReason>;

const FINISH_REASON_BY_NAME: Readonly<Record<string, FinishReason>> = FROM_MESSAGES;

const TO_MESSAGES = {
  stop: "end_turn",
  stop_sequence: "stop_sequence",
  tool_calls: "tool_use",
  length: "max_tokens",
  context_full: "model_context_window_exceeded",
  refusal: "refusal",
  content_filter: "refusal",
  pause: "pause_turn",
  bad_tool_call: "end_turn",
  error: "max_tokens",
} as const satisfies Record<FinishReason, StopReason>;

/** An unknown reason ends the turn. A call of the output tool does not count as a tool call. */
export function readFinish(
  stopReason: string | undefined,
  stopSequence: string | undefined,
  detail: string | undefined,
  calls: boolean,
): Finish {
  let reason: FinishReason =
    (stopReason === undefined ? undefined : lookUp(FINISH_REASON_BY_NAME, stopReason)) ?? "stop";
  if (reason === "tool_calls" && !calls) reason = "stop";
  else if (reason === "stop" && calls) reason = "tool_calls";
  return { reason, nativeReason: stopReason, stopSequence, detail };
}

export interface WrittenFinish {
  readonly stop_reason: StopReason;
  readonly stop_sequence: string | null;
  readonly stop_details: {
    readonly type: "refusal";
    readonly category: null;
    readonly explanation: string | null;
  } | null;
}

/** `stop_sequence` requires the sequence; without it the reason is `end_turn`. */
export function writeFinish(
  { reason, stopSequence, detail }: Finish,
  hasRefusal: boolean,
): WrittenFinish {
  let stopReason: StopReason = TO_MESSAGES[reason];
  if (stopReason === "stop_sequence" && stopSequence === undefined) stopReason = "end_turn";
  if (stopReason === "end_turn" && hasRefusal) stopReason = "refusal";
  return {
    stop_reason: stopReason,
    stop_sequence: stopReason === "stop_sequence" ? (stopSequence ?? null) : null,
    stop_details:
      stopReason === "refusal"
        ? { type: "refusal", category: null, explanation: detail ?? null }
        : null,
  };
}
