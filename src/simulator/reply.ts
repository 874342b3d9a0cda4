// Decides what is answered, before a wire gives it a form.

import type { Ask, Tool } from "./ask.ts";
import { promptTokens } from "./ask.ts";
import { withoutOrders, type Order } from "./directives.ts";
import { hashText } from "./hash.ts";
import { instructedSchema } from "./lacks.ts";
import type { CacheCounts } from "./prompt-cache.ts";
import { schemaInstance } from "./schema-instance.ts";
import { countTokens, cutToPieces, cutToTokens, fillerText } from "./tokens.ts";

export type Finish = "done" | "stop_string" | "tool" | "length" | "refusal" | "filter";

export interface Call {
  readonly seed: number;
  readonly name: string;
  /** JSON, or plain text for a freeform tool. Not whole when the reply was cut at its limit. */
  readonly input: string;
  readonly whole: boolean;
  readonly freeform: boolean;
}

export interface Choice {
  readonly reasoning: string;
  readonly text: string;
  readonly pieces: readonly string[];
  readonly refusal: string;
  readonly calls: readonly Call[];
  readonly finish: Finish;
  readonly stopString: string | null;
}

/** Tokens in disjoint counts. */
export interface Counts extends CacheCounts {
  readonly input: number;
  readonly output: number;
  readonly reasoning: number;
}

export interface Reply {
  readonly ask: Ask;
  readonly order: Order;
  readonly seed: number;
  readonly model: string;
  readonly createdSeconds: number;
  readonly first: Choice;
  readonly choices: readonly Choice[];
  readonly counts: Counts;
  readonly serviceTier: string | undefined;
}

export interface Circumstances {
  readonly seed: number;
  readonly now: number;
  readonly cache: CacheCounts;
}

const MAX_DELTAS = 512;
const MODEL_MAX_TOKENS = 65_536;
const DEFAULT_REASONING_TOKENS = 32;
const REFUSAL = "I'm sorry, but I can't help with that.";

export function composeReply(ask: Ask, order: Order, circumstances: Circumstances): Reply {
  const { seed, cache } = circumstances;
  const first = composeChoice(ask, order, seed);
  const choices = [first];
  for (let index = 1; index < ask.count; index++)
    choices.push(composeChoice(ask, order, hashText(String(index), seed | 0), index));
  return {
    ask,
    order,
    seed,
    model: order["answer-model"] ?? ask.model,
    createdSeconds: Math.floor(circumstances.now / 1_000),
    first,
    choices,
    counts: countReply(ask, order, choices, cache),
    serviceTier: order.tier ?? ask.serviceTier,
  };
}

function countReply(
  ask: Ask,
  order: Order,
  choices: readonly Choice[],
  cache: CacheCounts,
): Counts {
  let output = 0;
  let reasoning = 0;
  for (const choice of choices) {
    output += countTokens(choice.text) + countTokens(choice.refusal);
    for (const call of choice.calls) output += callTokens(call.name, call.input);
    reasoning += countTokens(choice.reasoning);
  }
  return {
    input:
      order.input ?? Math.max(0, promptTokens(ask) - cache.read - cache.write5m - cache.write1h),
    read: order.cached ?? cache.read,
    write5m: order["cache-5m"] ?? cache.write5m,
    write1h: order["cache-1h"] ?? cache.write1h,
    output: order.output ?? output,
    reasoning,
  };
}

function composeChoice(ask: Ask, order: Order, seed: number, index = 0): Choice {
  const long = order.kb !== undefined || order.tokens !== undefined || order.chunks !== undefined;
  let room = ask.maxTokens ?? (long ? Infinity : MODEL_MAX_TOKENS);
  const wanted = reasoningText(ask, order);
  const reasoning = cutToTokens(wanted, room);
  room -= countTokens(reasoning);
  const base = {
    reasoning,
    text: "",
    pieces: [],
    refusal: "",
    calls: [],
    stopString: null,
  } satisfies Partial<Choice>;
  if (reasoning.length < wanted.length) return { ...base, finish: "length" };
  if (order.empty === true) return { ...base, finish: "done" };
  if (order.refusal === true) return { ...base, refusal: REFUSAL, finish: "refusal" };
  const tools = toolsToCall(ask, order);
  const said = tools.length > 0 ? preamble(order, tools) : sentence(ask, order, index);
  const stopped = tools.length > 0 ? { text: said, stopString: null } : stopAt(said, ask.stop);
  const text = cutToTokens(stopped.text, room);
  const pieces = cutToPieces(text, order.chunks ?? Math.min(MAX_DELTAS, countTokens(text)));
  if (text.length < stopped.text.length) return { ...base, text, pieces, finish: "length" };
  const calls = makeCalls(tools, seed, room - countTokens(text));
  const cut = calls.length < tools.length || calls.some((call) => !call.whole);
  const finish = cut ? "length" : finishOf(order, calls, stopped.stopString);
  return { ...base, text, pieces, calls, stopString: stopped.stopString, finish };
}

