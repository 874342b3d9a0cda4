// What a call may cost at most, by the cards that may answer it: what the request itself counts for, what the provider may
// read and do besides, and the most that is put out.

import { Fault } from "../../base/fault.ts";
import { FEE_METERS } from "../../base/usage-meters.ts";
import type { Nano } from "../../base/money.ts";
import {
  type Catalog,
  type Model,
  possibleCards,
  cardResolver,
  limitsOf,
} from "../../models/catalog.ts";
import { isPriced, type PriceCard } from "../../models/price.ts";
import {
  affordableOutput,
  priceUpperBoundByOutput,
  type UsageBounds,
  priceUpperBound,
} from "../../models/price-bound.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { isObject } from "../../base/json.ts";
import { codexWebSearchHint } from "../canonical/loss.ts";
import { inputBound, audioSecondsBound } from "./input-bound.ts";
import type { Provider } from "../providers/providers.ts";
import {
  ADVISOR_OUTPUT_TOKENS,
  advisorsOf,
  NO_FEES,
  UNBOUNDED_TOOL_TOKENS,
  toolsOf,
} from "../request/tool-bounds.ts";

/** A call is not worth its input with less output than this. */
const MIN_OUTPUT_TOKENS = 256;

export interface CostEstimate {
  readonly cards: readonly PriceCard[];
  readonly bounds: Omit<UsageBounds, "outputTokens">;
  /** The most output tokens, all choices together. */
  readonly outputTokens: number;
  /** Those among them that no limit of the caller's bounds. */
  readonly hiddenTokens: number;
  /** What a provider counts beyond these numbers is a fault of its own, and not what the call has used. */
  readonly plausible: { readonly inputTokens: number; readonly outputTokens: number };
  /** What other models may cost that the provider asks. */
  readonly advisorCost: Nano;
  readonly amount: Nano;
  /** The least that makes sense, where the caller left the limit open. */
  readonly minimum: Nano | undefined;
}

export interface EstimateContext {
  readonly catalog: Catalog;
  readonly now: number;
  /** Whether the caller pays at the provider, by a key of their own: what costs nothing here needs no price. */
  readonly byok: boolean;
}

export function estimateCost(
  original: ParsedRequest,
  model: Model,
  provider: Provider,
  context: EstimateContext,
): CostEstimate {
  const cards = possibleCards(context.catalog, model, context.now);
  const [card] = cards;
  if (card === undefined)
    throw new Fault("provider_not_configured", `${model.id} has no price`, {
      message: `${model.id} has no price, so it cannot be called. Use another model.`,
    });
  const request = includesSearch(original, card)
    ? { ...original, fees: NO_FEES, toolTokens: 0 }
    : original;
  if (!context.byok) for (const one of cards) rejectUnpriced(one, request, model);
  const limits = limitsOf(model);
  const requestTokens = inputBound(request.text, request.json, {
    imageTokensMax: provider.imageTokensMax,
    contextTokens: limits.input,
    ...(request.api === "embeddings" && { texts: textsOf(request.json["input"]) }),
  });
  const quirk = quirkOf(model);
  const toolTokens = Math.max(request.toolTokens, quirk?.toolTokens ?? 0);
  const inputTokens = Math.max(requestTokens, Math.min(limits.input, requestTokens + toolTokens));
  const seconds = cards.some(({ base }) => (base.audio_second ?? 0n) > 0n)
    ? audioSecondsBound(request.json, limits.input)
    : 0;
  const bounds = priceBounds(request, inputTokens, { searches: quirk?.searches ?? 0, seconds });
  const hasUnboundedReasoning =
    quirk?.hasUnboundedReasoning === true ||
    // Some providers do not count reasoning towards the limit that the caller set.
    (!provider.outputLimitCoversReasoning && model.supported.includes("reasoning"));
  const { outputTokens, hiddenTokens } = outputBound(request, limits.output, hasUnboundedReasoning);
  const advisorCost = advisorCostBound(request, model, inputTokens, context);
  const bound = priceUpperBoundByOutput(bounds, cards);
  const costAt = (tokens: number): Nano => bound(tokens) + advisorCost;
  const isOutputOpen = request.outputMax === undefined && limits.output > 0;
  const floor = Math.min(MIN_OUTPUT_TOKENS * request.choices + hiddenTokens, outputTokens);
  return {
    cards,
    bounds,
    outputTokens,
    hiddenTokens,
    plausible: plausibleUsage({ inputTokens, outputTokens, toolTokens }, limits),
    advisorCost,
    amount: costAt(outputTokens),
    minimum: isOutputOpen ? costAt(floor) : undefined,
  };
}

