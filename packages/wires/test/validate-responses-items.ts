// Validates the events of one item: its start, deltas, full content and end.

import { isDeepStrictEqual } from "node:util";
import { arrayIn, type JsonObject, objectIn, stringIn } from "../../../src/base/json.ts";

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

const CALL_EVENTS: Readonly<Record<string, { readonly delta: string; readonly full: string }>> = {
  function_call: { delta: "response.function_call_arguments", full: "arguments" },
  custom_tool_call: { delta: "response.custom_tool_call_input", full: "input" },
};
const TEXT_EVENTS: Readonly<Record<string, string>> = {
  "response.output_text": "output_text",
  "response.refusal": "refusal",
  "response.reasoning_text": "reasoning_text",
  "response.reasoning_summary_text": "summary_text",
};

export function checkItemEvent(
  state: ValidatorState,
  name: string,
  event: JsonObject,
  report: ReportProblem,
): void {
  if (name === "response.output_item.added") return checkAdded(state, event, report);
  const item = state.items[Number(event["output_index"])];
  if (item === undefined) return report("no item at its output_index");
  if (item.done !== undefined) return report("its item has ended");
  if (name === "response.output_item.done") return checkDone(item, objectIn(event["item"]), report);
  if (event["item_id"] !== item.id) report(`item_id ${String(event["item_id"])}, not ${item.id}`);
  const [stem = "", step = ""] = splitName(name);
  if (stem === "response.web_search_call" && stem.endsWith(item.type)) return;
  const call = CALL_EVENTS[item.type];
  if (call !== undefined && stem === call.delta) return checkCall(item, step, event, report);
  if (stem === "response.content_part" || stem === "response.reasoning_summary_part")
    return checkPart(item, step, event, report);
  if (name === "response.output_text.annotation.added") return checkAnnotation(item, event, report);
  const type = TEXT_EVENTS[stem];
  if (type === undefined) return report("an unknown event for its item type");
  checkText(item, type, { step, event }, report);
}

function splitName(name: string): readonly string[] {
  const dot = name.lastIndexOf(".");
  return [name.slice(0, dot), name.slice(dot + 1)];
}

function checkAdded(state: ValidatorState, event: JsonObject, report: ReportProblem): void {
  const added = objectIn(event["item"]) ?? {};
  const id = stringIn(added["id"]) ?? "";
  const type = stringIn(added["type"]) ?? "";
  if (event["output_index"] !== state.items.length)
    report(`output_index ${String(event["output_index"])}, expected ${state.items.length}`);
  if (state.items.some((item) => item.done === undefined)) report("another item is open");
  if (id === "") report("an item without id");
  if (state.ids.has(id)) report(`the id ${id} is used twice`);
  state.ids.add(id);
  if ((type === "message" || type in CALL_EVENTS) && added["status"] !== "in_progress")
    report(`a new item is ${String(added["status"])}`);
  if (type in CALL_EVENTS && !(stringIn(added["call_id"]) && stringIn(added["name"])))
    report("a call without call_id or name");
  const empty = { summary: [], content: [], part: undefined, arguments: "", ended: false };
  state.items.push({ id, type, added, ...empty, done: undefined });
}

function checkPart(item: ItemState, step: string, event: JsonObject, report: ReportProblem): void {
  const part = objectIn(event["part"]) ?? {};
  const type = stringIn(part["type"]) ?? "";
  const isSummary = type === "summary_text";
  const list = isSummary ? item.summary : item.content;
  const index = event[isSummary ? "summary_index" : "content_index"];
  if (index !== list.length) report(`part ${String(index)}, expected ${list.length}`);
  if ((item.type === "message") !== (type === "output_text" || type === "refusal"))
    report(`a ${type} in a ${item.type}`);
  if (step === "added") {
    if (item.part !== undefined) report("another part is open");
    if (textOfPart(part) !== "") report("a part that starts with text");
    item.part = { type, text: "", annotations: [], ended: false };
    return;
  }
  if (item.part === undefined) report("the part that ends is not open");
  else checkEnd(item.part, part, report);
  list.push(part);
  item.part = undefined;
}

function checkEnd(state: PartState, part: JsonObject, report: ReportProblem): void {
  if (state.type !== part["type"]) report(`a ${state.type} is open`);
  if (!state.ended) report("the part has no done event for its text");
  if (textOfPart(part) !== state.text) report("the part differs from its deltas");
  if (state.type === "output_text" && !isDeepStrictEqual(part["annotations"], state.annotations))
    report("the annotations differ from their events");
}

function checkText(
  { part, summary, content }: ItemState,
  type: string,
  { step, event }: { readonly step: string; readonly event: JsonObject },
  report: ReportProblem,
): void {
  if (part?.type !== type) return report(`no ${type} is open`);
  const index = type === "summary_text" ? "summary_index" : "content_index";
  if (event[index] !== (type === "summary_text" ? summary : content).length)
    report(`report ${index}`);
  if (part.ended) report("more after its end");
  if (type === "output_text" && !Array.isArray(event["logprobs"])) report("no logprobs");
  if (step === "delta") part.text += stringIn(event["delta"]) ?? "";
  else {
    part.ended = true;
    if (textOfPart({ ...event, type }) !== part.text) report("the text differs from its deltas");
  }
}

function checkAnnotation(
  { part, content }: ItemState,
  event: JsonObject,
  report: ReportProblem,
): void {
  if (part?.type !== "output_text" || event["content_index"] !== content.length)
    return report("no text is open");
  if (event["annotation_index"] !== part.annotations.length) report("wrong annotation_index");
  part.annotations.push(event["annotation"]);
}

function checkCall(item: ItemState, step: string, event: JsonObject, report: ReportProblem): void {
  if (item.ended) report("arguments after their end");
  if (step === "delta") item.arguments += stringIn(event["delta"]) ?? "";
  else {
    item.ended = true;
    if (event[CALL_EVENTS[item.type]?.full ?? ""] !== item.arguments)
      report("the arguments differ from their deltas");
  }
}

function checkDone(item: ItemState, done: JsonObject | undefined, report: ReportProblem): void {
  item.done = done ?? {};
  if (item.part !== undefined) report("a part is open");
  for (const key of ["id", "type", "call_id", "name"])
    if (item.done[key] !== item.added[key]) report(`its ${key} has changed`);
  const call = CALL_EVENTS[item.type];
  if (call !== undefined && (!item.ended || item.done[call.full] !== item.arguments))
    report("the call differs from its deltas");
  if ((item.type === "message" || call !== undefined) && !isEnd(item.done["status"]))
    report(`an item ends as ${String(item.done["status"])}`);
  if (item.type !== "message" && item.type !== "reasoning") return;
  if (!isDeepStrictEqual(arrayIn(item.done["content"]), item.content))
    report("the content differs from its parts");
  if (!isDeepStrictEqual(arrayIn(item.done["summary"]), item.summary))
    report("the summary differs from its parts");
}

function isEnd(status: unknown): boolean {
  return status === "completed" || status === "incomplete";
}

function textOfPart(part: JsonObject): string | undefined {
  return stringIn(part[part["type"] === "refusal" ? "refusal" : "text"]);
}
