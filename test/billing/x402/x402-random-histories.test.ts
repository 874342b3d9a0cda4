// Random histories of x402 payments with a faulty facilitator and node and crashing processes. In the end the ledger must
// equal what the operator received on the chain, to the cent.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { creditsFor, nanoOfCredits } from "../../../src/billing/invoices/cents.ts";
import { type Payable, totalCentsOf } from "../../../src/billing/payments/payment-protocol.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../../src/billing/x402/x402-messages.ts";
import { findX402Payment } from "../../../src/billing/x402/x402-payment-rows.ts";
import { type X402Deps, pollX402, acceptPayment } from "../../../src/billing/x402/x402-payments.ts";
import {
  startFacilitator,
  type TestFacilitator,
  type FacilitatorFaults,
} from "../../support/fakes/x402-facilitator.ts";
import { runs } from "../../support/full.ts";
import { type RandomInt, TEST_SEED, createRandom } from "../../support/random.ts";
import { openStore, type StoreKind, type TestStore } from "../../support/stores/stores.ts";
import { NANO_PER_CENT, expectLedgerValid, ledgerBalanceOf, readWallet } from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";
import { createX402Deps, fundedWallet, signPayment } from "./wallet.ts";

const HISTORIES: readonly (readonly [StoreKind, number])[] = [
  ["sqlite", runs(200)],
  ["postgres", runs(60)],
];
const CONCURRENCY = 6;
const AFTER_EXPIRY_MS = 4_000_000;

const SETTLE_BEHAVIORS: readonly FacilitatorFaults["settle"][] = [
  "ok",
  "ok",
  "ok",
  "down",
  "malformed",
  "reply lost",
  "unconfirmed",
  "dropped",
  "twice",
  "wrong transaction",
  "false failure",
];

