// Turns a reply into response bytes with the delays, chunk sizes and faults that its directives ask for.

import type { ReplyTracker } from "../recorder.ts";
import type { Frame, SimulatedWire } from "../wires/simulated-wire.ts";
import type { DelayTimer } from "./delay-timer.ts";
import type { Directives } from "./directives.ts";

const HANG_MS = 600_000;
const SLOW_SLICE_BYTES = 16;
const QUEUE_BYTES = 65_536;
/** The delay that lets queued bytes leave before a cut discards the queue. */
const CUT_AFTER_MS = 10;
const LINE_ENDINGS = { lf: "\n", crlf: "\r\n", cr: "\r" } as const;

/** Marks the end of the connection among text events; no wire sends this text alone. */
const CUT = "cut";

const encoder = new TextEncoder();

type BodyStep = Uint8Array | { readonly waitMs: number } | typeof CUT;

/** Whether a JSON body can be sent at once, without a stream. */
export function isUnmodified(directives: Directives): boolean {
  for (const name of ["cut", "hang", "garble", "slice", "slow"] as const)
    if (directives[name] !== undefined) return false;
  return true;
}

/** A JSON body as two halves, with faults injected between them. */
export function jsonBodySteps(
  text: string,
  directives: Directives,
  wire: SimulatedWire,
): Iterable<BodyStep> {
  const bytes = encoder.encode(text);
  const middle = bytes.length >> 1;
  // Directives about deltas do not apply; `garble` sends only the first half.
  const {
    pace: _pace,
    fail: _fail,
    flood: _flood,
    keepalive: _keepalive,
    "no-end": _end,
    garble,
    ...rest
  } = directives;
  const halves: Frame[] = [{ data: bytes.subarray(0, middle) }];
  if (garble === undefined) halves.push({ data: bytes.subarray(middle), isTerminal: true });
  return withSlices(encodeEvents(withFaults(halves, rest, wire), "\n"), directives);
}

export function streamBodySteps(
  frames: Iterable<Frame>,
  directives: Directives,
  wire: SimulatedWire,
): Iterable<BodyStep> {
  return withSlices(
    encodeEvents(
      withFaults(frames, directives, wire),
      LINE_ENDINGS[directives.newline ?? wire.newline],
    ),
    directives,
  );
}

type StreamEvent = string | Uint8Array | { readonly waitMs: number };

function* withFaults(
  frames: Iterable<Frame>,
  directives: Directives,
  wire: SimulatedWire,
): Generator<StreamEvent> {
  const faults = injectedFaults(directives);
  let deltas = 0;
  let sent = 0;
  for (const frame of frames) {
    const isClosing = frame.isUsage === true || frame.isTerminal === true;
    if (directives.pace !== undefined && frame.isDelta === true && deltas > 0)
      yield { waitMs: directives.pace };
    // Faults due after more deltas than the reply has happen after the last one.
    if (frame.isDelta === true || isClosing) {
      const due = dueFaults(faults, isClosing ? Infinity : deltas);
      for (const fault of due) yield* fault.events(wire, sent);
      if (due.at(-1)?.endsStream === true) return;
    }
    if (frame.isTerminal === true && directives["no-end"] === true) continue;
    if (frame.isDelta === true) deltas += 1;
    yield* withRepeats(frame, directives, wire, deltas);
    sent += 1;
  }
}

/** Removes and returns the faults that are due, up to the first that ends the stream. */
function dueFaults(faults: InjectedFault[], deltas: number): readonly InjectedFault[] {
  const later = faults.findIndex((fault) => fault.after > deltas);
  const due = faults.splice(0, later === -1 ? faults.length : later);
  const last = due.findIndex((fault) => fault.endsStream);
  return last === -1 ? due : due.slice(0, last + 1);
}

function* withRepeats(
  frame: Frame,
  directives: Directives,
  wire: SimulatedWire,
  deltas: number,
): Generator<StreamEvent> {
  if (directives.keepalive === true && frame.isDelta === true) yield wire.keepaliveFrame.data;
  yield frame.data;
  if (directives.flood !== undefined && frame.isDelta === true && deltas === 1)
    yield* flood(frame.data, directives.flood * 1_024);
  if (directives.usage === "twice" && frame.isUsage === true) yield frame.data;
}

interface InjectedFault {
  readonly after: number;
  readonly endsStream: boolean;
  readonly events: (wire: SimulatedWire, sent: number) => Iterable<StreamEvent>;
}

