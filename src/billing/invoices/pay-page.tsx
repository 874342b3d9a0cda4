/** @jsxImportSource hono/jsx */
// The invoice page, where a person pays for an agent's credits. The payer may not know this gateway, so the page says
// what is bought, for which workspace, what it costs and what happens next.

import type { Child } from "hono/jsx";
import { utcDay } from "../../base/time.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { OperatorDetails } from "../billing-deps.ts";
import { type AgentPaymentMethod, PAYMENT_METHOD_TEXTS } from "../payments/agent-payment-rows.ts";
import type { InFlightPayment } from "../payments/checkouts.ts";
import type { PaymentProcessor } from "../payments/payment-processor.ts";
import { formatCents } from "./cents.ts";
import type { Invoice } from "./invoices.ts";
import { Buyer, InvoiceLineItems, SellerLinks } from "./line-items.tsx";

export interface PayPageProps {
  readonly invoice: Invoice;
  /** null if the workspace has no name. */
  readonly workspaceName: string | null;
  /** Set for members of the workspace. */
  readonly billingPageUrl?: string;
  readonly token: string;
  readonly processor: PaymentProcessor;
  readonly operator: OperatorDetails;
  /** Set if the visitor has a console session; the page itself does not require one. */
  readonly csrf: string | undefined;
  readonly notice: "failed" | "confirming" | "unreachable" | undefined;
  /** Another payment of this invoice is in flight, so it cannot be paid here. */
  readonly inFlight: InFlightPayment | undefined;
  /** Set if an agent paid the invoice. */
  readonly agentMethod: AgentPaymentMethod | undefined;
}

const TITLES: Readonly<Record<Invoice["status"], string>> = {
  open: "Buy credits",
  paid: "Invoice paid",
  void: "Invoice voided",
  refunded: "Payment refunded",
};

export function payPage(props: PayPageProps): PageLayout {
  const { invoice, operator, inFlight } = props;
  const title = inFlight === undefined ? TITLES[invoice.status] : IN_FLIGHT_NOTICES[inFlight].title;
  return {
    title: `${title} – ${operator.name}`,
    isPrivate: true,
    main: (
      <>
        {props.billingPageUrl === undefined ? null : (
          <p class="back">
            <a href={props.billingPageUrl}>Back to Billing</a>
          </p>
        )}
        <h1>{title}</h1>
        <StatusNotice {...props} />
        {invoice.status === "void" ? null : (
          <InvoiceLineItems
            invoice={invoice}
            isTaxDeferred={
              invoice.status === "open" &&
              props.processor.kind === "hosted" &&
              props.processor.calculatesTax
            }
          />
        )}
        <dl class="details">
          <dt>For</dt>
          <dd>
            <Buyer accountId={invoice.accountId} name={props.workspaceName} />
          </dd>
          <dt>Invoice</dt>
          <dd>
            <code>{invoice.id}</code> from {utcDay(invoice.createdAt)}
          </dd>
          <dt>Seller</dt>
          <dd>{operator.name}</dd>
        </dl>
        {invoice.status === "open" && inFlight === undefined ? <PaymentForm {...props} /> : null}
      </>
    ),
    footer: (
      <p>
        Credits are prepaid and pay for language model calls at the providers' list prices.
        <SellerLinks operator={operator} />
      </p>
    ),
  };
}

const NOTICES = {
  failed: ["danger", "The payment failed. Nothing was charged. You can try again."],
  confirming: [
    "warn",
    "The payment is being confirmed. Reload this page in a moment. Some payments take days.",
  ],
  unreachable: [
    "danger",
    "The payment service is not available at the moment. Nothing was charged. Try again in a minute.",
  ],
} as const;

const IN_FLIGHT_NOTICES: Readonly<
  Record<InFlightPayment, { readonly title: string; readonly text: string }>
> = {
  method: {
    title: "This invoice is being paid",
    text: "The workspace's saved payment method is being charged. You do not need to do anything. Reload this page in a moment. Some payments take days.",
  },
  wallet: {
    title: "This invoice is being paid",
    text: "An agent is paying it from its wallet with x402. Reload this page in a minute. If that payment fails, you can pay here.",
  },
  unclear: {
    title: "This invoice may already be paid",
    text: "An agent sent a payment from its wallet with x402, and it is not known whether the payment arrived. You cannot pay here until that is known, so that the invoice is not paid twice. The operator has been notified. Contact the operator, or ask the agent to create another invoice and pay that one.",
  },
};

function StatusNotice(props: PayPageProps): Child {
  const { invoice, token, notice, inFlight, agentMethod, billingPageUrl } = props;
  if (invoice.status === "void")
    return <p class="intro">It can no longer be paid. Nothing was charged.</p>;
  if (invoice.status !== "open")
    return (
      <p class="intro">
        {invoice.status === "refunded"
          ? "The whole amount was refunded to the payment method."
          : `${agentMethod === undefined ? "" : `An agent paid it ${PAYMENT_METHOD_TEXTS[agentMethod]}. `}The credits were added to the workspace.`}{" "}
        <a href={`/pay/${token}/receipt`}>Receipt</a>
      </p>
    );
  if (inFlight !== undefined)
    return (
      <p class="notice warn" role="alert">
        {IN_FLIGHT_NOTICES[inFlight].text}
      </p>
    );
  const [tone, text] = notice === undefined ? ["", ""] : NOTICES[notice];
  return (
    <>
      {text === "" ? null : (
        <p class={`notice ${tone}`} role="alert">
          {text}
        </p>
      )}
      {billingPageUrl === undefined ? (
        <>
          <p class="intro">
            A person, or an agent that works for them, asks you to buy credits for their workspace.
            You do not need an account.
          </p>
          <p class="note">
            If you do not recognize this request, close the page. Nothing is charged until you pay.
          </p>
        </>
      ) : null}
    </>
  );
}

function PaymentForm({ invoice, token, processor, csrf }: PayPageProps): Child {
  const total = formatCents(invoice.totalCents + invoice.taxCents);
  const csrfField = csrf === undefined ? null : <input type="hidden" name="csrf" value={csrf} />;
  switch (processor.kind) {
    case "hosted":
      return (
        <form method="post" action={`/pay/${token}`}>
          {csrfField}
          <button type="submit">
            Pay {total} with {processor.name}
          </button>
          <p class="hint">{processor.name} processes the payment and returns you to this page.</p>
        </form>
      );
    case "development":
      return (
        <form method="post" action={`/pay/${token}`}>
          {csrfField}
          <p class="notice warn">This gateway runs in development mode. No money is charged.</p>
          <div class="actions">
            <button type="submit" name="decision" value="pay">
              Pay {total}
            </button>
            <button type="submit" name="decision" value="fail" class="secondary">
              Simulate a failed payment
            </button>
          </div>
        </form>
      );
    case "manual":
      return (
        <section class="card" aria-labelledby="transfer">
          <h2 id="transfer">Pay by bank transfer</h2>
          <p>
            Transfer exactly {total} and enter <code>{invoice.id}</code> as the reference.
          </p>
          {processor.instructions === undefined ? (
            <p>Ask the operator for the bank details.</p>
          ) : (
            processor.instructions.split("\n").map((line) => <p>{line}</p>)
          )}
          <p class="note">The credits are added when the operator has confirmed the transfer.</p>
        </section>
      );
  }
}