describe.each(HISTORIES)("random x402 histories on %s", (kind, histories) => {
  let store: TestStore;
  let facilitator: TestFacilitator;
  let harness: BillingHarness;
  let processes: readonly X402Deps[];
  beforeAll(async () => {
    store = await openStore(kind);
    facilitator = startFacilitator();
    harness = await createBillingHarness(store.db);
    const env = { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl };
    const x402 = { ...createX402Deps(harness, env), outcomePollsMax: 2 };
    processes = [x402, { ...x402 }];
  });
  afterAll(async () => {
    await facilitator.stop();
    await store.close();
  });

  test(`${histories} histories end with the ledger equal to the chain`, async () => {
    const accounts: string[] = [];
    const queue = Array.from({ length: histories }, (_, index) => index);
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let index = queue.pop(); index !== undefined; index = queue.pop())
          accounts.push(await runHistory(createRandom(TEST_SEED + index)));
      }),
    );
    Object.assign(facilitator.faults, { verify: "ok", settle: "ok", node: "ok" });
    advanceTime(AFTER_EXPIRY_MS);
    for (let due = 1; due > 0; due = await countDue()) await pollX402(processAt(0));

    const received = facilitator.chain.balanceOf(facilitator.payTo);
    expect(received).toBeGreaterThan(0n);
    expect(-(await ledgerBalanceOf(store.db, "system:clearing:x402"))).toBe(
      received * NANO_PER_CENT,
    );
    for (const accountId of accounts) {
      const { paid, held } = await readWallet(store.db, accountId);
      expect({ accountId, paid, held }).toEqual({
        accountId,
        paid: creditSentBy(accountId),
        held: 0n,
      });
    }
    await expectLedgerValid(store.db);
    const pending = await store.db.all(
      "select id, state from agent_payment where state not in ('paid', 'refused')",
    );
    expect(pending).toEqual([]);
    const open = await store.db.get(
      "select count(*) as count from invoice join agent_payment on invoice.id = invoice_id where status = 'open' and made_invoice = 1",
    );
    expect(Number(open?.["count"])).toBe(0);
  });

  /** The credits that the account's wallets paid for on the chain. */
  function creditSentBy(accountId: string): bigint {
    const funded = wallets.get(accountId) ?? [];
    return funded.reduce(
      (sum, { address, initialBalance, credit }) =>
        facilitator.chain.balanceOf(address) === initialBalance ? sum : sum + credit,
      0n,
    );
  }

  interface FundedWallet {
    readonly address: string;
    readonly initialBalance: bigint;
    readonly credit: bigint;
  }
  const wallets = new Map<string, FundedWallet[]>();

  /** One account pays for calls and invoices, with a new wallet for each payment. Returns its id. */
  async function runHistory(random: RandomInt): Promise<string> {
    const accountId = await harness.newAccount();
    const funded: FundedWallet[] = [];
    wallets.set(accountId, funded);
    for (let payments = random(3) + 1; payments > 0; payments--) {
      const invoice =
        random(3) === 0
          ? await harness.newInvoice(accountId, 100 + random(3_000))
          : { credits: creditsFor(random(2) === 0 ? 100 : 105 + random(3_150)) };
      const payable: Payable = { accountId, invoice };
      const total = totalCentsOf(payable);
      const wallet = fundedWallet(facilitator, BigInt(total) + (random(8) === 0 ? -1n : 0n));
      funded.push({
        address: wallet.address,
        initialBalance: facilitator.chain.balanceOf(wallet.address),
        credit: nanoOfCredits(invoice.credits),
      });
      const requirements = paymentRequirementsFor(processAt(0).paymentTerms, total) as never;
      const signed = await signPayment(wallet, requirements, { now: harness.clock.now });
      for (let attempts = random(4) + 1; attempts > 0; attempts--) {
        setRandomFaults(random);
        const x402 =
          random(6) === 0
            ? crashingAfter(processAt(random(2)), random(5) + 1)
            : processAt(random(2));
        const attempt = (): Promise<unknown> =>
          acceptPayment(x402, payable, signed.header).catch(() => undefined);
        await Promise.all(random(4) === 0 ? [attempt(), attempt()] : [attempt()]);
        // Anyone who has seen a signature can submit it to the chain, but only after it was sent to the facilitator.
        const stored = await findX402Payment(
          store.db,
          transferIdOf(parsePaymentHeader(signed.header)),
        );
        if (random(10) === 0 && stored !== undefined)
          await facilitator.chain.mine([signed.transfer]).catch(() => undefined);
        if (random(25) === 0)
          facilitator.chain.cancel(wallet.address, signed.transfer.authorization.nonce);
        if (random(3) === 0) advanceTime(random(70_000));
        if (random(4) === 0) await pollX402(processAt(random(2)));
      }
    }
    return accountId;
  }

  function setRandomFaults(random: RandomInt): void {
    facilitator.faults.settle = SETTLE_BEHAVIORS[random(SETTLE_BEHAVIORS.length)] ?? "ok";
    facilitator.faults.verify = random(12) === 0 ? "down" : "ok";
    facilitator.faults.node = random(6) === 0 ? "down" : "ok";
  }

  function advanceTime(ms: number): void {
    const seconds = Math.ceil(ms / 1_000);
    harness.clock.now += seconds * 1_000;
    facilitator.chain.advance(seconds);
  }

  function processAt(index: number): X402Deps {
    const x402 = processes[index];
    if (x402 === undefined) throw new Error(`no process ${index}`);
    return x402;
  }

  /** A process whose writes fail after the given number. */
  function crashingAfter(x402: X402Deps, writesLeft: number): X402Deps {
    const { db } = x402.billing;
    let left = writesLeft;
    const write: typeof db.write = (work) => {
      left -= 1;
      return left < 0 ? Promise.reject(new Error("crashed")) : db.write(work);
    };
    return { ...x402, billing: { ...x402.billing, db: { ...db, kind: db.kind, write } } };
  }

  async function countDue(): Promise<number> {
    const row = await store.db.get(
      "select count(*) as count from agent_payment where due_at <= ?",
      [harness.clock.now],
    );
    advanceTime(61_000);
    return Number(row?.["count"] ?? 0);
  }
});
