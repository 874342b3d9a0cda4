// Metrics of model calls by provider and model: outcomes, tokens and charges.

import { usdText } from "../base/money/money.ts";
import type { Outcome, UsageRecord } from "../usage/usage.ts";
import { renderFamily, type Sample } from "./prometheus.ts";

export interface CallMetrics {
  readonly recordCall: (record: UsageRecord) => void;
  readonly families: () => readonly string[];
}

/** More models than this share the label value `other`, so that the metrics stay small. */
const MODELS_MAX = 500;
const OTHER_MODEL = "other";

interface CallTotals {
  readonly provider: string;
  readonly model: string;
  readonly byOutcome: Map<Outcome, number>;
  inputTokens: number;
  outputTokens: number;
  charged: bigint;
}

export function createCallMetrics(): CallMetrics {
  const byModel = new Map<string, CallTotals>();
  const totalsOf = (provider: string, model: string): CallTotals => {
    const key = `${provider} ${model}`;
    const known = byModel.get(key);
    if (known !== undefined) return known;
    if (byModel.size >= MODELS_MAX && model !== OTHER_MODEL) return totalsOf(provider, OTHER_MODEL);
    const totals = emptyTotals(provider, model);
    byModel.set(key, totals);
    return totals;
  };
  const samples = (toSamples: (totals: CallTotals) => readonly Sample[]): readonly Sample[] =>
    [...byModel.values()].flatMap((totals) =>
      toSamples(totals).map(({ labels, value }) => ({
        labels: { provider: totals.provider, model: totals.model, ...labels },
        value,
      })),
    );
  return {
    recordCall: ({ provider, model, outcome, inputTokens, outputTokens, cost }) => {
      const totals = totalsOf(provider, model);
      totals.byOutcome.set(outcome, (totals.byOutcome.get(outcome) ?? 0) + 1);
      totals.inputTokens += inputTokens;
      totals.outputTokens += outputTokens;
      totals.charged += cost;
    },
    families: () => [
      renderFamily(
        "postern_calls_total",
        "counter",
        "Model calls with a hold, by outcome.",
        samples(({ byOutcome }) =>
          [...byOutcome].map(([outcome, value]) => ({ labels: { outcome }, value })),
        ),
      ),
      renderFamily(
        "postern_call_tokens_total",
        "counter",
        "Tokens of model calls. Cached tokens count as input, reasoning tokens as output.",
        samples((totals) => [
          { labels: { kind: "input" }, value: totals.inputTokens },
          { labels: { kind: "output" }, value: totals.outputTokens },
        ]),
      ),
      renderFamily(
        "postern_call_charges_usd_total",
        "counter",
        "US dollars charged for model calls. Calls with callers' own provider keys are free.",
        samples(({ charged }) => [{ value: Number(usdText(charged)) }]),
      ),
    ],
  };
}

function emptyTotals(provider: string, model: string): CallTotals {
  return { provider, model, byOutcome: new Map(), inputTokens: 0, outputTokens: 0, charged: 0n };
}
