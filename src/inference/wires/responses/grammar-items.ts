// The events of one item, as far as the grammar goes: begun, told in pieces, repeated in full, ended.
import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "../../canonical.ts";
import { arrayIn, objectIn, stringIn } from "../../canonical-json.ts";

interface SeenPart {
  readonly type: string;
  text: string;
  readonly annotations: unknown[];
  told: boolean;
}

interface SeenItem {
  readonly id: string;
  readonly type: string;
  readonly added: JsonObject;
  readonly summary: JsonObject[];
  readonly content: JsonObject[];
  part: SeenPart | undefined;
  arguments: string;
  told: boolean;
  done: JsonObject | undefined;
}

export interface Seen {
  readonly wrong: string[];
  readonly items: SeenItem[];
  readonly ids: Set<string>;
  responseId: unknown;
  over: boolean;
}

export type Wrong = (what: string) => void;

const CALLS: Readonly<Record<string, { readonly delta: string; readonly said: string }>> = {
  function_call: { delta: "response.function_call_arguments", said: "arguments" },
  custom_tool_call: { delta: "response.custom_tool_call_input", said: "input" },
};
const TEXTS: Readonly<Record<string, string>> = {
  "response.output_text": "output_text",
  "response.refusal": "refusal",
  "response.reasoning_text": "reasoning_text",
  "response.reasoning_summary_text": "summary_text",
};

export function checkItemEvent(seen: Seen, name: string, event: JsonObject, wrong: Wrong): void {
  if (name === "response.output_item.added") return checkAdded(seen, event, wrong);
  const item = seen.items[Number(event["output_index"])];
  if (item === undefined) return wrong("no item at its output_index");
  if (item.done !== undefined) return wrong("its item has ended");
  if (name === "response.output_item.done") return checkDone(item, objectIn(event["item"]), wrong);
  if (event["item_id"] !== item.id) wrong(`item_id ${String(event["item_id"])}, not ${item.id}`);
  const [stem = "", step = ""] = splitName(name);
  const call = CALLS[item.type];
  if (call !== undefined && stem === call.delta) return checkCall(item, step, event, wrong);
  if (stem === "response.content_part" || stem === "response.reasoning_summary_part")
    return checkPart(item, step, event, wrong);
  if (name === "response.output_text.annotation.added") return checkAnnotation(item, event, wrong);
  const type = TEXTS[stem];
  if (type === undefined) return wrong("an event that no item of its type has");
  checkText(item, type, { step, event }, wrong);
}

function splitName(name: string): readonly string[] {
  const dot = name.lastIndexOf(".");
  return [name.slice(0, dot), name.slice(dot + 1)];
}

function checkAdded(seen: Seen, event: JsonObject, wrong: Wrong): void {
  const added = objectIn(event["item"]) ?? {};
  const id = stringIn(added["id"]) ?? "";
  const type = stringIn(added["type"]) ?? "";
  if (event["output_index"] !== seen.items.length)
    wrong(`output_index ${String(event["output_index"])}, expected ${seen.items.length}`);
  if (seen.items.some((item) => item.done === undefined)) wrong("another item is open");
  if (id === "") wrong("an item without id");
  if (seen.ids.has(id)) wrong(`the id ${id} is used twice`);
  seen.ids.add(id);
  if ((type === "message" || type in CALLS) && added["status"] !== "in_progress")
    wrong(`a new item is ${String(added["status"])}`);
  if (type in CALLS && !(stringIn(added["call_id"]) && stringIn(added["name"])))
    wrong("a call without call_id or name");
  const empty = { summary: [], content: [], part: undefined, arguments: "", told: false };
  seen.items.push({ id, type, added, ...empty, done: undefined });
}

