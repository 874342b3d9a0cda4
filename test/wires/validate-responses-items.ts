// The events of one item, as far as the grammar goes: begun, told in pieces, repeated in full, ended.
import { isDeepStrictEqual } from "node:util";
import { arrayIn, type JsonObject, objectIn, stringIn } from "../../src/base/json.ts";

interface PartState {
  readonly type: string;
  text: string;
  readonly annotations: unknown[];
  ended: boolean;
}

interface ItemState {
  readonly id: string;
  readonly type: string;
  readonly added: JsonObject;
  readonly summary: JsonObject[];
  readonly content: JsonObject[];
  part: PartState | undefined;
  arguments: string;
  ended: boolean;
  done: JsonObject | undefined;
}

export interface ValidatorState {
  readonly problems: string[];
  readonly items: ItemState[];
  readonly ids: Set<string>;
  responseId: unknown;
  ended: boolean;
}

export type ReportProblem = (what: string) => void;

const CALL_EVENTS: Readonly<Record<string, { readonly delta: string; readonly said: string }>> = {
  function_call: { delta: "response.function_call_arguments", said: "arguments" },
  custom_tool_call: { delta: "response.custom_tool_call_input", said: "input" },
};
const TEXT_EVENTS: Readonly<Record<string, string>> = {
  "response.output_text": "output_text",
  "response.refusal": "refusal",
  "response.reasoning_text": "reasoning_text",
  "response.reasoning_summary_text": "summary_text",
};

export function checkItemEvent(
  seen: ValidatorState,
  name: string,
  event: JsonObject,
  wrong: ReportProblem,
): void {
  if (name === "response.output_item.added") return checkAdded(seen, event, wrong);
  const item = seen.items[Number(event["output_index"])];
  if (item === undefined) return wrong("no item at its output_index");
  if (item.done !== undefined) return wrong("its item has ended");
  if (name === "response.output_item.done") return checkDone(item, objectIn(event["item"]), wrong);
  if (event["item_id"] !== item.id) wrong(`item_id ${String(event["item_id"])}, not ${item.id}`);
  const [stem = "", step = ""] = splitName(name);
  const call = CALL_EVENTS[item.type];
  if (call !== undefined && stem === call.delta) return checkCall(item, step, event, wrong);
  if (stem === "response.content_part" || stem === "response.reasoning_summary_part")
    return checkPart(item, step, event, wrong);
  if (name === "response.output_text.annotation.added") return checkAnnotation(item, event, wrong);
  const type = TEXT_EVENTS[stem];
  if (type === undefined) return wrong("an event that no item of its type has");
  checkText(item, type, { step, event }, wrong);
}

function splitName(name: string): readonly string[] {
  const dot = name.lastIndexOf(".");
  return [name.slice(0, dot), name.slice(dot + 1)];
}

function checkAdded(seen: ValidatorState, event: JsonObject, wrong: ReportProblem): void {
  const added = objectIn(event["item"]) ?? {};
  const id = stringIn(added["id"]) ?? "";
  const type = stringIn(added["type"]) ?? "";
  if (event["output_index"] !== seen.items.length)
    wrong(`output_index ${String(event["output_index"])}, expected ${seen.items.length}`);
  if (seen.items.some((item) => item.done === undefined)) wrong("another item is open");
  if (id === "") wrong("an item without id");
  if (seen.ids.has(id)) wrong(`the id ${id} is used twice`);
  seen.ids.add(id);
  if ((type === "message" || type in CALL_EVENTS) && added["status"] !== "in_progress")
    wrong(`a new item is ${String(added["status"])}`);
  if (type in CALL_EVENTS && !(stringIn(added["call_id"]) && stringIn(added["name"])))
    wrong("a call without call_id or name");
  const empty = { summary: [], content: [], part: undefined, arguments: "", ended: false };
  seen.items.push({ id, type, added, ...empty, done: undefined });
}

function checkPart(item: ItemState, step: string, event: JsonObject, wrong: ReportProblem): void {
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
    if (textOfPart(part) !== "") wrong("a part that begins with words");
    item.part = { type, text: "", annotations: [], ended: false };
    return;
  }
  if (item.part === undefined) wrong("the part that ends is not open");
  else checkEnd(item.part, part, wrong);
  list.push(part);
  item.part = undefined;
}

function checkEnd(state: PartState, part: JsonObject, wrong: ReportProblem): void {
  if (state.type !== part["type"]) wrong(`a ${state.type} is open`);
  if (!state.ended) wrong("the part's words were not repeated");
  if (textOfPart(part) !== state.text) wrong("the part is not what was told");
  if (state.type === "output_text" && !isDeepStrictEqual(part["annotations"], state.annotations))
    wrong("the part's annotations are not those that were told");
}

function checkText(
  { part, summary, content }: ItemState,
  type: string,
  { step, event }: { readonly step: string; readonly event: JsonObject },
  wrong: ReportProblem,
): void {
  if (part?.type !== type) return wrong(`no ${type} is open`);
  const index = type === "summary_text" ? "summary_index" : "content_index";
  if (event[index] !== (type === "summary_text" ? summary : content).length)
    wrong(`wrong ${index}`);
  if (part.ended) wrong("more after its end");
  if (type === "output_text" && !Array.isArray(event["logprobs"])) wrong("no logprobs");
  if (step === "delta") part.text += stringIn(event["delta"]) ?? "";
  else {
    part.ended = true;
    if (textOfPart({ ...event, type }) !== part.text)
      wrong("the words are not those that were told");
  }
}

function checkAnnotation(
  { part, content }: ItemState,
  event: JsonObject,
  wrong: ReportProblem,
): void {
  if (part?.type !== "output_text" || event["content_index"] !== content.length)
    return wrong("no text is open");
  if (event["annotation_index"] !== part.annotations.length) wrong("wrong annotation_index");
  part.annotations.push(event["annotation"]);
}

function checkCall(item: ItemState, step: string, event: JsonObject, wrong: ReportProblem): void {
  if (item.ended) wrong("arguments after their end");
  if (step === "delta") item.arguments += stringIn(event["delta"]) ?? "";
  else {
    item.ended = true;
    if (event[CALL_EVENTS[item.type]?.said ?? ""] !== item.arguments)
      wrong("the arguments are not those that were told");
  }
}

function checkDone(item: ItemState, done: JsonObject | undefined, wrong: ReportProblem): void {
  item.done = done ?? {};
  if (item.part !== undefined) wrong("a part is open");
  for (const key of ["id", "type", "call_id", "name"])
    if (item.done[key] !== item.added[key]) wrong(`its ${key} has changed`);
  const call = CALL_EVENTS[item.type];
  if (call !== undefined && (!item.ended || item.done[call.said] !== item.arguments))
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

function textOfPart(part: JsonObject): string | undefined {
  return stringIn(part[part["type"] === "refusal" ? "refusal" : "text"]);
}
