/** @jsxImportSource hono/jsx */
// What an invoice is made of, as the pay page and the receipt show it, and the console before there is one: the same
// lines, which add up to the total.

import type { Child } from "hono/jsx";
import type { Invoice } from "./invoices.ts";
import { creditsOfCents, formatCents } from "./cents.ts";

type LineItem = readonly [label: Child, amount: Child];

export interface InvoiceLineItemsProps {
  readonly invoice: Invoice;
  /** Tax is not known before it is paid, where the processor works it out. */
  readonly isTaxDeferred: boolean;
  /** Further lines after the total: what went back. */
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
        ["Tax", isTaxDeferred ? "worked out as you pay" : formatCents(taxCents)],
        [<strong>{isTaxDeferred ? "Total before tax" : "Total"}</strong>, <strong>{total}</strong>],
        ...extraItems,
      ]}
    />
  );
}

/** The credits, and the fee for them. */
export function purchaseLineItems({
  amountCents,
  feeCents,
}: Pick<Invoice, "amountCents" | "feeCents">): readonly LineItem[] {
  return [
    [`${creditsOfCents(amountCents).toLocaleString("en-US")} credits`, formatCents(amountCents)],
    ["Platform fee, 5 %", formatCents(feeCents)],
  ];
}

export function LineItemTable({ items }: { readonly items: readonly LineItem[] }): Child {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">What</th>
          <th scope="col" class="number">
            US dollars
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

/** Enough of an account's id to know one's own by, and not enough to name it. */
export function maskedAccount(accountId: string): string {
  return `${accountId.slice(0, 9)}…${accountId.slice(-4)}`;
}
