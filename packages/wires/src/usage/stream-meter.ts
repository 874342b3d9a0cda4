// The stream meter shared by all wires. It takes one event at a time and keeps counts and names, never the text.

import { readSse, type SseEvent } from "../frames/sse.ts";
import { objectIn, type JsonObject, parseJson } from "../json-fields.ts";
import {
  createEventScanner,
  needsParse,
  textSpans,
  type EventScanner,
  type ScanPlan,
} from "./event-scanner.ts";
import { ownMember, readName } from "./read-numbers.ts";
import { createRelayedText, keepRawText, keepText, type RelayedText } from "./relayed-text.ts";
import { lastUsageIn } from "./usage-in-tail.ts";
import type { FeeMeter, Usage } from "./usage-meters.ts";

// The first events of a stream are parsed in full until one names the model.
const FULLY_PARSED_FIRST_EVENTS = 4;

/**
 * What an event means to the meter. A "usage" event may also be the last event or report a failure: see `finished` and
 * `failed`.
 */
export type EventKind = "plain" | "usage" | "failure" | "last";

/** The state that a wire's reader updates. */
export interface StreamState {
  /** The last usage reported; read it with `usageSoFar`. */
  usage: Usage | undefined;
  /** True once the usage is final, not a running total. */
  isUsageFinal: boolean;
  /** True once the provider has sent usage that is not a running total, also before the stop reason. */
  isUsageStated: boolean;
  /** True once every choice has a stop reason; `isReplyComplete` also accepts a terminal event. */
  hasStopReason: boolean;
  /** True once the terminal event was seen. */
  finished: boolean;
  /** True once the provider reported a failure within the stream. */
  failed: boolean;
  /** UTF-8 bytes of text, reasoning and tool arguments received so far. */
  outputBytes: number;
  /** The same, for a count of its tokens. */
  readonly text: RelayedText;
  /** Tool calls that have begun. Each has more tokens than its name and arguments. */
  toolCalls: number;
  /** Calls of tools that the provider runs; undefined if the stream does not show them. */
  providerCalls: number | undefined;
  /** Bytes of audio output received so far, in base64. */
  outputAudioBytes: number;
  model: string | undefined;
  /** Charged tool uses so far, if the stream shows them. */
  readonly fees: Partial<Record<FeeMeter, number>>;
}

export interface UsageReader {
  /** Reads one event; true if it carried usage. */
  read(state: StreamState, name: string, data: JsonObject): boolean;
  /** An event with the usage object that was found at the end of an event that is too long to be read. */
  readonly usageEvent?: (usage: JsonObject, model: string | undefined) => JsonObject;
  /** How to scan events; without it, every event is parsed. */
  readonly plan?: ScanPlan;
  /** Text bytes of a scanned event from its slots; by default their sum. */
  readonly combineSlots?: (slots: readonly number[]) => number;
  /** Builds the usage on demand; by default it is `state.usage`. */
  readonly usage?: (state: StreamState) => Usage | undefined;
}

/** One per stream, so it is plain data without closures: readers may look at it, only the functions below change it. */
export interface StreamMeter extends StreamState {
  readonly reader: UsageReader;
  readonly scanner: EventScanner | undefined;
  eventsRead: number;
}

export function createUsageMeter(reader: UsageReader): StreamMeter {
  return {
    usage: undefined,
    isUsageFinal: false,
    isUsageStated: false,
    hasStopReason: false,
    finished: false,
    failed: false,
    outputBytes: 0,
    text: createRelayedText(),
    toolCalls: 0,
    providerCalls: undefined,
    outputAudioBytes: 0,
    model: undefined,
    fees: {},
    reader,
    scanner: reader.plan && createEventScanner(reader.plan),
    eventsRead: 0,
  };
}

/** Reads an event: its name ("" if it has none) and its data, as text or parsed. */
export function readEvent(meter: StreamMeter, name: string, data: unknown): EventKind {
  if (data === "[DONE]") {
    meter.finished = true;
    // A running total is final now, even if no choice had a stop reason.
    meter.isUsageFinal ||= meter.usage !== undefined;
    return "last";
  }
  const json = objectIn(typeof data === "string" ? parseJson(data) : data);
  if (json === undefined) return "plain";
  meter.eventsRead++;
  const hadFailed = meter.failed;
  const hadFinished = meter.finished;
  const hasUsage = meter.reader.read(meter, name, json);
  meter.isUsageStated ||= meter.isUsageFinal;
  if (hasUsage) return "usage";
  if (meter.failed && !hadFailed) return "failure";
  return meter.finished && !hadFinished ? "last" : "plain";
}

/** Text bytes of the current event by slot. Module-level, so that no array is allocated per event. */
const slots = [0, 0, 0, 0];

