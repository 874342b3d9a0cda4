/** @jsxImportSource hono/jsx */
// The line items of an invoice, for the invoice page, the receipt and the console's purchase form.

import type { Child } from "hono/jsx";
import type { Invoice } from "./invoices.ts";
import { creditsOfCents, formatCents } from "./cents.ts";

type LineItem = readonly [label: Child, amount: Child];

export interface InvoiceLineItemsProps {
  readonly invoice: Invoice;
  /** The processor calculates the tax during checkout, so it is not known yet. */
  readonly isTaxDeferred: boolean;
  /** Lines after the total: refunds and disputes. */
  readonly extraItems?: readonly LineItem[];
}

export function InvoiceLineItems({
  invoice,
  isTaxDeferred,
  extraItems = [],
}: InvoiceLineItemsProps): Child {
  const { amountCents, feeCents, taxCents } = invoice;
  const total = formatCents(amountCents + feeCents + taxCents);
  return (
    <LineItemTable
      items={[
        ...purchaseLineItems(invoice),
        ["Tax", isTaxDeferred ? "calculated at checkout" : formatCents(taxCents)],
        [<strong>{isTaxDeferred ? "Total before tax" : "Total"}</strong>, <strong>{total}</strong>],
        ...extraItems,
      ]}
    />
  );
}

export function purchaseLineItems({
  amountCents,
  feeCents,
}: Pick<Invoice, "amountCents" | "feeCents">): readonly LineItem[] {
  return [
    [`${creditsOfCents(amountCents).toLocaleString("en-US")} credits`, formatCents(amountCents)],
    ["Platform fee (5%)", formatCents(feeCents)],
  ];
}

export function LineItemTable({ items }: { readonly items: readonly LineItem[] }): Child {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Item</th>
          <th scope="col" class="number">
            Amount (USD)
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map(([label, amount]) => (
          <tr>
            <th scope="row">{label}</th>
            <td class="number">{amount}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Shows enough of the id to recognize one's own account; the page is open to anyone with the link. */
export function maskedAccount(accountId: string): string {
  return `${accountId.slice(0, 9)}…${accountId.slice(-4)}`;
}
