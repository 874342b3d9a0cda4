// The payments that need an operator, as text for a terminal, and as JSON for programs.

import { usdText } from "../base/money.ts";
import { moneyOfCents, nanoOfCents } from "../billing/cents.ts";
import { type AsideFact, nextStepOf, type UnclearPayment } from "./payments.ts";
import { tableText } from "./report-text.ts";

export interface LooseEnds {
  /** Absent where they were not asked for. */
  readonly aside?: readonly AsideFact[];
  readonly unclear: readonly UnclearPayment[];
}

export function looseEndsText({ aside = [], unclear }: LooseEnds): string {
  if (aside.length + unclear.length === 0) return "No payment needs you.";
  return [...(aside.length === 0 ? [] : [asideText(aside)]), ...unclear.map(unclearText)].join(
    "\n\n",
  );
}

export function looseEndsJson({ aside, unclear }: LooseEnds): unknown {
  return {
    object: "payments",
    ...(aside === undefined ? {} : { aside: aside.map(asideJson) }),
    unclear: unclear.map(unclearJson),
  };
}

/** An amount that a processor said, which need not be of dollars. */
export function amountText({ amountCents, currency }: AsideFact): string {
  return currency.toLowerCase() === "usd"
    ? moneyOfCents(amountCents)
    : `${amountCents} ${currency}`;
}

function asideText(aside: readonly AsideFact[]): string {
  return tableText([
    ["did not fit", "amount", "invoice", "heard", "why"],
    ...aside.map((fact) => [
      `${fact.kind.replaceAll("_", " ")}  ${fact.id}`,
      amountText(fact),
      fact.invoiceId,
      dateText(fact.heardAt),
      fact.reason ?? "",
    ]),
  ]);
}

function asideJson(fact: AsideFact): unknown {
  return {
    id: fact.id,
    kind: fact.kind,
    invoice_id: fact.invoiceId,
    amount_cents: fact.amountCents,
    currency: fact.currency,
    reason: fact.reason,
    heard_at: dateText(fact.heardAt),
  };
}

function unclearText(payment: UnclearPayment): string {
  const { createdAt, expiresAt, reason } = payment;
  return [
    `unclear    ${payment.id}`,
    `account    ${payment.accountId}`,
    `invoice    ${payment.invoiceId}  ${payment.invoiceStatus}`,
    `amount     ${moneyOfCents(payment.amountCents)}`,
    `network    ${payment.network}`,
    `payer      ${payment.payer}`,
    `nonce      ${payment.nonce}`,
    `when       ${dateText(createdAt)}; its signature expired ${dateText(expiresAt)}`,
    ...(reason === null ? [] : [`heard      ${reason}`]),
    `next       ${nextStepOf(payment)}`,
  ].join("\n");
}

function unclearJson(payment: UnclearPayment): unknown {
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
    created_at: dateText(payment.createdAt),
    expires_at: dateText(payment.expiresAt),
    next: nextStepOf(payment),
  };
}

function dateText(at: number): string {
  return new Date(at).toISOString();
}
