// Relays a provider's stream to the client, no faster than the client reads, and meters it. The terminal event waits for the
// settlement: a client that has seen the end of its stream is in the ledger, even after a crash.

import { startDeadline, onAborted } from "../../base/deadline.ts";
import { parseJson } from "../../base/json.ts";
import { readSse, type SseEvent, type SseParser } from "../../base/streams/sse.ts";
import { type ResponseSink, streamResponse } from "../../http/response-stream.ts";
import {
  cancelBodyStream,
  pipeTo,
  pauseBodyStream,
  drainOrCancel,
  resumeBodyStream,
} from "../../http-client/body-stream.ts";
import { isReplyComplete, parseEvent, scanEvent } from "../metering/usage/stream-meter.ts";
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
  /** Whether the last event of the provider lacks its blank line. */
  lacksBlank: boolean;
  readonly heldBack: Uint8Array[];
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
    lacksBlank: false,
    heldBack: [],
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
  if (options.first === undefined) send(options, state, options.transform.keepAlive);
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
  if (state.isBackpressured) pauseBodyStream(options.body);
}

// A process that was suspended may have lost its holds: nothing is relayed until the store has confirmed this one.
function relayIfHeld(options: RelayOptions, state: RelayState, chunk: Uint8Array): void {
  if (state.unconfirmed === undefined && options.isHoldCertain())
    return relay(options, state, chunk);
  if (state.unconfirmed !== undefined) {
    state.unconfirmed.push(chunk);
    return;
  }
  state.unconfirmed = [chunk];
  pauseBodyStream(options.body);
  const onConfirmed = (isHeld: boolean): void => {
    const waiting = state.unconfirmed ?? [];
    state.unconfirmed = undefined;
    if (state.hasEnded || state.hasClientLeft) return;
    if (!isHeld) return finish(options, state, "hold_lost");
    for (const bytes of waiting) relay(options, state, bytes);
    if (state.unconfirmedEnd !== undefined) relayEnd(options, state, state.unconfirmedEnd);
    else if (!state.hasEnded && !state.isBackpressured) resumeBodyStream(options.body);
  };
  options.confirmHold().then(onConfirmed, () => onConfirmed(false));
}

function relay(options: RelayOptions, state: RelayState, chunk: Uint8Array): void {
  if (state.hasEnded || state.hasClientLeft) return;
  if (!forward(options, state, chunk) || state.bytes > STREAM_MAX_BYTES)
    finish(options, state, "malformed");
  else if (options.meter.finished)
    finish(options, state, options.meter.failed ? "failed" : "completed");
}

/** `isWhole`: the body came to its end; otherwise the connection was lost. */
function relayEnd(options: RelayOptions, state: RelayState, isWhole: boolean): void {
  if (state.hasEnded || state.hasClientLeft) return;
  if (!forward(options, state, undefined)) finish(options, state, "malformed");
  else if (options.meter.failed) finish(options, state, "failed");
  else if (isCompleteAtClose(options)) finish(options, state, "completed");
  else finish(options, state, isWhole ? "incomplete" : "connection_lost");
}

/** False if the bytes are not a valid event stream, or an event exceeds the parser's limit. */
function forward(options: RelayOptions, state: RelayState, chunk: Uint8Array | undefined): boolean {
  let firstBytes: Uint8Array | undefined;
  let allBytes: Uint8Array[] | undefined;
  try {
    const { parser } = options;
    const single = chunk === undefined ? undefined : parser.parseSingle(chunk);
    if (single !== undefined) {
      emit(options, state, transformEvent(options, state, single));
      return true;
    }
    for (const event of chunk === undefined ? finalEvents(parser, state) : parser.push(chunk)) {
      const bytes = transformEvent(options, state, event);
      if (bytes === undefined) continue;
      if (firstBytes === undefined) firstBytes = bytes;
      else (allBytes ??= [firstBytes]).push(bytes);
    }
  } catch {
    return false;
  }
  emit(options, state, allBytes === undefined ? firstBytes : Buffer.concat(allBytes));
  return true;
}

/** Events without their blank line: an incomplete one is dropped, and a complete one gets the line before the next event. */
function finalEvents(parser: SseParser, state: RelayState): SseEvent[] {
  return parser.end().filter((event) => {
    if (event.isComplete) return true;
    const data = readSse(event)?.data.trim();
    const isWhole = data === "[DONE]" || (data !== undefined && parseJson(data) !== undefined);
    state.lacksBlank = isWhole;
    return isWhole;
  });
}

function withBlankLine(state: RelayState, bytes: Uint8Array): Uint8Array {
  return state.lacksBlank ? Buffer.concat([BLANK_LINE, bytes]) : bytes;
}

const BLANK_LINE = new TextEncoder().encode("\n\n");

// The terminal event, and everything after it, is held back until the call is settled.
function transformEvent(
  options: RelayOptions,
  state: RelayState,
  event: SseEvent,
): Uint8Array | undefined {
  const { meter, transform } = options;
  // What comes after the end is not part of the reply: it is neither metered nor translated, and dropped after an error.
  if (meter.finished) {
    if (!options.parsesAllEvents && !meter.failed) state.heldBack.push(event.raw);
    return undefined;
  }
  const kind = options.parsesAllEvents ? parseEvent(meter, event) : scanEvent(meter, event);
  const transformed =
    kind === "usage" && meter.isUsageFinal
      ? transform.transformUsageEvent(event, options.costUsd())
      : transform.transformEvent(event);
  const bytes =
    transformed !== undefined && meter.failed ? transform.rewriteError(transformed) : transformed;
  const isHeldBack =
    meter.finished ||
    state.heldBack.length > 0 ||
    (options.endsStreamByClosing && isReplyComplete(meter));
  if (bytes === undefined || !isHeldBack) return bytes;
  state.heldBack.push(bytes);
  return undefined;
}

