/** @jsxImportSource hono/jsx */
// The line items of an invoice, for the invoice page, the receipt and the console's purchase form, and the links of the seller.

import type { Child } from "hono/jsx";
import { LinkList } from "../../http/pages/components/content.tsx";
import { contactHref, operatorLinks } from "../../http/pages/operator-links.ts";
import type { OperatorDetails } from "../billing-deps.ts";
import { feeOf, formatCents, formatCredits, type Purchase } from "./cents.ts";
import type { Invoice } from "./invoices.ts";

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
  const { totalCents, taxCents } = invoice;
  return (
    <LineItemTable
      items={[
        ...purchaseLineItems(invoice),
        ["Tax", isTaxDeferred ? "calculated at checkout" : formatCents(taxCents)],
      ]}
      total={[isTaxDeferred ? "Total before tax" : "Total", formatCents(totalCents + taxCents)]}
      extraItems={extraItems}
    />
  );
}

export function purchaseLineItems(purchase: Purchase): readonly LineItem[] {
  const { credits } = purchase;
  return [
    [`${credits.toLocaleString("en-US")} credits`, formatCredits(credits)],
    ["Platform fee (5%)", formatCredits(feeOf(purchase))],
  ];
}

export function LineItemTable({
  items,
  total,
  extraItems = [],
}: {
  readonly items: readonly LineItem[];
  readonly total: LineItem;
  readonly extraItems?: readonly LineItem[];
}): Child {
  return (
    <table class="line-items">
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
          <LineItemRow label={label} amount={amount} />
        ))}
      </tbody>
      <tfoot>
        {[total, ...extraItems].map(([label, amount]) => (
          <LineItemRow label={label} amount={amount} />
        ))}
      </tfoot>
    </table>
  );
}

function LineItemRow({ label, amount }: { readonly label: Child; readonly amount: Child }): Child {
  return (
    <tr>
      <th scope="row">{label}</th>
      <td class="number">{amount}</td>
    </tr>
  );
}

/** The workspace that gets the credits, with enough of its id to recognize it: the page is open to anyone with the link. */
export function Buyer({
  accountId,
  name,
}: {
  readonly accountId: string;
  readonly name: string | null;
}): Child {
  const id = <code>{`${accountId.slice(0, 9)}…${accountId.slice(-4)}`}</code>;
  return name === null ? (
    <>Workspace {id}</>
  ) : (
    <>
      <bdi>{name}</bdi>
      <span class="type">Workspace {id}</span>
    </>
  );
}

/** The support address, and the seller's other links, after a sentence. */
export function SellerLinks({ operator }: { readonly operator: OperatorDetails }): Child {
  const { contact } = operator;
  return (
    <>
      {contact === undefined ? null : (
        <>
          {" "}
          Questions: <a href={contactHref(contact)}>{contact}</a>
        </>
      )}
      <LinkList links={operatorLinks({ ...operator, contact: undefined })} />
    </>
  );
}