function checkPart(item: SeenItem, step: string, event: JsonObject, wrong: Wrong): void {
  const part = objectIn(event["part"]) ?? {};
  const type = stringIn(part["type"]) ?? "";
  const isSummary = type === "summary_text";
  const list = isSummary ? item.summary : item.content;
  const index = event[isSummary ? "summary_index" : "content_index"];
  if (index !== list.length) wrong(`part ${String(index)}, expected ${list.length}`);
  if ((item.type === "message") !== (type === "output_text" || type === "refusal"))
    wrong(`a ${type} in a ${item.type}`);
  if (step === "added") {
    if (item.part !== undefined) wrong("another part is open");
    if (wordsOf(part) !== "") wrong("a part that begins with words");
    item.part = { type, text: "", annotations: [], told: false };
    return;
  }
  if (item.part === undefined) wrong("the part that ends is not open");
  else checkEnd(item.part, part, wrong);
  list.push(part);
  item.part = undefined;
}

function checkEnd(told: SeenPart, part: JsonObject, wrong: Wrong): void {
  if (told.type !== part["type"]) wrong(`a ${told.type} is open`);
  if (!told.told) wrong("the part's words were not repeated");
  if (wordsOf(part) !== told.text) wrong("the part is not what was told");
  if (told.type === "output_text" && !isDeepStrictEqual(part["annotations"], told.annotations))
    wrong("the part's annotations are not those that were told");
}

function checkText(
  { part, summary, content }: SeenItem,
  type: string,
  { step, event }: { readonly step: string; readonly event: JsonObject },
  wrong: Wrong,
): void {
  if (part?.type !== type) return wrong(`no ${type} is open`);
  const index = type === "summary_text" ? "summary_index" : "content_index";
  if (event[index] !== (type === "summary_text" ? summary : content).length)
    wrong(`wrong ${index}`);
  if (part.told) wrong("more after its end");
  if (type === "output_text" && !Array.isArray(event["logprobs"])) wrong("no logprobs");
  if (step === "delta") part.text += stringIn(event["delta"]) ?? "";
  else {
    part.told = true;
    if (wordsOf({ ...event, type }) !== part.text) wrong("the words are not those that were told");
  }
}

function checkAnnotation({ part, content }: SeenItem, event: JsonObject, wrong: Wrong): void {
  if (part?.type !== "output_text" || event["content_index"] !== content.length)
    return wrong("no text is open");
  if (event["annotation_index"] !== part.annotations.length) wrong("wrong annotation_index");
  part.annotations.push(event["annotation"]);
}

function checkCall(item: SeenItem, step: string, event: JsonObject, wrong: Wrong): void {
  if (item.told) wrong("arguments after their end");
  if (step === "delta") item.arguments += stringIn(event["delta"]) ?? "";
  else {
    item.told = true;
    if (event[CALLS[item.type]?.said ?? ""] !== item.arguments)
      wrong("the arguments are not those that were told");
  }
}

function checkDone(item: SeenItem, done: JsonObject | undefined, wrong: Wrong): void {
  item.done = done ?? {};
  if (item.part !== undefined) wrong("a part is open");
  for (const key of ["id", "type", "call_id", "name"])
    if (item.done[key] !== item.added[key]) wrong(`its ${key} has changed`);
  const call = CALLS[item.type];
  if (call !== undefined && (!item.told || item.done[call.said] !== item.arguments))
    wrong("the call is not what was told");
  if ((item.type === "message" || call !== undefined) && !isEnd(item.done["status"]))
    wrong(`an item ends as ${String(item.done["status"])}`);
  if (item.type !== "message" && item.type !== "reasoning") return;
  if (!isDeepStrictEqual(arrayIn(item.done["content"]), item.content))
    wrong("the content is not what was told");
  if (!isDeepStrictEqual(arrayIn(item.done["summary"]), item.summary))
    wrong("the summary is not what was told");
}

function isEnd(status: unknown): boolean {
  return status === "completed" || status === "incomplete";
}

function wordsOf(part: JsonObject): string | undefined {
  return stringIn(part[part["type"] === "refusal" ? "refusal" : "text"]);
}
