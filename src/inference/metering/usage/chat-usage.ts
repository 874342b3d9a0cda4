// Chat completions: OpenAI's wire, which most providers speak and each counts in its own way.

import { memoize } from "../../../base/memoize.ts";
import type { TokenMeter, Usage } from "../../../base/usage-meters.ts";
import { addFee, readFeeCounts, type Fees } from "./fee-counts.ts";
import type { ScanPlan } from "./event-scanner.ts";
import { splitInput, splitOutput } from "./token-breakdown.ts";
import {
  createUsageMeter,
  detectError,
  setModel,
  addText,
  utf8Bytes,
  type StreamMeter,
  type UsageReader,
  type StreamState,
} from "./stream-meter.ts";
import {
  valueAt,
  readCount,
  firstNumber,
  ownMember,
  readName,
  readStatedCost,
  readTier,
  buildUsage,
  type Path,
  type ReadNotes,
} from "./read-numbers.ts";
import { arrayIn, objectIn, type JsonObject } from "../../../base/json.ts";

/** How a provider differs from OpenAI. */
interface ChatUsageRule {
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

const OPENAI_RULE: ChatUsageRule = { searchModels: /-search-(?:preview|api)/ };
const PROVIDER_RULES: ReadonlyMap<string, ChatUsageRule> = new Map([
  ["openai", OPENAI_RULE],
  ["azure", OPENAI_RULE],
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
const DEFAULT_RULE: ChatUsageRule = {};
/** More answers than any provider gives to one request. */
const CHOICES_MAX = 128;

// The same number under the names that it goes by, the surest first.
const CACHED_PATHS: readonly Path[] = [
  ["prompt_tokens_details", "cached_tokens"],
  ["prompt_cache_hit_tokens"],
  ["cached_tokens"],
  ["cache_read_input_tokens"],
];
const CACHE_WRITE_PATHS: readonly Path[] = [
  ["prompt_tokens_details", "cache_write_tokens"],
  ["cache_creation_input_tokens"],
];
const REASONING_PATHS: readonly Path[] = [
  ["completion_tokens_details", "reasoning_tokens"],
  ["reasoning_tokens"],
];
// Groq reports in `x_groq` too, on another chunk: the same numbers, so one replaces the other. Moonshot reports within a choice.
const USAGE_PATHS: readonly Path[] = [["usage"], ["x_groq", "usage"]];

/** The usage that a chat completion states. */
export function usageOfChat(body: unknown, provider: string): Usage | undefined {
  const usage = usageObject(body);
  return usage && readUsage(usage, body, provider);
}

const SCAN_PLAN: ScanPlan = {
  textSlots: { content: 0, arguments: 0, refusal: 0, reasoning_content: 1, reasoning: 2, text: 3 },
  parseKeys: ["usage", "error", "finish_reason", "annotations"],
  parseTypes: [],
};

// Reasoning often comes under two of its three names at once; `text` alone is an old completion, or Mistral's.
function combineSlots(slots: readonly number[]): number {
  return (slots[0] ?? 0) + Math.max(slots[1] ?? 0, slots[2] ?? 0, slots[3] ?? 0);
}

export function createChatStreamMeter(provider: string, choices = 1): StreamMeter {
  return createUsageMeter(choices > 1 ? multiChoiceReader(provider) : usageReaderFor(provider));
}

const usageReaderFor = memoize((provider: string): UsageReader => ({
  plan: SCAN_PLAN,
  combineSlots,
  read: (state, name, data) => readChunk(state, name, data, provider),
}));

// Of several answers one may end while another has hardly begun: every event is read, to know which are open.
function multiChoiceReader(provider: string): UsageReader {
  const open = new Set<unknown>();
  const ended = new Set<unknown>();
  return {
    read: (state, name, data) => {
      const bearsUsage = readChunk(state, name, data, provider);
      for (const choice of arrayIn(data["choices"])) {
        const index = ownMember(choice, "index");
        if (hasEnded(choice)) ended.add(index);
        if (ended.has(index)) open.delete(index);
        else if (open.size < CHOICES_MAX) open.add(index);
      }
      state.hasStopReason = ended.size > 0 && open.size === 0;
      state.isUsageFinal = state.usage !== undefined && state.hasStopReason;
      return bearsUsage;
    },
  };
}

function hasEnded(choice: unknown): boolean {
  const reason = ownMember(choice, "finish_reason");
  return typeof reason === "string" && reason !== "";
}

function readChunk(state: StreamState, name: string, data: JsonObject, provider: string): boolean {
  setModel(state, data["model"]);
  detectError(state, name, data);
  for (const choice of arrayIn(data["choices"])) {
    if (hasEnded(choice)) state.hasStopReason = true;
    if (ownMember(choice, "finish_reason") === "error") state.failed = true;
    addDelta(state, ownMember(choice, "delta"));
    addText(state, ownMember(choice, "text"));
  }
  const usage = usageOfChat(data, provider);
  if (usage !== undefined) {
    // The last word of several: running totals, and a second report of the same.
    state.usage =
      usage.model === undefined && state.model !== undefined
        ? { ...usage, model: state.model }
        : usage;
  }
  state.isUsageFinal = state.usage !== undefined && state.hasStopReason;
  return usage !== undefined;
}

function addDelta(state: StreamState, delta: unknown): void {
  const content = ownMember(delta, "content");
  addText(state, content);
  for (const part of arrayIn(content)) {
    addText(state, ownMember(part, "text"));
    for (const thought of arrayIn(ownMember(part, "thinking")))
      addText(state, ownMember(thought, "text"));
  }
  addText(state, ownMember(delta, "refusal"));
  addReasoningBytes(state, delta);
  for (const call of arrayIn(ownMember(delta, "tool_calls")))
    addText(state, valueAt(call, ["function", "arguments"]));
}

// The same thoughts may come under several names.
function addReasoningBytes(state: StreamState, delta: unknown): void {
  const details = arrayIn(ownMember(delta, "reasoning_details")).map((detail) =>
    textLength(ownMember(detail, "text")),
  );
  state.outputBytes += Math.max(
    textLength(ownMember(delta, "reasoning_content")),
    textLength(ownMember(delta, "reasoning")),
    details.reduce((sum, bytes) => sum + bytes, 0),
  );
}

function textLength(value: unknown): number {
  return typeof value === "string" ? utf8Bytes(value) : 0;
}

function usageObject(body: unknown): JsonObject | undefined {
  for (const place of USAGE_PATHS) {
    const usage = objectIn(valueAt(body, place));
    if (usage !== undefined && hasNumbers(usage)) return usage;
  }
  for (const choice of arrayIn(ownMember(body, "choices"))) {
    const usage = objectIn(ownMember(choice, "usage"));
    if (usage !== undefined && hasNumbers(usage)) return usage;
  }
  return undefined;
}

function hasNumbers(usage: JsonObject): boolean {
  return (
    firstNumber(usage, [["prompt_tokens"], ["completion_tokens"], ["total_tokens"]]) !== undefined
  );
}

function readUsage(usage: JsonObject, body: unknown, provider: string): Usage {
  const rule = PROVIDER_RULES.get(provider) ?? DEFAULT_RULE;
  const notes: ReadNotes = { clamped: false };
  const model = readName(ownMember(body, "model"));
  return buildUsage(
    {
      tokens: { ...inputOf(notes, usage, rule), ...outputOf(notes, usage, rule) },
      fees: feesOf(notes, usage, rule, model),
      model,
      serviceTier: readTier(
        rule.searchSize === undefined
          ? (ownMember(body, "service_tier") ?? usage["service_tier"])
          : valueAt(usage, rule.searchSize),
      ),
      statedCostUsd: readStatedCost(usage),
    },
    notes,
  );
}

function inputOf(
  notes: ReadNotes,
  usage: JsonObject,
  rule: ChatUsageRule,
): Partial<Record<TokenMeter, number>> {
  const total = firstNumber(usage, [["total_tokens"]]);
  const completion = readCount(notes, usage["completion_tokens"]);
  const prompt = readCount(notes, usage["prompt_tokens"] ?? Math.max(0, (total ?? 0) - completion));
  const audio = readCount(notes, valueAt(usage, ["prompt_tokens_details", "audio_tokens"]));
  const more = rule.moreInput === undefined ? 0 : readCount(notes, valueAt(usage, rule.moreInput));
  return splitInput(notes, {
    total: prompt + more + (rule.audio === "outside" ? audio : 0),
    cached: readCount(notes, firstNumber(usage, CACHED_PATHS)),
    written: readCount(notes, firstNumber(usage, CACHE_WRITE_PATHS)),
    audio,
    image: readCount(notes, valueAt(usage, ["prompt_tokens_details", "image_tokens"])),
  });
}

function outputOf(
  notes: ReadNotes,
  usage: JsonObject,
  rule: ChatUsageRule,
): Partial<Record<TokenMeter, number>> {
  const prompt = readCount(notes, usage["prompt_tokens"]);
  const completion = readCount(notes, usage["completion_tokens"]);
  const total = readCount(notes, usage["total_tokens"]);
  const stated = readCount(notes, firstNumber(usage, REASONING_PATHS));
  const reasoning =
    rule.reasoning === "hidden" ? Math.max(stated, total - prompt - completion) : stated;
  const outside = isReasoningOutside(rule, { prompt, completion, total, reasoning });
  return splitOutput(notes, {
    total: completion + (outside ? reasoning : 0),
    reasoning,
    audio: readCount(notes, valueAt(usage, ["completion_tokens_details", "audio_tokens"])),
    image: readCount(notes, valueAt(usage, ["completion_tokens_details", "image_tokens"])),
  });
}

interface UsageSums {
  readonly prompt: number;
  readonly completion: number;
  readonly total: number;
  readonly reasoning: number;
}

// A provider known for it, more reasoning than there is completion, or a total that only so adds up: the sums show how an
// OpenAI-compatible server that nobody has heard of counts.
function isReasoningOutside(rule: ChatUsageRule, sums: UsageSums): boolean {
  const { prompt, completion, total, reasoning } = sums;
  if (rule.reasoning === "outside" || reasoning > completion) return true;
  return reasoning > 0 && total === prompt + completion + reasoning;
}

function feesOf(
  notes: ReadNotes,
  usage: JsonObject,
  rule: ChatUsageRule,
  model: string | undefined,
): Fees {
  const fees = readFeeCounts(notes, usage);
  if (rule.audioSeconds !== undefined) {
    const seconds = readCount(notes, valueAt(usage, rule.audioSeconds));
    if (seconds > 0) addFee(fees, "audio_second", seconds);
  }
  const stated = valueAt(usage, ["cost", "request_cost"]);
  if (rule.requestFee && stated !== 0 && fees.web_search === undefined) addFee(fees, "request");
  if (model !== undefined && rule.searchModels?.test(model)) addFee(fees, "web_search");
  return fees;
}
