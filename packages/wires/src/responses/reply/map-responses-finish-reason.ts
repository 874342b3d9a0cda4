import type { Response, ResponseStatus } from "openai/resources/responses/responses";
import type { Finish, FinishReason } from "../../canonical/canonical-reply.ts";
import { type JsonObject, objectIn, stringIn, lookUp } from "../../json-fields.ts";

type IncompleteReason = NonNullable<Response.IncompleteDetails["reason"]>;

const FROM_STATUS: Readonly<Record<string, FinishReason>> = {
  completed: "stop",
  incomplete: "length",
  failed: "error",
  cancelled: "error",
  in_progress: "error",
  queued: "error",
} as const satisfies Record<ResponseStatus, FinishReason>;

const FROM_INCOMPLETE: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_messages: "length",
  content_filter: "content_filter",
  steered: "pause",
} as const satisfies Record<IncompleteReason, FinishReason>;

type FinishStatus = readonly ["completed" | "failed"] | readonly ["incomplete", IncompleteReason];

const TO_RESPONSES = {
  stop: ["completed"],
  stop_sequence: ["completed"],
  tool_calls: ["completed"],
  length: ["incomplete", "max_output_tokens"],
  context_full: ["incomplete", "max_output_tokens"],
  refusal: ["incomplete", "content_filter"],
  content_filter: ["incomplete", "content_filter"],
  pause: ["completed"],
  bad_tool_call: ["failed"],
  error: ["failed"],
} as const satisfies Record<FinishReason, FinishStatus>;

/** This API has a status and no finish reason, so the contents decide as well. */
export interface ReplyContents {
  readonly hasToolCalls: boolean;
  readonly hasRefusal: boolean;
}

export function readFinish(response: JsonObject, contents: ReplyContents): Finish {
  const status = stringIn(response["status"]) ?? "completed";
  const cut = stringIn(objectIn(response["incomplete_details"])?.["reason"]);
  const stopSequence = stringIn(response["stop_reason"]);
  let reason: FinishReason =
    (cut === undefined
      ? lookUp(FROM_STATUS, status)
      : (lookUp(FROM_INCOMPLETE, cut) ?? "length")) ?? "stop";
  if (reason === "stop" && contents.hasToolCalls) reason = "tool_calls";
  else if (reason === "stop" && contents.hasRefusal) reason = "refusal";
  else if (reason === "stop" && stopSequence !== undefined) reason = "stop_sequence";
  return {
    reason,
    nativeReason: stringIn(response["native_finish_reason"]) ?? cut ?? status,
    stopSequence,
    detail: stringIn(objectIn(response["error"])?.["message"]),
  };
}

export interface WrittenFinish {
  readonly status: "completed" | "incomplete" | "failed";
  readonly incomplete_details: { readonly reason: IncompleteReason } | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly native_finish_reason?: string;
  readonly stop_reason?: string;
}

/** The provider's own reason is added if it differs. */
export function writeFinish(
  finish: Finish,
  contents: Pick<ReplyContents, "hasRefusal">,
): WrittenFinish {
  const ending: FinishStatus =
    finish.reason === "refusal" && contents.hasRefusal
      ? ["completed"]
      : TO_RESPONSES[finish.reason];
  const [status, cut] = ending;
  const { nativeReason, stopSequence } = finish;
  return {
    status,
    incomplete_details: cut === undefined ? null : { reason: cut },
    error:
      status === "failed"
        ? {
            code: "server_error",
            message: finish.detail ?? "The provider did not complete the response.",
          }
        : null,
    ...(nativeReason !== undefined && nativeReason !== (cut ?? status)
      ? { native_finish_reason: nativeReason }
      : undefined),
    ...(stopSequence === undefined ? undefined : { stop_reason: stopSequence }),
  };
}
