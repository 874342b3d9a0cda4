// Metrics of model calls by provider: outcomes, tokens and charges.

import { usdText } from "../base/money.ts";
import type { Outcome, UsageRecord } from "../usage/usage.ts";
import { renderFamily, type Sample } from "./prometheus.ts";

export interface CallMetrics {
  readonly recordCall: (record: UsageRecord) => void;
  readonly families: () => readonly string[];
}

interface CallTotals {
  readonly byOutcome: Map<Outcome, number>;
  inputTokens: number;
  outputTokens: number;
  charged: bigint;
}

export function createCallMetrics(): CallMetrics {
  const providers = new Map<string, CallTotals>();
  const samples = (toSamples: (totals: CallTotals) => readonly Sample[]): readonly Sample[] =>
    [...providers].flatMap(([provider, totals]) =>
      toSamples(totals).map(({ labels, value }) => ({ labels: { provider, ...labels }, value })),
    );
  return {
    recordCall: ({ provider, outcome, inputTokens, outputTokens, cost }) => {
      let totals = providers.get(provider);
      if (totals === undefined) providers.set(provider, (totals = emptyTotals()));
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

function emptyTotals(): CallTotals {
  return { byOutcome: new Map(), inputTokens: 0, outputTokens: 0, charged: 0n };
}
