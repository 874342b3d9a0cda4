// Turns the bytes of a provider's stream into those for the client: parse, meter, transform. The terminal event, and everything
// after it, is held back until the call is settled.

import {
  endOfBytes,
  parseSingle,
  readSse,
  type SseEvent,
  type SseParser,
  isReplyComplete,
  meterEvent,
  readCutEvent,
  scanEvent,
  type StreamMeter,
} from "@postern/wires";
import { type JsonObject, parseJson } from "../../base/json.ts";
import type { StreamTransform } from "../translate/stream-transform.ts";

export interface EventPipelineOptions {
  readonly parser: SseParser;
  readonly meter: StreamMeter;
  readonly transform: StreamTransform;
  /** Whether every event is parsed anyway, because it is translated. */
  readonly parsesAllEvents: boolean;
  /** Whether closing ends this passthrough stream: then everything from the stop reason on waits for the settlement. */
  readonly endsStreamByClosing: boolean;
  /** Whether the provider's streams have no terminal event. */
  readonly lacksTerminalEvent: boolean;
  /** Whether the provider sends, and the client gets, the bytes of a file in place of events. */
  readonly bytes?: BytesOfFile | undefined;
  /** Whether what a cut of the stream repeats is kept: its first event, and finished items. */
  readonly keepsReply: boolean;
  /** The cost so far. */
  readonly costUsd: () => string | undefined;
}

export interface BytesOfFile {
  readonly isSent: boolean;
  readonly isReturned: boolean;
}

/** Plain data, because every stream has one. */
export interface EventPipeline extends EventPipelineOptions {
  readonly heldBack: Uint8Array[];
  /** The last event for the client. */
  latest: Uint8Array | undefined;
  /** The first event for the client, and those with finished items, if they are kept. */
  first: Uint8Array | undefined;
  readonly items: Uint8Array[];
  /** Whether the connection to the provider was lost. */
  isCutOff: boolean;
  /** Whether the last event of the provider lacks its blank line. */
  lacksBlank: boolean;
  /** Set by the terminal event, or by the close of a stream that has failed or can be complete without it. */
  end: "completed" | "failed" | undefined;
}

const NO_ITEMS: Uint8Array[] = [];
/** A ping says nothing about the reply. Every other event is longer. */
const PING_MAX_BYTES = 40;
const DONE_ITEM = "response.output_item.done";

export function createEventPipeline(options: EventPipelineOptions): EventPipeline {
  const { parser, meter, transform, parsesAllEvents } = options;
  const { endsStreamByClosing, lacksTerminalEvent, bytes, keepsReply, costUsd } = options;
  // Not a spread, which would keep the last members in a second object.
  return {
    parser,
    meter,
    transform,
    parsesAllEvents,
    heldBack: [],
    endsStreamByClosing,
    end: undefined,
    latest: undefined,
    keepsReply,
    first: undefined,
    items: keepsReply ? [] : NO_ITEMS,
    isCutOff: false,
    lacksBlank: false,
    lacksTerminalEvent,
    bytes,
    costUsd,
  };
}

/** The bytes for the client. Throws if the chunk is not part of a valid event stream, or an event exceeds the parser's limit. */
export function transformChunk(pipeline: EventPipeline, chunk: Uint8Array): Uint8Array | undefined {
  const { parser, meter } = pipeline;
  const single = parseSingle(parser, chunk);
  const bytes =
    single === undefined
      ? transformEvents(pipeline, parser.push(chunk))
      : transformEvent(pipeline, single);
  if (meter.finished) pipeline.end = meter.failed ? "failed" : "completed";
  return bytes;
}

/** The bytes of events that the end of the stream completes. */
export function transformEnd(pipeline: EventPipeline): Uint8Array | undefined {
  if (pipeline.bytes?.isSent === true) {
    // Nothing in the bytes of a file says that they are complete.
    if (pipeline.isCutOff) return undefined;
    endOfBytes(pipeline.meter);
  }
  const bytes = transformEvents(pipeline, finalEvents(pipeline));
  if (pipeline.meter.failed) pipeline.end = "failed";
  else if (isCompleteAtClose(pipeline)) pipeline.end = "completed";
  return bytes;
}

