// Recorded replies that state what their provider charged for them, and the reasons for which that may differ from what is
// charged here. The recordings are not part of this repository.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

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
export type Recorded = z.infer<typeof Recorded>;

export interface Priced {
  readonly call: Recorded;
  /** What this gateway would charge; undefined where it has no price, and so no route. */
  readonly usd: number | undefined;
}

/** Why a recorded cost may differ. The first that fits is the reason; a difference that fits none fails the test. */
const EXPLAINED: readonly (readonly [string, (of: Priced) => boolean])[] = [
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

const FOLDER =
  process.env["POSTERN_RECORDINGS"] ?? join(import.meta.dir, "../../../shared/recordings");
export const ORACLE_FILE = join(FOLDER, "cost-oracle.jsonl");
export const hasOracle = existsSync(ORACLE_FILE);

export function recordedCosts(): readonly Recorded[] {
  if (!hasOracle) return [];
  const lines = readFileSync(ORACLE_FILE, "utf8").trim().split("\n");
  return lines.map((line) => Recorded.parse(JSON.parse(line)));
}

export const EQUAL = "equal";

/** "equal", why it is not, or undefined where nothing explains it. */
export function reasonOf(of: Priced): string | undefined {
  return near(of.call.provider_cost_usd, of.usd, 1e-9)
    ? EQUAL
    : EXPLAINED.find(([, fits]) => fits(of))?.[0];
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
