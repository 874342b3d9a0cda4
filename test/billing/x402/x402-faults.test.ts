// Faults between an agent's signature and its credits: of the facilitator, of the node, and crashes. In every case a
// settled payment is credited once, an unsettled one is not, and the agent is not asked to pay twice.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { decodePaymentResponseHeader } from "@x402/fetch";
import { secret } from "../../../src/base/crypto/secret.ts";
import { Fault } from "../../../src/base/fault.ts";
import { creditsFor, nanoOfCredits } from "../../../src/billing/invoices/cents.ts";
import { updateAgentPayment } from "../../../src/billing/payments/agent-payment-rows.ts";
import type { Payable } from "../../../src/billing/payments/payment-protocol.ts";
import { createChainClient } from "../../../src/billing/x402/chain-client.ts";
import { createFacilitatorClient } from "../../../src/billing/x402/facilitator-client.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../../src/billing/x402/x402-messages.ts";
import { findX402Payment } from "../../../src/billing/x402/x402-payment-rows.ts";
import {
  type X402Deps,
  pollX402,
  type PaymentResult,
  acceptPayment,
} from "../../../src/billing/x402/x402-payments.ts";
import { eventually } from "../../support/eventually.ts";
import {
  startFacilitator,
  type TestFacilitator,
  type FacilitatorFaults,
} from "../../support/fakes/x402-facilitator.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { migratedPostgres } from "../../support/stores/postgres.ts";
import { openStore, STORE_KINDS, type TestStore } from "../../support/stores/stores.ts";
import {
  api,
  buyCredits,
  NANO_PER_CENT,
  expectLedgerValid,
  type ApiResponse,
  ledgerBalanceOf,
  invoiceAuditEntries,
  readWallet,
} from "../fixtures.ts";
import { createBillingHarness, type BillingHarness, failAtWrite } from "../harness.ts";
import {
  challengeIn,
  createX402Deps,
  fundedWallet,
  newNonce,
  createPayment,
  signPayment,
  type SignedHeader,
} from "./wallet.ts";

/** What $1.00 buys. */
const TOP_UP = { credits: creditsFor(100) };
const PAID_NANO = nanoOfCredits(TOP_UP.credits);
/** After this time another process resumes a payment. */
const LEASE_MS = 61_000;
/** After this time all signatures of these tests have expired. */
const AFTER_EXPIRY_MS = 600_000;

