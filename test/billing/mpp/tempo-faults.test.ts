// Faults between a signed Tempo transaction and its credits: crashes at every write, lost requests and replies, a network
// that stands still. A transaction that the network included is credited once; one that it did not include never is.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../../src/base/crypto/secret.ts";
import { Fault } from "../../../src/base/fault.ts";
import { creditsFor } from "../../../src/billing/invoices/cents.ts";
import { createChallenger } from "../../../src/billing/mpp/challenge.ts";
import { createMppProtocol } from "../../../src/billing/mpp/mpp-protocol.ts";
import type { Payable, ProtocolResult } from "../../../src/billing/payments/payment-protocol.ts";
import {
  createTempoDeps,
  createTempoMethod,
  pollTempo,
  type TempoDeps,
} from "../../../src/billing/tempo/tempo-method.ts";
import { readConfig } from "../../../src/config/config.ts";
import type { Db } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import {
  skipWithoutAnvil,
  startTempoChain,
  type TempoChain,
} from "../../support/fakes/tempo-chain.ts";
import { openStore, STORE_KINDS, type TestStore } from "../../support/stores/stores.ts";
import { expectLedgerValid, ledgerBalanceOf, NANO_PER_CENT, readWallet } from "../fixtures.ts";
import { type BillingHarness, createBillingHarness, failAtWrite } from "../harness.ts";
import { createTempoClient } from "./client.ts";

const PAID_NANO = 952_380_000n;
const FUNDS = 200n;
const LEASE_MS = 61_000;
const RETRY_MS = 5_001;
const LATE_RETRY_MS = 121_000;
/** The official client's transactions are valid for 25 seconds. */
const AFTER_EXPIRY_SECONDS = 40;
/** The node's lag that is waited for. */
const LAG_SECONDS = 60;
const CHALLENGER = createChallenger(secret("a master secret for challenges"), "http://127.0.0.1");

interface Buyer {
  readonly payable: Payable;
  readonly credential: string;
  readonly address: string;
}

