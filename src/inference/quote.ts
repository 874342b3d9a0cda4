// What a call may cost at most, by the cards that may answer it: what the request itself counts for, what the provider may
// read and do besides, and the most that is put out.

import { Fault } from "../base/fault.ts";
import { FEE_METERS } from "../base/meters.ts";
import type { Nano } from "../base/money.ts";
import type { Catalog, Model } from "../models/catalog.ts";
import { boundCards, cardResolver, limitsOf } from "../models/catalog.ts";
import { isPriced, type PriceCard } from "../models/price.ts";
import { affordableOutput, boundOn, type Bounds, priceUpperBound } from "../models/price-bound.ts";
import { type Ask, isObject } from "./ask.ts";
import { codexSetting } from "./canonical-wire.ts";
import { inputBound, secondsBound } from "./input-bound.ts";
import type { Provider } from "./providers.ts";
import { ADVICE_TOKENS, advisorsOf, NO_FEES, OPEN_TOKENS, toolsOf } from "./tool-fees.ts";

/** A call is not worth its input with less output than this. */
const OUTPUT_FLOOR_TOKENS = 256;

export interface Quote {
  readonly cards: readonly PriceCard[];
  readonly bounds: Omit<Bounds, "outputTokens">;
  /** The most output tokens, all choices together. */
  readonly outputTokens: number;
  /** Those among them that no limit of the caller's bounds. */
  readonly hiddenTokens: number;
  /** What a provider counts beyond these numbers is a fault of its own, and not what the call has used. */
  readonly credible: { readonly inputTokens: number; readonly outputTokens: number };
  /** What other models may cost that the provider asks. */
  readonly advice: Nano;
  readonly amount: Nano;
  /** The least that makes sense, where the caller left the limit open. */
  readonly minimum: Nano | undefined;
}

export interface QuoteParts {
  readonly catalog: Catalog;
  readonly now: number;
  /** Whether the caller pays at the provider, by a key of their own: what costs nothing here needs no price. */
  readonly byok: boolean;
}

export function quoteOf(sent: Ask, model: Model, provider: Provider, parts: QuoteParts): Quote {
  const cards = boundCards(parts.catalog, model, parts.now);
  const [card] = cards;
  if (card === undefined)
    throw new Fault("provider_not_configured", `${model.id} has no price`, {
      message: `${model.id} has no price, so it cannot be called. Use another model.`,
    });
  const ask = searchesByItself(sent, card) ? { ...sent, fees: NO_FEES, brought: 0 } : sent;
  if (!parts.byok) for (const one of cards) refuseUnpriced(one, ask, model);
  const limits = limitsOf(model);
  const sentTokens = inputBound(ask.text, ask.json, {
    imageTokensMax: provider.imageTokensMax,
    contextTokens: limits.input,
    ...(ask.api === "embeddings" && { texts: textsOf(ask.json["input"]) }),
  });
  const habit = habitOf(model);
  const brought = Math.max(ask.brought, habit?.brings ?? 0);
  const inputTokens = Math.max(sentTokens, Math.min(limits.input, sentTokens + brought));
  const seconds = cards.some(({ base }) => (base.audio_second ?? 0n) > 0n)
    ? secondsBound(ask.json, limits.input)
    : 0;
  const bounds = boundsOf(ask, inputTokens, { searches: habit?.searches ?? 0, seconds });
  const thinksFreely =
    habit?.thinksFreely === true ||
    // Some providers do not count reasoning towards the limit that the caller set.
    (!provider.limitsReasoning && model.supported.includes("reasoning"));
  const { outputTokens, hiddenTokens } = outputBound(ask, limits.output, thinksFreely);
  const advice = adviceBound(ask, model, inputTokens, parts);
  const bound = boundOn(bounds, cards);
  const most = (tokens: number): Nano => bound(tokens) + advice;
  const open = ask.outputMax === undefined && limits.output > 0;
  const floor = Math.min(OUTPUT_FLOOR_TOKENS * ask.choices + hiddenTokens, outputTokens);
  return {
    cards,
    bounds,
    outputTokens,
    hiddenTokens,
    credible: credibleOf({ inputTokens, outputTokens, brought }, limits),
    advice,
    amount: most(outputTokens),
    minimum: open ? most(floor) : undefined,
  };
}

/** What a model is taken to think at most where no limit bounds that and the caller set none. */
const THOUGHTS_HELD_TOKENS = 64_000;

// Where the limit is open, thoughts are within the model's own; a limit that is set, or lowered, leaves them out.
function outputBound(
  { outputMax, choices }: Ask,
  most: number,
  thinksFreely: boolean,
): Pick<Quote, "outputTokens" | "hiddenTokens"> {
  if (outputMax === undefined) {
    const hidden = thinksFreely ? Math.min(THOUGHTS_HELD_TOKENS, most) : 0;
    return { outputTokens: most * choices, hiddenTokens: hidden * choices };
  }
  const hidden = thinksFreely ? most : 0;
  return {
    outputTokens: (Math.min(outputMax, most) + hidden) * choices,
    hiddenTokens: hidden * choices,
  };
}

