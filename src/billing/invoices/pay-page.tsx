/** @jsxImportSource hono/jsx */
// The page at which a human pays for an agent's credits. They may know nothing of this gateway: it says what is bought,
// for whom, what it costs, and what happens next.

import type { Child } from "hono/jsx";
import { utcDay } from "../../base/time.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Invoice } from "./invoices.ts";
import { formatCents } from "./cents.ts";
import { InvoiceLineItems, maskedAccount } from "./line-items.tsx";
import type { PaymentProcessor } from "../payments/payment-processor.ts";
import type { OperatorDetails } from "../billing-deps.ts";
import type { InFlightPayment } from "../payments/in-flight-payment.ts";

export interface PayPageProps {
  readonly invoice: Invoice;
  readonly token: string;
  readonly processor: PaymentProcessor;
  readonly operator: OperatorDetails;
  /** Of whoever is signed in, as an owner who comes from the console; the page itself asks for nobody. */
  readonly csrf: string | undefined;
  readonly notice: "failed" | "confirming" | "unreachable" | undefined;
  /** Somebody else is paying it: then there is no way to pay it here. */
  readonly inFlight: InFlightPayment | undefined;
}

const TITLES: Readonly<Record<Invoice["status"], string>> = {
  open: "Pay for credits",
  paid: "Paid, thank you",
  void: "This invoice was withdrawn",
  refunded: "This payment was given back",
};

export function payPage(props: PayPageProps): PageLayout {
  const { invoice, operator, inFlight } = props;
  const title = inFlight === undefined ? TITLES[invoice.status] : IN_FLIGHT_NOTICES[inFlight].title;
  return {
    title: `${title} – ${operator.name}`,
    isPrivate: true,
    main: (
      <>
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
            Workspace <code>{maskedAccount(invoice.accountId)}</code>
          </dd>
          <dt>Invoice</dt>
          <dd>
            <code>{invoice.id}</code> of {utcDay(invoice.createdAt)}
          </dd>
          <dt>Sold by</dt>
          <dd>{operator.name}</dd>
        </dl>
        {invoice.status === "open" && inFlight === undefined ? <PaymentForm {...props} /> : null}
      </>
    ),
    footer: (
      <p>
        Credits are prepaid and pay for calls of language models at the providers' list prices.
        {operator.contact === undefined ? "" : ` Questions: ${operator.contact}`}
      </p>
    ),
  };
}

const NOTICES = {
  failed: ["danger", "The payment did not go through. Nothing was charged. You can try again."],
  confirming: [
    "warn",
    "The payment is being confirmed. Load this page again in a moment; some payments take days.",
  ],
  unreachable: [
    "danger",
    "The payment service cannot be reached at the moment. Nothing was charged. Try again in a minute.",
  ],
} as const;

const IN_FLIGHT_NOTICES: Readonly<
  Record<InFlightPayment, { readonly title: string; readonly text: string }>
> = {
  method: {
    title: "This invoice is being paid",
    text: "The workspace's saved payment method is being charged for it. There is nothing to do here: load this page again in a moment; some payments take days.",
  },
  wallet: {
    title: "This invoice is being paid",
    text: "An agent is paying it from its wallet, with x402. Do not pay it as well: load this page again in a minute. If that payment comes to nothing, you can pay here.",
  },
  unclear: {
    title: "This invoice may be paid already",
    text: "An agent has sent a payment for it from its wallet, with x402, and nobody can say yet whether it arrived. You cannot pay here until that is known, so that it is not paid twice. The operator has been told: ask there, or let the agent make another invoice and pay that one.",
  },
};

function StatusNotice({ invoice, token, notice, inFlight }: PayPageProps): Child {
  if (invoice.status === "void")
    return <p class="intro">It cannot be paid any more. Nothing was charged.</p>;
  if (invoice.status !== "open")
    return (
      <p class="intro">
        {invoice.status === "refunded"
          ? "All of it went back to where it came from."
          : "The credits are in the workspace."}{" "}
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
      <p class="intro">
        Somebody, or an agent that works for them, asks you to pay for credits. You need no account.
      </p>
      <p class="note">
        If you do not know what this is about, close the page: nothing is charged until you pay.
      </p>
    </>
  );
}

function PaymentForm({ invoice, token, processor, csrf }: PayPageProps): Child {
  const total = formatCents(invoice.amountCents + invoice.feeCents + invoice.taxCents);
  const csrfField = csrf === undefined ? null : <input type="hidden" name="csrf" value={csrf} />;
  switch (processor.kind) {
    case "hosted":
      return (
        <form method="post" action={`/pay/${token}`}>
          {csrfField}
          <button type="submit">
            Pay {total} with {processor.name}
          </button>
          <p class="hint">You go on to {processor.name}, and come back here.</p>
        </form>
      );
    case "development":
      return (
        <form method="post" action={`/pay/${token}`}>
          {csrfField}
          <p class="notice warn">This is a gateway in development. No money moves.</p>
          <div class="actions">
            <button type="submit" name="decision" value="pay">
              Pay {total}
            </button>
            <button type="submit" name="decision" value="fail" class="secondary">
              Let the payment fail
            </button>
          </div>
        </form>
      );
    case "manual":
      return (
        <section class="card" aria-labelledby="transfer">
          <h2 id="transfer">Pay by bank transfer</h2>
          <p>
            Transfer exactly {total}, and name <code>{invoice.id}</code> as the reference.
          </p>
          {processor.instructions === undefined ? (
            <p>Ask the operator for the bank details.</p>
          ) : (
            processor.instructions.split("\n").map((line) => <p>{line}</p>)
          )}
          <p class="note">The credits are there when the operator has seen the money.</p>
        </section>
      );
  }
}
