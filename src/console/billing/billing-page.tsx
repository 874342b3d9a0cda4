/** @jsxImportSource hono/jsx */
// The billing page: balance, auto top-up, alerts and invoices.

import type { Child } from "hono/jsx";
import type { BillingDetails } from "../../accounts/billing-details.ts";
import { hasPermission } from "../../accounts/members.ts";
import { type Nano, usdText } from "../../base/money/money.ts";
import { formatInteger, formatSum, formatUsd } from "../../base/text/format.ts";
import { formatCredits } from "../../billing/invoices/cents.ts";
import type { Invoice } from "../../billing/invoices/invoices.ts";
import type { AutoTopUpSummary } from "../../billing/top-up/auto-top-up.ts";
import { Figures, Notice, Card, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Wallet } from "../../ledger/decide.ts";
import type { ServiceCredit } from "../../service-levels/service-credits.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { buyPath } from "./buy-page.tsx";
import { DetailsCard } from "./details-card.tsx";
import { InvoiceTable, type InvoiceItem } from "./invoice-table.tsx";
import type { RejectedForm } from "./rejected-form.ts";
import { TopUpCard, TopUpNotice } from "./top-up-card.tsx";

export interface BillingPageProps extends WorkspaceView {
  readonly balance: Wallet;
  /** Below it, `balance.low` is sent; 0 if that is off. */
  readonly lowThreshold: Nano;
  /** Whether payment methods can be saved and charged automatically. */
  readonly canSaveMethods: boolean;
  readonly topUp: AutoTopUpSummary;
  readonly details: BillingDetails;
  /** The newest. */
  readonly serviceCredits: readonly ServiceCredit[];
  /** The newest day with a ledger proof. */
  readonly provenDay: string | undefined;
  readonly invoices: readonly InvoiceItem[];
  /** The cursor of the older invoices. */
  readonly olderCursor?: string;
  /** The invoice whose payment led back to this page. */
  readonly returned?: { readonly invoice: Invoice; readonly payUrl: string } | undefined;
  readonly done?: string | undefined;
  readonly rejected?: RejectedForm;
}

export function billingPage(props: BillingPageProps): PageLayout {
  const { user, workspace, balance, rejected } = props;
  const canBuy = hasPermission(workspace.role, "billing.buy");
  const { promo, paid, held, owed = 0n } = balance;
  const sum = formatSum([paid, promo]);
  const pageError = rejected?.form === undefined ? rejected?.error.message : undefined;
  return consolePage({
    title: "Billing",
    workspace,
    user,
    page: "/billing",
    actions: canBuy ? (
      <a class="button" href={buyPath(workspace.accountId)}>
        Buy credits
      </a>
    ) : undefined,
    main: (
      <>
        <ErrorMessage message={pageError} />
        {props.returned === undefined ? null : <ReturnNotice {...props.returned} />}
        <DoneNotice texts={DONE_TEXTS} done={props.done} />
        <TopUpNotice workspace={workspace} topUp={props.topUp} />
        {owed === 0n ? null : (
          <Notice tone="danger">
            This workspace owes {formatUsd(owed)}: a call cost more than its credits, or a bank
            reversed a payment. Calls that cost credits are rejected until new credits have paid
            this debt.
          </Notice>
        )}
        {canBuy ? null : (
          <p class="note">
            Only owners, admins and billing members can buy credits. Anyone with the link to an open
            invoice can pay it.
          </p>
        )}
        <Figures
          figures={[
            { label: "Balance", value: sum.total, remark: creditsText(promo + paid) },
            { label: "Purchased", value: sum.parts[0], remark: "spent after promotional" },
            { label: "Promotional", value: sum.parts[1], remark: "spent first" },
            { label: "On hold", value: formatUsd(held), remark: "for running calls" },
          ]}
        />
        <div class="side-by-side">
          <TopUpCard {...props} />
          <AlertCard {...props} />
        </div>
        <p class="note">
          <a href={workspacePath(workspace.accountId, "/budgets")}>Budgets</a> limit a day or a
          month and alert at 50%, 80% and 100%.{" "}
          <a href={workspacePath(workspace.accountId, "/keys")}>Keys</a> can have a limit and alerts
          of their own.
          {workspace.sendsEmails ? (
            <>
              {" "}
              Choose which alerts you get in <a href="/emails">your emails</a>.
            </>
          ) : null}
        </p>
        <InvoiceTable {...props} />
        <ServiceCreditCard {...props} />
        <DetailsCard {...props} />
        <ProofCard {...props} />
      </>
    ),
  });
}

