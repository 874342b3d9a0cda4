// Where agents pay with wallets of their own: built where the settings name an address to be paid to.

import type { Till } from "./billing/till.ts";
import { type Chain, openChain } from "./billing/x402-chain.ts";
import { type Counter, pollX402 } from "./billing/x402.ts";
import { type CallOrBuy, createCallOrBuy } from "./billing/x402-calls.ts";
import { openFacilitator } from "./billing/x402-facilitator.ts";
import type { Clock } from "./clocks.ts";
import type { Config } from "./config.ts";

const POLL_MS = 10_000;

export interface OpenedCounter {
  readonly counter?: Counter;
  readonly callOrBuy?: CallOrBuy;
  readonly counterClocks: readonly Clock[];
}

/** The chain that agents pay on, where a node of it can be asked. */
export function chainOf({ x402 }: Pick<Config, "x402">): Chain | undefined {
  return x402?.rpcUrl === undefined ? undefined : openChain(x402.rpcUrl);
}

export function openCounter(config: Config, till: Till, now: () => number): OpenedCounter {
  const { x402, baseUrl } = config;
  if (x402 === undefined) return { counterClocks: [] };
  const { network, token, payTo, topUpCents, facilitatorUrl: url, facilitatorKey } = x402;
  const counter: Counter = {
    till,
    terms: { network, token, payTo },
    topUpCents,
    baseUrl,
    facilitator: openFacilitator({
      url,
      ...(facilitatorKey === undefined ? {} : { key: facilitatorKey }),
    }),
    chain: chainOf(config),
    now,
  };
  return {
    counter,
    callOrBuy: createCallOrBuy(counter),
    counterClocks: [[POLL_MS, () => pollX402(counter)]],
  };
}
