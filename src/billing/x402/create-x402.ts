// Creates the x402 payment service from its settings.

import type { Secret } from "../../base/crypto/secret.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { type ChainClient, createChainClient } from "./chain-client.ts";
import { createFacilitatorClient } from "./facilitator-client.ts";
import type { PaymentTerms } from "./x402-messages.ts";
import { pollX402, type X402Deps } from "./x402-payments.ts";

export interface X402Options extends PaymentTerms {
  readonly facilitatorUrl: string;
  readonly facilitatorKey?: Secret | undefined;
  /** An RPC node of the chain, to look up payments that the facilitator lost. */
  readonly rpcUrl?: Secret | undefined;
}

interface X402ServiceDeps {
  readonly billing: BillingDeps;
  readonly now: () => number;
  readonly baseUrl: string;
}

export interface X402Service {
  readonly deps: X402Deps;
  readonly poll: () => Promise<unknown>;
}

export function createX402(
  { network, token, payTo, ...options }: X402Options,
  { billing, now, baseUrl }: X402ServiceDeps,
): X402Service {
  const { facilitatorUrl: url, facilitatorKey: key, rpcUrl } = options;
  const deps: X402Deps = {
    billing,
    paymentTerms: { network, token, payTo },
    baseUrl,
    facilitator: createFacilitatorClient({ url, ...(key === undefined ? {} : { key }) }),
    chain: createOptionalChainClient(rpcUrl),
    now,
  };
  return { deps, poll: () => pollX402(deps) };
}

export function createOptionalChainClient(rpcUrl: Secret | undefined): ChainClient | undefined {
  return rpcUrl === undefined ? undefined : createChainClient(rpcUrl);
}
