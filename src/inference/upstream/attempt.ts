// Tries candidates until one begins to answer. Nothing has reached the caller yet, so another try costs nobody anything;
// what is the caller's own fault is never tried again.

import { startDeadline } from "../../base/deadline.ts";
import { Fault } from "../../base/fault.ts";
import { createSseParser, readSse } from "../../base/streams/sse.ts";
import type { Abort } from "../../base/abort.ts";
import type { Send } from "../../http-client/client.ts";
import {
  cancelBodyStream,
  type BodyStream,
  nextChunk,
  cancelRead,
} from "../../http-client/body-stream.ts";
import type { UpstreamResponse } from "../../http-client/reply.ts";
import type { ProviderAttempt } from "../../usage/usage.ts";
import type { JsonObject } from "../../base/json.ts";
import { type CircuitBreaker, circuitName } from "../routing/circuit-breaker.ts";
import type { Candidate } from "../routing/candidates.ts";
import { createAwsFrameParser } from "./aws-frames.ts";
import {
  BEDROCK_EXCEPTION_STATUSES,
  errorDataOf,
  isErrorReply,
  parseObject,
  statusInError,
} from "./error-replies.ts";
import { providerErrorFault, upstreamFault, isRetriable } from "./provider-error.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import { readBody, returnedHeaders, sendUpstream, type BodyResult } from "./send.ts";

export interface ReplyTimeouts {
  /** Until the first byte of a stream. */
  readonly firstByteMs: number;
  /** Until the end of a reply that is not streamed. */
  readonly replyMs: number;
}

export interface AttemptDeps {
  readonly breaker: CircuitBreaker;
  readonly sendHttp: Send;
  readonly timeouts: ReplyTimeouts;
  readonly now: () => number;
}

export interface AttemptRequest {
  /** Whose call it is. */
  readonly accountId: string;
  readonly wire: UpstreamWire;
  readonly path?: string | undefined;
  readonly stream: boolean;
  /** Whether it is asked in other words than the caller's. */
  readonly isTranslated: boolean;
  readonly headers: Headers;
  /** Ends the call to the provider: the caller left, or the time is over. */
  readonly abort: Abort;
  readonly body: string;
  /** How often it is tried at most, where a failure need not be waited out because another provider is next. */
  readonly maxAttempts?: number | undefined;
}

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
      /** What has come of it; undefined where its beginning is still awaited. */
      readonly first: Uint8Array | undefined;
      readonly headers: Readonly<Record<string, string>>;
      readonly contentType: string;
    };

export type CandidateResult =
  | {
      readonly ok: true;
      readonly candidate: Candidate;
      readonly reply: UpstreamReply;
      readonly attempts: readonly ProviderAttempt[];
    }
  | {
      readonly ok: false;
      readonly fault: Fault;
      readonly aborted: boolean;
      readonly attempts: readonly ProviderAttempt[];
    };

type AttemptResult =
  | { readonly ok: true; readonly reply: UpstreamReply }
  | {
      readonly ok: false;
      readonly fault: Fault;
      readonly status: number;
      readonly canRetry: boolean;
      readonly aborted?: boolean;
    };

/** Nobody is told, so it is nobody's failure: neither in the log nor where answers are counted. */
const CLIENT_CLOSED_STATUS = 499;
const ATTEMPTS_PER_CANDIDATE = 2;
const BACKOFF_MS = 250;
/** A provider that asks for a longer wait than this is left to the caller's patience. */
const RETRY_AFTER_MAX_MS = 2_000;
/** How long a stream's first event is waited for before the caller is told that it begins. */
const FIRST_EVENT_TIMEOUT_MS = 15_000;
const ERROR_BODY_MAX_BYTES = 65_536;
/** How much of a stream is kept back in search of its first event. */
const FIRST_EVENT_MAX_BYTES = 65_536;

