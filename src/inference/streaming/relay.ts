// Relays a provider's stream to the client, no faster than the client reads, and meters it. The terminal event waits for the
// settlement: a client that has seen the end of its stream is in the ledger, even after a crash.

import { startDeadline, onAborted } from "../../base/async/deadline.ts";
import {
  cancelBodyStream,
  pipeTo,
  pauseBodyStream,
  drainOrCancel,
  resumeBodyStream,
} from "../../http-client/body-stream.ts";
import { type ResponseSink, streamResponse } from "../../http/response-stream.ts";
import { isReplyComplete } from "../metering/usage/stream-meter.ts";
import {
  completeEvents,
  isCompleteAtClose,
  transformChunk,
  transformEnd,
  withBlankLine,
} from "./event-pipeline.ts";
import type { RelayOptions, StreamFailure, StreamOutcome } from "./relay-options.ts";

/** `failed`: by an error event of the provider, which the caller has seen. */
type StreamEnd = "completed" | "failed" | StreamFailure;

const KEEP_ALIVE_MS = 15_000;
const STREAM_MAX_BYTES = 256 * 1_048_576;
const DRAIN_MAX_BYTES = 32 * 1_048_576;
/** A provider sends its usage right after the reply, or not at all. */
const USAGE_WAIT_MAX_MS = 10_000;

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
  /** Set if the body ended meanwhile: whether it came to its end. */
  unconfirmedEnd: boolean | undefined;
  stopTimer: () => void;
}

export function relayStream(options: RelayOptions): ReadableStream<Uint8Array> {
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
    stopTimer: () => {},
  };
  state.stopTimer = options.timer.add((at) => onTick(options, state, at));
  return streamResponse({
    onStart: (sink) => {
      if (state.hasClientLeft) return sink.abort();
      state.sink = sink;
      start(options, state);
    },
    onClientGone: () => void onClientGone(options, state),
  });
}

// The headers are sent with the first bytes. If the provider's are late, a keep-alive goes first.
function start(options: RelayOptions, state: RelayState): void {
  if (options.first === undefined) sendKeepAlive(options, state);
  else relayIfHeld(options, state, options.first);
  if (state.hasEnded) return;
  pipeTo(options.body, {
    onData: (bytes) => {
      state.lastReceivedAt = options.now();
      state.bytes += bytes.length;
      relayIfHeld(options, state, bytes);
    },
    onEnd: (isWhole) => {
      if (state.unconfirmed === undefined) relayEnd(options, state, isWhole);
      else state.unconfirmedEnd = isWhole;
    },
  });
  if (isBlocked(state)) pauseBodyStream(options.body);
}

/** The provider's stream is paused while the client does not read, or while the call's hold is uncertain. */
function isBlocked({ isBackpressured, unconfirmed }: RelayState): boolean {
  return isBackpressured || unconfirmed !== undefined;
}

function updateFlow({ body }: RelayOptions, state: RelayState): void {
  if (state.hasClientLeft) return;
  if (isBlocked(state)) pauseBodyStream(body);
  else resumeBodyStream(body);
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
  else if (options.pipeline.meter.finished)
    finish(options, state, options.pipeline.meter.failed ? "failed" : "completed");
}

/** `isWhole`: the body came to its end; otherwise the connection was lost. */
function relayEnd(options: RelayOptions, state: RelayState, isWhole: boolean): void {
  if (state.hasEnded || state.hasClientLeft) return;
  if (!forward(options, state, undefined)) finish(options, state, "malformed");
  else if (options.pipeline.meter.failed) finish(options, state, "failed");
  else if (isCompleteAtClose(options.pipeline)) finish(options, state, "completed");
  else finish(options, state, isWhole ? "incomplete" : "connection_lost");
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
    updateFlow(options, state);
  };
  drained.then(resume, resume);
}

/** Whether the charge is uncovered. */
async function settleOnce(
  options: RelayOptions,
  state: RelayState,
  outcome: StreamOutcome,
  isWhole: boolean,
): Promise<boolean> {
  if (state.hasEnded) return false;
  state.hasEnded = true;
  state.stopTimer();
  const { isUncovered } = await options.settle(outcome, isWhole);
  return isUncovered;
}

