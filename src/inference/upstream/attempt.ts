// Sends a call to one candidate, with retries and a circuit breaker, until the reply begins. Nothing has reached the caller
// by then, so an attempt can be repeated. Errors in the caller's request are not retried.

import {
  type Abort,
  type AbortSignalLike,
  createAbort,
  type Send,
  type UpstreamResponse,
} from "@postern/http-client";
import { type Usage, WIRE_TRAITS } from "@postern/wires";
import { runWhen, startDeadline } from "../../base/async/deadline.ts";
import { Fault } from "../../base/fault.ts";
import { memoize } from "../../base/memoize.ts";
import { SECOND_MS } from "../../base/time.ts";
import { GATEWAY_CREDENTIAL } from "../../models/models-file.ts";
import type { ProviderAttempt } from "../../usage/usage.ts";
import type { Credential } from "../providers/credentials.ts";
import type { Candidate } from "../routing/candidates.ts";
import {
  type CircuitBreaker,
  type CircuitCaller,
  circuitName,
  type OpenCircuit,
} from "../routing/circuit-breaker.ts";
import type { CredentialOrder } from "../routing/credential-order.ts";
import type { AttemptSample } from "../routing/provider-statistics.ts";
import { type AttemptFailure, type FailedAttempt, toFailedAttempt } from "./failure.ts";
import { outgoingRequest, senderFor, type UpstreamRequest } from "./outgoing-request.ts";
import { readReply, type UpstreamReply } from "./read-upstream-reply.ts";

export interface ReplyTimeouts {
  /** Until the first byte of a stream. */
  readonly firstByteMs: number;
  /** After this long without a first event, the caller gets the headers of a stream. */
  readonly firstEventMs: number;
  /** Until the end of a reply that is not streamed. */
  readonly replyMs: number;
  /** The most bytes of a reply that is not streamed. */
  readonly replyMaxBytes: number;
}

export interface AttemptDeps {
  readonly breaker: CircuitBreaker;
  readonly sendHttp: Send;
  readonly timeouts: ReplyTimeouts;
  readonly now: () => number;
  /** From 0 to 1; overridden by tests. */
  readonly random?: () => number;
  /** Receives the attempts of paying accounts on the gateway's own accounts. */
  readonly recordAttempt?: (sample: AttemptSample) => void;
  readonly recordRefusal?: CredentialOrder["recordRefusal"];
}

