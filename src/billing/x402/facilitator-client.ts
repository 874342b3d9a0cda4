// Client of the x402 facilitator, which verifies signatures and submits transfers to the chain. Only an unambiguous
// success counts as settled and only an unambiguous refusal as refused; everything else is an unknown outcome.

import { z } from "zod";
import type { Secret } from "../../base/crypto/secret.ts";
import { Fault } from "../../base/fault.ts";
import { getJson, type JsonResponse, postJson } from "./post-json.ts";
import type { SignedCeiling } from "./upto-messages.ts";
import {
  ADDRESS,
  equalsIgnoreCase,
  type PaymentRequirements,
  type SignedPayment,
  X402_VERSION,
} from "./x402-messages.ts";

/** The sum stays below the minute that a call's idempotency key waits for its hold. */
const VERIFY_TIMEOUT_MS = 8_000;
const SETTLE_TIMEOUT_MS = 40_000;
const RESPONSE_MAX_BYTES = 65_536;
const SUPPORTED_MAX_BYTES = 1_048_576;
const REASON_MAX = 120;

/** Reasons that do not rule out a transfer: submitted but not confirmed, or submitted by another party. */
const UNCLEAR_REASONS =
  /pending|nonce_already_used|transaction_failed|transaction_state|transfer_event|unexpected|timeout/;

export interface FacilitatorOptions {
  readonly url: string;
  readonly key?: Secret;
  /** Lower in tests. */
  readonly verifyTimeoutMs?: number;
  readonly settleTimeoutMs?: number;
}

/** A transfer of the scheme `exact`, or a ceiling of `upto`. */
type AnyPayment = SignedPayment | SignedCeiling;

export interface FacilitatorClient {
  /** Returns why the payment is invalid; undefined if it is valid. Moves no money. */
  readonly verify: (
    payment: AnyPayment,
    requirements: PaymentRequirements,
  ) => Promise<string | undefined>;
  readonly settle: (
    payment: AnyPayment,
    requirements: PaymentRequirements,
  ) => Promise<SettlementOutcome>;
  /** The address to which wallets bind their signatures of `upto`. Throws a fault if the facilitator does not settle it. */
  readonly findUptoAddress: (network: string) => Promise<string>;
}

export type SettlementOutcome =
  | { readonly kind: "paid"; readonly transaction: string }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "unknown"; readonly reason: string };

const VerifyBody = z.object({
  isValid: z.boolean(),
  invalidReason: z.string().nullish(),
  payer: z.string().nullish(),
});

const SettleBody = z.object({
  success: z.boolean(),
  errorReason: z.string().nullish(),
  payer: z.string().nullish(),
  transaction: z.string(),
  network: z.string(),
  amount: z.string().nullish(),
});

const SupportedBody = z.object({
  kinds: z.array(
    z.looseObject({
      x402Version: z.number(),
      scheme: z.string(),
      network: z.string(),
      extra: z.looseObject({ facilitatorAddress: z.string().optional() }).nullish(),
    }),
  ),
});

export function createFacilitatorClient(options: FacilitatorOptions): FacilitatorClient {
  return {
    verify: async (payment, requirements) => {
      const response = await postToFacilitator(options, "verify", { payment, requirements }).catch(
        (cause: unknown) => {
          throw unavailable(cause);
        },
      );
      const parsed = VerifyBody.safeParse(response.body);
      if (!parsed.success)
        throw unavailable(new Error(`verify failed with status ${response.status}`));
      const { isValid, invalidReason, payer } = parsed.data;
      if (!isValid) return sanitizeReason(invalidReason, "unexpected_verify_error");
      if (!isSuccess(response.status) || !isPayer(payment, payer))
        throw unavailable(
          new Error(`verify returned status ${response.status} and payer ${payer}`),
        );
      return undefined;
    },
    settle: async (payment, requirements) => {
      try {
        const response = await postToFacilitator(options, "settle", { payment, requirements });
        return settlementOutcomeOf(response, payment, requirements);
      } catch (cause) {
        return { kind: "unknown", reason: sanitizeReason(errorNameOf(cause), "no_answer") };
      }
    },
    findUptoAddress: async (network) => {
      const { url, verifyTimeoutMs: timeoutMs = VERIFY_TIMEOUT_MS } = options;
      const request = {
        headers: authorizationOf(options),
        timeoutMs,
        responseMaxBytes: SUPPORTED_MAX_BYTES,
      };
      const { body } = await getJson(`${url}/supported`, request).catch((cause: unknown) => {
        throw unavailable(cause);
      });
      const kinds = SupportedBody.safeParse(body).data?.kinds ?? [];
      const kind = kinds.find(
        ({ x402Version, scheme, network: settled }) =>
          x402Version === X402_VERSION && scheme === "upto" && settled === network,
      );
      const found = kind?.extra?.facilitatorAddress ?? "";
      if (!ADDRESS.test(found))
        throw unavailable(new Error(`the facilitator does not settle upto on ${network}`));
      return found;
    },
  };
}

