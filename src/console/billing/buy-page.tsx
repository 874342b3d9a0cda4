/** @jsxImportSource hono/jsx */
// Buying credits in two steps: the amount, then the price. The payment itself is made on the processor's page.

import type { Child } from "hono/jsx";
import { creditsOfCents, formatCents, priceOf, usdOfCents } from "../../billing/invoices/cents.ts";
import type { AmountLimits } from "../../billing/invoices/invoices.ts";
import { LineItemTable, purchaseLineItems } from "../../billing/invoices/line-items.tsx";
import type { PaymentProcessor } from "../../billing/payments/payment-processor.ts";
import { Card } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import { withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";

const SUGGESTED_USD = [10, 25, 100, 500] as const;

export interface BuyPageProps extends WorkspaceView {
  readonly limits: AmountLimits;
  readonly processor: PaymentProcessor;
  /** The entered values. */
  readonly amountText?: string | undefined;
  readonly error?: FormError;
  /** The second step. */
  readonly purchase?: PendingPurchase;
}

/** A purchase that awaits confirmation. */
interface PendingPurchase {
  readonly amountCents: number;
  /** Makes a double click one purchase. */
  readonly idempotencyKey: string;
}

export function buyPath(accountId: string, query: Readonly<Record<string, string>> = {}): string {
  return withQuery(`${workspacePath(accountId, "/billing")}/buy`, query);
}

export function buyPage(props: BuyPageProps): PageLayout {
  const { user, workspace, purchase } = props;
  return consolePage({
    title: "Buy credits",
    workspace,
    user,
    page: "/billing",
    crumbs: [{ href: workspacePath(workspace.accountId, "/billing"), label: "Billing" }],
    main: (
      <div class="narrow">
        <ol class="steps">
          <li aria-current={purchase === undefined ? "step" : undefined}>Amount</li>
          <li aria-current={purchase === undefined ? undefined : "step"}>Review and pay</li>
        </ol>
        {purchase === undefined ? (
          <AmountStep {...props} />
        ) : (
          <ReviewStep {...props} purchase={purchase} />
        )}
      </div>
    ),
  });
}

function AmountStep({ workspace, limits, amountText, error }: BuyPageProps): Child {
  const { accountId } = workspace;
  const { minCents, maxCents } = limits;
  const suggested = SUGGESTED_USD.filter((usd) => usd * 100 >= minCents && usd * 100 <= maxCents);
  const isFieldError = error?.field === "amount_usd";
  return (
    <Card id="amount" title="How much?">
      <ErrorMessage message={isFieldError ? undefined : error?.message} />
      <p class="choices">
        {suggested.map((usd) => (
          <a class="button secondary" href={buyPath(accountId, { amount_usd: String(usd) })}>
            ${usd}
          </a>
        ))}
      </p>
      <form method="get" action={buyPath(accountId)}>
        <Field
          id="buy-amount"
          name="amount_usd"
          label="Amount (USD)"
          inputMode="decimal"
          value={amountText}
          error={isFieldError ? error?.message : undefined}
          hint={`${formatCents(minCents)} to ${formatCents(maxCents)}. One dollar buys 1,000,000 credits. A 5% platform fee is added.`}
          isRequired
        />
        <div class="actions">
          <button type="submit">Review price</button>
        </div>
      </form>
    </Card>
  );
}

function ReviewStep({
  user,
  workspace,
  processor,
  purchase: { amountCents, idempotencyKey },
}: BuyPageProps & { readonly purchase: PendingPurchase }): Child {
  const { accountId, name } = workspace;
  const credits = creditsOfCents(amountCents);
  const totalCents = priceOf(credits);
  const amount = String(usdOfCents(amountCents));
  const isTaxDeferred = processor.kind === "hosted" && processor.calculatesTax;
  return (
    <Card id="review" title="Review">
      <p>
        For the workspace <b title={accountId}>{name ?? accountId}</b>
      </p>
      <LineItemTable
        items={purchaseLineItems({ credits, totalCents })}
        total={[isTaxDeferred ? "Total before tax" : "Total", formatCents(totalCents)]}
      />
      <p class="hint">
        {isTaxDeferred ? "Tax is calculated during payment." : "No tax is added."}{" "}
        {PAYMENT_TEXTS[processor.kind]}
      </p>
      <PostForm
        user={user}
        action={workspacePath(accountId, "/billing")}
        fields={{ do: "buy", amount_usd: amount, once: idempotencyKey }}
      >
        <div class="actions">
          <button type="submit">Continue to payment</button>
          <a
            class="button secondary"
            href={buyPath(accountId, { amount_usd: amount, step: "amount" })}
          >
            Change amount
          </a>
        </div>
      </PostForm>
    </Card>
  );
}

const PAYMENT_TEXTS: Readonly<Record<PaymentProcessor["kind"], string>> = {
  hosted: "You pay on the page of the payment service, which returns you to Billing.",
  development: "This gateway runs in development mode: the payment is simulated.",
  manual: "The next page says how to pay by bank transfer.",
};