// Perplexity's models search in every call: the fee for the request is for that, and what they find is not counted.
function searchesByItself({ fees, json }: Ask, { requestFees }: PriceCard): boolean {
  return fees !== NO_FEES && json["tools"] === undefined && Object.keys(requestFees).length > 0;
}

// An advisor reads what the model reads, at the price of its own model.
function adviceBound(
  ask: Ask,
  { id, provider }: Model,
  inputTokens: number,
  { catalog, now, byok }: QuoteParts,
): Nano {
  if (byok) return 0n;
  let sum = 0n;
  for (const { model, calls, param } of advisorsOf(ask.json)) {
    const card = cardResolver(catalog, provider, now)(model);
    if (card === undefined)
      throw new Fault("invalid_request", "no price for an advisor", {
        message: `${id} has no known price for the advisor ${model}, so it cannot be billed. Name a model of GET /v1/models.`,
        param,
      });
    sum += BigInt(calls) * priceUpperBound({ inputTokens, outputTokens: ADVICE_TOKENS }, card);
  }
  return sum;
}

/** The output tokens, all choices together, that a sum pays for after the rest of the call, its hidden ones included. */
export function affordableTokens(quote: Quote, available: Nano): number {
  const left = available - quote.advice;
  if (left < 0n) return 0;
  const all = affordableOutput(left, quote.bounds, quote.cards, quote.outputTokens);
  return Math.max(0, all - quote.hiddenTokens);
}

// Each text has the model's context to itself. A list of numbers is one text, in tokens.
function textsOf(input: unknown): number {
  return Array.isArray(input) && typeof input[0] !== "number" ? Math.max(1, input.length) : 1;
}

/** What models do in every call, asked or not. */
interface Habit {
  readonly model: RegExp;
  readonly searches: number;
  /** Tokens that they read so. */
  readonly brings: number;
  /** No limit of the caller's bounds what they think. */
  readonly thinksFreely?: true;
}

const HABITS: readonly Habit[] = [
  { model: /^(openai|azure)\/.*-search-(preview|api)/, searches: 1, brings: 8_000 },
  {
    model: /^perplexity\/.*deep-research/,
    searches: 50,
    brings: OPEN_TOKENS,
    thinksFreely: true,
  },
];

function habitOf({ id }: Model): Habit | undefined {
  return HABITS.find((one) => one.model.test(id));
}

/** Numbers beyond what was asked for by this factor are a fault of the provider. */
const ABSURD_FACTOR = 2;
/** What providers add by themselves: their own instructions, a frame around every message. */
const ADDED_TOKENS = 4_000;
const OUTPUT_ADDED_TOKENS = 1_000;
/** So often a provider may ask its model again within one call, for what its own tools brought. */
const ROUNDS_MAX = 64;

// Each round counts again what was read before, so what a provider's own tools bring has no bound but the model's.
function credibleOf(
  asked: Quote["credible"] & { readonly brought: number },
  limits: { readonly input: number; readonly output: number },
): Quote["credible"] {
  const input = asked.inputTokens * ABSURD_FACTOR + ADDED_TOKENS;
  const output = Math.max(OUTPUT_ADDED_TOKENS, asked.outputTokens * ABSURD_FACTOR);
  return asked.brought === 0
    ? { inputTokens: input, outputTokens: output }
    : {
        inputTokens: Math.max(input, limits.input * ROUNDS_MAX),
        outputTokens: Math.max(output, limits.output * ROUNDS_MAX),
      };
}

function boundsOf(
  { fees: asked, serviceTier, speed }: Ask,
  inputTokens: number,
  { searches, seconds }: { readonly searches: number; readonly seconds: number },
): Quote["bounds"] {
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
const BESIDE_TOOLS = ["web_search_options", "search_parameters"] as const;

// What has no price is refused before it is used, and never guessed.
function refuseUnpriced(card: PriceCard, ask: Ask, model: Model): void {
  const { serviceTier, speed, fees } = ask;
  if (serviceTier === undefined && speed === undefined && fees === NO_FEES) return;
  const field =
    serviceTier !== undefined && !isPriced(card, { serviceTier })
      ? "service_tier"
      : speed !== undefined && !isPriced(card, { speed })
        ? "speed"
        : isPriced(card, { fees: FEE_METERS.filter((fee) => (fees[fee] ?? 0) > 0) })
          ? undefined
          : (BESIDE_TOOLS.find((one) => isObject(ask.json[one])) ?? "tools");
  if (field === undefined) return;
  const codex = ask.api === "responses" && field === "tools" ? codexHint(ask) : "";
  throw new Fault("invalid_request", `no price for this ${field}`, {
    message: `${model.id} has no known price for what ${field} asks for, so it cannot be billed. Leave it out.${codex}`,
    param: field,
  });
}

function codexHint({ json }: Ask): string {
  return codexSetting(toolsOf(json).find(({ type }) => type === "web_search")?.["type"]);
}

/** The output limit of each choice that a lowered hold pays for; undefined where nothing was lowered. */
export function clampedOutput(quote: Quote, held: Nano, choices: number): number | undefined {
  if (held >= quote.amount) return undefined;
  return Math.floor(affordableTokens(quote, held) / choices);
}
