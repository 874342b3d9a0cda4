// Relays a provider's stream: as it comes, no faster than the caller reads, metered as it goes by. The terminal event
// waits until the money is settled, so that whoever saw the end is in the ledger after any crash.

import { deadline, onceAborted } from "../base/deadline.ts";
import { readSse, type SseEvent, type SseParser } from "../base/sse.ts";
import type { StopSignal } from "../base/stop.ts";
import { type Outlet, streamOut } from "../http/outlet.ts";
import {
  cancelInflow,
  flowTo,
  type Inflow,
  pauseInflow,
  releaseInflow,
  resumeInflow,
} from "../outbound/inflow.ts";
import { isAnswered, parsed, readFully, type StreamMeter, watch } from "./meter/stream.ts";
import type { StreamShape } from "./stream-shape.ts";
import type { Ticker } from "./ticker.ts";
import type { Timeouts } from "./upstream.ts";

export type StreamEnd = "completed" | "client_aborted" | "upstream_error" | "upstream_timeout";

export interface StreamParts {
  /** What the provider sends, after `first`. */
  readonly inflow: Inflow;
  /** What was already read in order to see that the stream begins well. */
  readonly first: Uint8Array | undefined;
  /** Cuts the provider's bytes into events. */
  readonly parser: SseParser;
  readonly meter: StreamMeter;
  /** Whether every event is read in full anyway. */
  readonly readsAll: boolean;
  readonly shape: StreamShape;
  readonly ticker: Ticker;
  readonly timeouts: Timeouts;
  readonly now: () => number;
  /** Whether the stream's end is its closing: then all from the answer's end on waits for the settle. */
  readonly endsByClosing: boolean;
  /** Whether a stream of this provider has no event of its own for its end. */
  readonly endsSilently: boolean;
  /** How long the provider is read on for its count after the reader has left in the midst of the answer. */
  readonly drainMs: number;
  /** Aborted when the process ends, and there is no time left for that. */
  readonly hurried: Pick<StopSignal, "aborted">;
  /** The cost of what the meter knows, as it is shown. */
  readonly costUsd: () => string | undefined;
  /** Settles, once; the stream's last event waits for it. `isWhole`: the provider said all that it had to say. */
  readonly settle: (end: StreamEnd, isWhole: boolean) => Promise<void>;
  /** The body of this API's error event for a stream that broke. */
  readonly failure: (end: StreamEnd | "unsettled") => unknown;
  /** Keeps what is sent, for an idempotent repetition. */
  readonly keep?: (bytes: Uint8Array) => void;
}

const KEEP_ALIVE_MS = 15_000;
const STREAM_MAX_BYTES = 256 * 1_048_576;
const DRAIN_MAX_BYTES = 32 * 1_048_576;
/** The provider's count follows the end of the answer at once, or not at all. */
const COUNT_MAX_MS = 10_000;

interface State {
  bytes: number;
  lastHeardAt: number;
  lastSentAt: number;
  readonly startedAt: number;
  /** The reader's end, once it asks for the stream. */
  out: Outlet | undefined;
  /** Whether the reader is waited for; otherwise it is the provider. */
  isFull: boolean;
  /** Whether the reader is gone. */
  left: boolean;
  ended: boolean;
  /** Whether the provider's last event was not ended by a blank line. */
  lacksBlank: boolean;
  readonly waiting: Uint8Array[];
  stopTicking: () => void;
}

export function relayStream(parts: StreamParts): ReadableStream<Uint8Array> {
  const now = parts.now();
  const state: State = {
    bytes: 0,
    lastHeardAt: now,
    lastSentAt: now,
    startedAt: now,
    out: undefined,
    isFull: false,
    left: false,
    ended: false,
    lacksBlank: false,
    waiting: [],
    stopTicking: () => {},
  };
  state.stopTicking = parts.ticker.add((at) => tick(parts, state, at));
  return streamOut({
    begin: (outlet) => {
      if (state.left) return outlet.cut();
      state.out = outlet;
      begin(parts, state);
    },
    left: () => void leave(parts, state),
  });
}

// The headers leave with the first bytes: where the stream's own are late, a sign of life goes first.
function begin(parts: StreamParts, state: State): void {
  if (parts.first === undefined) send(parts, state, parts.shape.keepAlive);
  else relay(parts, state, parts.first);
  if (state.ended) return;
  flowTo(parts.inflow, {
    piece: (bytes) => {
      state.lastHeardAt = parts.now();
      state.bytes += bytes.length;
      relay(parts, state, bytes);
    },
    end: () => relay(parts, state, undefined),
  });
  if (state.isFull) pauseInflow(parts.inflow);
}

