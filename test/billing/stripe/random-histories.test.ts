// Random histories of purchases, auto top-ups, refunds and disputes at Stripe, with webhooks that are late, repeated, out
// of order, forged or lost. In the end the ledger must equal Stripe's balance to the cent.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  cancelOpenCheckout,
  beginPayment,
  handleWebhook,
  tryReconcileInvoice,
} from "../../../src/billing/billing-deps.ts";
import { voidInvoice } from "../../../src/billing/invoices/invoices.ts";
import { markPaid } from "../../../src/billing/payments/manual-payments.ts";
import { paymentsOfInvoice } from "../../../src/billing/payments/payment-rows.ts";
import { TEST_ACTOR, actIn } from "../../support/act.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { runs } from "../../support/full.ts";
import { type RandomInt, TEST_SEED, createRandom } from "../../support/random.ts";
import { openStore, type StoreKind, type TestStore } from "../../support/stores/stores.ts";
import { NANO_PER_CENT, expectLedgerValid, ledgerBalanceOf, readWallet } from "../fixtures.ts";
import {
  enableTopUp,
  createBillingHarness,
  deliverWebhook,
  saveMethod,
  type BillingHarness,
} from "../harness.ts";

const HISTORIES: readonly (readonly [StoreKind, number])[] = [
  ["sqlite", runs(850)],
  ["postgres", runs(150)],
];
const CONCURRENCY = 12;

describe.each(HISTORIES)("random Stripe histories on %s", (kind, histories) => {
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

  test(`${histories} histories end with the ledger equal to Stripe's balance`, async () => {
    const accounts = [...(await runEveryEvent(harness, stripe))];
    const queue = Array.from({ length: histories }, (_, index) => index);
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let index = queue.pop(); index !== undefined; index = queue.pop())
          accounts.push(await runHistory(harness, stripe, createRandom(TEST_SEED + index)));
      }),
    );
    // Lost webhooks are made up for by polling; the remaining ones arrive afterwards.
    const today = harness.clock.now;
    harness.clock.now += 90_000_000;
    for (let due = 1; due > 0; due = await countDue(harness)) {
      await harness.runPoll();
      await harness.runTopUps();
    }
    for (const webhook of stripe.webhookEvents.splice(0).slice(0, 50))
      await deliverWebhook(harness, stripe, webhook.body);

    const cleared = -(await ledgerBalanceOf(harness.db, "system:clearing:stripe"));
    expect(cleared).toBe(BigInt(stripe.balance()) * NANO_PER_CENT);
    for (const accountId of accounts) {
      const { paid, owed, held } = await readWallet(harness.db, accountId);
      expect(held).toBe(0n);
      // An account with a debt has no purchased credits.
      expect(owed === 0n || paid === 0n ? "valid" : { accountId, owed, paid }).toBe("valid");
    }
    await expectLedgerValid(harness.db);
    const rows = await harness.db.all(
      "select kind, state, count(*) as count from payment_fact group by kind, state",
    );
    const seen = new Set(rows.map((row) => `${String(row["kind"])} ${String(row["state"])}`));
    for (const fact of ["paid", "refunded", "refund_failed", "disputed", "dispute_closed"])
      expect(seen).toContain(`${fact} applied`);
    expect([...seen].filter((fact) => fact.endsWith("waiting"))).toEqual([]);
    // Every top-up was charged once, and within its monthly ceiling.
    const topUps = await harness.db.all("select * from top_up");
    const states = new Set(topUps.map(({ state }) => String(state)));
    for (const state of ["paid", "failed", "processing"]) expect(states).toContain(state);
    const charged = [...stripe.intents.values()].map(({ metadata }) => metadata["postern_top_up"]);
    expect(new Set(charged).size).toBe(charged.length);
    const aboveCeiling = await harness.db.all(
      `select auto_top_up.account_id from auto_top_up join top_up on top_up.account_id = auto_top_up.account_id
       where top_up.state <> 'failed' and top_up.created_at <= ? group by auto_top_up.account_id, ceiling_cents having sum(top_up.amount_cents) > ceiling_cents`,
      [today],
    );
    expect(aboveCeiling).toEqual([]);
  });
});

