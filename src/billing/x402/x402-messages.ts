// The x402 protocol, version 2: requirements, payment payload and settlement response, and their headers. Only the scheme
// `exact` with EIP-3009 transfers. docs/decisions/0020-payments.md says why `@x402/core` is not used.

import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { HOUR_MS } from "../../base/time.ts";

export const X402_VERSION = 2;
const SCHEME = "exact";
/** The validity that clients are asked for, and the longest that is accepted. */
const VALIDITY_SECONDS = 300;
const VALIDITY_MAX_MS = HOUR_MS;
/** A signature that expires sooner could not be settled in time. */
const VALIDITY_MIN_MS = 6_000;
const HEADER_CHARACTERS_MAX = 8_192;
const SIGNATURE_DIGITS_MAX = 4_096;
const CENT_DECIMALS = 2;

/** An ERC-20 token; `name` and `version` are of its EIP-712 domain. */
export interface Token {
  readonly address: string;
  readonly decimals: number;
  readonly name: string;
  readonly version: string;
}

export interface PaymentTerms {
  /** A CAIP-2 chain id, such as `eip155:8453`. */
  readonly network: string;
  readonly token: Token;
  readonly payTo: string;
}

export const PaymentRequirements = z.object({
  scheme: z.string(),
  network: z.string(),
  amount: z.string(),
  asset: z.string(),
  payTo: z.string(),
  maxTimeoutSeconds: z.number(),
  extra: z.object({ name: z.string(), version: z.string() }),
});
export type PaymentRequirements = Readonly<z.infer<typeof PaymentRequirements>>;

export const digits = z.string().regex(/^\d{1,78}$/);
export const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
export const address = z
  .string()
  .regex(ADDRESS)
  .transform((text) => text.toLowerCase());

export const SIGNATURE = z
  .string()
  .regex(new RegExp(`^0x[0-9a-fA-F]{130,${SIGNATURE_DIGITS_MAX}}$`));

/** An EIP-3009 transfer with its signature. */
export const SignedTransfer = z.object({
  signature: SIGNATURE,
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
});

const SignedPayment = z.object({
  x402Version: z.literal(X402_VERSION),
  accepted: PaymentRequirements,
  payload: SignedTransfer,
});
/** The signed part of a payment. Other fields of the header are dropped. */
export type SignedPayment = Readonly<z.infer<typeof SignedPayment>>;

/** The content of the header `PAYMENT-RESPONSE`. */
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

/** Parses the header `PAYMENT-SIGNATURE`. */
export function parsePaymentHeader(header: string): SignedPayment {
  const parsed = SignedPayment.safeParse(decodeHeader(header));
  if (parsed.success) return parsed.data;
  const field = parsed.error.issues[0]?.path.map(String).join(".") ?? "";
  throw invalid(
    "payment-signature",
    `The PAYMENT-SIGNATURE header must be an x402 payment, version ${X402_VERSION}, with an EIP-3009 transfer${field === "" ? "" : `: \`${field}\` is missing or invalid`}. Sign the payment in the PAYMENT-REQUIRED header of a 402.`,
  );
}

/** Returns the specification's error code if the payment does not match the requirements. */
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

/** Identifies one transfer: a token accepts each nonce of a payer once. */
export function transferIdOf({ accepted, payload }: SignedPayment): string {
  const { from, nonce } = payload.authorization;
  return `${accepted.network}:${accepted.asset.toLowerCase()}:${from}:${nonce}`;
}

export function expiresAtOf({ payload }: SignedPayment): number {
  return Number(payload.authorization.validBefore) * 1_000;
}

/** The header `PAYMENT-RESPONSE`. */
export function paymentResponseHeader(settleResponse: SettleResponse): string {
  return encodeHeader(settleResponse);
}

export function equalsIgnoreCase(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function encodeHeader(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

export function decodeHeader(header: string): unknown {
  if (header.length > HEADER_CHARACTERS_MAX || !/^[A-Za-z0-9+/]+={0,2}$/.test(header))
    return undefined;
  try {
    return JSON.parse(Buffer.from(header, "base64").toString("utf8"));
  } catch {
    return undefined;
  }
}
