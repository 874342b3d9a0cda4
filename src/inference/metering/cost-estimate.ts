// The upper bound of a call's cost, over every price card that may apply: the request's input, what the provider's own
// tools may read and charge, and the output limit.

import { API_TRAITS, FEE_METERS, WIRE_TRAITS } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { isObject } from "../../base/json.ts";
import type { Nano } from "../../base/money/money.ts";
import { type Catalog, type Model, possibleCards, limitsOf } from "../../models/catalog.ts";
import {
  affordableOutput,
  type CostBound,
  costBound,
  maxCost,
  type UsageBounds,
} from "../../models/price-bound.ts";
import { isHintTier, isPriced, type PriceCard } from "../../models/price.ts";
import type { Provider } from "../providers/providers.ts";
import { commonForm } from "../request/common-form.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import {
  DEFAULT_TOOL_CALLS,
  gatewayToolBounds,
  NO_FEES,
  type ToolBounds,
  toolBounds,
  toolsOf,
  usesGatewayTools,
} from "../request/tool-bounds.ts";
import { inputBound } from "./input-bound.ts";
import { type ModelQuirk, quirkOf } from "./model-quirks.ts";
import { otherModelsCost } from "./other-models-cost.ts";
import { type PlausibleUsage, plausibleUsage } from "./plausible-usage.ts";
import {
  imageClassOf,
  outputLimitOf,
  pricedSeconds,
  pricedUnits,
  textBounds,
  withSentOutput,
} from "./priced-units.ts";
import {
  heldFees,
  rejectUnknownContainers,
  type ToolTerms,
  toolTerms,
  withBilledSearches,
} from "./tool-terms.ts";
import { unpricedToolFault } from "./unpriced-tool.ts";

/** With an open output limit, a call is held for at least this much output; less is not worth its input. */
const MIN_OUTPUT_TOKENS = 256;

export interface CostEstimate {
  /** What the bound was computed from, for the price limit of a key. */
  readonly bounds: Omit<UsageBounds, "outputTokens">;
  readonly cards: readonly PriceCard[];
  readonly bound: CostBound;
  /** Upper bound of input tokens. */
  readonly inputTokens: number;
  /** The same of the prompt, before results of tools. */
  readonly promptTokens: number;
  /** Whether the call may use tools or features with a fee per use. */
  readonly hasFees: boolean;
  /** Upper bound of output tokens, over all choices. */
  readonly outputTokens: number;
  /** The part of `outputTokens` that the caller's output limit does not bound: reasoning at some providers. */
  readonly hiddenTokens: number;
  /** Usage reported above these counts is treated as the provider's mistake. */
  readonly plausible: PlausibleUsage;
  /** Upper bound of what other models may cost that the provider calls: advisors, and those that draw images. */
  readonly otherModelsCost: Nano;
  /** How the tool fees in the reply are billed; undefined if they are billed as the reply counts them. */
  readonly toolTerms: ToolTerms | undefined;
  /** The tier that a reply was served at if it names none; undefined if that is the standard tier. */
  readonly silentTier: string | undefined;
  /** All cache writes of the call are kept for longer, at a higher price; the reply does not report this. */
  readonly hasLongCacheWrites: boolean;
  readonly amount: Nano;
  /** What the call may cost if the provider does not keep its output limit; undefined if it does. */
  readonly unlimitedAmount: Nano | undefined;
  /** The smallest useful hold; only if the caller left a limit of output or tool calls open. */
  readonly minimum: Nano | undefined;
  /** The limit of tool calls that the gateway sets, because the caller set none. */
  readonly toolCallsMax?: number;
  /** The same call with fewer tool calls, for a balance that does not cover `amount`: in falling order. */
  readonly fewerToolCalls?: readonly CostEstimate[];
  /** The tool calls that `amount` covers, where no field of the provider limits them. */
  readonly toolCallsHeld?: number;
  /** The same call with fewer of these calls. What it costs beyond the hold is a debt, so only paying accounts may hold less. */
  readonly fewerHeldCalls?: readonly CostEstimate[];
  /** The smallest hold of a paying account. */
  readonly payingMinimum?: Nano;
}

