// Settings of the payments that agents make themselves: x402, and the method `tempo` of Machine Payments.

import { z } from "zod";
import { secret } from "../base/crypto/secret.ts";
import type { TempoOptions } from "../billing/tempo/tempo-method.ts";
import { httpUrl, settings, type SettingValues } from "./setting-schemas.ts";
import {
  X402_SETTINGS,
  x402ConfigErrors,
  type X402Config,
  x402ConfigFrom,
} from "./x402-settings.ts";

/** The dollar token of each Tempo network. */
const TEMPO_TOKENS: Readonly<Record<number, TempoOptions["token"]>> = {
  4217: { address: "0x20C000000000000000000000b9537d11c60E8b50", name: "USDC.e" },
  42431: { address: "0x20c0000000000000000000000000000000000000", name: "pathUSD" },
};
const TEMPO_MAINNET = 4_217;
export const TEMPO_TESTNET = 42_431;

export const AGENT_PAYMENT_SETTINGS = settings({
  ...X402_SETTINGS,
  TEMPO_PAY_TO: [
    X402_SETTINGS.X402_PAY_TO[0],
    "",
    "Your wallet address on the Tempo network, used by this gateway only. Enables the method `tempo`, see `docs/site/mpp.md`.",
  ],
  TEMPO_RPC_URL: [
    httpUrl.optional(),
    "",
    "A node of the Tempo network; required with `TEMPO_PAY_TO`.",
  ],
  TEMPO_CHAIN_ID: [
    z.coerce
      .number()
      .refine((id) => TEMPO_TOKENS[id] !== undefined, "must be 4217 or 42431")
      .default(TEMPO_MAINNET),
    String(TEMPO_MAINNET),
    "The network: 4217 takes USDC.e, the test network 42431 takes pathUSD.",
  ],
});

type Environment = SettingValues<typeof AGENT_PAYMENT_SETTINGS>;

export interface AgentPaymentConfig {
  /** The least that a call which pays for itself buys. */
  readonly agentTopUpCents: number;
  /** Absent where x402 is off. */
  readonly x402?: X402Config;
  /** Absent where the method `tempo` is off. */
  readonly tempo?: TempoOptions;
}

export function agentPaymentConfigFrom(env: Environment): AgentPaymentConfig {
  const { TEMPO_PAY_TO: payTo, TEMPO_RPC_URL: rpcUrl, TEMPO_CHAIN_ID: chainId } = env;
  const token = TEMPO_TOKENS[chainId];
  return {
    ...x402ConfigFrom(env),
    ...(payTo === undefined || rpcUrl === undefined || token === undefined
      ? {}
      : { tempo: { payTo, chainId, token, rpcUrl: secret(rpcUrl) } }),
  };
}

/** Errors that concern several settings. */
export function agentPaymentConfigErrors(env: Environment): readonly string[] {
  return [
    ...x402ConfigErrors(env),
    ...((env.TEMPO_PAY_TO === undefined) === (env.TEMPO_RPC_URL === undefined)
      ? []
      : ["TEMPO_PAY_TO and TEMPO_RPC_URL must be set together"]),
  ];
}
