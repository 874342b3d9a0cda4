import { truncatedStreamError } from "../../canonical/canonical-error.ts";
import type { CanonicalEvent } from "../../canonical/canonical-events.ts";
import {
  parseEvent,
  type ReplyReadContext,
  type WireEvent,
  type WireStreamReader,
} from "../../canonical/wire-interfaces.ts";
import { arrayIn, type JsonObject, objectIn, stringIn, lookUp } from "../../json-fields.ts";
import { readError } from "../../openai-errors.ts";
import { readFinish } from "./map-responses-finish-reason.ts";
import { readReplyHead } from "./read-responses-reply.ts";
import {
  addArguments,
  addCitation,
  addDelta,
  addItem,
  addWholeText,
  createItemsState,
  endArguments,
  endItem,
  finishItems,
  type ItemsState,
  type TextSlot,
} from "./read-responses-stream-items.ts";

interface ReaderState {
  readonly items: ItemsState;
  started: boolean;
  ended: boolean;
}

export function createStreamReader(context: ReplyReadContext): WireStreamReader {
  const state: ReaderState = { items: createItemsState(context), started: false, ended: false };
  return {
    push(wireEvent: WireEvent) {
      const event = state.ended ? undefined : parseEvent(wireEvent);
      if (event === undefined) return NO_EVENTS;
      const type = stringIn(event["type"]) ?? wireEvent.name;
      // Intermediate gateways send their own errors without a type.
      const isUntypedError = type === "" && objectIn(event["error"]) !== undefined;
      readEvent(state, isUntypedError ? "error" : type, event);
      return takeEvents(state.items);
    },
    end() {
      if (state.ended) return NO_EVENTS;
      state.ended = true;
      return [{ type: "error", error: truncatedStreamError() }];
    },
  };
}

const NO_EVENTS: readonly CanonicalEvent[] = [];

// Reasoning text is `reasoning` in the Open Responses specification and `reasoning_text` at OpenAI.
const SLOT_BY_EVENT: Readonly<Record<string, TextSlot>> = {
  "response.output_text.delta": "text",
  "response.output_text.done": "text",
  "response.refusal.delta": "refusal",
  "response.refusal.done": "refusal",
  "response.reasoning_summary_text.delta": "summary",
  "response.reasoning_summary_text.done": "summary",
  "response.reasoning_text.delta": "thought",
  "response.reasoning_text.done": "thought",
  "response.reasoning.delta": "thought",
  "response.reasoning.done": "thought",
};

function takeEvents(items: ItemsState): readonly CanonicalEvent[] {
  const { out } = items;
  if (out.length === 0) return NO_EVENTS;
  items.out = [];
  return out;
}

const ITEM_HANDLERS: Readonly<Record<string, (items: ItemsState, event: JsonObject) => void>> = {
  "response.output_item.added": addItem,
  "response.output_item.done": endItem,
  "response.function_call_arguments.delta": addArguments,
  "response.custom_tool_call_input.delta": addArguments,
  "response.function_call_arguments.done": endArguments,
  "response.custom_tool_call_input.done": endArguments,
  "response.output_text.annotation.added": addCitation,
};

function readEvent(state: ReaderState, type: string, event: JsonObject): void {
  const { items } = state;
  const slot = lookUp(SLOT_BY_EVENT, type);
  const onItem = lookUp(ITEM_HANDLERS, type);
  if (slot !== undefined || onItem !== undefined) start(state, {});
  if (slot === undefined) onItem?.(items, event);
  else if (type.endsWith(".delta")) addDelta(items, event, slot);
  else addWholeText(items, event, slot);
  switch (type) {
    case "response.created":
    case "response.in_progress":
    case "response.queued":
      return start(state, objectIn(event["response"]) ?? {});
    case "response.completed":
    case "response.incomplete":
    case "response.failed":
    case "response.cancelled": {
      const status = type.slice("response.".length);
      return finish(state, { status, ...objectIn(event["response"]) });
    }
    case "error":
      state.ended = true;
      items.out.push({ type: "error", error: readError(200, event) });
  }
}

function start(state: ReaderState, response: JsonObject): void {
  if (state.started) return;
  state.started = true;
  const { items } = state;
  const head = readReplyHead(response);
  items.replyId = head.id;
  items.out.push({ type: "start", ...head });
}

function finish(state: ReaderState, response: JsonObject): void {
  const { items } = state;
  state.ended = true;
  start(state, response);
  finishItems(items, arrayIn(response["output"]));
  const usage = items.context.readUsage(response);
  if (usage !== undefined) items.out.push({ type: "usage", report: { usage } });
  if (response["status"] === "failed" || objectIn(response["error"]) !== undefined) {
    items.out.push({ type: "error", error: readError(200, response) });
    return;
  }
  const contents = { hasToolCalls: items.hasToolCalls, hasRefusal: items.hasRefusal };
  items.out.push({ type: "finish", choice: 0, finish: readFinish(response, contents) });
}