export interface EstimateContext {
  readonly catalog: Catalog;
  readonly now: number;
  /** The call uses the caller's own provider key: it costs nothing here, so its features need no known price. */
  readonly byok: boolean;
  /** The provider runs the call as a part of one of its batches. */
  readonly isBatch?: boolean | undefined;
}

export function estimateCost(
  original: ParsedRequest,
  model: Model,
  provider: Provider,
  context: EstimateContext,
): CostEstimate {
  const isToolCall = hasTools(original);
  if (!isToolCall && original.openToolLimit === undefined)
    return estimateCall(original, model, provider, context);
  // The gateway keeps every limit of the tools that it runs itself.
  const isGatewayRun = !context.byok && usesGatewayTools(original, model);
  const kept = {
    max_tool_calls: LIMITS_TOOL_CALLS.has(provider.id),
    max_uses: hasToolLimit(model.wires, "max_uses"),
  };
  const boundsFor = (calls: number): ToolBounds =>
    isGatewayRun
      ? gatewayToolBounds(commonForm(original), calls, model)
      : toolBounds(commonForm(original), calls, kept);
  const request = isToolCall
    ? Object.assign({}, original, boundsFor(DEFAULT_TOOL_CALLS))
    : original;
  const counts = context.byok ? [] : toolCallCounts(request, model);
  const isLimited = isGatewayRun || canLimitCalls(request, model, provider);
  const [first, ...fewer] = counts.map((calls) => {
    const limited = Object.assign({}, request, boundsFor(calls));
    const told = isLimited ? { toolCallsMax: calls } : { toolCallsHeld: calls };
    return Object.assign(told, estimateCall(limited, model, provider, context));
  });
  const last = fewer.at(-1);
  if (first === undefined || last === undefined)
    return estimateCall(request, model, provider, context);
  const least = last.minimum ?? last.amount;
  return isLimited
    ? { ...first, minimum: least, fewerToolCalls: fewer }
    : { ...first, payingMinimum: least, fewerHeldCalls: fewer };
}

/** The most that the call can cost once the provider has run its tools so often. */
export function costOfToolCalls(estimate: CostEstimate, calls: number): Nano {
  const fewer = estimate.fewerToolCalls ?? estimate.fewerHeldCalls ?? [];
  const covering = fewer.findLast(
    ({ toolCallsMax, toolCallsHeld }) => (toolCallsMax ?? toolCallsHeld ?? 0) >= calls,
  );
  return covering?.amount ?? estimate.amount;
}

/** A limit of 0 hides a tool from the other bounds. */
function hasTools({ json, fees, toolCalls }: ParsedRequest): boolean {
  return (
    toolCalls > 0 ||
    fees !== NO_FEES ||
    json["mcp_servers"] !== undefined ||
    toolsOf(json).length > 0
  );
}

const TOOL_CALL_COUNTS = [50, 20, DEFAULT_TOOL_CALLS, 5, 2, 1];
const DEEP_RESEARCH = /deep-research/;

/** The numbers of tool calls that a hold may cover: none if the caller limits them. */
function toolCallCounts({ openToolLimit }: ParsedRequest, { id }: Model): readonly number[] {
  if (openToolLimit === undefined || quirkOf({ id }) !== undefined) return [];
  return DEEP_RESEARCH.test(id)
    ? TOOL_CALL_COUNTS
    : TOOL_CALL_COUNTS.filter((count) => count <= DEFAULT_TOOL_CALLS);
}

/** Whether the gateway can send a limit: the provider has a field for it. */
function canLimitCalls(
  { openToolLimit }: ParsedRequest,
  { wires }: Model,
  { id: provider }: Provider,
): boolean {
  return (
    (hasToolLimit(wires, "max_tool_calls") && LIMITS_TOOL_CALLS.has(provider)) ||
    (openToolLimit === "search" && hasToolLimit(wires, "max_uses"))
  );
}

function hasToolLimit(wires: Model["wires"], field: "max_tool_calls" | "max_uses"): boolean {
  return wires.some((wire) => WIRE_TRAITS[wire].toolLimitField === field);
}

