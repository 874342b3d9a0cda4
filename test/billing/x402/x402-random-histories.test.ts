// Random histories of agents that pay, of a facilitator in every weather, and of processes that die. They all must end
// with the ledger equal to what the chain says the operator was paid, to the cent.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  type Payable,
  type X402Deps,
  pollX402,
  acceptPayment,
} from "../../../src/billing/x402/x402-payments.ts";
import { findX402Payment } from "../../../src/billing/x402/x402-payment-rows.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../../src/billing/x402/protocol.ts";
import {
  startFacilitator,
  type TestFacilitator,
  type FacilitatorFaults,
} from "../../support/fakes/x402-facilitator.ts";
import { openStore, type StoreKind, type TestStore } from "../../support/stores/stores.ts";
import { NANO_PER_CENT, expectLedgerValid, ledgerBalanceOf, readWallet } from "../fixtures.ts";
import { type RandomInt, createRandom } from "../random.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";
import { createX402Deps, fundedWallet, signPayment } from "./wallet.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(120_000);

const HISTORIES: readonly (readonly [StoreKind, number])[] = [
  ["sqlite", 200],
  ["postgres", 60],
];
const CONCURRENCY = 6;
const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? Date.now() % 1_000_000);
const AFTER_EXPIRY_MS = 4_000_000;

const SETTLE_BEHAVIORS: readonly FacilitatorFaults["settle"][] = [
  "fine",
  "fine",
  "fine",
  "down",
  "garbled",
  "reply lost",
  "out of sight",
  "dropped",
  "twice",
  "liar",
  "silent failure",
];

