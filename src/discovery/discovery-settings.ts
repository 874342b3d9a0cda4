// What the documents say that no route can know: where the service is, who runs it and what the operator has decided.

export const PRODUCT_NAME = "Postern";

export interface DiscoverySettings {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly docsUrl: string;
  /** Names the claim grant: `urn:<vendor>:agent-auth:grant-type:claim`. */
  readonly vendor: string;
  readonly keyPrefix: string;
  readonly version: string;
  readonly startingCredits: number;
  readonly claimBonusCredits: number;
  readonly feePercent: number;
  /** A model that this gateway can call now; the examples use it. */
  readonly exampleModel: string;
  /** The same for embeddings, which no other model makes. */
  readonly exampleEmbeddingModel: string;
  /** Set where the example model only pretends, so that no reader mistakes its answers for a real model's. */
  readonly isSimulated?: boolean;
  /** Set where no human can sign in: a claim is not offered, since it would lead nowhere. */
  readonly isSignInDisabled?: boolean;
  /** Of these three, zero is no limit. */
  readonly requestsPerMinute?: number;
  readonly concurrentCalls?: number;
  readonly accountsPerHour?: number;
  readonly termsUrl?: string;
  readonly privacyUrl?: string;
  /** An address or page where a human answers. */
  readonly contactUrl?: string;
}

const CREDITS_PER_USD = 1_000_000;

/** `50,000 credits (0.05 USD)`. */
export function creditsText(credits: number): string {
  const usd = (credits / CREDITS_PER_USD).toFixed(2);
  return `${credits.toLocaleString("en-US")} credits (${usd} USD)`;
}

/** The grant type of the claim poll, exactly as the token endpoint compares it. */
export function claimGrantType(settings: DiscoverySettings): string {
  return `urn:${settings.vendor}:agent-auth:grant-type:claim`;
}

/** Where an agent keeps this gateway's key: one file a gateway, since two gateways may run the same program. */
export function keyFilePath(settings: DiscoverySettings): string {
  return `~/.postern/${new URL(settings.baseUrl).host.replaceAll(":", "-")}.json`;
}
