// Sends a call to one candidate, with retries and a circuit breaker, until the reply begins. Nothing has reached the caller
// by then, so an attempt can be repeated. Errors in the caller's request are not retried.

import { type Abort, type AbortSignalLike, createAbort } from "../../base/async/abort.ts";
import { runWhen, startDeadline } from "../../base/async/deadline.ts";
import type { Fault } from "../../base/fault.ts";
import type { Send } from "../../http-client/client.ts";
import type { ProviderAttempt } from "../../usage/usage.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import type { Candidate } from "../routing/candidates.ts";
import { type CircuitBreaker, circuitName } from "../routing/circuit-breaker.ts";
import type { AttemptSample } from "../routing/provider-statistics.ts";
import { type AttemptFailure, type FailedAttempt, toFailedAttempt } from "./failure.ts";
import { outgoingRequest, senderFor, type UpstreamRequest } from "./outgoing-request.ts";
import { readReply, type UpstreamReply } from "./read-upstream-reply.ts";
import { returnedHeaders } from "./reply-headers.ts";
import { transportFault } from "./transport-fault.ts";

export interface ReplyTimeouts {
  /** Until the first byte of a stream. */
  readonly firstByteMs: number;
  /** After this long without a first event, the caller gets the headers of a stream. */
  readonly firstEventMs: number;
  /** Until the end of a reply that is not streamed. */
  readonly replyMs: number;
}

export interface AttemptDeps {
  readonly breaker: CircuitBreaker;
  readonly sendHttp: Send;
  readonly timeouts: ReplyTimeouts;
  readonly now: () => number;
  /** Receives the attempts on the gateway's own accounts. */
  readonly recordAttempt?: (sample: AttemptSample) => void;
}

export interface AttemptRequest extends UpstreamRequest {
  readonly accountId: string;
  readonly stream: boolean;
  /** Whether the body is in another wire format than the caller's. */
  readonly isTranslated: boolean;
  /** Nothing is sent once the caller has left. */
  readonly callerSignal: Pick<AbortSignalLike, "aborted">;
  /** Ends a request that was sent: the caller left and the bill stops, or the process is shutting down. */
  readonly isCanceled: () => boolean;
  /** Fewer than usual where another provider is next, so that no backoff is needed. */
  readonly maxAttempts?: number | undefined;
}

export type CandidateResult =
  | { readonly ok: true; readonly reply: UpstreamReply }
  | FailedCandidate;

export type FailedCandidate = Pick<
  FailedAttempt,
  "ok" | "fault" | "isClientGone" | "wasSent" | "isShutDown"
>;

export const ATTEMPTS_PER_CANDIDATE = 2;
const BACKOFF_MS = 250;
/** If a provider asks for a longer wait, the caller gets its `retry-after` instead. */
const RETRY_AFTER_MAX_MS = 2_000;

