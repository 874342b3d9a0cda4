/** @jsxImportSource hono/jsx */
// The billing page: balance, buying credits, auto top-up and invoices.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import type { AmountLimits } from "../../billing/invoices/invoices.ts";
import { feeOf, formatCents, usdOfCents } from "../../billing/invoices/cents.ts";
import { purchaseLineItems, LineItemTable } from "../../billing/invoices/line-items.tsx";
import type { AutoTopUpSummary } from "../../billing/top-up/auto-top-up-summary.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { InvoiceTable, type InvoiceItem } from "./invoice-table.tsx";
import { TopUpCard, TopUpNotice, type BillingFormValues } from "./top-up-card.tsx";
import { formatUsd } from "../../base/format.ts";
import type { Balance, WorkspaceContext } from "../authorize.ts";

/** A purchase that awaits confirmation. */
export interface PendingPurchase {
  readonly amountCents: number;
  /** Makes a double click one purchase. */
  readonly idempotencyKey: string;
}

export interface BillingPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly balance: Balance;
  readonly limits: AmountLimits;
  /** Whether tax is calculated during payment. */
  readonly isTaxDeferred: boolean;
  /** Whether payment methods can be saved and charged automatically. */
  readonly canSaveMethods: boolean;
  readonly topUp: AutoTopUpSummary;
  readonly invoices: readonly InvoiceItem[];
  /** The cursor of the older invoices. */
  readonly olderCursor?: string;
  readonly pendingPurchase?: PendingPurchase;
  readonly notice?: string;
  readonly errorMessage?: string;
  /** The values of the rejected form. */
  readonly formValues?: BillingFormValues;
}

export function billingPage(props: BillingPageProps): PageLayout {
  const { user, workspace, balance, notice, errorMessage } = props;
  const { promo, paid, owed = 0n } = balance;
  return consolePage({
    title: "Billing",
    workspace,
    user,
    page: "/billing",
    main: (
      <>
        {errorMessage === undefined ? null : (
          <p id="wrong" class="error" role="alert">
            {errorMessage}
          </p>
        )}
        {notice === undefined ? null : (
          <p class="notice" role="status">
            {notice}
          </p>
        )}
        <TopUpNotice workspace={workspace} topUp={props.topUp} />
        <section class="card" aria-labelledby="balance">
          <h2 id="balance">Balance: {formatUsd(promo + paid)}</h2>
          <p>
            {formatUsd(paid)} paid and {formatUsd(promo)} promotional, which is spent first.
          </p>
          {owed === 0n ? null : (
            <p class="notice danger">
              A bank reversed a payment, and {formatUsd(owed)} of its credits were already spent.
              Calls that cost credits are rejected until new credits have paid this debt.
            </p>
          )}
        </section>
        {hasPermission(workspace.role, "billing.buy") ? (
          <BuyCard {...props} />
        ) : (
          <p class="note">
            Only the owner can buy credits. Anyone with the link to an open invoice can pay it.
          </p>
        )}
        <TopUpCard {...props} />
        <InvoiceTable {...props} />
      </>
    ),
  });
}

function BuyCard({
  user,
  workspace,
  limits,
  pendingPurchase,
  isTaxDeferred,
  formValues,
}: BillingPageProps): Child {
  const action = workspacePath(workspace.accountId, "/billing");
  const { minCents, maxCents } = limits;
  const amountText = formValues?.form === "buy" ? formValues.amount_usd : "";
  return (
    <section class="card" aria-labelledby="buy">
      <h2 id="buy">Buy credits</h2>
      <form method="get" action={action}>
        <label for="buy-amount">Amount (USD)</label>
        <input
          id="buy-amount"
          name="amount_usd"
          inputmode="decimal"
          pattern="[0-9]{1,6}([.][0-9]{1,2})?"
          required
          value={
            pendingPurchase === undefined
              ? amountText
              : String(usdOfCents(pendingPurchase.amountCents))
          }
          aria-describedby="buy-hint"
        />
        <p id="buy-hint" class="hint">
          {formatCents(minCents)} to {formatCents(maxCents)}. One dollar buys 1,000,000 credits. A
          5% platform fee is added.
        </p>
        <div class="actions">
          <button type="submit" class={pendingPurchase === undefined ? undefined : "secondary"}>
            Show price
          </button>
        </div>
      </form>
      {pendingPurchase === undefined ? null : (
        <form method="post" action={action}>
          <PriceTable amountCents={pendingPurchase.amountCents} isTaxDeferred={isTaxDeferred} />
          <HiddenFields
            user={user}
            fields={{
              do: "buy",
              amount_usd: String(usdOfCents(pendingPurchase.amountCents)),
              once: pendingPurchase.idempotencyKey,
            }}
          />
          <div class="actions">
            <button type="submit">Continue to payment</button>
          </div>
        </form>
      )}
    </section>
  );
}

function PriceTable({
  amountCents,
  isTaxDeferred,
}: {
  readonly amountCents: number;
  readonly isTaxDeferred: boolean;
}): Child {
  const feeCents = feeOf(amountCents);
  return (
    <>
      <LineItemTable
        items={[
          ...purchaseLineItems({ amountCents, feeCents }),
          ["Total before tax", formatCents(amountCents + feeCents)],
        ]}
      />
      <p class="hint">
        {isTaxDeferred ? "Tax is calculated during payment." : "No tax is added."} You are charged
        only when you pay.
      </p>
    </>
  );
}
