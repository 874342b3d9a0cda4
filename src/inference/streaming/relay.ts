// Relays a provider's stream to the client, no faster than the client reads, and meters it. The terminal event waits for the
// settlement: if a client has seen the end of its stream, the charge is in the ledger, even after a crash.

import type { ResponseSink, ResponseStreamHandlers } from "../../http/response-stream.ts";
import { completeEvents, errorEventOf, transformChunk, transformEnd } from "./event-pipeline.ts";
import type { RelayOptions, StreamFailure, StreamOutcome } from "./relay-options.ts";

/** `failed`: by an error event of the provider, which the caller has seen. */
type StreamEnd = "completed" | "failed" | StreamFailure;

const KEEP_ALIVE_MS = 15_000;
const STREAM_MAX_BYTES = 256 * 1_048_576;
/** The most bytes that are read for the provider's usage after the client has disconnected. */
const REST_MAX_BYTES = 32 * 1_048_576;

interface RelayState {
  bytes: number;
  lastReceivedAt: number;
  lastSentAt: number;
  readonly startedAt: number;
  /** Undefined until the client reads the response. */
  sink: ResponseSink | undefined;
  /** Whether the stream waits for the client; otherwise it waits for the provider. */
  isBackpressured: boolean;
  hasClientLeft: boolean;
  hasEnded: boolean;
  /** The term of the lease in which the hold was last confirmed. */
  heldTerm: number | undefined;
  /** What arrived while it was uncertain whether the call's credits are still held. */
  unconfirmed: Uint8Array[] | undefined;
  /** Set if the body ended meanwhile; false if the connection was lost. */
  unconfirmedEnd: boolean | undefined;
  /** Limits of what is read after the client has left. */
  restUntil: number;
  restMaxBytes: number;
  stopTimer: () => void;
}

/** The provider's stream as the body of the response. */
export function relayStream(options: RelayOptions): ResponseStreamHandlers {
  const now = options.now();
  const state: RelayState = {
    bytes: 0,
    lastReceivedAt: now,
    lastSentAt: now,
    startedAt: now,
    sink: undefined,
    isBackpressured: false,
    hasClientLeft: false,
    hasEnded: false,
    heldTerm: undefined,
    unconfirmed: undefined,
    unconfirmedEnd: undefined,
    restUntil: Infinity,
    restMaxBytes: Infinity,
    stopTimer: () => {},
  };
  state.stopTimer = options.timer.add((at) => onTick(options, state, at));
  return {
    onStart: (sink) => {
      if (state.hasClientLeft) return sink.abort();
      state.sink = sink;
      readBody(options, state);
      // The headers are sent with the first bytes. If those of the provider are late, a keep-alive is sent before them.
      if (state.bytes === 0 && !state.hasEnded) sendKeepAlive(options, state);
    },
    onClientGone: () => onClientGone(options, state),
  };
}

function readBody(options: RelayOptions, state: RelayState): void {
  options.pipeBody({
    onData: (bytes) => {
      state.lastReceivedAt = options.now();
      state.bytes += bytes.length;
      if (state.hasClientLeft) readRest(options, state, bytes);
      else relayIfHeld(options, state, bytes);
    },
    onEnd: (isWhole) => {
      if (state.unconfirmed !== undefined) state.unconfirmedEnd = isWhole;
      else relayEnd(options, state, isWhole);
    },
  });
}

/** The provider's stream is paused while the client does not read, or while the call's hold is uncertain. */
function updateFlow({ setFlow }: RelayOptions, state: RelayState): void {
  const isBlocked = state.isBackpressured || state.unconfirmed !== undefined;
  setFlow(isBlocked && !state.hasClientLeft ? "paused" : "read");
}

