/** @jsxImportSource hono/jsx */
// The invoices of a workspace, with links to pay them and to their receipts.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { formatInteger } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { formatCents } from "../../billing/invoices/cents.ts";
import type { Invoice } from "../../billing/invoices/invoices.ts";
import {
  type AgentPaymentMethod,
  PAYMENT_METHOD_TEXTS,
} from "../../billing/payments/agent-payment-rows.ts";
import { Card, EmptyState, Tag, type Tone } from "../../http/pages/components/content.tsx";
import { PostForm } from "../../http/pages/components/form.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { SessionUser } from "../../http/route.ts";
import { workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";

export interface InvoiceItem {
  readonly invoice: Invoice;
  readonly payUrl: string;
  /** Created by auto top-up. */
  readonly isAutoTopUp: boolean;
  /** Set if an agent paid it. */
  readonly agentMethod: AgentPaymentMethod | undefined;
  /** A saved payment method is being charged for it. */
  readonly isPaymentInFlight: boolean;
}

interface InvoiceTableProps extends WorkspaceView {
  readonly invoices: readonly InvoiceItem[];
  readonly olderCursor?: string;
}

export function InvoiceTable({ user, workspace, invoices, olderCursor }: InvoiceTableProps): Child {
  return (
    <Card
      id="invoices"
      title="Invoices"
      aside={
        invoices.length === 0 ? null : (
          <a href={`${workspacePath(workspace.accountId, "/billing")}/invoices.csv`}>Export CSV</a>
        )
      }
    >
      {invoices.length === 0 ? (
        <EmptyState title="No invoices yet">
          <p class="note">Each purchase has an invoice here, and a receipt once it is paid.</p>
        </EmptyState>
      ) : (
        <Table
          label="Invoices"
          columns={[
            { name: "Date" },
            { name: "Invoice", isExtra: true },
            { name: "Status" },
            { name: "Credits", isNumber: true, isExtra: true },
            { name: "Total", isNumber: true },
            { name: "Actions", isNumber: true },
          ]}
          rows={invoices.map((item) => invoiceCells({ item, user, workspace }))}
        />
      )}
      <OlderLink
        path={workspacePath(workspace.accountId, "/billing")}
        query={{}}
        cursor={olderCursor ?? null}
      />
    </Card>
  );
}

interface InvoiceRowProps {
  readonly item: InvoiceItem;
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
}

function invoiceCells(props: InvoiceRowProps): readonly Child[] {
  const { invoice, isAutoTopUp, agentMethod, isPaymentInFlight } = props.item;
  const { id, status, credits, totalCents, taxCents, createdAt } = invoice;
  return [
    <span class="date">
      {utcDay(createdAt)}
      {isAutoTopUp ? <span class="type">auto top-up</span> : null}
      {agentMethod === undefined ? null : (
        <span class="type">paid by an agent {PAYMENT_METHOD_TEXTS[agentMethod]}</span>
      )}
    </span>,
    <code title={id}>{`…${id.slice(-6)}`}</code>,
    isPaymentInFlight ? (
      <Tag tone="warn">processing</Tag>
    ) : (
      <Tag tone={STATUS_TONES[status]}>{status}</Tag>
    ),
    formatInteger(credits),
    formatCents(totalCents + taxCents),
    <InvoiceActions {...props} />,
  ];
}

const STATUS_TONES: Readonly<Record<Invoice["status"], Tone | undefined>> = {
  open: "warn",
  paid: "good",
  void: undefined,
  refunded: undefined,
};

function InvoiceActions({ item, user, workspace }: InvoiceRowProps): Child {
  const { invoice, payUrl, isPaymentInFlight } = item;
  const shortId = <span class="visually-hidden">{`for invoice …${invoice.id.slice(-6)}`}</span>;
  if (invoice.status === "paid" || invoice.status === "refunded")
    return (
      <div class="row-actions">
        <a href={`${payUrl}/receipt`}>Receipt {shortId}</a>
        <a href={`${payUrl}/invoice.pdf`}>PDF {shortId}</a>
      </div>
    );
  if (invoice.status === "void" || isPaymentInFlight) return "–";
  return (
    <div class="row-actions">
      <a href={payUrl}>Pay {shortId}</a>
      {hasPermission(workspace.role, "billing.buy") ? (
        <PostForm
          user={user}
          action={workspacePath(workspace.accountId, "/billing")}
          fields={{ do: "void", invoice: invoice.id }}
        >
          <button type="submit" class="plain" aria-label={`Void the invoice ${invoice.id}`}>
            Void
          </button>
        </PostForm>
      ) : null}
    </div>
  );
}
