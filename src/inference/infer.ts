// The life of a model call: read, hold, send, relay, meter, settle. Whatever happens on the way, the hold is resolved
// once and a record is written in the same step as the charge.

import { Fault } from "../base/fault.ts";
import { usdText } from "../base/money.ts";
import type { Log } from "../base/log.ts";
import { OPEN_ORIGINS } from "../http/answer.ts";
import type { Caller } from "../http/route.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Catalog } from "../models/catalog.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import type { Attempt, Outcome, UsageRecord } from "../usage/usage.ts";
import { type Api, type Ask, readAsk } from "./ask.ts";
import { type Answered, tryCandidate, type Trial, type TrialResult } from "./attempt.ts";
import type { Breaker } from "./breaker.ts";
import { type Candidate, type CandidateParts, candidatesOf } from "./candidates.ts";
import { type Charged, chargeFor, estimatedUsage, isEmpty, NOTHING, sumsOf } from "./charge.ts";
import { clampedOutput, faultOfHold, holdRequest, type Quote, quoteOf } from "./hold.ts";
import { createSseParser } from "../base/sse.ts";
import { createFrameParser } from "./frames-as-sse.ts";
import { createStreamMeter } from "./meter/meter.ts";
import { type Passage, passageFor } from "./passage.ts";
import { faultOfTrouble } from "./provider-error.ts";
import { relayStream, type StreamEnd } from "./relay-stream.ts";
import { foreignReference, refuseReference } from "./tenant-guard.ts";
import type { Ticker } from "./ticker.ts";
import type { Timeouts } from "./upstream.ts";

/** What the usage room and the idempotency room write in the step that settles a call. */
export interface CallRecord {
  readonly usage: UsageRecord;
  /** The whole answer, where the caller may ask for it again; without one, the request may be run again. */
  readonly idempotent?:
    | { readonly call: IdempotentCall; readonly answer: StoredReply | undefined }
    | undefined;
}

export interface IdempotentCall {
  readonly scope: string;
  readonly key: string;
  readonly body: string;
  readonly now: number;
}

export interface StoredReply {
  readonly status: number;
  readonly body: string;
}

export interface InferParts extends Omit<CandidateParts, "catalog"> {
  readonly catalog: LiveCatalog;
  readonly ledger: Ledger<CallRecord>;
  readonly breaker: Breaker;
  readonly ticker: Ticker;
  readonly timeouts: Timeouts;
  readonly now: () => number;
  readonly log: Log;
  /** A steady name for an account that says nothing about it. */
  readonly pseudonymOf: (accountId: string) => string;
  readonly isClaimed: (accountId: string) => Promise<boolean>;
  readonly pace: { readonly intervalMs: number; readonly burst: number } | undefined;
  readonly openCallsMax: number | undefined;
  /** The error object of an API, for the last event of a stream that broke. */
  readonly errorBody: (api: Api, fault: Fault, requestId: string) => unknown;
  /** Called around every call, so that a shutdown can wait for the money. */
  readonly onOpen: () => () => void;
}

export interface CallInput {
  readonly api: Api;
  readonly text: string;
  readonly caller: Caller;
  readonly requestId: string;
  readonly now: number;
  readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly idempotent: IdempotentCall | undefined;
}

interface Call {
  readonly input: CallInput;
  readonly ask: Ask;
  /** The prices as they were when the call began. */
  readonly catalog: Catalog;
  readonly quote: Quote;
  readonly held: bigint;
  readonly outputMax: number | undefined;
  readonly attempts: Attempt[];
  readonly abort: AbortController;
  readonly closed: () => void;
  /** How the candidate that is being tried is spoken to. */
  passage: Passage | undefined;
}

