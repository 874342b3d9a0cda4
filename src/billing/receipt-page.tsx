/** @jsxImportSource hono/jsx */
// A receipt to print or keep. Its amounts are those of the payment that the ledger credited.

import { dayOf } from "../base/day.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Invoice } from "./billing.ts";
import { moneyOfCents } from "./cents.ts";
import { Lines, maskedAccount } from "./lines.tsx";
import type { Payment } from "./payment-rows.ts";
import type { Operator } from "./till.ts";

export interface ReceiptState {
  readonly invoice: Invoice;
  readonly payment: Payment;
  readonly operator: Operator;
}

export function receiptPage({ invoice, payment, operator }: ReceiptState): PageFrame {
  const { refundedCents, disputedCents, amountCents } = payment;
  const went = [
    ["Given back", refundedCents],
    ["Taken back by the bank", disputedCents],
  ] as const;
  const gone = refundedCents + disputedCents;
  return {
    title: `Receipt ${invoice.id} – ${operator.name}`,
    isPrivate: true,
    main: (
      <>
        <h1>Receipt</h1>
        <p>
          <strong>{operator.name}</strong>
          {operator.address.map((line) => (
            <>
              <br />
              {line}
            </>
          ))}
          {operator.taxId === undefined ? null : (
            <>
              <br />
              Tax id {operator.taxId}
            </>
          )}
        </p>
        <dl class="facts">
          <dt>Receipt for</dt>
          <dd>
            <code>{invoice.id}</code>
          </dd>
          <dt>Paid on</dt>
          <dd>{dayOf(payment.paidAt)}</dd>
          <dt>Paid with</dt>
          <dd>
            <code>{payment.id}</code>
          </dd>
          <dt>Workspace</dt>
          <dd>
            <code>{maskedAccount(invoice.accountId)}</code>
          </dd>
        </dl>
        <Lines
          invoice={{
            ...invoice,
            amountCents: payment.creditCents,
            feeCents: payment.feeCents,
            taxCents: payment.taxCents,
          }}
          taxLater={false}
          after={[
            ...went.flatMap(([label, cents]) =>
              cents === 0 ? [] : [[label, `−${moneyOfCents(cents)}`] as const],
            ),
            ...(gone === 0 || gone > amountCents
              ? []
              : [["What stays paid", moneyOfCents(amountCents - gone)] as const]),
          ]}
        />
      </>
    ),
    foot: operator.contact === undefined ? undefined : <p>Questions: {operator.contact}</p>,
  };
}
