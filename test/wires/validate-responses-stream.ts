// The grammar of this API's streams, as a list of what is wrong with one. Tests run it over every stream that they make.
import { isDeepStrictEqual } from "node:util";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../src/base/json.ts";
import type { WireEvent } from "../../src/inference/canonical/wire.ts";
import {
  checkItemEvent,
  type ReportProblem,
  type ValidatorState,
} from "./validate-responses-items.ts";

// What the Open Responses specification requires of every response.
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
 * Empty where the stream obeys: `created`, `in_progress`, items by dense index, each with its parts begun, told, ended and
 * repeated in full, sequence numbers from 0 without gaps, and one terminal event that repeats the whole output. An `error`
 * may end it at any time.
 */
export function validateResponsesStream(events: readonly WireEvent[]): readonly string[] {
  const seen: ValidatorState = {
    problems: [],
    items: [],
    ids: new Set(),
    responseId: undefined,
    ended: false,
  };
  for (const [at, { name, data }] of events.entries()) {
    const event = parseObject(data);
    const wrong = (what: string) => seen.problems.push(`${at} ${name}: ${what}`);
    if (seen.ended) wrong("something after the end");
    if (event === undefined) {
      wrong(`no JSON object: ${data.slice(0, 40)}`);
      continue;
    }
    if (event["type"] !== name) wrong(`the type is ${String(event["type"])}`);
    if (event["sequence_number"] !== at) wrong(`sequence ${String(event["sequence_number"])}`);
    checkEvent(seen, at, event, wrong);
  }
  if (!seen.ended) seen.problems.push("the stream has no terminal event");
  return seen.problems;
}

function checkEvent(
  seen: ValidatorState,
  at: number,
  event: JsonObject,
  wrong: ReportProblem,
): void {
  const name = String(event["type"]);
  if (name === "error") {
    seen.ended = true;
    if (typeof event["message"] !== "string") wrong("no message");
    return;
  }
  const terminal = TERMINAL.has(name);
  if (at >= 2 && !terminal) return checkItemEvent(seen, name, event, wrong);
  const response = objectIn(event["response"]) ?? {};
  seen.responseId ??= response["id"];
  if (response["id"] !== seen.responseId) wrong("the response's id changes");
  for (const what of validateResponse(response, terminal ? name : "")) wrong(what);
  seen.ended = terminal;
  if (!terminal && name !== OPENING[at]) wrong(`expected ${String(OPENING[at])}`);
  if (terminal) for (const what of checkOutput(seen, response)) wrong(what);
}

const OPENING = ["response.created", "response.in_progress"] as const;

/** What is wrong with a whole response; with the name of the event that ends a stream, its status must fit that. */
export function validateResponse(response: JsonObject, terminal?: string): readonly string[] {
  const wrong: string[] = [];
  for (const field of REQUIRED) if (response[field] === undefined) wrong.push(`no ${field}`);
  if (response["object"] !== "response") wrong.push(`object ${String(response["object"])}`);
  const status = stringIn(response["status"]) ?? "";
  const expected = terminal === "" ? "in_progress" : terminal?.slice("response.".length);
  if (expected !== undefined && status !== expected) wrong.push(`status ${status}`);
  if (isObject(response["error"]) !== (status === "failed"))
    wrong.push(`error in a response that is ${status}`);
  if (isObject(response["incomplete_details"]) !== (status === "incomplete"))
    wrong.push(`incomplete_details in a response that is ${status}`);
  if ((typeof response["completed_at"] === "number") !== (status === "completed"))
    wrong.push(`completed_at in a response that is ${status}`);
  if (terminal === "" && arrayIn(response["output"]).length > 0) wrong.push("output too early");
  if (response["usage"] !== null) wrong.push(...checkUsage(response["usage"]));
  return wrong;
}

function checkUsage(value: unknown): readonly string[] {
  const usage = objectIn(value) ?? {};
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  const details = objectIn(usage["input_tokens_details"]);
  const spent = objectIn(usage["output_tokens_details"]);
  const wrong: string[] = [];
  if (typeof input !== "number" || typeof output !== "number" || input + output !== total)
    wrong.push("usage that does not add up");
  if (typeof details?.["cached_tokens"] !== "number") wrong.push("usage without cached_tokens");
  if (typeof spent?.["reasoning_tokens"] !== "number") wrong.push("usage without reasoning_tokens");
  return wrong;
}

function checkOutput(seen: ValidatorState, response: JsonObject): readonly string[] {
  const done = seen.items.map((item) => item.done);
  const failed = response["status"] === "failed";
  if (!failed && done.includes(undefined)) return ["an item has not ended"];
  const ended = done.filter((item) => item !== undefined);
  return isDeepStrictEqual(response["output"], ended)
    ? []
    : ["the output is not what the items were"];
}
