// Relays a provider's stream to the client, no faster than the client reads, and meters it. The terminal event waits for the
// settlement: if a client has seen the end of its stream, the charge is in the ledger, even after a crash.

import { type BodyHandler, pipeTo, setFlow } from "@postern/http-client";
import type { ResponseStreamHandlers } from "../../http/response-stream.ts";
import type { HoldState } from "../../ledger/lease.ts";
import { completeEvents, errorEventOf, transformChunk, transformEnd } from "./event-pipeline.ts";
import {
  outcomeOf,
  type Relay,
  type RelayDeps,
  type RelayOptions,
  type SettledReply,
  type StreamEnd,
  type StreamFailure,
  type StreamSettlement,
} from "./relay-options.ts";
import { arrivedTokens, checkHold, isBehind, isCovered, type RollingHold } from "./rolling-hold.ts";

const KEEP_ALIVE_MS = 15_000;
const EXTEND_HOLD_MS = 60_000;

/** The provider's stream as the body of the response. */
export function relayStream(deps: RelayDeps, options: RelayOptions): ResponseStreamHandlers {
  const now = deps.now();
  const { body, pipeline, drain, extendHold, confirmHold, settle, errorBody, roll } = options;
  const { record, onSent, isStopped, lengthStop, guarded } = options;
  const relay: Relay = {
    deps,
    pipeline,
    record,
    onSent,
    sink: undefined,
    bytes: 0,
    lastReceivedAt: now,
    lastSentAt: now,
    heldTerm: undefined,
    isUnconfirmed: false,
    withheld: undefined,
    dropWithheld: () => {},
    waiting: undefined,
    isBackpressured: false,
    hasClientLeft: false,
    endedBy: undefined,
    hasEnded: false,
    waitingEnd: undefined,
    holdExtendedAt: now,
    body,
    drain,
    extendHold,
    confirmHold,
    isStopped,
    settle,
    errorBody,
    roll,
    guarded,
    lengthStop,
    rest: undefined,
    restUntil: Infinity,
    restMaxBytes: Infinity,
    stopTimer: () => {},
  };
  relay.stopTimer = deps.timer.add((at) => onTick(relay, at));
  if (roll !== undefined) roll.onChange = () => onHoldChange(relay);
  if (guarded !== undefined)
    guarded.onDenied = (waiting) => {
      if (relay.hasClientLeft) readRest(relay, waiting);
      else endResponse(relay, "denied", waiting);
    };
  return {
    onStart: (sink) => {
      if (relay.hasClientLeft) return sink.functions.abort(sink);
      relay.sink = sink;
      pipeTo(body, BODY_HANDLER, relay);
      // The headers are sent with the first bytes. If those of the provider are late, a keep-alive is sent before them.
      if (relay.bytes === 0 && !relay.hasEnded) sendKeepAlive(relay);
    },
    onClientGone: () => onClientGone(relay),
  };
}

const BODY_HANDLER: BodyHandler<Relay> = {
  onData: (bytes, relay) => {
    relay.lastReceivedAt = relay.deps.now();
    relay.bytes += bytes.length;
    if (relay.hasClientLeft) readRest(relay, bytes);
    else relayIfHeld(relay, bytes);
  },
  onEnd: (isWhole, relay) => {
    if (relay.waiting !== undefined) relay.waitingEnd = isWhole;
    else relayEnd(relay, isWhole);
  },
};

/** The provider's stream is paused while the client does not read, or while the call's hold is uncertain or too small. */
function updateFlow(relay: Relay): void {
  const { roll } = relay;
  const isUncovered = roll !== undefined && isBehind(roll);
  const isBlocked = relay.isBackpressured || relay.waiting !== undefined;
  const isPaused = isUncovered || (isBlocked && !relay.hasClientLeft);
  setFlow(relay.body, isPaused ? "paused" : "read");
}