/** What a model is taken to think at most where no limit bounds that and the caller set none. */
const DEFAULT_REASONING_TOKENS = 64_000;

// Where the limit is open, thoughts are within the model's own; a limit that is set, or lowered, leaves them out.
function outputBound(
  { outputMax, choices }: ParsedRequest,
  modelMax: number,
  hasUnboundedReasoning: boolean,
): Pick<CostEstimate, "outputTokens" | "hiddenTokens"> {
  if (outputMax === undefined) {
    const hidden = hasUnboundedReasoning ? Math.min(DEFAULT_REASONING_TOKENS, modelMax) : 0;
    return { outputTokens: modelMax * choices, hiddenTokens: hidden * choices };
  }
  const hidden = hasUnboundedReasoning ? modelMax : 0;
  return {
    outputTokens: (Math.min(outputMax, modelMax) + hidden) * choices,
    hiddenTokens: hidden * choices,
  };
}

// Perplexity's models search in every call: the fee for the request is for that, and what they find is not counted.
function includesSearch({ fees, json }: ParsedRequest, { requestFees }: PriceCard): boolean {
  return fees !== NO_FEES && json["tools"] === undefined && Object.keys(requestFees).length > 0;
}

// An advisor reads what the model reads, at the price of its own model.
function advisorCostBound(
  request: ParsedRequest,
  { id, provider }: Model,
  inputTokens: number,
  { catalog, now, byok }: EstimateContext,
): Nano {
  if (byok) return 0n;
  let sum = 0n;
  for (const { model, calls, param } of advisorsOf(request.json)) {
    const card = cardResolver(catalog, provider, now)(model);
    if (card === undefined)
      throw new Fault("invalid_request", "no price for an advisor", {
        message: `${id} has no known price for the advisor ${model}, so it cannot be billed. Name a model of GET /v1/models.`,
        param,
      });
    sum +=
      BigInt(calls) * priceUpperBound({ inputTokens, outputTokens: ADVISOR_OUTPUT_TOKENS }, card);
  }
  return sum;
}

/** The output tokens, all choices together, that a sum pays for after the rest of the call, its hidden ones included. */
export function affordableTokens(estimate: CostEstimate, available: Nano): number {
  const left = available - estimate.advisorCost;
  if (left < 0n) return 0;
  const all = affordableOutput(left, estimate.bounds, estimate.cards, estimate.outputTokens);
  return Math.max(0, all - estimate.hiddenTokens);
}

// Each text has the model's context to itself. A list of numbers is one text, in tokens.
function textsOf(input: unknown): number {
  return Array.isArray(input) && typeof input[0] !== "number" ? Math.max(1, input.length) : 1;
}

/** What models do in every call, asked or not. */
interface ModelQuirk {
  readonly model: RegExp;
  readonly searches: number;
  /** Tokens that they read so. */
  readonly toolTokens: number;
  /** No limit of the caller's bounds what they think. */
  readonly hasUnboundedReasoning?: true;
}

const MODEL_QUIRKS: readonly ModelQuirk[] = [
  { model: /^(openai|azure)\/.*-search-(preview|api)/, searches: 1, toolTokens: 8_000 },
  {
    model: /^perplexity\/.*deep-research/,
    searches: 50,
    toolTokens: UNBOUNDED_TOOL_TOKENS,
    hasUnboundedReasoning: true,
  },
];

