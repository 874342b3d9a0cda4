/** @jsxImportSource hono/jsx */
// The receipt of a paid invoice, for printing. Its amounts are those of the credited payment.

import type { Child } from "hono/jsx";
import { type Buyer, buyerLines } from "../../accounts/billing-details.ts";
import { utcDay } from "../../base/time.ts";
import { APP_SCRIPT } from "../../http/pages/assets.ts";
import { Details } from "../../http/pages/components/content.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorLinks } from "../../http/pages/operator-links.ts";
import type { OperatorDetails } from "../billing-deps.ts";
import type { Payment } from "../payments/payment-rows.ts";
import { formatCents } from "./cents.ts";
import { type Invoice, invoiceNumber } from "./invoices.ts";
import { InvoiceLineItems, SellerLinks } from "./line-items.tsx";

export interface ReceiptPageProps {
  readonly invoice: Invoice;
  readonly payment: Payment;
  readonly operator: OperatorDetails;
  /** As of the payment. */
  readonly buyer: Buyer;
  readonly pdfUrl: string;
  /** Set for members of the workspace. */
  readonly billingPageUrl?: string;
}

export function receiptPage(props: ReceiptPageProps): PageLayout {
  const { invoice, payment, operator, billingPageUrl } = props;
  const { refundedCents, disputedCents, amountCents } = payment;
  const returns = [
    ["Refunded", refundedCents],
    ["Disputed", disputedCents],
  ] as const;
  const { po_number: poNumber } = props.buyer;
  const returnedCents = refundedCents + disputedCents;
  return {
    title: `Receipt ${invoice.id} – ${operator.name}`,
    isPrivate: true,
    scripts: [APP_SCRIPT],
    main: (
      <article class="receipt">
        {billingPageUrl === undefined ? null : (
          <p class="back">
            <a href={billingPageUrl}>Back to Billing</a>
          </p>
        )}
        <header class="receipt-head">
          <h1>Receipt</h1>
          <span data-print="">
            <a class="button secondary" href={props.pdfUrl}>
              Download PDF
            </a>{" "}
          </span>
        </header>
        <Details
          items={[
            ["Number", invoiceNumber(invoice)],
            ["Invoice", <code>{invoice.id}</code>],
            ["Payment", <code>{payment.id}</code>],
            ["Paid on", utcDay(payment.paidAt)],
            ...(poNumber === null ? [] : [["PO number", poNumber] as const]),
          ]}
        />
        <Parties {...props} />
        <InvoiceLineItems
          invoice={{
            ...invoice,
            credits: payment.credits,
            totalCents: amountCents - payment.taxCents,
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
      </article>
    ),
    footer:
      operatorLinks(operator).length === 0 ? undefined : (
        <p>
          {operator.name}.
          <SellerLinks operator={operator} />
        </p>
      ),
  };
}

function Parties({ operator, buyer }: ReceiptPageProps): Child {
  const [buyerName, ...lines] = buyerLines(buyer);
  return (
    <div class="parties">
      <section aria-labelledby="seller">
        <h2 id="seller">Seller</h2>
        <address>
          <strong>{operator.name}</strong>
          {operator.address.map((line) => (
            <span>{line}</span>
          ))}
          {operator.taxId === undefined ? null : <span>Tax ID {operator.taxId}</span>}
          {operator.contact === undefined ? null : <span>{operator.contact}</span>}
        </address>
      </section>
      <section aria-labelledby="buyer">
        <h2 id="buyer">Buyer</h2>
        <address>
          <strong>
            <bdi>{buyerName}</bdi>
          </strong>
          {lines.map((line) => (
            <span>{line}</span>
          ))}
        </address>
      </section>
    </div>
  );
}