export async function infer(parts: InferParts, input: CallInput): Promise<Response> {
  const ask = readAsk(input.api, input.text);
  const candidates = await candidatesOf(ask, input.api, input.caller.accountId, {
    ...parts,
    catalog: parts.catalog.current(),
  });
  const reference = foreignReference(ask);
  const usable =
    reference === undefined
      ? candidates
      : candidates.filter((candidate) => candidate.credential.byok);
  const [first, ...others] = usable;
  if (first === undefined) throw refuseReference(reference ?? { path: "model", instead: "" });

  const closed = parts.onOpen();
  let call: Call | undefined;
  let result: TrialResult;
  try {
    call = await hold(parts, input, { ask, candidate: first, closed });
    result = await attempt(parts, call, first);
    for (const next of others) {
      if (result.ok || result.aborted || !mayFallOver(result.fault)) break;
      // The caller's own key cost nothing so far; the gateway's account must be paid for.
      await parts.ledger.settle({ ...idsOf(call), cost: 0n, now: parts.now() });
      call = {
        ...(await hold(parts, input, { ask, candidate: next, closed })),
        attempts: call.attempts,
      };
      result = await attempt(parts, call, next);
    }
    if (result.ok)
      return result.answered.kind === "whole"
        ? await answerWhole(parts, call, result.candidate, result.answered)
        : answerStream(parts, call, result.candidate, result.answered);
    await settleFailed(parts, call, first, result);
  } catch (error) {
    // Nothing stays held, whatever went wrong in here; what is settled already stays as it is.
    if (call !== undefined)
      await parts.ledger.settle({ ...idsOf(call), cost: 0n, now: parts.now() }).catch(() => {});
    closed();
    throw error;
  }
  throw result.fault;
}

/** A failure of one account that another account might not have. */
function mayFallOver(fault: Fault): boolean {
  return fault.status === 429 || fault.status >= 500;
}

async function hold(
  parts: InferParts,
  input: CallInput,
  chosen: { readonly ask: Ask; readonly candidate: Candidate; readonly closed: () => void },
): Promise<Call> {
  const { ask, candidate, closed } = chosen;
  const catalog = parts.catalog.current();
  const quote = quoteOf(ask, candidate.model, candidate.credential.provider, {
    catalog,
    now: input.now,
  });
  const free = candidate.credential.byok ? { ...quote, amount: 0n, minimum: undefined } : quote;
  const request = holdRequest(free, {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    now: input.now,
    expiresAt: input.now + parts.timeouts.totalMs + HOLD_SLACK_MS,
    ...(parts.pace === undefined ? {} : { pace: parts.pace }),
    ...(parts.openCallsMax === undefined ? {} : { openCallsMax: parts.openCallsMax }),
  });
  const outcome = await parts.ledger.hold(request);
  if (outcome.status !== "held") {
    const claimed =
      outcome.status === "insufficient_credits" && (await parts.isClaimed(input.caller.accountId));
    throw faultOfHold(outcome, quote, { ask, claimed });
  }
  const outputMax = candidate.credential.byok
    ? undefined
    : clampedOutput(quote, outcome.amount, ask.choices);
  return {
    input,
    ask,
    catalog,
    quote,
    held: outcome.amount,
    outputMax,
    attempts: [],
    abort: new AbortController(),
    closed,
    passage: undefined,
  };
}

const HOLD_SLACK_MS = 60_000;

async function attempt(parts: InferParts, call: Call, candidate: Candidate): Promise<TrialResult> {
  const { input, ask } = call;
  const passage = passageFor(ask, candidate, {
    requestId: input.requestId,
    now: input.now,
    adjust: {
      pseudonym: () => parts.pseudonymOf(input.caller.accountId),
      outputMax: call.outputMax,
    },
  });
  call.passage = passage;
  const trial: Trial = {
    wire: passage.wire,
    path: passage.path,
    stream: ask.stream,
    headers: input.headers,
    abort: call.abort,
    body: passage.body,
  };
  // Where leaving does not end the bill, the call goes on without the caller, to the provider's own count.
  const leave = (): void => {
    if (stopsBilling(candidate)) call.abort.abort();
  };
  input.signal.addEventListener("abort", leave);
  try {
    if (input.signal.aborted) leave();
    return await tryCandidate(candidate, trial, call.attempts, parts);
  } finally {
    // A stream that has begun learns by its own cancellation that its reader is gone.
    input.signal.removeEventListener("abort", leave);
  }
}

/** Whether closing the connection ends the bill, or the bill is not the gateway's. */
function stopsBilling({ credential }: Candidate): boolean {
  return credential.provider.stopsBillingOnAbort || credential.byok;
}

