// Prices the usage of a call. The cost that the provider states decides, otherwise the usage that it reports. If the caller
// disconnects before it arrives, the tokens of the relayed output are counted instead; if the provider fails without
// reporting usage, nothing is charged.

import { FEE_METERS, type Usage } from "@postern/wires";
import { minNano, type Nano, usdTextOfPico } from "../../base/money/money.ts";
import type { Catalog, Model } from "../../models/catalog.ts";
import { cardFor, cardResolver, limitsOf, OPERATOR_SOURCE } from "../../models/catalog.ts";
import { BATCH_TIER, price, type PricedUsage, type PriceLine } from "../../models/price.ts";
import { ceilOf, multiply } from "../../models/ratio.ts";
import type { PricedLine } from "../../usage/usage.ts";
import type { CostEstimate } from "./cost-estimate.ts";
import { type PlausibleUsage, TOOL_ROUNDS_MAX } from "./plausible-usage.ts";
import { billedFees } from "./tool-terms.ts";

/** More tool uses than this in one call are implausible. Meters that count no uses are exempt. */
const FEE_COUNT_MAX = 1_000;
const NOT_USES: ReadonlySet<string> = new Set(["audio_second", "character", "megapixel"]);

export interface UsageCharge {
  readonly usage: Usage;
  readonly lines: readonly PricedLine[];
  readonly cost: Nano;
  /** False if the usage was estimated or implausible. */
  readonly exact: boolean;
  /** Meters that had no price and were billed at a fallback price. */
  readonly missingPrices: readonly string[];
}

export interface ChargeContext {
  readonly catalog: Catalog;
  readonly model: Model;
  readonly estimate: CostEstimate;
  /** An implausible usage without a stated cost is charged no more than this. */
  readonly held: Nano;
  readonly at: number;
  readonly durationMs: number;
  /** Bytes of output that have arrived: each may be a token, whatever the request asked for. */
  readonly outputBytes: number;
  /** Whether the request has fields whose effect on the bill is not known. Asked only for usage beyond the request. */
  readonly hasUnknownFields: () => boolean;
}

const NO_USAGE: Usage = { tokens: {}, fees: {} };
export const NO_CHARGE: UsageCharge = {
  usage: NO_USAGE,
  lines: [],
  cost: 0n,
  exact: false,
  missingPrices: [],
};

/** Below this, a stated cost and the list price differ by rounding alone. */
const ROUNDING_NANO = 2n;
const NANO_PER_USD = 1e9;
const PICO_PER_NANO = 1_000n;

/** Prices reported usage by the cost that the provider states, otherwise by the card of the model that answered. */
export function chargeFor(usage: Usage, context: ChargeContext): UsageCharge {
  const { catalog, model, estimate, held, at, durationMs } = context;
  const resolved = cardFor(catalog, model, usage.model, at);
  if (resolved === undefined) throw new Error(`${model.id} was called without a price`);
  const billed = billedUsage(usage, estimate, durationMs);
  const priced: PricedUsage = price(
    billed,
    resolved.card,
    cardResolver(catalog, model.provider, at),
  );
  const isUsageImplausible = isBeyondRequest(usage, context);
  const missingPrices = resolved.exact
    ? priced.missingPrices
    : [...priced.missingPrices, `model:${usage.model ?? ""}`];
  const stated = statedCost(usage, resolved.model, catalog, priced.cost);
  if (stated !== undefined)
    return {
      usage: billed,
      lines: [{ meter: "provider_cost", count: 1, usd: usdTextOfPico(stated * PICO_PER_NANO) }],
      cost: stated,
      exact: true,
      missingPrices: [],
    };
  return {
    usage: billed,
    lines: priced.lines.map(toPricedLine),
    cost: isUsageImplausible ? minNano(priced.cost, held) : priced.cost,
    exact: !isUsageImplausible,
    missingPrices,
  };
}

/** The usage with the fees, tier and cache writes that depend on the request and not on the reply. */
function billedUsage(usage: Usage, estimate: CostEstimate, durationMs: number): Usage {
  const { toolTerms, silentTier, bounds, hasLongCacheWrites } = estimate;
  const isSilent = silentTier !== undefined && usage.serviceTier === undefined;
  if (toolTerms === undefined && !isSilent && bounds.isBatch !== true && !hasLongCacheWrites)
    return usage;
  const { cache_write_5m: written = 0, ...tokens } = usage.tokens;
  return {
    ...usage,
    ...(isSilent && { serviceTier: silentTier }),
    ...(bounds.isBatch === true && { serviceTier: BATCH_TIER }),
    ...(toolTerms !== undefined && { fees: billedFees(usage.fees, toolTerms, durationMs) }),
    ...(hasLongCacheWrites && written > 0 && { tokens: { ...tokens, cache_write_1h: written } }),
  };
}

// The operator's own price includes the operator's margin, and a provider of the operator may count in another unit. A stated
// cost of 0 can mean that a key stored at the provider paid, so the list price decides.
function statedCost(
  { statedCostUsd }: Usage,
  model: Model,
  catalog: Catalog,
  listPrice: Nano,
): Nano | undefined {
  if (statedCostUsd === undefined || statedCostUsd === 0) return undefined;
  if (model.source === OPERATOR_SOURCE) return undefined;
  if (catalog.providers.some(({ id }) => id === model.provider)) return undefined;
  // Six decimals drop the noise of floats before rounding up.
  const stated = BigInt(Math.ceil(Number((statedCostUsd * NANO_PER_USD).toFixed(6))));
  const difference = stated > listPrice ? stated - listPrice : listPrice - stated;
  return difference <= ROUNDING_NANO ? undefined : stated;
}

