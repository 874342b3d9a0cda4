// The scheme `upto` of x402: the wallet signs a ceiling (Permit2, with the payee and the facilitator in its witness), and any
// amount up to it can be settled once. Amounts of the token are rounded up, and never above the ceiling.

import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import { feeOnCharge } from "../invoices/cents.ts";
import {
  address,
  decodeHeader,
  digits,
  equalsIgnoreCase,
  PaymentRequirements,
  type PaymentTerms,
  SIGNATURE,
  X402_VERSION,
} from "./x402-messages.ts";

const UPTO_SCHEME = "upto";
/** The contract that settles: the same on every chain. */
export const UPTO_PROXY = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";
/** A call can run for this long, and must be settled in it too. */
const VALIDITY_SECONDS = HOUR_MS / SECOND_MS;
/** The longest replies take half an hour, also of a client that leaves. What ends after the signature cannot be settled. */
const VALIDITY_MIN_MS = 45 * MINUTE_MS;
const VALIDITY_MAX_MS = 2 * HOUR_MS;
const NANO_DECIMALS = 9;

const SignedCeiling = z.object({
  x402Version: z.literal(X402_VERSION),
  accepted: PaymentRequirements.extend({
    scheme: z.literal(UPTO_SCHEME),
    extra: z.object({
      name: z.string(),
      version: z.string(),
      assetTransferMethod: z.string().optional(),
      facilitatorAddress: address,
    }),
  }),
  payload: z.object({
    signature: SIGNATURE,
    permit2Authorization: z.object({
      from: address,
      permitted: z.object({ token: address, amount: digits }),
      spender: address,
      nonce: z
        .string()
        .regex(/^(\d{1,78}|0x[0-9a-fA-F]{1,64})$/)
        .refine((nonce) => BigInt(nonce) < 1n << 256n)
        .transform((nonce) => String(BigInt(nonce))),
      deadline: digits,
      witness: z.object({ to: address, facilitator: address, validAfter: digits }),
    }),
  }),
});
/** The signed part of a payment. Other fields of the header are dropped. */
export type SignedCeiling = Readonly<z.infer<typeof SignedCeiling>>;

/** Parses the header `PAYMENT-SIGNATURE` of a request without an API key. */
export function parseCeilingHeader(header: string): SignedCeiling {
  const parsed = SignedCeiling.safeParse(decodeHeader(header));
  if (parsed.success) return parsed.data;
  const field = parsed.error.issues[0]?.path.map(String).join(".") ?? "";
  throw invalid(
    "payment-signature",
    `Without an API key, the PAYMENT-SIGNATURE header must be an x402 payment, version ${X402_VERSION}, of the scheme \`upto\` with a Permit2 authorization${field === "" ? "" : `: \`${field}\` is missing or invalid`}. Sign the payment in the PAYMENT-REQUIRED header of the 402, or send an API key.`,
  );
}

/** `amount` is in units of the token. */
export function ceilingRequirementsFor(
  { network, token, payTo }: PaymentTerms,
  amount: bigint,
  facilitatorAddress: string,
) {
  return {
    scheme: UPTO_SCHEME,
    network,
    amount: String(amount),
    asset: token.address,
    payTo,
    maxTimeoutSeconds: VALIDITY_SECONDS,
    extra: {
      name: token.name,
      version: token.version,
      assetTransferMethod: "permit2",
      facilitatorAddress,
    },
  };
}

/** What the call needs. */
export interface CeilingTerms extends PaymentTerms {
  readonly required: bigint;
  readonly now: number;
}

/** Returns the specification's error code if the payment does not match what this gateway takes. */
export function ceilingMismatch(signed: SignedCeiling, terms: CeilingTerms): string | undefined {
  const { accepted } = signed;
  const { permitted, spender, deadline, witness } = signed.payload.permit2Authorization;
  const { network, token, payTo, required, now } = terms;
  const end = BigInt(deadline) * BigInt(SECOND_MS);
  if (accepted.network !== network) return "invalid_upto_evm_network_mismatch";
  if (!equalsIgnoreCase(spender, UPTO_PROXY)) return "invalid_permit2_spender";
  if (![accepted.asset, permitted.token].every((asset) => equalsIgnoreCase(asset, token.address)))
    return "permit2_token_mismatch";
  if (![accepted.payTo, witness.to].every((payee) => equalsIgnoreCase(payee, payTo)))
    return "invalid_permit2_recipient_mismatch";
  if (!equalsIgnoreCase(witness.facilitator, accepted.extra.facilitatorAddress))
    return "upto_facilitator_mismatch";
  // A higher ceiling than the call needs is taken: the call costs the same.
  if (accepted.amount !== permitted.amount || BigInt(permitted.amount) < required)
    return "permit2_amount_mismatch";
  if (end < BigInt(now + VALIDITY_MIN_MS)) return "permit2_deadline_expired";
  if (end > BigInt(now + VALIDITY_MAX_MS)) return "invalid_permit2_deadline";
  if (BigInt(witness.validAfter) * BigInt(SECOND_MS) > BigInt(now)) return "permit2_not_yet_valid";
  return undefined;
}

/** Identifies one authorization: Permit2 accepts each nonce of a payer once. */
export function ceilingIdOf({ accepted, payload }: SignedCeiling): string {
  const { from, nonce } = payload.permit2Authorization;
  return `${accepted.network}:permit2:${from}:${nonce}`;
}

export function ceilingExpiryOf({ payload }: SignedCeiling): number {
  return Number(payload.permit2Authorization.deadline) * SECOND_MS;
}

/** The charge with the fee, in units of the token, rounded up. */
export function unitsForCharge(charge: bigint, decimals: number): bigint {
  const nano = charge + feeOnCharge(charge);
  return decimals >= NANO_DECIMALS
    ? nano * 10n ** BigInt(decimals - NANO_DECIMALS)
    : ceilDiv(nano, 10n ** BigInt(NANO_DECIMALS - decimals));
}

/** What units of the token are worth, in nano-dollars, rounded down. */
export function nanoOfUnits(units: bigint, decimals: number): bigint {
  return decimals >= NANO_DECIMALS
    ? units / 10n ** BigInt(decimals - NANO_DECIMALS)
    : units * 10n ** BigInt(NANO_DECIMALS - decimals);
}

function ceilDiv(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
