// Settings of x402: the wallet that is paid, the token, and the facilitator.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { type Nano, NANO_PER_USD } from "../base/money/money.ts";
import type { Token } from "../billing/x402/x402-messages.ts";
import { httpUrl, settings, type SettingValues } from "./setting-schemas.ts";

const BASE = "eip155:8453";
const BASE_SEPOLIA = "eip155:84532";
const USDC: Readonly<Record<string, Token>> = {
  [BASE]: {
    address: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    decimals: 6,
    name: "USD Coin",
    version: "2",
  },
  [BASE_SEPOLIA]: {
    address: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    decimals: 6,
    name: "USDC",
    version: "2",
  },
};

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const ASSET = /^(0x[0-9a-fA-F]{40});(\d{1,2});([^;]{1,64});([^;]{1,16})$/;
const DECIMALS_MIN = 2;
const DECIMALS_MAX = 30;
const TOP_UP_DEFAULT_CENTS = 100;
const TOP_UP_MIN_CENTS = 5;
const TOP_UP_MAX_CENTS = 100_000;
const CENTS_PER_USD = 100;
const NANO_PER_CENT = NANO_PER_USD / BigInt(CENTS_PER_USD);

export const X402_SETTINGS = settings({
  X402_PAY_TO: [
    z.string().regex(ADDRESS, "must be 0x and 40 hexadecimal digits").optional(),
    "",
    "Your wallet address, used by this gateway only. Enables x402 payments, see `docs/site/x402.md`.",
  ],
  X402_FACILITATOR_URL: [
    httpUrl.optional(),
    "",
    "The facilitator that verifies and settles payments; required with `X402_PAY_TO`.",
  ],
  X402_FACILITATOR_KEY: [
    z.string().optional(),
    "",
    "A bearer token for the facilitator, if it needs one.",
  ],
  X402_NETWORK: [
    z
      .string()
      .regex(/^eip155:[1-9]\d{0,17}$/, "must be a CAIP-2 ID such as eip155:8453")
      .default(BASE),
    "eip155:8453",
    "The chain, as a CAIP-2 ID.",
  ],
  X402_ASSET: [
    z.string().transform(parseToken).optional(),
    "USDC on Base and Base Sepolia",
    "The token, worth $1 each: address, decimals, EIP-712 name and version, separated by `;`.",
  ],
  X402_TOP_UP_USD: [
    z
      .string()
      .regex(/^\d{1,4}(\.\d{1,2})?$/, "must be an amount of US dollars such as 1 or 10")
      .transform((usd) => Math.round(Number(usd) * CENTS_PER_USD))
      .refine(
        (cents) => cents >= TOP_UP_MIN_CENTS && cents <= TOP_UP_MAX_CENTS,
        `must be from ${TOP_UP_MIN_CENTS / CENTS_PER_USD} to ${TOP_UP_MAX_CENTS / CENTS_PER_USD}`,
      )
      .default(TOP_UP_DEFAULT_CENTS),
    "1",
    "The least that an agent pays for a model call, with the fee: $1 buys 952,380 credits. Clients pay $1 by default.",
  ],
  X402_UPTO_RISK_USD: [
    z
      .string()
      .regex(/^\d{1,6}(\.\d{1,2})?$/, "must be an amount of US dollars such as 25")
      .transform((usd) => BigInt(Math.round(Number(usd) * CENTS_PER_USD)) * NANO_PER_CENT)
      .default(0n),
    "0",
    "Above 0, wallets can pay for calls without an API key, after they ran; the most that such calls may owe at a time, losses of a day included. Requires `X402_RPC_URL`.",
  ],
  X402_RPC_URL: [
    httpUrl.optional(),
    "",
    "An RPC node of the chain, to look up payments that the facilitator lost.",
  ],
});

type X402Env = SettingValues<typeof X402_SETTINGS>;

export interface X402Config {
  readonly payTo: string;
  readonly network: string;
  readonly token: Token;
  readonly facilitatorUrl: string;
  readonly facilitatorKey?: Secret;
  /** Secret, because hosted nodes have their key in the URL. */
  readonly rpcUrl?: Secret;
  /** 0 where every call needs a key. */
  readonly uptoRiskMax: Nano;
}

export function x402ConfigFrom(env: X402Env): {
  readonly agentTopUpCents: number;
  readonly x402?: X402Config;
} {
  const { X402_TOP_UP_USD: agentTopUpCents } = env;
  const { X402_PAY_TO: payTo, X402_FACILITATOR_URL: facilitatorUrl, X402_NETWORK: network } = env;
  const token = env.X402_ASSET ?? USDC[network];
  if (payTo === undefined || facilitatorUrl === undefined || token === undefined)
    return { agentTopUpCents };
  const { X402_FACILITATOR_KEY: key, X402_RPC_URL: rpcUrl } = env;
  return {
    agentTopUpCents,
    x402: {
      payTo,
      network,
      token,
      facilitatorUrl,
      uptoRiskMax: env.X402_UPTO_RISK_USD,
      ...(key === undefined ? {} : { facilitatorKey: secret(key) }),
      ...(rpcUrl === undefined ? {} : { rpcUrl: secret(rpcUrl) }),
    },
  };
}

/** Errors that concern several settings. */
export function x402ConfigErrors(env: X402Env): readonly string[] {
  const { X402_PAY_TO: payTo, X402_FACILITATOR_URL: facilitatorUrl, X402_NETWORK: network } = env;
  const isEnabled = payTo !== undefined;
  const token = env.X402_ASSET ?? USDC[network];
  return [
    ...(isEnabled && facilitatorUrl === undefined
      ? ["X402_FACILITATOR_URL must be set if X402_PAY_TO is"]
      : []),
    ...(isEnabled && token === undefined
      ? [`X402_ASSET must be set: ${network} has no default token`]
      : []),
    ...(env.X402_UPTO_RISK_USD > 0n && env.X402_RPC_URL === undefined
      ? ["X402_RPC_URL must be set if X402_UPTO_RISK_USD is: it shows whether a call was paid"]
      : []),
    ...(!isEnabled && (facilitatorUrl ?? env.X402_RPC_URL ?? env.X402_FACILITATOR_KEY) !== undefined
      ? ["X402_PAY_TO must be set if other X402 settings are"]
      : []),
  ];
}

function parseToken(asset: string, context: z.core.$RefinementCtx): Token | undefined {
  const [, address = "", digits = "", name = "", version = ""] = ASSET.exec(asset) ?? [];
  const decimals = Number(digits);
  if (address !== "" && decimals >= DECIMALS_MIN && decimals <= DECIMALS_MAX)
    return { address, decimals, name, version };
  context.addIssue({
    code: "custom",
    message: "must be address;decimals;name;version, such as 0x8335…2913;6;USD Coin;2",
  });
  return undefined;
}