describe.skipIf(skipWithoutAnvil()).each(STORE_KINDS)(
  "Tempo payments with faults on %s",
  (kind) => {
    let store: TestStore;
    let chain: TempoChain;
    let harness: BillingHarness;
    let paidBefore: bigint;
    beforeAll(async () => {
      store = await openStore(kind);
    });
    afterAll(() => store.close());
    // A node's time cannot be set back.
    beforeEach(async () => {
      chain = await startTempoChain();
      harness = await createBillingHarness(store.db, chain.env);
      paidBefore = await ledgerBalanceOf(store.db, "system:clearing:tempo");
    });
    afterEach(async () => {
      await expectLedgerValid(store.db);
      const cleared = paidBefore - (await ledgerBalanceOf(store.db, "system:clearing:tempo"));
      expect(cleared).toBe((await chain.balanceOf(chain.payTo)) * NANO_PER_CENT);
      await chain.stop();
    });

    function depsOf(db: Db = store.db): TempoDeps {
      const read = readConfig({ env: chain.env, hostName: "test", providers: [] });
      if (!read.ok || read.config.tempo === undefined) throw new Error("tempo is off");
      const billing = { ...harness.billing, db };
      const deps = createTempoDeps(read.config.tempo, { billing, now: () => harness.clock.now });
      return { ...deps, outcomePollsMax: 2, chainPollsMax: 3 };
    }

    function protocolOf(deps = depsOf()) {
      const methods = [createTempoMethod(deps)];
      return createMppProtocol({ challenger: CHALLENGER, methods, now: deps.now });
    }

    async function newBuyer(
      invoice: Payable["invoice"] = { credits: creditsFor(100) },
      owner?: string,
    ) {
      const wallet = await chain.newWallet(FUNDS);
      const payable = { accountId: owner ?? (await harness.newAccount()), invoice };
      const resource = { path: "/", description: "credits" };
      const headers = protocolOf().challenge(payable, resource, undefined);
      const unpaid = new Response("", { status: 402, headers: { ...headers } });
      const credential = await createTempoClient(chain, wallet).credentialFor(unpaid);
      return { payable, credential, address: wallet.address };
    }

    const pay = (buyer: Buyer, deps = depsOf()): Promise<ProtocolResult> =>
      protocolOf(deps).accept(buyer.payable, buyer.credential);

    async function codeOf(work: Promise<unknown>): Promise<string> {
      return await work.then(
        () => "no error",
        (error: unknown) => (error instanceof Fault ? error.code : String(error)),
      );
    }

    async function rowOf({ payable }: Buyer) {
      const sql =
        "select p.*, i.status from agent_payment p join invoice i on i.id = p.invoice_id where p.account_id = ?";
      return await store.db.get(sql, [payable.accountId]);
    }

    async function expectCredited(buyer: Buyer, nano = PAID_NANO, spent = 100n): Promise<void> {
      expect((await readWallet(store.db, buyer.payable.accountId)).paid).toBe(nano);
      expect(await chain.balanceOf(buyer.address)).toBe(FUNDS - spent);
      expect(await rowOf(buyer)).toMatchObject({ state: "paid", due_at: null, status: "paid" });
    }

    async function expectUnpaid(buyer: Buyer): Promise<void> {
      expect((await readWallet(store.db, buyer.payable.accountId)).paid).toBe(0n);
      expect(await chain.balanceOf(buyer.address)).toBe(FUNDS);
      expect(await rowOf(buyer)).toMatchObject({ state: "refused", due_at: null, status: "void" });
    }

    async function advance(seconds: number): Promise<void> {
      harness.clock.now += seconds * 1_000;
      await chain.advance(seconds);
    }

    const WRITES = 5;
    for (const when of ["before", "after"] as const)
      for (let write = 1; write <= WRITES; write++)
        test(`a crash ${when} write ${write} loses nothing and credits once`, async () => {
          const buyer = await newBuyer();
          await pay(buyer, depsOf(failAtWrite(store.db, write, when))).catch(() => undefined);
          harness.clock.now += LEASE_MS;
          await pollTempo(depsOf());
          if ((await rowOf(buyer)) === undefined) harness.clock.now -= LEASE_MS;
          expect((await pay(buyer)).kind).toBe("paid");
          await expectCredited(buyer);
        });

    test("a crash before the transaction was sent, found after its end, charges nothing", async () => {
      const buyer = await newBuyer();
      await pay(buyer, depsOf(failAtWrite(store.db, 1, "after"))).catch(() => undefined);
      await advance(AFTER_EXPIRY_SECONDS + LAG_SECONDS);
      await pollTempo(depsOf());
      expect(await pay(buyer)).toMatchObject({ kind: "refused" });
      await expectUnpaid(buyer);
    });

    test("a lost reply is a 503, and the transaction is found on the chain", async () => {
      const buyer = await newBuyer();
      const deps = depsOf();
      const send = async (bytes: string) => {
        chain.fault = "reply lost";
        return await deps.node.send(bytes);
      };
      expect(await codeOf(pay(buyer, { ...deps, node: { ...deps.node, send } }))).toBe(
        "overloaded",
      );
      chain.fault = "ok";
      harness.clock.now += RETRY_MS;
      await pollTempo(depsOf());
      await expectCredited(buyer);
      expect((await pay(buyer)).kind).toBe("paid");
    });

    test("a transaction that did not reach the node is sent again", async () => {
      const buyer = await newBuyer();
      chain.fault = "send lost";
      expect(await codeOf(pay(buyer))).toBe("overloaded");
      chain.fault = "ok";
      harness.clock.now += RETRY_MS;
      expect((await pay(buyer)).kind).toBe("paid");
      await expectCredited(buyer);
    });

    test("a transaction that never reached the node is refused after its end, and its invoice is voided", async () => {
      const buyer = await newBuyer();
      chain.fault = "send lost";
      expect(await codeOf(pay(buyer))).toBe("overloaded");
      await advance(AFTER_EXPIRY_SECONDS);
      await pollTempo(depsOf());
      // Another node may know it still.
      expect(await rowOf(buyer)).toMatchObject({ state: "open", status: "open" });
      chain.fault = "ok";
      await advance(LAG_SECONDS);
      await pollTempo(depsOf());
      await expectUnpaid(buyer);
      expect(await pay(buyer)).toMatchObject({
        kind: "refused",
        reason: "the network did not include the transaction in time",
      });
    });

    test("while the network makes no blocks the outcome is a 503, and then it is credited", async () => {
      const buyer = await newBuyer();
      await chain.pause();
      expect(await codeOf(pay(buyer))).toBe("overloaded");
      expect((await readWallet(store.db, buyer.payable.accountId)).paid).toBe(0n);
      await chain.resume();
      harness.clock.now += RETRY_MS;
      await pollTempo(depsOf());
      await expectCredited(buyer);
    });

    test("a node that stays away leaves the payment open, however long", async () => {
      const buyer = await newBuyer();
      await chain.pause();
      expect(await codeOf(pay(buyer))).toBe("overloaded");
      chain.fault = "down";
      for (let hours = 0; hours < 3; hours++) {
        harness.clock.now += 3_600_000;
        await pollTempo(depsOf());
        expect(await rowOf(buyer)).toMatchObject({ state: "open", status: "open" });
      }
      chain.fault = "ok";
      await chain.resume();
      harness.clock.now += LEASE_MS;
      await pollTempo(depsOf());
      await expectCredited(buyer);
    });

    test("a rejected transaction that is included nevertheless is credited later", async () => {
      const buyer = await newBuyer();
      const deps = depsOf();
      const rejecting = { ...deps.node, send: async () => "the network rejected the transaction" };
      expect(await pay(buyer, { ...deps, node: rejecting })).toMatchObject({ kind: "refused" });
      expect(await rowOf(buyer)).toMatchObject({ state: "refused", status: "void" });
      await deps.node.send(bytesOf(await rowOf(buyer)));
      await eventually(async () => (await chain.balanceOf(buyer.address)) === FUNDS - 100n);
      harness.clock.now += LATE_RETRY_MS + AFTER_EXPIRY_SECONDS * 1_000;
      await pollTempo(depsOf());
      expect(await chain.balanceOf(buyer.address)).toBe(FUNDS - 100n);
      expect(await rowOf(buyer)).toMatchObject({ state: "paid", due_at: null });
      expect((await readWallet(store.db, buyer.payable.accountId)).paid).toBe(PAID_NANO);
    });

    function bytesOf(row: Awaited<ReturnType<typeof rowOf>>): string {
      return (JSON.parse(String(row?.["signed"])) as { transaction: string }).transaction.slice(2);
    }

    test("a rejected transaction that is not included is closed after its end", async () => {
      const buyer = await newBuyer();
      const deps = depsOf();
      const rejecting = { ...deps.node, send: async () => "the network rejected the transaction" };
      expect(await pay(buyer, { ...deps, node: rejecting })).toMatchObject({ kind: "refused" });
      await advance(AFTER_EXPIRY_SECONDS + LAG_SECONDS + LATE_RETRY_MS / 1_000);
      await pollTempo(depsOf());
      await expectUnpaid(buyer);
    });

    test("several processes that resume the same payments credit each once", async () => {
      const buyers: Buyer[] = [];
      while (buyers.length < 4) buyers.push(await newBuyer());
      await chain.pause();
      await Promise.all(buyers.map((buyer) => codeOf(pay(buyer))));
      await chain.resume();
      harness.clock.now += RETRY_MS;
      await Promise.all([
        pollTempo(depsOf()),
        pollTempo(depsOf()),
        ...buyers.map((buyer) => codeOf(pay(buyer))),
      ]);
      harness.clock.now += LEASE_MS;
      await pollTempo(depsOf());
      for (const buyer of buyers) await expectCredited(buyer);
    });

    test("an invoice is paid by one transaction at a time", async () => {
      const accountId = await harness.newAccount();
      const invoice = await harness.newInvoice(accountId, 100);
      const first = await newBuyer(invoice, accountId);
      const second = await newBuyer(invoice, accountId);
      await chain.pause();
      expect(await codeOf(pay(first))).toBe("overloaded");
      expect(await codeOf(pay(second))).toBe("conflict");
      await chain.resume();
      harness.clock.now += RETRY_MS;
      expect((await pay(first)).kind).toBe("paid");
      expect(await codeOf(pay(second))).toBe("conflict");
      expect(await chain.balanceOf(second.address)).toBe(FUNDS);
      await expectCredited(first, 100n * NANO_PER_CENT, 105n);
    });

    test("a node of another chain is not believed", async () => {
      const buyer = await newBuyer();
      await chain.pause();
      expect(await codeOf(pay(buyer))).toBe("overloaded");
      await chain.rpc("anvil_setChainId", [4_217]);
      await advance(AFTER_EXPIRY_SECONDS + LAG_SECONDS);
      await pollTempo(depsOf());
      expect(await rowOf(buyer)).toMatchObject({ state: "open" });
      await chain.rpc("anvil_setChainId", [chain.chainId]);
      harness.clock.now += LEASE_MS;
      await pollTempo(depsOf());
      expect((await rowOf(buyer))?.["state"]).not.toBe("open");
    });
  },
);
