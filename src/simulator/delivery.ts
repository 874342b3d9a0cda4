// Sends a reply as it was ordered: in time, in pieces, and with every misfortune that was asked for.

import type { Clock } from "./clock.ts";
import type { Order } from "./directives.ts";
import type { Sending } from "./recorder.ts";
import type { Frame, Wire } from "./wire.ts";

const SILENCE_MS = 600_000;
const SLOW_SLICE_BYTES = 16;
const QUEUE_BYTES = 65_536;
/** What was queued before a cut must have left, or the cut takes it along. */
const CUT_AFTER_MS = 10;
const LINE_ENDS = { lf: "\n", crlf: "\r\n", cr: "\r" } as const;

/** Stands among texts for the end of the connection; no wire sends this word alone. */
const CUT = "cut";

const encoder = new TextEncoder();

/** A stretch of bytes, a wait, or the end of the connection. */
type Step = Uint8Array | { readonly waitMs: number } | typeof CUT;

/** Whether a body can go out as it is, in one piece. */
export function isPlain(order: Order): boolean {
  for (const name of ["cut", "hang", "garble", "slice", "slow"] as const)
    if (order[name] !== undefined) return false;
  return true;
}

/** A body that is not a stream, sent in two halves between which things can go wrong. */
export function wholeSteps(text: string, order: Order, wire: Wire): Iterable<Step> {
  const bytes = encoder.encode(text);
  const middle = bytes.length >> 1;
  // What is about deltas has no meaning here; the torn body that `garble` asks for is a first half and no second.
  const {
    pace: _pace,
    fail: _fail,
    flood: _flood,
    keepalive: _keepalive,
    "no-end": _end,
    garble,
    ...rest
  } = order;
  const halves: Frame[] = [{ data: bytes.subarray(0, middle) }];
  if (garble === undefined) halves.push({ data: bytes.subarray(middle), end: true });
  return sliced(encoded(disturbed(halves, rest, wire), "\n"), order);
}

export function streamSteps(frames: Iterable<Frame>, order: Order, wire: Wire): Iterable<Step> {
  return sliced(
    encoded(disturbed(frames, order, wire), LINE_ENDS[order.newline ?? wire.newline]),
    order,
  );
}

type Event = string | Uint8Array | { readonly waitMs: number };

function* disturbed(frames: Iterable<Frame>, order: Order, wire: Wire): Generator<Event> {
  const troubles = troublesOf(order);
  let deltas = 0;
  let sent = 0;
  for (const frame of frames) {
    const closing = frame.usage === true || frame.end === true;
    if (order.pace !== undefined && frame.delta === true && deltas > 0)
      yield { waitMs: order.pace };
    // What was ordered for later than the last delta happens after it.
    if (frame.delta === true || closing) {
      const due = takeDue(troubles, closing ? Infinity : deltas);
      for (const trouble of due) yield* trouble.events(wire, sent);
      if (due.at(-1)?.ends === true) return;
    }
    if (frame.end === true && order["no-end"] === true) continue;
    if (frame.delta === true) deltas += 1;
    yield* repeated(frame, order, wire, deltas);
    sent += 1;
  }
}

/** The troubles whose time has come, up to the one that ends the stream. */
function takeDue(troubles: Trouble[], deltas: number): readonly Trouble[] {
  const later = troubles.findIndex((trouble) => trouble.after > deltas);
  const due = troubles.splice(0, later === -1 ? troubles.length : later);
  const last = due.findIndex((trouble) => trouble.ends);
  return last === -1 ? due : due.slice(0, last + 1);
}

function* repeated(frame: Frame, order: Order, wire: Wire, deltas: number): Generator<Event> {
  if (order.keepalive === true && frame.delta === true) yield wire.keepalive.data;
  yield frame.data;
  if (order.flood !== undefined && frame.delta === true && deltas === 1)
    yield* flood(frame.data, order.flood * 1_024);
  if (order.usage === "twice" && frame.usage === true) yield frame.data;
}

interface Trouble {
  readonly after: number;
  readonly ends: boolean;
  readonly events: (wire: Wire, sent: number) => Iterable<Event>;
}

