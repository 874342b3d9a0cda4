// What a call is charged, and the record of it. The provider's own numbers decide; where a caller left before they came,
// what had been relayed is counted; where a provider failed without numbers, nothing is.

import { FEE_METERS, type Usage } from "../../base/usage-meters.ts";
import { type Nano, usdTextOfPico } from "../../base/money.ts";
import type { Catalog, Model } from "../../models/catalog.ts";
import { cardFor, cardResolver } from "../../models/catalog.ts";
import { price, type PricedUsage, type PriceLine } from "../../models/price.ts";
import type { PricedLine } from "../../usage/usage.ts";
import { BYTES_PER_TOKEN } from "./input-bound.ts";
import type { CostEstimate } from "./cost-estimate.ts";

/** No call's tools are used more often; a second of sound is no piece. */
const FEE_COUNT_MAX = 1_000;

export interface UsageCharge {
  readonly usage: Usage;
  readonly lines: readonly PricedLine[];
  readonly cost: Nano;
  readonly exact: boolean;
  readonly missingPrices: readonly string[];
}

export interface ChargeContext {
  readonly catalog: Catalog;
  readonly model: Model;
  readonly estimate: CostEstimate;
  readonly held: Nano;
  readonly at: number;
}

const NO_USAGE: Usage = { tokens: {}, fees: {} };
export const NO_CHARGE: UsageCharge = {
  usage: NO_USAGE,
  lines: [],
  cost: 0n,
  exact: false,
  missingPrices: [],
};

/** The price of the provider's own numbers, by the model that answered. */
export function chargeFor(usage: Usage, context: ChargeContext): UsageCharge {
  const { catalog, model, estimate, held, at } = context;
  const found = cardFor(catalog, model, usage.model, at);
  if (found === undefined) throw new Error(`${model.id} was called without a price`);
  const priced: PricedUsage = price(usage, found.card, cardResolver(catalog, model.provider, at));
  const isImplausibleUsage = [usage, ...(usage.additional ?? [])].some((part) =>
    isImplausible(part, estimate),
  );
  const isCapped = isImplausibleUsage && priced.cost > held;
  const missingPrices = found.exact
    ? priced.missingPrices
    : [...priced.missingPrices, `model:${usage.model ?? ""}`];
  return {
    usage,
    lines: priced.lines.map(toPricedLine),
    cost: isCapped ? held : priced.cost,
    exact: !isImplausibleUsage,
    missingPrices,
  };
}

/** The usage of a stream whose end nobody saw: what was told so far, and the rest counted by its bytes. */
export function estimatedUsage(
  reported: Usage | undefined,
  outputBytes: number,
  inputTokens: () => number,
): Usage {
  const counted = Math.ceil(outputBytes / BYTES_PER_TOKEN);
  const base = reported ?? { tokens: { input: inputTokens() }, fees: {} };
  const output = Math.max(base.tokens.output ?? 0, counted - (base.tokens.reasoning ?? 0));
  return { ...base, tokens: { ...base.tokens, output } };
}

export interface TokenTotals {
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
}

/** The disjoint meters as people read them: cached is part of input, reasoning is part of output. */
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
  const { cache_read = 0, cache_read_audio = 0, cache_write_5m = 0, cache_write_1h = 0 } = tokens;
  const { output = 0, reasoning = 0, output_audio = 0, output_image = 0 } = tokens;
  const read = cache_read + cache_read_audio;
  const written = cache_write_5m + cache_write_1h;
  return {
    inputTokens: input + input_audio + input_image + read + written,
    cacheReadTokens: read,
    cacheWriteTokens: written,
    outputTokens: output + reasoning + output_audio + output_image,
    reasoningTokens: reasoning,
  };
}

/** True where nothing was put out and nothing was charged by the piece. */
export function isEmptyUsage(usage: Usage): boolean {
  return (
    tokenTotals(usage).outputTokens === 0 && FEE_METERS.every((fee) => (usage.fees[fee] ?? 0) === 0)
  );
}

function isImplausible(part: Usage, { plausible }: CostEstimate): boolean {
  const sums = tokenTotalsOfPart(part);
  return (
    part.isClamped === true ||
    sums.inputTokens > plausible.inputTokens ||
    sums.outputTokens > plausible.outputTokens ||
    FEE_METERS.some((fee) => fee !== "audio_second" && (part.fees[fee] ?? 0) > FEE_COUNT_MAX)
  );
}

function toPricedLine(line: PriceLine): PricedLine {
  const { num, den } = line.multiplier;
  // A factor that leaves a fraction of a pico-USD is shown rounded up; the cost was summed exactly.
  const each = (line.unitPrice * num + den - 1n) / den;
  const shown = { meter: line.meter, count: line.count, usd: usdTextOfPico(each) };
  return line.model === undefined ? shown : { ...shown, model: line.model };
}
