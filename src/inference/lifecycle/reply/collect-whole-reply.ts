// Makes the whole reply of a provider's stream, so that the hold of a call that is not streamed grows with its reply, too. What
// the hold does not cover is not collected: the stream waits until more is held, or is closed, and the reply ends as at an
// output limit.

import { cancelBodyStream, cancelRead, nextChunk, setFlow } from "@postern/http-client";
import {
  createSseParser,
  createStreamMeter,
  meterEvent,
  readSse,
  type SseEvent,
  type SseParser,
  type StreamCollector,
  type StreamMeter,
  WIRE_TRAITS,
} from "@postern/wires";
import { runWhen, startDeadline } from "../../../base/async/deadline.ts";
import { parseObject } from "../../../base/json.ts";
import {
  arrivedTokens,
  checkHold,
  type HoldEnd,
  isCovered,
  type RollingHold,
} from "../../streaming/rolling-hold.ts";
import type { AttemptRequest, CandidateResult, ReplyTimeouts } from "../../upstream/attempt.ts";
import { errorDataOf, isErrorReply, statusInError } from "../../upstream/error-replies.ts";
import { type AttemptFailure, toFailedAttempt } from "../../upstream/failure.ts";
import type { UpstreamReply } from "../../upstream/read-upstream-reply.ts";
import type { HeldCall } from "../call.ts";
import { lostHoldFault } from "../hold/confirm-hold.ts";
import { spentFault } from "../hold/hold-faults.ts";
import { chargeAbandoned, withinHold } from "./meter.ts";
import { chargeCutStream, cutUsageOf, type RespondStreamDeps } from "./respond-stream.ts";

export interface CollectDeps extends Pick<RespondStreamDeps, "count" | "now"> {
  readonly timeouts: Pick<ReplyTimeouts, "replyMs" | "replyMaxBytes">;
}

type StreamReply = UpstreamReply & { readonly kind: "stream" };

interface Collection {
  readonly call: HeldCall;
  readonly reply: StreamReply;
  readonly maxBytes: number;
  readonly meter: StreamMeter;
  readonly collector: StreamCollector;
  bytes: number;
  /** Whether an event has arrived that the hold does not cover. */
  isWithheld: boolean;
  failure: AttemptFailure | undefined;
  /** Continues a collection that waits for its hold. */
  wake: () => void;
}

export async function collectReply(
  deps: CollectDeps,
  call: HeldCall,
  request: AttemptRequest,
  reply: StreamReply,
): Promise<CandidateResult> {
  const { replyMs, replyMaxBytes } = deps.timeouts;
  const collection = startCollection(call, reply, replyMaxBytes);
  const { roll } = call;
  const stop = (): void => {
    collection.wake();
    if (isOver(collection)) cancelRead(reply.body);
  };
  const fail = (failure: AttemptFailure): void => {
    collection.failure ??= failure;
    stop();
  };
  if (roll !== undefined) roll.onChange = stop;
  const clearDeadline = startDeadline(replyMs, () => fail(TIMED_OUT));
  const unsubscribe = runWhen(request.isCanceled, () => {
    if (roll?.ended === undefined) fail(canceledFailure(request));
  });
  try {
    await readEvents(collection);
  } finally {
    clearDeadline();
    unsubscribe();
    if (roll !== undefined) roll.onChange = () => {};
  }
  const failure = collection.failure ?? incompleteFailure(collection);
  if (failure === undefined) {
    setFlow(reply.body, "discarded");
    return { ok: true, reply: wholeReply(collection) };
  }
  cancelBodyStream(reply.body);
  if (roll?.ended !== undefined && collection.failure === undefined)
    return cutReply(deps, collection, roll.ended);
  const failed = toFailedAttempt(failure, request, call.candidate.credential);
  // The provider bills what it has sent before it fell silent.
  const isBilled = failure === TIMED_OUT && collection.meter.outputBytes > 0;
  if (!isBilled) return failed;
  const { charge } = await chargeAbandoned(call, collection.meter, deps.now());
  return { ...failed, usage: charge.usage };
}

const TIMED_OUT: AttemptFailure = {
  kind: "timed_out",
  detail: "no whole reply in time",
  canRetry: false,
};

function canceledFailure({ callerSignal }: AttemptRequest): AttemptFailure {
  return callerSignal.aborted ? { kind: "client_closed", wasSent: true } : { kind: "shut_down" };
}

function startCollection(call: HeldCall, reply: StreamReply, maxBytes: number): Collection {
  const { plan, candidate, request } = call;
  const { translated: wire, createCollector } = WIRE_TRAITS[plan.wire];
  if (wire === undefined || createCollector === undefined)
    throw new Error(`streams of ${plan.wire} are not collected`);
  return {
    call,
    reply,
    maxBytes,
    meter: createStreamMeter(wire, candidate.credential.provider.id, request.choices),
    collector: createCollector(),
    bytes: 0,
    isWithheld: false,
    failure: undefined,
    wake: () => {},
  };
}

