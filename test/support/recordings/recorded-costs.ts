// Recorded replies with the cost that their provider charged, and the known reasons for differences from our price. The
// recordings are not part of this repository.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { skipUnless } from "../skip.ts";

const RecordedCost = z.object({
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
export type RecordedCost = z.infer<typeof RecordedCost>;

export interface CostComparison {
  readonly call: RecordedCost;
  /** The gateway's price; undefined without a price, and so without a route. */
  readonly usd: number | undefined;
}

/** Known reasons for a difference; the first match applies. A difference without a match fails the test. */
const KNOWN_DIFFERENCES: readonly (readonly [string, (of: CostComparison) => boolean])[] = [
  [
    "the stated cost is 0: billed to the caller's own key",
    ({ call }) => call.provider_cost_usd === 0,
  ],
  ["no price, so no route", ({ usd }) => usd === undefined],
  [
    "Perplexity states each part of its cost rounded to a hundred-thousandth",
    ({ call, usd }) =>
      call.provider === "perplexity" && isNear(call.provider_cost_usd, usd, 1.5e-5),
  ],
  [
    "that gateway charged reasoning a second time, beside the completion that holds it",
    ({ call, usd = 0 }) =>
      call.provider === "vercel-gateway" &&
      isNear(call.provider_cost_usd, usd + reasoningTokens(call) * 1e-5, 2e-9),
  ],
  [
    "OpenRouter added a fee for a plug-in or a tool, which the usage does not count",
    ({ call, usd }) => call.provider === "openrouter" && isNear(tokenCost(call), usd, 2e-9),
  ],
  [
    "OpenRouter charged the same tokens as written to a cache and as read from it; here each token is charged once",
    ({ call }) => call.path.endsWith("test_openrouter_cache_instructions_gemini_real_api.yaml"),
  ],
  [
    "OpenRouter routed an open-weight model to a host with its own price",
    ({ call }) =>
      call.provider === "openrouter" &&
      /^(deepseek|moonshotai|qwen|z-ai|openai\/gpt-oss)/.test(call.request_model),
  ],
  [
    "OpenRouter has lowered its price since, and its table has no dates",
    ({ call }) => call.provider === "openrouter" && call.request_model === "openai/gpt-5.6-sol",
  ],
];

const FOLDER =
  process.env["POSTERN_RECORDINGS"] ?? join(import.meta.dir, "../../../../shared/recordings");
const ORACLE_FILE = join(FOLDER, "cost-oracle.jsonl");
const hasRecordedCosts = existsSync(ORACLE_FILE);

/** For `skipIf`: true, with a reason, if there are no recorded costs. */
export function skipWithoutRecordedCosts(): boolean {
  return skipUnless(
    hasRecordedCosts,
    "recorded costs: no recordings (set POSTERN_RECORDINGS to their folder)",
  );
}

export function recordedCosts(): readonly RecordedCost[] {
  if (!hasRecordedCosts) return [];
  const lines = readFileSync(ORACLE_FILE, "utf8").trim().split("\n");
  return lines.map((line) => RecordedCost.parse(JSON.parse(line)));
}

export const EQUAL = "equal";

/** "equal", the reason for a difference, or undefined for an unexplained one. */
export function explainDifference(comparison: CostComparison): string | undefined {
  return isNear(comparison.call.provider_cost_usd, comparison.usd, 1e-9)
    ? EQUAL
    : KNOWN_DIFFERENCES.find(([, fits]) => fits(comparison))?.[0];
}

/** Equal within a tolerance of floating-point arithmetic. */
function isNear(recordedUsd: number, chargedUsd: number | undefined, tolerance: number): boolean {
  return chargedUsd !== undefined && Math.abs(recordedUsd - chargedUsd) <= tolerance + 1e-15;
}

function reasoningTokens(call: RecordedCost): number {
  return call.usage.completion_tokens_details?.reasoning_tokens ?? 0;
}

function tokenCost({ usage }: RecordedCost): number {
  return (
    (usage.cost_details?.upstream_inference_prompt_cost ?? 0) +
    (usage.cost_details?.upstream_inference_completions_cost ?? 0)
  );
}
