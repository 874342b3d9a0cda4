// The payments that need an operator, as text for a terminal and as JSON.

import { usdText } from "../../base/money/money.ts";
import { formatCents, nanoOfCents } from "../../billing/invoices/cents.ts";
import { timestamp } from "../../http/schemas.ts";
import { tableText } from "../report/report-output.ts";
import { type UnappliedFact, nextStepFor, type UnclearPayment } from "./payment-list.ts";

export interface UnresolvedPayments {
  /** Absent if not requested. */
  readonly unapplied?: readonly UnappliedFact[];
  readonly unclear: readonly UnclearPayment[];
}

export function unresolvedPaymentsText({ unapplied = [], unclear }: UnresolvedPayments): string {
  if (unapplied.length + unclear.length === 0) return "No payments need attention.";
  return [
    ...(unapplied.length === 0 ? [] : [unappliedFactsText(unapplied)]),
    ...unclear.map(unclearPaymentText),
  ].join("\n\n");
}

export function unresolvedPaymentsJson({ unapplied, unclear }: UnresolvedPayments): unknown {
  return {
    object: "payments",
    ...(unapplied === undefined ? {} : { unapplied: unapplied.map(unappliedFactJson) }),
    unclear: unclear.map(unclearPaymentJson),
  };
}

/** An amount as the processor reported it, in any currency. */
export function amountText({ amountCents, currency }: UnappliedFact): string {
  return currency.toLowerCase() === "usd" ? formatCents(amountCents) : `${amountCents} ${currency}`;
}

function unappliedFactsText(unapplied: readonly UnappliedFact[]): string {
  return tableText([
    ["unapplied", "amount", "invoice", "received", "reason"],
    ...unapplied.map((fact) => [
      `${fact.kind.replaceAll("_", " ")}  ${fact.id}`,
      amountText(fact),
      fact.invoiceId,
      timestamp(fact.receivedAt),
      fact.reason ?? "",
    ]),
  ]);
}

function unappliedFactJson(fact: UnappliedFact): unknown {
  return {
    id: fact.id,
    kind: fact.kind,
    invoice_id: fact.invoiceId,
    amount_cents: fact.amountCents,
    currency: fact.currency,
    reason: fact.reason,
    received_at: timestamp(fact.receivedAt),
  };
}

function unclearPaymentText(payment: UnclearPayment): string {
  const { createdAt, expiresAt, reason } = payment;
  return [
    `unclear    ${payment.id}`,
    `account    ${payment.accountId}`,
    `invoice    ${payment.invoiceId}  ${payment.invoiceStatus}`,
    `amount     ${formatCents(payment.amountCents)}`,
    `network    ${payment.network}`,
    `payer      ${payment.payer}`,
    `nonce      ${payment.nonce}`,
    `created    ${timestamp(createdAt)}; signature expired ${timestamp(expiresAt)}`,
    ...(reason === null ? [] : [`status     ${reason}`]),
    `next       ${nextStepFor(payment)}`,
  ].join("\n");
}

function unclearPaymentJson(payment: UnclearPayment): unknown {
  return {
    id: payment.id,
    account_id: payment.accountId,
    invoice_id: payment.invoiceId,
    invoice_status: payment.invoiceStatus,
    amount_usd: usdText(nanoOfCents(payment.amountCents)),
    network: payment.network,
    asset: payment.asset,
    payer: payment.payer,
    pay_to: payment.payTo,
    nonce: payment.nonce,
    reason: payment.reason,
    created_at: timestamp(payment.createdAt),
    expires_at: timestamp(payment.expiresAt),
    next: nextStepFor(payment),
  };
}