export async function attemptCandidate(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  attempts: ProviderAttempt[],
  deps: AttemptDeps,
): Promise<CandidateResult> {
  const { credential, upstreamName, model } = candidate;
  // A count of tokens has limits of its own at its provider, and costs its caller nothing: its failures are its own.
  const circuitModel =
    attemptRequest.wire === "count_tokens" ? `${upstreamName} count_tokens` : upstreamName;
  const circuit = circuitName(credential.provider.id, credential.label, circuitModel);
  let previousFault: Fault | undefined;
  for (let attempt = 1; ; attempt++) {
    const startedAt = deps.now();
    const waitMs = deps.breaker.admit(circuit, attemptRequest.accountId, startedAt);
    // Where its own first try has opened the circuit, what the provider said then says more.
    if (waitMs > 0) {
      const fault = previousFault ?? circuitOpenFault(candidate, waitMs);
      return { ok: false, fault, aborted: false, attempts };
    }
    const result = await attemptOnce(candidate, attemptRequest, deps).catch((error: unknown) => {
      deps.breaker.releaseProbe(circuit, attemptRequest.accountId);
      throw error;
    });
    const status = result.ok ? 200 : result.status;
    attempts.push({
      provider: credential.provider.id,
      model: model.id,
      status,
      ms: Math.max(0, deps.now() - startedAt),
    });
    if (result.ok) {
      deps.breaker.recordSuccess(circuit);
      return { ok: true, candidate, reply: result.reply, attempts };
    }
    // What is not worth another try, such as a silence that used up the time, may still be the provider's failure.
    if (result.aborted !== true && (result.canRetry || result.status >= 500))
      deps.breaker.recordFailure(circuit, attemptRequest.accountId, deps.now());
    else deps.breaker.releaseProbe(circuit, attemptRequest.accountId);
    const pauseMs = retryDelayMs(result, attempt, attemptRequest.maxAttempts);
    if (pauseMs === undefined || attemptRequest.abort.signal.aborted)
      return { ok: false, fault: result.fault, aborted: result.aborted === true, attempts };
    previousFault = result.fault;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

function retryDelayMs(
  result: AttemptResult & { ok: false },
  attempt: number,
  maxAttempts = ATTEMPTS_PER_CANDIDATE,
): number | undefined {
  if (!result.canRetry || attempt >= maxAttempts) return undefined;
  const retryAfterMs = Number(result.fault.options.headers?.["retry-after"] ?? 0) * 1_000;
  return retryAfterMs <= RETRY_AFTER_MAX_MS
    ? Math.max(retryAfterMs, BACKOFF_MS * attempt)
    : undefined;
}

function circuitOpenFault(candidate: Candidate, waitMs: number): Fault {
  const fault = upstreamFault(candidate.credential, "unreachable", "the circuit is open");
  Object.assign(fault.options, { retryAfterSeconds: waitMs / 1_000 });
  return fault;
}

async function attemptOnce(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  deps: AttemptDeps,
): Promise<AttemptResult> {
  const { credential } = candidate;
  const { wire, stream, headers, abort } = attemptRequest;
  let isTimedOut = false;
  const clearDeadline = startDeadline(
    stream ? deps.timeouts.firstByteMs : deps.timeouts.replyMs,
    () => {
      isTimedOut = true;
      abort.abort();
    },
  );
  try {
    const { path, body } = attemptRequest;
    const request = { wire, headers, signal: abort.signal, path, body };
    const upstream = await sendUpstream(credential, request, deps.sendHttp);
    if (upstream.kind === "answered") {
      const { reply } = upstream;
      const returned = returnedHeaders(reply.headers, deps.now());
      const classified = classifyReply(candidate, attemptRequest, {
        reply,
        headers: returned,
        onFirstBytes: clearDeadline,
      });
      const result = classified instanceof Promise ? await classified : classified;
      if (result.ok || !abort.signal.aborted) return result;
    } else if (upstream.kind === "unreachable") {
      return {
        ok: false,
        fault: upstreamFault(credential, "unreachable", String(upstream.cause)),
        status: 502,
        canRetry: true,
      };
    }
  } finally {
    clearDeadline();
  }
  if (isTimedOut)
    return {
      ok: false,
      fault: upstreamFault(credential, "timed_out", "no answer in time"),
      status: 504,
      canRetry: false,
    };
  return {
    ok: false,
    fault: new Fault("upstream_error", "the caller left", { status: CLIENT_CLOSED_STATUS }),
    status: CLIENT_CLOSED_STATUS,
    canRetry: false,
    aborted: true,
  };
}

interface ReplyContext {
  readonly reply: UpstreamResponse;
  /** Those that go back to the caller. */
  readonly headers: Readonly<Record<string, string>>;
  /** Told when the first bytes of a stream have come: from then on it is not their absence that ends the call. */
  readonly onFirstBytes: () => void;
}

function classifyReply(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  context: ReplyContext,
): AttemptResult | Promise<AttemptResult> {
  const { reply, headers, onFirstBytes } = context;
  if (reply.status >= 300) return rejectedReply(candidate, attemptRequest, headers, reply);
  const contentType = reply.headers.get("content-type") ?? "";
  if (
    attemptRequest.stream &&
    /^(text\/event-stream|application\/vnd\.amazon\.eventstream)/i.test(contentType)
  )
    return beginStream(candidate, attemptRequest, {
      body: reply.body,
      headers,
      contentType,
      onFirstBytes,
    });
  const body = readBody(reply);
  return body instanceof Promise
    ? body.then((read) => classifyBody(candidate, attemptRequest, headers, read))
    : classifyBody(candidate, attemptRequest, headers, body);
}

function classifyBody(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  headers: Readonly<Record<string, string>>,
  body: BodyResult,
): AttemptResult {
  if (body.kind !== "text")
    return malformedReply(candidate, `the reply is ${body.kind}`, body.kind === "cut");
  const json = parseObject(body.text);
  if (json === undefined) return malformedReply(candidate, "the reply is not JSON", false);
  if (isErrorReply(json))
    return {
      ok: false,
      fault: providerErrorFault(
        { ...attemptRequest, status: 502, headers, text: body.text },
        candidate.credential,
      ),
      status: 502,
      canRetry: true,
    };
  if (attemptRequest.stream)
    return malformedReply(candidate, "a stream was asked for and a whole reply came", false);
  return { ok: true, reply: { kind: "whole", text: body.text, json, headers } };
}

async function rejectedReply(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  headers: Readonly<Record<string, string>>,
  reply: UpstreamResponse,
): Promise<AttemptResult> {
  const body = await readBody(reply, ERROR_BODY_MAX_BYTES);
  const { status } = reply;
  const fault = providerErrorFault(
    {
      ...attemptRequest,
      status,
      headers,
      text: body.kind === "text" ? body.text : "",
    },
    candidate.credential,
  );
  return { ok: false, fault, status, canRetry: isRetriable(status) };
}

function malformedReply(candidate: Candidate, detail: string, canRetry: boolean): AttemptResult {
  return {
    ok: false,
    fault: upstreamFault(candidate.credential, "garbled", detail),
    status: 502,
    canRetry,
  };
}

interface StreamStart {
  readonly body: BodyStream;
  readonly headers: Readonly<Record<string, string>>;
  readonly contentType: string;
  readonly onFirstBytes: ReplyContext["onFirstBytes"];
}

// A stream that begins with an error is a failure like any other, as long as nothing of it was passed on: however its first
// event is sliced, and whatever comments stand before it.
async function beginStream(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  start: StreamStart,
): Promise<AttemptResult> {
  const { body, headers, contentType, onFirstBytes } = start;
  const parser = /^text\//i.test(contentType) ? createSseParser() : createAwsFrameParser();
  const started = (first: Uint8Array | undefined): AttemptResult => ({
    ok: true,
    reply: { kind: "stream", body, headers, contentType, first },
  });
  const timedOut = Promise.withResolvers<"late">();
  const clearDeadline = startDeadline(FIRST_EVENT_TIMEOUT_MS, () => {
    cancelRead(body);
    timedOut.resolve("late");
  });
  let received: Uint8Array | undefined;
  try {
    for (;;) {
      const chunk = await Promise.race([nextChunk(body), timedOut.promise]);
      // What is late is not lost: it waits for whoever the inflow flows to next.
      if (chunk === "late") return started(received);
      onFirstBytes();
      const events = chunk === undefined ? parser.end() : parser.push(chunk);
      if (chunk !== undefined)
        received = received === undefined ? chunk : Buffer.concat([received, chunk]);
      const message = events.map(readSse).find((one) => one !== undefined);
      const error = message === undefined ? undefined : errorDataOf(message);
      if (error !== undefined)
        return failedStreamStart(candidate, attemptRequest, start, {
          text: error,
          name: message?.name,
        });
      if (message !== undefined || (received?.length ?? 0) > FIRST_EVENT_MAX_BYTES)
        return started(received);
      if (chunk === undefined)
        return malformedReply(candidate, "the stream ended before its first event", true);
    }
  } catch {
    cancelBodyStream(body);
    return malformedReply(candidate, "the stream broke before its first event", true);
  } finally {
    clearDeadline();
  }
}

function failedStreamStart(
  candidate: Candidate,
  attemptRequest: AttemptRequest,
  { body, headers }: StreamStart,
  { text, name = "" }: { readonly text: string; readonly name: string | undefined },
): AttemptResult {
  cancelBodyStream(body);
  const status = BEDROCK_EXCEPTION_STATUSES[name] ?? statusInError(text);
  const fault = providerErrorFault(
    { ...attemptRequest, status, headers, text },
    candidate.credential,
  );
  return { ok: false, fault, status: fault.status, canRetry: isRetriable(fault.status) };
}
