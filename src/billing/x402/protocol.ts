// The words of x402, version 2, as far as this gateway speaks them: what it asks for, what a payment must be, and what
// is said about it afterwards. The scheme is `exact`, with a token that takes signed transfers (EIP-3009).

import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { HOUR_MS } from "../../base/time.ts";

export const X402_VERSION = 2;
const SCHEME = "exact";
/** How long a client lets its signature be valid, and how long one may be valid at most. */
const VALIDITY_SECONDS = 300;
const VALIDITY_MAX_MS = HOUR_MS;
/** A signature that expires sooner would not live to be settled. */
const VALIDITY_MIN_MS = 6_000;
const HEADER_CHARACTERS_MAX = 8_192;
const SIGNATURE_DIGITS_MAX = 4_096;
const CENT_DECIMALS = 2;

/** A token on a chain, with the name and version that its signatures are made for. */
export interface Token {
  readonly address: string;
  readonly decimals: number;
  readonly name: string;
  readonly version: string;
}

export interface PaymentTerms {
  /** CAIP-2, such as `eip155:8453`. */
  readonly network: string;
  readonly token: Token;
  readonly payTo: string;
}

const PaymentRequirements = z.object({
  scheme: z.string(),
  network: z.string(),
  amount: z.string(),
  asset: z.string(),
  payTo: z.string(),
  maxTimeoutSeconds: z.number(),
  extra: z.object({ name: z.string(), version: z.string() }),
});
export type PaymentRequirements = Readonly<z.infer<typeof PaymentRequirements>>;

const digits = z.string().regex(/^\d{1,78}$/);
const address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/)
  .transform((text) => text.toLowerCase());

const SignedPayment = z.object({
  x402Version: z.literal(X402_VERSION),
  accepted: PaymentRequirements,
  payload: z.object({
    signature: z.string().regex(new RegExp(`^0x[0-9a-fA-F]{130,${SIGNATURE_DIGITS_MAX}}$`)),
    authorization: z.object({
      from: address,
      to: address,
      value: digits,
      validAfter: digits,
      validBefore: digits,
      nonce: z
        .string()
        .regex(/^0x[0-9a-fA-F]{64}$/)
        .transform((text) => text.toLowerCase()),
    }),
  }),
});
/** What a client signed. All else that it sent is dropped, and goes no further. */
export type SignedPayment = Readonly<z.infer<typeof SignedPayment>>;

/** What was settled, as the header `PAYMENT-RESPONSE` says it. */
export interface SettleResponse {
  readonly success: boolean;
  readonly transaction: string;
  readonly network: string;
  readonly payer: string;
  readonly amount?: string;
  readonly errorReason?: string;
}

export function paymentRequirementsFor(
  { network, token, payTo }: PaymentTerms,
  totalCents: number,
): PaymentRequirements {
  return {
    scheme: SCHEME,
    network,
    amount: String(BigInt(totalCents) * 10n ** BigInt(token.decimals - CENT_DECIMALS)),
    asset: token.address,
    payTo,
    maxTimeoutSeconds: VALIDITY_SECONDS,
    extra: { name: token.name, version: token.version },
  };
}

/** The header `PAYMENT-REQUIRED`. */
export function paymentRequiredHeader(
  requirements: PaymentRequirements,
  resource: { readonly url: string; readonly description: string },
  error: string,
): string {
  return encodeHeader({
    x402Version: X402_VERSION,
    error,
    resource: { ...resource, mimeType: "application/json" },
    accepts: [requirements],
  });
}

/** Reads the header `PAYMENT-SIGNATURE`; throws what a client is told of one that cannot be read. */
export function parsePaymentHeader(header: string): SignedPayment {
  const parsed = SignedPayment.safeParse(decodeHeader(header));
  if (parsed.success) return parsed.data;
  const at = parsed.error.issues[0]?.path.map(String).join(".") ?? "";
  throw invalid(
    "payment-signature",
    `The PAYMENT-SIGNATURE header is not an x402 payment of version ${X402_VERSION} with a signed transfer (EIP-3009)${at === "" ? "" : `: ${at} is missing or wrong`}. Sign what the PAYMENT-REQUIRED header of a 402 asks for.`,
  );
}

/** Why a payment is not what is asked for, in the specification's words; undefined where it is. */
export function mismatchReason(
  { accepted, payload }: SignedPayment,
  requirements: PaymentRequirements,
  now: number,
): string | undefined {
  const { authorization } = payload;
  const start = BigInt(authorization.validAfter) * 1_000n;
  const end = BigInt(authorization.validBefore) * 1_000n;
  if (accepted.scheme !== requirements.scheme) return "unsupported_scheme";
  if (accepted.network !== requirements.network) return "invalid_network";
  if (!equalsIgnoreCase(accepted.asset, requirements.asset)) return "invalid_payment_requirements";
  if (
    accepted.extra.name !== requirements.extra.name ||
    accepted.extra.version !== requirements.extra.version
  )
    return "invalid_payment_requirements";
  if (
    !equalsIgnoreCase(accepted.payTo, requirements.payTo) ||
    !equalsIgnoreCase(authorization.to, requirements.payTo)
  )
    return "invalid_exact_evm_payload_recipient_mismatch";
  if (
    accepted.amount !== requirements.amount ||
    BigInt(authorization.value) !== BigInt(requirements.amount)
  )
    return "invalid_exact_evm_payload_authorization_value_mismatch";
  if (end < BigInt(now + VALIDITY_MIN_MS) || end > BigInt(now + VALIDITY_MAX_MS))
    return "invalid_exact_evm_payload_authorization_valid_before";
  if (start > BigInt(now)) return "invalid_exact_evm_payload_authorization_valid_after";
  return undefined;
}

/** A token takes each nonce of a payer once: this names one transfer of money, wherever it is seen. */
export function transferIdOf({ accepted, payload }: SignedPayment): string {
  const { from, nonce } = payload.authorization;
  return `${accepted.network}:${accepted.asset.toLowerCase()}:${from}:${nonce}`;
}

export function expiresAtOf({ payload }: SignedPayment): number {
  return Number(payload.authorization.validBefore) * 1_000;
}

/** The header `PAYMENT-RESPONSE`. */
export function paymentResponseHeader(receipt: SettleResponse): string {
  return encodeHeader(receipt);
}

export function equalsIgnoreCase(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function encodeHeader(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

function decodeHeader(header: string): unknown {
  if (header.length > HEADER_CHARACTERS_MAX || !/^[A-Za-z0-9+/]+={0,2}$/.test(header))
    return undefined;
  try {
    return JSON.parse(Buffer.from(header, "base64").toString("utf8"));
  } catch {
    return undefined;
  }
}
