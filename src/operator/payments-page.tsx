/** @jsxImportSource hono/jsx */
// Invoices with what was paid of them and what went back, and what needs a human.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import type { Page } from "../base/page.ts";
import { moneyOfCents } from "../billing/cents.ts";
import type { Payment } from "../billing/payment-rows.ts";
import { minute } from "../console/words.ts";
import type { PageFrame } from "../http/layout.tsx";
import { Choice, More, operatorPage, pathOfAccount, Table, Wrong } from "./frame.tsx";
import { newFormName } from "../idempotency/form.ts";
import {
  type AsideFact,
  type InvoiceLine,
  nextStepOf,
  PAYMENT_FILTERS,
  type PaymentFilter,
  type UnclearPayment,
} from "./payments.ts";
import { amountText } from "./payments-text.ts";
import { type Operator, OPERATOR_PATH } from "./sessions.ts";

const PATH = `${OPERATOR_PATH}/payments`;

export const PAYMENT_DONE = {
  absent: "The payment was ended as one that never arrived. Nothing was credited.",
  unchanged: "That was done before; nothing was changed.",
} as const;
export type PaymentDone = keyof typeof PAYMENT_DONE;

export interface PaymentsState {
  readonly state: PaymentFilter | undefined;
  readonly invoices: Page<InvoiceLine>;
  readonly aside: readonly AsideFact[];
  readonly unclear: readonly UnclearPayment[];
  readonly done?: PaymentDone | undefined;
  readonly wrong?: string;
  /** What was typed into the form that was refused. */
  readonly typed?: Readonly<Record<string, string>>;
}

export function paymentsPage(operator: Operator, shown: PaymentsState): PageFrame {
  const { state, invoices, aside, unclear, done, wrong, typed = {} } = shown;
  return operatorPage({
    title: "Payments",
    operator,
    path: PATH,
    main: (
      <>
        {done === undefined ? null : (
          <p class="notice" role="status">
            {PAYMENT_DONE[done]}
          </p>
        )}
        <Wrong wrong={wrong} />
        {aside.length + unclear.length === 0 ? null : (
          <>
            <h2>What needs you</h2>
            {aside.length === 0 ? null : <AsideTable aside={aside} />}
            {unclear.map((payment) => (
              <UnclearCard operator={operator} payment={payment} typed={typed} />
            ))}
            <h2>Invoices</h2>
          </>
        )}
        <form class="line" method="get" action={PATH}>
          <Choice
            name="state"
            label="Invoices that are"
            all="in any state"
            words={PAYMENT_FILTERS}
            chosen={state}
          />
          <button type="submit">Show</button>
        </form>
        {invoices.data.length === 0 ? (
          <p class="notice">There is no such invoice.</p>
        ) : (
          <InvoiceTable invoices={invoices.data} withAccount />
        )}
        <More path={PATH} query={{ state }} cursor={invoices.next_cursor} />
        <p class="note">
          A bank transfer is entered with <code>postern admin mark-paid</code> and{" "}
          <code>mark-refunded</code>; what was paid at a processor is refunded there.
        </p>
      </>
    ),
  });
}

const LOOKS: Readonly<Record<PaymentFilter, string>> = {
  open: "tag",
  paid: "tag good",
  void: "tag",
  refunded: "tag warn",
};

export function InvoiceTable({
  invoices,
  withAccount,
}: {
  readonly invoices: readonly InvoiceLine[];
  readonly withAccount?: boolean;
}): Child {
  return (
    <Table
      label="Invoices"
      columns={[
        { name: "Invoice" },
        { name: "State" },
        { name: "Credits", isNumber: true },
        { name: "Fee", isNumber: true },
        { name: "Tax", isNumber: true },
        { name: "Total", isNumber: true },
        { name: "Created", isDate: true },
        { name: "Paid with" },
        { name: "Went back", isNumber: true },
      ]}
      rows={invoices.map((invoice) => [
        <>
          <code>{invoice.id}</code>
          {withAccount === true ? (
            <a class="type" href={pathOfAccount(invoice.accountId)}>
              {invoice.accountId}
            </a>
          ) : null}
        </>,
        <span class={LOOKS[invoice.status]}>{invoice.status}</span>,
        moneyOfCents(invoice.amountCents),
        moneyOfCents(invoice.feeCents),
        moneyOfCents(invoice.taxCents),
        moneyOfCents(invoice.amountCents + invoice.feeCents + invoice.taxCents),
        dayOf(invoice.createdAt),
        invoice.payments.length === 0 ? "–" : invoice.payments.map(paymentWords).join("; "),
        backWords(invoice.payments),
      ])}
    />
  );
}

function paymentWords({ processor, paidAt, state, reason }: Payment): string {
  const fate = state === "credited" ? "" : `, ${state}: ${reason ?? "not credited"}`;
  return `${processor}, ${dayOf(paidAt)}${fate}`;
}

function backWords(payments: readonly Payment[]): string {
  const sum = (of: "refundedCents" | "disputedCents"): number =>
    payments.reduce((total, payment) => total + payment[of], 0);
  const [refunded, disputed] = [sum("refundedCents"), sum("disputedCents")];
  const words = [
    ...(refunded > 0 ? [`${moneyOfCents(refunded)} refunded`] : []),
    ...(disputed > 0 ? [`${moneyOfCents(disputed)} disputed`] : []),
  ];
  return words.length === 0 ? "–" : words.join(", ");
}

function AsideTable({ aside }: { readonly aside: readonly AsideFact[] }): Child {
  return (
    <Table
      label="Payments that did not fit"
      columns={[
        { name: "When", isDate: true },
        { name: "What" },
        { name: "Amount", isNumber: true },
        { name: "Invoice" },
        { name: "Why" },
      ]}
      rows={aside.map((fact) => [
        minute(fact.heardAt),
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

interface CardProps {
  readonly operator: Operator;
  readonly payment: UnclearPayment;
  readonly typed: Readonly<Record<string, string>>;
}

function UnclearCard({ operator, payment, typed }: CardProps): Child {
  const { id, accountId, invoiceId, network, payer, nonce } = payment;
  return (
    <section class="card" aria-labelledby={`unclear-${nonce}`}>
      <h3 id={`unclear-${nonce}`}>
        {moneyOfCents(payment.amountCents)} by x402, which may have moved or not
      </h3>
      <dl class="facts">
        <dt>When</dt>
        <dd>{minute(payment.createdAt)}</dd>
        <dt>Account</dt>
        <dd>
          <a href={pathOfAccount(accountId)}>
            <code>{accountId}</code>
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
      <p>{nextStepOf(payment)}</p>
      <form class="line" method="post" action={PATH}>
        <input type="hidden" name="csrf" value={operator.csrf} />
        <input type="hidden" name="form" value={newFormName()} />
        <input type="hidden" name="do" value="mark_absent" />
        <input type="hidden" name="payment" value={id} />
        <div class="long">
          <label for={`absent-${nonce}`}>Or here: why you know that it is not there</label>
          <input
            id={`absent-${nonce}`}
            name="reason"
            required
            maxlength={500}
            autocomplete="off"
            value={typed["payment"] === id ? (typed["reason"] ?? "") : ""}
          />
        </div>
        <button type="submit" class="danger">
          It is not there
        </button>
      </form>
    </section>
  );
}