describe.each(STORE_KINDS)("x402 with faults on %s", (kind) => {
  let store: TestStore;
  let facilitator: TestFacilitator;
  let harness: BillingHarness;
  let withoutNode: X402Deps;
  let withNode: X402Deps;
  beforeAll(async () => {
    store = await openStore(kind);
    facilitator = startFacilitator();
    harness = await createBillingHarness(store.db);
    withoutNode = createX402Deps(harness, facilitator.env);
    withNode = createX402Deps(harness, { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl });
  });
  afterAll(async () => {
    const cleared = -(await ledgerBalanceOf(store.db, "system:clearing:x402"));
    expect(cleared).toBeLessThanOrEqual(
      facilitator.chain.balanceOf(facilitator.payTo) * NANO_PER_CENT,
    );
    await expectLedgerValid(store.db);
    await facilitator.stop();
    await store.close();
  });

  interface Buyer {
    readonly payable: Payable;
    readonly signed: SignedHeader;
    readonly id: string;
    readonly payer: string;
  }

  async function newBuyer(): Promise<Buyer> {
    const accountId = await harness.newAccount();
    const wallet = fundedWallet(facilitator, 100n);
    const signed = await signPayment(
      wallet,
      paymentRequirementsFor(withoutNode.paymentTerms, 100) as never,
      {
        now: harness.clock.now,
      },
    );
    return {
      payable: { accountId, invoice: TOP_UP },
      signed,
      id: transferIdOf(parsePaymentHeader(signed.header)),
      payer: wallet.address,
    };
  }

  function pay(x402: X402Deps, { payable, signed }: Buyer): Promise<PaymentResult> {
    return acceptPayment(x402, payable, signed.header);
  }

  async function faultOf(work: Promise<unknown>): Promise<Fault> {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error instanceof Fault) return error;
    throw new Error(`not a Fault: ${String(error)}`);
  }

  function errorMessageOf(work: Promise<unknown>): Promise<string> {
    return work.then(
      () => "no error",
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  }

  async function balanceOf({ payable }: Buyer): Promise<bigint> {
    return (await readWallet(store.db, payable.accountId)).paid;
  }

  async function stateOf({ id }: Buyer): Promise<string | undefined> {
    return (await findX402Payment(store.db, id))?.state;
  }

  async function invoiceStatusOf({ id }: Buyer): Promise<unknown> {
    const { invoiceId = "" } = (await findX402Payment(store.db, id)) ?? {};
    const row = await store.db.get("select status from invoice where id = ?", [invoiceId]);
    return row?.["status"];
  }

  function withFaults<T>(faults: Partial<FacilitatorFaults>, work: () => Promise<T>): Promise<T> {
    Object.assign(facilitator.faults, faults);
    return work().finally(() =>
      Object.assign(facilitator.faults, { verify: "ok", settle: "ok", node: "ok" }),
    );
  }

  function advanceTime(ms: number): void {
    harness.clock.now += ms;
    facilitator.chain.advance(Math.floor(ms / 1_000));
  }

  for (const verify of ["down", "malformed"] as const)
    test(`verify fault "${verify}": returns 503 and stores nothing`, async () => {
      const buyer = await newBuyer();
      const fault = await withFaults({ verify }, () => faultOf(pay(withoutNode, buyer)));
      expect([fault.code, fault.status]).toEqual(["overloaded", 503]);
      expect(fault.publicMessage).toContain("Nothing was charged");
      expect(await stateOf(buyer)).toBeUndefined();
      expect((await pay(withoutNode, buyer)).kind).toBe("paid");
    });

  for (const settle of ["down", "malformed", "wrong transaction"] as const)
    test(`settle fault "${settle}": returns 503, and the same payment can be sent again`, async () => {
      const buyer = await newBuyer();
      const fault = await withFaults({ settle }, () => faultOf(pay(withoutNode, buyer)));
      expect([fault.code, fault.status]).toEqual(["overloaded", 503]);
      expect(fault.publicMessage).toContain("Do not sign another payment");
      expect(await balanceOf(buyer)).toBe(0n);
      // The outcome is polled after a delay, and the payment is not settled a second time.
      expect((await faultOf(pay(withoutNode, buyer))).status).toBe(503);
      advanceTime(5_001);
      expect((await pay(withoutNode, buyer)).kind).toBe("paid");
      expect(await balanceOf(buyer)).toBe(PAID_NANO);
      expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
    });

  test("a settlement that times out is found later on the chain", async () => {
    const buyer = await newBuyer();
    facilitator.slowMs = 400;
    const withShortTimeout = {
      ...withNode,
      facilitator: createFacilitatorClient({ url: facilitator.url, settleTimeoutMs: 100 }),
    };
    const fault = await withFaults({ settle: "slow" }, async () => {
      const thrown = await faultOf(pay(withShortTimeout, buyer));
      await eventually(() => facilitator.chain.balanceOf(buyer.payer) === 0n);
      return thrown;
    });
    expect(fault.status).toBe(503);
    expect(await balanceOf(buyer)).toBe(0n);
    advanceTime(5_001);
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("a facilitator that handles requests twice settles once", async () => {
    const buyer = await newBuyer();
    const before = facilitator.chain.transfers();
    const result = await withFaults({ settle: "twice" }, () => pay(withoutNode, buyer));
    expect(result.kind).toBe("paid");
    expect(facilitator.chain.transfers() - before).toBe(1);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("an unconfirmed transaction is polled and credited", async () => {
    const buyer = await newBuyer();
    const fault = await withFaults({ settle: "unconfirmed" }, () =>
      faultOf(pay(withoutNode, buyer)),
    );
    expect(fault.status).toBe(503);
    expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
    expect(await balanceOf(buyer)).toBe(0n);
    advanceTime(5_001);
    await pollX402(withoutNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
    expect((await pay(withoutNode, buyer)).kind).toBe("paid");
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("a lost reply is found on the chain", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "reply lost" }, () => faultOf(pay(withNode, buyer)));
    expect(await balanceOf(buyer)).toBe(0n);
    advanceTime(5_001);
    const result = await pay(withNode, buyer);
    expect(result.kind).toBe("paid");
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
    const row = await findX402Payment(store.db, buyer.id);
    expect(row).toMatchObject({ state: "paid", dueAt: null });
    expect(result.kind === "paid" ? result.settleResponse.transaction : "").toBe(
      row?.transaction ?? "?",
    );
  });

  test("an immediate refusal is final, and its invoice is voided", async () => {
    const buyer = await newBuyer();
    const result = await withFaults({ settle: "refuses" }, () => pay(withoutNode, buyer));
    expect(result).toEqual({
      kind: "refused",
      reason: "insufficient_funds",
      settleResponse: {
        success: false,
        transaction: "",
        network: "eip155:84532",
        payer: buyer.payer.toLowerCase(),
        errorReason: "insufficient_funds",
      },
    });
    expect(await pay(withoutNode, buyer)).toEqual(result);
    expect(await balanceOf(buyer)).toBe(0n);
    expect(await invoiceStatusOf(buyer)).toBe("void");
    const entries = await invoiceAuditEntries(store.db, buyer.payable.accountId);
    expect(entries.map((entry) => entry.split(" ")[0])).toEqual([
      "invoice.created",
      "invoice.voided",
    ]);
  });

  test("a refusal after a lost reply is not final, because the first request may have been settled", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "reply lost" }, () => faultOf(pay(withoutNode, buyer)));
    advanceTime(5_001);
    await withFaults({ settle: "refuses" }, () => pollX402(withoutNode));
    expect(await stateOf(buyer)).toBe("open");
    expect(await invoiceStatusOf(buyer)).toBe("open");
    advanceTime(5_001);
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("a refusal is not final for a process that lost its lease before settling", async () => {
    const buyer = await newBuyer();
    const stalled: X402Deps = {
      ...withoutNode,
      facilitator: {
        ...withoutNode.facilitator,
        settle: async (...args) => {
          advanceTime(LEASE_MS);
          await withFaults({ settle: "reply lost" }, () => pollX402(withoutNode));
          return await withFaults({ settle: "refuses" }, () =>
            withoutNode.facilitator.settle(...args),
          );
        },
      },
    };
    expect((await faultOf(pay(stalled, buyer))).code).toBe("overloaded");
    expect(await stateOf(buyer)).toBe("open");
    expect(await invoiceStatusOf(buyer)).toBe("open");
    advanceTime(5_001);
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("a payment stays open until the chain's clock has passed its expiry", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "dropped" }, () => faultOf(pay(withNode, buyer)));
    harness.clock.now += AFTER_EXPIRY_MS;
    await pollX402(withNode);
    expect(await stateOf(buyer)).toBe("open");
    await facilitator.chain.mine([buyer.signed.transfer]);
    facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
    advanceTime(AFTER_EXPIRY_MS + 1_000);
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("the lookup searches back to the time of an old payment", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "reply lost" }, () => faultOf(pay(withNode, buyer)));
    advanceTime(100_000_000);
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("`paid` is final for later updates of slower processes", async () => {
    const buyer = await newBuyer();
    await pay(withoutNode, buyer);
    const row = await findX402Payment(store.db, buyer.id);
    if (row === undefined) throw new Error("no payment");
    const late = { reason: "no_answer", dueAt: 1, now: harness.clock.now };
    for (const state of ["open", "refused", "unclear"] as const)
      await store.db.write((tx) => updateAgentPayment(tx, row, { ...late, state }));
    expect(await findX402Payment(store.db, buyer.id)).toEqual(row);
    expect(await invoiceStatusOf(buyer)).toBe("paid");
  });

  test("without a node, a payment with a lost reply becomes unclear and is reported to the operator", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "reply lost" }, () => faultOf(pay(withoutNode, buyer)));
    advanceTime(5_001);
    await pollX402(withoutNode);
    expect(await stateOf(buyer)).toBe("open");
    expect(await balanceOf(buyer)).toBe(0n);
    advanceTime(AFTER_EXPIRY_MS);
    harness.logged.length = 0;
    await pollX402(withoutNode);
    expect(await stateOf(buyer)).toBe("unclear");
    expect(
      harness.logged.filter((line) => line.includes("payment needs operator action")),
    ).toHaveLength(1);
    expect(harness.logged.join("\n")).toContain(buyer.id);
    expect((await faultOf(pay(withoutNode, buyer))).code).toBe("conflict");
    expect(await balanceOf(buyer)).toBe(0n);
    // The operator can still use `mark-paid`.
    expect(await invoiceStatusOf(buyer)).toBe("open");
    // Keeps the ledger equal to the chain for afterAll.
    await creditByHand(buyer);
  });

  async function creditByHand(buyer: Buyer): Promise<void> {
    await store.db.write((tx) =>
      tx.run("update agent_payment set state = 'open', due_at = 1 where id = ?", [buyer.id]),
    );
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  }

  test("a dropped transaction is refused when its signature has expired", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "dropped" }, async () => {
      await faultOf(pay(withNode, buyer));
      advanceTime(AFTER_EXPIRY_MS);
      await pollX402(withNode);
    });
    expect(await stateOf(buyer)).toBe("refused");
    expect(await balanceOf(buyer)).toBe(0n);
    expect(facilitator.chain.balanceOf(buyer.payer)).toBe(100n);
    expect((await pay(withNode, buyer)).kind).toBe("refused");
    expect(await invoiceStatusOf(buyer)).toBe("void");
  });

  for (const node of ["down", "wrong chain"] as const)
    test(`node fault "${node}": the payment stays open until the node works again`, async () => {
      const buyer = await newBuyer();
      await withFaults({ settle: "reply lost" }, () => faultOf(pay(withNode, buyer)));
      await withFaults({ node }, async () => {
        advanceTime(AFTER_EXPIRY_MS);
        await pollX402(withNode);
        expect(await stateOf(buyer)).toBe("open");
      });
      advanceTime(AFTER_EXPIRY_MS + 1_000);
      await pollX402(withNode);
      expect(await balanceOf(buyer)).toBe(PAID_NANO);
    });

  test("the chain overrules a facilitator that settles but reports a failure", async () => {
    const buyer = await newBuyer();
    const result = await withFaults({ settle: "false failure" }, () => pay(withNode, buyer));
    expect(result).toMatchObject({ kind: "refused", reason: "settle_failed" });
    expect(await balanceOf(buyer)).toBe(0n);
    advanceTime(AFTER_EXPIRY_MS);
    await pollX402(withNode);
    expect(await stateOf(buyer)).toBe("paid");
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  describe("a used nonce is not credited", () => {
    test("if the payer canceled it after verification", async () => {
      const buyer = await newBuyer();
      await withFaults({ settle: "down" }, () => faultOf(pay(withNode, buyer)));
      facilitator.chain.cancel(buyer.payer, buyer.signed.transfer.authorization.nonce);
      advanceTime(5_001);
      await pollX402(withNode);
      await pollX402(withoutNode);
      expect(await balanceOf(buyer)).toBe(0n);
      advanceTime(AFTER_EXPIRY_MS);
      await pollX402(withNode);
      expect(await stateOf(buyer)).toBe("refused");
      expect(await balanceOf(buyer)).toBe(0n);
    });

    test("if it was used for a smaller payment to the same payee", async () => {
      const wallet = fundedWallet(facilitator, 200n);
      const requirements = paymentRequirementsFor(withNode.paymentTerms, 100) as never;
      const options = { now: harness.clock.now };
      const nonce = newNonce();
      const payment = await signPayment(wallet, requirements, {
        ...options,
        authorization: { nonce },
      });
      const smallPayment = await signPayment(wallet, requirements, {
        ...options,
        authorization: { nonce, value: 10_000n },
      });
      const payable = { accountId: await harness.newAccount(), invoice: TOP_UP };
      await withFaults({ settle: "down" }, () =>
        faultOf(acceptPayment(withNode, payable, payment.header)),
      );
      await facilitator.chain.mine([smallPayment.transfer]);
      advanceTime(AFTER_EXPIRY_MS);
      await pollX402(withNode);
      expect((await readWallet(store.db, payable.accountId)).paid).toBe(0n);
      facilitator.chain.fund(facilitator.payTo, -1n);
    });

    test("if it was used for a transfer to another payee, next to an unrelated payment", async () => {
      const wallet = fundedWallet(facilitator, 300n);
      const [one, two] = [newNonce(), newNonce()];
      const requirements = paymentRequirementsFor(withNode.paymentTerms, 100) as never;
      const options = { now: harness.clock.now };
      const payment = await signPayment(wallet, requirements, {
        ...options,
        authorization: { nonce: one },
      });
      const unrelated = await signPayment(wallet, requirements, {
        ...options,
        authorization: { nonce: two },
      });
      const toSelf = await signPayment(wallet, requirements, {
        ...options,
        authorization: { nonce: one, to: wallet.address },
      });
      const payable = { accountId: await harness.newAccount(), invoice: TOP_UP };
      const fault = await withFaults({ settle: "down" }, () =>
        faultOf(acceptPayment(withNode, payable, payment.header)),
      );
      expect(fault.status).toBe(503);
      await facilitator.chain.mine([toSelf.transfer, unrelated.transfer]);
      advanceTime(AFTER_EXPIRY_MS);
      await pollX402(withNode);
      expect((await readWallet(store.db, payable.accountId)).paid).toBe(0n);
      // Keeps the ledger equal to the chain for afterAll: the unrelated transfer is not credited.
      facilitator.chain.fund(facilitator.payTo, -100n);
    });
  });

  test("a transfer submitted by another party is credited to the account that presented it", async () => {
    const buyer = await newBuyer();
    await withFaults({ settle: "down" }, () => faultOf(pay(withNode, buyer)));
    await facilitator.chain.mine([buyer.signed.transfer]);
    advanceTime(5_001);
    await pollX402(withNode);
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("several processes that resume the same payments credit each once", async () => {
    const buyers = await Promise.all(Array.from({ length: 6 }, newBuyer));
    await withFaults({ settle: "unconfirmed" }, async () => {
      for (const buyer of buyers) await faultOf(pay(withoutNode, buyer));
    });
    advanceTime(5_001);
    facilitator.calls.length = 0;
    await Promise.all([
      pollX402(withoutNode),
      pollX402(withNode),
      pollX402(createX402Deps(harness, facilitator.env)),
      ...buyers.map((buyer) => pay(withoutNode, buyer).catch(() => undefined)),
    ]);
    advanceTime(LEASE_MS);
    await pollX402(withNode);
    for (const buyer of buyers) expect(await balanceOf(buyer)).toBe(PAID_NANO);
    expect(facilitator.calls.length).toBeLessThanOrEqual(buyers.length);
  });

  describe("a process that crashes", () => {
    const WRITES = 5;
    for (const when of ["before", "after"] as const)
      for (let write = 1; write <= WRITES; write++)
        test(`${when} write ${write} loses nothing and credits once`, async () => {
          const buyer = await newBuyer();
          const crashing = {
            ...withNode,
            billing: { ...withNode.billing, db: failAtWrite(store.db, write, when) },
          };
          await pay(crashing, buyer).catch(() => undefined);
          advanceTime(LEASE_MS);
          await pollX402(withNode);
          const result = await pay(withNode, buyer);
          expect(result.kind).toBe("paid");
          expect(await balanceOf(buyer)).toBe(PAID_NANO);
          expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
          expect(await findX402Payment(store.db, buyer.id)).toMatchObject({
            state: "paid",
            dueAt: null,
          });
        });

    test("between settlement and credit: sending the payment again credits it", async () => {
      const buyer = await newBuyer();
      const crashing = {
        ...withoutNode,
        billing: { ...withoutNode.billing, db: failAtWrite(store.db, 2, "after") },
      };
      expect(await errorMessageOf(pay(crashing, buyer))).toBe("crashed");
      expect(await stateOf(buyer)).toBe("paid");
      expect(await balanceOf(buyer)).toBe(0n);
      expect((await pay(withoutNode, buyer)).kind).toBe("paid");
      expect(await balanceOf(buyer)).toBe(PAID_NANO);
    });

    test("right after the settlement: the payment is found on the chain", async () => {
      const buyer = await newBuyer();
      const crashing: X402Deps = {
        ...withNode,
        facilitator: {
          ...withNode.facilitator,
          settle: async (...args) => {
            await withNode.facilitator.settle(...args);
            throw new Error("crashed");
          },
        },
      };
      expect(await errorMessageOf(pay(crashing, buyer))).toBe("crashed");
      expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
      advanceTime(LEASE_MS);
      await pollX402(withNode);
      expect(await balanceOf(buyer)).toBe(PAID_NANO);
    });

    test("before the settlement: another process settles the payment", async () => {
      const buyer = await newBuyer();
      const crashing: X402Deps = {
        ...withoutNode,
        facilitator: {
          ...withoutNode.facilitator,
          settle: () => Promise.reject(new Error("crashed")),
        },
      };
      expect(await errorMessageOf(pay(crashing, buyer))).toBe("crashed");
      advanceTime(LEASE_MS);
      await pollX402(withoutNode);
      expect(await balanceOf(buyer)).toBe(PAID_NANO);
    });
  });
});

describe("settle responses of the facilitator", () => {
  const transaction = `0x${"ab".repeat(32)}`;
  const good = { success: true, transaction, network: "eip155:84532" };
  const RESPONSES: readonly (readonly [string, number, unknown, string])[] = [
    ["a matching settlement", 200, good, "paid"],
    ["another payer", 200, { ...good, payer: `0x${"12".repeat(20)}` }, "unknown"],
    ["another chain", 200, { ...good, network: "eip155:1" }, "unknown"],
    ["another amount", 200, { ...good, amount: "1" }, "unknown"],
    ["a success without transaction", 200, { ...good, transaction: "" }, "unknown"],
    ["a success with status 500", 500, good, "unknown"],
    ["an empty response", 204, undefined, "unknown"],
    ["another JSON object", 202, { paymentId: "1", status: "pending" }, "unknown"],
    ["a refusal without reason", 200, { ...good, success: false, transaction: "" }, "unknown"],
    ["a refusal with reason", 200, refusal("invalid_exact_evm_insufficient_balance"), "refused"],
    ["a refusal with status 400", 400, refusal("insufficient_funds"), "refused"],
    ["a refusal with status 500", 500, refusal("insufficient_funds"), "unknown"],
    ["a refusal with transaction", 200, refusal("reverted", transaction), "unknown"],
    ["a used nonce", 200, refusal("invalid_exact_evm_nonce_already_used"), "unknown"],
    ["a pending transaction", 200, refusal("settlement_pending", transaction), "unknown"],
    ["a long reason with markup", 200, refusal(`<b>${"no ".repeat(500)}`), "refused"],
  ];

  function refusal(errorReason: string, hash = ""): object {
    return { ...good, success: false, errorReason, transaction: hash };
  }

  for (const [label, status, body, kind] of RESPONSES)
    test(`${label} counts as ${kind}`, async () => {
      const server = Bun.serve({
        port: 0,
        fetch: () =>
          new Response(body === undefined ? null : JSON.stringify(body), {
            status,
          }),
      });
      try {
        const { requirements, signed } = await createPayment();
        const client = createFacilitatorClient({ url: `http://127.0.0.1:${server.port}` });
        const outcome = await client.settle(signed, requirements);
        expect(outcome.kind).toBe(kind as never);
        if (outcome.kind !== "paid") expect(outcome.reason).toMatch(/^[\w .:-]{1,120}$/);
      } finally {
        await server.stop(true);
      }
    });
});

describe("a response without end", () => {
  let server: ReturnType<typeof Bun.serve>;
  let sentBytes = 0;
  beforeAll(() => {
    const chunk = new Uint8Array(65_536).fill(0x20);
    server = Bun.serve({
      port: 0,
      fetch: () => {
        sentBytes = 0;
        return new Response(
          new ReadableStream({
            pull: async (body) => {
              // The client reads in between, so that buffers do not hide when it stops.
              await new Promise((resolve) => setImmediate(resolve));
              sentBytes += chunk.length;
              body.enqueue(chunk);
            },
          }),
        );
      },
    });
  });
  afterAll(() => server.stop(true));

  const newClient = () =>
    createFacilitatorClient({
      url: server.url.origin,
      verifyTimeoutMs: 60_000,
      settleTimeoutMs: 60_000,
    });

  test("of verify is aborted at the size limit and returns 503", async () => {
    const { requirements, signed } = await createPayment();
    const fault = await newClient()
      .verify(signed, requirements)
      .catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(Fault);
    expect((fault as Fault).status).toBe(503);
    expect(String((fault as Fault).cause)).toBe(
      "ResponseTooLarge: the response is larger than 65536 bytes",
    );
  });

  test("of settle is aborted at the size limit, and the outcome is unknown", async () => {
    const { requirements, signed } = await createPayment();
    expect(await newClient().settle(signed, requirements)).toEqual({
      kind: "unknown",
      reason: "ResponseTooLarge",
    });
    // The operating system's buffers hold more than the limit.
    expect(sentBytes).toBeLessThan(16 * 1_048_576);
  });

  test("of the node is aborted at the size limit", async () => {
    const chain = createChainClient(secret(server.url.origin));
    const { signed } = await createPayment();
    const error = await chain.findPayment(signed, 0).catch((thrown: unknown) => thrown);
    expect(String(error)).toBe("ResponseTooLarge: the response is larger than 8388608 bytes");
  });
});

describe("two gateways on one PostgreSQL", () => {
  let facilitator: TestFacilitator;
  let gateways: readonly [Gateway, Gateway];
  let account: TestAccount;
  const clock = { ahead: 0 };
  const body = {
    model: "openai/gpt-5",
    messages: [{ role: "user", content: "[[sim: tokens=20]] hello" }],
    max_tokens: 60_000,
  };
  beforeAll(async () => {
    facilitator = startFacilitator();
    const databaseUrl = await migratedPostgres();
    const open = (name: string): Promise<Gateway> =>
      startGateway({
        databaseUrl,
        providers: ["sim", "openai"],
        now: () => Date.now() + clock.ahead,
        env: {
          ...facilitator.env,
          X402_RPC_URL: facilitator.rpcUrl,
          X402_FACILITATOR_KEY: "a token for the facilitator",
          POSTERN_SECRET: "one secret for both of the processes",
          POSTERN_PROCESS_NAME: name,
        },
      });
    gateways = [await open("one"), await open("two")];
    account = await registerAccount(gateways[0]);
  });
  afterAll(async () => {
    const { db } = gateways[0].server;
    const cleared = -(await ledgerBalanceOf(db, "system:clearing:x402"));
    expect(cleared).toBe(facilitator.chain.balanceOf(facilitator.payTo) * NANO_PER_CENT);
    await expectLedgerValid(db);
    for (const gateway of gateways) await gateway.stop();
    await facilitator.stop();
  });

  function call(gateway: Gateway, header?: string): Promise<ApiResponse> {
    return api(gateway, account, ["POST", "/v1/chat/completions"], {
      body,
      headers: {
        "x-postern-hold": "full",
        ...(header !== undefined && { "payment-signature": header }),
      },
    });
  }

  async function payment(): Promise<{ readonly header: string; readonly payer: string }> {
    const [requirements] = challengeIn((await call(gateways[0])).headers).accepts;
    if (requirements === undefined) throw new Error("no payment requirements");
    const wallet = fundedWallet(facilitator, 100n);
    const now = Date.now() + clock.ahead;
    return {
      header: (await signPayment(wallet, requirements, { now })).header,
      payer: wallet.address,
    };
  }

  test("a payment sent to both at once is settled once, and both calls may use its credits", async () => {
    const { header, payer } = await payment();
    const responses = await Promise.all(
      [0, 1, 0, 1].map((index) => call(gateways[index === 0 ? 0 : 1], header)),
    );
    expect(facilitator.calls.filter((step) => step === "settle")).toHaveLength(1);
    expect(responses.some(({ status }) => status === 200)).toBe(true);
    for (const { status } of responses) expect([200, 402, 429]).toContain(status);
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(PAID_NANO);
    expect(facilitator.chain.balanceOf(payer)).toBe(0n);
    expect([...facilitator.authorizationHeaders]).toEqual(["Bearer a token for the facilitator"]);
  });

  test("after a 503 of one gateway, the other one finds the payment on the chain and returns 200", async () => {
    account = await registerAccount(gateways[0]);
    const { header, payer } = await payment();
    facilitator.faults.settle = "reply lost";
    const lost = await call(gateways[0], header);
    facilitator.faults.settle = "ok";
    expect(lost.status).toBe(503);
    expect(lost.headers.get("retry-after")).toBe("5");
    expect(lost.headers.get("payment-required")).toBeNull();
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(0n);
    clock.ahead += 5_001;
    const found = await call(gateways[1], header);
    expect(found.status).toBe(200);
    const settled = decodePaymentResponseHeader(found.headers.get("payment-response") ?? "");
    expect(settled).toMatchObject({ success: true, payer: payer.toLowerCase() });
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(PAID_NANO);
  });

  test("two wallets that pay one invoice at two gateways: one is settled", async () => {
    account = await registerAccount(gateways[0]);
    const invoice = await buyCredits(gateways[0], account, 1);
    const route = `/v1/billing/invoice/${invoice.id}/x402`;
    const headers = await Promise.all(
      gateways.map(async (gateway) => {
        const response = await api(gateway, account, ["POST", route]);
        const [requirements] = challengeIn(response.headers).accepts;
        if (requirements === undefined) throw new Error("no payment requirements");
        const wallet = fundedWallet(facilitator, 105n);
        return (await signPayment(wallet, requirements, { now: Date.now() + clock.ahead })).header;
      }),
    );
    const responses = await Promise.all(
      gateways.map((gateway, index) =>
        api(gateway, account, ["POST", route], {
          headers: { "payment-signature": headers[index] ?? "" },
        }),
      ),
    );
    expect(responses.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      200, 409,
    ]);
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
  });
});
