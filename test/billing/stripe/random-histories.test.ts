// Random histories of a Stripe account and what becomes of its webhooks: late, twice, out of order, forged, lost. Some
// owners allow that credits are bought by themselves, from methods that work, or do not, or take days; refunds fail. They
// all must end with the ledger equal to the processor's own books, to the cent.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { voidInvoice } from "../../../src/billing/invoices/invoices.ts";
import { markPaid } from "../../../src/billing/payments/manual-payments.ts";
import { paymentsOfInvoice } from "../../../src/billing/payments/payment-rows.ts";
import {
  cancelOpenCheckout,
  beginPayment,
  handleWebhook,
  tryReconcileInvoice,
} from "../../../src/billing/billing-deps.ts";
import { openStore, type StoreKind, type TestStore } from "../../support/stores/stores.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { NANO_PER_CENT, expectLedgerValid, ledgerBalanceOf, readWallet } from "../fixtures.ts";
import { type RandomInt, createRandom } from "../random.ts";
import {
  enableTopUp,
  createBillingHarness,
  deliverWebhook,
  saveMethod,
  type BillingHarness,
} from "../harness.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(120_000);

const HISTORIES: readonly (readonly [StoreKind, number])[] = [
  ["sqlite", 850],
  ["postgres", 150],
];
const CONCURRENCY = 12;
const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? Date.now() % 1_000_000);

describe.each(HISTORIES)("histories on %s", (kind, histories) => {
  let store: TestStore;
  let stripe: FakeStripe;
  let harness: BillingHarness;
  beforeAll(async () => {
    store = await openStore(kind);
    stripe = startFakeStripe();
    harness = await createBillingHarness(store.db, stripe.env);
  });
  afterAll(async () => {
    await stripe.stop();
    await store.close();
  });

  test(`${histories} of them end with the ledger equal to the processor, to the cent (seed ${SEED})`, async () => {
    const accounts: string[] = [];
    const queue = Array.from({ length: histories }, (_, place) => place);
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let place = queue.pop(); place !== undefined; place = queue.pop())
          accounts.push(await runHistory(harness, stripe, createRandom(SEED + place)));
      }),
    );
    // What was lost is found by asking; whatever is still in the mail arrives last of all.
    const today = harness.clock.now;
    harness.clock.now += 90_000_000;
    for (let due = 1; due > 0; due = await countDue(harness)) {
      await harness.runPoll();
      await harness.runTopUps();
    }
    for (const letter of stripe.webhookEvents.splice(0).slice(0, 50))
      await deliverWebhook(harness, stripe, letter.body);

    const cleared = -(await ledgerBalanceOf(harness.db, "system:clearing:stripe"));
    expect(cleared).toBe(BigInt(stripe.balance()) * NANO_PER_CENT);
    for (const accountId of accounts) {
      const { paid, owed, held } = await readWallet(harness.db, accountId);
      expect(held).toBe(0n);
      // Whoever owes something has nothing left that was bought.
      expect(owed === 0n || paid === 0n ? "sound" : { accountId, owed, paid }).toBe("sound");
    }
    await expectLedgerValid(harness.db);
    const rows = await harness.db.all(
      "select kind, state, count(*) as count from payment_fact group by kind, state",
    );
    const seen = new Set(rows.map((row) => `${String(row["kind"])} ${String(row["state"])}`));
    const rare = ["disputed applied", "dispute_closed applied", "refund_failed applied"];
    for (const fact of ["paid applied", "refunded applied", ...(kind === "sqlite" ? rare : [])])
      expect(seen).toContain(fact);
    expect([...seen].filter((one) => one.endsWith("waiting"))).toEqual([]);
    // Whatever was bought by itself was charged once, and within what its owner allowed.
    const attempts = await harness.db.all("select * from top_up");
    const states = new Set(attempts.map(({ state }) => String(state)));
    // What is rare need not come among few.
    const wanted = kind === "sqlite" ? ["paid", "failed", "processing"] : ["paid"];
    for (const state of wanted) expect(states).toContain(state);
    const marks = [...stripe.intents.values()].map(({ metadata }) => metadata["postern_top_up"]);
    expect(new Set(marks).size).toBe(marks.length);
    const beyond = await harness.db.all(
      `select auto_top_up.account_id from auto_top_up join top_up on top_up.account_id = auto_top_up.account_id
       where top_up.state <> 'failed' and top_up.created_at <= ? group by auto_top_up.account_id, ceiling_cents having sum(top_up.amount_cents) > ceiling_cents`,
      [today],
    );
    expect(beyond).toEqual([]);
  });
});