function updateHold(relay: Relay, roll: RollingHold): void {
  checkHold(roll, relay.lastReceivedAt, arrivedTokens(relay.pipeline.meter));
  if (relay.hasEnded) return;
  // No later raise tells it.
  if (roll.ended !== undefined && relay.withheld !== undefined) onHoldChange(relay);
  else if (isBehind(roll)) updateFlow(relay);
}

/** More was held, or the stream must end because no more can be. */
function onHoldChange(relay: Relay): void {
  const { roll, withheld } = relay;
  if (relay.hasEnded || roll === undefined) return;
  // Of a complete reply only the usage is missing.
  const isComplete = relay.pipeline.meter.hasStopReason && withheld === undefined;
  if (roll.ended === undefined || isComplete) return relayWithheld(relay, roll);
  if (roll.ended === "budget") cut(relay);
  else if (relay.hasClientLeft) endAbandoned(relay, false);
  else finish(relay, roll.ended);
}

function relayWithheld(relay: Relay, roll: RollingHold): void {
  const { withheld } = relay;
  if (relay.isUnconfirmed) return;
  if (withheld === undefined) return updateFlow(relay);
  // The raise was decided before all of it had arrived.
  if (!isCovered(roll, arrivedTokens(relay.pipeline.meter))) return updateHold(relay, roll);
  whenHeld(relay, () => {
    relay.withheld = undefined;
    send(relay, withheld, relay.lastReceivedAt);
    const chunks = relay.waiting ?? [];
    relay.waiting = undefined;
    relayAll(relay, chunks);
  });
}

/** Closes the provider's stream, which ends its bill, settles, and ends the response as the API does at an output limit. */
function cut(relay: Relay): void {
  const { hasClientLeft, endedBy } = relay;
  const leftOutcome = endedBy === undefined ? "client_aborted" : outcomeOf(endedBy);
  const settlement: StreamSettlement = {
    outcome: hasClientLeft ? leftOutcome : "budget_cut",
    isWhole: false,
    isAbandoned: true,
    isBillOpen: false,
    isCut: true,
  };
  settleOnce(relay, settlement).then(
    ({ isDeferred, isUncovered, isClamped }) => {
      if (isDeferred) closeResponse(relay, "store_unavailable");
      else if (isUncovered) closeResponse(relay, "hold_lost");
      else closeCut(relay, isClamped === true);
    },
    () => closeResponse(relay, "unsettled"),
  );
}

/** `isClamped`: what was withheld costs more than is held, so the caller does not get it. */
function closeCut(relay: Relay, isClamped: boolean): void {
  const { sink, withheld } = relay;
  if (sink === undefined || relay.hasClientLeft) return;
  if (withheld !== undefined && !isClamped) void sink.functions.write(sink, withheld);
  if (withheld !== undefined && isClamped) relay.dropWithheld();
  const bytes = relay.lengthStop();
  if (bytes !== undefined) void sink.functions.write(sink, bytes);
  sink.functions.end(sink);
}

// A process that was suspended may have lost its holds: nothing is relayed until the store has confirmed this one.
function relayIfHeld(relay: Relay, chunk: Uint8Array): void {
  if (relay.waiting !== undefined) {
    relay.waiting.push(chunk);
    return;
  }
  if (relay.heldTerm === relay.deps.leaseTerm()) return relayChunk(relay, chunk);
  relay.waiting = [chunk];
  whenHeld(relay, () => {
    const [first, ...later] = relay.waiting ?? [];
    relay.waiting = undefined;
    if (first !== undefined) relayChunk(relay, first);
    relayAll(relay, later);
  });
}

/** Continues at once, or when the store has confirmed the hold. */
function whenHeld(relay: Relay, onHeld: () => void): void {
  // Compared here because `confirmHold` reads the whole call.
  const term = relay.deps.leaseTerm();
  if (relay.heldTerm === term) return onHeld();
  const isHeld = relay.confirmHold();
  if (isHeld === "held") {
    relay.heldTerm = term;
    return onHeld();
  }
  relay.isUnconfirmed = true;
  updateFlow(relay);
  const onConfirmed = (state: HoldState): void => {
    relay.isUnconfirmed = false;
    if (relay.hasEnded || relay.hasClientLeft) return;
    if (state === "held") onHeld();
    else finish(relay, state === "lost" ? "hold_lost" : "store_unavailable");
  };
  isHeld.then(onConfirmed, () => onConfirmed("lost"));
}