/** Reads an event from its bytes and parses its JSON only if necessary: for passthrough streams. */
export function scanEvent(meter: StreamMeter, event: SseEvent): EventKind {
  const { scanner, reader } = meter;
  const canScan =
    scanner !== undefined &&
    (meter.model !== undefined || meter.eventsRead >= FULLY_PARSED_FIRST_EVENTS) &&
    // `[DONE]` has no JSON to scan; every other event is longer than this.
    event.raw.length > SHORT_EVENT_BYTES;
  if (!canScan) return meterEvent(meter, event);
  slots[0] = slots[1] = slots[2] = slots[3] = 0;
  if (needsParse(scanner, event.raw, slots)) return meterEvent(meter, event);
  meter.outputBytes += reader.combineSlots === undefined ? sum(slots) : reader.combineSlots(slots);
  keepSpans(meter.text, event.raw);
  return "plain";
}

// Texts outside of the first slot repeat each other: only the longest is kept.
function keepSpans(text: RelayedText, raw: Uint8Array): void {
  const { count, values } = textSpans;
  const longest = count < 2 ? 0 : longestSlot();
  for (let at = 0; at < count * 3; at += 3) {
    const slot = values[at] ?? 0;
    if (count < 2 || slot === 0 || slot === longest)
      keepRawText(text, raw, values[at + 1] ?? 0, values[at + 2] ?? 0);
  }
}

function longestSlot(): number {
  let longest = 1;
  for (let slot = 2; slot < slots.length; slot++)
    if ((slots[slot] ?? 0) > (slots[longest] ?? 0)) longest = slot;
  return longest;
}

/** Reads an event whose JSON other code needs as well: it is parsed once and kept on the event. */
export function meterEvent(meter: StreamMeter, event: SseEvent): EventKind {
  const message = readSse(event);
  if (message === undefined) return "plain";
  const data = message.data.trim();
  if (data === "[DONE]") return readEvent(meter, message.name, data);
  message.json ??= parseJson(data);
  return readEvent(meter, message.name, message.json);
}

/** Reads the usage from the end of an event that is longer than the parser keeps. */
export function readCutEvent(meter: StreamMeter, { raw }: SseEvent): EventKind {
  const { usageEvent } = meter.reader;
  const usage = usageEvent && lastUsageIn(decoder.decode(raw));
  return usage === undefined || usageEvent === undefined
    ? "plain"
    : readEvent(meter, "", usageEvent(usage, meter.model));
}

/** Whether a reply has neither output, nor a tool call, nor a reason why it ended. */
export function isEmptyReply(meter: StreamMeter): boolean {
  return (
    meter.outputBytes === 0 &&
    meter.outputAudioBytes === 0 &&
    meter.toolCalls === 0 &&
    !meter.hasStopReason &&
    Object.keys(meter.fees).length === 0
  );
}

export function usageSoFar(meter: StreamMeter): Usage | undefined {
  return meter.reader.usage === undefined ? meter.usage : meter.reader.usage(meter);
}

/** True once the reply is complete, even if events may still follow. Some streams end without a terminal event. */
export function isReplyComplete({ hasStopReason, finished }: StreamMeter): boolean {
  return hasStopReason || finished;
}

const SHORT_EVENT_BYTES = 32;
const decoder = new TextDecoder();

/** Sets the model from an event that names one; the first events of some streams do not. */
export function setModel(state: StreamState, value: unknown): void {
  state.model = readName(value) ?? state.model;
}

export function addText(state: StreamState, value: unknown): void {
  if (typeof value !== "string" || value === "") return;
  state.outputBytes += utf8Bytes(value);
  keepText(state.text, value);
}

/** A tool call begins, with the name of its tool. */
export function addToolCall(state: StreamState, name: unknown): void {
  if (typeof name !== "string" || name === "") return;
  state.toolCalls += 1;
  keepText(state.text, name);
}

/** Detects an error event by its name, its type, or an `error` that is not null. */
export function detectError(state: StreamState, name: string, data: JsonObject): void {
  const error = ownMember(data, "error");
  if (name === "error" || data["type"] === "error" || (error !== undefined && error !== null))
    state.failed = true;
}

export function addAudio(state: StreamState, value: unknown): void {
  if (typeof value === "string") state.outputAudioBytes += value.length;
}

function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x80) bytes++;
    else if (code < 0x8_00 || (code >= 0xd8_00 && code <= 0xdf_ff)) bytes += 2;
    else bytes += 3;
  }
  return bytes;
}

function sum(slots: readonly number[]): number {
  let total = 0;
  for (const bytes of slots) total += bytes;
  return total;
}