/** Providers whose Responses API has `max_tool_calls`, for all tools that they run. */
const LIMITS_TOOL_CALLS: ReadonlySet<string> = new Set(["openai", "azure"]);

function estimateCall(
  original: ParsedRequest,
  model: Model,
  provider: Provider,
  context: EstimateContext,
): CostEstimate {
  const cards = possibleCards(context.catalog, model, context.now);
  const [card] = cards;
  if (card === undefined)
    throw new Fault("provider_not_configured", `${model.id} has no price`, {
      message: `${model.id} has no price, so this gateway cannot call it. Use another model.`,
    });
  if (!context.byok) rejectUnknownContainers(original);
  const searching = withBilledSearches(original, card);
  const terms = toolTerms(searching, card, provider);
  const request = withSentOutput(billableRequest(searching, card, terms), provider);
  if (!context.byok) for (const possible of cards) rejectUnpriced(possible, request, model);
  const limits = limitsOf(model);
  const requestTokens = inputBound(request.text, commonForm(request), {
    model: model.id,
    imageTokensMax: provider.imageTokensMax,
    contextTokens: limits.input,
    ...textBounds(request),
  });
  const quirk = quirkOf(model);
  const promptTokens = requestTokens + request.toolTokens;
  const reads = toolReadsOf(request, model, quirk);
  const repeatedTokens = repeatedReads(promptTokens, reads, limits.input);
  const inputTokens = repeatedTokens + longestRead(promptTokens, reads, limits.input);
  const seconds = pricedSeconds(request, cards, limits.input);
  const units = pricedUnits(request, cards, provider);
  const tokens = { inputTokens, repeatedTokens, isBatch: context.isBatch };
  const bounds = priceBounds(request, tokens, { quirk, seconds, units });
  const bound = costBound(bounds, cards);
  // Reasoning that no limit covers may occur in each turn of a call whose tools the gateway runs.
  const runs = !context.byok && usesGatewayTools(original, model) ? reads.calls + 1 : 1;
  const { outputTokens, hiddenTokens } = outputBound(
    { outputMax: sentOutputMax(request, model), choices: request.choices, runs },
    outputLimitOf(request, limits.output),
    quirk?.hasUnboundedReasoning === true || !coversReasoning(provider, model),
  );
  const other = context.byok
    ? 0n
    : otherModelsCost(request, model, { context, card, promptTokens });
  const costOf = (tokens: number): Nano => maxCost(bound, tokens) + other;
  const hasTools = inputTokens > requestTokens;
  const { choices, outputMax } = request;
  const isOutputOpen = outputMax === undefined && limits.output > 0;
  const floor = Math.min(MIN_OUTPUT_TOKENS * choices + hiddenTokens, outputTokens);
  return {
    bounds,
    cards,
    bound,
    inputTokens,
    promptTokens,
    hasFees: bounds.fees !== undefined && Object.keys(bounds.fees).length > 0,
    outputTokens,
    hiddenTokens,
    plausible: plausibleUsage({ inputTokens, outputTokens, hasTools, choices }, limits),
    otherModelsCost: other,
    toolTerms: terms,
    silentTier: provider.servesRequestedTier === true ? tierOf(request, card) : undefined,
    hasLongCacheWrites: hasLongCacheWrites(request, model),
    amount: costOf(outputTokens),
    unlimitedAmount: keepsOutputLimit(provider, model)
      ? undefined
      : costOf(Math.max(outputTokens, limits.output * choices)),
    minimum: isOutputOpen ? costOf(floor) : undefined,
  };
}

/** The requested tier, if it is sent: without a price it is not. */
function tierOf({ serviceTier }: ParsedRequest, card: PriceCard): string | undefined {
  return serviceTier !== undefined && isPriced(card, { serviceTier }) ? serviceTier : undefined;
}

function hasLongCacheWrites({ api, json }: ParsedRequest, { provider }: Model): boolean {
  const options = json["prompt_cache_options"];
  if (provider !== "openai" || API_TRAITS[api].reportsCacheTtl) return false;
  return isObject(options) && options["ttl"] === "12h";
}

