// The messages of a WebSocket on /v1/responses: `response.create` becomes the body of a call, and faults become `error` events.

import { Fault, invalid } from "../../base/fault.ts";
import { type JsonObject, objectIn, parseObject, stringIn } from "../../base/json.ts";
import { rejectUnboundedJson } from "../../http/request/body.ts";
import { memberSpans, withMembers } from "../../inference/request/json-edit.ts";
import { rawItemsOf } from "../expand-request.ts";
import type { PreviousResponse } from "./previous-response.ts";

export interface CreateFrame {
  /** The body of POST /v1/responses. */
  readonly body: string;
  /** Without a call: the client only announces what its next request begins with. */
  readonly isWarmUp: boolean;
  readonly model: string;
  /** Whether it continues the connection's last response. */
  readonly isContinued: boolean;
  /** The stored response that the items continue. */
  readonly baseId: string | undefined;
  /** The items after it, as JSON text without brackets. */
  readonly items: string;
  /** The headers of this request. */
  readonly headers: Readonly<Record<string, string>>;
  /** The stream of the connection that it belongs to, which its events name; undefined without one. */
  readonly streamId: string | undefined;
}

/** Codex acknowledges responses with it; there is nothing to do. */
const ACKNOWLEDGEMENT = "response.processed";
/** Long enough for the id of a response. */
const ACKNOWLEDGEMENT_MAX_LENGTH = 1_024;

const STREAM_ID = /^[A-Za-z0-9_.:-]{1,64}$/;

/** Undefined for a message without effect. */
export function readFrame(
  text: string,
  findPrevious: (streamId: string | undefined, id: unknown) => PreviousResponse | undefined,
): CreateFrame | undefined {
  rejectUnboundedJson(text);
  const json = parseObject(text);
  const spans = json && memberSpans(text);
  if (json === undefined || spans === undefined)
    throw invalid(undefined, "The message is not a JSON object.");
  if (isAcknowledgement(json, text)) return undefined;
  if (json["type"] !== "response.create")
    throw invalid(
      "type",
      "Unknown message `type`. Send `response.create` with the fields of POST /v1/responses.",
    );
  const streamId = readStreamId(json["stream_id"]);
  const previousId = stringIn(json["previous_response_id"]);
  const previous = findPrevious(streamId, previousId);
  const isContinued = previous !== undefined;
  const baseId = isContinued ? previous.baseId : previousId;
  const earlier = isContinued ? previous.items : "";
  const own = rawItemsOf({ spans, text });
  const items = earlier + (earlier !== "" && own !== "" ? "," : "") + own;
  const body = withMembers(text, spans, {
    ...TRANSPORT_MEMBERS,
    ...(isContinued
      ? {
          previous_response_id: baseId === undefined ? undefined : JSON.stringify(baseId),
          input: `[${items}]`,
        }
      : {}),
  });
  return {
    body,
    isWarmUp: json["generate"] === false,
    model: stringIn(json["model"]) ?? "",
    isContinued,
    baseId,
    items,
    headers: headersOf(json["client_metadata"]),
    streamId,
  };
}

/** A header that Codex can only send in the metadata of each request, because the handshake has the headers of all. */
const LITE_METADATA = "ws_request_header_x_openai_internal_codex_responses_lite";
const LITE_HEADER = "x-openai-internal-codex-responses-lite";
const LITE_VALUE = /^[a-z0-9]{1,16}$/;

function headersOf(metadata: unknown): Readonly<Record<string, string>> {
  const lite = stringIn(objectIn(metadata)?.[LITE_METADATA]);
  return lite !== undefined && LITE_VALUE.test(lite) ? { [LITE_HEADER]: lite } : {};
}

function readStreamId(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string" && STREAM_ID.test(value)) return value;
  throw invalid(
    "stream_id",
    "`stream_id` must be a string of up to 64 letters, digits and `_.:-`.",
  );
}

/** The reply to an attempt to steer a response in progress; undefined for other messages. */
export function steerRefusal(text: string): JsonObject | undefined {
  if (!text.includes('"response.steer"')) return undefined;
  rejectUnboundedJson(text);
  const json = parseObject(text);
  if (json?.["type"] !== "response.steer") return undefined;
  return {
    type: "response.steer.failed",
    sequence_number: 0,
    steer: { previous_response_id: stringIn(json["previous_response_id"]) ?? null },
    error: {
      type: "invalid_request_error",
      code: "unsupported_steering",
      message:
        "A response in progress cannot be steered here. Send the input with the next `response.create`.",
    },
  };
}

function isAcknowledgement({ type }: JsonObject, text: string): boolean {
  if (type !== ACKNOWLEDGEMENT) return false;
  if (text.length <= ACKNOWLEDGEMENT_MAX_LENGTH) return true;
  throw invalid(
    undefined,
    `A message of type \`${ACKNOWLEDGEMENT}\` may have at most ${ACKNOWLEDGEMENT_MAX_LENGTH} characters.`,
  );
}

/** Fields that only a connection has, and those that it decides itself. */
const TRANSPORT_MEMBERS = {
  type: undefined,
  stream_id: undefined,
  generate: undefined,
  client_metadata: undefined,
  background: undefined,
  stream: "true",
} as const;

/** The `error` event for an error response. */
export function errorEvent(status: number, body: string, headers: Headers): JsonObject {
  const error = objectIn(parseObject(body)?.["error"]) ?? { message: body };
  const isPrevious =
    error["param"] === "previous_response_id" && (status === 400 || status === 404);
  const wait = headers.get("retry-after");
  return {
    type: "error",
    status,
    // Clients send the whole conversation again after this code.
    error: isPrevious ? { ...error, code: "previous_response_not_found" } : error,
    ...(wait === null ? {} : { headers: { "retry-after": wait } }),
  };
}

export const LIFETIME_EVENT: JsonObject = {
  type: "error",
  status: 400,
  error: {
    type: "invalid_request_error",
    code: "websocket_connection_limit_reached",
    message:
      "The WebSocket has reached its limit of 60 minutes. Open a new connection to continue.",
    param: null,
  },
};

export const QUEUE_FULL_FAULT = new Fault("rate_limited", "too many messages wait on a WebSocket", {
  message:
    "Too many messages wait on this connection, which runs one response at a time. Send the next `response.create` after `response.completed`.",
});

export const BINARY_FAULT = invalid(
  undefined,
  "Binary messages are not supported. Send JSON as text.",
);
