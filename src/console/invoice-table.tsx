/** @jsxImportSource hono/jsx */
// The invoices of a workspace: how each stands, where it is paid, and its receipt.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import { mayDo } from "../accounts/members.ts";
import type { Invoice } from "../billing/billing.ts";
import { moneyOfCents } from "../billing/cents.ts";
import type { Visitor } from "../http/route.ts";
import { Hidden, pathOf } from "./frame.tsx";
import type { Place } from "./workspace.ts";

export interface ShownInvoice {
  readonly invoice: Invoice;
  readonly payUrl: string;
  /** Bought by itself. */
  readonly isAutomatic: boolean;
  /** A saved method is being charged for it. */
  readonly isBeingPaid: boolean;
}

interface InvoiceTableState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly invoices: readonly ShownInvoice[];
  readonly older?: string;
}

export function InvoiceTable({ visitor, place, invoices, older }: InvoiceTableState): Child {
  return (
    <>
      <h2>Invoices</h2>
      {invoices.length === 0 ? (
        <p>None yet.</p>
      ) : (
        <div class="scroll" role="region" aria-label="Invoices" tabindex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Invoice</th>
                <th scope="col" class="number">
                  Total
                </th>
                <th scope="col">Status</th>
                <th scope="col" aria-label="What can be done" />
              </tr>
            </thead>
            <tbody>
              {invoices.map((shown) => (
                <InvoiceRow shown={shown} visitor={visitor} place={place} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {older === undefined ? null : (
        <p>
          <a href={`${pathOf(place.accountId, "/billing")}?cursor=${older}`}>Older invoices</a>
        </p>
      )}
    </>
  );
}

interface RowProps {
  readonly shown: ShownInvoice;
  readonly visitor: Visitor;
  readonly place: Place;
}

function InvoiceRow({ shown, visitor, place }: RowProps): Child {
  const { invoice, isAutomatic, isBeingPaid } = shown;
  const { id, status, amountCents, feeCents, taxCents, createdAt } = invoice;
  return (
    <tr>
      <th scope="row">
        <code>{`…${id.slice(-6)}`}</code>
        <span class="type">
          {dayOf(createdAt)}
          {isAutomatic ? ", automatic" : ""}
        </span>
      </th>
      <td class="number">{moneyOfCents(amountCents + feeCents + taxCents)}</td>
      <td>{isBeingPaid ? "being paid" : status}</td>
      <td>
        <Ways shown={shown} visitor={visitor} place={place} />
      </td>
    </tr>
  );
}

function Ways({ shown, visitor, place }: RowProps): Child {
  const { invoice, payUrl, isBeingPaid } = shown;
  if (invoice.status === "paid" || invoice.status === "refunded")
    return <a href={`${payUrl}/receipt`}>Receipt</a>;
  if (invoice.status === "void" || isBeingPaid) return null;
  return (
    <>
      <a href={payUrl}>Pay</a>
      {mayDo(place.role, "billing.buy") ? (
        <form method="post" action={pathOf(place.accountId, "/billing")}>
          <Hidden visitor={visitor} fields={{ do: "void", invoice: invoice.id }} />
          <button type="submit" class="quiet" aria-label={`Withdraw the invoice ${invoice.id}`}>
            Withdraw
          </button>
        </form>
      ) : null}
    </>
  );
}