describe.each(HISTORIES)("histories on %s", (kind, histories) => {
  let store: TestStore;
  let facilitator: TestFacilitator;
  let harness: BillingHarness;
  let counters: readonly X402Deps[];
  beforeAll(async () => {
    store = await openStore(kind);
    facilitator = startFacilitator();
    harness = await createBillingHarness(store.db);
    const env = { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl };
    const impatient = { ...createX402Deps(harness, env), outcomePollsMax: 2 };
    counters = [impatient, { ...impatient }];
  });
  afterAll(async () => {
    await facilitator.stop();
    await store.close();
  });

  test(`${histories} of them end with the ledger equal to the chain, to the cent (seed ${SEED})`, async () => {
    const bought = new Map<string, bigint>();
    const queue = Array.from({ length: histories }, (_, place) => place);
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (let place = queue.pop(); place !== undefined; place = queue.pop()) {
          const [accountId, paid] = await live(createRandom(SEED + place));
          bought.set(accountId, paid());
        }
      }),
    );
    Object.assign(facilitator.faults, { verify: "fine", settle: "fine", node: "fine" });
    pass(AFTER_EXPIRY_MS);
    for (let due = 1; due > 0; due = await dueNow()) await pollX402(at(0));

    const got = facilitator.chain.balanceOf(facilitator.payTo);
    expect(got).toBeGreaterThan(0n);
    expect(-(await ledgerBalanceOf(store.db, "system:clearing:x402"))).toBe(got * NANO_PER_CENT);
    for (const [accountId, paid] of bought) {
      const wallet = await readWallet(store.db, accountId);
      expect({ accountId, paid: wallet.paid }).toEqual({ accountId, paid: await truth(accountId) });
      expect(wallet.held).toBe(0n);
      expect(paid).toBeGreaterThanOrEqual(0n);
    }
    await expectLedgerValid(store.db);
    const rows = await store.db.all(
      "select state, count(*) as count from agent_payment group by state",
    );
    expect(rows.map((row) => String(row["state"])).toSorted()).toEqual(["paid", "refused"]);
    const open = await store.db.get(
      "select count(*) as count from invoice join agent_payment on invoice.id = invoice_id where status = 'open' and made_invoice = 1",
    );
    expect(Number(open?.["count"])).toBe(0);
  });

  /** What the wallets of an account have sent, less the fees. */
  async function truth(accountId: string): Promise<bigint> {
    const sent = wallets.get(accountId) ?? [];
    return sent.reduce(
      (sum, { address, had, credit }) =>
        facilitator.chain.balanceOf(address) === had ? sum : sum + credit,
      0n,
    );
  }

  interface Purse {
    readonly address: string;
    readonly had: bigint;
    readonly credit: bigint;
  }
  const wallets = new Map<string, Purse[]>();

  /** One account: it pays for calls and for invoices, again and again, with a wallet for each payment. */
  async function live(roll: RandomInt): Promise<readonly [string, () => bigint]> {
    const accountId = await harness.newAccount();
    const purses: Purse[] = [];
    wallets.set(accountId, purses);
    for (let payments = roll(3) + 1; payments > 0; payments--) {
      const amountCents = roll(2) === 0 ? 95 : 100 + roll(3_000);
      const invoice =
        roll(3) === 0 ? await harness.newInvoice(accountId, amountCents) : { amountCents };
      const bill: Payable = { accountId, invoice };
      const total = amountCents + Math.floor((amountCents * 5 + 50) / 100);
      const wallet = fundedWallet(facilitator, BigInt(total) + (roll(8) === 0 ? -1n : 0n));
      purses.push({
        address: wallet.address,
        had: facilitator.chain.balanceOf(wallet.address),
        credit: BigInt(amountCents) * NANO_PER_CENT,
      });
      const requirement = paymentRequirementsFor(at(0).paymentTerms, total) as never;
      const signed = await signPayment(wallet, requirement, { now: harness.clock.now });
      for (let tries = roll(4) + 1; tries > 0; tries--) {
        change(roll);
        const counter = roll(6) === 0 ? dying(at(roll(2)), roll(5) + 1) : at(roll(2));
        const tried = (): Promise<unknown> =>
          acceptPayment(counter, bill, signed.header).catch(() => undefined);
        await Promise.all(roll(4) === 0 ? [tried(), tried()] : [tried()]);
        // Whoever has seen a signature may bring it to the chain; nobody sees it before it was taken.
        const seen = await findX402Payment(
          store.db,
          transferIdOf(parsePaymentHeader(signed.header)),
        );
        if (roll(10) === 0 && seen !== undefined)
          await facilitator.chain.mine([signed.transfer]).catch(() => undefined);
        if (roll(25) === 0)
          facilitator.chain.cancel(wallet.address, signed.transfer.authorization.nonce);
        if (roll(3) === 0) pass(roll(70_000));
        if (roll(4) === 0) await pollX402(at(roll(2)));
      }
    }
    return [accountId, () => purses.reduce((sum, { credit }) => sum + credit, 0n)];
  }

  function change(roll: RandomInt): void {
    facilitator.faults.settle = SETTLE_BEHAVIORS[roll(SETTLE_BEHAVIORS.length)] ?? "fine";
    facilitator.faults.verify = roll(12) === 0 ? "down" : "fine";
    facilitator.faults.node = roll(6) === 0 ? "down" : "fine";
  }

  function pass(ms: number): void {
    const seconds = Math.ceil(ms / 1_000);
    harness.clock.now += seconds * 1_000;
    facilitator.chain.advance(seconds);
  }

  function at(place: number): X402Deps {
    const counter = counters[place];
    if (counter === undefined) throw new Error("no such counter");
    return counter;
  }

  /** A process that dies at one of its writes. */
  function dying(counter: X402Deps, writesLeft: number): X402Deps {
    const { db } = counter.billing;
    let left = writesLeft;
    const write: typeof db.write = (work) => {
      left -= 1;
      return left < 0 ? Promise.reject(new Error("killed")) : db.write(work);
    };
    return { ...counter, billing: { ...counter.billing, db: { ...db, kind: db.kind, write } } };
  }

  async function dueNow(): Promise<number> {
    const row = await store.db.get(
      "select count(*) as count from agent_payment where due_at <= ?",
      [harness.clock.now],
    );
    pass(61_000);
    return Number(row?.["count"] ?? 0);
  }
});
