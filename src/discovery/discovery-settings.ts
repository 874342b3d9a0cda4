// The settings of this gateway that the generated documents need.

import type { NavLink } from "../http/pages/app-frame.tsx";

export const PRODUCT_NAME = "Postern";

export interface DiscoverySettings {
  /** Without a trailing slash. */
  readonly baseUrl: string;
  readonly docsUrl: string;
  /** Part of the claim grant type: `urn:<vendor>:agent-auth:grant-type:claim`. */
  readonly vendor: string;
  readonly keyPrefix: string;
  readonly version: string;
  /** When the process started. */
  readonly startedAt: number;
  readonly startingCredits: number;
  readonly claimBonusCredits: number;
  readonly feePercent: number;
  /** The model in the examples; this gateway can call it. */
  readonly exampleModel: string;
  /** Models that can be called now, the cheapest first; prices in US dollars per million tokens. */
  readonly cheapModels?: readonly {
    readonly id: string;
    readonly input: string;
    readonly output: string;
  }[];
  /** The embedding model in the examples. */
  readonly exampleEmbeddingModel: string;
  /** Whether the example model is a simulated one. */
  readonly isSimulated?: boolean;
  /** Whether a person can pay for credits on a page; absent: true. */
  readonly hasPaymentPage?: boolean;
  /** If no human can sign in, the documents leave out claims. */
  readonly isSignInDisabled?: boolean;
  /** Whether MCP clients may name a metadata document; absent: true. */
  readonly hasClientDocuments?: boolean;
  /** Zero means unlimited, for this and the next two. */
  readonly requestsPerMinute?: number;
  readonly concurrentCalls?: number;
  readonly accountsPerHour?: number;
  /** An email address or URL for reports of vulnerabilities. */
  readonly securityContact?: string | undefined;
  /** The zero bits of the proof of work that a new account needs; zero for none. */
  readonly proofOfWorkBits?: number;
  /** Origins whose signed requests have their own quota. */
  readonly verifiedAgents?: readonly string[];
  /** Absent without a daily budget of starting credit. */
  readonly grants?: GrantSettings | undefined;
  /** How a call can pay for itself; empty or absent if only the balance pays. */
  /** Whether a wallet can pay for a call without a key. */
  readonly acceptsWallets?: boolean;
  readonly paymentMethods?: readonly { readonly method: string; readonly currency: string }[];
  readonly termsUrl?: string | undefined;
  readonly privacyUrl?: string | undefined;
  /** A page or a `mailto:` link for support. */
  readonly contactUrl?: string | undefined;
  /** The links of the operator in footers. */
  readonly operatorLinks?: readonly NavLink[];
}

interface GrantSettings {
  readonly whenExhausted: "create" | "refuse";
  /** Percentages of the day's budget of starting credit that one address can get. */
  readonly percentPerHour: number;
  readonly percentPerDay: number;
}

/** Undefined if no model can be called. */
export function cheapModelsText({ cheapModels = [] }: DiscoverySettings): string | undefined {
  const names = cheapModels.map(
    ({ id, input, output }) => `\`${id}\` ($${input} in and $${output} out)`,
  );
  return names.length === 0
    ? undefined
    : `The cheapest models that work now, per million tokens: ${names.join(", ")}.`;
}

const CREDITS_PER_USD = 1_000_000;

/** `50,000 credits ($0.05)`. */
export function creditsText(credits: number): string {
  const usd = (credits / CREDITS_PER_USD).toFixed(2);
  return `${credits.toLocaleString("en-US")} credits ($${usd})`;
}

/** The grant type of the claim poll. The token endpoint compares it exactly. */
export function claimGrantType(settings: DiscoverySettings): string {
  return `urn:${settings.vendor}:agent-auth:grant-type:claim`;
}

/** Where auth.md tells an agent to store its key. The host is in the name, because an agent may use several gateways. */
export function keyFilePath(settings: DiscoverySettings): string {
  return `~/.postern/${new URL(settings.baseUrl).host.replaceAll(":", "-")}.json`;
}
