// Reads the beginning of a provider's reply: all of it where it is not streamed, otherwise up to its first event. Providers
// also send errors with status 200, and those must be found before anything reaches the caller.

import {
  type BodyStream,
  cancelBodyStream,
  cancelRead,
  nextChunk,
  putBack,
  takeIfComplete,
  type UpstreamResponse,
} from "@postern/http-client";
import { createAwsFrameParser, createSseParser, readSse, type SseMessage } from "@postern/wires";
import { startDeadline } from "../../base/async/deadline.ts";
import { type JsonObject, parseObject } from "../../base/json.ts";
import { lookUp } from "../../base/look-up.ts";
import {
  BEDROCK_EXCEPTION_STATUSES,
  errorDataOf,
  isErrorReply,
  statusInError,
} from "./error-replies.ts";
import type { AttemptFailure } from "./failure.ts";

export type UpstreamReply =
  | {
      readonly kind: "whole";
      readonly text: string;
      readonly json: JsonObject;
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "stream";
      readonly body: BodyStream;
      readonly headers: Readonly<Record<string, string>>;
      readonly contentType: string;
    };

type ReadResult =
  | { readonly ok: true; readonly reply: UpstreamReply }
  | { readonly ok: false; readonly failure: AttemptFailure };

export interface ReplyContext {
  readonly isStream: boolean;
  readonly sendsBytes: boolean;
  readonly isStreamOptional: boolean;
  /** The headers that are returned to the caller. */
  readonly headers: Readonly<Record<string, string>>;
  /** Called when the first bytes of a stream arrive. */
  readonly onFirstBytes: () => void;
  readonly firstEventMs: number;
  readonly replyMaxBytes: number;
}

/** How much of a stream is buffered in search of its first event. */
const FIRST_EVENT_MAX_BYTES = 65_536;
const ERROR_BODY_MAX_BYTES = 65_536;

const STREAM_CONTENT_TYPE = /^(text\/event-stream|application\/vnd\.amazon\.eventstream)/i;

const JSON_CONTENT_TYPE = /^application\/(?:[\w.-]+\+)?json/i;

export function readReply(
  reply: UpstreamResponse,
  context: ReplyContext,
): ReadResult | Promise<ReadResult> {
  if (reply.status >= 300) return readErrorReply(reply, context);
  const contentType = reply.headers.get("content-type") ?? "";
  if (context.isStream && STREAM_CONTENT_TYPE.test(contentType))
    return readStreamStart(reply.body, contentType, context);
  // An error is JSON, whatever was asked for.
  if (context.sendsBytes && !JSON_CONTENT_TYPE.test(contentType))
    return readBytesStart(reply.body, contentType, context);
  const body = readBody(reply, context.replyMaxBytes);
  return body instanceof Promise
    ? body.then((read) => toWholeReply(read, context))
    : toWholeReply(body, context);
}

async function readErrorReply(
  reply: UpstreamResponse,
  { headers }: ReplyContext,
): Promise<ReadResult> {
  const body = await readBody(reply, ERROR_BODY_MAX_BYTES);
  const text = body.kind === "text" ? body.text : "";
  return providerError({ status: reply.status, text, headers });
}

function toWholeReply(
  body: BodyResult,
  { isStream, isStreamOptional, sendsBytes, headers }: ReplyContext,
): ReadResult {
  if (body.kind === "cut")
    return connectionLost("the connection was closed before the end of the reply");
  if (body.kind === "too_large") return failed({ kind: "too_long", tail: body.tail });
  if (body.kind !== "text") return malformed(`the reply is ${body.kind}`);
  const { text } = body;
  const json = parseObject(text);
  if (json === undefined) return malformed("the reply is not a JSON object");
  if (isErrorReply(json)) return providerError({ status: statusInError(text), text, headers });
  if (isStream && (sendsBytes || !isStreamOptional)) return malformed("the reply is not a stream");
  return { ok: true, reply: { kind: "whole", text, json, headers } };
}

async function readBytesStart(
  body: BodyStream,
  contentType: string,
  { headers, onFirstBytes }: ReplyContext,
): Promise<ReadResult> {
  try {
    const chunk = await nextChunk(body);
    onFirstBytes();
    if (chunk === undefined)
      return failed({ kind: "incomplete", detail: "the reply is empty", canRetry: true });
    putBack(body, chunk);
    return { ok: true, reply: { kind: "stream", body, headers, contentType } };
  } catch {
    cancelBodyStream(body);
    return connectionLost("the connection was closed before the first byte");
  }
}