async function settleFailed(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  result: TrialResult & { ok: false },
): Promise<void> {
  const outcome: Outcome = result.aborted
    ? "client_aborted"
    : result.fault.code === "upstream_timeout"
      ? "upstream_timeout"
      : "upstream_error";
  await settle(parts, call, candidate, {
    charged: NOTHING,
    outcome,
    status: result.aborted ? 499 : result.fault.status,
  });
}

async function answerWhole(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  answered: Answered & { kind: "whole" },
): Promise<Response> {
  const { input } = call;
  const passage = passageOf(call);
  const usage = passage.usageOf(answered.json);
  const charged = usage === undefined ? NOTHING : chargeFor(usage, contextOf(call, candidate));
  const costUsd = usdText(costOf(charged, candidate));
  const body = passage.whole(answered, usage, costUsd);
  const outcome = input.signal.aborted ? "client_aborted" : "completed";
  await settle(parts, call, candidate, {
    charged,
    outcome,
    status: 200,
    reply: { status: 200, body },
  });
  const headers = {
    ...answered.headers,
    ...ownHeaders(call, candidate),
    "content-type": "application/json",
    "x-postern-cost-usd": costUsd,
  };
  return new Response(body, { headers });
}

function answerStream(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  answered: Answered & { kind: "stream" },
): Response {
  const { input, ask } = call;
  if (ask.api === "embeddings") throw new Error("embeddings are not streamed");
  const { api } = ask;
  const { provider } = candidate.credential;
  const passage = passageOf(call);
  const { wire } = passage;
  if (wire === "embeddings" || wire === "count_tokens") throw new Error(`${wire} is not streamed`);
  const meter = createStreamMeter(wire, provider.id);
  const kept = input.idempotent === undefined ? undefined : createKeeper();
  const costUsd = (): string | undefined => {
    const usage = meter.usage();
    if (usage === undefined) return undefined;
    return usdText(costOf(chargeFor(usage, contextOf(call, candidate)), candidate));
  };
  const stream = relayStream({
    reader: answered.reader,
    first: answered.first,
    parser: wire === "converse" ? createFrameParser() : createSseParser(),
    meter,
    shape: passage.shape(costUsd),
    ticker: parts.ticker,
    timeouts: parts.timeouts,
    now: parts.now,
    endsByClosing: provider.endsByClosing && !passage.isTranslated,
    stopsBillingOnAbort: stopsBilling(candidate),
    costUsd,
    settle: (end: StreamEnd) => {
      const charged = chargedAtEnd(call, candidate, { end, meter });
      return settle(parts, call, candidate, {
        charged,
        outcome: end,
        status: 200,
        reply: kept?.reply(),
        firstTokenMs,
      });
    },
    failure: (end) =>
      parts.errorBody(
        api,
        faultOfTrouble(
          candidate.credential,
          end === "upstream_timeout" ? "timed_out" : "garbled",
          end,
        ),
        input.requestId,
      ),
    abortUpstream: () => call.abort.abort(),
    ...(kept === undefined ? {} : { keep: kept.keep }),
  });
  const firstTokenMs = parts.now() - input.now;
  const headers = {
    ...answered.headers,
    ...ownHeaders(call, candidate),
    "content-type": passage.isTranslated
      ? "text/event-stream; charset=utf-8"
      : answered.contentType,
    "cache-control": "no-store",
    "x-accel-buffering": "no",
  };
  return new Response(stream, { headers });
}

function passageOf({ passage }: Call): Passage {
  if (passage === undefined) throw new Error("a call was answered that was never sent");
  return passage;
}

interface Ending {
  readonly end: StreamEnd;
  readonly meter: ReturnType<typeof createStreamMeter>;
}