function emit(options: RelayOptions, state: RelayState, bytes: Uint8Array | undefined): void {
  if (bytes === undefined) return;
  options.record?.(bytes);
  send(options, state, bytes);
}

function send(options: RelayOptions, state: RelayState, bytes: Uint8Array): void {
  if (state.sink === undefined || state.hasClientLeft) return;
  if (!state.isBackpressured) state.lastSentAt = options.now();
  const drained = state.sink.write(bytes);
  if (drained === undefined || state.isBackpressured) return;
  state.isBackpressured = true;
  pauseBodyStream(options.body);
  const resume = (): void => {
    state.isBackpressured = false;
    if (!state.hasClientLeft) resumeBodyStream(options.body);
  };
  drained.then(resume, resume);
}

async function settleOnce(
  options: RelayOptions,
  state: RelayState,
  outcome: StreamOutcome,
  isWhole: boolean,
): Promise<void> {
  if (state.hasEnded) return;
  state.hasEnded = true;
  state.stopTimer();
  await options.settle(outcome, isWhole);
}

function finish(options: RelayOptions, state: RelayState, end: StreamEnd): void {
  const isComplete = end === "completed";
  recordEnd(options, state, isComplete);
  if (isComplete) drainOrCancel(options.body);
  else cancelBodyStream(options.body);
  void settleOnce(options, state, outcomeOf(end), isComplete).then(
    () => closeResponse(options, state, end),
    // A call that could not be settled must not look complete.
    () => {
      state.heldBack.length = 0;
      closeResponse(options, state, "unsettled");
    },
  );
}

function outcomeOf(end: StreamEnd): StreamOutcome {
  if (end === "completed") return "completed";
  // The gateway itself ended the stream.
  if (end === "hold_lost" || end === "shut_down") return "shut_down";
  return end === "timed_out" ? "upstream_timeout" : "upstream_error";
}

// The settlement stores the recorded reply, so its last event must be recorded before.
function recordEnd(options: RelayOptions, state: RelayState, isWhole: boolean): void {
  const last = isWhole ? options.transform.finish(options.meter.finished) : undefined;
  if (last !== undefined) state.heldBack.push(withBlankLine(state, last));
  for (const bytes of state.heldBack) options.record?.(bytes);
}

function closeResponse(options: RelayOptions, state: RelayState, end: StreamEnd): void {
  const { sink } = state;
  if (sink === undefined || state.hasClientLeft) return;
  const hasErrorEvent = end === "failed" || (end !== "unsettled" && options.meter.failed);
  const error =
    end === "completed" || hasErrorEvent
      ? undefined
      : options.transform.errorEvent(options.errorBody(end));
  for (const bytes of error === undefined
    ? state.heldBack
    : [...state.heldBack, withBlankLine(state, error)])
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
  const { finished, failed } = options.meter;
  // A reply that was read to its end is charged, and can be replayed. A stream that the provider broke is the provider's
  // failure, as for a client that stays.
  const isWhole = finished ? !failed : hasClosed && isCompleteAtClose(options);
  const isBroken = failed || (hasClosed && !isWhole);
  recordEnd(options, state, isWhole);
  cancelBodyStream(options.body);
  await settleOnce(options, state, isBroken ? "upstream_error" : "client_aborted", isWhole).catch(
    () => {},
  );
}

/**
 * How long to wait for the provider's usage. After the end of the reply too: otherwise a client could avoid paying for
 * hidden tokens, such as reasoning, by leaving before the usage.
 */
function usageWaitMs({ meter, drainMs }: RelayOptions): number {
  if (meter.finished) return 0;
  return isReplyComplete(meter) ? Math.max(drainMs(), USAGE_WAIT_MAX_MS) : drainMs();
}

/** Whether a stream that closed is complete: without its terminal event, only if nothing else can be missing. */
function isCompleteAtClose({ meter, lacksTerminalEvent }: RelayOptions): boolean {
  if (meter.failed) return false;
  return meter.finished || (meter.hasStopReason && (lacksTerminalEvent || meter.isUsageFinal));
}

function onTick(options: RelayOptions, state: RelayState, at: number): void {
  const { idleMs, streamMs } = options.timeouts;
  const isOver = at - state.startedAt > streamMs || options.drainedSignal.aborted;
  // A client that stops reading, or never started, counts as gone, even if its connection is open.
  if (state.sink === undefined || state.isBackpressured) {
    if (!isOver && at - state.lastSentAt <= idleMs) return;
    void onClientGone(options, state);
    state.sink?.abort();
  } else if (options.drainedSignal.aborted) finish(options, state, "shut_down");
  else if (isOver || at - state.lastReceivedAt > idleMs) finish(options, state, "timed_out");
  else if (at - state.lastSentAt >= KEEP_ALIVE_MS)
    send(options, state, options.transform.keepAlive);
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
    const unsubscribe = onAborted(options.shutdownSignal, () => done(false));
    pipeTo(options.body, {
      onData: (bytes) => {
        state.bytes += bytes.length;
        const isRead = forward(options, state, bytes);
        if (!isRead || options.meter.finished || state.bytes > maxBytes) done(false);
      },
      onEnd: () => {
        done(forward(options, state, undefined));
      },
    });
    resumeBodyStream(options.body);
  });
}
