// The grammar of this API's streams, as a list of what is wrong with one. Tests run it over every stream that they make.
import { arrayIn, isObject, type JsonObject, objectIn, parseObject } from "../../src/base/json.ts";
import type { WireEvent } from "../../src/inference/canonical/wire.ts";

interface ChoiceState {
  finished: boolean;
  calls: number;
}

interface ValidatorState {
  readonly problems: string[];
  readonly choices: Map<unknown, ChoiceState>;
  id: unknown;
  ended: boolean;
  usage: boolean;
}

/** Empty where the stream obeys: a role first in each choice, calls by dense index with id and name once, one finish each, [DONE]. */
export function validateChatStream(
  events: readonly WireEvent[],
  asked: { readonly usage: boolean },
): readonly string[] {
  const seen: ValidatorState = {
    problems: [],
    choices: new Map(),
    id: undefined,
    ended: false,
    usage: false,
  };
  let failed = false;
  for (const [at, { name, data }] of events.entries()) {
    if (seen.ended) seen.problems.push(`${at}: something after the end`);
    if (name !== "") seen.problems.push(`${at}: an event name: ${name}`);
    if (data === "[DONE]") {
      seen.ended = true;
      continue;
    }
    const chunk = parseObject(data);
    if (chunk === undefined) seen.problems.push(`${at}: no JSON object: ${data.slice(0, 40)}`);
    else if (isObject(chunk["error"])) {
      failed = true;
      seen.ended = true;
      if (typeof chunk["error"]["message"] !== "string")
        seen.problems.push(`${at}: error without message`);
    } else checkChunk(seen, chunk, at);
  }
  if (!seen.ended) seen.problems.push("the stream has no terminal event");
  if (failed) return seen.problems;
  if (seen.choices.size === 0) seen.problems.push("the stream has no choice");
  for (const [index, choice] of seen.choices)
    if (!choice.finished) seen.problems.push(`choice ${String(index)} has no finish_reason`);
  if (seen.usage !== asked.usage)
    seen.problems.push(seen.usage ? "usage that was not asked for" : "no usage chunk");
  return seen.problems;
}

function checkChunk(seen: ValidatorState, chunk: JsonObject, at: number): void {
  const { problems } = seen;
  if (chunk["object"] !== "chat.completion.chunk")
    problems.push(`${at}: object ${String(chunk["object"])}`);
  for (const field of ["id", "model"])
    if (typeof chunk[field] !== "string") problems.push(`${at}: no ${field}`);
  if (typeof chunk["created"] !== "number") problems.push(`${at}: no created`);
  seen.id ??= chunk["id"];
  if (chunk["id"] !== seen.id) problems.push(`${at}: the id changes`);
  if (!Array.isArray(chunk["choices"])) problems.push(`${at}: no choices`);
  if (isObject(chunk["usage"])) {
    if (arrayIn(chunk["choices"]).length > 0) problems.push(`${at}: usage beside choices`);
    if (seen.usage) problems.push(`${at}: usage twice`);
    seen.usage = true;
  } else if (seen.usage) problems.push(`${at}: a chunk after usage`);
  for (const choice of arrayIn(chunk["choices"])) checkChoice(seen, choice, at);
}

function checkChoice({ problems, choices }: ValidatorState, value: unknown, at: number): void {
  const choice = objectIn(value) ?? {};
  const delta = objectIn(choice["delta"]);
  if (delta === undefined) problems.push(`${at}: a choice without delta`);
  if (choice["finish_reason"] === undefined) problems.push(`${at}: a choice without finish_reason`);
  let state = choices.get(choice["index"]);
  if (state === undefined) {
    state = { finished: false, calls: 0 };
    choices.set(choice["index"], state);
    if (typeof choice["index"] !== "number") problems.push(`${at}: a choice without index`);
    if (delta?.["role"] !== "assistant") problems.push(`${at}: the role is not first`);
  } else if (delta?.["role"] !== undefined) problems.push(`${at}: the role comes twice`);
  if (state.finished) problems.push(`${at}: a choice goes on after its finish`);
  state.finished ||= typeof choice["finish_reason"] === "string";
  for (const call of arrayIn(delta?.["tool_calls"]))
    checkCall(problems, state, objectIn(call) ?? {}, at);
}

function checkCall(wrong: string[], state: ChoiceState, call: JsonObject, at: number): void {
  const index = Number(call["index"]);
  if (index === state.calls) {
    state.calls++;
    const held = objectIn(call["function"]) ?? objectIn(call["custom"]);
    if (typeof call["id"] !== "string" || call["id"] === "") wrong.push(`${at}: a call without id`);
    if (typeof call["type"] !== "string") wrong.push(`${at}: a call without type`);
    if (typeof held?.["name"] !== "string") wrong.push(`${at}: a call without name`);
  } else if (!(index < state.calls))
    wrong.push(`${at}: call index ${String(call["index"])}, expected ${state.calls}`);
  else if (call["id"] !== undefined) wrong.push(`${at}: a call begins twice`);
}
