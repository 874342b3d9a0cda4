// Usage on the chat wire (OpenAI's Chat Completions). Most providers implement it, and they count differently.

import { arrayIn, objectIn, type JsonObject } from "../json-fields.ts";
import type { ScanPlan } from "./event-scanner.ts";
import { addFee, readFeeCounts, type Fees } from "./fee-counts.ts";
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
import {
  createUsageMeter,
  detectError,
  setModel,
  addAudio,
  addText,
  addToolCall,
  type StreamMeter,
  type UsageReader,
  type StreamState,
} from "./stream-meter.ts";
import { splitInput, splitOutput } from "./token-breakdown.ts";
import type { FeeMeter, TokenMeter, Usage } from "./usage-meters.ts";

/** How a provider differs from OpenAI. */
interface ChatUsageRule {
  /**
   * Reasoning is part of the completion by default, if the sums do not show otherwise; "outside": added to it; "hidden": only
   * part of the total; "uncounted": in neither if there is more of it than completion.
   */
  readonly reasoning?: "outside" | "hidden" | "uncounted";
  /** Audio input is part of the prompt by default. */
  readonly audio?: "outside";
  /** Input tokens that are not part of the prompt. */
  readonly moreInput?: Path;
  readonly audioSeconds?: Path;
  /** Charges a fee per request, unless the usage shows another fee instead. */
  readonly requestFee?: true;
  /** The search size decides the request fee; it is reported as the service tier. */
  readonly searchSize?: Path;
  /** Models that make one web search per request without counting it in any field. */
  readonly searchModels?: readonly (readonly [model: RegExp, meter: FeeMeter])[];
}

