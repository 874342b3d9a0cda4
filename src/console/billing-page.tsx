/** @jsxImportSource hono/jsx */
// The billing of a workspace: what is left, how more is bought, by hand or by itself, and every invoice.

import type { Child } from "hono/jsx";
import { mayDo } from "../accounts/members.ts";
import type { AmountLimits } from "../billing/billing.ts";
import { feeOf, moneyOfCents, usdOfCents } from "../billing/cents.ts";
import { boughtLines, LineTable } from "../billing/lines.tsx";
import type { TopUpState } from "../billing/top-up-state.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import { InvoiceTable, type ShownInvoice } from "./invoice-table.tsx";
import { TopUpCard, TopUpNotice, type TypedAmounts } from "./top-up-card.tsx";
import { money } from "./words.ts";
import type { Balance, Place } from "./workspace.ts";

/** What somebody is about to buy, and the token by which two clicks are one purchase. */
export interface Quote {
  readonly amountCents: number;
  readonly once: string;
}

export interface BillingState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly balance: Balance;
  readonly limits: AmountLimits;
  /** The tax is worked out while somebody pays. */
  readonly taxLater: boolean;
  /** Whether there is anything that could be charged by itself. */
  readonly hasVault: boolean;
  readonly topUp: TopUpState;
  readonly invoices: readonly ShownInvoice[];
  /** Where older invoices are. */
  readonly older?: string;
  readonly quote?: Quote;
  readonly notice?: string;
  readonly wrong?: string;
  /** What was typed into the form that was refused, by its fields. */
  readonly typed?: TypedAmounts;
}

export function billingPage(state: BillingState): PageFrame {
  const { visitor, place, balance, notice, wrong } = state;
  const { promo, paid, owed = 0n } = balance;
  return consolePage({
    title: "Billing",
    place,
    visitor,
    page: "/billing",
    main: (
      <>
        {wrong === undefined ? null : (
          <p id="wrong" class="wrong" role="alert">
            {wrong}
          </p>
        )}
        {notice === undefined ? null : (
          <p class="notice" role="status">
            {notice}
          </p>
        )}
        <TopUpNotice place={place} topUp={state.topUp} />
        <section class="card" aria-labelledby="balance">
          <h2 id="balance">{money(promo + paid)} left</h2>
          <p>
            {money(paid)} bought and {money(promo)} given, which is spent first.
          </p>
          {owed === 0n ? null : (
            <p class="notice danger">
              A bank took a payment back whose credits were spent. {money(owed)} is owed, and calls
              that cost credits are refused until credits that are bought have paid it.
            </p>
          )}
        </section>
        {mayDo(place.role, "billing.buy") ? (
          <BuyCard {...state} />
        ) : (
          <p class="note">
            The owner buys credits. Anybody who has the address of an open invoice can pay it.
          </p>
        )}
        <TopUpCard {...state} />
        <InvoiceTable {...state} />
      </>
    ),
  });
}

function BuyCard({ visitor, place, limits, quote, taxLater, typed }: BillingState): Child {
  const action = pathOf(place.accountId, "/billing");
  const { leastCents, mostCents } = limits;
  const again = typed?.form === "buy" ? typed.amount_usd : "";
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
          value={quote === undefined ? again : String(usdOfCents(quote.amountCents))}
          aria-describedby="buy-hint"
        />
        <p id="buy-hint" class="hint">
          From {moneyOfCents(leastCents)} to {moneyOfCents(mostCents)}. A dollar buys 1,000,000
          credits; a platform fee of 5 % comes on top.
        </p>
        <div class="choices">
          <button type="submit" class={quote === undefined ? undefined : "quiet"}>
            Show the price
          </button>
        </div>
      </form>
      {quote === undefined ? null : (
        <form method="post" action={action}>
          <PriceTable amountCents={quote.amountCents} taxLater={taxLater} />
          <Hidden
            visitor={visitor}
            fields={{
              do: "buy",
              amount_usd: String(usdOfCents(quote.amountCents)),
              once: quote.once,
            }}
          />
          <div class="choices">
            <button type="submit">Go on to pay</button>
          </div>
        </form>
      )}
    </section>
  );
}

function PriceTable({
  amountCents,
  taxLater,
}: {
  readonly amountCents: number;
  readonly taxLater: boolean;
}): Child {
  const feeCents = feeOf(amountCents);
  return (
    <>
      <LineTable
        lines={[
          ...boughtLines({ amountCents, feeCents }),
          ["Total before tax", moneyOfCents(amountCents + feeCents)],
        ]}
      />
      <p class="hint">
        {taxLater ? "Tax is worked out as you pay." : "No tax is added."} Nothing is charged until
        you pay.
      </p>
    </>
  );
}
