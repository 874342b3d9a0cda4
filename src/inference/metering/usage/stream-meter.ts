// What the stream meters of all wires share: events come in, one at a time, and at any moment the meter says what it
// knows. It keeps a few numbers and names, never the text.

import type { FeeMeter, Usage } from "../../../base/usage-meters.ts";
import { readSse, type SseEvent } from "../../../base/streams/sse.ts";
import {
  createEventScanner,
  needsParse,
  type EventScanner,
  type ScanPlan,
} from "./event-scanner.ts";
import { ownMember, readName } from "./read-numbers.ts";
import { objectIn, type JsonObject } from "../../../base/json.ts";

// So many events are read in full at the start of a stream, in search of the name of the model.
const FULLY_PARSED_FIRST_EVENTS = 4;

/**
 * What an event was to the meter: of no matter, the bearer of usage, the news of a failure, or the last one. One that bears
 * usage may be the last, or tell of a failure, as well: `finished` and `failed` say so.
 */
export type EventKind = "plain" | "usage" | "failure" | "last";

/** What a wire's reader notes down. */
export interface StreamState {
  /** What was stated last; `usageSoFar` says what the meter makes of it. */
  usage: Usage | undefined;
  /** True once the usage is the provider's final word, not a running total or a beginning. */
  isUsageFinal: boolean;
  /** Whether the answer said so itself that it is complete; `isAnswered` asks for its end as well. */
  hasStopReason: boolean;
  /** True once the terminal event was seen. */
  finished: boolean;
  /** True once the provider reported a failure within the stream. */
  failed: boolean;
  /** UTF-8 bytes of text, reasoning and tool arguments that the provider has sent so far. */
  outputBytes: number;
  model: string | undefined;
  /** Pieces that were charged for so far, where the stream shows them. */
  readonly fees: Partial<Record<FeeMeter, number>>;
}

export interface UsageReader {
  /** Reads one event, and says whether it carried usage. */
  read(state: StreamState, name: string, data: JsonObject): boolean;
  /** How to skim; without it, every event is read. */
  readonly plan?: ScanPlan;
  /** The text bytes of one skimmed event out of its slots; their sum where this is not given. */
  readonly combineSlots?: (slots: readonly number[]) => number;
  /** The usage where it is put together only when asked for. */
  readonly usage?: (state: StreamState) => Usage | undefined;
}

/** Every stream has one, so it is nothing but data; others read it, and the functions below change it. */
export interface StreamMeter extends StreamState {
  readonly reader: UsageReader;
  readonly scanner: EventScanner | undefined;
  eventsRead: number;
}

export function createUsageMeter(reader: UsageReader): StreamMeter {
  return {
    usage: undefined,
    isUsageFinal: false,
    hasStopReason: false,
    finished: false,
    failed: false,
    outputBytes: 0,
    model: undefined,
    fees: {},
    reader,
    scanner: reader.plan && createEventScanner(reader.plan),
    eventsRead: 0,
  };
}

/** Takes an event: its name, "" where it has none, and its data, as text or parsed. */
export function readEvent(meter: StreamMeter, name: string, data: unknown): EventKind {
  if (data === "[DONE]") {
    meter.finished = true;
    // Whatever a running total says now is its last word, even where no choice gave a reason to end.
    meter.isUsageFinal ||= meter.usage !== undefined;
    return "last";
  }
  const json = objectIn(typeof data === "string" ? parseJson(data) : data);
  if (json === undefined) return "plain";
  meter.eventsRead++;
  const hadFailed = meter.failed;
  const hadFinished = meter.finished;
  const usage = meter.reader.read(meter, name, json);
  if (usage) return "usage";
  if (meter.failed && !hadFailed) return "failure";
  return meter.finished && !hadFinished ? "last" : "plain";
}

/** What the event at hand has of each kind of text. */
const slots = [0, 0, 0, 0];

/** Takes an event as bytes and builds its JSON only where the meter needs it: the way for events relayed as they are. */
export function scanEvent(meter: StreamMeter, event: SseEvent): EventKind {
  const { scanner, reader } = meter;
  const canScan =
    scanner !== undefined &&
    (meter.model !== undefined || meter.eventsRead >= FULLY_PARSED_FIRST_EVENTS) &&
    // A bare `[DONE]` has no quotes and no braces, and is as short as an event can be.
    event.raw.length > SHORT_EVENT_BYTES;
  if (!canScan) return parseEvent(meter, event);
  slots[0] = slots[1] = slots[2] = slots[3] = 0;
  if (needsParse(scanner, event.raw, slots)) return parseEvent(meter, event);
  meter.outputBytes += reader.combineSlots === undefined ? sum(slots) : reader.combineSlots(slots);
  return "plain";
}

/** Takes an event as bytes whose JSON is needed anyway: it is built once for all. */
export function parseEvent(meter: StreamMeter, event: SseEvent): EventKind {
  const message = readSse(event);
  if (message === undefined) return "plain";
  const data = message.data.trim();
  if (data === "[DONE]") return readEvent(meter, message.name, data);
  message.json ??= parseJson(data);
  return readEvent(meter, message.name, message.json);
}

export function usageSoFar(meter: StreamMeter): Usage | undefined {
  return meter.reader.usage === undefined ? meter.usage : meter.reader.usage(meter);
}

/** True once the answer is complete, whatever may still follow it: for streams that just end. */
export function isReplyComplete({ hasStopReason, finished }: StreamMeter): boolean {
  return hasStopReason || finished;
}

const SHORT_EVENT_BYTES = 32;

/** The first name of a model that a stream tells; some open with an event that has none. */
export function setModel(state: StreamState, value: unknown): void {
  state.model = readName(value) ?? state.model;
}

export function addText(state: StreamState, value: unknown): void {
  if (typeof value === "string") state.outputBytes += utf8Bytes(value);
}

/** An error event, by whichever of its signs: its name, its type, or an `error` that is not null. */
export function detectError(state: StreamState, name: string, data: JsonObject): void {
  const error = ownMember(data, "error");
  if (name === "error" || data["type"] === "error" || (error !== undefined && error !== null))
    state.failed = true;
}

export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x80) bytes++;
    else if (code < 0x8_00 || (code >= 0xd8_00 && code <= 0xdf_ff)) bytes += 2;
    else bytes += 3;
  }
  return bytes;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sum(slots: readonly number[]): number {
  let total = 0;
  for (const bytes of slots) total += bytes;
  return total;
}