const OPENAI_RULE: ChatUsageRule = {
  searchModels: [
    [/-search-preview/, "web_search_preview"],
    [/-search-api/, "web_search"],
  ],
};
const PROVIDER_RULES: ReadonlyMap<string, ChatUsageRule> = new Map([
  ["openai", OPENAI_RULE],
  ["azure", OPENAI_RULE],
  ["xai", { reasoning: "outside" }],
  ["google", { reasoning: "hidden" }],
  ["vertex", { reasoning: "hidden" }],
  // Leaves Gemini's reasoning out of the completion and of the total, and charges it.
  ["vercel-gateway", { reasoning: "uncounted" }],
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
/** Above the choices of any provider. */
const CHOICES_MAX = 128;

// Alternative names of the same number, the most reliable first.
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
const SUM_PATHS: readonly Path[] = [["prompt_tokens"], ["completion_tokens"], ["total_tokens"]];
const TOTAL_PATH: readonly Path[] = [["total_tokens"]];
const INPUT_AUDIO_PATH: Path = ["prompt_tokens_details", "audio_tokens"];
const INPUT_IMAGE_PATH: Path = ["prompt_tokens_details", "image_tokens"];
const OUTPUT_AUDIO_PATH: Path = ["completion_tokens_details", "audio_tokens"];
const OUTPUT_IMAGE_PATH: Path = ["completion_tokens_details", "image_tokens"];
// Groq reports the same numbers again in `x_groq`, on another chunk. Moonshot reports usage inside a choice.
const USAGE_PATHS: readonly Path[] = [["usage"], ["x_groq", "usage"]];

/** The usage of a chat completion. */
export function usageOfChat(body: unknown, provider: string): Usage | undefined {
  const usage = usageObject(body);
  return usage && readUsage(usage, body, provider);
}

const SCAN_PLAN: ScanPlan = {
  textSlots: { content: 0, arguments: 0, refusal: 0, reasoning_content: 1, reasoning: 2, text: 3 },
  // A tool call begins with the name of its tool.
  parseKeys: ["usage", "error", "finish_reason", "annotations", "audio", "name"],
  parseTypes: [],
};

// Reasoning is often sent under several of its names at once, so only the longest counts. `text` alone is a legacy
// completion, or Mistral's.
function combineSlots(slots: readonly number[]): number {
  return (slots[0] ?? 0) + Math.max(slots[1] ?? 0, slots[2] ?? 0, slots[3] ?? 0);
}

export function createChatStreamMeter(provider: string, choices = 1): StreamMeter {
  return createUsageMeter(choices > 1 ? multiChoiceReader(provider) : usageReaderFor(provider));
}

const READERS_MAX = 100;
const usageReaders = new Map<string, UsageReader>();

function usageReaderFor(provider: string): UsageReader {
  const cached = usageReaders.get(provider);
  if (cached !== undefined) return cached;
  const reader: UsageReader = {
    plan: SCAN_PLAN,
    combineSlots,
    read: (state, name, data) => readChunk(state, name, data, provider),
  };
  if (usageReaders.size >= READERS_MAX) usageReaders.clear();
  usageReaders.set(provider, reader);
  return reader;
}

// With several choices, one may end long before another, so every event is parsed to know which ones are open.
function multiChoiceReader(provider: string): UsageReader {
  const open = new Set<unknown>();
  const ended = new Set<unknown>();
  return {
    read: (state, name, data) => {
      const hasUsage = readChunk(state, name, data, provider);
      for (const choice of arrayIn(data["choices"])) {
        const index = ownMember(choice, "index");
        if (hasEnded(choice)) ended.add(index);
        if (ended.has(index)) open.delete(index);
        else if (open.size < CHOICES_MAX) open.add(index);
      }
      state.hasStopReason = ended.size > 0 && open.size === 0;
      state.isUsageFinal = state.usage !== undefined && state.hasStopReason;
      return hasUsage;
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
    // Beside a choice, it is a running total.
    if (arrayIn(data["choices"]).length === 0) state.isUsageStated = true;
    // Usage may be a running total or be reported twice: the last one wins.
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
  const audio = ownMember(delta, "audio");
  addAudio(state, ownMember(audio, "data"));
  addText(state, ownMember(audio, "transcript"));
  addReasoningBytes(state, delta);
  for (const call of arrayIn(ownMember(delta, "tool_calls"))) {
    const called = ownMember(call, "function");
    addToolCall(state, ownMember(called, "name"));
    addText(state, ownMember(called, "arguments"));
  }
}

// The same reasoning text may be sent under several names.
function addReasoningBytes(state: StreamState, delta: unknown): void {
  const details = arrayIn(ownMember(delta, "reasoning_details")).map((detail) =>
    textOf(ownMember(detail, "text")),
  );
  const [longest = ""] = [
    textOf(ownMember(delta, "reasoning_content")),
    textOf(ownMember(delta, "reasoning")),
    details.join(""),
  ].sort((left, right) => right.length - left.length);
  addText(state, longest);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function usageObject(body: unknown): JsonObject | undefined {
  for (const path of USAGE_PATHS) {
    const usage = objectIn(valueAt(body, path));
    if (usage !== undefined && hasNumbers(usage)) return usage;
  }
  for (const choice of arrayIn(ownMember(body, "choices"))) {
    const usage = objectIn(ownMember(choice, "usage"));
    if (usage !== undefined && hasNumbers(usage)) return usage;
  }
  return undefined;
}

function hasNumbers(usage: JsonObject): boolean {
  return firstNumber(usage, SUM_PATHS) !== undefined;
}

function readUsage(usage: JsonObject, body: unknown, provider: string): Usage {
  const rule = PROVIDER_RULES.get(provider) ?? DEFAULT_RULE;
  const notes: ReadNotes = { clamped: false };
  const model = readName(ownMember(body, "model"));
  return buildUsage(
    {
      tokens: { ...inputTokens(notes, usage, rule), ...outputTokens(notes, usage, rule) },
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

function inputTokens(
  notes: ReadNotes,
  usage: JsonObject,
  rule: ChatUsageRule,
): Partial<Record<TokenMeter, number>> {
  const total = firstNumber(usage, TOTAL_PATH) ?? 0;
  const completion = readCount(notes, usage["completion_tokens"]);
  const prompt = readCount(notes, usage["prompt_tokens"] ?? Math.max(0, total - completion));
  const audio = readCount(notes, valueAt(usage, INPUT_AUDIO_PATH));
  const more = rule.moreInput === undefined ? 0 : readCount(notes, valueAt(usage, rule.moreInput));
  return splitInput(notes, {
    total: prompt + more + (rule.audio === "outside" ? audio : 0),
    cached: readCount(notes, firstNumber(usage, CACHED_PATHS)),
    written: readCount(notes, firstNumber(usage, CACHE_WRITE_PATHS)),
    audio,
    image: readCount(notes, valueAt(usage, INPUT_IMAGE_PATH)),
  });
}

function outputTokens(
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
  const isOutside = isReasoningOutside(rule, { prompt, completion, total, reasoning });
  return splitOutput(notes, {
    total: completion + (isOutside ? reasoning : 0),
    reasoning: isOutside ? reasoning : Math.min(reasoning, completion),
    audio: readCount(notes, valueAt(usage, OUTPUT_AUDIO_PATH)),
    image: readCount(notes, valueAt(usage, OUTPUT_IMAGE_PATH)),
  });
}

interface UsageSums {
  readonly prompt: number;
  readonly completion: number;
  readonly total: number;
  readonly reasoning: number;
}

// The sums reveal how an OpenAI-compatible server counts: reasoning is inside the completion if the total is the prompt and the
// completion, even if more of it is reported, and outside if only then the total adds up. Without a total, the sizes decide.
function isReasoningOutside(rule: ChatUsageRule, sums: UsageSums): boolean {
  const { prompt, completion, total, reasoning } = sums;
  if (rule.reasoning === "outside") return true;
  if (rule.reasoning !== "uncounted" && total > 0 && total === prompt + completion) return false;
  return reasoning > completion || (reasoning > 0 && total === prompt + completion + reasoning);
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
  const reportedFee = valueAt(usage, ["cost", "request_cost"]);
  if (rule.requestFee && reportedFee !== 0 && fees.web_search === undefined)
    addFee(fees, "request");
  const search = rule.searchModels?.find(([pattern]) => model !== undefined && pattern.test(model));
  if (search !== undefined) addFee(fees, search[1]);
  return fees;
}