function injectedFaults(directives: Directives): InjectedFault[] {
  const faults: InjectedFault[] = [];
  const { hang, garble, fail, cut } = directives;
  if (hang !== undefined) {
    const ms = directives["hang-ms"];
    const events: StreamEvent[] = ms === undefined ? [{ waitMs: HANG_MS }, CUT] : [{ waitMs: ms }];
    faults.push({ after: hang, endsStream: ms === undefined, events: () => events });
  }
  if (garble !== undefined)
    faults.push({ after: garble, endsStream: false, events: (wire) => [wire.malformedFrame.data] });
  if (fail !== undefined) {
    faults.push({
      after: fail,
      endsStream: true,
      events: (wire, sent) => [wire.errorFrame(directives.message ?? "Overloaded", sent).data],
    });
  }
  if (cut !== undefined)
    faults.push({ after: cut, endsStream: true, events: () => [{ waitMs: CUT_AFTER_MS }, CUT] });
  return faults.sort((a, b) => a.after - b.after);
}

function* flood(data: string | Uint8Array, bytes: number): Generator<StreamEvent> {
  for (let sent = 0; sent < bytes; sent += data.length) yield data;
}

function* encodeEvents(events: Iterable<StreamEvent>, lineEnding: string): Generator<BodyStep> {
  for (const event of events) {
    if (typeof event !== "string") yield event;
    else if (event === CUT) yield CUT;
    else yield encoder.encode(lineEnding === "\n" ? event : event.replaceAll("\n", lineEnding));
  }
}

/** Splits the bytes regardless of event boundaries. */
function withSlices(steps: Iterable<BodyStep>, directives: Directives): Iterable<BodyStep> {
  if (directives.slice === undefined && directives.slow === undefined) return steps;
  return sliceBytes(steps, Math.max(1, directives.slice ?? SLOW_SLICE_BYTES), directives.slow);
}

function* sliceBytes(
  steps: Iterable<BodyStep>,
  size: number,
  slowMs: number | undefined,
): Generator<BodyStep> {
  let rest: Uint8Array = new Uint8Array(0);
  for (const step of steps) {
    if (step === CUT || "waitMs" in step) {
      if (rest.length > 0) yield rest;
      rest = new Uint8Array(0);
      yield step;
      continue;
    }
    const bytes: Uint8Array = concatBytes(rest, step);
    let start = 0;
    for (; start + size <= bytes.length; start += size) {
      yield bytes.subarray(start, start + size);
      if (slowMs !== undefined) yield { waitMs: slowMs };
    }
    rest = bytes.subarray(start);
  }
  if (rest.length > 0) yield rest;
}

function concatBytes(left: Uint8Array, right: Uint8Array): Uint8Array {
  if (left.length === 0) return right;
  const both = new Uint8Array(left.length + right.length);
  both.set(left);
  both.set(right, left.length);
  return both;
}

/** A body stream that is produced as it is read, so backpressure applies. */
export function createBodyStream(
  steps: Iterable<BodyStep>,
  tracker: ReplyTracker,
  timer: DelayTimer,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const iterator = steps[Symbol.iterator]();
  let pendingMs: number | undefined;
  let cancelWait = (): void => {};
  let isClosed = false;

  function advance(controller: ReadableStreamDefaultController<Uint8Array>): void {
    while (!isClosed && pendingMs === undefined && (controller.desiredSize ?? 0) > 0) {
      const next = iterator.next();
      if (next.done === true) {
        isClosed = true;
        tracker.completed();
        controller.close();
      } else if (next.value === CUT) {
        isClosed = true;
        tracker.cut();
        controller.error(new Error("A directive cut this reply."));
      } else if ("waitMs" in next.value) pendingMs = next.value.waitMs;
      else {
        tracker.sent(next.value.length);
        controller.enqueue(next.value);
      }
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      cancelWait = timer.schedule(ms, resolve);
    });
  }

  // A wait after bytes starts with the next pull, so a pull has at most one wait, however long the stream.
  async function advanceLater(
    controller: ReadableStreamDefaultController<Uint8Array>,
  ): Promise<void> {
    const queuedBefore = controller.desiredSize;
    while (!isClosed && pendingMs !== undefined) {
      await pause(pendingMs);
      pendingMs = undefined;
      advance(controller);
      if (controller.desiredSize !== queuedBefore) return;
    }
  }

  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      pull(controller) {
        if (pendingMs !== undefined) return advanceLater(controller);
        advance(controller);
        return undefined;
      },
      cancel() {
        isClosed = true;
        cancelWait();
        tracker.aborted();
        iterator.return?.();
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: QUEUE_BYTES }),
  );
}

/** A body that fails before its first byte. */
export function createDroppedBody(tracker: ReplyTracker): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    pull(controller) {
      tracker.cut();
      // No reason given: the server would log a reason given before the first byte.
      controller.error();
    },
  });
}