function relayAll(relay: Relay, chunks: readonly Uint8Array[]): void {
  for (const bytes of chunks) {
    if (relay.hasEnded) return;
    if (relay.hasClientLeft) readRest(relay, bytes);
    else relayIfHeld(relay, bytes);
  }
  if (relay.hasEnded || relay.waiting !== undefined) return;
  if (relay.waitingEnd === undefined) updateFlow(relay);
  else relayEnd(relay, relay.waitingEnd);
}

function relayChunk(relay: Relay, chunk: Uint8Array): void {
  if (relay.hasEnded || relay.hasClientLeft) return;
  const { roll } = relay;
  // No chunk has more bytes of text than bytes.
  if (roll === undefined || isCovered(roll, arrivedTokens(relay.pipeline.meter) + chunk.length)) {
    relayPart(relay, chunk);
    return;
  }
  for (let at = 0; at < chunk.length; at += PART_BYTES) {
    if (relay.waiting !== undefined) {
      relay.waiting.push(chunk.subarray(at));
      return;
    }
    if (relay.hasEnded || relay.hasClientLeft) return;
    relayPart(relay, chunk.subarray(at, at + PART_BYTES));
  }
}

/** If the hold may not cover the rest of a chunk, it is relayed in parts of so many bytes: about an event each. */
const PART_BYTES = 512;

function relayPart(relay: Relay, chunk: Uint8Array): void {
  const { pipeline, roll } = relay;
  if (!forward(relay, chunk)) endResponse(relay, "malformed");
  else if (pipeline.end !== undefined) finish(relay, pipeline.end);
  else if (pipeline.parser.hasCutEvent || relay.bytes > relay.deps.limits.streamMaxBytes)
    endResponse(relay, "too_long");
  if (roll !== undefined && !relay.hasEnded) updateHold(relay, roll);
}

/** `isWhole`: the body was received to its end; otherwise the connection was lost. */
function relayEnd(relay: Relay, isWhole: boolean): void {
  if (relay.hasEnded) return;
  if (!isWhole) relay.pipeline.isCutOff = true;
  const isRead = forward(relay, undefined);
  if (relay.hasClientLeft) endAbandoned(relay, isRead);
  else if (!isRead) endResponse(relay, "malformed");
  else finish(relay, relay.pipeline.end ?? (isWhole ? "incomplete" : "connection_lost"));
}

/** False if the bytes are not a valid event stream, or an event exceeds the parser's limit. */
function forward(relay: Relay, chunk: Uint8Array | undefined): boolean {
  const { pipeline } = relay;
  const { first, latest, items } = pipeline;
  const sentItems = items.length;
  let bytes: Uint8Array | undefined;
  try {
    bytes = chunk === undefined ? transformEnd(pipeline) : transformChunk(pipeline, chunk);
  } catch {
    return false;
  }
  if (bytes === undefined) return true;
  relay.record?.(bytes);
  const { roll, hasClientLeft } = relay;
  if (roll === undefined || hasClientLeft || isCovered(roll, arrivedTokens(relay.pipeline.meter))) {
    send(relay, bytes, relay.lastReceivedAt);
    return true;
  }
  withhold(relay, bytes, () => {
    pipeline.first = first;
    pipeline.latest = latest;
    items.length = sentItems;
  });
  return true;
}

/** Until more is held, or the cost of the reply shows that enough is. */
function withhold(relay: Relay, bytes: Uint8Array, drop: () => void): void {
  const { withheld } = relay;
  if (withheld === undefined) relay.dropWithheld = drop;
  relay.withheld = withheld === undefined ? bytes : Buffer.concat([withheld, bytes]);
  relay.waiting ??= [];
  updateFlow(relay);
}

