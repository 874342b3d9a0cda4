// Chat completions: OpenAI's wire, which most providers speak and each counts in its own way.

import { remembered } from "../../base/remembered.ts";
import type { TokenMeter, Usage } from "../../base/meters.ts";
import { addFee, countedFees, type Fees } from "./fees.ts";
import type { SkimPlan } from "./skim.ts";
import { splitInput, splitOutput } from "./split.ts";
import {
  createMeter,
  noteError,
  noteModel,
  noteText,
  utf8Bytes,
  type StreamMeter,
  type StreamReader,
  type StreamState,
} from "./stream.ts";
import {
  at,
  count,
  firstNumber,
  listOf,
  member,
  nameOf,
  objectOf,
  statedCost,
  tierOf,
  usageFrom,
  type Json,
  type Path,
  type Tally,
} from "./tally.ts";

/** How a provider differs from OpenAI. */
interface ChatRule {
  /** Where reasoning is counted: within the completion, beside it, or only in the total. */
  readonly reasoning?: "outside" | "hidden";
  /** Where audio input is counted: within the prompt unless said. */
  readonly audio?: "outside";
  /** Further input tokens, beside the prompt. */
  readonly moreInput?: Path;
  /** Where seconds of audio are counted. */
  readonly audioSeconds?: Path;
  /** One fee a request, unless the usage shows that another was charged in its place. */
  readonly requestFee?: true;
  /** The size of the search, on which the fee for the request depends: told in the tier's place. */
  readonly searchSize?: Path;
  /** Models whose every request is one web search, which no field counts. */
  readonly searchModels?: RegExp;
}

const OPENAI: ChatRule = { searchModels: /-search-(?:preview|api)/ };
const RULES: ReadonlyMap<string, ChatRule> = new Map([
  ["openai", OPENAI],
  ["azure", OPENAI],
  ["xai", { reasoning: "outside" }],
  ["google", { reasoning: "hidden" }],
  ["vertex", { reasoning: "hidden" }],
  ["mistral", { audio: "outside", audioSeconds: ["prompt_audio_seconds"] }],
  [
    "perplexity",
    {
      reasoning: "outside",
      moreInput: ["citation_tokens"],
      requestFee: true,
      searchSize: ["search_context_size"],
    },
  ],
]);
const PLAIN_RULE: ChatRule = {};
/** More answers than any provider gives to one request. */
const CHOICES_MAX = 128;

// The same number under the names that it goes by, the surest first.
const CACHED: readonly Path[] = [
  ["prompt_tokens_details", "cached_tokens"],
  ["prompt_cache_hit_tokens"],
  ["cached_tokens"],
  ["cache_read_input_tokens"],
];
const WRITTEN: readonly Path[] = [
  ["prompt_tokens_details", "cache_write_tokens"],
  ["cache_creation_input_tokens"],
];
const REASONING: readonly Path[] = [
  ["completion_tokens_details", "reasoning_tokens"],
  ["reasoning_tokens"],
];
// Groq reports in `x_groq` too, on another chunk: the same numbers, so one replaces the other. Moonshot reports within a choice.
const USAGE_PLACES: readonly Path[] = [["usage"], ["x_groq", "usage"]];

/** The usage that a chat completion states. */
export function usageOfChat(body: unknown, provider: string): Usage | undefined {
  const usage = usageObject(body);
  return usage && readUsage(usage, body, provider);
}

const PLAN: SkimPlan = {
  counts: { content: 0, arguments: 0, refusal: 0, reasoning_content: 1, reasoning: 2, text: 3 },
  reads: ["usage", "error", "finish_reason", "annotations"],
  types: [],
};

// Reasoning often comes under two of its three names at once; `text` alone is an old completion, or Mistral's.
function fold(slots: readonly number[]): number {
  return (slots[0] ?? 0) + Math.max(slots[1] ?? 0, slots[2] ?? 0, slots[3] ?? 0);
}

export function createChatStreamMeter(provider: string, choices = 1): StreamMeter {
  return createMeter(choices > 1 ? severalOn(provider) : readerOf(provider));
}

const readerOf = remembered((provider: string): StreamReader => ({
  plan: PLAN,
  fold,
  read: (state, name, data) => readChunk(state, name, data, provider),
}));

// Of several answers one may end while another has hardly begun: every event is read, to know which are open.
function severalOn(provider: string): StreamReader {
  const open = new Set<unknown>();
  const ended = new Set<unknown>();
  return {
    read: (state, name, data) => {
      const bearsUsage = readChunk(state, name, data, provider);
      for (const choice of listOf(data["choices"])) {
        const index = member(choice, "index");
        if (hasEnded(choice)) ended.add(index);
        if (ended.has(index)) open.delete(index);
        else if (open.size < CHOICES_MAX) open.add(index);
      }
      state.answered = ended.size > 0 && open.size === 0;
      state.exact = state.usage !== undefined && state.answered;
      return bearsUsage;
    },
  };
}

function hasEnded(choice: unknown): boolean {
  const reason = member(choice, "finish_reason");
  return typeof reason === "string" && reason !== "";
}

function readChunk(state: StreamState, name: string, data: Json, provider: string): boolean {
  noteModel(state, data["model"]);
  noteError(state, name, data);
  for (const choice of listOf(data["choices"])) {
    if (hasEnded(choice)) state.answered = true;
    if (member(choice, "finish_reason") === "error") state.failed = true;
    noteDelta(state, member(choice, "delta"));
    noteText(state, member(choice, "text"));
  }
  const usage = usageOfChat(data, provider);
  if (usage !== undefined) {
    // The last word of several: running totals, and a second report of the same.
    state.usage =
      usage.model === undefined && state.model !== undefined
        ? { ...usage, model: state.model }
        : usage;
  }
  state.exact = state.usage !== undefined && state.answered;
  return usage !== undefined;
}

