// An invoice that an agent is paying from its wallet is not paid by a human at a page as well, whoever comes first.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { getInvoice } from "../../../src/billing/invoices/invoices.ts";
import { beginPayment, type BillingDeps } from "../../../src/billing/billing-deps.ts";
import { type X402Deps, pollX402, acceptPayment } from "../../../src/billing/x402/x402-payments.ts";
import { paymentRequirementsFor } from "../../../src/billing/x402/protocol.ts";
import type { Db } from "../../../src/store/db.ts";
import { startFacilitator, type TestFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { describeEachStore, STORE_KINDS, type TestStore } from "../../support/stores/stores.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  api,
  buyCredits,
  NANO_PER_CENT,
  expectLedgerValid,
  pageText,
  submitForm,
  ledgerBalanceOf,
  readWallet,
} from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";
import { challengeIn, createX402Deps, fundedWallet, signPayment } from "./wallet.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

/** After it no signature of these tests can be used any more. */
const AFTER_EXPIRY_MS = 600_000;

describeEachStore((kind, open) => {
  describe(`an agent's payment and the page at Stripe on ${kind}`, () => {
    let store: TestStore;
    let stripe: FakeStripe;
    let facilitator: TestFacilitator;
    let harness: BillingHarness;
    let counter: X402Deps;
    beforeAll(async () => {
      store = await open();
      stripe = startFakeStripe();
      facilitator = startFacilitator();
      harness = await createBillingHarness(store.db, stripe.env);
      counter = { ...createX402Deps(harness, facilitator.env), outcomePollsMax: 1 };
    });
    afterAll(async () => {
      await expectLedgerValid(store.db);
      expect(await ledgerBalanceOf(store.db, "system:suspense")).toBe(0n);
      await stripe.stop();
      await facilitator.stop();
      await store.close();
    });

    async function newBill() {
      const accountId = await harness.newAccount();
      const invoice = await harness.newInvoice(accountId, 1_000);
      const wallet = fundedWallet(facilitator, 1_050n);
      const asked = paymentRequirementsFor(counter.paymentTerms, 1_050);
      const { header } = await signPayment(wallet, asked as never, { now: harness.clock.now });
      const pay = (by: X402Deps = counter) => acceptPayment(by, { accountId, invoice }, header);
      return { accountId, invoice, pay };
    }

    /** Sent to the facilitator, and nobody knows what became of it. */
    async function payBlindly({ pay }: Awaited<ReturnType<typeof newBill>>): Promise<void> {
      facilitator.faults.settle = "reply lost";
      expect(await rejectionMessage(pay())).toContain("settlement");
      facilitator.faults.settle = "fine";
    }

    /** As if this had happened just before the store is written to. */
    function before(db: Db, happening: () => Promise<unknown>): Db {
      let isOver = false;
      return {
        ...db,
        write: async (work) => {
          if (!isOver) {
            isOver = true;
            await happening();
          }
          return await db.write(work);
        },
      };
    }

    test("while its outcome is not known, nobody is led to a page", async () => {
      const bill = await newBill();
      await payBlindly(bill);
      const pages = stripe.sessions().length;
      expect(await beginPayment(harness.billing, bill.invoice.id, harness.clock.now)).toEqual({
        kind: "processing",
      });
      expect(stripe.sessions().length).toBe(pages);
    });

    test("nor where nobody can say what became of it", async () => {
      const bill = await newBill();
      await payBlindly(bill);
      harness.clock.now += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await pollX402(counter);
      expect(await beginPayment(harness.billing, bill.invoice.id, harness.clock.now)).toEqual({
        kind: "processing",
      });
    });

    test("a page that was being made meanwhile is closed, and a payment that is refused gives way to another", async () => {
      const bill = await newBill();
      const { processor } = harness.billing;
      if (processor.kind !== "hosted") throw new Error("there is no Stripe");
      const till: BillingDeps = {
        ...harness.billing,
        processor: {
          ...processor,
          createPage: async (order, attempt) => {
            const page = await processor.createPage(order, attempt);
            await payBlindly(bill);
            return page;
          },
        },
      };
      expect(await beginPayment(till, bill.invoice.id, harness.clock.now)).toEqual({
        kind: "processing",
      });
      const made = stripe.sessions().at(-1);
      expect(made?.status).toBe("expired");
      await store.db.write((tx) =>
        tx.run("update agent_payment set state = 'refused', due_at = null where invoice_id = ?", [
          bill.invoice.id,
        ]),
      );
      const begun = await beginPayment(harness.billing, bill.invoice.id, harness.clock.now);
      const page = stripe.sessionAt(begun.kind === "page" ? begun.url : null);
      expect(page.status).toBe("open");
      expect(page.id).not.toBe(made?.id ?? "");
    });

    test("a page that is opened between the look for one and the payment is closed before anything is settled", async () => {
      const bill = await newBill();
      let opened: Awaited<ReturnType<typeof beginPayment>> | undefined;
      const db = before(store.db, async () => {
        opened = await beginPayment(harness.billing, bill.invoice.id, harness.clock.now);
      });
      const taken = await bill.pay({ ...counter, billing: { ...harness.billing, db } });
      expect(taken.kind).toBe("paid");
      const page = stripe.sessionAt(opened?.kind === "page" ? opened.url : null);
      expect(page.status).toBe("expired");
      expect((await getInvoice(store.db, bill.invoice.id, bill.accountId)).status).toBe("paid");
      expect((await readWallet(store.db, bill.accountId)).paid).toBe(1_000n * NANO_PER_CENT);
    });
  });
});

