// The cases of the money fuzzer: a request, what the provider does with it, what the caller does, and what the account has.

import type { Api } from "../../inference/support/harness.ts";
import { randomFor } from "../random.ts";

/** What the provider does. It bills what it produces, also where it does not report it. */
export type ProviderBehavior =
  | "honest"
  /** Produces more than the output limit. */
  | "ignores_limit"
  /** States its cost, which may be any. */
  | "states_cost"
  /** Reports usage that no call can have. */
  | "lies"
  /** Ends without usage. */
  | "reports_nothing"
  /** A long stream. */
  | "floods"
  /** Stops sending, and keeps the connection. */
  | "falls_silent"
  /** Closes the connection in the middle. */
  | "cuts"
  | "states_an_error"
  | "refuses";

export type CallerBehavior = "reads" | "leaves" | "stalls" | "repeats";

/** Nano-dollars per token at the list price. */
interface ModelPrice {
  readonly model: string;
  readonly input: number;
  readonly output: number;
  readonly outputMax: number;
  /** With the highest price of writing it to a cache. */
  readonly inputMostNano: number;
  /** Whether a stream without tools is counted instead of read on: its tokenizer is public, and a disconnect ends the bill. */
  readonly isCounted: boolean;
}

const MODELS = {
  openai: {
    model: "openai/gpt-4.1",
    input: 2_000,
    output: 8_000,
    outputMax: 32_768,
    inputMostNano: 2_000,
    isCounted: true,
  },
  anthropic: {
    model: "anthropic/claude-haiku-4-5",
    input: 1_000,
    output: 5_000,
    outputMax: 64_000,
    inputMostNano: 2_000,
    isCounted: false,
  },
  openrouter: {
    model: "openrouter/openai/gpt-4o-mini",
    input: 150,
    output: 600,
    // The price list has no output limit, so it is the context.
    outputMax: 128_000,
    inputMostNano: 150,
    isCounted: false,
  },
} as const satisfies Readonly<Record<string, ModelPrice>>;

export interface MoneyCase {
  readonly index: number;
  readonly api: Exclude<Api, "embeddings"> | "gemini";
  readonly price: ModelPrice;
  readonly stream: boolean;
  readonly promptWords: number;
  /** Undefined where the API lets it open. */
  readonly outputMax: number | undefined;
  readonly hasTools: boolean;
  readonly provider: ProviderBehavior;
  readonly caller: CallerBehavior;
  readonly chunks: number;
  readonly tokensPerChunk: number;
  /** After so many chunks the caller leaves or stalls, or the provider stops. */
  readonly stopsAfter: number;
  /** Runs of the model because of tools, each with the whole prompt. */
  readonly rounds: number;
  readonly statedUsd: number;
  readonly balanceNano: number;
  /** Whether credit beyond the starting balance is paid. */
  readonly hasPaidCredit: boolean;
  readonly keyLimitNano: number | undefined;
  readonly lie: unknown;
}

const LIES: readonly [unknown, ...unknown[]] = [-1, 1e12, 1.5, "many", 1e308, null, 200_000_000];

const FAILURES: ReadonlySet<ProviderBehavior> = new Set([
  "cuts",
  "falls_silent",
  "refuses",
  "states_an_error",
]);

export function moneyCase(seed: number, index: number): MoneyCase {
  const random = randomFor(seed, index);
  const { integer, pick, chance } = random;
  const price = pick<ModelPrice>([MODELS.openai, MODELS.anthropic, MODELS.openrouter]);
  const api = pick<MoneyCase["api"]>(["chat", "responses", "messages", "gemini"]);
  const provider = pick<ProviderBehavior>([
    "honest",
    "honest",
    "honest",
    "ignores_limit",
    "ignores_limit",
    price === MODELS.openrouter ? "states_cost" : "honest",
    price === MODELS.openrouter ? "states_cost" : "ignores_limit",
    "lies",
    "reports_nothing",
    "floods",
    "falls_silent",
    "cuts",
    "states_an_error",
    "refuses",
  ]);
  const chunks = provider === "floods" ? 200 + integer(400) : 1 + integer(12);
  const tokensPerChunk = provider === "ignores_limit" ? 50 + integer(700) : 1 + integer(20);
  const produced = chunks * tokensPerChunk;
  const hasTools = price === MODELS.openai && api === "responses" && chance(0.3);
  const isOpen = api !== "messages" && chance(0.15);
  const limit = provider === "ignores_limit" ? 16 : produced + integer(200);
  const caller = pick<CallerBehavior>(["reads", "reads", "leaves", "stalls", "repeats"]);
  return {
    index,
    api,
    price,
    stream: chance(0.6),
    promptWords: 1 + integer(chance(0.2) ? 4_000 : 100),
    outputMax: isOpen ? undefined : Math.max(16, limit),
    hasTools,
    provider,
    caller,
    chunks,
    tokensPerChunk,
    stopsAfter: integer(chunks),
    rounds: hasTools && chance(0.7) ? 1 + integer(30) : 0,
    statedUsd: chance(0.3) ? integer(1_000) / 1e3 : integer(1_000_000) / 1e9,
    balanceNano: pick([
      integer(1_000_000),
      integer(50_000_000),
      50_000_000,
      integer(3_000_000_000),
      20_000_000_000,
    ]),
    hasPaidCredit: !FAILURES.has(provider) && chance(0.5),
    keyLimitNano: chance(0.2) ? integer(1_000_000_000) : undefined,
    lie: pick<unknown>(LIES),
  };
}

/** Tokens of the prompt as the provider counts them. */
export function inputTokensOf({ promptWords, rounds }: MoneyCase, runs = rounds): number {
  return promptWords + 10 + runs * 150_000;
}

/** How often tools have the model read the prompt again. Only usage tells of runs beyond the limit. */
export function runsOf(plan: MoneyCase, toolCallsMax = Infinity): number {
  const { provider, rounds } = plan;
  const isReported =
    provider === "lies"
      ? reportedTokens(plan) !== undefined
      : provider !== "reports_nothing" && provider !== "falls_silent";
  return isReported ? rounds : Math.min(rounds, toolCallsMax);
}

/** What a lying provider reports, as a number of tokens; undefined if that is none. */
export function reportedTokens({ lie }: MoneyCase): number | undefined {
  return typeof lie === "number" && lie > 0 ? lie : undefined;
}
