// `postern admin payments`: unclear x402 payments, and what the operator does about them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { creditsFor } from "../../../src/billing/invoices/cents.ts";
import { applyFact } from "../../../src/billing/payments/payment-facts.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../../src/billing/x402/x402-messages.ts";
import { type X402Deps, pollX402, acceptPayment } from "../../../src/billing/x402/x402-payments.ts";
import { startFacilitator, type TestFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { runInProcess } from "../../support/run-command.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { expectLedgerValid, readWallet } from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";
import { createX402Deps, fundedWallet, signPayment } from "./wallet.ts";

/** After this time all signatures of these tests have expired. */
const AFTER_EXPIRY_MS = 600_000;

describeEachStore((kind, open) => {
  describe(`postern admin payments on ${kind}`, () => {
    let store: TestStore;
    let facilitator: TestFacilitator;
    let harness: BillingHarness;
    let x402: X402Deps;
    beforeAll(async () => {
      store = await open();
      facilitator = startFacilitator();
      harness = await createBillingHarness(store.db);
      x402 = createX402Deps(harness, facilitator.env);
    });
    afterAll(async () => {
      await expectLedgerValid(store.db);
      await facilitator.stop();
      await store.close();
    });

    const admin = (...args: readonly string[]) =>
      runInProcess(["admin", ...args], {
        [kind === "sqlite" ? "POSTERN_DATA_DIR" : "DATABASE_URL"]: store.location.address,
      });
    const payments = (...flags: readonly string[]) => admin("payments", ...flags);
    const unclear = async (): Promise<readonly { readonly id: string }[]> =>
      JSON.parse((await payments("--unclear", "--json")).stdout).unclear;

    /** A payment with a lost reply, without a node to look it up. */
    async function lostPayment() {
      const accountId = await harness.newAccount();
      const wallet = fundedWallet(facilitator, 100n);
      const requirements = paymentRequirementsFor(x402.paymentTerms, 100);
      const { header, transfer } = await signPayment(wallet, requirements as never, {
        now: harness.clock.now,
      });
      facilitator.faults.settle = "reply lost";
      const payable = { accountId, invoice: { credits: creditsFor(100) } };
      const error = rejectionMessage(acceptPayment(x402, payable, header));
      expect(await error).toContain("settlement");
      facilitator.faults.settle = "ok";
      return {
        accountId,
        id: transferIdOf(parsePaymentHeader(header)),
        payer: wallet.address.toLowerCase(),
        nonce: transfer.authorization.nonce,
      };
    }

    async function expirePayments(): Promise<void> {
      harness.clock.now += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await pollX402(x402);
    }

    test("shows no payment before its signature has expired", async () => {
      await lostPayment();
      expect(await payments()).toEqual({
        code: 0,
        stdout: "No payments need attention.\n",
        stderr: "",
      });
      expect(await unclear()).toEqual([]);
    });

    test("shows what is needed to find a payment on the chain, and the next command", async () => {
      await expirePayments();
      const createdAt = new Date(harness.clock.now).toISOString();
      const lost = await lostPayment();
      await expirePayments();
      const { code, stdout } = await payments("--unclear");
      expect(code).toBe(0);
      const [newest = ""] = stdout.split("\n\n");
      for (const line of [
        `unclear    ${lost.id}`,
        `account    ${lost.accountId}`,
        "amount     $1.00",
        "network    eip155:84532",
        `payer      ${lost.payer}`,
        `nonce      ${lost.nonce}`,
        `created    ${createdAt}; signature expired 20`,
      ])
        expect(newest).toContain(line);
      expect(newest).toMatch(/^invoice {4}inv_\w+ {2}open$/m);
      expect(newest).toMatch(/^status {5}\S/m);
      expect(newest).toContain(`a transfer to ${facilitator.payTo.toLowerCase()}? If yes`);
      expect(newest).toMatch(/`postern admin mark-paid inv_\w+ --reference <transaction>`\./);
      const [first, second] = await unclear();
      expect(first).toMatchObject({
        id: lost.id,
        account_id: lost.accountId,
        invoice_status: "open",
        amount_usd: "1",
        network: "eip155:84532",
        payer: lost.payer,
        pay_to: facilitator.payTo.toLowerCase(),
        nonce: lost.nonce,
        created_at: createdAt,
        next: expect.stringContaining("mark-paid"),
      });
      expect(second?.id).not.toBe(lost.id);
    });

    test("does not show a payment that was marked as paid", async () => {
      const lost = await lostPayment();
      await expirePayments();
      const before = await unclear();
      expect(before.map(({ id }) => id)).toContain(lost.id);
      const { stdout } = await payments("--unclear");
      const invoiceId = /mark-paid (inv_\w+)/.exec(stdout)?.[1] ?? "";
      expect((await admin("mark-paid", invoiceId, "--reference", "0xfeed")).code).toBe(0);
      expect((await readWallet(store.db, lost.accountId)).paid).toBe(952_380_000n);
      expect((await unclear()).map(({ id }) => id)).toEqual(
        before.map(({ id }) => id).filter((id) => id !== lost.id),
      );
    });

    test("does not suggest mark-paid for an invoice that was paid in another way", async () => {
      const lost = await lostPayment();
      await expirePayments();
      await store.db.write((tx) =>
        tx.run("update invoice set status = 'paid' where account_id = ?", [lost.accountId]),
      );
      const [first] = await unclear();
      expect(first).toMatchObject({
        id: lost.id,
        invoice_status: "paid",
        next: expect.stringMatching(
          /^The invoice was paid in another way\..*transfer the money back\./,
        ),
      });
      await store.db.write((tx) =>
        tx.run("update invoice set status = 'open' where account_id = ?", [lost.accountId]),
      );
    });

    test("shows payments that were set aside, except with --unclear", async () => {
      const accountId = await harness.newAccount();
      const { id: invoiceId } = await harness.newInvoice(accountId, 1_000);
      await store.db.write((tx) =>
        applyFact(
          tx,
          {
            processor: "test",
            ref: "much too little",
            kind: "paid",
            payment: "much too little",
            invoiceId,
            amountCents: 123,
            taxCents: 0,
            currency: "usd",
            at: harness.clock.now,
          },
          harness.clock.now,
        ),
      );
      const all = await payments();
      expect(all.stdout).toMatch(/^unapplied +amount +invoice +received +reason\n/);
      expect(all.stdout).toMatch(
        new RegExp(`^paid {2}.*much too little.* \\$1\\.23 .*${invoiceId}`, "m"),
      );
      expect(all.stdout).toContain("\n\nunclear    eip155:84532:");
      expect(JSON.parse((await payments("--json")).stdout)).toMatchObject({
        object: "payments",
        unapplied: [{ kind: "paid", invoice_id: invoiceId, amount_cents: 123, currency: "usd" }],
      });
      expect((await payments("--unclear")).stdout).not.toContain("did not fit");
      expect(JSON.parse((await payments("--unclear", "--json")).stdout)).not.toHaveProperty(
        "unapplied",
      );
    });

    test("rejects unknown flags", async () => {
      expect((await payments("--open")).code).toBe(2);
    });
  });
});