function sendKeepAlive(relay: Relay): void {
  send(relay, relay.pipeline.transform.keepAlive, relay.deps.now());
}

function send(relay: Relay, bytes: Uint8Array, now: number): void {
  if (relay.sink === undefined || relay.hasClientLeft || bytes.length === 0) return;
  if (!relay.isBackpressured) relay.lastSentAt = now;
  relay.onSent?.(bytes);
  const drained = relay.sink.functions.write(relay.sink, bytes);
  if (drained === undefined || relay.isBackpressured) return;
  relay.isBackpressured = true;
  updateFlow(relay);
  const resume = (): void => {
    relay.isBackpressured = false;
    if (!relay.hasEnded) updateFlow(relay);
  };
  drained.then(resume, resume);
}

function onTick(relay: Relay, at: number): void {
  const { idleMs } = relay.deps.limits;
  const { drained, forced } = relay.deps.shutdownSignals;
  if (relay.hasClientLeft) {
    if (at > relay.restUntil) stopReading(relay);
    else if (forced.aborted) endAbandoned(relay, false);
    return;
  }
  if (relay.lastReceivedAt > relay.holdExtendedAt && at - relay.holdExtendedAt >= EXTEND_HOLD_MS) {
    relay.holdExtendedAt = at;
    relay.extendHold();
  }
  if (relay.isStopped()) return endResponse(relay, "stopped");
  if (relay.sink === undefined || relay.isBackpressured) {
    // A client that stops reading, or never started, counts as gone, even if its connection is open.
    if (!drained.aborted && at - relay.lastSentAt <= idleMs) return;
    onClientGone(relay);
    relay.sink?.functions.abort(relay.sink);
  } else if (drained.aborted) finish(relay, "shut_down");
  else if (at - relay.lastReceivedAt > idleMs) endResponse(relay, "timed_out");
  else if (at - relay.lastSentAt >= KEEP_ALIVE_MS) sendKeepAlive(relay);
}

/** Continues to read, within limits, until the provider's usage arrives. */
function onClientGone(relay: Relay): void {
  if (relay.hasClientLeft) return;
  relay.hasClientLeft = true;
  if (relay.hasEnded) return;
  // Meters the bytes that have arrived.
  if (relay.sink === undefined) pipeTo(relay.body, BODY_HANDLER, relay);
  if (!relay.hasEnded) drainRest(relay);
}

/**
 * Ends the response of a stream that the gateway does not relay further. What was relayed is charged all the same, and so is what
 * waited to be relayed.
 */
function endResponse(relay: Relay, failure: StreamFailure, waiting?: Uint8Array): void {
  closeResponse(relay, failure);
  relay.endedBy = failure;
  relay.hasClientLeft = true;
  if (waiting !== undefined) forward(relay, waiting);
  // What follows malformed bytes cannot be read.
  if (failure === "malformed") endAbandoned(relay, false);
  else drainRest(relay);
}

function drainRest(relay: Relay): void {
  const { waiting = [] } = relay;
  relay.waiting = undefined;
  relay.withheld = undefined;
  for (const chunk of waiting) forward(relay, chunk);
  if (relay.waitingEnd !== undefined) return relayEnd(relay, relay.waitingEnd);
  const rest = relay.drain();
  if (rest.waitMs === 0) return endAbandoned(relay, false);
  relay.rest = rest;
  relay.restUntil = relay.deps.now() + rest.waitMs;
  relay.restMaxBytes = relay.bytes + relay.deps.limits.streamMaxBytes;
  // The hold lives at least as long as the wait.
  relay.extendHold();
  updateFlow(relay);
  void rest.counting?.then(() => {
    if (rest.isKnown()) endAbandoned(relay, false);
  });
}

function readRest(relay: Relay, chunk: Uint8Array): void {
  const { roll } = relay;
  const isRead = forward(relay, chunk);
  if (!isRead || relay.pipeline.end !== undefined || relay.rest?.isKnown() === true)
    endAbandoned(relay, false);
  else if (relay.bytes > relay.restMaxBytes) stopReading(relay);
  if (roll !== undefined && !relay.hasEnded) updateHold(relay, roll);
}