// xAI does not count reasoning towards the caller's output limit.
function coversReasoning({ outputLimitCoversReasoning }: Provider, { supported }: Model): boolean {
  return outputLimitCoversReasoning || !supported.includes("reasoning");
}

function keepsOutputLimit({ mayExceedOutputLimit }: Provider, { supported }: Model): boolean {
  return mayExceedOutputLimit !== true || !supported.includes("reasoning");
}

function billableRequest(
  request: ParsedRequest,
  card: PriceCard,
  terms: ToolTerms | undefined,
): ParsedRequest {
  if (includesSearch(request, card))
    return { ...request, fees: NO_FEES, toolTokens: 0, toolCalls: 0 };
  return terms === undefined ? request : { ...request, fees: heldFees(request.fees, terms) };
}

// A translated limit below the least of the provider's API is raised to it.
function sentOutputMax(
  { api, json, outputMax }: ParsedRequest,
  { wires }: Model,
): number | undefined {
  // A call with tools may go over Responses, too.
  const isTranslated = !wires.some((wire) => wire === api) || toolsOf(json).length > 0;
  if (outputMax === undefined || !isTranslated || !API_TRAITS[api].generates) return outputMax;
  return Math.max(outputMax, ...wires.map((wire) => WIRE_TRAITS[wire].outputLimitMin ?? 0));
}

/** Reasoning bound for a model whose reasoning no limit covers, if the caller set no output limit. */
const DEFAULT_REASONING_TOKENS = 64_000;

// Without a caller limit the model's own output limit includes reasoning; with one, reasoning comes on top of it.
function outputBound(
  {
    outputMax,
    choices,
    runs,
  }: Pick<ParsedRequest, "outputMax" | "choices"> & { readonly runs: number },
  modelMax: number,
  hasUnboundedReasoning: boolean,
): Pick<CostEstimate, "outputTokens" | "hiddenTokens"> {
  if (outputMax === undefined) {
    const hidden = hasUnboundedReasoning ? Math.min(DEFAULT_REASONING_TOKENS, modelMax) : 0;
    return { outputTokens: modelMax * choices, hiddenTokens: hidden * choices };
  }
  const hidden = hasUnboundedReasoning ? modelMax * runs : 0;
  return {
    outputTokens: (Math.min(outputMax, modelMax) + hidden) * choices,
    hiddenTokens: hidden * choices,
  };
}

// Perplexity's models search in every call: the request fee covers the search, and its results are not billed as input.
function includesSearch({ fees, json }: ParsedRequest, { requestFees }: PriceCard): boolean {
  return fees !== NO_FEES && json["tools"] === undefined && Object.keys(requestFees).length > 0;
}

/** Output tokens, over all choices, that `available` covers after input, fees and hidden tokens. */
export function affordableTokens(estimate: CostEstimate, available: Nano): number {
  const remaining = available - estimate.otherModelsCost;
  if (remaining < 0n) return 0;
  const total = affordableOutput(estimate.bound, remaining, estimate.outputTokens);
  return Math.max(0, total - estimate.hiddenTokens);
}

function priceBounds(
  request: ParsedRequest,
  tokens: Pick<UsageBounds, "inputTokens" | "repeatedTokens" | "isBatch">,
  {
    quirk,
    seconds,
    units,
  }: {
    readonly quirk: ModelQuirk | undefined;
    readonly seconds: number;
    readonly units: UsageBounds["fees"];
  },
): Omit<UsageBounds, "outputTokens"> {
  const { fees: requestedFees, serviceTier, speed } = request;
  const withSearches =
    quirk === undefined
      ? requestedFees
      : {
          ...requestedFees,
          [quirk.searchMeter]: Math.max(requestedFees[quirk.searchMeter] ?? 0, quirk.searches),
        };
  const fees = units ?? (seconds === 0 ? withSearches : { ...withSearches, audio_second: seconds });
  if (fees === NO_FEES && serviceTier === undefined && speed === undefined) return tokens;
  return {
    ...tokens,
    fees,
    imageClass: imageClassOf(request),
    ...(serviceTier === undefined ? {} : { serviceTier }),
    ...(speed === undefined ? {} : { speed }),
  };
}

