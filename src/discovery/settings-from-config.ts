// What the house says of itself, out of its settings.

import { STARTING_CREDIT } from "../accounts/accounts.ts";
import { creditsOf } from "../base/money.ts";
import { CLAIM_BONUS } from "../claims/claim-bonus.ts";
import type { Config } from "../config/config.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";

const FEE_PERCENT = 5;

/** A newcomer without a provider's key talks to the simulator; nobody else does without asking for it. */
export function usesSimulatorByDefault(config: Config): boolean {
  return (
    config.development &&
    Object.keys(config.providers).length === 0 &&
    config.modelsFile === undefined
  );
}

export function discoverySettings(
  config: Config,
  version: string,
  isSignInDisabled: boolean,
): DiscoverySettings {
  return {
    baseUrl: config.baseUrl,
    docsUrl: config.docsUrl,
    vendor: config.vendor,
    keyPrefix: config.keyPrefix,
    version,
    startingCredits: creditsOf(STARTING_CREDIT),
    claimBonusCredits: creditsOf(CLAIM_BONUS),
    feePercent: FEE_PERCENT,
    exampleModel: usesSimulatorByDefault(config)
      ? "sim/echo"
      : pickExampleModel(config, EXAMPLE_MODELS),
    exampleEmbeddingModel: usesSimulatorByDefault(config)
      ? "sim/embed"
      : pickExampleModel(config, EXAMPLE_EMBEDDING_MODELS),
    isSimulated: usesSimulatorByDefault(config),
    isSignInDisabled,
    requestsPerMinute: config.limits.requestsPerMinute,
    concurrentCalls: config.limits.openCallsPerKey,
    accountsPerHour: config.limits.accountsPerHour,
  };
}

/** One for each provider that has one; OpenAI's stand where none of these is switched on. */
type ExampleModels = Readonly<Record<string, string>> & { readonly openai: string };

const EXAMPLE_MODELS: ExampleModels = {
  openai: "openai/gpt-5-mini",
  anthropic: "anthropic/claude-haiku-4-5",
  sim: "sim/echo",
};

const EXAMPLE_EMBEDDING_MODELS: ExampleModels = {
  openai: "openai/text-embedding-3-small",
  google: "google/gemini-embedding-001",
  mistral: "mistral/mistral-embed",
  sim: "sim/embed",
};

function pickExampleModel(config: Config, examples: ExampleModels): string {
  const provider = Object.keys(config.providers).find((id) => examples[id] !== undefined);
  return examples[provider ?? "openai"] ?? examples.openai;
}