function finish(options: RelayOptions, state: RelayState, end: StreamEnd): void {
  const isComplete = end === "completed";
  recordEnd(options, isComplete);
  if (isComplete) drainOrCancel(options.body);
  else cancelBodyStream(options.body);
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

// The settlement stores the recorded reply, so its last event must be recorded before.
function recordEnd({ pipeline, record }: RelayOptions, isWhole: boolean): void {
  if (isWhole) completeEvents(pipeline);
  for (const bytes of pipeline.heldBack) record?.(bytes);
}

function closeResponse(options: RelayOptions, state: RelayState, end: StreamEnd): void {
  const { sink } = state;
  if (sink === undefined || state.hasClientLeft) return;
  const hasErrorEvent = end === "failed" || (end !== "unsettled" && options.pipeline.meter.failed);
  const error =
    end === "completed" || hasErrorEvent
      ? undefined
      : options.pipeline.transform.errorEvent(options.errorBody(end));
  for (const bytes of error === undefined
    ? options.pipeline.heldBack
    : [...options.pipeline.heldBack, withBlankLine(options.pipeline, error)])
    void sink.write(bytes);
  sink.end();
}

async function onClientGone(options: RelayOptions, state: RelayState): Promise<void> {
  state.stopTimer();
  if (state.hasClientLeft) return;
  state.hasClientLeft = true;
  if (state.hasEnded) return;
  if (state.sink === undefined && options.first !== undefined)
    forward(options, state, options.first);
  for (const chunk of state.unconfirmed ?? []) forward(options, state, chunk);
  const ms = usageWaitMs(options);
  const hasClosed = ms > 0 && (await readRemaining(options, state, ms));
  const { finished, failed } = options.pipeline.meter;
  // A reply that was read to its end is charged, and can be replayed. A stream that the provider broke is the provider's
  // failure, as for a client that stays.
  const isWhole = finished ? !failed : hasClosed && isCompleteAtClose(options.pipeline);
  const isBroken = failed || (hasClosed && !isWhole);
  recordEnd(options, isWhole);
  cancelBodyStream(options.body);
  const outcome = isBroken ? "upstream_error" : "client_aborted";
  await settleOnce(options, state, outcome, isWhole).catch(() => {});
}

/**
 * How long to wait for the provider's usage. After the end of the reply too: otherwise a client could avoid paying for
 * hidden tokens, such as reasoning, by leaving before the usage.
 */
function usageWaitMs({ pipeline: { meter }, drainMs }: RelayOptions): number {
  if (meter.finished) return 0;
  return isReplyComplete(meter) ? Math.max(drainMs(), USAGE_WAIT_MAX_MS) : drainMs();
}

function onTick(options: RelayOptions, state: RelayState, at: number): void {
  const { idleMs, streamMs } = options.timeouts;
  const isOver = at - state.startedAt > streamMs || options.shutdownSignals.drained.aborted;
  // A client that stops reading, or never started, counts as gone, even if its connection is open.
  if (state.sink === undefined || state.isBackpressured) {
    if (!isOver && at - state.lastSentAt <= idleMs) return;
    void onClientGone(options, state);
    state.sink?.abort();
  } else if (options.shutdownSignals.drained.aborted) finish(options, state, "shut_down");
  else if (isOver || at - state.lastReceivedAt > idleMs) finish(options, state, "timed_out");
  else if (at - state.lastSentAt >= KEEP_ALIVE_MS) sendKeepAlive(options, state);
}

/** Reads on for the provider's usage, within limits. Returns whether the stream has closed. */
function readRemaining(options: RelayOptions, state: RelayState, maxMs: number): Promise<boolean> {
  const maxBytes = state.bytes + DRAIN_MAX_BYTES;
  return new Promise((resolve) => {
    const done = (hasClosed: boolean): void => {
      clearDeadline();
      unsubscribe();
      resolve(hasClosed);
    };
    const clearDeadline = startDeadline(maxMs, () => done(false));
    const unsubscribe = onAborted(options.shutdownSignals.forced, () => done(false));
    pipeTo(options.body, {
      onData: (bytes) => {
        state.bytes += bytes.length;
        const isRead = forward(options, state, bytes);
        if (!isRead || options.pipeline.meter.finished || state.bytes > maxBytes) done(false);
      },
      onEnd: () => {
        done(forward(options, state, undefined));
      },
    });
  });
}
