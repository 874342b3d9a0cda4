// A payment by x402 of which nobody could say what became of it, and an operator who says that it is not there: at the
// command line and on the page. It ends, and credits nothing.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { markPaid } from "../../src/billing/payments/manual-payments.ts";
import { findInvoice } from "../../src/billing/invoices/invoices.ts";
import { beginPayment } from "../../src/billing/billing-deps.ts";
import { findX402Payment, updateX402Payment } from "../../src/billing/x402/x402-payment-rows.ts";
import { pollX402, acceptPayment } from "../../src/billing/x402/x402-payments.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../src/billing/x402/protocol.ts";
import { lookUpOnChain, markNotOnChain } from "../../src/operator/payments/mark-not-on-chain.ts";
import { COMMAND_LINE_ACTOR } from "../../src/operator/accounts/account-actions.ts";
import { expectLedgerValid, readWallet } from "../billing/fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../billing/harness.ts";
import { createX402Deps, fundedWallet, signPayment } from "../billing/x402/wallet.ts";
import { runInProcess } from "../support/run-command.ts";
import { startFacilitator, type TestFacilitator } from "../support/fakes/x402-facilitator.ts";
import { registerAccount } from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, openStoreAt, type TestStore } from "../support/stores/stores.ts";
import { startFakeStripe } from "../support/fakes/stripe.ts";
import {
  OPERATOR_EMAIL,
  type OperatorHarness,
  hiddenFields,
  insertUnclearPayment,
  fetchPage,
  startOperatorHarness,
  type OperatorSession,
  signInOperator,
  readAudit,
} from "./harness.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

/** After it no signature of these tests can be used any more. */
const EXPIRED_MS = 600_000;
const AUDIT_ACTION = "payment.marked_absent";

