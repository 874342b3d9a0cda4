// What model calls came to, by provider: how they ended, what went in and out, and what was charged.

import { usdText } from "../base/money.ts";
import type { Outcome, UsageRecord } from "../usage/usage.ts";
import { renderFamily, type Sample } from "./prometheus.ts";

export interface CallMetrics {
  readonly recordCall: (record: UsageRecord) => void;
  readonly families: () => readonly string[];
}

interface CallTotals {
  readonly byOutcome: Map<Outcome, number>;
  input: number;
  output: number;
  charged: bigint;
}

export function createCallMetrics(): CallMetrics {
  const providers = new Map<string, CallTotals>();
  const samples = (of: (sums: CallTotals) => readonly Sample[]): readonly Sample[] =>
    [...providers].flatMap(([provider, sums]) =>
      of(sums).map(({ labels, value }) => ({ labels: { provider, ...labels }, value })),
    );
  return {
    recordCall: ({ provider, outcome, inputTokens, outputTokens, cost }) => {
      let sums = providers.get(provider);
      if (sums === undefined) providers.set(provider, (sums = emptyTotals()));
      sums.byOutcome.set(outcome, (sums.byOutcome.get(outcome) ?? 0) + 1);
      sums.input += inputTokens;
      sums.output += outputTokens;
      sums.charged += cost;
    },
    families: () => [
      renderFamily(
        "postern_calls_total",
        "counter",
        "Model calls that were held, by how they ended.",
        samples(({ byOutcome }) =>
          [...byOutcome].map(([outcome, value]) => ({ labels: { outcome }, value })),
        ),
      ),
      renderFamily(
        "postern_call_tokens_total",
        "counter",
        "Tokens of model calls; the cached ones count as input, the thoughts as output.",
        samples(({ input, output }) => [
          { labels: { kind: "input" }, value: input },
          { labels: { kind: "output" }, value: output },
        ]),
      ),
      renderFamily(
        "postern_call_charges_usd_total",
        "counter",
        "US dollars charged for model calls; nothing for those on callers' own keys.",
        samples(({ charged }) => [{ value: Number(usdText(charged)) }]),
      ),
    ],
  };
}

function emptyTotals(): CallTotals {
  return { byOutcome: new Map(), input: 0, output: 0, charged: 0n };
}
