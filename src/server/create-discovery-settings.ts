// Derives the facts about this deployment that the generated documents state from its settings.

import { STARTING_CREDIT } from "../accounts/accounts.ts";
import { ADDRESS_SHARE } from "../accounts/creation-limits.ts";
import { creditsOf, usdTextOfPico } from "../base/money/money.ts";
import type { PaymentOptions } from "../base/purchase-steps.ts";
import { CLAIM_BONUS } from "../claims/claim-bonus.ts";
import type { Config } from "../config/config.ts";
import type { DiscoverySettings } from "../discovery/discovery-settings.ts";
import { contactHref, operatorLinks } from "../http/pages/operator-links.ts";
import type { CheapModel } from "../models/cheapest-models.ts";

const FEE_PERCENT = 5;
const CENTS_PER_USD = 100;

/** The bundled simulator answers in development as long as no provider and no models file is set. */
export function usesSimulator(config: Config): boolean {
  return (
    config.development &&
    Object.keys(config.providers).length === 0 &&
    config.modelsFile === undefined
  );
}

/** The model of examples; this gateway can call it. */
export function exampleModelOf(config: Config): string {
  return usesSimulator(config) ? "sim/echo" : pickExampleModel(config, EXAMPLE_MODELS);
}

const CHEAP_MODELS_NAMED = 2;
const TOKENS_PER_PRICE = 1_000_000n;

export function discoverySettings(
  config: Config,
  version: string,
  isSignInDisabled: boolean,
  { cheapModels, startedAt }: { cheapModels: readonly CheapModel[]; startedAt: number },
): DiscoverySettings {
  const { operator } = config.billing;
  return {
    baseUrl: config.baseUrl,
    docsUrl: config.docsUrl,
    vendor: config.vendor,
    keyPrefix: config.keyPrefix,
    version,
    startedAt,
    startingCredits: creditsOf(STARTING_CREDIT),
    claimBonusCredits: creditsOf(CLAIM_BONUS),
    feePercent: FEE_PERCENT,
    exampleModel: exampleModelOf(config),
    cheapModels: cheapModels.slice(0, CHEAP_MODELS_NAMED).map(({ id, input, output }) => ({
      id,
      input: usdTextOfPico(input * TOKENS_PER_PRICE),
      output: usdTextOfPico(output * TOKENS_PER_PRICE),
    })),
    exampleEmbeddingModel: usesSimulator(config)
      ? "sim/embed"
      : pickExampleModel(config, EXAMPLE_EMBEDDING_MODELS),
    isSimulated: usesSimulator(config),
    isSignInDisabled,
    hasClientDocuments: config.hasClientDocuments,
    securityContact: config.securityContact,
    requestsPerMinute: config.limits.requestsPerMinute,
    concurrentCalls: config.limits.openCallsPerKey,
    accountsPerHour: config.limits.accountsPerHour,
    proofOfWorkBits: config.limits.proofOfWorkBits,
    verifiedAgents: config.verifiedAgents.map(({ url }) => url),
    grants: grantSettings(config),
    paymentMethods: paymentMethods(config),
    acceptsWallets: (config.x402?.uptoRiskMax ?? 0n) > 0n,
    hasPaymentPage: paymentOptions(config).hasPage,
    termsUrl: operator.termsUrl,
    privacyUrl: operator.privacyUrl,
    contactUrl: operator.contact && contactHref(operator.contact),
    operatorLinks: operatorLinks(operator),
  };
}

/** How credits can be bought on this gateway. */
export function paymentOptions(config: Config): PaymentOptions {
  const { stripe, bankDetails, minCents } = config.billing;
  return {
    hasPage: stripe !== undefined || config.development || bankDetails !== undefined,
    acceptsX402: config.x402 !== undefined,
    acceptsMpp: paymentMethods(config).some(({ method }) => method !== "x402"),
    minUsd: Math.ceil(minCents / CENTS_PER_USD),
  };
}

export function paymentMethods({
  x402,
  tempo,
  billing: { stripe },
}: Config): NonNullable<DiscoverySettings["paymentMethods"]> {
  return [
    ...(x402 === undefined
      ? []
      : ["x402", "evm"].map((method) => ({ method, currency: x402.token.name }))),
    ...(stripe?.networkId === undefined ? [] : [{ method: "stripe", currency: "usd" }]),
    ...(tempo === undefined ? [] : [{ method: "tempo", currency: tempo.token.name }]),
  ];
}

function grantSettings({ limits }: Config): DiscoverySettings["grants"] {
  if (limits.grantPerDay === 0n) return undefined;
  const { percentPerHour, percentPerDay } = ADDRESS_SHARE;
  return { whenExhausted: limits.whenGrantsExhausted, percentPerHour, percentPerDay };
}

/** The example model per provider; OpenAI's are used where none of these providers is set. */
type ExampleModels = Readonly<Record<string, string>> & { readonly openai: string };

const EXAMPLE_MODELS: ExampleModels = {
  openai: "openai/gpt-5.4-mini",
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