function noteDelta(state: StreamState, delta: unknown): void {
  const content = member(delta, "content");
  noteText(state, content);
  for (const part of listOf(content)) {
    noteText(state, member(part, "text"));
    for (const thought of listOf(member(part, "thinking")))
      noteText(state, member(thought, "text"));
  }
  noteText(state, member(delta, "refusal"));
  noteReasoning(state, delta);
  for (const call of listOf(member(delta, "tool_calls")))
    noteText(state, at(call, ["function", "arguments"]));
}

// The same thoughts may come under several names.
function noteReasoning(state: StreamState, delta: unknown): void {
  const details = listOf(member(delta, "reasoning_details")).map((detail) =>
    textLength(member(detail, "text")),
  );
  state.outputBytes += Math.max(
    textLength(member(delta, "reasoning_content")),
    textLength(member(delta, "reasoning")),
    details.reduce((sum, bytes) => sum + bytes, 0),
  );
}

function textLength(value: unknown): number {
  return typeof value === "string" ? utf8Bytes(value) : 0;
}

function usageObject(body: unknown): Json | undefined {
  for (const place of USAGE_PLACES) {
    const usage = objectOf(at(body, place));
    if (usage !== undefined && hasNumbers(usage)) return usage;
  }
  for (const choice of listOf(member(body, "choices"))) {
    const usage = objectOf(member(choice, "usage"));
    if (usage !== undefined && hasNumbers(usage)) return usage;
  }
  return undefined;
}

function hasNumbers(usage: Json): boolean {
  return (
    firstNumber(usage, [["prompt_tokens"], ["completion_tokens"], ["total_tokens"]]) !== undefined
  );
}

function readUsage(usage: Json, body: unknown, provider: string): Usage {
  const rule = RULES.get(provider) ?? PLAIN_RULE;
  const tally: Tally = { clamped: false };
  const model = nameOf(member(body, "model"));
  return usageFrom(
    {
      tokens: { ...inputOf(tally, usage, rule), ...outputOf(tally, usage, rule) },
      fees: feesOf(tally, usage, rule, model),
      model,
      serviceTier: tierOf(
        rule.searchSize === undefined
          ? (member(body, "service_tier") ?? usage["service_tier"])
          : at(usage, rule.searchSize),
      ),
      statedCostUsd: statedCost(usage),
    },
    tally,
  );
}

function inputOf(tally: Tally, usage: Json, rule: ChatRule): Partial<Record<TokenMeter, number>> {
  const total = firstNumber(usage, [["total_tokens"]]);
  const completion = count(tally, usage["completion_tokens"]);
  const prompt = count(tally, usage["prompt_tokens"] ?? Math.max(0, (total ?? 0) - completion));
  const audio = count(tally, at(usage, ["prompt_tokens_details", "audio_tokens"]));
  const more = rule.moreInput === undefined ? 0 : count(tally, at(usage, rule.moreInput));
  return splitInput(tally, {
    all: prompt + more + (rule.audio === "outside" ? audio : 0),
    cached: count(tally, firstNumber(usage, CACHED)),
    written: count(tally, firstNumber(usage, WRITTEN)),
    audio,
    image: count(tally, at(usage, ["prompt_tokens_details", "image_tokens"])),
  });
}

function outputOf(tally: Tally, usage: Json, rule: ChatRule): Partial<Record<TokenMeter, number>> {
  const prompt = count(tally, usage["prompt_tokens"]);
  const completion = count(tally, usage["completion_tokens"]);
  const total = count(tally, usage["total_tokens"]);
  const stated = count(tally, firstNumber(usage, REASONING));
  const reasoning =
    rule.reasoning === "hidden" ? Math.max(stated, total - prompt - completion) : stated;
  const outside = isOutside(rule, { prompt, completion, total, reasoning });
  return splitOutput(tally, {
    all: completion + (outside ? reasoning : 0),
    reasoning,
    audio: count(tally, at(usage, ["completion_tokens_details", "audio_tokens"])),
    image: count(tally, at(usage, ["completion_tokens_details", "image_tokens"])),
  });
}

interface Sums {
  readonly prompt: number;
  readonly completion: number;
  readonly total: number;
  readonly reasoning: number;
}

// A provider known for it, more reasoning than there is completion, or a total that only so adds up: the sums show how an
// OpenAI-compatible server that nobody has heard of counts.
function isOutside(rule: ChatRule, sums: Sums): boolean {
  const { prompt, completion, total, reasoning } = sums;
  if (rule.reasoning === "outside" || reasoning > completion) return true;
  return reasoning > 0 && total === prompt + completion + reasoning;
}

function feesOf(tally: Tally, usage: Json, rule: ChatRule, model: string | undefined): Fees {
  const fees = countedFees(tally, usage);
  if (rule.audioSeconds !== undefined) {
    const seconds = count(tally, at(usage, rule.audioSeconds));
    if (seconds > 0) addFee(fees, "audio_second", seconds);
  }
  const stated = at(usage, ["cost", "request_cost"]);
  if (rule.requestFee && stated !== 0 && fees.web_search === undefined) addFee(fees, "request");
  if (model !== undefined && rule.searchModels?.test(model)) addFee(fees, "web_search");
  return fees;
}
