// Validates a written stream: returns its violations of the API's event order.

import { isDeepStrictEqual } from "node:util";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../../src/base/json.ts";
import type { WireEvent } from "../src/canonical/wire-interfaces.ts";
import {
  checkItemEvent,
  type ReportProblem,
  type ValidatorState,
} from "./validate-responses-items.ts";

// Fields that the Open Responses specification requires.
const REQUIRED =
  "id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key".split(
    " ",
  );
const TERMINAL: ReadonlySet<string> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
]);

/**
 * The stream has `created`, `in_progress`, items by dense index with the start, deltas, full content and end of each part,
 * sequence numbers from 0 without gaps, and one terminal event with the full output. An `error` may end it at any time.
 */
export function validateResponsesStream(events: readonly WireEvent[]): readonly string[] {
  const state: ValidatorState = {
    problems: [],
    items: [],
    ids: new Set(),
    responseId: undefined,
    ended: false,
  };
  for (const [at, { name, data }] of events.entries()) {
    const event = parseObject(data);
    const report = (what: string) => state.problems.push(`${at} ${name}: ${what}`);
    if (state.ended) report("something after the end");
    if (event === undefined) {
      report(`no JSON object: ${data.slice(0, 40)}`);
      continue;
    }
    if (event["type"] !== name) report(`the type is ${String(event["type"])}`);
    if (event["sequence_number"] !== at) report(`sequence ${String(event["sequence_number"])}`);
    checkEvent(state, at, event, report);
  }
  if (!state.ended) state.problems.push("the stream has no terminal event");
  return state.problems;
}

function checkEvent(
  state: ValidatorState,
  at: number,
  event: JsonObject,
  report: ReportProblem,
): void {
  const name = String(event["type"]);
  if (name === "error") {
    state.ended = true;
    if (typeof event["message"] !== "string") report("no message");
    return;
  }
  const terminal = TERMINAL.has(name);
  if (at >= 2 && !terminal) return checkItemEvent(state, name, event, report);
  const response = objectIn(event["response"]) ?? {};
  state.responseId ??= response["id"];
  if (response["id"] !== state.responseId) report("the response's id changes");
  for (const what of validateResponse(response, terminal ? name : "")) report(what);
  state.ended = terminal;
  if (!terminal && name !== OPENING[at]) report(`expected ${String(OPENING[at])}`);
  if (terminal) for (const what of checkOutput(state, response)) report(what);
}

const OPENING = ["response.created", "response.in_progress"] as const;

/** The violations of a complete response, whose status must match the terminal event, if given. */
export function validateResponse(response: JsonObject, terminal?: string): readonly string[] {
  const problems: string[] = [];
  for (const field of REQUIRED) if (response[field] === undefined) problems.push(`no ${field}`);
  if (response["object"] !== "response") problems.push(`object ${String(response["object"])}`);
  const status = stringIn(response["status"]) ?? "";
  const expected = terminal === "" ? "in_progress" : terminal?.slice("response.".length);
  if (expected !== undefined && status !== expected) problems.push(`status ${status}`);
  if (isObject(response["error"]) !== (status === "failed"))
    problems.push(`error in a response that is ${status}`);
  if (isObject(response["incomplete_details"]) !== (status === "incomplete"))
    problems.push(`incomplete_details in a response that is ${status}`);
  if ((typeof response["completed_at"] === "number") !== (status === "completed"))
    problems.push(`completed_at in a response that is ${status}`);
  if (terminal === "" && arrayIn(response["output"]).length > 0) problems.push("output too early");
  if (response["usage"] !== null) problems.push(...checkUsage(response["usage"]));
  return problems;
}

function checkUsage(value: unknown): readonly string[] {
  const usage = objectIn(value) ?? {};
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  const details = objectIn(usage["input_tokens_details"]);
  const spent = objectIn(usage["output_tokens_details"]);
  const problems: string[] = [];
  if (typeof input !== "number" || typeof output !== "number" || input + output !== total)
    problems.push("usage that does not add up");
  if (typeof details?.["cached_tokens"] !== "number") problems.push("usage without cached_tokens");
  if (typeof spent?.["reasoning_tokens"] !== "number")
    problems.push("usage without reasoning_tokens");
  return problems;
}

function checkOutput(state: ValidatorState, response: JsonObject): readonly string[] {
  const done = state.items.map((item) => item.done);
  const failed = response["status"] === "failed";
  if (!failed && done.includes(undefined)) return ["an item has not ended"];
  const ended = done.filter((item) => item !== undefined);
  return isDeepStrictEqual(response["output"], ended) ? [] : ["the output differs from its items"];
}
