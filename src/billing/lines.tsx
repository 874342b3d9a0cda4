/** @jsxImportSource hono/jsx */
// What an invoice is made of, as the pay page and the receipt show it, and the console before there is one: the same
// lines, which add up to the total.

import type { Child } from "hono/jsx";
import type { Invoice } from "./billing.ts";
import { creditsOfCents, moneyOfCents } from "./cents.ts";

type Line = readonly [label: Child, amount: Child];

export interface LinesState {
  readonly invoice: Invoice;
  /** Tax is not known before it is paid, where the processor works it out. */
  readonly taxLater: boolean;
  /** Further lines after the total: what went back. */
  readonly after?: readonly Line[];
}

export function Lines({ invoice, taxLater, after = [] }: LinesState): Child {
  const { amountCents, feeCents, taxCents } = invoice;
  const total = moneyOfCents(amountCents + feeCents + taxCents);
  return (
    <LineTable
      lines={[
        ...boughtLines(invoice),
        ["Tax", taxLater ? "worked out as you pay" : moneyOfCents(taxCents)],
        [<strong>{taxLater ? "Total before tax" : "Total"}</strong>, <strong>{total}</strong>],
        ...after,
      ]}
    />
  );
}

/** The credits, and the fee for them. */
export function boughtLines({
  amountCents,
  feeCents,
}: Pick<Invoice, "amountCents" | "feeCents">): readonly Line[] {
  return [
    [`${creditsOfCents(amountCents).toLocaleString("en-US")} credits`, moneyOfCents(amountCents)],
    ["Platform fee, 5 %", moneyOfCents(feeCents)],
  ];
}

export function LineTable({ lines }: { readonly lines: readonly Line[] }): Child {
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
        {lines.map(([label, amount]) => (
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