/** Nothing before the first published day. */
function ProofCard({
  workspace,
  provenDay,
}: Pick<BillingPageProps, "workspace" | "provenDay">): Child {
  if (provenDay === undefined) return null;
  return (
    <Card
      id="ledger-proof"
      title="Ledger proof"
      aside={<a href="/docs/ledger-proofs">How to verify it</a>}
    >
      <p>
        Proves that the balance of {provenDay} (UTC) and its entries are in the roots that this
        gateway published.
      </p>
      <a
        class="button secondary"
        href={`${workspacePath(workspace.accountId, "/billing")}/ledger-proof.json`}
      >
        Download the proof
      </a>
    </Card>
  );
}

/** Nothing without credits: most gateways have no service levels. */
function ServiceCreditCard({ serviceCredits }: Pick<BillingPageProps, "serviceCredits">): Child {
  if (serviceCredits.length === 0) return null;
  return (
    <Card
      id="service-credits"
      title="Service credits"
      aside={<a href="/docs/sla">Service levels</a>}
    >
      <Table
        label="Service credits"
        isStacked
        columns={[
          { name: "Date", isDate: true },
          { name: "Reason", isWide: true },
          { name: "Credit", isNumber: true },
        ]}
        rows={serviceCredits.map(({ createdAt, reason, amount }) => [
          <RelativeTime at={createdAt} />,
          reason,
          formatUsd(amount),
        ])}
      />
    </Card>
  );
}

const NANO_PER_CREDIT = 1_000n;

function creditsText(amount: Nano): string {
  return `${formatInteger(Number(amount / NANO_PER_CREDIT))} credits`;
}

const DONE_TEXTS = {
  method_saved: "The payment method is saved. To turn on auto top-up, set its amounts below.",
  method_pending: "The payment method is being confirmed. Reload this page in a moment.",
  method_removed: "The payment method is removed, and auto top-up is off.",
  top_up_on: "Auto top-up is on.",
  top_up_off: "Auto top-up is off.",
  details_saved: "The billing details are saved. They are on invoices that are paid from now on.",
  alert_saved: "The low-balance alert is saved.",
  invoice_voided: "The invoice is voided. It can no longer be paid.",
  payment_unavailable:
    "The payment service is not available at the moment. Nothing was charged. The invoice is saved below, so that you can pay it later.",
} as const;

export type BillingDone = keyof typeof DONE_TEXTS;

function ReturnNotice({
  invoice: { status, credits },
  payUrl,
}: {
  readonly invoice: Invoice;
  readonly payUrl: string;
}): Child {
  switch (status) {
    case "paid":
      return (
        <Notice link={{ href: `${payUrl}/receipt`, label: "Receipt" }}>
          Payment received. {formatInteger(credits)} credits ({formatCredits(credits)}) were added.
        </Notice>
      );
    case "open":
      return (
        <Notice tone="warn" link={{ href: payUrl, label: "Invoice" }}>
          The payment is being confirmed. The credits are added as soon as it is. Some payments take
          days.
        </Notice>
      );
    case "void":
    case "refunded":
      return null;
  }
}

/** @jsxImportSource hono/jsx */
// The low-balance alert, and where the other alerts on spending are set.
interface AlertCardProps extends WorkspaceView {
  readonly lowThreshold: Nano;
  readonly rejected?: RejectedForm;
}

function AlertCard({ user, workspace, lowThreshold, rejected }: AlertCardProps): Child {
  const { accountId, role } = workspace;
  const form = rejected?.form === "alert" ? rejected : undefined;
  const isOn = lowThreshold > 0n;
  return (
    <Card
      id="alerts"
      title="Low-balance alert"
      aside={<Tag tone={isOn ? "good" : undefined}>{isOn ? "on" : "off"}</Tag>}
    >
      {hasPermission(role, "billing.buy") ? (
        <PostForm
          user={user}
          action={workspacePath(accountId, "/billing")}
          fields={{ do: "alert" }}
          submit="Save alert"
          isSecondary
        >
          <Field
            id="low-usd"
            name="low_usd"
            label="Alert when the balance falls below (USD)"
            inputMode="decimal"
            value={form?.values["low_usd"] ?? usdText(lowThreshold)}
            error={form?.error.message}
            hint={`Sent ${workspace.sendsEmails ? "by email and " : ""}to webhooks. 0 turns the alert off.`}
            isRequired
          />
        </PostForm>
      ) : (
        <p>
          {isOn
            ? `An alert is sent when the balance falls below ${formatUsd(lowThreshold)}.`
            : "No alert is sent when the balance is low."}
        </p>
      )}
    </Card>
  );
}