describeEachStore((kind, openStore) => {
  describe(`postern admin mark-absent on ${kind}`, () => {
    let store: TestStore;
    let facilitator: TestFacilitator;
    let shop: BillingHarness;
    beforeAll(async () => {
      store = await openStore();
      facilitator = startFacilitator();
      shop = await createBillingHarness(store.db);
    });
    afterAll(async () => {
      await expectLedgerValid(store.db);
      await facilitator.stop();
      await store.close();
    });

    const admin = (args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
      runInProcess(["admin", ...args], {
        [kind === "sqlite" ? "POSTERN_DATA_DIR" : "DATABASE_URL"]: store.location.address,
        ...more,
      });
    const markedAbsent = (id: string, more: Readonly<Record<string, string>> = {}) =>
      admin(["mark-absent", id, "--reason", "no such transfer"], more);
    const withNode = () => ({ ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl });
    const leave = async () =>
      insertUnclearPayment(store.db, await shop.newAccount(), shop.clock.now);
    const stateOf = async (id: string) => (await findX402Payment(store.db, id))?.state;
    const listed = async (): Promise<string> => (await admin(["payments", "--unclear"])).stdout;

    test("ends it, credits nothing, voids the invoice that was made for it, and takes it off the list", async () => {
      const { id, accountId, invoiceId, payer } = await leave();
      expect(await listed()).toContain(`If it is not: postern admin mark-absent ${id} --reason`);
      expect(await markedAbsent(id)).toEqual({
        code: 0,
        stdout: `Marked ${id} as not on chain; nothing was credited. No node is set, so this rests on your decision.\n`,
        stderr: "",
      });
      expect(await findX402Payment(store.db, id)).toMatchObject({ state: "refused", dueAt: null });
      expect((await findInvoice(store.db, invoiceId))?.status).toBe("void");
      expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, promo: 0n });
      expect(await listed()).not.toContain(id);
      expect((await readAudit(store.db, AUDIT_ACTION)).at(-1)).toEqual({
        account_id: accountId,
        actor: "operator command line",
        action: AUDIT_ACTION,
        target: id,
        detail: {
          usd: "1",
          reason: "no such transfer",
          invoice: invoiceId,
          payer,
          chain: "not asked",
          heard: "no_answer",
        },
        network: null,
      });
    });

    test("is done once, however often it is said", async () => {
      const { id } = await leave();
      await markedAbsent(id);
      const entries = (await readAudit(store.db, AUDIT_ACTION)).length;
      expect(await markedAbsent(id)).toEqual({
        code: 0,
        stdout: `${id} was already closed; nothing changed.\n`,
        stderr: "",
      });
      expect((await readAudit(store.db, AUDIT_ACTION)).length).toBe(entries);
    });

    test("says it once where two operators say it at the same moment", async () => {
      const { id } = await leave();
      const other = kind === "sqlite" ? store.db : openStoreAt(store.location);
      const about = { by: COMMAND_LINE_ACTOR, reason: "both", network: null, now: shop.clock.now };
      const made = await Promise.all(
        [store.db, other, store.db].map((db) =>
          db.write((tx) => markNotOnChain(tx, { ...about, id, chainResult: "not asked" })),
        ),
      );
      expect(made.filter(Boolean).length).toBe(1);
      if (other !== store.db) await other.close();
    });

    test("refuses one that is followed still, one that was credited, and one that there is none of", async () => {
      const { id, invoiceId } = await leave();
      for (const state of ["open", "paid"] as const) {
        await store.db.write((tx) =>
          tx.run("update agent_payment set state = ? where id = ?", [state, id]),
        );
        const { code, stderr } = await markedAbsent(id);
        expect([code, stderr]).toEqual([1, expect.stringContaining("Nothing was changed.")]);
        expect(await stateOf(id)).toBe(state);
      }
      await store.db.write((tx) =>
        tx.run("update agent_payment set state = 'unclear' where id = ?", [id]),
      );
      const paid = { invoiceId, reference: `0x ${id}`, now: shop.clock.now };
      expect(await markPaid(shop.billing, paid)).toBe(true);
      expect((await markedAbsent(id)).stderr).toContain("Its invoice was marked as paid");
      expect(await stateOf(id)).toBe("unclear");
      expect((await markedAbsent("eip155:1:0x0:0x0:0x0")).stderr).toContain("There is no payment");
      expect((await admin(["mark-absent", id])).code).toBe(2);
      expect((await admin(["mark-absent", id, "--reason", " "])).code).toBe(2);
    });

    test("is refused where the node shows the payment", async () => {
      const counter = createX402Deps(shop, facilitator.env);
      const accountId = await shop.newAccount();
      const asked = paymentRequirementsFor(counter.paymentTerms, 100);
      const wallet = fundedWallet(facilitator, 100n);
      const { header } = await signPayment(wallet, asked as never, { now: shop.clock.now });
      facilitator.faults.settle = "reply lost";
      const bill = { accountId, invoice: { amountCents: 95 } };
      expect(await rejectionMessage(acceptPayment(counter, bill, header))).toContain("settlement");
      facilitator.faults.settle = "ok";
      shop.clock.now += EXPIRED_MS;
      facilitator.chain.advance(EXPIRED_MS / 1_000);
      await pollX402(counter);
      const id = transferIdOf(parsePaymentHeader(header));
      expect(await stateOf(id)).toBe("unclear");
      const { code, stderr } = await markedAbsent(id, withNode());
      expect(code).toBe(1);
      expect(stderr).toMatch(/The chain shows this payment, in the transaction 0x[0-9a-f]{64}/);
      expect(await stateOf(id)).toBe("unclear");
    });

    test("waits until the chain's own clock has passed the signature's end, and then the node says so, too", async () => {
      const { id, expiresAt } = await leave();
      const findPayment = async () => ({ kind: "absent", at: expiresAt }) as const;
      expect(await rejectionMessage(lookUpOnChain(store.db, { findPayment }, id))).toContain(
        "can still be used",
      );
      facilitator.chain.advance(2 * (EXPIRED_MS / 1_000));
      const { stdout } = await markedAbsent(id, withNode());
      expect(stdout).toContain("The node confirms it.");
      expect((await readAudit(store.db, AUDIT_ACTION)).at(-1)?.detail["chain"]).toBe("absent");
    });

    test("a node that does not answer does not block it", async () => {
      const { id } = await leave();
      const { stdout } = await markedAbsent(id, {
        ...facilitator.env,
        X402_RPC_URL: "http://127.0.0.1:1/",
      });
      expect(stdout).toContain("The node did not answer");
      expect(await stateOf(id)).toBe("refused");
    });

    test("its invoice can be paid at the page again", async () => {
      const stripe = startFakeStripe();
      const withPage = await createBillingHarness(store.db, stripe.env);
      const payment = await leave();
      const invoice = await shop.newInvoice(payment.accountId, 1_000);
      await store.db.write((tx) =>
        tx.run("update agent_payment set invoice_id = ?, made_invoice = 0 where id = ?", [
          invoice.id,
          payment.id,
        ]),
      );
      const begin = () => beginPayment(withPage.billing, invoice.id, shop.clock.now);
      expect(await begin()).toEqual({ kind: "processing" });
      await markedAbsent(payment.id);
      expect((await begin()).kind).toBe("page");
      await stripe.stop();
    });

    test("those that are unclear are found by an index of their own", async () => {
      const sql =
        kind === "sqlite"
          ? "select sql as text from sqlite_master where name = 'agent_payment_by_unclear'"
          : "select indexdef as text from pg_indexes where indexname = 'agent_payment_by_unclear'";
      const row = await store.db.get(sql);
      expect(String(row?.["text"])).toMatch(/\(created_at\) where .*state.* = 'unclear'/i);
    });
  });

  describe(`the operator's page of payments on ${kind}`, () => {
    let desk: OperatorHarness;
    let seat: OperatorSession;
    let account: string;
    beforeAll(async () => {
      desk = await startOperatorHarness(kind);
      seat = await signInOperator(desk);
      account = (await registerAccount(desk.gateway)).id;
    });
    afterAll(() => desk.gateway.stop());

    const db = () => desk.gateway.server.db;
    const page = (query = "") => fetchPage(desk, `/operator/payments${query}`, seat);
    const send = (form: Readonly<Record<string, string>>) =>
      fetchPage(desk, "/operator/payments", seat, { form });

    test("ends one with a reason, once, and says so", async () => {
      const { id } = await insertUnclearPayment(db(), account, desk.clock.now);
      const fields = { ...hiddenFields(await page(), "mark_absent"), reason: "not on the chain" };
      for (let time = 0; time < 2; time++) {
        const sent = await send(fields);
        expect([sent.status, sent.location]).toEqual([303, "/operator/payments?done=absent"]);
      }
      const shown = await page("?done=absent");
      expect(shown.text).toContain("Nothing was credited.");
      expect(shown.text).not.toContain(id);
      expect((await findX402Payment(db(), id))?.state).toBe("refused");
      const entries = await readAudit(db(), AUDIT_ACTION);
      expect(entries.length).toBe(1);
      expect(entries[0]).toMatchObject({
        account_id: account,
        actor: `operator ${OPERATOR_EMAIL}`,
        target: id,
        detail: { reason: "not on the chain", chain: "not asked" },
        network: expect.stringContaining("127.0.0"),
      });
    });

    test("wants a reason, the form's own token and an operator, and a payment that is unclear", async () => {
      const payment = await insertUnclearPayment(db(), account, desk.clock.now);
      const fields = hiddenFields(await page(), "mark_absent");
      const empty = await send({ ...fields, reason: " " });
      expect([empty.status, empty.text.includes("The reason must say something")]).toEqual([
        400,
        true,
      ]);
      expect((await send({ ...fields, reason: "x", csrf: "y" })).status).toBe(403);
      const stranger = await fetchPage(desk, "/operator/payments", undefined, {
        form: { ...fields, reason: "x" },
      });
      expect(stranger.location).toContain("/operator/signin");
      expect((await send({ ...fields, reason: "x", payment: "eip155:1:0x0:0x0:0x0" })).status).toBe(
        404,
      );
      await db().write((tx) =>
        updateX402Payment(tx, payment, { state: "paid", dueAt: null, now: desk.clock.now }),
      );
      const late = await send({ ...fields, reason: "typed before" });
      expect([late.status, late.text.includes("This payment was credited")]).toEqual([400, true]);
      expect((await findX402Payment(db(), payment.id))?.state).toBe("paid");
    });
  });
});
