// Recorded replies in which the provider states the cost. Each must be priced at the same amount, to 1e-9 USD, or its
// difference must have a known explanation. The recordings are not part of this repository.

import { describe, expect, test } from "bun:test";
import { usageOf } from "@postern/wires";
import { builtInModels, cardFor, catalogOf, findModel } from "../../src/models/catalog.ts";
import { price } from "../../src/models/price.ts";
import {
  skipWithoutRecordedCosts,
  type RecordedCost,
  explainDifference,
  recordedCosts,
} from "../support/recordings/recorded-costs.ts";

const NOW = Date.parse("2026-11-21");

/** Compares our price of each call with the provider's; counts by provider and reason. */
function compareCosts(calls: readonly RecordedCost[]) {
  const catalog = catalogOf(builtInModels());
  const counts = new Map<string, number>();
  const unexplained: string[] = [];
  for (const call of calls) {
    const usd = chargedUsd(catalog, call);
    const reason = explainDifference({ call, usd });
    if (reason === undefined)
      unexplained.push(
        `${call.provider} ${call.request_model} → ${call.response_models.join()}: provider's cost ${call.provider_cost_usd}, ours ${usd} ${call.path} ${JSON.stringify(call.usage)}`,
      );
    const key = `${call.provider}: ${reason ?? "UNEXPLAINED"}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return { counts, unexplained };
}

describe("price compared to the provider's stated cost", () => {
  test("matches the cost of sample calls, and reports another one", () => {
    // 1,000 tokens of input, of which 200 were cached, and 100 of output at $3, $0.75 and $15 a million.
    const call: RecordedCost = {
      path: "sample",
      provider: "xai",
      endpoint: "openai.chat",
      request_model: "grok-4-0709",
      response_models: ["grok-4-0709"],
      created: null,
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 100,
        total_tokens: 1_100,
        prompt_tokens_details: { cached_tokens: 200 },
      },
      provider_cost_usd: 0.00405,
    };
    const { counts, unexplained } = compareCosts([call, { ...call, provider_cost_usd: 0.005 }]);
    expect(counts.get("xai: equal")).toBe(1);
    expect(unexplained).toHaveLength(1);
  });

  test.skipIf(skipWithoutRecordedCosts())(
    "matches every recorded cost to 1e-9 USD, or the difference is explained",
    () => {
      const { counts, unexplained } = compareCosts(recordedCosts());
      for (const [key, count] of [...counts].toSorted(([left], [right]) => (left < right ? -1 : 1)))
        console.log(`recorded cost  ${String(count).padStart(4)}  ${key}`);
      expect(unexplained).toEqual([]);
      expect(counts.get("xai: equal")).toBe(96);
      expect(counts.get("openrouter: equal") ?? 0).toBeGreaterThanOrEqual(250);
    },
  );
});

function chargedUsd(catalog: ReturnType<typeof catalogOf>, call: RecordedCost): number | undefined {
  // The Vercel gateway uses the same model ids as we do, and sells models at their makers' prices.
  const isResold = call.provider === "vercel-gateway";
  const id = isResold ? call.request_model : `${call.provider}/${call.request_model}`;
  const answeredModel = isResold ? call.request_model.split("/")[1] : call.response_models[0];
  const requested = findModel(catalog, id)?.model ?? catalog.byName.get(id.toLowerCase());
  const wire = call.endpoint === "openai.chat" ? "chat" : "responses";
  const usage = usageOf(wire, { model: answeredModel, usage: call.usage }, call.provider);
  const found =
    requested &&
    cardFor(catalog, requested, answeredModel, call.created === null ? NOW : call.created * 1000);
  return usage === undefined || found === undefined
    ? undefined
    : Number(price(usage, found.card).cost) / 1e9;
}
