import type { CanonicalEvent, JsonObject } from "../../canonical.ts";
import { cutStream } from "../../canonical-error.ts";
import { arrayIn, objectIn, parseEvent, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext, StreamReader, WireEvent } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readFinish } from "./map-finish-reason.ts";
import { readHead } from "./read-reply.ts";
import {
  addArguments,
  addCitation,
  addDelta,
  addItem,
  addWhole,
  createItems,
  endArguments,
  endItem,
  settleItems,
} from "./stream-items.ts";
import type { Slot, StreamedItems } from "./stream-items.ts";

interface Reading {
  readonly items: StreamedItems;
  started: boolean;
  over: boolean;
}

export function createStreamReader(context: ReplyReadContext): StreamReader {
  const reading: Reading = { items: createItems(context), started: false, over: false };
  return {
    push(told: WireEvent) {
      const event = reading.over ? undefined : parseEvent(told);
      if (event === undefined) return NOTHING;
      const type = stringIn(event["type"]) ?? told.name;
      // Gateways in between put their own errors into the stream, without a type.
      const failed = type === "" && objectIn(event["error"]) !== undefined;
      read(reading, failed ? "error" : type, event);
      return taken(reading.items);
    },
    end() {
      if (reading.over) return NOTHING;
      reading.over = true;
      return [{ type: "error", error: cutStream() }];
    },
  };
}

const NOTHING: readonly CanonicalEvent[] = [];

// The Open Responses specification calls the text of reasoning `reasoning`, OpenAI `reasoning_text`.
const SLOTS: Readonly<Record<string, Slot>> = {
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

function taken(items: StreamedItems): readonly CanonicalEvent[] {
  const { out } = items;
  if (out.length === 0) return NOTHING;
  items.out = [];
  return out;
}

const ON_ITEM: Readonly<Record<string, (items: StreamedItems, event: JsonObject) => void>> = {
  "response.output_item.added": addItem,
  "response.output_item.done": endItem,
  "response.function_call_arguments.delta": addArguments,
  "response.custom_tool_call_input.delta": addArguments,
  "response.function_call_arguments.done": endArguments,
  "response.custom_tool_call_input.done": endArguments,
  "response.output_text.annotation.added": addCitation,
};

function read(reading: Reading, type: string, event: JsonObject): void {
  const { items } = reading;
  const slot = SLOTS[type];
  const onItem = ON_ITEM[type];
  if (slot !== undefined || onItem !== undefined) start(reading, {});
  if (slot === undefined) onItem?.(items, event);
  else if (type.endsWith(".delta")) addDelta(items, event, slot);
  else addWhole(items, event, slot);
  switch (type) {
    case "response.created":
    case "response.in_progress":
    case "response.queued":
      return start(reading, objectIn(event["response"]) ?? {});
    case "response.completed":
    case "response.incomplete":
    case "response.failed":
    case "response.cancelled": {
      const status = type.slice("response.".length);
      return finish(reading, { status, ...objectIn(event["response"]) });
    }
    case "error":
      reading.over = true;
      items.out.push({ type: "error", error: readError(200, event) });
  }
}

function start(reading: Reading, response: JsonObject): void {
  if (reading.started) return;
  reading.started = true;
  const { items } = reading;
  const head = readHead(response);
  items.replyId = head.id;
  items.out.push({ type: "start", ...head });
}

function finish(reading: Reading, response: JsonObject): void {
  const { items } = reading;
  reading.over = true;
  start(reading, response);
  settleItems(items, arrayIn(response["output"]));
  const usage = items.context.readUsage(response);
  if (usage !== undefined) items.out.push({ type: "usage", report: { usage } });
  if (response["status"] === "failed" || objectIn(response["error"]) !== undefined) {
    items.out.push({ type: "error", error: readError(200, response) });
    return;
  }
  const held = { calls: items.calls, refusal: items.refused };
  items.out.push({ type: "finish", choice: 0, finish: readFinish(response, held) });
}
