// Payments that may have moved money, or may not: an operator finds them, finds out, and enters what was found.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { applyFact } from "../../../src/billing/payments/payment-facts.ts";
import { type X402Deps, pollX402, acceptPayment } from "../../../src/billing/x402/x402-payments.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../../src/billing/x402/protocol.ts";
import { runInProcess } from "../../support/run-command.ts";
import { startFacilitator, type TestFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { NANO_PER_CENT, expectLedgerValid, readWallet } from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";
import { createX402Deps, fundedWallet, signPayment } from "./wallet.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

/** After it no signature of these tests can be used any more. */
const AFTER_EXPIRY_MS = 600_000;

describeEachStore((kind, open) => {
  describe(`postern admin payments on ${kind}`, () => {
    let store: TestStore;
    let facilitator: TestFacilitator;
    let harness: BillingHarness;
    let counter: X402Deps;
    beforeAll(async () => {
      store = await open();
      facilitator = startFacilitator();
      harness = await createBillingHarness(store.db);
      counter = createX402Deps(harness, facilitator.env);
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

    /** A payment whose reply was lost, where no node can be asked. */
    async function lostPayment() {
      const accountId = await harness.newAccount();
      const wallet = fundedWallet(facilitator, 100n);
      const asked = paymentRequirementsFor(counter.paymentTerms, 100);
      const { header, transfer } = await signPayment(wallet, asked as never, {
        now: harness.clock.now,
      });
      facilitator.faults.settle = "reply lost";
      const bill = { accountId, invoice: { amountCents: 95 } };
      const refused = rejectionMessage(acceptPayment(counter, bill, header));
      expect(await refused).toContain("settlement");
      facilitator.faults.settle = "fine";
      return {
        accountId,
        id: transferIdOf(parsePaymentHeader(header)),
        payer: wallet.address.toLowerCase(),
        nonce: transfer.authorization.nonce,
      };
    }

    async function passTheirTime(): Promise<void> {
      harness.clock.now += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await pollX402(counter);
    }

    test("says so where there is none; one whose time is not over is none yet", async () => {
      await lostPayment();
      expect(await payments()).toEqual({
        code: 0,
        stdout: "No payment needs you.\n",
        stderr: "",
      });
      expect(await unclear()).toEqual([]);
    });

    test("shows all that is needed to find one on the chain, and what to do then", async () => {
      await passTheirTime();
      const began = new Date(harness.clock.now).toISOString();
      const lost = await lostPayment();
      await passTheirTime();
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
        `when       ${began}; its signature expired 20`,
      ])
        expect(newest).toContain(line);
      expect(newest).toMatch(/^invoice {4}inv_\w+ {2}open$/m);
      expect(newest).toMatch(/^heard {6}\S/m);
      expect(newest).toContain(`for a transfer to ${facilitator.payTo.toLowerCase()}. If it is`);
      expect(newest).toMatch(/: postern admin mark-paid inv_\w+ --reference <transaction>\./);
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
        created_at: began,
        next: expect.stringContaining("mark-paid"),
      });
      expect(second?.id).not.toBe(lost.id);
    });

    test("does not show one that an operator has entered", async () => {
      const lost = await lostPayment();
      await passTheirTime();
      const before = await unclear();
      expect(before.map(({ id }) => id)).toContain(lost.id);
      const { stdout } = await payments("--unclear");
      const invoiceId = /mark-paid (inv_\w+)/.exec(stdout)?.[1] ?? "";
      expect((await admin("mark-paid", invoiceId, "--reference", "0xfeed")).code).toBe(0);
      expect((await readWallet(store.db, lost.accountId)).paid).toBe(95n * NANO_PER_CENT);
      expect((await unclear()).map(({ id }) => id)).toEqual(
        before.map(({ id }) => id).filter((id) => id !== lost.id),
      );
    });

    test("does not ask to mark an invoice as paid that was paid otherwise", async () => {
      const lost = await lostPayment();
      await passTheirTime();
      await store.db.write((tx) =>
        tx.run("update invoice set status = 'paid' where account_id = ?", [lost.accountId]),
      );
      const [first] = await unclear();
      expect(first).toMatchObject({
        id: lost.id,
        invoice_status: "paid",
        next: expect.stringMatching(/^The invoice was paid otherwise\..*transfer it back\.$/),
      });
      await store.db.write((tx) =>
        tx.run("update invoice set status = 'open' where account_id = ?", [lost.accountId]),
      );
    });

    test("shows what did not fit its invoice, too, unless only these are asked for", async () => {
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
      expect(all.stdout).toMatch(/^did not fit +amount +invoice +heard +why\n/);
      expect(all.stdout).toMatch(
        new RegExp(`^paid {2}.*much too little.* \\$1\\.23 .*${invoiceId}`, "m"),
      );
      expect(all.stdout).toContain("\n\nunclear    eip155:84532:");
      expect(JSON.parse((await payments("--json")).stdout)).toMatchObject({
        object: "payments",
        aside: [{ kind: "paid", invoice_id: invoiceId, amount_cents: 123, currency: "usd" }],
      });
      expect((await payments("--unclear")).stdout).not.toContain("did not fit");
      expect(JSON.parse((await payments("--unclear", "--json")).stdout)).not.toHaveProperty(
        "aside",
      );
    });

    test("refuses flags that there are none of", async () => {
      expect((await payments("--open")).code).toBe(2);
    });
  });
});