/** Each attempt is added to `attempts`, for the usage record. */
export async function attemptCandidate(
  candidate: Candidate,
  request: AttemptRequest,
  attempts: ProviderAttempt[],
  deps: AttemptDeps,
): Promise<CandidateResult> {
  const { credential, model } = candidate;
  const { accountId, callerSignal, isCanceled } = request;
  const { breaker } = deps;
  const circuit = circuitFor(candidate, request.wire);
  const abort = createAbort();
  const unsubscribe = runWhen(isCanceled, abort.abort);
  if (isCanceled()) abort.abort();
  let previousFault: Fault | undefined;
  try {
    for (let attempt = 1; ; attempt++) {
      if (callerSignal.aborted || isCanceled())
        return toFailedAttempt(abortFailure(request, false), request, credential);
      const startedAt = deps.now();
      const waitMs = breaker.admit(circuit, accountId, startedAt);
      if (waitMs > 0) {
        // If the previous attempt opened the circuit, its error says more than the open circuit.
        const fault = previousFault ?? circuitOpenFault(candidate, waitMs);
        return { ok: false, fault, isClientGone: false };
      }
      let result: AttemptResult;
      try {
        result = await attemptOnce(candidate, request, abort, deps);
      } catch (error) {
        breaker.releaseProbe(circuit, accountId);
        throw error;
      }
      const status = result.ok ? 200 : result.status;
      const ms = Math.max(0, deps.now() - startedAt);
      const attempted = { provider: credential.provider.id, model: model.id, status, ms };
      attempts.push(credential.byok ? { ...attempted, byok: true } : attempted);
      // Errors on callers' own keys say nothing about the gateway's accounts.
      if (!credential.byok)
        deps.recordAttempt?.({ ...attempted, stream: request.stream, now: deps.now() });
      if (result.ok) {
        breaker.recordSuccess(circuit);
        return result;
      }
      const { fault } = result;
      if (isProviderFailure(result)) breaker.recordFailure(circuit, accountId, deps.now());
      else breaker.releaseProbe(circuit, accountId);
      const delayMs = retryDelayMs(result, attempt, request.maxAttempts);
      if (delayMs === undefined) return result;
      previousFault = fault;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  } finally {
    unsubscribe();
  }
}

// A provider limits token counts apart from calls, and counting is free, so it has a circuit of its own.
function circuitFor({ credential, upstreamName }: Candidate, wire: UpstreamWire): string {
  const model = wire === "count_tokens" ? `${upstreamName} count_tokens` : upstreamName;
  return circuitName(credential.provider.id, credential.label, model);
}

function circuitOpenFault({ credential }: Candidate, waitMs: number): Fault {
  const fault = transportFault("unreachable", "the circuit is open", credential);
  Object.assign(fault.options, { retryAfterSeconds: waitMs / 1_000 });
  return fault;
}

function retryDelayMs(
  { canRetry, fault }: FailedAttempt,
  attempt: number,
  maxAttempts = ATTEMPTS_PER_CANDIDATE,
): number | undefined {
  if (!canRetry || attempt >= maxAttempts) return undefined;
  const retryAfterMs = Number(fault.options.headers?.["retry-after"] ?? 0) * 1_000;
  return retryAfterMs <= RETRY_AFTER_MAX_MS
    ? Math.max(retryAfterMs, BACKOFF_MS * attempt)
    : undefined;
}

type AttemptResult = { readonly ok: true; readonly reply: UpstreamReply } | FailedAttempt;

async function attemptOnce(
  { credential }: Candidate,
  request: AttemptRequest,
  abort: Abort,
  { sendHttp, timeouts, now }: AttemptDeps,
): Promise<AttemptResult> {
  const isStream = request.stream;
  let isTimedOut = false;
  const clearDeadline = startDeadline(isStream ? timeouts.firstByteMs : timeouts.replyMs, () => {
    isTimedOut = true;
    abort.abort();
  });
  let failure: AttemptFailure;
  let wasSent = false;
  const onSend = (): void => {
    wasSent = true;
  };
  try {
    const send = senderFor(credential, sendHttp);
    const outgoing = outgoingRequest(credential, request, { signal: abort.signal, onSend });
    const response = await send(outgoing).catch(toFailure);
    if ("kind" in response) failure = response;
    else {
      const headers = returnedHeaders(response.headers, now());
      const { firstEventMs } = timeouts;
      const reading = { isStream, headers, onFirstBytes: clearDeadline, firstEventMs };
      const result = await readReply(response, reading);
      if (result.ok) return result;
      ({ failure } = result);
    }
  } finally {
    clearDeadline();
  }
  if (isTimedOut) failure = TIMED_OUT;
  else if (abort.signal.aborted) failure = abortFailure(request, wasSent);
  return toFailedAttempt(failure, request, credential);
}

/** An attempt is aborted because its caller left, or at the end of the drain. */
function abortFailure({ callerSignal }: AttemptRequest, wasSent: boolean): AttemptFailure {
  return callerSignal.aborted ? { kind: "client_closed", wasSent } : { kind: "shut_down" };
}

// A timeout is not retried, yet it is a failure of the provider. A rate limit is not: the provider is up, and its own 429
// tells the caller how long to wait.
function isProviderFailure(result: FailedAttempt): boolean {
  const { status, canRetry, isClientGone, isShutDown } = result;
  if (isClientGone || isShutDown === true || status === 429) return false;
  return canRetry || status >= 500;
}

const TIMED_OUT: AttemptFailure = {
  kind: "timed_out",
  detail: "no reply in time",
  canRetry: false,
};

function toFailure(cause: unknown): AttemptFailure {
  return { kind: "unreachable", detail: String(cause), canRetry: true };
}
