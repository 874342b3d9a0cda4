// Marking an unclear x402 payment as not on chain, at the command line and on the payments page.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { beginPayment } from "../../src/billing/billing-deps.ts";
import { creditsFor } from "../../src/billing/invoices/cents.ts";
import { findInvoice } from "../../src/billing/invoices/invoices.ts";
import { updateAgentPayment } from "../../src/billing/payments/agent-payment-rows.ts";
import { markPaid } from "../../src/billing/payments/manual-payments.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../src/billing/x402/x402-messages.ts";
import { findX402Payment } from "../../src/billing/x402/x402-payment-rows.ts";
import { pollX402, acceptPayment } from "../../src/billing/x402/x402-payments.ts";
import { COMMAND_LINE_ACTOR } from "../../src/operator/accounts/account-actions.ts";
import { lookUpOnChain, markNotOnChain } from "../../src/operator/payments/mark-not-on-chain.ts";
import { expectLedgerValid, readWallet } from "../billing/fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../billing/harness.ts";
import { createX402Deps, fundedWallet, signPayment } from "../billing/x402/wallet.ts";
import { TEST_ACTOR } from "../support/act.ts";
import { startFakeStripe } from "../support/fakes/stripe.ts";
import { startFacilitator, type TestFacilitator } from "../support/fakes/x402-facilitator.ts";
import { registerAccount } from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { runInProcess } from "../support/run-command.ts";
import { describeEachStore, openStoreAt, type TestStore } from "../support/stores/stores.ts";
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

// The first of these tests starts PostgreSQL.

/** After this time, every signature of these tests has expired. */
const EXPIRED_MS = 600_000;
const AUDIT_ACTION = "payment.marked_absent";

