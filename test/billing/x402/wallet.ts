// Helpers of the x402 tests: wallets that sign payments, and the x402 service without a gateway.

import { decodePaymentRequiredHeader } from "@x402/core/http";
import {
  parsePaymentHeader,
  type PaymentRequirements,
  paymentRequirementsFor,
  type SignedPayment,
} from "../../../src/billing/x402/x402-messages.ts";
import type { X402Deps } from "../../../src/billing/x402/x402-payments.ts";
import { createX402 } from "../../../src/billing/x402/x402-protocol.ts";
import { readConfig } from "../../../src/config/config.ts";
import {
  type Authorization,
  newWallet,
  signAuthorization,
  type SignedTransfer,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
import type { BillingHarness } from "../harness.ts";

type Challenge = ReturnType<typeof decodePaymentRequiredHeader>;
type Accepted = Challenge["accepts"][number];

export interface SignedHeader {
  readonly header: string;
  readonly transfer: SignedTransfer;
}

export interface SignOverrides {
  readonly authorization?: Partial<Authorization>;
  readonly accepted?: Partial<Accepted>;
  /** Signs with another wallet than the payer's. */
  readonly signer?: Wallet;
  /** Epoch milliseconds. */
  readonly now?: number;
}

export function challengeIn(headers: Headers): Challenge {
  return decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
}

/** Signs a payment that meets the requirements, except for the overrides. */
export async function signPayment(
  wallet: Wallet,
  requirements: Accepted,
  { authorization = {}, accepted = {}, signer = wallet, now = Date.now() }: SignOverrides = {},
): Promise<SignedHeader> {
  const message: Authorization = {
    from: wallet.address,
    // Safe because addresses in a challenge are 0x and digits.
    to: requirements.payTo as `0x${string}`,
    value: BigInt(requirements.amount),
    validAfter: 0n,
    validBefore: BigInt(Math.floor(now / 1_000) + requirements.maxTimeoutSeconds),
    nonce: newNonce(),
    ...authorization,
  };
  const signature = await signAuthorization(signer, message);
  return {
    header: headerOf({
      x402Version: 2,
      accepted: { ...requirements, ...accepted },
      payload: { signature, authorization: stringifyValues(message) },
    }),
    transfer: { authorization: message, signature },
  };
}

/** A signed payment of $1, and its requirements. */
export async function createPayment(): Promise<{
  readonly requirements: PaymentRequirements;
  readonly signed: SignedPayment;
}> {
  const requirements = paymentRequirementsFor(
    {
      network: "eip155:84532",
      payTo: `0x${"34".repeat(20)}`,
      token: { address: `0x${"56".repeat(20)}`, decimals: 6, name: "USDC", version: "2" },
    },
    100,
  );
  const { header } = await signPayment(newWallet(), requirements as never);
  return { requirements, signed: parsePaymentHeader(header) };
}

export function headerOf(payload: unknown): string {
  return Buffer.from(JSON.stringify(payload)).toString("base64");
}

export function newNonce(): `0x${string}` {
  return `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
}

function stringifyValues(authorization: Authorization): Record<string, string> {
  return Object.fromEntries(
    Object.entries(authorization).map(([name, value]) => [name, String(value)]),
  );
}

export function fundedWallet({ chain }: TestFacilitator, cents: bigint): Wallet {
  const wallet = newWallet();
  chain.fund(wallet.address, cents);
  return wallet;
}

/** The x402 service as the server creates it, on a harness's store and clock. */
export function createX402Deps(
  harness: BillingHarness,
  env: Readonly<Record<string, string>>,
): X402Deps {
  const read = readConfig({ env, hostName: "test", providers: [] });
  if (!read.ok) throw new Error(read.errors.join("; "));
  const { x402, baseUrl } = read.config;
  if (x402 === undefined) throw new Error("x402 is off");
  return createX402(x402, { billing: harness.billing, now: () => harness.clock.now, baseUrl }).deps;
}