/** A complete reply lacks only its usage, so it is read on although nothing more can be held. */
function isOver({ meter, failure, call: { roll }, isWithheld }: Collection): boolean {
  if (meter.finished || failure !== undefined) return true;
  return roll?.ended !== undefined && (isWithheld || !meter.hasStopReason);
}

/** Until the stream ends, fails, or may not go on. */
async function readEvents(collection: Collection): Promise<void> {
  const { reply } = collection;
  const parser = createSseParser();
  while (!isOver(collection)) {
    const chunk = await nextChunk(reply.body).catch(() => "lost" as const);
    if (isOver(collection)) return;
    const isTooLong = (collection.bytes += chunk?.length ?? 0) > collection.maxBytes;
    const events = chunk === "lost" ? undefined : parse(parser, chunk);
    if (isTooLong) collection.failure = { kind: "too_long", tail: "" };
    else if (chunk === "lost") collection.failure = brokenStream("connection_lost");
    else if (events === undefined) collection.failure = brokenStream("malformed");
    for (const event of events ?? []) {
      if (isOver(collection)) return;
      const waiting = addEvent(collection, event);
      if (waiting !== undefined) await waiting;
    }
    if (chunk === undefined) return;
  }
}

function parse(parser: SseParser, chunk: Uint8Array | undefined): readonly SseEvent[] | undefined {
  try {
    return chunk === undefined ? parser.end() : parser.push(chunk);
  } catch {
    return undefined;
  }
}

function brokenStream(kind: "connection_lost" | "malformed" | "incomplete"): AttemptFailure {
  return { kind, detail: "the stream broke before the end of its reply", canRetry: false };
}

/** A promise if the event has to be held for first. */
function addEvent(collection: Collection, event: SseEvent): Promise<void> | undefined {
  const { meter, call } = collection;
  const { roll } = call;
  meterEvent(meter, event);
  const tokens = arrivedTokens(meter);
  if (roll !== undefined) checkHold(roll, roll.deps.monotonicNow(), tokens);
  if (roll !== undefined && !isCovered(roll, tokens)) return addHeldEvent(collection, event, roll);
  collect(collection, event);
  return undefined;
}

async function addHeldEvent(
  collection: Collection,
  event: SseEvent,
  roll: RollingHold,
): Promise<void> {
  const tokens = arrivedTokens(collection.meter);
  collection.isWithheld = true;
  while (!isOver(collection) || collection.meter.finished) {
    if (isCovered(roll, tokens)) {
      collection.isWithheld = false;
      return collect(collection, event);
    }
    if (roll.ended !== undefined || collection.failure !== undefined) return;
    await new Promise<void>((resolve) => {
      collection.wake = resolve;
      checkHold(roll, roll.deps.monotonicNow(), tokens);
    });
  }
}

function collect(collection: Collection, event: SseEvent): void {
  const message = readSse(event);
  if (message === undefined) return;
  const error = errorDataOf(message);
  const { headers } = collection.reply;
  if (error !== undefined)
    collection.failure ??= providerFailure(statusInError(error), error, headers);
  const data = parseObject(message.data);
  if (data !== undefined) collection.collector.push(data);
}

function providerFailure(
  status: number,
  text: string,
  headers: StreamReply["headers"],
): AttemptFailure {
  return { kind: "provider_error", status, text, headers };
}

/** Undefined for a whole reply. */
function incompleteFailure(collection: Collection): AttemptFailure | undefined {
  const { collector, meter, reply, isWithheld } = collection;
  const json = collector.reply();
  const isComplete = (meter.hasStopReason || meter.finished) && !isWithheld;
  if (json === undefined || !isComplete) return brokenStream("incomplete");
  if (!isErrorReply(json)) return undefined;
  const text = JSON.stringify(json);
  return providerFailure(statusInError(text), text, reply.headers);
}

function wholeReply({ collector, reply }: Collection): UpstreamReply {
  const json = collector.reply() ?? {};
  return { kind: "whole", json, text: JSON.stringify(json), headers: reply.headers };
}

/** The provider's stream is closed, which ended its bill. The reply ends as the provider ends one at an output limit. */
async function cutReply(
  deps: CollectDeps,
  collection: Collection,
  reason: HoldEnd,
): Promise<CandidateResult> {
  const { call, meter, collector } = collection;
  if (reason !== "budget")
    return { ok: false, fault: lostHoldFault(reason), isClientGone: false, isShutDown: true };
  // As before the first event.
  if (collector.reply() === undefined)
    return { ok: false, fault: spentFault(), isClientGone: false, isCut: true };
  const billed = withinHold(call, await chargeCutStream(deps, call, meter));
  call.cut = billed;
  collector.stop(cutUsageOf(billed));
  return { ok: true, reply: wholeReply(collection) };
}
