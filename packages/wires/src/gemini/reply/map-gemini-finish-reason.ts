import type { BlockedReason, FinishReason as SdkFinish } from "@google/genai";
import type { Finish, FinishReason } from "../../canonical/canonical-reply.ts";
import { lookUp } from "../../json-fields.ts";

const FROM_GEMINI = {
  FINISH_REASON_UNSPECIFIED: "stop",
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "content_filter",
  RECITATION: "content_filter",
  LANGUAGE: "content_filter",
  OTHER: "error",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  SPII: "content_filter",
  MALFORMED_FUNCTION_CALL: "bad_tool_call",
  UNEXPECTED_TOOL_CALL: "bad_tool_call",
  TOO_MANY_TOOL_CALLS: "bad_tool_call",
  IMAGE_SAFETY: "content_filter",
  IMAGE_PROHIBITED_CONTENT: "content_filter",
  IMAGE_RECITATION: "content_filter",
  IMAGE_OTHER: "content_filter",
  NO_IMAGE: "error",
  CONTINUATION: "pause",
  MALFORMED_RESPONSE: "error",
  MODEL_ARMOR: "content_filter",
  ESCALATION: "content_filter",
  MISSING_THOUGHT_SIGNATURE: "bad_tool_call",
  PUP_LIMITED_DISABLED: "error",
} as const satisfies Record<`${SdkFinish}`, FinishReason>;

const FINISH_REASON_BY_NAME: Readonly<Record<string, FinishReason>> = FROM_GEMINI;

const FROM_BLOCK = {
  BLOCKED_REASON_UNSPECIFIED: "content_filter",
  SAFETY: "content_filter",
  OTHER: "content_filter",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  IMAGE_SAFETY: "content_filter",
  MODEL_ARMOR: "content_filter",
  JAILBREAK: "content_filter",
} as const satisfies Record<`${BlockedReason}`, FinishReason>;

const BLOCK_REASON_BY_NAME: Readonly<Record<string, FinishReason>> = FROM_BLOCK;

/** Gemini has no finish reason for tool calls: it sends STOP, or an error for a call that it returns anyway. */
export function readFinish(
  nativeReason: string | undefined,
  detail: string | undefined,
  hasToolCalls: boolean,
): Finish {
  let reason: FinishReason =
    (nativeReason === undefined ? undefined : lookUp(FINISH_REASON_BY_NAME, nativeReason)) ??
    "stop";
  if (hasToolCalls && (reason === "stop" || reason === "bad_tool_call")) reason = "tool_calls";
  return { reason, nativeReason, detail: reason === "tool_calls" ? undefined : detail };
}

/** A reply to a blocked prompt has no candidates. */
export function readBlockReason(blockReason: string, detail: string | undefined): Finish {
  return {
    reason: lookUp(BLOCK_REASON_BY_NAME, blockReason) ?? "content_filter",
    nativeReason: blockReason,
    detail,
  };
}

const TO_GEMINI = {
  stop: "STOP",
  stop_sequence: "STOP",
  tool_calls: "STOP",
  length: "MAX_TOKENS",
  context_full: "MAX_TOKENS",
  refusal: "SAFETY",
  content_filter: "SAFETY",
  pause: "CONTINUATION",
  bad_tool_call: "MALFORMED_FUNCTION_CALL",
  error: "OTHER",
} as const satisfies Record<FinishReason, `${SdkFinish}`>;

/** The provider's own reason, if it is one of this API. */
export function writeFinish({ reason, nativeReason, detail }: Finish): {
  readonly finishReason: string;
  readonly finishMessage: string | undefined;
} {
  const own = nativeReason === undefined ? undefined : lookUp(FINISH_REASON_BY_NAME, nativeReason);
  const finishReason =
    own === reason && nativeReason !== undefined ? nativeReason : TO_GEMINI[reason];
  return { finishReason, finishMessage: detail };
}
