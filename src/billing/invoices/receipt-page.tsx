/** @jsxImportSource hono/jsx */
// The receipt of a paid invoice, for printing. Its amounts are those of the credited payment.

import { utcDay } from "../../base/time.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Invoice } from "./invoices.ts";
import { formatCents } from "./cents.ts";
import { InvoiceLineItems, maskedAccount } from "./line-items.tsx";
import type { Payment } from "../payments/payment-rows.ts";
import type { OperatorDetails } from "../billing-deps.ts";

export interface ReceiptPageProps {
  readonly invoice: Invoice;
  readonly payment: Payment;
  readonly operator: OperatorDetails;
}

export function receiptPage({ invoice, payment, operator }: ReceiptPageProps): PageLayout {
  const { refundedCents, disputedCents, amountCents } = payment;
  const returns = [
    ["Refunded", refundedCents],
    ["Disputed", disputedCents],
  ] as const;
  const returnedCents = refundedCents + disputedCents;
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
              Tax ID {operator.taxId}
            </>
          )}
        </p>
        <dl class="details">
          <dt>Invoice</dt>
          <dd>
            <code>{invoice.id}</code>
          </dd>
          <dt>Paid on</dt>
          <dd>{utcDay(payment.paidAt)}</dd>
          <dt>Payment</dt>
          <dd>
            <code>{payment.id}</code>
          </dd>
          <dt>Workspace</dt>
          <dd>
            <code>{maskedAccount(invoice.accountId)}</code>
          </dd>
        </dl>
        <InvoiceLineItems
          invoice={{
            ...invoice,
            amountCents: payment.creditCents,
            feeCents: payment.feeCents,
            taxCents: payment.taxCents,
          }}
          isTaxDeferred={false}
          extraItems={[
            ...returns.flatMap(([label, cents]) =>
              cents === 0 ? [] : [[label, `−${formatCents(cents)}`] as const],
            ),
            ...(returnedCents === 0 || returnedCents > amountCents
              ? []
              : [["Paid after refunds", formatCents(amountCents - returnedCents)] as const]),
          ]}
        />
      </>
    ),
    footer: operator.contact === undefined ? undefined : <p>Questions: {operator.contact}</p>,
  };
}