/** What the random histories may lack: every kind of payment fact and every state of a top-up. Returns the accounts. */
async function runEveryEvent(
  harness: BillingHarness,
  stripe: FakeStripe,
): Promise<readonly string[]> {
  const deliver = async (): Promise<void> => {
    for (const { body } of stripe.webhookEvents.splice(0))
      await deliverWebhook(harness, stripe, body);
  };
  const buyer = await harness.newAccount();
  const invoice = await harness.newInvoice(buyer, 1_000);
  const start = await beginPayment(harness.billing, invoice.id, harness.clock.now);
  if (start.kind !== "page") throw new Error(`an open invoice is ${start.kind}`);
  const intent = stripe.pay(stripe.sessionAt(start.url), { state: "succeeded" });
  const refund = stripe.refund(intent, 100);
  const dispute = stripe.dispute(intent, 100);
  await deliver();
  stripe.failRefund(refund);
  stripe.closeDispute(dispute, "won");
  await deliver();
  const accounts = [buyer];
  for (const behavior of ["works", "declined", "processing"] as const) {
    const accountId = await harness.newAccount();
    const method = await saveMethod(harness, stripe, accountId);
    method.behavior = behavior;
    const topUp = { threshold_usd: 10, amount_usd: 20, monthly_ceiling_usd: 20 };
    await enableTopUp(harness, accountId, topUp);
    await harness.runTopUps();
    accounts.push(accountId);
  }
  return accounts;
}

/** One account: it buys, pays, spends, is refunded and disputed, while webhooks are delivered unreliably. */
async function runHistory(
  harness: BillingHarness,
  stripe: FakeStripe,
  random: RandomInt,
): Promise<string> {
  const accountId = await harness.newAccount();
  const pending: string[] = [];
  const holds: (() => Promise<unknown>)[] = [];
  for (let purchases = random(2) + 1; purchases > 0; purchases--) {
    const cents = 50 + random(random(3) === 0 ? 2_000_000 : 3_000);
    const invoice = await harness.newInvoice(accountId, cents);
    const start = await beginPayment(harness.billing, invoice.id, harness.clock.now);
    if (start.kind !== "page") throw new Error(`an open invoice is ${start.kind}`);
    const session = stripe.sessionAt(start.url);
    if (random(12) === 0) {
      const request = { id: invoice.id, accountId, now: harness.clock.now };
      await cancelOpenCheckout(harness.billing, request);
      await harness.db.write((tx) =>
        voidInvoice(tx, actIn(accountId, harness.clock.now), invoice.id),
      );
    }
    if (session.status !== "open" || random(12) === 0) continue;
    if (random(15) === 0) {
      const reference = `bank ${invoice.id}`;
      await markPaid(harness.billing, {
        invoiceId: invoice.id,
        reference,
        by: TEST_ACTOR,
        now: harness.clock.now,
      });
    }
    const amounts = [
      { cents: 1 + random(5_000) },
      { taxCents: random(500) },
      {},
      {},
      {},
      { currency: "eur" },
    ];
    const state = random(8) === 0 ? ("processing" as const) : ("succeeded" as const);
    const intent = stripe.pay(session, { ...amounts[random(amounts.length)], state });
    await deliverShuffled(harness, stripe, pending, random);
    if (state === "processing")
      stripe.completePayment(session, random(3) === 0 ? "requires_payment_method" : "succeeded");
    if (intent.status !== "succeeded") continue;
    await deliverShuffled(harness, stripe, pending, random);
    if (random(2) === 0) await harness.spend(accountId, BigInt(random(cents) + 1) * NANO_PER_CENT);
    if (random(4) === 0)
      holds.push(await harness.hold(accountId, BigInt(random(cents) + 1) * NANO_PER_CENT));
    const disputes = [];
    let refundable = intent.cents;
    for (let steps = random(4); steps > 0; steps--) {
      const refundCents = random(3) === 0 ? refundable : 1 + random(Math.max(1, refundable));
      const step = random(3);
      if (step === 0 && refundable > 0) {
        const refund = stripe.refund(intent, Math.min(refundCents, refundable));
        if (random(4) === 0) {
          await deliverShuffled(harness, stripe, pending, random);
          stripe.failRefund(refund);
        } else refundable -= Math.min(refundCents, refundable);
      }
      if (step === 1) disputes.push(stripe.dispute(intent, 1 + random(intent.cents)));
      if (step === 2) {
        const dispute = disputes.pop();
        if (dispute !== undefined) stripe.closeDispute(dispute, random(2) === 0 ? "won" : "lost");
      }
      await deliverShuffled(harness, stripe, pending, random);
      if (random(6) === 0)
        await tryReconcileInvoice(harness.billing, invoice, (harness.clock.now += 2_001));
    }
    expect(
      (await paymentsOfInvoice(harness.db, invoice.id)).filter(
        (payment) => payment.state === "credited",
      ).length,
    ).toBeLessThan(2);
  }
  if (random(3) === 0) await stepAutoTopUp(harness, stripe, accountId, { pending, random });
  for (const release of holds) await release();
  return accountId;
}

