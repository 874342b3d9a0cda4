// What the house says of itself, out of its settings.

import { STARTING_CREDIT } from "./accounts/accounts.ts";
import { creditsOf } from "./base/money.ts";
import { CLAIM_BONUS } from "./claims/bonus.ts";
import type { Config } from "./config.ts";
import type { DiscoverySettings } from "./discovery/settings.ts";

const FEE_PERCENT = 5;

/** A newcomer without a provider's key talks to the simulator; nobody else does without asking for it. */
export function simulates(config: Config): boolean {
  return (
    config.development &&
    Object.keys(config.providers).length === 0 &&
    config.modelsFile === undefined
  );
}

export function discoverySettings(config: Config, version: string): DiscoverySettings {
  return {
    baseUrl: config.baseUrl,
    docsUrl: config.docsUrl,
    vendor: config.vendor,
    keyPrefix: config.keyPrefix,
    version,
    startingCredits: creditsOf(STARTING_CREDIT),
    claimBonusCredits: creditsOf(CLAIM_BONUS),
    feePercent: FEE_PERCENT,
    exampleModel: simulates(config) ? "sim/echo" : exampleModelOf(config),
    simulated: simulates(config),
    requestsPerMinute: config.limits.requestsPerMinute,
    callsAtOnce: config.limits.openCallsPerKey,
    accountsPerHour: config.limits.accountsPerHour,
  };
}

const EXAMPLE_MODELS: Readonly<Record<string, string>> = {
  openai: "openai/gpt-5-mini",
  anthropic: "anthropic/claude-haiku-4-5",
  sim: "sim/echo",
};

function exampleModelOf(config: Config): string {
  const provider = Object.keys(config.providers).find((id) => EXAMPLE_MODELS[id] !== undefined);
  return EXAMPLE_MODELS[provider ?? "openai"] ?? "openai/gpt-5-mini";
}