function chargedAtEnd(call: Call, candidate: Candidate, { end, meter }: Ending): Charged {
  const usage = meter.usage();
  const context = contextOf(call, candidate);
  const final = usage !== undefined && meter.exact();
  if (end === "client_aborted" && !final) {
    const { outputBytes } = meter.relayed();
    if (outputBytes === 0 && usage === undefined) return NOTHING;
    const charged = chargeFor(estimatedUsage(usage, outputBytes, call.ask.text.length), context);
    return {
      ...charged,
      exact: false,
      cost: charged.cost > call.held && !candidate.credential.byok ? call.held : charged.cost,
    };
  }
  if (!final || (end !== "completed" && end !== "client_aborted" && isEmpty(usage))) return NOTHING;
  return chargeFor(usage, context);
}

function contextOf(call: Call, candidate: Candidate) {
  return {
    catalog: call.catalog,
    model: candidate.model,
    quote: call.quote,
    held: call.held,
    at: call.input.now,
  };
}

function costOf(charged: Charged, candidate: Candidate): bigint {
  return candidate.credential.byok ? 0n : charged.cost;
}

function idsOf(call: Call): {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
} {
  return { id: call.input.requestId, ...call.input.caller };
}

function ownHeaders(call: Call, candidate: Candidate): Record<string, string> {
  const headers: Record<string, string> = {
    ...OPEN_ORIGINS,
    "x-request-id": call.input.requestId,
    "x-postern-provider": candidate.credential.provider.id,
    "x-postern-byok": String(candidate.credential.byok),
  };
  const dropped = call.passage?.dropped ?? [];
  if (dropped.length > 0) headers["x-postern-dropped"] = [...new Set(dropped)].join(", ");
  if (call.outputMax !== undefined) headers["x-postern-max-tokens"] = String(call.outputMax);
  return headers;
}

interface Settlement {
  readonly charged: Charged;
  readonly outcome: Outcome;
  readonly status: number;
  readonly reply?: StoredReply | undefined;
  readonly firstTokenMs?: number;
}

async function settle(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  settlement: Settlement,
): Promise<void> {
  const { charged, outcome } = settlement;
  const now = parts.now();
  const cost = costOf(charged, candidate);
  const usage = recordOf(call, candidate, settlement, now);
  const answer = outcome === "completed" ? settlement.reply : undefined;
  const idempotent =
    call.input.idempotent === undefined ? undefined : { call: call.input.idempotent, answer };
  if (charged.gaps.length > 0)
    parts.log.warn("billed by a rule for want of a price", {
      request_id: usage.id,
      model: usage.model,
      gaps: charged.gaps,
    });
  try {
    const settled = await parts.ledger.settle({
      ...idsOf(call),
      cost,
      now,
      record: { usage, idempotent },
    });
    if (settled.status === "settled" && settled.overrun > 0n)
      parts.log.warn("a call cost more than could be charged", {
        request_id: usage.id,
        model: usage.model,
        overrun_usd: usdText(settled.overrun),
      });
  } finally {
    call.closed();
  }
}

function recordOf(
  call: Call,
  candidate: Candidate,
  settlement: Settlement,
  now: number,
): UsageRecord {
  const { input, ask } = call;
  const { charged } = settlement;
  return {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    createdAt: input.now,
    model: candidate.model.id,
    provider: candidate.credential.provider.id,
    api: ask.api,
    stream: ask.stream,
    outcome: settlement.outcome,
    status: settlement.status,
    ...sumsOf(charged.usage),
    price: charged.lines,
    attempts: call.attempts,
    cost: costOf(charged, candidate),
    byok: candidate.credential.byok,
    exact: charged.exact,
    latencyMs: Math.max(0, now - input.now),
    firstTokenMs: settlement.firstTokenMs ?? null,
  };
}

const KEPT_MAX_BYTES = 8 * 1_048_576;

// A reply beyond the bound is not kept; a repetition of its request is told so instead of being run again.
function createKeeper(): {
  readonly keep: (bytes: Uint8Array) => void;
  readonly reply: () => StoredReply;
} {
  const parts: Uint8Array[] = [];
  let size = 0;
  return {
    keep: (bytes) => {
      size += bytes.length;
      if (size <= KEPT_MAX_BYTES) parts.push(bytes);
    },
    reply: () =>
      size <= KEPT_MAX_BYTES
        ? { status: 200, body: new TextDecoder().decode(Buffer.concat(parts)) }
        : { status: 409, body: "" },
  };
}
