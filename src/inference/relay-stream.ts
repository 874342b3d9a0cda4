// Relays a provider's stream: as it comes, no faster than the caller reads, metered as it goes by. The terminal event
// waits until the money is settled, so that whoever saw the end is in the ledger after any crash.

import type { SseEvent, SseParser } from "../base/sse.ts";
import type { StreamMeter } from "./meter/stream.ts";
import type { StreamShape } from "./stream-shape.ts";
import type { Ticker } from "./ticker.ts";
import type { Timeouts } from "./upstream.ts";

export type StreamEnd = "completed" | "client_aborted" | "upstream_error" | "upstream_timeout";

export interface StreamParts {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  /** What was already read in order to see that the stream begins well. */
  readonly first: Uint8Array | undefined;
  /** Cuts the provider's bytes into events. */
  readonly parser: SseParser;
  readonly meter: StreamMeter;
  readonly shape: StreamShape;
  readonly ticker: Ticker;
  readonly timeouts: Timeouts;
  readonly now: () => number;
  /** Whether the stream's end is its closing: then all from the answer's end on waits for the settle. */
  readonly endsByClosing: boolean;
  /** Whether a stream of this provider has no event of its own for its end. */
  readonly endsSilently: boolean;
  /** Whether closing the connection ends the bill. */
  readonly stopsBillingOnAbort: boolean;
  /** The cost of what the meter knows, as it is shown. */
  readonly costUsd: () => string | undefined;
  /** Settles, once; the stream's last event waits for it. */
  readonly settle: (end: StreamEnd) => Promise<void>;
  /** The body of this API's error event for a stream that broke. */
  readonly failure: (end: StreamEnd | "unsettled") => unknown;
  readonly abortUpstream: () => void;
  /** Keeps what is sent, for an idempotent repetition. */
  readonly keep?: (bytes: Uint8Array) => void;
}

const KEEP_ALIVE_MS = 15_000;
const STREAM_MAX_BYTES = 256 * 1_048_576;
const DRAIN_MAX_BYTES = 32 * 1_048_576;
const DRAIN_MAX_MS = 120_000;

interface State {
  /** What is read before the provider is asked for more. */
  first: Uint8Array | undefined;
  bytes: number;
  lastHeardAt: number;
  lastSentAt: number;
  readonly startedAt: number;
  /** Whether the provider is waited for; otherwise it is the reader. */
  reading: boolean;
  /** Whether the reader is gone. */
  left: boolean;
  ended: boolean;
  timedOut: boolean;
  readonly waiting: Uint8Array[];
  stopTicking: () => void;
}

type Controller = ReadableStreamDefaultController<Uint8Array>;

export function relayStream(parts: StreamParts): ReadableStream<Uint8Array> {
  const now = parts.now();
  const state: State = {
    first: parts.first,
    bytes: 0,
    lastHeardAt: now,
    lastSentAt: now,
    startedAt: now,
    reading: false,
    left: false,
    ended: false,
    timedOut: false,
    waiting: [],
    stopTicking: () => {},
  };
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      state.stopTicking = parts.ticker.add((at) => {
        if (tick(parts, state, controller, at) !== "stalled") return;
        void leave(parts, state);
        controller.error(new Error("the reader stalled"));
      });
    },
    pull: (controller) => relayNext(parts, state, controller),
    cancel: () => leave(parts, state),
  });
}

// Runs for every piece that a provider sends: only where something has to be waited for does it make a promise of its own.
function relayNext(parts: StreamParts, state: State, controller: Controller): Promise<void> | void {
  if (state.first === undefined)
    return readNext(parts, state).then((chunk) => relay(parts, state, controller, chunk));
  const { first } = state;
  state.first = undefined;
  return relay(parts, state, controller, first);
}

function relay(
  parts: StreamParts,
  state: State,
  controller: Controller,
  chunk: Uint8Array | undefined,
): Promise<void> | void {
  if (state.ended) return undefined;
  const step = stepOn(parts, state, chunk);
  if (state.left) return undefined;
  if (step === undefined || state.bytes > STREAM_MAX_BYTES)
    return finish(parts, state, controller, "upstream_error");
  put(parts, state, controller, step.out);
  if (step.finished)
    return finish(parts, state, controller, parts.meter.failed() ? "upstream_error" : "completed");
  if (chunk === undefined) return finish(parts, state, controller, endOf(parts, state));
  return step.out === undefined ? relayNext(parts, state, controller) : undefined;
}

function put(
  parts: StreamParts,
  state: State,
  controller: Controller,
  bytes: Uint8Array | undefined,
): void {
  if (bytes === undefined) return;
  state.lastSentAt = parts.now();
  parts.keep?.(bytes);
  controller.enqueue(bytes);
}

async function end(parts: StreamParts, state: State, how: StreamEnd): Promise<void> {
  if (state.ended) return;
  state.ended = true;
  state.stopTicking();
  await parts.settle(how);
}

