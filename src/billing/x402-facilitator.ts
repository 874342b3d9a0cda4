// The facilitator: whoever checks an agent's signature and brings the transfer to the chain. It is believed where it says
// that a payment was settled, and nowhere else: what it does not say, or says oddly, is an outcome that is not known.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import type { Secret } from "../base/secret.ts";
import { type Answer, ask } from "./x402-ask.ts";
import { isSame, type Requirement, type SignedPayment, X402_VERSION } from "./x402-terms.ts";

/** Both together stay below the minute in which a call's idempotency key waits for its hold. */
const VERIFY_MS = 8_000;
const SETTLE_MS = 40_000;
const ANSWER_MAX_BYTES = 65_536;
const REASON_MAX = 120;

/** Outcomes that may hide a transfer: sent and not seen to arrive, or made by somebody else who saw the signature. */
const UNCLEAR_REASONS =
  /pending|nonce_already_used|transaction_failed|transaction_state|transfer_event|unexpected|timeout/;

export interface FacilitatorPlace {
  readonly url: string;
  readonly key?: Secret;
  /** Shorter ones for tests. */
  readonly verifyMs?: number;
  readonly settleMs?: number;
}

export interface Facilitator {
  /** Why it would not take this payment; undefined where it would. Moves nothing. */
  readonly refusal: (
    payment: SignedPayment,
    requirement: Requirement,
  ) => Promise<string | undefined>;
  readonly settle: (payment: SignedPayment, requirement: Requirement) => Promise<Settlement>;
}

export type Settlement =
  | { readonly kind: "paid"; readonly transaction: string }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "unknown"; readonly reason: string };

const VerifyAnswer = z.object({
  isValid: z.boolean(),
  invalidReason: z.string().nullish(),
  payer: z.string().nullish(),
});

const SettleAnswer = z.object({
  success: z.boolean(),
  errorReason: z.string().nullish(),
  payer: z.string().nullish(),
  transaction: z.string(),
  network: z.string(),
  amount: z.string().nullish(),
});

export function openFacilitator(place: FacilitatorPlace): Facilitator {
  return {
    refusal: async (payment, requirement) => {
      const answer = await askFor(place, "verify", { payment, requirement }).catch(
        (cause: unknown) => {
          throw unreachable(cause);
        },
      );
      const said = VerifyAnswer.safeParse(answer.body);
      if (!said.success) throw unreachable(new Error(`verify was answered with ${answer.status}`));
      const { isValid, invalidReason, payer } = said.data;
      if (!isValid) return reasonOf(invalidReason, "unexpected_verify_error");
      if (!isOk(answer.status) || !isPayer(payment, payer))
        throw unreachable(new Error(`verify was answered with ${answer.status} and ${payer}`));
      return undefined;
    },
    settle: async (payment, requirement) => {
      try {
        const answer = await askFor(place, "settle", { payment, requirement });
        return settlementOf(answer, payment, requirement);
      } catch (cause) {
        return { kind: "unknown", reason: reasonOf(messageOf(cause), "no_answer") };
      }
    },
  };
}

function settlementOf(
  { status, body }: Answer,
  payment: SignedPayment,
  requirement: Requirement,
): Settlement {
  const said = SettleAnswer.safeParse(body);
  if (!said.success) return { kind: "unknown", reason: `answered with ${status}` };
  const { success, errorReason, payer, transaction, network, amount } = said.data;
  if (!success) {
    const reason = reasonOf(errorReason, "unexpected_settle_error");
    const isPlain = transaction === "" && status < 500 && !UNCLEAR_REASONS.test(reason);
    return { kind: isPlain ? "refused" : "unknown", reason };
  }
  const fits =
    isOk(status) &&
    /^0x[0-9a-fA-F]{64}$/.test(transaction) &&
    network === requirement.network &&
    isPayer(payment, payer) &&
    (amount ?? requirement.amount) === requirement.amount;
  return fits
    ? { kind: "paid", transaction: transaction.toLowerCase() }
    : { kind: "unknown", reason: "settled something else than was asked for" };
}

function askFor(
  { url, key, verifyMs = VERIFY_MS, settleMs = SETTLE_MS }: FacilitatorPlace,
  what: "verify" | "settle",
  sent: { readonly payment: SignedPayment; readonly requirement: Requirement },
): Promise<Answer> {
  return ask(`${url}/${what}`, {
    headers: key === undefined ? {} : { authorization: `Bearer ${key.reveal()}` },
    body: {
      x402Version: X402_VERSION,
      paymentPayload: sent.payment,
      paymentRequirements: sent.requirement,
    },
    timeoutMs: what === "verify" ? verifyMs : settleMs,
    answerMaxBytes: ANSWER_MAX_BYTES,
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

function isOk(status: number): boolean {
  return status >= 200 && status < 300;
}

function isPayer({ payload }: SignedPayment, payer: string | null | undefined): boolean {
  return isSame(payer ?? payload.authorization.from, payload.authorization.from);
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.name : String(cause);
}

/** It is shown to callers and kept: one plain word, and not a page. */
function reasonOf(reason: string | null | undefined, fallback: string): string {
  const plain = (reason ?? "").replaceAll(/[^\w .:-]/g, " ").slice(0, REASON_MAX);
  return plain.trim() === "" ? fallback : plain;
}
