// Relays a provider's stream: as it comes, no faster than the caller reads, metered as it goes by. The terminal event
// waits until the money is settled, so that whoever saw the end is in the ledger after any crash.

import { startDeadline, onAborted } from "../../base/deadline.ts";
import type { JsonObject } from "../../base/json.ts";
import { readSse, type SseEvent, type SseParser } from "../../base/streams/sse.ts";
import type { AbortSignalLike } from "../../base/abort.ts";
import { type ResponseSink, streamResponse } from "../../http/response-stream.ts";
import {
  cancelBodyStream,
  pipeTo,
  type BodyStream,
  pauseBodyStream,
  drainOrCancel,
  resumeBodyStream,
} from "../../http-client/body-stream.ts";
import {
  isReplyComplete,
  parseJson,
  parseEvent,
  type StreamMeter,
  scanEvent,
} from "../metering/usage/stream-meter.ts";
import type { StreamTransform } from "../translate/stream-transform.ts";
import type { SharedTimer } from "./shared-timer.ts";

/** How a stream ended, as its usage record says it. */
export type StreamOutcome = "completed" | "client_aborted" | "upstream_error" | "upstream_timeout";

/** Why a stream ended without the provider saying why. */
export type StreamFailure =
  | "timed_out"
  | "connection_lost"
  | "incomplete"
  | "malformed"
  | "unsettled";

/** `failed`: by an error event of the provider, which the caller has seen. */
type StreamEnd = "completed" | "failed" | StreamFailure;

export interface StreamTimeouts {
  /** Between two chunks of a stream. */
  readonly idleMs: number;
  /** For the whole stream, from its first byte. */
  readonly streamMs: number;
}

export interface RelayOptions {
  /** What the provider sends, after `first`. */
  readonly body: BodyStream;
  /** What was already read in order to see that the stream begins well. */
  readonly first: Uint8Array | undefined;
  /** Cuts the provider's bytes into events. */
  readonly parser: SseParser;
  readonly meter: StreamMeter;
  /** Whether every event is read in full anyway. */
  readonly parsesAllEvents: boolean;
  readonly transform: StreamTransform;
  readonly timer: SharedTimer;
  readonly timeouts: StreamTimeouts;
  readonly now: () => number;
  /** Whether the stream's end is its closing: then all from the answer's end on waits for the settle. */
  readonly endsStreamByClosing: boolean;
  /** Whether a stream of this provider has no event of its own for its end. */
  readonly lacksTerminalEvent: boolean;
  /** How long the provider is read on for its count after the reader has left in the midst of the answer. */
  readonly drainMs: number;
  /** Aborted when the process ends, and there is no time left for that. */
  readonly shutdownSignal: Pick<AbortSignalLike, "aborted">;
  /** The cost of what the meter knows, as it is shown. */
  readonly costUsd: () => string | undefined;
  /** Settles, once; the stream's last event waits for it. `isWhole`: the provider said all that it had to say. */
  readonly settle: (outcome: StreamOutcome, isWhole: boolean) => Promise<void>;
  /** The body of this API's error event for a stream that broke. */
  readonly errorBody: (failure: StreamFailure) => JsonObject;
  /** Keeps what is sent, for an idempotent repetition. */
  readonly record?: (bytes: Uint8Array) => void;
}

const KEEP_ALIVE_MS = 15_000;
const STREAM_MAX_BYTES = 256 * 1_048_576;
const DRAIN_MAX_BYTES = 32 * 1_048_576;
/** The provider's count follows the end of the answer at once, or not at all. */
const USAGE_WAIT_MAX_MS = 10_000;

interface RelayState {
  bytes: number;
  lastReceivedAt: number;
  lastSentAt: number;
  readonly startedAt: number;
  /** The reader's end, once it asks for the stream. */
  sink: ResponseSink | undefined;
  /** Whether the reader is waited for; otherwise it is the provider. */
  isBackpressured: boolean;
  /** Whether the reader is gone. */
  hasClientLeft: boolean;
  hasEnded: boolean;
  /** Whether the provider's last event was not ended by a blank line. */
  lacksBlank: boolean;
  readonly heldBack: Uint8Array[];
  stopTimer: () => void;
}

export function relayStream(deps: RelayOptions): ReadableStream<Uint8Array> {
  const now = deps.now();
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
    stopTimer: () => {},
  };
  state.stopTimer = deps.timer.add((at) => onTick(deps, state, at));
  return streamResponse({
    onStart: (outlet) => {
      if (state.hasClientLeft) return outlet.abort();
      state.sink = outlet;
      start(deps, state);
    },
    onClientGone: () => void onClientGone(deps, state),
  });
}

