import { truncatedStreamError } from "../../canonical/canonical-error.ts";
import type { CanonicalEvent } from "../../canonical/canonical-events.ts";
import {
  parseEvent,
  type ReplyReadContext,
  type WireStreamReader,
} from "../../canonical/wire-interfaces.ts";
import { arrayIn, type JsonObject, numberIn, objectIn, stringIn } from "../../json-fields.ts";
import { readError } from "./map-messages-error.ts";
import { readFinish } from "./map-messages-finish-reason.ts";
import {
  addToBlock,
  type BlocksState,
  endBlock,
  startBlock,
} from "./read-messages-stream-blocks.ts";

interface ReaderState extends BlocksState {
  delta: JsonObject | undefined;
  usage: JsonObject | undefined;
  ended: boolean;
}

export function createStreamReader(context: ReplyReadContext): WireStreamReader {
  const state = createReaderState(context);
  return {
    push(event) {
      state.out = [];
      const data = state.ended ? undefined : parseEvent(event);
      if (data !== undefined) readEvent(state, data);
      return state.out;
    },
    end() {
      state.out = [];
      finish(state);
      return state.out;
    },
  };
}

/** The events of a reply that was not streamed. */
export function readMessageEvents(
  message: JsonObject,
  context: ReplyReadContext,
): readonly CanonicalEvent[] {
  const state = createReaderState(context);
  start(state, { message });
  state.delta ??= message;
  emitFinish(state);
  return state.out;
}

function createReaderState(context: ReplyReadContext): ReaderState {
  return {
    context,
    blocks: new Map(),
    out: [],
    message: undefined,
    delta: undefined,
    usage: undefined,
    partCount: 0,
    hasToolCalls: false,
    ended: false,
  };
}

function readEvent(state: ReaderState, event: JsonObject): void {
  switch (event["type"]) {
    case "content_block_delta":
      return addToBlock(state, event);
    case "message_start":
      return start(state, event);
    case "content_block_start":
      return startBlock(state, event);
    case "content_block_stop":
      return endBlock(state, numberIn(event["index"]) ?? 0);
    case "message_delta":
      state.delta = { ...state.delta, ...objectIn(event["delta"]) };
      state.usage = mergeUsage(state.usage, objectIn(event["usage"]));
      return;
    case "message_stop":
      return finish(state);
    case "error":
      state.ended = true;
      state.out.push({ type: "error", error: readError(200, event) });
      return;
    default:
  }
}

function start(state: ReaderState, event: JsonObject): void {
  const message = objectIn(event["message"]) ?? {};
  if (state.message !== undefined) return restart(state, message);
  state.message = message;
  state.usage = objectIn(message["usage"]);
  state.out.push({
    type: "start",
    id: stringIn(message["id"]),
    model: stringIn(message["model"]),
    serviceTier: tierOf(state.usage),
  });
  readWholeMessage(state, message);
}

// Another gateway retried the call mid-stream; what was sent of the first attempt cannot be taken back.
function restart(state: ReaderState, message: JsonObject): void {
  if (message["id"] === state.message?.["id"] || state.partCount === 0) return;
  state.ended = true;
  state.out.push({ type: "error", error: truncatedStreamError() });
}

// A reply that only continues running code is complete in the start event.
function readWholeMessage(state: ReaderState, message: JsonObject): void {
  for (const [at, block] of arrayIn(message["content"]).entries()) {
    startBlock(state, { index: -1 - at, content_block: block });
    endBlock(state, -1 - at);
  }
  if (typeof message["stop_reason"] === "string")
    state.delta = {
      stop_reason: message["stop_reason"],
      stop_sequence: message["stop_sequence"],
      stop_details: message["stop_details"],
    };
}

function finish(state: ReaderState): void {
  if (state.ended) return;
  state.ended = true;
  const { out, delta, message, usage, context } = state;
  if (message === undefined || stringIn(delta?.["stop_reason"]) === undefined) {
    out.push({ type: "error", error: truncatedStreamError() });
    return;
  }
  for (const index of state.blocks.keys()) endBlock(state, index);
  emitFinish(state);
  const read = usage === undefined ? undefined : context.readUsage({ ...message, ...delta, usage });
  if (read !== undefined) out.push({ type: "usage", report: { usage: read } });
}

function emitFinish({ out, delta, hasToolCalls }: ReaderState): void {
  const detail = stringIn(objectIn(delta?.["stop_details"])?.["explanation"]);
  const reason = stringIn(delta?.["stop_reason"]);
  const finish = readFinish(reason, stringIn(delta?.["stop_sequence"]), detail, hasToolCalls);
  out.push({ type: "finish", choice: 0, finish });
}

// Later fields replace earlier ones: counts of the start and the delta events are not added up. Null does not replace.
function mergeUsage(
  before: JsonObject | undefined,
  after: JsonObject | undefined,
): JsonObject | undefined {
  if (after === undefined) return before;
  const merged: Record<string, unknown> = { ...before };
  for (const key in after)
    if (after[key] !== null && after[key] !== undefined) merged[key] = after[key];
  return merged;
}

/** The tier `standard` is `default` in the canonical form. */
function tierOf(usage: unknown): string | undefined {
  const tier = stringIn(objectIn(usage)?.["service_tier"]);
  return tier === "standard" ? "default" : tier;
}