function quirkOf({ id }: Model): ModelQuirk | undefined {
  return MODEL_QUIRKS.find((one) => one.model.test(id));
}

/** Numbers beyond what was asked for by this factor are a fault of the provider. */
const IMPLAUSIBLE_FACTOR = 2;
/** What providers add by themselves: their own instructions, a frame around every message. */
const PROVIDER_INPUT_SLACK_TOKENS = 4_000;
const PROVIDER_OUTPUT_SLACK_TOKENS = 1_000;
/** So often a provider may ask its model again within one call, for what its own tools brought. */
const MAX_TOOL_ROUNDS = 64;

// Each round counts again what was read before, so what a provider's own tools bring has no bound but the model's.
function plausibleUsage(
  bound: CostEstimate["plausible"] & { readonly toolTokens: number },
  limits: { readonly input: number; readonly output: number },
): CostEstimate["plausible"] {
  const input = bound.inputTokens * IMPLAUSIBLE_FACTOR + PROVIDER_INPUT_SLACK_TOKENS;
  const output = Math.max(PROVIDER_OUTPUT_SLACK_TOKENS, bound.outputTokens * IMPLAUSIBLE_FACTOR);
  return bound.toolTokens === 0
    ? { inputTokens: input, outputTokens: output }
    : {
        inputTokens: Math.max(input, limits.input * MAX_TOOL_ROUNDS),
        outputTokens: Math.max(output, limits.output * MAX_TOOL_ROUNDS),
      };
}

function priceBounds(
  { fees: asked, serviceTier, speed }: ParsedRequest,
  inputTokens: number,
  { searches, seconds }: { readonly searches: number; readonly seconds: number },
): CostEstimate["bounds"] {
  const searched =
    searches === 0 ? asked : { ...asked, web_search: Math.max(asked.web_search ?? 0, searches) };
  const fees = seconds === 0 ? searched : { ...searched, audio_second: seconds };
  if (serviceTier === undefined && speed === undefined)
    return fees === NO_FEES ? { inputTokens } : { inputTokens, fees };
  return {
    inputTokens,
    fees,
    ...(serviceTier === undefined ? {} : { serviceTier }),
    ...(speed === undefined ? {} : { speed }),
  };
}

/** How a search is asked for without a tool. */
const SEARCH_OPTION_FIELDS = ["web_search_options", "search_parameters"] as const;

// What has no price is refused before it is used, and never guessed.
function rejectUnpriced(card: PriceCard, request: ParsedRequest, model: Model): void {
  const { serviceTier, speed, fees } = request;
  if (serviceTier === undefined && speed === undefined && fees === NO_FEES) return;
  const field =
    serviceTier !== undefined && !isPriced(card, { serviceTier })
      ? "service_tier"
      : speed !== undefined && !isPriced(card, { speed })
        ? "speed"
        : isPriced(card, { fees: FEE_METERS.filter((fee) => (fees[fee] ?? 0) > 0) })
          ? undefined
          : (SEARCH_OPTION_FIELDS.find((one) => isObject(request.json[one])) ?? "tools");
  if (field === undefined) return;
  const codex = request.api === "responses" && field === "tools" ? codexHint(request) : "";
  throw new Fault("invalid_request", `no price for this ${field}`, {
    message: `${model.id} has no known price for what ${field} asks for, so it cannot be billed. Leave it out.${codex}`,
    param: field,
  });
}

function codexHint({ json }: ParsedRequest): string {
  return codexWebSearchHint(toolsOf(json).find(({ type }) => type === "web_search")?.["type"]);
}

/** The output limit of each choice that a lowered hold pays for; undefined where nothing was lowered. */
export function clampedOutputLimit(
  estimate: CostEstimate,
  held: Nano,
  choices: number,
): number | undefined {
  if (held >= estimate.amount) return undefined;
  return Math.floor(affordableTokens(estimate, held) / choices);
}
