// Recorded replies that state what their provider charged for them. Each is priced to the same amount, to 1e-9 USD, or its
// difference is one of those that are explained here. The recordings are not part of this repository.

import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { usageOf } from "../../src/inference/meter/meter.ts";
import { builtInModels, cardFor, catalogOf, findModel } from "../../src/models/catalog.ts";
import { price } from "../../src/models/price.ts";

const Recorded = z.object({
  path: z.string(),
  provider: z.string(),
  endpoint: z.enum(["openai.chat", "openai.responses"]),
  request_model: z.string(),
  response_models: z.array(z.string()),
  created: z.number().nullable(),
  usage: z.looseObject({
    completion_tokens_details: z.looseObject({ reasoning_tokens: z.number().optional() }).nullish(),
    cost_details: z
      .looseObject({
        upstream_inference_prompt_cost: z.number().nullish(),
        upstream_inference_completions_cost: z.number().nullish(),
      })
      .nullish(),
  }),
  provider_cost_usd: z.number(),
});
type Recorded = z.infer<typeof Recorded>;

interface Case {
  readonly call: Recorded;
  /** What this gateway would charge; undefined where it has no price, and so no route. */
  readonly usd: number | undefined;
}

/** Why a recorded cost may differ. The first that fits is the reason; a difference that fits none fails the test. */
const EXPLAINED: readonly (readonly [string, (of: Case) => boolean])[] = [
  [
    "the reply states a cost of 0: it was billed to the caller's own key, or elsewhere",
    ({ call }) => call.provider_cost_usd === 0,
  ],
  ["not offered here: no price, no route", ({ usd }) => usd === undefined],
  [
    "Perplexity states each part of its cost rounded to a hundred-thousandth",
    ({ call, usd }) => call.provider === "perplexity" && near(call.provider_cost_usd, usd, 1.5e-5),
  ],
  [
    "that gateway charged reasoning a second time, beside the completion that holds it",
    ({ call, usd = 0 }) =>
      call.provider === "vercel-gateway" &&
      near(call.provider_cost_usd, usd + reasoningTokens(call) * 1e-5, 2e-9),
  ],
  [
    "OpenRouter added a fee for a plug-in or a tool, which the usage does not count",
    ({ call, usd }) => call.provider === "openrouter" && near(tokenCost(call), usd, 2e-9),
  ],
  [
    "OpenRouter charged the same tokens as written to a cache and as read from it; here each token is charged once",
    ({ call }) => call.path.endsWith("test_openrouter_cache_instructions_gemini_real_api.yaml"),
  ],
  [
    "OpenRouter routed an open-weight model to a host with a price of its own",
    ({ call }) =>
      call.provider === "openrouter" &&
      /^(deepseek|moonshotai|qwen|z-ai|openai\/gpt-oss)/.test(call.request_model),
  ],
  [
    "OpenRouter's price for it was cut since, and its table has no dates",
    ({ call }) => call.provider === "openrouter" && call.request_model === "openai/gpt-5.6-sol",
  ],
];

const RECORDINGS =
  process.env["POSTERN_RECORDINGS"] ?? join(import.meta.dir, "../../../shared/recordings");
const FILE = join(RECORDINGS, "cost-oracle.jsonl");
const NOW = Date.parse("2026-11-21");

describe("price, against what providers say that they charged", () => {
  test.skipIf(!existsSync(FILE))(
    "every recorded cost is met to 1e-9 USD, or its difference is explained",
    () => {
      const catalog = catalogOf(builtInModels());
      const counts = new Map<string, number>();
      const unexplained: string[] = [];
      for (const line of readFileSync(FILE, "utf8").trim().split("\n")) {
        const call = Recorded.parse(JSON.parse(line));
        const usd = chargeFor(catalog, call);
        const reason = near(call.provider_cost_usd, usd, 1e-9)
          ? "equal"
          : EXPLAINED.find(([, fits]) => fits({ call, usd }))?.[0];
        if (reason === undefined)
          unexplained.push(
            `${call.provider} ${call.request_model} → ${call.response_models.join()}: they say ${call.provider_cost_usd}, we say ${usd} ${call.path} ${JSON.stringify(call.usage)}`,
          );
        const key = `${call.provider}: ${reason ?? "UNEXPLAINED"}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      for (const [key, count] of [...counts].toSorted(([left], [right]) => (left < right ? -1 : 1)))
        console.log(`cost oracle  ${String(count).padStart(4)}  ${key}`);
      expect(unexplained).toEqual([]);
      expect(counts.get("xai: equal")).toBe(96);
      expect(counts.get("openrouter: equal") ?? 0).toBeGreaterThanOrEqual(250);
    },
  );
  if (!existsSync(FILE))
    console.log(
      `cost oracle  skipped: no recordings at ${FILE}; POSTERN_RECORDINGS says where they are`,
    );
});

function chargeFor(catalog: ReturnType<typeof catalogOf>, call: Recorded): number | undefined {
  // That gateway names models as we do, and sells them at their makers' prices.
  const isResold = call.provider === "vercel-gateway";
  const id = isResold ? call.request_model : `${call.provider}/${call.request_model}`;
  const answered = isResold ? call.request_model.split("/")[1] : call.response_models[0];
  const requested = findModel(catalog, id)?.model ?? catalog.byName.get(id.toLowerCase());
  const wire = call.endpoint === "openai.chat" ? "chat" : "responses";
  const usage = usageOf(wire, { model: answered, usage: call.usage }, call.provider);
  const found =
    requested &&
    cardFor(catalog, requested, answered, call.created === null ? NOW : call.created * 1000);
  return usage === undefined || found === undefined
    ? undefined
    : Number(price(usage, found.card).cost) / 1e9;
}

/** Equal within a tolerance; a nano more, because a charge is a whole number of them, rounded up. */
function near(stated: number, ours: number | undefined, tolerance: number): boolean {
  return ours !== undefined && Math.abs(stated - ours) <= tolerance + 1e-15;
}

function reasoningTokens(call: Recorded): number {
  return call.usage.completion_tokens_details?.reasoning_tokens ?? 0;
}

function tokenCost({ usage }: Recorded): number {
  return (
    (usage.cost_details?.upstream_inference_prompt_cost ?? 0) +
    (usage.cost_details?.upstream_inference_completions_cost ?? 0)
  );
}