// A process that was suspended may have lost its holds: nothing is relayed until the store has confirmed this one.
function relayIfHeld(options: RelayOptions, state: RelayState, chunk: Uint8Array): void {
  if (state.unconfirmed !== undefined) {
    state.unconfirmed.push(chunk);
    return;
  }
  // Compared here because `confirmHold` reads the whole call, which costs more than the rest of this function.
  const term = options.leaseTerm();
  if (state.heldTerm === term) return relay(options, state, chunk);
  const isHeld = options.confirmHold();
  if (isHeld === true) {
    state.heldTerm = term;
    return relay(options, state, chunk);
  }
  state.unconfirmed = [chunk];
  updateFlow(options, state);
  const onConfirmed = (isConfirmed: boolean): void => {
    const waiting = state.unconfirmed ?? [];
    state.unconfirmed = undefined;
    if (state.hasEnded || state.hasClientLeft) return;
    if (!isConfirmed) return finish(options, state, "hold_lost");
    for (const bytes of waiting) relay(options, state, bytes);
    if (state.unconfirmedEnd !== undefined) relayEnd(options, state, state.unconfirmedEnd);
    else if (!state.hasEnded) updateFlow(options, state);
  };
  isHeld.then(onConfirmed, () => onConfirmed(false));
}

function relay(options: RelayOptions, state: RelayState, chunk: Uint8Array): void {
  if (state.hasEnded || state.hasClientLeft) return;
  if (!forward(options, state, chunk) || state.bytes > STREAM_MAX_BYTES)
    finish(options, state, "malformed");
  else if (options.pipeline.end !== undefined) finish(options, state, options.pipeline.end);
}

/** `isWhole`: the body was received to its end; otherwise the connection was lost. */
function relayEnd(options: RelayOptions, state: RelayState, isWhole: boolean): void {
  if (state.hasEnded) return;
  const isRead = forward(options, state, undefined);
  if (state.hasClientLeft) endAbandoned(options, state, isRead);
  else if (!isRead) finish(options, state, "malformed");
  else finish(options, state, options.pipeline.end ?? (isWhole ? "incomplete" : "connection_lost"));
}

/** False if the bytes are not a valid event stream, or an event exceeds the parser's limit. */
function forward(options: RelayOptions, state: RelayState, chunk: Uint8Array | undefined): boolean {
  const { pipeline } = options;
  let bytes: Uint8Array | undefined;
  try {
    bytes = chunk === undefined ? transformEnd(pipeline) : transformChunk(pipeline, chunk);
  } catch {
    return false;
  }
  if (bytes === undefined) return true;
  options.record?.(bytes);
  send(options, state, bytes, state.lastReceivedAt);
  return true;
}

function sendKeepAlive(options: RelayOptions, state: RelayState): void {
  send(options, state, options.pipeline.transform.keepAlive, options.now());
}

function send(options: RelayOptions, state: RelayState, bytes: Uint8Array, now: number): void {
  if (state.sink === undefined || state.hasClientLeft) return;
  if (!state.isBackpressured) state.lastSentAt = now;
  const drained = state.sink.write(bytes);
  if (drained === undefined || state.isBackpressured) return;
  state.isBackpressured = true;
  updateFlow(options, state);
  const resume = (): void => {
    state.isBackpressured = false;
    if (!state.hasEnded) updateFlow(options, state);
  };
  drained.then(resume, resume);
}

function onTick(options: RelayOptions, state: RelayState, at: number): void {
  const { idleMs, streamMs } = options.timeouts;
  const { drained, forced } = options.shutdownSignals;
  const isOver = at - state.startedAt > streamMs || drained.aborted;
  if (state.hasClientLeft) {
    if (at > state.restUntil || forced.aborted) endAbandoned(options, state, false);
  } else if (state.sink === undefined || state.isBackpressured) {
    // A client that stops reading, or never started, counts as gone, even if its connection is open.
    if (!isOver && at - state.lastSentAt <= idleMs) return;
    onClientGone(options, state);
    state.sink?.abort();
  } else if (drained.aborted) finish(options, state, "shut_down");
  else if (isOver || at - state.lastReceivedAt > idleMs) finish(options, state, "timed_out");
  else if (at - state.lastSentAt >= KEEP_ALIVE_MS) sendKeepAlive(options, state);
}