function finishOf(order: Order, calls: readonly Call[], stopString: string | null): Finish {
  if (calls.length > 0) return "tool";
  if (order.filter === true) return "filter";
  return stopString === null ? "done" : "stop_string";
}

function reasoningText(ask: Ask, order: Order): string {
  const byModel = /(^|\/)reason$/.test(ask.model) ? DEFAULT_REASONING_TOKENS : 0;
  const tokens = order.reasoning ?? ask.reasoning ?? byModel;
  if (tokens === 0) return "";
  const opening = "The user asks something. Let me think. ";
  return cutToTokens(opening + fillerText(tokens), tokens);
}

function sentence(ask: Ask, order: Order, index: number): string {
  if (order.text !== undefined) return order.text;
  const filler = order.kb === undefined ? (order.tokens ?? order.chunks) : order.kb * 256;
  if (filler !== undefined) return fillerText(filler);
  if (ask.format.kind === "schema") return JSON.stringify(schemaInstance(ask.format.schema, index));
  const echo = withoutOrders(ask.userText);
  if (ask.format.kind === "object") return objectOf(ask, echo, index);
  if (/(^|\/)tiny$/.test(ask.model)) return "Yes.";
  const choice = index === 0 ? "" : ` (choice ${index + 1})`;
  if (ask.toolResults.length > 0)
    return `The tool answered: ${ask.toolResults.join("; ")}${choice}`;
  return `You said: ${echo === "" ? "nothing" : echo}${mediaNote(ask)}${choice}`;
}

function objectOf(ask: Ask, echo: string, index: number): string {
  const schema = instructedSchema(ask);
  return JSON.stringify(schema === undefined ? { you_said: echo } : schemaInstance(schema, index));
}

function mediaNote(ask: Ask): string {
  const parts: string[] = [];
  if (ask.images > 0) parts.push(plural(ask.images, "image"));
  if (ask.audio > 0) parts.push(plural(ask.audio, "audio clip"));
  if (ask.files > 0) parts.push(plural(ask.files, "file"));
  return parts.length === 0 ? "" : ` (with ${parts.join(", ")})`;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function stopAt(
  text: string,
  stops: readonly string[],
): { readonly text: string; readonly stopString: string | null } {
  let at = text.length;
  let stopString: string | null = null;
  for (const stop of stops) {
    const found = stop === "" ? -1 : text.indexOf(stop);
    if (found !== -1 && found < at) [at, stopString] = [found, stop];
  }
  return { text: text.slice(0, at), stopString };
}

function preamble(order: Order, tools: readonly Tool[]): string {
  return order.preamble === true
    ? `I will use ${tools.map((tool) => tool.name).join(" and ")}.`
    : "";
}

/** The tools that this reply calls, one entry a call. */
function toolsToCall(ask: Ask, order: Order): readonly Tool[] {
  const choice = ask.toolChoice;
  if (ask.tools.length === 0 || choice.kind === "none") return [];
  if (choice.kind === "auto" && ask.toolResults.length > 0) return [];
  const allowed =
    choice.kind === "named"
      ? ask.tools.filter((tool) => choice.names.includes(tool.name))
      : ask.tools;
  const said = withoutOrders(ask.userText);
  const mentioned = allowed.filter((tool) => mentions(said, tool.name));
  const asked =
    choice.kind !== "auto" || order.calls !== undefined || /\buse (?:\w+ )?tools?\b/i.test(said);
  if (mentioned.length === 0 && !asked) return [];
  const pool = mentioned.length > 0 ? mentioned : allowed;
  const many = /\b(?:two|both|twice|parallel)\b/i.test(said) ? 2 : 1;
  const count = ask.parallel ? (order.calls ?? Math.max(many, mentioned.length)) : 1;
  return Array.from({ length: Math.max(1, count) }, (_, index) => pool[index % pool.length]).filter(
    (tool) => tool !== undefined,
  );
}

function mentions(text: string, name: string): boolean {
  const at = text.indexOf(name);
  return at !== -1 && !/\w/.test(text.charAt(at - 1)) && !/\w/.test(text.charAt(at + name.length));
}

function makeCalls(tools: readonly Tool[], seed: number, room: number): Call[] {
  const calls: Call[] = [];
  const made = new Map<string, number>();
  let left = room;
  for (const tool of tools) {
    if (left <= 0) break;
    const variant = made.get(tool.name) ?? 0;
    made.set(tool.name, variant + 1);
    const full = tool.freeform
      ? `input for ${tool.name}`
      : JSON.stringify(schemaInstance(tool.schema ?? { type: "object" }, variant));
    const input = cutToTokens(full, Math.max(0, left - countTokens(tool.name)));
    left -= callTokens(tool.name, input);
    const whole = input.length === full.length;
    calls.push({
      seed: hashText(`call ${calls.length}`, seed | 0),
      name: tool.name,
      input,
      whole,
      freeform: tool.freeform,
    });
    if (!whole) break;
  }
  return calls;
}

function callTokens(name: string, input: string): number {
  return countTokens(name) + countTokens(input);
}