/** Anthropic ends a reply with `pause_turn` after so many runs of the model. */
const MESSAGES_RUNS_MAX = 10;

interface ToolReads {
  readonly calls: number;
  readonly tokensPerCall: number | undefined;
}

function toolReadsOf(
  { toolCalls, tokensPerToolCall }: ParsedRequest,
  { wires }: Model,
  quirk: ModelQuirk | undefined,
): ToolReads {
  if (quirk !== undefined) return { calls: quirk.searches, tokensPerCall: quirk.tokensPerSearch };
  const calls = wires.every((wire) => WIRE_TRAITS[wire].toolLimitField === "max_uses")
    ? Math.min(toolCalls, MESSAGES_RUNS_MAX)
    : toolCalls;
  return { calls, tokensPerCall: tokensPerToolCall };
}

/** The prompt with all results of tools. */
function longestRead(
  promptTokens: number,
  { calls, tokensPerCall }: ToolReads,
  context: number,
): number {
  const longest = Math.max(promptTokens, context);
  if (tokensPerCall === undefined) return calls === 0 ? promptTokens : longest;
  return Math.min(longest, promptTokens + calls * tokensPerCall);
}

/** What is read before the last time, if the model runs again after each call of a tool: the prompt and the results so far. */
function repeatedReads(promptTokens: number, reads: ToolReads, context: number): number {
  let sum = 0;
  for (let calls = 0; calls < reads.calls; calls++)
    sum += longestRead(promptTokens, { ...reads, calls }, context);
  return sum;
}

/** Fields that enable web search without a tool. */
const SEARCH_OPTION_FIELDS = ["web_search_options", "search_parameters"] as const;

// A feature without a known price is rejected before the call; its price is never guessed.
function rejectUnpriced(card: PriceCard, request: ParsedRequest, model: Model): void {
  const { serviceTier, speed, fees } = request;
  if (serviceTier === undefined && speed === undefined && fees === NO_FEES) return;
  const field =
    serviceTier !== undefined && !isHintTier(serviceTier) && !isPriced(card, { serviceTier })
      ? "service_tier"
      : speed !== undefined && !isPriced(card, { speed })
        ? "speed"
        : isPriced(card, { fees: FEE_METERS.filter((fee) => (fees[fee] ?? 0) > 0) })
          ? undefined
          : (SEARCH_OPTION_FIELDS.find((option) => isObject(commonForm(request)[option])) ??
            "tools");
  if (field === undefined) return;
  if (field === "tools") throw unpricedToolFault(card, request, model);
  throw new Fault("invalid_request", `no price for this ${field}`, {
    message: `The price of this \`${field}\` is not known for ${model.id}, so the call cannot be billed. Remove \`${field}\` or use another model.`,
    param: field,
  });
}

/** The most tool calls that a hold covers with the whole output. If it covers none, the fewest, with less output. */
export function affordableEstimate(estimate: CostEstimate, held: Nano): CostEstimate {
  const fewer = estimate.fewerToolCalls ?? estimate.fewerHeldCalls ?? [];
  return [estimate, ...fewer].find(({ amount }) => held >= amount) ?? fewer.at(-1) ?? estimate;
}

/** The output limit per choice that a reduced hold covers; undefined if the hold was not reduced. */
export function clampedOutputLimit(
  estimate: CostEstimate,
  held: Nano,
  choices: number,
): number | undefined {
  if (held >= estimate.amount) return undefined;
  return Math.floor(affordableTokens(estimate, held) / choices);
}

/** The same for a call that ends once its hold does: nothing is left free for tokens that no output limit covers. */
export function rollingOutputLimit(
  estimate: CostEstimate,
  held: Nano,
  choices: number,
): number | undefined {
  const { hiddenTokens, outputTokens } = estimate;
  const affordable = affordableTokens({ ...estimate, hiddenTokens: 0 }, held);
  return affordable >= outputTokens - hiddenTokens ? undefined : Math.floor(affordable / choices);
}