function authorizationOf({ key }: FacilitatorOptions): Readonly<Record<string, string>> {
  return key === undefined ? {} : { authorization: `Bearer ${key.reveal()}` };
}

function settlementOutcomeOf(
  { status, body }: JsonResponse,
  payment: AnyPayment,
  requirements: PaymentRequirements,
): SettlementOutcome {
  const parsed = SettleBody.safeParse(body);
  if (!parsed.success) return { kind: "unknown", reason: `unreadable response: status ${status}` };
  const { success, errorReason, payer, transaction, network, amount } = parsed.data;
  if (!success) {
    const reason = sanitizeReason(errorReason, "unexpected_settle_error");
    const isDefinite = transaction === "" && status < 500 && !UNCLEAR_REASONS.test(reason);
    return { kind: isDefinite ? "refused" : "unknown", reason };
  }
  const isMatch =
    isSuccess(status) &&
    /^0x[0-9a-fA-F]{64}$/.test(transaction) &&
    network === requirements.network &&
    isPayer(payment, payer) &&
    (amount ?? requirements.amount) === requirements.amount;
  return isMatch
    ? { kind: "paid", transaction: transaction.toLowerCase() }
    : { kind: "unknown", reason: "the settlement does not match the payment" };
}

function postToFacilitator(
  options: FacilitatorOptions,
  endpoint: "verify" | "settle",
  payload: { readonly payment: AnyPayment; readonly requirements: PaymentRequirements },
): Promise<JsonResponse> {
  const { url, verifyTimeoutMs = VERIFY_TIMEOUT_MS, settleTimeoutMs = SETTLE_TIMEOUT_MS } = options;
  return postJson(`${url}/${endpoint}`, {
    headers: authorizationOf(options),
    body: {
      x402Version: X402_VERSION,
      paymentPayload: payload.payment,
      paymentRequirements: payload.requirements,
    },
    timeoutMs: endpoint === "verify" ? verifyTimeoutMs : settleTimeoutMs,
    responseMaxBytes: RESPONSE_MAX_BYTES,
  });
}

function unavailable(cause: unknown): Fault {
  return new Fault("overloaded", "x402 facilitator unavailable", {
    message:
      "The payment could not be verified, because the x402 facilitator is not available. Nothing was charged. Send the same request again in a moment.",
    retryAfterSeconds: 5,
    cause,
  });
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function isPayer({ payload }: AnyPayment, payer: string | null | undefined): boolean {
  const { from } =
    "authorization" in payload ? payload.authorization : payload.permit2Authorization;
  return equalsIgnoreCase(payer ?? from, from);
}

function errorNameOf(cause: unknown): string {
  return cause instanceof Error ? cause.name : String(cause);
}

/** The reason is stored and shown to callers, so it is limited to a short plain text. */
function sanitizeReason(reason: string | null | undefined, fallback: string): string {
  const plain = (reason ?? "").replaceAll(/[^\w .:-]/g, " ").slice(0, REASON_MAX);
  return plain.trim() === "" ? fallback : plain;
}