// The headers leave with the first bytes: where the stream's own are late, a sign of life goes first.
function start(deps: RelayOptions, state: RelayState): void {
  if (deps.first === undefined) send(deps, state, deps.transform.keepAlive);
  else relay(deps, state, deps.first);
  if (state.hasEnded) return;
  pipeTo(deps.body, {
    onData: (bytes) => {
      state.lastReceivedAt = deps.now();
      state.bytes += bytes.length;
      relay(deps, state, bytes);
    },
    onEnd: (isWhole) => relayEnd(deps, state, isWhole),
  });
  if (state.isBackpressured) pauseBodyStream(deps.body);
}

function relay(deps: RelayOptions, state: RelayState, chunk: Uint8Array): void {
  if (state.hasEnded || state.hasClientLeft) return;
  if (!forward(deps, state, chunk) || state.bytes > STREAM_MAX_BYTES)
    finish(deps, state, "malformed");
  else if (deps.meter.finished) finish(deps, state, deps.meter.failed ? "failed" : "completed");
}

/** `isWhole`: the body came to its end; otherwise the connection was lost. */
function relayEnd(deps: RelayOptions, state: RelayState, isWhole: boolean): void {
  if (state.hasEnded || state.hasClientLeft) return;
  if (!forward(deps, state, undefined)) finish(deps, state, "malformed");
  else if (deps.meter.failed) finish(deps, state, "failed");
  else if (isCompleteAtClose(deps)) finish(deps, state, "completed");
  else finish(deps, state, isWhole ? "incomplete" : "connection_lost");
}

/** False where it is no stream of events: one beyond the parser's limit is a fault of the provider. */
function forward(deps: RelayOptions, state: RelayState, chunk: Uint8Array | undefined): boolean {
  let firstBytes: Uint8Array | undefined;
  let allBytes: Uint8Array[] | undefined;
  try {
    const { parser } = deps;
    const single = chunk === undefined ? undefined : parser.parseSingle(chunk);
    if (single !== undefined) {
      emit(deps, state, transformEvent(deps, state, single));
      return true;
    }
    for (const event of chunk === undefined ? finalEvents(parser, state) : parser.push(chunk)) {
      const bytes = transformEvent(deps, state, event);
      if (bytes === undefined) continue;
      if (firstBytes === undefined) firstBytes = bytes;
      else (allBytes ??= [firstBytes]).push(bytes);
    }
  } catch {
    return false;
  }
  emit(deps, state, allBytes === undefined ? firstBytes : Buffer.concat(allBytes));
  return true;
}

/** What is left without its blank line: of one that was cut nothing is passed on, and before what follows a whole one stands that line. */
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

// The last event goes to `waiting`, and with it whatever comes after: it is sent when the money is settled.
function transformEvent(
  deps: RelayOptions,
  state: RelayState,
  event: SseEvent,
): Uint8Array | undefined {
  const { meter, transform } = deps;
  // What comes after the end is not part of the reply: it is neither metered nor translated, and dropped after an error.
  if (meter.finished) {
    if (!deps.parsesAllEvents && !meter.failed) state.heldBack.push(event.raw);
    return undefined;
  }
  const kind = deps.parsesAllEvents ? parseEvent(meter, event) : scanEvent(meter, event);
  const transformed =
    kind === "usage" && meter.isUsageFinal
      ? transform.transformUsageEvent(event, deps.costUsd())
      : transform.transformEvent(event);
  const bytes =
    transformed !== undefined && meter.failed ? transform.rewriteError(transformed) : transformed;
  const isHeldBack =
    meter.finished ||
    state.heldBack.length > 0 ||
    (deps.endsStreamByClosing && isReplyComplete(meter));
  if (bytes === undefined || !isHeldBack) return bytes;
  state.heldBack.push(bytes);
  return undefined;
}

function emit(deps: RelayOptions, state: RelayState, bytes: Uint8Array | undefined): void {
  if (bytes === undefined) return;
  deps.record?.(bytes);
  send(deps, state, bytes);
}

function send(deps: RelayOptions, state: RelayState, bytes: Uint8Array): void {
  if (state.sink === undefined || state.hasClientLeft) return;
  if (!state.isBackpressured) state.lastSentAt = deps.now();
  const drained = state.sink.write(bytes);
  if (drained === undefined || state.isBackpressured) return;
  state.isBackpressured = true;
  pauseBodyStream(deps.body);
  const resume = (): void => {
    state.isBackpressured = false;
    if (!state.hasClientLeft) resumeBodyStream(deps.body);
  };
  drained.then(resume, resume);
}

async function settleOnce(
  deps: RelayOptions,
  state: RelayState,
  outcome: StreamOutcome,
  isWhole: boolean,
): Promise<void> {
  if (state.hasEnded) return;
  state.hasEnded = true;
  state.stopTimer();
  await deps.settle(outcome, isWhole);
}

