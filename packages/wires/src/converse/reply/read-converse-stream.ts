import { truncatedStreamError } from "../../canonical/canonical-error.ts";
import type { CanonicalEvent } from "../../canonical/canonical-events.ts";
import {
  parseEvent,
  type ReplyReadContext,
  type WireEvent,
  type WireStreamReader,
} from "../../canonical/wire-interfaces.ts";
import { type JsonObject, numberIn, objectIn, stringIn } from "../../json-fields.ts";
import { readException } from "./map-converse-error.ts";
import { readFinish } from "./map-converse-finish-reason.ts";
import {
  addToBlock,
  createMessageState,
  endBlock,
  endMessage,
  type MessageState,
  startBlock,
} from "./read-converse-stream-blocks.ts";

interface ReaderState {
  readonly context: ReplyReadContext;
  readonly message: MessageState;
  /** The events of the current push. */
  out: CanonicalEvent[];
  started: boolean;
  stop: JsonObject | undefined;
  metadata: JsonObject | undefined;
  ended: boolean;
}

export function createStreamReader(context: ReplyReadContext): WireStreamReader {
  const sink: { out: CanonicalEvent[] } = { out: [] };
  const state: ReaderState = Object.assign(sink, {
    context,
    message: createMessageState(sink, context),
    started: false,
    stop: undefined,
    metadata: undefined,
    ended: false,
  });
  return {
    push(event) {
      state.out = [];
      if (!state.ended) readEvent(state, event);
      return state.out;
    },
    end() {
      state.out = [];
      if (!state.ended) finish(state);
      return state.out;
    },
  };
}

function readEvent(state: ReaderState, event: WireEvent): void {
  const { name } = event;
  const payload = parseEvent(event);
  if (name !== "") return readEventPayload(state, name, payload ?? {});
  // In the JSON form of the stream, the event's name is the only key.
  const [key = ""] = Object.keys(payload ?? {});
  const value = objectIn(payload?.[key]);
  if (value !== undefined) readEventPayload(state, key, value);
}

function readEventPayload(state: ReaderState, name: string, payload: JsonObject): void {
  const { message } = state;
  const index = numberIn(payload["contentBlockIndex"]) ?? 0;
  if (name.endsWith("xception")) {
    state.ended = true;
    const error = readException(name, stringIn(payload["message"]));
    state.out.push({ type: "error", error });
    return;
  }
  start(state);
  switch (name) {
    case "contentBlockDelta":
      return addToBlock(message, index, objectIn(payload["delta"]) ?? {});
    case "contentBlockStart":
      return startBlock(message, index, objectIn(payload["start"]) ?? {});
    case "contentBlockStop":
      return endBlock(message);
    case "messageStop":
      state.stop = payload;
      return endMessage(message);
    case "metadata":
      state.metadata = payload;
      if (state.stop !== undefined) finish(state);
      return;
    default:
  }
}

function start(state: ReaderState): void {
  if (state.started) return;
  state.started = true;
  state.out.push({ type: "start" });
}

function finish(state: ReaderState): void {
  state.ended = true;
  const { out, message, stop, metadata, context } = state;
  const reason = stringIn(stop?.["stopReason"]);
  if (stop === undefined || reason === undefined) {
    out.push({ type: "error", error: truncatedStreamError() });
    return;
  }
  endMessage(message);
  const info = {
    reason,
    stopSequence: stopSequenceOf(stop["additionalModelResponseFields"]),
    detail: guardrailMessage(metadata),
  };
  out.push({ type: "finish", choice: 0, finish: readFinish(info, message.hasToolCalls) });
  const usage = metadata === undefined ? undefined : context.readUsage(metadata);
  if (usage !== undefined) out.push({ type: "usage", report: { usage } });
}

/** Claude's own field, which the request asks for. In a stream it may be inside the model's own `delta`. */
export function stopSequenceOf(responseFields: unknown): string | undefined {
  const fields = objectIn(responseFields);
  return (
    stringIn(fields?.["stop_sequence"]) ?? stringIn(objectIn(fields?.["delta"])?.["stop_sequence"])
  );
}

/** Why a guardrail intervened. */
export function guardrailMessage(body: JsonObject | undefined): string | undefined {
  const trace = objectIn(body?.["trace"]);
  return stringIn(objectIn(trace?.["guardrail"])?.["actionReason"]);
}