/** Passes on what the provider sent, or its end. */
function relay(parts: StreamParts, state: State, chunk: Uint8Array | undefined): void {
  if (state.ended || state.left) return;
  const { meter } = parts;
  if (!passOn(parts, state, chunk) || state.bytes > STREAM_MAX_BYTES)
    finish(parts, state, "upstream_error");
  else if (meter.finished) finish(parts, state, meter.failed ? "upstream_error" : "completed");
  else if (chunk === undefined) finish(parts, state, endOf(parts));
}

/** False where it is no stream of events: one beyond the parser's limit is a fault of the provider. */
function passOn(parts: StreamParts, state: State, chunk: Uint8Array | undefined): boolean {
  let first: Uint8Array | undefined;
  let all: Uint8Array[] | undefined;
  try {
    const { parser } = parts;
    const only = chunk === undefined ? undefined : parser.single(chunk);
    if (only !== undefined) {
      put(parts, state, shaped(parts, state, only));
      return true;
    }
    for (const event of chunk === undefined ? lastOf(parser, state) : parser.push(chunk)) {
      const bytes = shaped(parts, state, event);
      if (bytes === undefined) continue;
      if (first === undefined) first = bytes;
      else (all ??= [first]).push(bytes);
    }
  } catch {
    return false;
  }
  put(parts, state, all === undefined ? first : Buffer.concat(all));
  return true;
}

/** What is left without its blank line: of one that was cut nothing is passed on, and before what follows a whole one stands that line. */
function lastOf(parser: SseParser, state: State): SseEvent[] {
  return parser.end().filter((event) => {
    if (event.ended) return true;
    const data = readSse(event)?.data.trim();
    const isWhole = data === "[DONE]" || (data !== undefined && parsed(data) !== undefined);
    state.lacksBlank = isWhole;
    return isWhole;
  });
}

function afterBlank(state: State, bytes: Uint8Array): Uint8Array {
  return state.lacksBlank ? Buffer.concat([BLANK, bytes]) : bytes;
}

const BLANK = new TextEncoder().encode("\n\n");

// The last event goes to `waiting`, and with it whatever comes after: it is sent when the money is settled.
function shaped(parts: StreamParts, state: State, event: SseEvent): Uint8Array | undefined {
  const { meter, shape } = parts;
  // What comes after the end is no part of the answer: it is neither metered nor translated.
  if (meter.finished) {
    if (!parts.readsAll) state.waiting.push(event.raw);
    return undefined;
  }
  const sight = parts.readsAll ? readFully(meter, event) : watch(meter, event);
  const shown =
    sight === "usage" && meter.exact ? shape.usage(event, parts.costUsd()) : shape.plain(event);
  const bytes = shown !== undefined && meter.failed ? shape.clean(shown) : shown;
  const waits =
    meter.finished || state.waiting.length > 0 || (parts.endsByClosing && isAnswered(meter));
  if (bytes === undefined || !waits) return bytes;
  state.waiting.push(bytes);
  return undefined;
}

function put(parts: StreamParts, state: State, bytes: Uint8Array | undefined): void {
  if (bytes === undefined) return;
  parts.keep?.(bytes);
  send(parts, state, bytes);
}

function send(parts: StreamParts, state: State, bytes: Uint8Array): void {
  if (state.out === undefined || state.left) return;
  if (!state.isFull) state.lastSentAt = parts.now();
  const roomAgain = state.out.write(bytes);
  if (roomAgain === undefined || state.isFull) return;
  state.isFull = true;
  pauseInflow(parts.inflow);
  const goOn = (): void => {
    state.isFull = false;
    if (!state.left) resumeInflow(parts.inflow);
  };
  roomAgain.then(goOn, goOn);
}

async function end(
  parts: StreamParts,
  state: State,
  how: StreamEnd,
  isWhole: boolean,
): Promise<void> {
  if (state.ended) return;
  state.ended = true;
  state.stopTicking();
  await parts.settle(how, isWhole);
}