export interface AttemptRequest extends UpstreamRequest {
  readonly accountId: string;
  /** Whether the account has enough paid credit to be a customer's. What other calls cost nothing to cause must not change how this model is routed. */
  readonly isPaying: boolean;
  readonly stream: boolean;
  /** Whether the reply is the bytes of a file. */
  readonly sendsBytes?: boolean;
  /** Whether the provider may ignore that a stream was asked for. */
  readonly isStreamOptional?: boolean;
  /** Whether another candidate can still be tried: a provider that does not answer gets less time. */
  readonly hasFallback?: boolean;
  /** Whether the body is in another wire format than the caller's. */
  readonly isTranslated: boolean;
  /** Counts the tokens of a call, on a wire that also serves calls. */
  readonly isCount?: true;
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
  "ok" | "fault" | "isClientGone" | "wasSent" | "isShutDown" | "tail" | "isTimedOut"
> & {
  /** The gateway ended the attempt because no more credits could be held for it. */
  readonly isCut?: boolean;
  /** Usage of earlier turns of the call, which is charged although this one failed. */
  readonly usage?: Usage | undefined;
};

export const ATTEMPTS_PER_CANDIDATE = 2;
/** The part of a timeout while a fallback is left. */
export const FALLBACK_TIMEOUT_SHARE = 0.5;
const BACKOFF_MS = 250;
const COUNT_OPERATION = "count_tokens";
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
  // Failures on callers' own keys say nothing about the gateway's accounts.
  const isShared = request.isPaying && !credential.byok;
  const caller: CircuitCaller = { accountId, isShared };
  const circuit = circuitFor(candidate, request);
  const abort = createAbort();
  const unsubscribe = runWhen(isCanceled, abort.abort);
  if (isCanceled()) abort.abort();
  let previousFault: Fault | undefined;
  try {
    for (let attempt = 1; ; attempt++) {
      if (callerSignal.aborted || isCanceled())
        return toFailedAttempt(abortFailure(request, false), request, credential);
      const startedAt = deps.now();
      const open = breaker.admit(circuit, caller, startedAt);
      if (open !== undefined) {
        const fault = previousFault ?? circuitOpenFault(candidate, open, deps.random);
        return { ok: false, fault, isClientGone: false };
      }
      let result: AttemptResult;
      try {
        result = await attemptOnce(candidate, request, { abort, circuit }, deps);
      } catch (error) {
        breaker.releaseProbe(circuit, caller);
        throw error;
      }
      const status = result.ok ? 200 : result.status;
      const ms = Math.max(0, deps.now() - startedAt);
      const attempted = { provider: credential.provider.id, model: model.id, status, ms };
      attempts.push({ ...attempted, ...keyOf(credential) });
      const now = deps.now();
      if (isShared) deps.recordAttempt?.({ ...attempted, stream: request.stream, now });
      if (result.ok) {
        breaker.recordSuccess(circuit, caller);
        return result;
      }
      recordFailedAttempt(breaker, circuit, caller, { result, now });
      const retryAfterSeconds = retryAfterOf(result.fault);
      if (isShared) deps.recordRefusal?.(candidate, { status, retryAfterSeconds, now });
      const delayMs = retryDelayMs(result, attempt, request.maxAttempts);
      if (delayMs === undefined) return result;
      previousFault = result.fault;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  } finally {
    unsubscribe();
  }
}

function keyOf({ byok, label }: Credential): Pick<ProviderAttempt, "byok" | "credential"> {
  if (byok) return { byok: true };
  return label === GATEWAY_CREDENTIAL ? {} : { credential: label };
}

function recordFailedAttempt(
  breaker: CircuitBreaker,
  circuit: string,
  caller: CircuitCaller,
  { result, now }: { readonly result: FailedAttempt; readonly now: number },
): void {
  const { fault } = result;
  if (result.isConnectFailure === true) breaker.recordConnectFailure(circuit, { fault, now });
  if (isProviderFailure(result)) breaker.recordFailure(circuit, caller, { fault, now });
  else breaker.releaseProbe(circuit, caller);
}

// A provider limits token counts apart from calls, and counting is free, so it has a circuit of its own.
function circuitFor(
  { credential, upstreamName }: Candidate,
  { wire, isCount }: AttemptRequest,
): string {
  const operation = isCount === true ? COUNT_OPERATION : WIRE_TRAITS[wire].operation;
  const model = operation === undefined ? upstreamName : `${upstreamName} ${operation}`;
  return circuitName(credential.provider.id, credential.label, model);
}

/** Spreads the retries of callers that were refused together. */
const RETRY_JITTER_SECONDS = 2;

// The last error says more than the open circuit. Its text is repeated only to the account that got it: it may quote the
// prompt.
function circuitOpenFault(
  { credential: { provider } }: Candidate,
  { waitMs, fault, isOfOtherAccount }: OpenCircuit,
  random = Math.random,
): Fault {
  const { code, status, options, publicMessage } = fault;
  const message = isOfOtherAccount
    ? `${provider.name} answered recent calls with ${status}. Wait for \`retry-after\` seconds and try again, or use another model.`
    : publicMessage;
  const { "retry-after": _, ...headers } = options.headers ?? {};
  return new Fault(code, "the circuit is open", {
    ...(isOfOtherAccount ? { fields: { provider: provider.id } } : { ...options, headers }),
    message,
    status,
    retryAfterSeconds: waitMs / 1_000 + random() * RETRY_JITTER_SECONDS,
  });
}

function retryDelayMs(
  { canRetry, fault }: FailedAttempt,
  attempt: number,
  maxAttempts = ATTEMPTS_PER_CANDIDATE,
): number | undefined {
  if (!canRetry || attempt >= maxAttempts) return undefined;
  const retryAfterMs = (retryAfterOf(fault) ?? 0) * 1_000;
  return retryAfterMs <= RETRY_AFTER_MAX_MS
    ? Math.max(retryAfterMs, BACKOFF_MS * attempt)
    : undefined;
}

/** As the provider's reply says. */
function retryAfterOf({ options: { headers } }: Fault): number | undefined {
  const text = headers?.["retry-after"];
  return text === undefined ? undefined : Number(text);
}

type AttemptResult = { readonly ok: true; readonly reply: UpstreamReply } | FailedAttempt;

async function attemptOnce(
  { credential }: Candidate,
  request: AttemptRequest,
  { abort, circuit }: { readonly abort: Abort; readonly circuit: string },
  { breaker, sendHttp, timeouts, now }: AttemptDeps,
): Promise<AttemptResult> {
  const isStream = request.stream;
  let isTimedOut = false;
  const clearDeadline = startDeadline(replyTimeoutMs(credential, request, timeouts), () => {
    isTimedOut = true;
    abort.abort();
  });
  let failure: AttemptFailure;
  let wasSent = false;
  const onSend = (): void => {
    wasSent = true;
    breaker.recordConnection(circuit);
  };
  try {
    const send = senderFor(credential, sendHttp);
    const outgoing = outgoingRequest(credential, request, { signal: abort.signal, onSend });
    const response = await send(outgoing).catch(toFailure);
    if ("kind" in response) failure = response;
    else {
      const headers = returnedHeaders(response.headers, now());
      const { firstEventMs, replyMaxBytes } = timeouts;
      const onFirstBytes = clearDeadline;
      const { sendsBytes = false, isStreamOptional = false } = request;
      const kind = { isStream, sendsBytes, isStreamOptional };
      const reading = { ...kind, headers, onFirstBytes, firstEventMs, replyMaxBytes };
      const result = await readReply(response, reading);
      if (result.ok) return result;
      ({ failure } = result);
    }
  } finally {
    clearDeadline();
  }
  if (isTimedOut) failure = TIMED_OUT;
  else if (abort.signal.aborted) failure = abortFailure(request, wasSent);
  const failed = toFailedAttempt(failure, request, credential);
  return failure.kind === "unreachable" && !wasSent
    ? { ...failed, isConnectFailure: true }
    : failed;
}

function replyTimeoutMs(
  { provider }: Credential,
  { stream, hasFallback = false }: AttemptRequest,
  { firstByteMs, replyMs }: ReplyTimeouts,
): number {
  const { requestSeconds = Infinity, streamSeconds = Infinity } = provider.timeouts ?? {};
  const [gatewayMs, seconds] = stream ? [firstByteMs, streamSeconds] : [replyMs, requestSeconds];
  // A provider's own timeout is at most the gateway's, which bounds how long credits are held.
  const timeoutMs = Math.min(gatewayMs, seconds * SECOND_MS);
  return hasFallback ? timeoutMs * FALLBACK_TIMEOUT_SHARE : timeoutMs;
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

/** The headers of a provider's reply that the caller gets. Any other could reveal the gateway's account. */
const RETURNED_HEADERS =
  /^(retry-after|retry-after-ms|x-should-retry|openai-processing-ms|openai-model|x-ratelimit-[a-z0-9-]+|anthropic-ratelimit-[a-z0-9-]+|anthropic-fast-[a-z0-9-]+)$/;

/** Replies repeat the same few names. */
const isReturned = memoize((name: string) => RETURNED_HEADERS.test(name));

function returnedHeaders(
  headers: UpstreamResponse["headers"],
  now: number,
): Record<string, string> {
  const returned: Record<string, string> = {};
  // Iterates over the names alone: an entry would allocate an array, and few headers are returned.
  for (const name of headers.keys()) {
    if (!isReturned(name)) continue;
    const value = headers.get(name) ?? "";
    const text = name === "retry-after" ? retryAfterText(value, now) : value;
    if (text !== undefined) returned[name] = text;
  }
  return returned;
}

const SECONDS = /^\d{1,9}(?:\.\d{1,9})?$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .{1,40} GMT$/;

/** `retry-after` as whole seconds, at least 1; undefined if it is neither seconds nor a date. */
function retryAfterText(value: string, now: number): string | undefined {
  const seconds = SECONDS.test(value)
    ? Number(value)
    : HTTP_DATE.test(value)
      ? (Date.parse(value) - now) / 1_000
      : NaN;
  return Number.isNaN(seconds) ? undefined : String(Math.max(1, Math.ceil(seconds)));
}