describeEachStore((kind, openStore) => {
  describe(`postern admin mark-absent on ${kind}`, () => {
    let store: TestStore;
    let facilitator: TestFacilitator;
    let harness: BillingHarness;
    beforeAll(async () => {
      store = await openStore();
      facilitator = startFacilitator();
      harness = await createBillingHarness(store.db);
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
    const runMarkAbsent = (id: string, more: Readonly<Record<string, string>> = {}) =>
      admin(["mark-absent", id, "--reason", "no such transfer"], more);
    const withNode = () => ({ ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl });
    const insertUnclear = async () =>
      insertUnclearPayment(store.db, await harness.newAccount(), harness.clock.now);
    const stateOf = async (id: string) => (await findX402Payment(store.db, id))?.state;
    const listUnclear = async (): Promise<string> =>
      (await admin(["payments", "--unclear"])).stdout;

    test("closes the payment without credits, voids its own invoice and removes it from the list", async () => {
      const { id, accountId, invoiceId, payer } = await insertUnclear();
      expect(await listUnclear()).toContain(
        `If no, run \`postern admin mark-absent ${id} --reason`,
      );
      expect(await runMarkAbsent(id)).toEqual({
        code: 0,
        stdout: `Marked ${id} as not on chain; nothing was credited. No node is set, so this rests on your decision.\n`,
        stderr: "",
      });
      expect(await findX402Payment(store.db, id)).toMatchObject({ state: "refused", dueAt: null });
      expect((await findInvoice(store.db, invoiceId))?.status).toBe("void");
      expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, promo: 0n });
      expect(await listUnclear()).not.toContain(id);
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
          previous_reason: "no_answer",
        },
        network: null,
      });
    });

    test("is applied once", async () => {
      const { id } = await insertUnclear();
      await runMarkAbsent(id);
      const entries = (await readAudit(store.db, AUDIT_ACTION)).length;
      expect(await runMarkAbsent(id)).toEqual({
        code: 0,
        stdout: `${id} was already closed; nothing changed.\n`,
        stderr: "",
      });
      expect((await readAudit(store.db, AUDIT_ACTION)).length).toBe(entries);
    });

    test("is applied once if two operators send it at the same time", async () => {
      const { id } = await insertUnclear();
      const other = kind === "sqlite" ? store.db : openStoreAt(store.location);
      const request = {
        by: COMMAND_LINE_ACTOR,
        reason: "both",
        network: null,
        now: harness.clock.now,
      };
      const results = await Promise.all(
        [store.db, other, store.db].map((db) =>
          db.write((tx) => markNotOnChain(tx, { ...request, id, chainResult: "not asked" })),
        ),
      );
      expect(results.filter(Boolean).length).toBe(1);
      if (other !== store.db) await other.close();
    });

    test("rejects payments that are pending, credited or unknown", async () => {
      const { id, invoiceId } = await insertUnclear();
      for (const state of ["open", "paid"] as const) {
        await store.db.write((tx) =>
          tx.run("update agent_payment set state = ? where id = ?", [state, id]),
        );
        const { code, stderr } = await runMarkAbsent(id);
        expect([code, stderr]).toEqual([1, expect.stringContaining("Nothing was changed.")]);
        expect(await stateOf(id)).toBe(state);
      }
      await store.db.write((tx) =>
        tx.run("update agent_payment set state = 'unclear' where id = ?", [id]),
      );
      const paid = { invoiceId, reference: `0x ${id}`, by: TEST_ACTOR, now: harness.clock.now };
      expect(await markPaid(harness.billing, paid)).toBe(true);
      expect((await runMarkAbsent(id)).stderr).toContain("was marked as paid by");
      expect(await stateOf(id)).toBe("unclear");
      expect((await runMarkAbsent("eip155:1:0x0:0x0:0x0")).stderr).toContain(
        "There is no x402 payment",
      );
      expect((await admin(["mark-absent", id])).code).toBe(2);
      expect((await admin(["mark-absent", id, "--reason", " "])).code).toBe(2);
    });

    test("is rejected if the payment is on the chain", async () => {
      const x402 = createX402Deps(harness, facilitator.env);
      const accountId = await harness.newAccount();
      const requirements = paymentRequirementsFor(x402.paymentTerms, 100);
      const wallet = fundedWallet(facilitator, 100n);
      const { header } = await signPayment(wallet, requirements as never, {
        now: harness.clock.now,
      });
      facilitator.faults.settle = "reply lost";
      const request = { accountId, invoice: { credits: creditsFor(100) } };
      expect(await rejectionMessage(acceptPayment(x402, request, header))).toContain("settlement");
      facilitator.faults.settle = "ok";
      harness.clock.now += EXPIRED_MS;
      facilitator.chain.advance(EXPIRED_MS / 1_000);
      await pollX402(x402);
      const id = transferIdOf(parsePaymentHeader(header));
      expect(await stateOf(id)).toBe("unclear");
      const { code, stderr } = await runMarkAbsent(id, withNode());
      expect(code).toBe(1);
      expect(stderr).toMatch(/The payment is on the chain, in transaction 0x[0-9a-f]{64}/);
      expect(await stateOf(id)).toBe("unclear");
    });

    test("is rejected until the signature has expired by the chain's time, and records the node's result", async () => {
      const { id, expiresAt } = await insertUnclear();
      const findPayment = async () => ({ kind: "absent", at: expiresAt }) as const;
      expect(await rejectionMessage(lookUpOnChain(store.db, { findPayment }, id))).toContain(
        "has not expired yet",
      );
      facilitator.chain.advance(2 * (EXPIRED_MS / 1_000));
      const { stdout } = await runMarkAbsent(id, withNode());
      expect(stdout).toContain("The node confirms it.");
      expect((await readAudit(store.db, AUDIT_ACTION)).at(-1)?.detail["chain"]).toBe("absent");
    });

    test("is possible if the node does not respond", async () => {
      const { id } = await insertUnclear();
      const { stdout } = await runMarkAbsent(id, {
        ...facilitator.env,
        X402_RPC_URL: "http://127.0.0.1:1/",
      });
      expect(stdout).toContain("The node did not answer");
      expect(await stateOf(id)).toBe("refused");
    });

    test("makes its invoice payable on the pay page again", async () => {
      const stripe = startFakeStripe();
      const withPage = await createBillingHarness(store.db, stripe.env);
      const payment = await insertUnclear();
      const invoice = await harness.newInvoice(payment.accountId, 1_000);
      await store.db.write((tx) =>
        tx.run("update agent_payment set invoice_id = ?, made_invoice = 0 where id = ?", [
          invoice.id,
          payment.id,
        ]),
      );
      const begin = () => beginPayment(withPage.billing, invoice.id, harness.clock.now);
      expect(await begin()).toEqual({ kind: "processing" });
      await runMarkAbsent(payment.id);
      expect((await begin()).kind).toBe("page");
      await stripe.stop();
    });

    test("has a partial index for unclear payments", async () => {
      const sql =
        kind === "sqlite"
          ? "select sql as text from sqlite_master where name = 'agent_payment_by_unclear'"
          : "select indexdef as text from pg_indexes where indexname = 'agent_payment_by_unclear'";
      const row = await store.db.get(sql);
      expect(String(row?.["text"])).toMatch(/\(created_at\) where .*state.* = 'unclear'/i);
    });
  });

  describe(`payments page on ${kind}`, () => {
    let harness: OperatorHarness;
    let session: OperatorSession;
    let account: string;
    beforeAll(async () => {
      harness = await startOperatorHarness(kind);
      session = await signInOperator(harness);
      account = (await registerAccount(harness.gateway)).id;
    });
    afterAll(() => harness.gateway.stop());

    const db = () => harness.gateway.server.db;
    const page = (query = "") => fetchPage(harness, `/operator/payments${query}`, session);
    const send = (form: Readonly<Record<string, string>>) =>
      fetchPage(harness, "/operator/payments", session, { form });

    test("marks a payment as not on chain once, with a reason", async () => {
      const { id } = await insertUnclearPayment(db(), account, harness.clock.now);
      const fields = { ...hiddenFields(await page(), "mark_absent"), reason: "not on the chain" };
      for (let time = 0; time < 2; time++) {
        const sent = await send(fields);
        expect([sent.status, sent.location]).toEqual([303, "/operator/payments?done=absent"]);
      }
      const result = await page("?done=absent");
      expect(result.text).toContain("Nothing was credited.");
      expect(result.text).not.toContain(id);
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

    test("requires a reason, a CSRF token, an operator and an unclear payment", async () => {
      const payment = await insertUnclearPayment(db(), account, harness.clock.now);
      const fields = hiddenFields(await page(), "mark_absent");
      const empty = await send({ ...fields, reason: " " });
      expect([empty.status, empty.text.includes("The reason must be one line")]).toEqual([
        400,
        true,
      ]);
      expect((await send({ ...fields, reason: "x", csrf: "y" })).status).toBe(403);
      const stranger = await fetchPage(harness, "/operator/payments", undefined, {
        form: { ...fields, reason: "x" },
      });
      expect(stranger.location).toContain("/operator/signin");
      expect((await send({ ...fields, reason: "x", payment: "eip155:1:0x0:0x0:0x0" })).status).toBe(
        404,
      );
      await db().write((tx) =>
        updateAgentPayment(tx, payment, { state: "paid", dueAt: null, now: harness.clock.now }),
      );
      const late = await send({ ...fields, reason: "typed before" });
      expect([late.status, late.text.includes("This payment was credited")]).toEqual([400, true]);
      expect((await findX402Payment(db(), payment.id))?.state).toBe("paid");
    });
  });
});