const METHOD_BEHAVIORS = ["works", "works", "works", "declined", "processing"] as const;

/** An owner enables auto top-up and spends the balance several times; charges fail, take days or are returned. */
async function stepAutoTopUp(
  harness: BillingHarness,
  stripe: FakeStripe,
  accountId: string,
  { pending, random }: { readonly pending: string[]; readonly random: RandomInt },
): Promise<void> {
  const method = await saveMethod(harness, stripe, accountId);
  const amount = 1 + random(40);
  await enableTopUp(harness, accountId, {
    threshold_usd: 1 + random(60),
    amount_usd: amount,
    monthly_ceiling_usd: amount * (1 + random(4)),
  });
  for (let rounds = 2 + random(4); rounds > 0; rounds--) {
    method.behavior = METHOD_BEHAVIORS[random(METHOD_BEHAVIORS.length)] ?? "works";
    await harness.spend(accountId, BigInt(1 + random(4_000)) * NANO_PER_CENT);
    await Promise.all(Array.from({ length: 1 + random(2) }, () => harness.runTopUps()));
    const charges = [...stripe.intents.values()].filter((intent) => intent.method === method.id);
    const intent = charges[random(Math.max(1, charges.length))];
    const step = random(5);
    if (intent?.status === "processing" && step < 3)
      stripe.completeCharge(intent, step === 0 ? "requires_payment_method" : "succeeded");
    else if (intent?.status === "succeeded" && step === 3)
      stripe.refund(intent, 1 + random(Math.max(1, Math.floor(intent.cents / 3))));
    else if (intent?.status === "succeeded" && step === 4) stripe.dispute(intent, intent.cents);
    await deliverShuffled(harness, stripe, pending, random);
  }
}

/** Delivers some pending webhooks in random order: some twice, some forged, some lost, some again later. */
async function deliverShuffled(
  harness: BillingHarness,
  stripe: FakeStripe,
  pending: string[],
  random: RandomInt,
): Promise<void> {
  pending.push(...stripe.webhookEvents.splice(0).map(({ body }) => body));
  for (let webhooks = random(3); webhooks > 0 && pending.length > 0; webhooks--) {
    const [body = ""] = pending.splice(random(pending.length), 1);
    const outcome = random(10);
    if (outcome < 4) continue;
    if (outcome === 4) {
      const signature = stripe.signWebhook(body, undefined, "whsec_forged");
      const forged = handleWebhook(harness.billing, { bodyText: body, signature, now: Date.now() });
      expect(
        await forged.then(
          () => "accepted",
          () => "rejected",
        ),
      ).toBe("rejected");
      continue;
    }
    const times = outcome === 5 ? 2 : 1;
    await Promise.all(Array.from({ length: times }, () => deliverWebhook(harness, stripe, body)));
    if (outcome === 6) pending.push(body);
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