// The first event may arrive in several chunks, after comments.
async function readStreamStart(
  body: BodyStream,
  contentType: string,
  { headers, onFirstBytes, firstEventMs }: ReplyContext,
): Promise<ReadResult> {
  const parser = /^text\//i.test(contentType) ? createSseParser() : createAwsFrameParser();
  const started = (read: Uint8Array | undefined): ReadResult => {
    if (read !== undefined) putBack(body, read);
    return { ok: true, reply: { kind: "stream", body, headers, contentType } };
  };
  let isLate = false;
  const clearDeadline = startDeadline(firstEventMs, () => {
    isLate = true;
    cancelRead(body);
  });
  let received: Uint8Array | undefined;
  try {
    for (;;) {
      const chunk = await nextChunk(body);
      onFirstBytes();
      const events = chunk === undefined ? parser.end() : parser.push(chunk);
      if (chunk !== undefined)
        received = received === undefined ? chunk : Buffer.concat([received, chunk]);
      const message = events.map(readSse).find((one) => one !== undefined);
      const error = message === undefined ? undefined : errorDataOf(message);
      if (error !== undefined) {
        cancelBodyStream(body);
        const status = streamErrorStatus(message, error);
        return providerError({ status, text: error, headers });
      }
      if (message !== undefined || isLate || (received?.length ?? 0) > FIRST_EVENT_MAX_BYTES)
        return started(received);
      if (chunk === undefined)
        return failed({
          kind: "incomplete",
          detail: "the stream ended before its first event",
          canRetry: true,
        });
    }
  } catch {
    // A chunk that arrives later stays in the body stream for its next reader.
    if (isLate) return started(received);
    cancelBodyStream(body);
    return connectionLost("the connection was closed before the first event");
  } finally {
    clearDeadline();
  }
}

function streamErrorStatus(message: SseMessage | undefined, error: string): number {
  return lookUp(BEDROCK_EXCEPTION_STATUSES, message?.name ?? "") ?? statusInError(error);
}

function providerError(
  error: Omit<Extract<AttemptFailure, { kind: "provider_error" }>, "kind">,
): ReadResult {
  return failed({ kind: "provider_error", ...error });
}

function connectionLost(detail: string): ReadResult {
  return failed({ kind: "connection_lost", detail, canRetry: true });
}

function malformed(detail: string): ReadResult {
  return failed({ kind: "malformed", detail, canRetry: false });
}

function failed(failure: AttemptFailure): ReadResult {
  return { ok: false, failure };
}

// Reads a reply that is not streamed, up to a limit.

const decoder = new TextDecoder("utf-8", { fatal: true });

type BodyResult =
  | { readonly kind: "text"; readonly text: string }
  /** `tail`: its last bytes, where its usage is. */
  | { readonly kind: "too_large"; readonly tail: string }
  | { readonly kind: "cut" | "not_utf8" };

const TAIL_BYTES = 65_536;

function readBody(reply: UpstreamResponse, maxBytes: number): BodyResult | Promise<BodyResult> {
  // Most replies arrive together with their headers.
  const bytes = takeIfComplete(reply.body, maxBytes);
  return bytes === undefined ? readChunks(reply, maxBytes) : decodeText(bytes);
}

async function readChunks(
  { headers, body }: UpstreamResponse,
  maxBytes: number,
): Promise<BodyResult> {
  const chunks: Uint8Array[] = [];
  let size = Number(headers.get("content-length") ?? 0) > maxBytes ? maxBytes : 0;
  try {
    while (size <= maxBytes) {
      const chunk = await nextChunk(body);
      if (chunk === undefined) return decodeText(Buffer.concat(chunks));
      size += chunk.length;
      chunks.push(chunk);
    }
    return { kind: "too_large", tail: await readTail(body, Buffer.concat(chunks)) };
  } catch {
    // A whole JSON object has its usage, whatever the framing lacks.
    const body = decodeText(Buffer.concat(chunks));
    return body.kind === "text" && parseObject(body.text) !== undefined ? body : { kind: "cut" };
  }
}

/** Reads a body to its end, whose length the deadline of the attempt limits. */
async function readTail(body: BodyStream, first: Uint8Array): Promise<string> {
  let tail = first.subarray(-TAIL_BYTES);
  for (;;) {
    const chunk = await nextChunk(body);
    if (chunk === undefined) return new TextDecoder().decode(tail);
    tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  }
}

function decodeText(bytes: Uint8Array): BodyResult {
  try {
    return { kind: "text", text: decoder.decode(bytes) };
  } catch {
    return { kind: "not_utf8" };
  }
}
