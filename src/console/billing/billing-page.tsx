/** @jsxImportSource hono/jsx */
// The billing of a workspace: what is left, how more is bought, by hand or by itself, and every invoice.

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

/** What somebody is about to buy, and the token by which two clicks are one purchase. */
export interface PendingPurchase {
  readonly amountCents: number;
  readonly idempotencyKey: string;
}

export interface BillingPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly balance: Balance;
  readonly limits: AmountLimits;
  /** The tax is worked out while somebody pays. */
  readonly isTaxDeferred: boolean;
  /** Whether there is anything that could be charged by itself. */
  readonly canSaveMethods: boolean;
  readonly topUp: AutoTopUpSummary;
  readonly invoices: readonly InvoiceItem[];
  /** Where older invoices are. */
  readonly olderCursor?: string;
  readonly pendingPurchase?: PendingPurchase;
  readonly notice?: string;
  readonly errorMessage?: string;
  /** What was typed into the form that was refused, by its fields. */
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
          <h2 id="balance">{formatUsd(promo + paid)} left</h2>
          <p>
            {formatUsd(paid)} bought and {formatUsd(promo)} given, which is spent first.
          </p>
          {owed === 0n ? null : (
            <p class="notice danger">
              A bank took a payment back whose credits were spent. {formatUsd(owed)} is owed, and
              calls that cost credits are refused until credits that are bought have paid it.
            </p>
          )}
        </section>
        {hasPermission(workspace.role, "billing.buy") ? (
          <BuyCard {...props} />
        ) : (
          <p class="note">
            The owner buys credits. Anybody who has the address of an open invoice can pay it.
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
        <label for="buy-amount">Amount in US dollars</label>
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
          From {formatCents(minCents)} to {formatCents(maxCents)}. A dollar buys 1,000,000 credits;
          a platform fee of 5 % comes on top.
        </p>
        <div class="actions">
          <button type="submit" class={pendingPurchase === undefined ? undefined : "secondary"}>
            Show the price
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
            <button type="submit">Go on to pay</button>
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
        {isTaxDeferred ? "Tax is worked out as you pay." : "No tax is added."} Nothing is charged
        until you pay.
      </p>
    </>
  );
}