/** The usage known of a call that ended before the provider reported it. */
export interface PartialUsage {
  /** What the provider reported so far. */
  readonly reported: Usage | undefined;
  /** Counted from what was relayed, with reasoning. */
  readonly outputTokens: number;
  readonly outputAudioBytes: number;
  /** Charged tool uses that the stream has shown. */
  readonly fees: Usage["fees"];
  readonly model: string | undefined;
}

/** Audio output is streamed as 16-bit PCM of 24 kHz in base64, and counts 20 tokens a second at OpenAI. */
const AUDIO_OUTPUT_BYTES_PER_TOKEN = 3_200;

/** The reported usage, completed by what was relayed and, where the provider has not reported its input, by its count. */
export function estimatedUsage(partial: PartialUsage, input: Usage["tokens"]): Usage {
  const { outputTokens, outputAudioBytes, model } = partial;
  // A cost stated before the end does not include the rest.
  const { statedCostUsd: _partialCost, ...reported } = partial.reported ?? NO_USAGE;
  const { tokens } = reported;
  const counted = Math.max(0, outputTokens - (tokens.reasoning ?? 0));
  const audio = Math.ceil(outputAudioBytes / AUDIO_OUTPUT_BYTES_PER_TOKEN);
  return {
    ...(model === undefined ? {} : { model }),
    ...reported,
    tokens: {
      ...tokens,
      ...(hasInputTokens(reported) ? {} : input),
      output: Math.max(tokens.output ?? 0, counted),
      ...(audio === 0 ? {} : { output_audio: Math.max(tokens.output_audio ?? 0, audio) }),
    },
    fees: higherFees(reported.fees, partial.fees),
  };
}

function higherFees(left: Usage["fees"], right: Usage["fees"]): Usage["fees"] {
  const fees: Partial<Record<(typeof FEE_METERS)[number], number>> = {};
  for (const fee of FEE_METERS) {
    const count = Math.max(left[fee] ?? 0, right[fee] ?? 0);
    if (count > 0) fees[fee] = count;
  }
  return fees;
}

export function hasInputTokens(usage: Usage | undefined): boolean {
  return usage !== undefined && tokenTotals(usage).inputTokens > 0;
}

export interface TokenTotals {
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
}

/** Totals as usage records show them: input includes cached tokens, output includes reasoning. */
export function tokenTotals(usage: Usage): TokenTotals {
  const own = tokenTotalsOfPart(usage);
  if (usage.additional === undefined) return own;
  return usage.additional.map(tokenTotalsOfPart).reduce(
    (sum, part) => ({
      inputTokens: sum.inputTokens + part.inputTokens,
      cacheReadTokens: sum.cacheReadTokens + part.cacheReadTokens,
      cacheWriteTokens: sum.cacheWriteTokens + part.cacheWriteTokens,
      outputTokens: sum.outputTokens + part.outputTokens,
      reasoningTokens: sum.reasoningTokens + part.reasoningTokens,
    }),
    own,
  );
}

function tokenTotalsOfPart({ tokens }: Usage): TokenTotals {
  const { input = 0, input_audio = 0, input_image = 0 } = tokens;
  const { cache_read = 0, cache_read_audio = 0, cache_read_image = 0 } = tokens;
  const { cache_write_5m = 0, cache_write_1h = 0 } = tokens;
  const { output = 0, reasoning = 0, output_audio = 0, output_image = 0 } = tokens;
  const read = cache_read + cache_read_audio + cache_read_image;
  const written = cache_write_5m + cache_write_1h;
  return {
    inputTokens: input + input_audio + input_image + read + written,
    cacheReadTokens: read,
    cacheWriteTokens: written,
    outputTokens: output + reasoning + output_audio + output_image,
    reasoningTokens: reasoning,
  };
}

/** True if the usage has neither output nor fees. */
export function isEmptyUsage(usage: Usage): boolean {
  return (
    tokenTotals(usage).outputTokens === 0 && Object.values(usage.fees).every((count) => count === 0)
  );
}

function isBeyondRequest(usage: Usage, context: ChargeContext): boolean {
  const { estimate, outputBytes, hasUnknownFields } = context;
  const { inputTokens, outputTokens } = estimate.plausible;
  const bounds = { inputTokens, outputTokens: Math.max(outputTokens, outputBytes) };
  const parts = [usage, ...(usage.additional ?? [])];
  if (!parts.some((part) => isImplausible(part, bounds))) return false;
  return (
    !hasUnknownFields() || parts.some((part) => isImplausible(part, plausibleWithTools(context)))
  );
}

function plausibleWithTools({ model, estimate }: ChargeContext): PlausibleUsage {
  const { input, output } = limitsOf(model);
  const { inputTokens, outputTokens } = estimate.plausible;
  return {
    inputTokens: Math.max(inputTokens, input * TOOL_ROUNDS_MAX),
    outputTokens: Math.max(outputTokens, output * TOOL_ROUNDS_MAX),
  };
}

function isImplausible(part: Usage, plausible: PlausibleUsage): boolean {
  const sums = tokenTotalsOfPart(part);
  return (
    part.isClamped === true ||
    sums.inputTokens > plausible.inputTokens ||
    sums.outputTokens > plausible.outputTokens ||
    Object.entries(part.fees).some(([fee, count]) => !NOT_USES.has(fee) && count > FEE_COUNT_MAX)
  );
}

function toPricedLine(line: PriceLine): PricedLine {
  // Rounded up to a whole pico-USD for display only; the cost was summed exactly.
  const unitPrice = ceilOf(multiply({ num: line.unitPrice, den: 1n }, line.multiplier));
  const pricedLine = { meter: line.meter, count: line.count, usd: usdTextOfPico(unitPrice) };
  return line.model === undefined ? pricedLine : { ...pricedLine, model: line.model };
}
