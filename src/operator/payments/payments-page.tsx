/** @jsxImportSource hono/jsx */
// The payments page: payments that need attention, and all invoices with their payments.

import type { Child } from "hono/jsx";
import type { Page } from "../../base/pagination.ts";
import { formatDateTime, formatUsdExact } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { feeOf, formatCents, formatCredits } from "../../billing/invoices/cents.ts";
import type { Payment } from "../../billing/payments/payment-rows.ts";
import type { MeteredPayment, MeteredState } from "../../billing/x402/upto-payment-rows.ts";
import { WorkspaceName } from "../../http/pages/components/content.tsx";
import { ErrorMessage, FilterSelect, PostForm } from "../../http/pages/components/form.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { AccountNames } from "../accounts/account-names.ts";
import { AccountLink, accountPath, operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import {
  type UnappliedFact,
  type InvoiceWithPayments,
  nextStepFor,
  PAYMENT_FILTERS,
  type PaymentFilter,
  type UnclearPayment,
} from "./payment-list.ts";
import { amountText } from "./payments-output.ts";

const PATH = `${OPERATOR_PATH}/payments`;

export const PAYMENT_RESULT_TEXT = {
  absent: "The payment is marked as not on chain. Nothing was credited.",
  unchanged: "Nothing changed: this was already done.",
} as const;
export type PaymentActionResult = keyof typeof PAYMENT_RESULT_TEXT;

export interface PaymentsPageProps {
  readonly state: PaymentFilter | undefined;
  readonly invoices: Page<InvoiceWithPayments>;
  readonly unapplied: readonly UnappliedFact[];
  readonly unclear: readonly UnclearPayment[];
  /** The latest calls that wallets without an account paid. */
  readonly metered: readonly MeteredPayment[];
  readonly accountNames: AccountNames;
  readonly result?: PaymentActionResult | undefined;
  readonly errorMessage?: string;
  /** The values of the rejected form. */
  readonly formValues?: Readonly<Record<string, string>>;
}

export function paymentsPage(operator: Operator, props: PaymentsPageProps): PageLayout {
  const { state, invoices, unapplied, unclear, accountNames } = props;
  const { result, errorMessage, formValues = {} } = props;
  return operatorPage({
    title: "Payments",
    operator,
    path: PATH,
    main: (
      <>
        {result === undefined ? null : (
          <p class="notice" role="status">
            {PAYMENT_RESULT_TEXT[result]}
          </p>
        )}
        <ErrorMessage message={errorMessage} />
        {unapplied.length + unclear.length === 0 ? null : (
          <>
            <h2>Needs attention</h2>
            {unapplied.length === 0 ? null : (
              <div class="card">
                <UnappliedFactTable unapplied={unapplied} />
              </div>
            )}
            {unclear.map((payment) => (
              <UnclearPaymentCard
                operator={operator}
                payment={payment}
                accountNames={accountNames}
                formValues={formValues}
              />
            ))}
            <h2>Invoices</h2>
          </>
        )}
        <form class="inline" method="get" action={PATH}>
          <FilterSelect
            name="state"
            label="Status"
            allLabel="any"
            options={PAYMENT_FILTERS}
            selected={state}
          />
          <button type="submit" class="secondary">
            Apply
          </button>
        </form>
        {invoices.data.length === 0 ? (
          <p class="notice">No invoices found.</p>
        ) : (
          <div class="card">
            <PaymentTable invoices={invoices.data} accountNames={accountNames} />
          </div>
        )}
        <OlderLink path={PATH} query={{ state }} cursor={invoices.next_cursor} />
        <MeteredPaymentCard payments={props.metered} />
        <p class="note">
          To record a bank transfer, use <code>postern admin mark-paid</code> or{" "}
          <code>mark-refunded</code>. Refund other payments at their payment processor.
        </p>
      </>
    ),
  });
}

const STATUS_CLASSES: Readonly<Record<PaymentFilter, string>> = {
  open: "tag",
  paid: "tag good",
  void: "tag",
  refunded: "tag warn",
};

export function PaymentTable({
  invoices,
  accountNames,
}: {
  readonly invoices: readonly InvoiceWithPayments[];
  /** Shows the account of each invoice. */
  readonly accountNames?: AccountNames;
}): Child {
  return (
    <Table
      label="Invoices"
      isStacked
      columns={[
        { name: "Invoice" },
        { name: "Status" },
        { name: "Credits", isNumber: true },
        { name: "Fee", isNumber: true },
        { name: "Tax", isNumber: true },
        { name: "Total", isNumber: true },
        { name: "Created", isDate: true },
        { name: "Payment" },
        { name: "Returned", isNumber: true },
      ]}
      rows={invoices.map((invoice) => [
        <>
          <code>{invoice.id}</code>
          {accountNames === undefined ? null : (
            <AccountLink id={invoice.accountId} names={accountNames} />
          )}
        </>,
        <span class={STATUS_CLASSES[invoice.status]}>{invoice.status}</span>,
        formatCredits(invoice.credits),
        formatCredits(feeOf(invoice)),
        formatCents(invoice.taxCents),
        formatCents(invoice.totalCents + invoice.taxCents),
        utcDay(invoice.createdAt),
        invoice.payments.length === 0 ? "–" : invoice.payments.map(paymentText).join("; "),
        returnedText(invoice.payments),
      ])}
    />
  );
}

function paymentText({ processor, paidAt, state, reason }: Payment): string {
  const outcome = state === "credited" ? "" : `, ${state}: ${reason ?? "not credited"}`;
  return `${processor}, ${utcDay(paidAt)}${outcome}`;
}

function returnedText(payments: readonly Payment[]): string {
  const sum = (of: "refundedCents" | "disputedCents"): number =>
    payments.reduce((total, payment) => total + payment[of], 0);
  const [refunded, disputed] = [sum("refundedCents"), sum("disputedCents")];
  const parts = [
    ...(refunded > 0 ? [`${formatCents(refunded)} refunded`] : []),
    ...(disputed > 0 ? [`${formatCents(disputed)} disputed`] : []),
  ];
  return parts.length === 0 ? "–" : parts.join(", ");
}

function UnappliedFactTable({
  unapplied,
}: {
  readonly unapplied: readonly UnappliedFact[];
}): Child {
  return (
    <Table
      label="Unapplied payments"
      isStacked
      columns={[
        { name: "Received", isDate: true },
        { name: "Type" },
        { name: "Amount", isNumber: true },
        { name: "Invoice" },
        { name: "Reason" },
      ]}
      rows={unapplied.map((fact) => [
        formatDateTime(fact.receivedAt),
        <>
          {fact.kind.replaceAll("_", " ")}
          <span class="type">{fact.id}</span>
        </>,
        amountText(fact),
        <code>{fact.invoiceId}</code>,
        fact.reason ?? "",
      ])}
    />
  );
}

const METERED_CLASSES: Readonly<Record<MeteredState, string>> = {
  open: "tag",
  due: "tag",
  paid: "tag good",
  released: "tag",
  lost: "tag warn",
};

function MeteredPaymentCard({ payments }: { readonly payments: readonly MeteredPayment[] }): Child {
  if (payments.length === 0) return null;
  return (
    <>
      <h2>Calls paid by wallets</h2>
      <div class="card">
        <Table
          label="Calls paid by wallets"
          isStacked
          columns={[
            { name: "Created", isDate: true },
            { name: "Wallet" },
            { name: "Status" },
            { name: "Amount", isNumber: true },
            { name: "Transaction" },
          ]}
          rows={payments.map(({ createdAt, payer, state, amount, reason, transaction }) => [
            formatDateTime(createdAt),
            <code>{payer}</code>,
            <span class={METERED_CLASSES[state]}>{state}</span>,
            formatUsdExact(amount),
            transaction === null ? (reason ?? "–") : <code>{transaction}</code>,
          ])}
        />
      </div>
    </>
  );
}

interface UnclearPaymentCardProps {
  readonly operator: Operator;
  readonly payment: UnclearPayment;
  readonly accountNames: AccountNames;
  readonly formValues: Readonly<Record<string, string>>;
}

function UnclearPaymentCard(props: UnclearPaymentCardProps): Child {
  const { operator, payment, accountNames, formValues } = props;
  const { id, accountId, invoiceId, network, payer, nonce } = payment;
  return (
    <section class="card" aria-labelledby={`unclear-${nonce}`}>
      <h3 id={`unclear-${nonce}`}>
        x402 payment of {formatCents(payment.amountCents)} with an unknown outcome
      </h3>
      <dl class="details">
        <dt>Created</dt>
        <dd>{formatDateTime(payment.createdAt)}</dd>
        <dt>Account</dt>
        <dd>
          <a href={accountPath(accountId)}>
            <WorkspaceName id={accountId} name={accountNames.get(accountId) ?? null} />
          </a>
        </dd>
        <dt>Invoice</dt>
        <dd>
          <code>{invoiceId}</code>
        </dd>
        <dt>Network</dt>
        <dd>
          <code>{network}</code>
        </dd>
        <dt>Payer</dt>
        <dd>
          <code>{payer}</code>
        </dd>
        <dt>Nonce</dt>
        <dd>
          <code>{nonce}</code>
        </dd>
      </dl>
      <p>
        {nextStepFor(payment)
          .split("`")
          .map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}
      </p>
      <PostForm
        class="inline"
        user={operator}
        action={PATH}
        fields={{ form: newFormToken(), do: "mark_absent", payment: id }}
      >
        <div class="long">
          <label for={`absent-${nonce}`}>Reason (how you know that it is not on the chain)</label>
          <input
            id={`absent-${nonce}`}
            name="reason"
            required
            maxlength={500}
            autocomplete="off"
            value={formValues["payment"] === id ? (formValues["reason"] ?? "") : ""}
          />
        </div>
        <button type="submit" class="danger">
          Mark as not on chain
        </button>
      </PostForm>
    </section>
  );
}
