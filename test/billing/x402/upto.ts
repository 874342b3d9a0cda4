// Helpers of the tests of `upto`: a wallet that has approved Permit2, the official client, and signatures by hand.

import { UptoEvmScheme } from "@x402/evm/upto/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import {
  newWallet,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
import { type challengeIn, headerOf } from "./wallet.ts";

const PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const UPTO_PROXY = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";
const CHAIN_ID = 84_532;

const PERMIT_TYPES = {
  PermitWitnessTransferFrom: [
    { name: "permitted", type: "TokenPermissions" },
    { name: "spender", type: "address" },
    { name: "nonce", type: "uint256" },
    { name: "deadline", type: "uint256" },
    { name: "witness", type: "Witness" },
  ],
  TokenPermissions: [
    { name: "token", type: "address" },
    { name: "amount", type: "uint256" },
  ],
  Witness: [
    { name: "to", type: "address" },
    { name: "facilitator", type: "address" },
    { name: "validAfter", type: "uint256" },
  ],
} as const;

export function uptoEnv(facilitator: TestFacilitator, riskUsd = "1000"): Record<string, string> {
  return {
    ...facilitator.env,
    X402_RPC_URL: facilitator.rpcUrl,
    X402_UPTO_RISK_USD: riskUsd,
  };
}

export function approvedWallet({ chain }: TestFacilitator, cents = 500n): Wallet {
  const wallet = newWallet();
  chain.fund(wallet.address, cents);
  chain.approve(wallet.address);
  return wallet;
}

/** The official client. */
export function uptoFetch(wallet: Wallet): ReturnType<typeof wrapFetchWithPayment> {
  return wrapFetchWithPayment(
    fetch,
    new x402Client().register("eip155:*", new UptoEvmScheme(wallet)),
  );
}

export type Requirements = ReturnType<typeof challengeIn>["accepts"][number];

export interface CeilingOverrides {
  readonly accepted?: object;
  readonly amount?: string;
  readonly token?: string;
  readonly spender?: string;
  readonly to?: string;
  readonly facilitator?: string;
  readonly nonce?: bigint;
  /** Epoch seconds. */
  readonly deadline?: number;
  readonly validAfter?: number;
  readonly chainId?: number;
  /** Signs with another wallet than the payer's. */
  readonly signer?: Wallet;
}

/** Signs the ceiling of a 402, except for the overrides, which are signed too. */
export async function signCeiling(
  wallet: Wallet,
  requirements: Requirements,
  overrides: CeilingOverrides = {},
): Promise<string> {
  const { amount = requirements.amount, signer = wallet } = overrides;
  const token = overrides.token ?? requirements.asset;
  const spender = overrides.spender ?? UPTO_PROXY;
  const nonce =
    overrides.nonce ??
    BigInt(`0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toHex()}`);
  const deadline = overrides.deadline ?? Math.floor(Date.now() / 1_000) + 3_600;
  const to = overrides.to ?? requirements.payTo;
  const facilitator =
    overrides.facilitator ??
    (requirements.extra as { readonly facilitatorAddress: string }).facilitatorAddress;
  const validAfter = overrides.validAfter ?? 0;
  const signature = await signer.signTypedData({
    domain: {
      name: "Permit2",
      chainId: overrides.chainId ?? CHAIN_ID,
      verifyingContract: PERMIT2,
    },
    types: PERMIT_TYPES,
    primaryType: "PermitWitnessTransferFrom",
    message: {
      permitted: { token: token as `0x${string}`, amount: BigInt(amount) },
      spender: spender as `0x${string}`,
      nonce,
      deadline: BigInt(deadline),
      witness: {
        to: to as `0x${string}`,
        facilitator: facilitator as `0x${string}`,
        validAfter: BigInt(validAfter),
      },
    },
  });
  return headerOf({
    x402Version: 2,
    accepted: { ...requirements, amount, ...overrides.accepted },
    payload: {
      signature,
      permit2Authorization: {
        from: wallet.address,
        permitted: { token, amount },
        spender,
        nonce: String(nonce),
        deadline: String(deadline),
        witness: { to, facilitator, validAfter: String(validAfter) },
      },
    },
  });
}

/** The arguments of the proxy's `settle` by which a settlement of this signature is known, as hex digits. */
export function settledWords(header: string, units: bigint): string {
  const { payload } = JSON.parse(Buffer.from(header, "base64").toString()) as {
    readonly payload: {
      readonly permit2Authorization: {
        readonly from: string;
        readonly permitted: { readonly token: string; readonly amount: string };
        readonly nonce: string;
        readonly deadline: string;
      };
    };
  };
  const { from, permitted, nonce, deadline } = payload.permit2Authorization;
  return [permitted.token, permitted.amount, nonce, deadline, units, from]
    .map((word) => BigInt(word).toString(16).padStart(64, "0"))
    .join("");
}