async function finish(
  parts: StreamParts,
  state: State,
  controller: Controller,
  how: StreamEnd,
): Promise<void> {
  const already = state.ended;
  const last =
    how === "completed" && !already ? parts.shape.last(parts.meter.finished()) : undefined;
  const waiting = [...state.waiting.splice(0), ...(last === undefined ? [] : [last])];
  // What is kept for a repetition is written by the settle, and its last event belongs to it.
  for (const bytes of waiting) parts.keep?.(bytes);
  try {
    await end(parts, state, how);
    for (const bytes of waiting) controller.enqueue(bytes);
    if (how !== "completed" && !already && !parts.meter.failed())
      put(parts, state, controller, parts.shape.error(parts.failure(how)));
  } catch {
    // What could not be settled must not look complete.
    put(parts, state, controller, parts.shape.error(parts.failure("unsettled")));
  }
  controller.close();
  parts.abortUpstream();
}

// Where closing the connection does not end the bill, the provider is read on to its own count.
async function leave(parts: StreamParts, state: State): Promise<void> {
  state.stopTicking();
  if (state.ended || state.left) return;
  state.left = true;
  if (!parts.stopsBillingOnAbort) await drain(parts, state).catch(() => {});
  parts.abortUpstream();
  await end(parts, state, "client_aborted").catch(() => {});
}

/** How a stream ended that closed without its terminal event: well only where nothing of it can be missing. */
function endOf({ meter, endsSilently }: StreamParts, { timedOut }: State): StreamEnd {
  if (timedOut) return "upstream_timeout";
  const isWhole = meter.answered() && (endsSilently || meter.exact());
  return isWhole && !meter.failed() ? "completed" : "upstream_error";
}

function readNext(parts: StreamParts, state: State): Promise<Uint8Array | undefined> {
  state.reading = true;
  return parts.reader.read().then(
    ({ done, value }) => {
      state.reading = false;
      if (done) return undefined;
      state.bytes += value.length;
      state.lastHeardAt = parts.now();
      return value;
    },
    () => {
      state.reading = false;
      return undefined;
    },
  );
}

// An event beyond the parser's limit is a fault of the provider, and ends the stream as one.
function stepOn(parts: StreamParts, state: State, chunk: Uint8Array | undefined): Step | undefined {
  try {
    const { parser } = parts;
    return passOn(parts, state, chunk === undefined ? parser.end() : parser.push(chunk));
  } catch {
    return undefined;
  }
}

interface Step {
  readonly out: Uint8Array | undefined;
  readonly finished: boolean;
}

// The last event goes to `waiting`, and with it whatever comes after: it is sent when the money is settled.
function passOn(parts: StreamParts, state: State, events: readonly SseEvent[]): Step {
  const { meter, shape } = parts;
  const out: Uint8Array[] = [];
  for (const event of events) {
    const sight = meter.watch(event);
    const bytes =
      sight === "usage" && meter.exact() ? shape.usage(event, parts.costUsd()) : shape.plain(event);
    if (bytes === undefined) continue;
    const waits =
      meter.finished() || state.waiting.length > 0 || (parts.endsByClosing && meter.answered());
    (waits ? state.waiting : out).push(bytes);
  }
  return {
    out: out.length > 1 ? Buffer.concat(out) : out[0],
    finished: meter.finished(),
  };
}

function tick(
  parts: StreamParts,
  state: State,
  controller: ReadableStreamDefaultController<Uint8Array>,
  at: number,
): "stalled" | undefined {
  const { silenceMs, totalMs } = parts.timeouts;
  const isOver = at - state.startedAt > totalMs;
  // A reader who stops reading has left, though the connection stands.
  if (!state.reading) return isOver || at - state.lastSentAt > silenceMs ? "stalled" : undefined;
  if (isOver || at - state.lastHeardAt > silenceMs) {
    state.timedOut = true;
    parts.abortUpstream();
    void parts.reader.cancel().catch(() => {});
  } else if (at - state.lastSentAt >= KEEP_ALIVE_MS && (controller.desiredSize ?? 0) > 0) {
    state.lastSentAt = at;
    controller.enqueue(parts.shape.keepAlive);
  }
  return undefined;
}

/** Reads on to the provider's own count where leaving would not end the bill, within bounds. */
async function drain(parts: StreamParts, state: State): Promise<void> {
  const deadline = parts.now() + DRAIN_MAX_MS;
  const most = state.bytes + DRAIN_MAX_BYTES;
  const timer = setTimeout(parts.abortUpstream, DRAIN_MAX_MS);
  try {
    while (!parts.meter.finished() && state.bytes < most && parts.now() < deadline) {
      const chunk = await readNext(parts, state);
      if (chunk === undefined) return;
      for (const event of parts.parser.push(chunk)) parts.meter.watch(event);
    }
  } finally {
    clearTimeout(timer);
  }
}