function finish(deps: RelayOptions, state: RelayState, end: StreamEnd): void {
  const isComplete = end === "completed";
  recordEnd(deps, state, isComplete);
  if (isComplete) drainOrCancel(deps.body);
  else cancelBodyStream(deps.body);
  void settleOnce(deps, state, outcomeOf(end), isComplete).then(
    () => closeResponse(deps, state, end),
    // What could not be settled must not look complete.
    () => {
      state.heldBack.length = 0;
      closeResponse(deps, state, "unsettled");
    },
  );
}

function outcomeOf(end: StreamEnd): StreamOutcome {
  if (end === "completed") return "completed";
  return end === "timed_out" ? "upstream_timeout" : "upstream_error";
}

// What is kept for a repetition is written by the settle, and its last event belongs to it.
function recordEnd(deps: RelayOptions, state: RelayState, isWhole: boolean): void {
  const last = isWhole ? deps.transform.finish(deps.meter.finished) : undefined;
  if (last !== undefined) state.heldBack.push(withBlankLine(state, last));
  for (const bytes of state.heldBack) deps.record?.(bytes);
}

function closeResponse(deps: RelayOptions, state: RelayState, end: StreamEnd): void {
  const { sink } = state;
  if (sink === undefined || state.hasClientLeft) return;
  const hasErrorEvent = end === "failed" || (end !== "unsettled" && deps.meter.failed);
  const error =
    end === "completed" || hasErrorEvent
      ? undefined
      : deps.transform.errorEvent(deps.errorBody(end));
  for (const bytes of error === undefined
    ? state.heldBack
    : [...state.heldBack, withBlankLine(state, error)])
    void sink.write(bytes);
  sink.end();
}

async function onClientGone(deps: RelayOptions, state: RelayState): Promise<void> {
  state.stopTimer();
  if (state.hasClientLeft) return;
  state.hasClientLeft = true;
  if (state.hasEnded) return;
  if (state.sink === undefined && deps.first !== undefined) forward(deps, state, deps.first);
  const ms = usageWaitMs(deps);
  const hasClosed = ms > 0 && (await readRemaining(deps, state, ms));
  const { finished, failed } = deps.meter;
  // What was read to its end is paid for, and can be asked for again; what the provider broke is its failure, as it is for
  // whoever stays.
  const isWhole = finished ? !failed : hasClosed && isCompleteAtClose(deps);
  const isBroken = failed || (hasClosed && !isWhole);
  recordEnd(deps, state, isWhole);
  cancelBodyStream(deps.body);
  await settleOnce(deps, state, isBroken ? "upstream_error" : "client_aborted", isWhole).catch(
    () => {},
  );
}

/**
 * How long the provider's own count is worth waiting for: also where the answer has ended, since nothing more is made then,
 * and whoever has all of it would otherwise save by leaving before the count what it does not show.
 */
function usageWaitMs({ meter, drainMs }: RelayOptions): number {
  if (meter.finished) return 0;
  return isReplyComplete(meter) ? Math.max(drainMs, USAGE_WAIT_MAX_MS) : drainMs;
}

/** Whether a stream that closed is complete: without its terminal event, only if nothing else can be missing. */
function isCompleteAtClose({ meter, lacksTerminalEvent }: RelayOptions): boolean {
  if (meter.failed) return false;
  return meter.finished || (meter.hasStopReason && (lacksTerminalEvent || meter.isUsageFinal));
}

function onTick(deps: RelayOptions, state: RelayState, at: number): void {
  const { idleMs, streamMs } = deps.timeouts;
  const isOver = at - state.startedAt > streamMs;
  // A reader who stops reading, or never began to, has left, though the connection stands.
  if (state.sink === undefined || state.isBackpressured) {
    if (!isOver && at - state.lastSentAt <= idleMs) return;
    void onClientGone(deps, state);
    state.sink?.abort();
  } else if (isOver || at - state.lastReceivedAt > idleMs) finish(deps, state, "timed_out");
  else if (at - state.lastSentAt >= KEEP_ALIVE_MS) send(deps, state, deps.transform.keepAlive);
}

/** Reads on to the provider's own count where leaving would not end the bill, within bounds; answers whether it has closed. */
function readRemaining(deps: RelayOptions, state: RelayState, maxMs: number): Promise<boolean> {
  const maxBytes = state.bytes + DRAIN_MAX_BYTES;
  return new Promise((resolve) => {
    const done = (hasClosed: boolean): void => {
      clearDeadline();
      unsubscribe();
      resolve(hasClosed);
    };
    const clearDeadline = startDeadline(maxMs, () => done(false));
    const unsubscribe = onAborted(deps.shutdownSignal, () => done(false));
    pipeTo(deps.body, {
      onData: (bytes) => {
        state.bytes += bytes.length;
        const isRead = forward(deps, state, bytes);
        if (!isRead || deps.meter.finished || state.bytes > maxBytes) done(false);
      },
      onEnd: () => {
        done(forward(deps, state, undefined));
      },
    });
    resumeBodyStream(deps.body);
  });
}
