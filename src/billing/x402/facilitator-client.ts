// The facilitator: whoever checks an agent's signature and brings the transfer to the chain. It is believed where it says
// that a payment was settled, and nowhere else: what it does not say, or says oddly, is an outcome that is not known.

import { z } from "zod";
import { Fault } from "../../base/fault.ts";
import type { Secret } from "../../base/secret.ts";
import { type JsonResponse, postJson } from "./post-json.ts";
import {
  equalsIgnoreCase,
  type PaymentRequirements,
  type SignedPayment,
  X402_VERSION,
} from "./protocol.ts";

/** Both together stay below the minute in which a call's idempotency key waits for its hold. */
const VERIFY_TIMEOUT_MS = 8_000;
const SETTLE_TIMEOUT_MS = 40_000;
const RESPONSE_MAX_BYTES = 65_536;
const REASON_MAX = 120;

/** Outcomes that may hide a transfer: sent and not seen to arrive, or made by somebody else who saw the signature. */
const UNCLEAR_REASONS =
  /pending|nonce_already_used|transaction_failed|transaction_state|transfer_event|unexpected|timeout/;

export interface FacilitatorOptions {
  readonly url: string;
  readonly key?: Secret;
  /** Shorter ones for tests. */
  readonly verifyTimeoutMs?: number;
  readonly settleTimeoutMs?: number;
}

export interface FacilitatorClient {
  /** Why it would not take this payment; undefined where it would. Moves nothing. */
  readonly verify: (
    payment: SignedPayment,
    requirements: PaymentRequirements,
  ) => Promise<string | undefined>;
  readonly settle: (
    payment: SignedPayment,
    requirements: PaymentRequirements,
  ) => Promise<SettlementOutcome>;
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

export function createFacilitatorClient(options: FacilitatorOptions): FacilitatorClient {
  return {
    verify: async (payment, requirement) => {
      const answer = await postToFacilitator(options, "verify", { payment, requirement }).catch(
        (cause: unknown) => {
          throw unreachable(cause);
        },
      );
      const parsed = VerifyBody.safeParse(answer.body);
      if (!parsed.success)
        throw unreachable(new Error(`verify was answered with ${answer.status}`));
      const { isValid, invalidReason, payer } = parsed.data;
      if (!isValid) return sanitizeReason(invalidReason, "unexpected_verify_error");
      if (!isSuccess(answer.status) || !isPayer(payment, payer))
        throw unreachable(new Error(`verify was answered with ${answer.status} and ${payer}`));
      return undefined;
    },
    settle: async (payment, requirement) => {
      try {
        const answer = await postToFacilitator(options, "settle", { payment, requirement });
        return settlementOutcomeOf(answer, payment, requirement);
      } catch (cause) {
        return { kind: "unknown", reason: sanitizeReason(errorNameOf(cause), "no_answer") };
      }
    },
  };
}

function settlementOutcomeOf(
  { status, body }: JsonResponse,
  payment: SignedPayment,
  requirement: PaymentRequirements,
): SettlementOutcome {
  const parsed = SettleBody.safeParse(body);
  if (!parsed.success) return { kind: "unknown", reason: `answered with ${status}` };
  const { success, errorReason, payer, transaction, network, amount } = parsed.data;
  if (!success) {
    const reason = sanitizeReason(errorReason, "unexpected_settle_error");
    const isDefinite = transaction === "" && status < 500 && !UNCLEAR_REASONS.test(reason);
    return { kind: isDefinite ? "refused" : "unknown", reason };
  }
  const isMatch =
    isSuccess(status) &&
    /^0x[0-9a-fA-F]{64}$/.test(transaction) &&
    network === requirement.network &&
    isPayer(payment, payer) &&
    (amount ?? requirement.amount) === requirement.amount;
  return isMatch
    ? { kind: "paid", transaction: transaction.toLowerCase() }
    : { kind: "unknown", reason: "settled something else than was asked for" };
}

function postToFacilitator(
  {
    url,
    key,
    verifyTimeoutMs = VERIFY_TIMEOUT_MS,
    settleTimeoutMs = SETTLE_TIMEOUT_MS,
  }: FacilitatorOptions,
  endpoint: "verify" | "settle",
  payload: { readonly payment: SignedPayment; readonly requirement: PaymentRequirements },
): Promise<JsonResponse> {
  return postJson(`${url}/${endpoint}`, {
    headers: key === undefined ? {} : { authorization: `Bearer ${key.reveal()}` },
    body: {
      x402Version: X402_VERSION,
      paymentPayload: payload.payment,
      paymentRequirements: payload.requirement,
    },
    timeoutMs: endpoint === "verify" ? verifyTimeoutMs : settleTimeoutMs,
    responseMaxBytes: RESPONSE_MAX_BYTES,
  });
}

function unreachable(cause: unknown): Fault {
  return new Fault("overloaded", "the facilitator could not be asked", {
    message:
      "The payment could not be checked: the x402 facilitator does not answer as it should. Nothing was taken. Send the same request again in a moment.",
    retryAfterSeconds: 5,
    cause,
  });
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function isPayer({ payload }: SignedPayment, payer: string | null | undefined): boolean {
  return equalsIgnoreCase(payer ?? payload.authorization.from, payload.authorization.from);
}

function errorNameOf(cause: unknown): string {
  return cause instanceof Error ? cause.name : String(cause);
}

/** It is shown to callers and kept: one plain word, and not a page. */
function sanitizeReason(reason: string | null | undefined, fallback: string): string {
  const plain = (reason ?? "").replaceAll(/[^\w .:-]/g, " ").slice(0, REASON_MAX);
  return plain.trim() === "" ? fallback : plain;
}
