// An invoice cannot be paid with x402 and on a checkout page at the same time, whichever comes first.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { beginPayment, type BillingDeps } from "../../../src/billing/billing-deps.ts";
import { getInvoice } from "../../../src/billing/invoices/invoices.ts";
import { paymentRequirementsFor } from "../../../src/billing/x402/x402-messages.ts";
import { type X402Deps, pollX402, acceptPayment } from "../../../src/billing/x402/x402-payments.ts";
import type { Db } from "../../../src/store/db.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { startFacilitator, type TestFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { describeEachStore, STORE_KINDS, type TestStore } from "../../support/stores/stores.ts";
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

/** After this time all signatures of these tests have expired. */
const AFTER_EXPIRY_MS = 600_000;

describeEachStore((kind, open) => {
  describe(`x402 payments and checkout pages on ${kind}`, () => {
    let store: TestStore;
    let stripe: FakeStripe;
    let facilitator: TestFacilitator;
    let harness: BillingHarness;
    let x402: X402Deps;
    beforeAll(async () => {
      store = await open();
      stripe = startFakeStripe();
      facilitator = startFacilitator();
      harness = await createBillingHarness(store.db, stripe.env);
      x402 = { ...createX402Deps(harness, facilitator.env), outcomePollsMax: 1 };
    });
    afterAll(async () => {
      await expectLedgerValid(store.db);
      expect(await ledgerBalanceOf(store.db, "system:suspense")).toBe(0n);
      await stripe.stop();
      await facilitator.stop();
      await store.close();
    });

    async function newPayable() {
      const accountId = await harness.newAccount();
      const invoice = await harness.newInvoice(accountId, 1_000);
      const wallet = fundedWallet(facilitator, 1_050n);
      const requirements = paymentRequirementsFor(x402.paymentTerms, 1_050) as never;
      const { header } = await signPayment(wallet, requirements, { now: harness.clock.now });
      const pay = (deps: X402Deps = x402) => acceptPayment(deps, { accountId, invoice }, header);
      return { accountId, invoice, pay };
    }

    /** Pays, but loses the facilitator's reply, so that the outcome is unknown. */
    async function payWithLostReply({
      pay,
    }: Awaited<ReturnType<typeof newPayable>>): Promise<void> {
      facilitator.faults.settle = "reply lost";
      expect(await rejectionMessage(pay())).toContain("settlement");
      facilitator.faults.settle = "ok";
    }

    /** Runs `action` before the first write to the store. */
    function beforeFirstWrite(db: Db, action: () => Promise<unknown>): Db {
      let isDone = false;
      return {
        ...db,
        write: async (work) => {
          if (!isDone) {
            isDone = true;
            await action();
          }
          return await db.write(work);
        },
      };
    }

    test("no page is created while the outcome of an x402 payment is unknown", async () => {
      const payable = await newPayable();
      await payWithLostReply(payable);
      const pages = stripe.sessions().length;
      expect(await beginPayment(harness.billing, payable.invoice.id, harness.clock.now)).toEqual({
        kind: "processing",
      });
      expect(stripe.sessions().length).toBe(pages);
    });

    test("no page is created for an unclear x402 payment", async () => {
      const payable = await newPayable();
      await payWithLostReply(payable);
      harness.clock.now += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await pollX402(x402);
      expect(await beginPayment(harness.billing, payable.invoice.id, harness.clock.now)).toEqual({
        kind: "processing",
      });
    });

    test("a page that is created during an x402 payment is closed; after a refusal another one opens", async () => {
      const payable = await newPayable();
      const { processor } = harness.billing;
      if (processor.kind !== "hosted") throw new Error("the processor has no pages");
      const billing: BillingDeps = {
        ...harness.billing,
        processor: {
          ...processor,
          createPage: async (request, attempt) => {
            const page = await processor.createPage(request, attempt);
            await payWithLostReply(payable);
            return page;
          },
        },
      };
      expect(await beginPayment(billing, payable.invoice.id, harness.clock.now)).toEqual({
        kind: "processing",
      });
      const closed = stripe.sessions().at(-1);
      expect(closed?.status).toBe("expired");
      await store.db.write((tx) =>
        tx.run("update agent_payment set state = 'refused', due_at = null where invoice_id = ?", [
          payable.invoice.id,
        ]),
      );
      const start = await beginPayment(harness.billing, payable.invoice.id, harness.clock.now);
      const page = stripe.sessionAt(start.kind === "page" ? start.url : null);
      expect(page.status).toBe("open");
      expect(page.id).not.toBe(closed?.id ?? "");
    });

    test("a page that opens after the check is closed before the payment is settled", async () => {
      const payable = await newPayable();
      let opened: Awaited<ReturnType<typeof beginPayment>> | undefined;
      const db = beforeFirstWrite(store.db, async () => {
        opened = await beginPayment(harness.billing, payable.invoice.id, harness.clock.now);
      });
      const result = await payable.pay({ ...x402, billing: { ...harness.billing, db } });
      expect(result.kind).toBe("paid");
      const page = stripe.sessionAt(opened?.kind === "page" ? opened.url : null);
      expect(page.status).toBe("expired");
      expect((await getInvoice(store.db, payable.invoice.id, payable.accountId)).status).toBe(
        "paid",
      );
      expect((await readWallet(store.db, payable.accountId)).paid).toBe(1_000n * NANO_PER_CENT);
    });
  });
});

describe.each(STORE_KINDS)("the invoice page during an x402 payment on %s", (store) => {
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

  test("shows the state of the payment and has no pay button", async () => {
    const account = await registerAccount(gateway);
    const { id, pay_url: payUrl } = await buyCredits(gateway, account);
    expect(await (await fetch(payUrl)).text()).toContain("<button");
    const path = ["POST", `/v1/billing/invoice/${id}/x402`] as const;
    const [requirements] = challengeIn((await api(gateway, account, path)).headers).accepts;
    if (requirements === undefined) throw new Error("no payment requirements");
    const { header } = await signPayment(fundedWallet(facilitator, 1_050n), requirements);
    facilitator.faults.settle = "reply lost";
    const headers = { "payment-signature": header };
    expect((await api(gateway, account, path, { headers })).status).toBe(503);
    const text = await pageText(payUrl);
    expect(text).toContain("This invoice is being paid");
    expect(text).toContain("If that payment fails, you can pay here.");
    expect(await (await fetch(payUrl)).text()).not.toContain("<button");
    const response = await submitForm(payUrl);
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toStartWith("/pay/");
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
