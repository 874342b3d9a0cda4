/** @jsxImportSource hono/jsx */
// The invoices of a workspace, with links to pay them and to their receipts.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import type { Invoice } from "../../billing/invoices/invoices.ts";
import { formatCents } from "../../billing/invoices/cents.ts";
import type { SessionUser } from "../../http/route.ts";
import { HiddenFields, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../authorize.ts";

export interface InvoiceItem {
  readonly invoice: Invoice;
  readonly payUrl: string;
  /** Created by auto top-up. */
  readonly isAutoTopUp: boolean;
  /** A saved payment method is being charged for it. */
  readonly isPaymentInFlight: boolean;
}

interface InvoiceTableProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly invoices: readonly InvoiceItem[];
  readonly olderCursor?: string;
}

export function InvoiceTable({ user, workspace, invoices, olderCursor }: InvoiceTableProps): Child {
  return (
    <>
      <h2>Invoices</h2>
      {invoices.length === 0 ? (
        <p>No invoices yet.</p>
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
                <th scope="col" aria-label="Actions" />
              </tr>
            </thead>
            <tbody>
              {invoices.map((item) => (
                <InvoiceRow item={item} user={user} workspace={workspace} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {olderCursor === undefined ? null : (
        <p>
          <a href={`${workspacePath(workspace.accountId, "/billing")}?cursor=${olderCursor}`}>
            Older invoices
          </a>
        </p>
      )}
    </>
  );
}

interface InvoiceRowProps {
  readonly item: InvoiceItem;
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
}

function InvoiceRow({ item, user, workspace }: InvoiceRowProps): Child {
  const { invoice, isAutoTopUp, isPaymentInFlight } = item;
  const { id, status, amountCents, feeCents, taxCents, createdAt } = invoice;
  return (
    <tr>
      <th scope="row">
        <code>{`…${id.slice(-6)}`}</code>
        <span class="type">
          {utcDay(createdAt)}
          {isAutoTopUp ? ", auto top-up" : ""}
        </span>
      </th>
      <td class="number">{formatCents(amountCents + feeCents + taxCents)}</td>
      <td>{isPaymentInFlight ? "processing" : status}</td>
      <td>
        <InvoiceActions item={item} user={user} workspace={workspace} />
      </td>
    </tr>
  );
}

function InvoiceActions({ item, user, workspace }: InvoiceRowProps): Child {
  const { invoice, payUrl, isPaymentInFlight } = item;
  if (invoice.status === "paid" || invoice.status === "refunded")
    return <a href={`${payUrl}/receipt`}>Receipt</a>;
  if (invoice.status === "void" || isPaymentInFlight) return null;
  return (
    <>
      <a href={payUrl}>Pay</a>
      {hasPermission(workspace.role, "billing.buy") ? (
        <form method="post" action={workspacePath(workspace.accountId, "/billing")}>
          <HiddenFields user={user} fields={{ do: "void", invoice: invoice.id }} />
          <button type="submit" class="secondary" aria-label={`Void the invoice ${invoice.id}`}>
            Void
          </button>
        </form>
      ) : null}
    </>
  );
}
