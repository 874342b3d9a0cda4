// Collects the events of a response. Its last event has the whole response; the items are collected for one that is cut.

import { arrayIn, isObject, type JsonObject, objectIn } from "../json-fields.ts";
import { responsesCutEnd } from "../length-stop.ts";
import {
  append,
  collected,
  type Collected,
  indexOf,
  type StreamCollector,
} from "./stream-collector.ts";

/** Where the text of an event belongs: a member of its item, or of a part of it. */
const TEXTS: Readonly<Record<string, readonly [member: string, list?: "content" | "summary"]>> = {
  "response.output_text.delta": ["text", "content"],
  "response.refusal.delta": ["refusal", "content"],
  "response.reasoning_text.delta": ["text", "content"],
  "response.reasoning_summary_text.delta": ["text", "summary"],
  "response.function_call_arguments.delta": ["arguments"],
  "response.custom_tool_call_input.delta": ["input"],
};
const PARTS: Readonly<Record<string, "content" | "summary">> = {
  "response.content_part.added": "content",
  "response.content_part.done": "content",
  "response.reasoning_summary_part.added": "summary",
  "response.reasoning_summary_part.done": "summary",
};
const INDEXES = { content: "content_index", summary: "summary_index" } as const;

export function createResponsesCollector(): StreamCollector {
  let response: JsonObject | undefined;
  const items: Collected[] = [];
  return {
    push: (data) => {
      const { type, item } = data;
      response = objectIn(data["response"]) ?? response;
      if (typeof type !== "string") return;
      const index = indexOf(data, "output_index");
      if (isObject(item)) items[index] = collected(item);
      const list = PARTS[type];
      const [member, textList] = TEXTS[type] ?? [];
      if (list !== undefined) Object.assign(partOf(items[index], list, data) ?? {}, data["part"]);
      else if (member !== undefined) {
        const target = textList === undefined ? items[index] : partOf(items[index], textList, data);
        append(target, member, data["delta"]);
      }
    },
    stop: (usage) => {
      response = { ...response, ...responsesCutEnd(usage) };
    },
    reply: () => {
      const whole = items.filter(isObject);
      if (response === undefined || arrayIn(response["output"]).length >= whole.length)
        return response;
      return { ...response, output: whole.map(cutItem) };
    },
  };
}

/** The part of an item that an event names, which is added if the item does not have it. */
function partOf(
  item: Collected | undefined,
  list: "content" | "summary",
  data: JsonObject,
): Collected | undefined {
  if (item === undefined) return undefined;
  const parts = arrayIn(item[list]).map(collected);
  const part = (parts[indexOf(data, INDEXES[list])] ??= {});
  item[list] = parts;
  return part;
}

function cutItem(item: Collected): Collected {
  return item["status"] === "in_progress" ? { ...item, status: "incomplete" } : item;
}
