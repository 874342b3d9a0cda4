// Where agents pay with wallets of their own: built where the settings name an address to be paid to.

import type { BillingDeps } from "../billing-deps.ts";
import { type ChainClient, createChainClient } from "./chain-client.ts";
import { type X402Deps, pollX402 } from "./x402-payments.ts";
import { type WithPayment, createWithPayment } from "./paid-calls.ts";
import { createFacilitatorClient } from "./facilitator-client.ts";
import type { Job } from "../../server/scheduler.ts";
import type { Config } from "../../config/config.ts";

const POLL_INTERVAL_MS = 10_000;

export interface X402Services {
  readonly x402?: X402Deps;
  readonly withPayment?: WithPayment;
  readonly x402Jobs: readonly Job[];
}

/** The chain that agents pay on, where a node of it can be asked. */
export function chainClientFromConfig({ x402 }: Pick<Config, "x402">): ChainClient | undefined {
  return x402?.rpcUrl === undefined ? undefined : createChainClient(x402.rpcUrl);
}

export function createX402(config: Config, billing: BillingDeps, now: () => number): X402Services {
  const { x402, baseUrl } = config;
  if (x402 === undefined) return { x402Jobs: [] };
  const { network, token, payTo, topUpCents, facilitatorUrl: url, facilitatorKey } = x402;
  const x402Deps: X402Deps = {
    billing,
    paymentTerms: { network, token, payTo },
    topUpCents,
    baseUrl,
    facilitator: createFacilitatorClient({
      url,
      ...(facilitatorKey === undefined ? {} : { key: facilitatorKey }),
    }),
    chain: chainClientFromConfig(config),
    now,
  };
  return {
    x402: x402Deps,
    withPayment: createWithPayment(x402Deps),
    x402Jobs: [[POLL_INTERVAL_MS, () => pollX402(x402Deps)]],
  };
}
