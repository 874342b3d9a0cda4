/** @jsxImportSource hono/jsx */
// The page at which a human pays for an agent's credits. They may know nothing of this gateway: it says what is bought,
// for whom, what it costs, and what happens next.

import type { Child } from "hono/jsx";
import { dayOf } from "../base/day.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Invoice } from "./billing.ts";
import { moneyOfCents } from "./cents.ts";
import { Lines, maskedAccount } from "./lines.tsx";
import type { Processor } from "./processor.ts";
import type { Operator } from "./till.ts";
import type { UnderWay } from "./under-way.ts";

export interface PayState {
  readonly invoice: Invoice;
  readonly token: string;
  readonly processor: Processor;
  readonly operator: Operator;
  /** Of whoever is signed in, as an owner who comes from the console; the page itself asks for nobody. */
  readonly csrf: string | undefined;
  readonly notice: "failed" | "confirming" | "unreachable" | undefined;
  /** Somebody else is paying it: then there is no way to pay it here. */
  readonly underWay: UnderWay | undefined;
}

const TITLES: Readonly<Record<Invoice["status"], string>> = {
  open: "Pay for credits",
  paid: "Paid, thank you",
  void: "This invoice was withdrawn",
  refunded: "This payment was given back",
};

export function payPage(state: PayState): PageFrame {
  const { invoice, operator, underWay } = state;
  const title = underWay === undefined ? TITLES[invoice.status] : UNDER_WAY[underWay].title;
  return {
    title: `${title} – ${operator.name}`,
    isPrivate: true,
    main: (
      <>
        <h1>{title}</h1>
        <Standing {...state} />
        {invoice.status === "void" ? null : (
          <Lines
            invoice={invoice}
            taxLater={
              invoice.status === "open" &&
              state.processor.kind === "hosted" &&
              state.processor.taxLater
            }
          />
        )}
        <dl class="facts">
          <dt>For</dt>
          <dd>
            Workspace <code>{maskedAccount(invoice.accountId)}</code>
          </dd>
          <dt>Invoice</dt>
          <dd>
            <code>{invoice.id}</code> of {dayOf(invoice.createdAt)}
          </dd>
          <dt>Sold by</dt>
          <dd>{operator.name}</dd>
        </dl>
        {invoice.status === "open" && underWay === undefined ? <Ways {...state} /> : null}
      </>
    ),
    foot: (
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

const UNDER_WAY: Readonly<Record<UnderWay, { readonly title: string; readonly words: string }>> = {
  method: {
    title: "This invoice is being paid",
    words:
      "The workspace's saved payment method is being charged for it. There is nothing to do here: load this page again in a moment; some payments take days.",
  },
  wallet: {
    title: "This invoice is being paid",
    words:
      "An agent is paying it from its wallet, with x402. Do not pay it as well: load this page again in a minute. If that payment comes to nothing, you can pay here.",
  },
  unclear: {
    title: "This invoice may be paid already",
    words:
      "An agent has sent a payment for it from its wallet, with x402, and nobody can say yet whether it arrived. You cannot pay here until that is known, so that it is not paid twice. The operator has been told: ask there, or let the agent make another invoice and pay that one.",
  },
};

function Standing({ invoice, token, notice, underWay }: PayState): Child {
  if (invoice.status === "void")
    return <p class="lede">It cannot be paid any more. Nothing was charged.</p>;
  if (invoice.status !== "open")
    return (
      <p class="lede">
        {invoice.status === "refunded"
          ? "All of it went back to where it came from."
          : "The credits are in the workspace."}{" "}
        <a href={`/pay/${token}/receipt`}>Receipt</a>
      </p>
    );
  if (underWay !== undefined)
    return (
      <p class="notice warn" role="alert">
        {UNDER_WAY[underWay].words}
      </p>
    );
  const [tone, words] = notice === undefined ? ["", ""] : NOTICES[notice];
  return (
    <>
      {words === "" ? null : (
        <p class={`notice ${tone}`} role="alert">
          {words}
        </p>
      )}
      <p class="lede">
        Somebody, or an agent that works for them, asks you to pay for credits. You need no account.
      </p>
      <p class="note">
        If you do not know what this is about, close the page: nothing is charged until you pay.
      </p>
    </>
  );
}

function Ways({ invoice, token, processor, csrf }: PayState): Child {
  const total = moneyOfCents(invoice.amountCents + invoice.feeCents + invoice.taxCents);
  const own = csrf === undefined ? null : <input type="hidden" name="csrf" value={csrf} />;
  switch (processor.kind) {
    case "hosted":
      return (
        <form method="post" action={`/pay/${token}`}>
          {own}
          <button type="submit">
            Pay {total} with {processor.name}
          </button>
          <p class="hint">You go on to {processor.name}, and come back here.</p>
        </form>
      );
    case "development":
      return (
        <form method="post" action={`/pay/${token}`}>
          {own}
          <p class="notice warn">This is a gateway in development. No money moves.</p>
          <div class="choices">
            <button type="submit" name="decision" value="pay">
              Pay {total}
            </button>
            <button type="submit" name="decision" value="fail" class="quiet">
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