function troublesOf(order: Order): Trouble[] {
  const troubles: Trouble[] = [];
  const { hang, garble, fail, cut } = order;
  if (hang !== undefined) {
    const ms = order["hang-ms"];
    const events: Event[] = ms === undefined ? [{ waitMs: SILENCE_MS }, CUT] : [{ waitMs: ms }];
    troubles.push({ after: hang, ends: ms === undefined, events: () => events });
  }
  if (garble !== undefined)
    troubles.push({ after: garble, ends: false, events: (wire) => [wire.garbledFrame.data] });
  if (fail !== undefined) {
    troubles.push({
      after: fail,
      ends: true,
      events: (wire, sent) => [wire.failureFrame(order.message ?? "Overloaded", sent).data],
    });
  }
  if (cut !== undefined)
    troubles.push({ after: cut, ends: true, events: () => [{ waitMs: CUT_AFTER_MS }, CUT] });
  return troubles.sort((a, b) => a.after - b.after);
}

function* flood(data: string | Uint8Array, bytes: number): Generator<Event> {
  for (let sent = 0; sent < bytes; sent += data.length) yield data;
}

function* encoded(events: Iterable<Event>, lineEnd: string): Generator<Step> {
  for (const event of events) {
    if (typeof event !== "string") yield event;
    else if (event === CUT) yield CUT;
    else yield encoder.encode(lineEnd === "\n" ? event : event.replaceAll("\n", lineEnd));
  }
}

/** Cuts the bytes anew, without regard to where one event ends. */
function sliced(steps: Iterable<Step>, order: Order): Iterable<Step> {
  if (order.slice === undefined && order.slow === undefined) return steps;
  return slices(steps, Math.max(1, order.slice ?? SLOW_SLICE_BYTES), order.slow);
}

function* slices(steps: Iterable<Step>, size: number, slowMs: number | undefined): Generator<Step> {
  let rest: Uint8Array = new Uint8Array(0);
  for (const step of steps) {
    if (step === CUT || "waitMs" in step) {
      if (rest.length > 0) yield rest;
      rest = new Uint8Array(0);
      yield step;
      continue;
    }
    const bytes: Uint8Array = joined(rest, step);
    let start = 0;
    for (; start + size <= bytes.length; start += size) {
      yield bytes.subarray(start, start + size);
      if (slowMs !== undefined) yield { waitMs: slowMs };
    }
    rest = bytes.subarray(start);
  }
  if (rest.length > 0) yield rest;
}

function joined(left: Uint8Array, right: Uint8Array): Uint8Array {
  if (left.length === 0) return right;
  const both = new Uint8Array(left.length + right.length);
  both.set(left);
  both.set(right, left.length);
  return both;
}

/** The body of a reply. It is made as it is read, so a client that reads slowly is sent slowly. */
export function bodyOf(
  steps: Iterable<Step>,
  sending: Sending,
  clock: Clock,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const iterator = steps[Symbol.iterator]();
  let pendingMs: number | undefined;
  let callOff = (): void => {};
  let gone = false;

  function advance(controller: ReadableStreamDefaultController<Uint8Array>): void {
    while (!gone && pendingMs === undefined && (controller.desiredSize ?? 0) > 0) {
      const next = iterator.next();
      if (next.done === true) {
        gone = true;
        sending.completed();
        controller.close();
      } else if (next.value === CUT) {
        gone = true;
        sending.cut();
        controller.error(new Error("The simulator cut this reply, as it was ordered to."));
      } else if ("waitMs" in next.value) pendingMs = next.value.waitMs;
      else {
        sending.sent(next.value.length);
        controller.enqueue(next.value);
      }
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      callOff = clock.wait(ms, resolve);
    });
  }

  // A wait that comes after bytes begins with the next pull: so every pull has one wait at most, however long the stream.
  async function advanceLater(
    controller: ReadableStreamDefaultController<Uint8Array>,
  ): Promise<void> {
    const queuedBefore = controller.desiredSize;
    while (!gone && pendingMs !== undefined) {
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
        gone = true;
        callOff();
        sending.aborted();
        iterator.return?.();
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: QUEUE_BYTES }),
  );
}

/** A body that fails before its first byte. */
export function droppedBody(sending: Sending): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    pull(controller) {
      sending.cut();
      // Without a reason: a server writes a reason given this early to its log.
      controller.error();
    },
  });
}
