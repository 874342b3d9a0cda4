import type { CanonicalEvent, JsonObject } from "../../canonical.ts";
import { cutStream } from "../../canonical-error.ts";
import { numberIn, objectIn, parseEvent, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext, StreamReader, WireEvent } from "../../canonical-wire.ts";
import { readException } from "./map-error.ts";
import { readFinish } from "./map-finish-reason.ts";
import { addToBlock, createMessage, endBlock, endMessage, startBlock } from "./stream-blocks.ts";
import type { Message } from "./stream-blocks.ts";

interface Reading {
  readonly context: ReplyReadContext;
  readonly message: Message;
  /** The events that the current push gives. */
  out: CanonicalEvent[];
  started: boolean;
  stop: JsonObject | undefined;
  metadata: JsonObject | undefined;
  over: boolean;
}

export function createStreamReader(context: ReplyReadContext): StreamReader {
  const sink: { out: CanonicalEvent[] } = { out: [] };
  const reading: Reading = Object.assign(sink, {
    context,
    message: createMessage(sink, context),
    started: false,
    stop: undefined,
    metadata: undefined,
    over: false,
  });
  return {
    push(event) {
      reading.out = [];
      if (!reading.over) readEvent(reading, event);
      return reading.out;
    },
    end() {
      reading.out = [];
      if (!reading.over) finish(reading);
      return reading.out;
    },
  };
}

function readEvent(reading: Reading, event: WireEvent): void {
  const { name } = event;
  const payload = parseEvent(event);
  if (name !== "") return readNamed(reading, name, payload ?? {});
  // As a JSON line the name of the event is the only key.
  const [only = ""] = Object.keys(payload ?? {});
  const held = objectIn(payload?.[only]);
  if (held !== undefined) readNamed(reading, only, held);
}

function readNamed(reading: Reading, name: string, payload: JsonObject): void {
  const { message } = reading;
  const index = numberIn(payload["contentBlockIndex"]) ?? 0;
  if (name.endsWith("xception")) {
    reading.over = true;
    const error = readException(name, stringIn(payload["message"]));
    reading.out.push({ type: "error", error });
    return;
  }
  start(reading);
  switch (name) {
    case "contentBlockDelta":
      return addToBlock(message, index, objectIn(payload["delta"]) ?? {});
    case "contentBlockStart":
      return startBlock(message, index, objectIn(payload["start"]) ?? {});
    case "contentBlockStop":
      return endBlock(message);
    case "messageStop":
      reading.stop = payload;
      return endMessage(message);
    case "metadata":
      reading.metadata = payload;
      if (reading.stop !== undefined) finish(reading);
      return;
    default:
  }
}

function start(reading: Reading): void {
  if (reading.started) return;
  reading.started = true;
  reading.out.push({ type: "start" });
}

function finish(reading: Reading): void {
  reading.over = true;
  const { out, message, stop, metadata, context } = reading;
  const word = stringIn(stop?.["stopReason"]);
  if (stop === undefined || word === undefined) {
    out.push({ type: "error", error: cutStream() });
    return;
  }
  endMessage(message);
  const said = {
    word,
    stopString: stopStringOf(stop["additionalModelResponseFields"]),
    detail: guardrailOf(metadata),
  };
  out.push({ type: "finish", choice: 0, finish: readFinish(said, message.called) });
  const usage = metadata === undefined ? undefined : context.readUsage(metadata);
  if (usage !== undefined) out.push({ type: "usage", report: { usage } });
}

/** Claude's own field, for which the request has asked; in a stream it may stand in the model's own delta. */
export function stopStringOf(fields: unknown): string | undefined {
  const own = objectIn(fields);
  return stringIn(own?.["stop_sequence"]) ?? stringIn(objectIn(own?.["delta"])?.["stop_sequence"]);
}

/** Why a guardrail stepped in. */
export function guardrailOf(body: JsonObject | undefined): string | undefined {
  const trace = objectIn(body?.["trace"]);
  return stringIn(objectIn(trace?.["guardrail"])?.["actionReason"]);
}