function stopReading(relay: Relay): void {
  settleOnce(relay, {
    outcome: relay.endedBy === undefined ? "client_aborted" : outcomeOf(relay.endedBy),
    isWhole: false,
    isAbandoned: true,
    isBillOpen: relay.rest?.isBillOpen === true,
  }).catch(() => {});
}

/** `hasClosed`: the provider's stream was read to its end. */
function endAbandoned(relay: Relay, hasClosed: boolean): void {
  const { endedBy } = relay;
  const { end, meter } = relay.pipeline;
  // A reply that was read to its end is charged, and can be replayed. A stream that the provider broke is the provider's
  // failure, as for a client that stays.
  const isWhole = end === "completed";
  const isBroken = meter.failed || (hasClosed && !isWhole);
  const ownOutcome = endedBy === undefined ? "client_aborted" : outcomeOf(endedBy);
  settleOnce(relay, {
    outcome: isBroken ? "upstream_error" : ownOutcome,
    isWhole,
    isAbandoned: !isBroken,
    isBillOpen: false,
  }).catch(() => {});
}

function finish(relay: Relay, end: StreamEnd): void {
  const isComplete = end === "completed";
  // A call that could not be settled must not look complete.
  const closeIncomplete = (failure: StreamFailure): void => {
    relay.pipeline.heldBack.length = 0;
    closeResponse(relay, failure);
  };
  const outcome = outcomeOf(end);
  const isAbandoned = outcome === "shut_down";
  const isWithheld = relay.withheld !== undefined;
  const settlement = { outcome, isWhole: isComplete, isAbandoned, isBillOpen: false, isWithheld };
  if (end === "store_unavailable") {
    // The settlement waits for the store.
    closeIncomplete(end);
    settleOnce(relay, settlement).catch(() => {});
    return;
  }
  void settleOnce(relay, settlement).then(
    ({ isUncovered, isDeferred, isClamped }) => {
      if (isComplete && isDeferred) closeIncomplete("store_unavailable");
      else if (isComplete && isUncovered) closeIncomplete("hold_lost");
      else if (isWithheld && isClamped === true) closeCut(relay, true);
      else closeResponse(relay, end);
    },
    () => closeIncomplete("unsettled"),
  );
}

async function settleOnce(relay: Relay, settlement: StreamSettlement): Promise<SettledReply> {
  if (relay.hasEnded) return { isUncovered: false, isDeferred: false };
  relay.hasEnded = true;
  relay.stopTimer();
  const { pipeline, record, body } = relay;
  const { isWhole } = settlement;
  // The settlement stores the recorded reply, so its last event must be recorded before.
  if (isWhole) completeEvents(pipeline);
  for (const bytes of pipeline.heldBack) {
    record?.(bytes);
    if (relay.sink !== undefined && !relay.hasClientLeft) relay.onSent?.(bytes);
  }
  setFlow(body, isWhole && !relay.hasClientLeft ? "discarded" : "canceled");
  return relay.settle(settlement);
}

function closeResponse(relay: Relay, end: StreamEnd): void {
  const { sink } = relay;
  if (sink === undefined || relay.hasClientLeft) return;
  const { pipeline } = relay;
  const isUnsettled = end === "unsettled" || end === "store_unavailable";
  const hasErrorEvent = end === "failed" || (!isUnsettled && pipeline.meter.failed);
  if (relay.withheld !== undefined && end === "completed")
    void sink.functions.write(sink, relay.withheld);
  for (const bytes of pipeline.heldBack) void sink.functions.write(sink, bytes);
  const error =
    end === "completed" || hasErrorEvent ? undefined : errorEventOf(pipeline, relay.errorBody(end));
  if (error !== undefined) void sink.functions.write(sink, error);
  const isBrokenFile = pipeline.bytes?.isReturned === true && end !== "completed";
  sink.functions[isBrokenFile ? "abort" : "end"](sink);
}