/** Adds what completes a successful stream to the bytes that are held back. */
export function completeEvents(pipeline: EventPipeline): void {
  const { transform, meter, costUsd, heldBack } = pipeline;
  const last = transform.finish(meter.finished, costUsd);
  if (last !== undefined) heldBack.push(withBlankLine(pipeline, last));
}

/** The error event for a stream that broke off; undefined if an error event was sent already. */
export function errorEventOf(pipeline: EventPipeline, body: JsonObject): Uint8Array | undefined {
  const error = pipeline.transform.errorEvent(body, pipeline.latest);
  return error === undefined ? undefined : withBlankLine(pipeline, error);
}

/** Whether a stream that closed is complete: without its terminal event, only if nothing else can be missing. */
function isCompleteAtClose({ meter, lacksTerminalEvent }: EventPipeline): boolean {
  return meter.finished || (meter.hasStopReason && (lacksTerminalEvent || meter.isUsageFinal));
}

const BLANK_LINE = new TextEncoder().encode("\n\n");

function withBlankLine({ lacksBlank, bytes: file }: EventPipeline, bytes: Uint8Array): Uint8Array {
  return lacksBlank && file?.isReturned !== true ? Buffer.concat([BLANK_LINE, bytes]) : bytes;
}

function transformEvents(
  pipeline: EventPipeline,
  events: readonly SseEvent[],
): Uint8Array | undefined {
  let firstBytes: Uint8Array | undefined;
  let allBytes: Uint8Array[] | undefined;
  for (const event of events) {
    const bytes = transformEvent(pipeline, event);
    if (bytes === undefined) continue;
    if (firstBytes === undefined) firstBytes = bytes;
    else (allBytes ??= [firstBytes]).push(bytes);
  }
  return allBytes === undefined ? firstBytes : Buffer.concat(allBytes);
}

/** Keeps what the last events of a stream that breaks off, or is cut, are written from. */
function keepForEnd(pipeline: EventPipeline, bytes: Uint8Array): void {
  if (bytes.length > PING_MAX_BYTES) pipeline.latest = bytes;
  if (!pipeline.keepsReply) return;
  pipeline.first ??= bytes;
  if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(DONE_ITEM))
    pipeline.items.push(bytes);
}

/** Events without their blank line: an incomplete one is dropped, and a complete one gets the line before the next event. */
function finalEvents(pipeline: EventPipeline): SseEvent[] {
  return pipeline.parser.end().filter((event) => {
    if (event.isComplete) return true;
    const data = readSse(event)?.data.trim();
    const isWhole = data === "[DONE]" || (data !== undefined && parseJson(data) !== undefined);
    pipeline.lacksBlank = isWhole;
    return isWhole;
  });
}

function transformEvent(pipeline: EventPipeline, event: SseEvent): Uint8Array | undefined {
  const { meter, transform, parsesAllEvents, heldBack } = pipeline;
  // What comes after the end is not part of the reply: it is neither metered nor translated, and dropped after an error.
  if (event.isCut === true) {
    readCutEvent(meter, event);
    return undefined;
  }
  if (meter.finished) {
    if (!parsesAllEvents && !meter.failed) heldBack.push(event.raw);
    return undefined;
  }
  const kind = parsesAllEvents ? meterEvent(meter, event) : scanEvent(meter, event);
  const transformed =
    kind === "usage" && meter.isUsageFinal
      ? transform.transformUsageEvent(event, pipeline.costUsd)
      : transform.transformEvent(event);
  const bytes =
    transformed !== undefined && meter.failed ? transform.rewriteError(transformed) : transformed;
  const isHeldBack =
    meter.finished ||
    heldBack.length > 0 ||
    (pipeline.endsStreamByClosing && isReplyComplete(meter));
  if (bytes === undefined) return undefined;
  keepForEnd(pipeline, bytes);
  if (!isHeldBack) return bytes;
  heldBack.push(bytes);
  return undefined;
}