function finish(parts: StreamParts, state: State, how: StreamEnd): void {
  const isWhole = how === "completed";
  keepEnd(parts, state, isWhole);
  if (isWhole) releaseInflow(parts.inflow);
  else cancelInflow(parts.inflow);
  void end(parts, state, how, isWhole).then(
    () => close(parts, state, how),
    // What could not be settled must not look complete.
    () => {
      state.waiting.length = 0;
      close(parts, state, "unsettled");
    },
  );
}

// What is kept for a repetition is written by the settle, and its last event belongs to it.
function keepEnd(parts: StreamParts, state: State, isWhole: boolean): void {
  const last = isWhole ? parts.shape.last(parts.meter.finished) : undefined;
  if (last !== undefined) state.waiting.push(afterBlank(state, last));
  for (const bytes of state.waiting) parts.keep?.(bytes);
}

function close(parts: StreamParts, state: State, how: StreamEnd | "unsettled"): void {
  const { out } = state;
  if (out === undefined || state.left) return;
  const isTold = how === "completed" || (how !== "unsettled" && parts.meter.failed);
  const error = isTold ? undefined : parts.shape.error(parts.failure(how));
  for (const bytes of error === undefined
    ? state.waiting
    : [...state.waiting, afterBlank(state, error)])
    void out.write(bytes);
  out.end();
}

async function leave(parts: StreamParts, state: State): Promise<void> {
  state.stopTicking();
  if (state.left) return;
  state.left = true;
  if (state.ended) return;
  if (state.out === undefined && parts.first !== undefined) passOn(parts, state, parts.first);
  const ms = countMsOf(parts);
  const hasClosed = ms > 0 && (await drain(parts, state, ms));
  const { finished, failed } = parts.meter;
  // What was read to its end is paid for, and can be asked for again; what the provider broke is its failure, as it is for
  // whoever stays.
  const isWhole = finished ? !failed : hasClosed && endOf(parts) === "completed";
  const isBroken = failed || (hasClosed && !isWhole);
  keepEnd(parts, state, isWhole);
  cancelInflow(parts.inflow);
  await end(parts, state, isBroken ? "upstream_error" : "client_aborted", isWhole).catch(() => {});
}

/**
 * How long the provider's own count is worth waiting for: also where the answer has ended, since nothing more is made then,
 * and whoever has all of it would otherwise save by leaving before the count what it does not show.
 */
function countMsOf({ meter, drainMs }: StreamParts): number {
  if (meter.finished) return 0;
  return isAnswered(meter) ? Math.max(drainMs, COUNT_MAX_MS) : drainMs;
}

/** How a stream ended that closed without its terminal event: well only where nothing of it can be missing. */
function endOf({ meter, endsSilently }: StreamParts): StreamEnd {
  const isWhole = isAnswered(meter) && (endsSilently || meter.exact);
  return isWhole && !meter.failed ? "completed" : "upstream_error";
}

function tick(parts: StreamParts, state: State, at: number): void {
  const { silenceMs, totalMs } = parts.timeouts;
  const isOver = at - state.startedAt > totalMs;
  // A reader who stops reading, or never began to, has left, though the connection stands.
  if (state.out === undefined || state.isFull) {
    if (!isOver && at - state.lastSentAt <= silenceMs) return;
    void leave(parts, state);
    state.out?.cut();
  } else if (isOver || at - state.lastHeardAt > silenceMs) finish(parts, state, "upstream_timeout");
  else if (at - state.lastSentAt >= KEEP_ALIVE_MS) send(parts, state, parts.shape.keepAlive);
}

/** Reads on to the provider's own count where leaving would not end the bill, within bounds; answers whether it has closed. */
function drain(parts: StreamParts, state: State, maxMs: number): Promise<boolean> {
  const most = state.bytes + DRAIN_MAX_BYTES;
  return new Promise((resolve) => {
    const done = (hasClosed: boolean): void => {
      stop();
      stopHeeding();
      resolve(hasClosed);
    };
    const stop = deadline(maxMs, () => done(false));
    const stopHeeding = onceAborted(parts.hurried, () => done(false));
    flowTo(parts.inflow, {
      piece: (bytes) => {
        state.bytes += bytes.length;
        const isRead = passOn(parts, state, bytes);
        if (!isRead || parts.meter.finished || state.bytes > most) done(false);
      },
      end: () => {
        done(passOn(parts, state, undefined));
      },
    });
    resumeInflow(parts.inflow);
  });
}