/** One account: it buys, pays, spends; money goes back; and the mail is what it is. */
async function runHistory(
  harness: BillingHarness,
  stripe: FakeStripe,
  roll: RandomInt,
): Promise<string> {
  const accountId = await harness.newAccount();
  const mail: string[] = [];
  const holds: (() => Promise<unknown>)[] = [];
  for (let bought = roll(2) + 1; bought > 0; bought--) {
    const cents = 50 + roll(roll(3) === 0 ? 2_000_000 : 3_000);
    const invoice = await harness.newInvoice(accountId, cents);
    const begun = await beginPayment(harness.billing, invoice.id, harness.clock.now);
    if (begun.kind !== "page") throw new Error(`an open invoice is ${begun.kind}`);
    const session = stripe.sessionAt(begun.url);
    if (roll(12) === 0) {
      const about = { id: invoice.id, accountId, now: harness.clock.now };
      await cancelOpenCheckout(harness.billing, about);
      await harness.db.write((tx) => voidInvoice(tx, about));
    }
    if (session.status !== "open" || roll(12) === 0) continue;
    if (roll(15) === 0) {
      const reference = `bank ${invoice.id}`;
      await markPaid(harness.billing, { invoiceId: invoice.id, reference, now: harness.clock.now });
    }
    const amounts = [
      { cents: 1 + roll(5_000) },
      { taxCents: roll(500) },
      {},
      {},
      {},
      { currency: "eur" },
    ];
    const state = roll(8) === 0 ? ("processing" as const) : ("succeeded" as const);
    const intent = stripe.pay(session, { ...amounts[roll(amounts.length)], state });
    await deliverShuffled(harness, stripe, mail, roll);
    if (state === "processing")
      stripe.completePayment(session, roll(3) === 0 ? "requires_payment_method" : "succeeded");
    if (intent.status !== "succeeded") continue;
    await deliverShuffled(harness, stripe, mail, roll);
    if (roll(2) === 0) await harness.spend(accountId, BigInt(roll(cents) + 1) * NANO_PER_CENT);
    if (roll(4) === 0)
      holds.push(await harness.hold(accountId, BigInt(roll(cents) + 1) * NANO_PER_CENT));
    const disputes = [];
    let refundable = intent.cents;
    for (let happenings = roll(4); happenings > 0; happenings--) {
      const some = roll(3) === 0 ? refundable : 1 + roll(Math.max(1, refundable));
      const what = roll(3);
      if (what === 0 && refundable > 0) {
        const refund = stripe.refund(intent, Math.min(some, refundable));
        if (roll(4) === 0) {
          await deliverShuffled(harness, stripe, mail, roll);
          stripe.failRefund(refund);
        } else refundable -= Math.min(some, refundable);
      }
      if (what === 1) disputes.push(stripe.dispute(intent, 1 + roll(intent.cents)));
      if (what === 2) {
        const dispute = disputes.pop();
        if (dispute !== undefined) stripe.closeDispute(dispute, roll(2) === 0 ? "won" : "lost");
      }
      await deliverShuffled(harness, stripe, mail, roll);
      if (roll(6) === 0)
        await tryReconcileInvoice(harness.billing, invoice, (harness.clock.now += 2_001));
    }
    expect(
      (await paymentsOfInvoice(harness.db, invoice.id)).filter(
        ({ state: one }) => one === "credited",
      ).length,
    ).toBeLessThan(2);
  }
  if (roll(3) === 0) await stepAutoTopUp(harness, stripe, accountId, { mail, roll });
  for (const letGo of holds) await letGo();
  return accountId;
}

const METHOD_BEHAVIORS = ["works", "works", "works", "declined", "processing"] as const;

/** An owner allows it; the balance is spent again and again; what was charged goes back, or arrives late. */
async function stepAutoTopUp(
  harness: BillingHarness,
  stripe: FakeStripe,
  accountId: string,
  { mail, roll }: { readonly mail: string[]; readonly roll: RandomInt },
): Promise<void> {
  const method = await saveMethod(harness, stripe, accountId);
  const amount = 1 + roll(40);
  await enableTopUp(harness, accountId, {
    threshold_usd: 1 + roll(60),
    amount_usd: amount,
    monthly_ceiling_usd: amount * (1 + roll(4)),
  });
  for (let rounds = 2 + roll(4); rounds > 0; rounds--) {
    method.behavior = METHOD_BEHAVIORS[roll(METHOD_BEHAVIORS.length)] ?? "works";
    await harness.spend(accountId, BigInt(1 + roll(4_000)) * NANO_PER_CENT);
    await Promise.all(Array.from({ length: 1 + roll(2) }, () => harness.runTopUps()));
    const own = [...stripe.intents.values()].filter((intent) => intent.method === method.id);
    const intent = own[roll(Math.max(1, own.length))];
    const fate = roll(5);
    if (intent?.status === "processing" && fate < 3)
      stripe.completeCharge(intent, fate === 0 ? "requires_payment_method" : "succeeded");
    else if (intent?.status === "succeeded" && fate === 3)
      stripe.refund(intent, 1 + roll(Math.max(1, Math.floor(intent.cents / 3))));
    else if (intent?.status === "succeeded" && fate === 4) stripe.dispute(intent, intent.cents);
    await deliverShuffled(harness, stripe, mail, roll);
  }
}

/** Some of the mail arrives, in any order, some of it twice; some is lost, some is forged, some is kept for later. */
async function deliverShuffled(
  harness: BillingHarness,
  stripe: FakeStripe,
  mail: string[],
  roll: RandomInt,
): Promise<void> {
  mail.push(...stripe.webhookEvents.splice(0).map(({ body }) => body));
  for (let letters = roll(3); letters > 0 && mail.length > 0; letters--) {
    const [body = ""] = mail.splice(roll(mail.length), 1);
    const fate = roll(10);
    if (fate < 4) continue;
    if (fate === 4) {
      const signature = stripe.signWebhook(body, undefined, "whsec_of_somebody_else");
      const forged = handleWebhook(harness.billing, { bodyText: body, signature, now: Date.now() });
      expect(
        await forged.then(
          () => "heard",
          () => "refused",
        ),
      ).toBe("refused");
      continue;
    }
    const times = fate === 5 ? 2 : 1;
    await Promise.all(Array.from({ length: times }, () => deliverWebhook(harness, stripe, body)));
    if (fate === 6) mail.push(body);
  }
}

async function countDue({ db, clock }: BillingHarness): Promise<number> {
  let due = 0;
  for (const table of ["checkout", "top_up", "auto_top_up", "payment_method"]) {
    const row = await db.get(`select count(*) as count from ${table} where due_at <= ?`, [
      clock.now,
    ]);
    due += Number(row?.["count"] ?? 0);
  }
  return due;
}