describe.each(STORE_KINDS)("the page of an invoice that an agent is paying, on %s", (store) => {
  let gateway: Gateway;
  let facilitator: TestFacilitator;
  let stripe: FakeStripe;
  beforeAll(async () => {
    facilitator = startFacilitator();
    stripe = startFakeStripe();
    gateway = await startGateway({ store, env: { ...facilitator.env, ...stripe.env } });
  });
  afterAll(async () => {
    await gateway.stop();
    await facilitator.stop();
    await stripe.stop();
  });

  test("says so and what to do, has no button, and leads nobody on", async () => {
    const account = await registerAccount(gateway);
    const { id, pay_url: payUrl } = await buyCredits(gateway, account);
    expect(await (await fetch(payUrl)).text()).toContain("<button");
    const path = ["POST", `/v1/billing/invoice/${id}/x402`] as const;
    const [asked] = challengeIn((await api(gateway, account, path)).headers).accepts;
    if (asked === undefined) throw new Error("nothing is asked for");
    const { header } = await signPayment(fundedWallet(facilitator, 1_050n), asked);
    facilitator.faults.settle = "reply lost";
    const headers = { "payment-signature": header };
    expect((await api(gateway, account, path, { headers })).status).toBe(503);
    const said = await pageText(payUrl);
    expect(said).toContain("This invoice is being paid");
    expect(said).toContain("If that payment fails, you can pay here.");
    expect(await (await fetch(payUrl)).text()).not.toContain("<button");
    const sent = await submitForm(payUrl);
    expect(sent.status).toBe(303);
    expect(sent.headers.get("location")).toStartWith("/pay/");
    expect(stripe.sessions().length).toBe(0);
    await gateway.server.db.write((tx) =>
      tx.run("update agent_payment set state = 'unclear', due_at = null where invoice_id = ?", [
        id,
      ]),
    );
    const unclear = await pageText(payUrl);
    expect(unclear).toContain("This invoice may already be paid");
    expect(unclear).toContain("ask the agent to create another invoice and pay that one");
    expect((await submitForm(payUrl)).headers.get("location")).toStartWith("/pay/");
    expect(stripe.sessions().length).toBe(0);
  });
});
