// Validates a written stream: returns its violations of the API's event order.

import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
} from "../../../src/base/json.ts";
import type { WireEvent } from "../src/canonical/wire-interfaces.ts";

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

/** Each choice has a role first, calls with dense indices, and one finish; the stream ends with [DONE]. */
export function validateChatStream(
  events: readonly WireEvent[],
  asked: { readonly usage: boolean },
): readonly string[] {
  const state: ValidatorState = {
    problems: [],
    choices: new Map(),
    id: undefined,
    ended: false,
    usage: false,
  };
  let failed = false;
  for (const [at, { name, data }] of events.entries()) {
    if (state.ended) state.problems.push(`${at}: an event after the end`);
    if (name !== "") state.problems.push(`${at}: an event name: ${name}`);
    if (data === "[DONE]") {
      state.ended = true;
      continue;
    }
    const chunk = parseObject(data);
    if (chunk === undefined) state.problems.push(`${at}: no JSON object: ${data.slice(0, 40)}`);
    else if (isObject(chunk["error"])) {
      failed = true;
      state.ended = true;
      if (typeof chunk["error"]["message"] !== "string")
        state.problems.push(`${at}: error without message`);
    } else checkChunk(state, chunk, at);
  }
  if (!state.ended) state.problems.push("the stream has no terminal event");
  if (failed) return state.problems;
  if (state.choices.size === 0) state.problems.push("the stream has no choice");
  for (const [index, choice] of state.choices)
    if (!choice.finished) state.problems.push(`choice ${String(index)} has no finish_reason`);
  if (state.usage !== asked.usage)
    state.problems.push(state.usage ? "usage that was not requested" : "no usage chunk");
  return state.problems;
}

function checkChunk(state: ValidatorState, chunk: JsonObject, at: number): void {
  const { problems } = state;
  if (chunk["object"] !== "chat.completion.chunk")
    problems.push(`${at}: object ${String(chunk["object"])}`);
  for (const field of ["id", "model"])
    if (typeof chunk[field] !== "string") problems.push(`${at}: no ${field}`);
  if (typeof chunk["created"] !== "number") problems.push(`${at}: no created`);
  state.id ??= chunk["id"];
  if (chunk["id"] !== state.id) problems.push(`${at}: the id changes`);
  if (!Array.isArray(chunk["choices"])) problems.push(`${at}: no choices`);
  if (isObject(chunk["usage"])) {
    if (arrayIn(chunk["choices"]).length > 0) problems.push(`${at}: usage beside choices`);
    if (state.usage) problems.push(`${at}: usage twice`);
    state.usage = true;
  } else if (state.usage) problems.push(`${at}: a chunk after usage`);
  for (const choice of arrayIn(chunk["choices"])) checkChoice(state, choice, at);
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
  if (state.finished) problems.push(`${at}: a choice continues after its finish`);
  state.finished ||= typeof choice["finish_reason"] === "string";
  for (const call of arrayIn(delta?.["tool_calls"]))
    checkCall(problems, state, objectIn(call) ?? {}, at);
}

function checkCall(problems: string[], state: ChoiceState, call: JsonObject, at: number): void {
  const index = Number(call["index"]);
  if (index === state.calls) {
    state.calls++;
    const callee = objectIn(call["function"]) ?? objectIn(call["custom"]);
    if (typeof call["id"] !== "string" || call["id"] === "")
      problems.push(`${at}: a call without id`);
    if (typeof call["type"] !== "string") problems.push(`${at}: a call without type`);
    if (typeof callee?.["name"] !== "string") problems.push(`${at}: a call without name`);
  } else if (!(index < state.calls))
    problems.push(`${at}: call index ${String(call["index"])}, expected ${state.calls}`);
  else if (call["id"] !== undefined) problems.push(`${at}: a call begins twice`);
}