/** Continues to read, within limits, until the provider's usage arrives. */
function onClientGone(options: RelayOptions, state: RelayState): void {
  if (state.hasClientLeft) return;
  state.hasClientLeft = true;
  if (state.hasEnded) return;
  for (const chunk of state.unconfirmed ?? []) forward(options, state, chunk);
  state.unconfirmed = undefined;
  // Meters the bytes that have arrived.
  if (state.sink === undefined) readBody(options, state);
  if (state.unconfirmedEnd !== undefined) relayEnd(options, state, state.unconfirmedEnd);
  if (state.hasEnded) return;
  const waitMs = options.usageWaitMs();
  if (waitMs === 0) return endAbandoned(options, state, false);
  state.restUntil = options.now() + waitMs;
  state.restMaxBytes = state.bytes + REST_MAX_BYTES;
  updateFlow(options, state);
}

function readRest(options: RelayOptions, state: RelayState, chunk: Uint8Array): void {
  const isRead = forward(options, state, chunk);
  if (!isRead || options.pipeline.end !== undefined || state.bytes > state.restMaxBytes)
    endAbandoned(options, state, false);
}

/** `hasClosed`: the provider's stream was read to its end. */
function endAbandoned(options: RelayOptions, state: RelayState, hasClosed: boolean): void {
  const { end, meter } = options.pipeline;
  // A reply that was read to its end is charged, and can be replayed. A stream that the provider broke is the provider's
  // failure, as for a client that stays.
  const isWhole = end === "completed";
  const isBroken = meter.failed || (hasClosed && !isWhole);
  const outcome = isBroken ? "upstream_error" : "client_aborted";
  settleOnce(options, state, outcome, isWhole).catch(() => {});
}

function finish(options: RelayOptions, state: RelayState, end: StreamEnd): void {
  const isComplete = end === "completed";
  // A call that could not be settled must not look complete.
  const closeIncomplete = (failure: StreamFailure): void => {
    options.pipeline.heldBack.length = 0;
    closeResponse(options, state, failure);
  };
  void settleOnce(options, state, outcomeOf(end), isComplete).then(
    (isUncovered) =>
      isUncovered && isComplete ? closeIncomplete("hold_lost") : closeResponse(options, state, end),
    () => closeIncomplete("unsettled"),
  );
}

function outcomeOf(end: StreamEnd): StreamOutcome {
  if (end === "completed") return "completed";
  // The gateway itself ended the stream.
  if (end === "hold_lost" || end === "shut_down") return "shut_down";
  return end === "timed_out" ? "upstream_timeout" : "upstream_error";
}

/** Returns whether the charge is uncovered. */
async function settleOnce(
  options: RelayOptions,
  state: RelayState,
  outcome: StreamOutcome,
  isWhole: boolean,
): Promise<boolean> {
  if (state.hasEnded) return false;
  state.hasEnded = true;
  state.stopTimer();
  const { pipeline, record, setFlow } = options;
  // The settlement stores the recorded reply, so its last event must be recorded before.
  if (isWhole) completeEvents(pipeline);
  for (const bytes of pipeline.heldBack) record?.(bytes);
  setFlow(isWhole && !state.hasClientLeft ? "discarded" : "canceled");
  const { isUncovered } = await options.settle(outcome, isWhole);
  return isUncovered;
}

function closeResponse(options: RelayOptions, state: RelayState, end: StreamEnd): void {
  const { sink } = state;
  if (sink === undefined || state.hasClientLeft) return;
  const { pipeline } = options;
  const hasErrorEvent = end === "failed" || (end !== "unsettled" && pipeline.meter.failed);
  for (const bytes of pipeline.heldBack) void sink.write(bytes);
  const error =
    end === "completed" || hasErrorEvent
      ? undefined
      : errorEventOf(pipeline, options.errorBody(end));
  if (error !== undefined) void sink.write(error);
  sink.end();
}
