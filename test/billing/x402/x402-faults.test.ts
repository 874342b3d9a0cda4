// What a facilitator may do wrong, and what a process may die of, between an agent's signature and its credits. Whatever
// it is: money that has moved is credited once, money that has not is not, and nobody is asked to pay twice.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { decodePaymentResponseHeader } from "@x402/fetch";
import { Fault } from "../../../src/base/fault.ts";
import {
  type Payable,
  type X402Deps,
  pollX402,
  type PaymentResult,
  acceptPayment,
} from "../../../src/billing/x402/x402-payments.ts";
import { secret } from "../../../src/base/secret.ts";
import { createChainClient } from "../../../src/billing/x402/chain-client.ts";
import { createFacilitatorClient } from "../../../src/billing/x402/facilitator-client.ts";
import { findX402Payment, updateX402Payment } from "../../../src/billing/x402/x402-payment-rows.ts";
import {
  transferIdOf,
  parsePaymentHeader,
  paymentRequirementsFor,
} from "../../../src/billing/x402/protocol.ts";
import type { Db } from "../../../src/store/db.ts";
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
import { testPostgres } from "../../support/stores/postgres.ts";
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
import { createBillingHarness, type BillingHarness } from "../harness.ts";
import {
  challengeIn,
  createX402Deps,
  fundedWallet,
  newNonce,
  createPayment,
  signPayment,
  type SignedHeader,
} from "./wallet.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

const TOP_UP = { amountCents: 95 };
const PAID_NANO = 95n * NANO_PER_CENT;
/** After it the next process goes on with a payment. */
const LEASE_MS = 61_000;
/** After it no signature of these tests can be used any more. */
const AFTER_EXPIRY_MS = 600_000;

describe.each(STORE_KINDS)("the counter on %s", (kind) => {
  let store: TestStore;
  let facilitator: TestFacilitator;
  let harness: BillingHarness;
  let blind: X402Deps;
  let seeing: X402Deps;
  beforeAll(async () => {
    store = await openStore(kind);
    facilitator = startFacilitator();
    harness = await createBillingHarness(store.db);
    blind = createX402Deps(harness, facilitator.env);
    seeing = createX402Deps(harness, { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl });
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
    readonly bill: Payable;
    readonly signed: SignedHeader;
    readonly id: string;
    readonly payer: string;
  }

  async function newBuyer(): Promise<Buyer> {
    const accountId = await harness.newAccount();
    const wallet = fundedWallet(facilitator, 100n);
    const signed = await signPayment(
      wallet,
      paymentRequirementsFor(blind.paymentTerms, 100) as never,
      {
        now: harness.clock.now,
      },
    );
    return {
      bill: { accountId, invoice: TOP_UP },
      signed,
      id: transferIdOf(parsePaymentHeader(signed.header)),
      payer: wallet.address,
    };
  }

  function take(counter: X402Deps, { bill, signed }: Buyer): Promise<PaymentResult> {
    return acceptPayment(counter, bill, signed.header);
  }

  async function faultOf(work: Promise<unknown>): Promise<Fault> {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error instanceof Fault) return error;
    throw new Error(`no fault: ${String(error)}`);
  }

  function deathOf(work: Promise<unknown>): Promise<string> {
    return work.then(
      () => "alive",
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  }

  async function boughtBy({ bill }: Buyer): Promise<bigint> {
    return (await readWallet(store.db, bill.accountId)).paid;
  }

  async function stateOf({ id }: Buyer): Promise<string | undefined> {
    return (await findX402Payment(store.db, id))?.state;
  }

  async function invoiceStatusOf({ id }: Buyer): Promise<unknown> {
    const { invoiceId = "" } = (await findX402Payment(store.db, id)) ?? {};
    const row = await store.db.get("select status from invoice where id = ?", [invoiceId]);
    return row?.["status"];
  }

  function inWeather<T>(weather: Partial<FacilitatorFaults>, work: () => Promise<T>): Promise<T> {
    Object.assign(facilitator.faults, weather);
    return work().finally(() =>
      Object.assign(facilitator.faults, { verify: "fine", settle: "fine", node: "fine" }),
    );
  }

  function pass(ms: number): void {
    harness.clock.now += ms;
    facilitator.chain.advance(Math.floor(ms / 1_000));
  }

  for (const verify of ["down", "garbled"] as const)
    test(`a facilitator that is ${verify} while it should check: 503, and nothing was begun`, async () => {
      const buyer = await newBuyer();
      const fault = await inWeather({ verify }, () => faultOf(take(blind, buyer)));
      expect([fault.code, fault.status]).toEqual(["overloaded", 503]);
      expect(fault.publicMessage).toContain("Nothing was charged");
      expect(await stateOf(buyer)).toBeUndefined();
      expect((await take(blind, buyer)).kind).toBe("paid");
    });

  for (const settle of ["down", "garbled", "liar"] as const)
    test(`a facilitator that is ${settle} while it should settle: 503, and the same payment goes on`, async () => {
      const buyer = await newBuyer();
      const fault = await inWeather({ settle }, () => faultOf(take(blind, buyer)));
      expect([fault.code, fault.status]).toEqual(["overloaded", 503]);
      expect(fault.publicMessage).toContain("Do not sign another payment");
      expect(await boughtBy(buyer)).toBe(0n);
      // Not at once, and not twice.
      expect((await faultOf(take(blind, buyer))).status).toBe(503);
      pass(5_001);
      expect((await take(blind, buyer)).kind).toBe("paid");
      expect(await boughtBy(buyer)).toBe(PAID_NANO);
      expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
    });

  test("a settlement that takes too long is not known, and found later", async () => {
    const buyer = await newBuyer();
    facilitator.slowMs = 400;
    const hasty = {
      ...seeing,
      facilitator: createFacilitatorClient({ url: facilitator.url, settleTimeoutMs: 100 }),
    };
    const fault = await inWeather({ settle: "slow" }, async () => {
      const thrown = await faultOf(take(hasty, buyer));
      await new Promise((resolve) => setTimeout(resolve, 600));
      return thrown;
    });
    expect(fault.status).toBe(503);
    expect(await boughtBy(buyer)).toBe(0n);
    pass(5_001);
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("a facilitator that hears everything twice settles once", async () => {
    const buyer = await newBuyer();
    const before = facilitator.chain.transfers();
    const taken = await inWeather({ settle: "twice" }, () => take(blind, buyer));
    expect(taken.kind).toBe("paid");
    expect(facilitator.chain.transfers() - before).toBe(1);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("a transaction that was sent and not seen to arrive is asked after, and credited", async () => {
    const buyer = await newBuyer();
    const fault = await inWeather({ settle: "out of sight" }, () => faultOf(take(blind, buyer)));
    expect(fault.status).toBe(503);
    expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
    expect(await boughtBy(buyer)).toBe(0n);
    pass(5_001);
    await pollX402(blind);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
    expect((await take(blind, buyer)).kind).toBe("paid");
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("a lost reply is found on the chain", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "reply lost" }, () => faultOf(take(seeing, buyer)));
    expect(await boughtBy(buyer)).toBe(0n);
    pass(5_001);
    const taken = await take(seeing, buyer);
    expect(taken.kind).toBe("paid");
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
    const row = await findX402Payment(store.db, buyer.id);
    expect(row).toMatchObject({ state: "paid", dueAt: null });
    expect(taken.kind === "paid" ? taken.settleResponse.transaction : "").toBe(
      row?.transaction ?? "?",
    );
  });

  test("what is refused at once is refused, and its invoice goes with it", async () => {
    const buyer = await newBuyer();
    const taken = await inWeather({ settle: "refuses" }, () => take(blind, buyer));
    expect(taken).toEqual({
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
    expect(await take(blind, buyer)).toEqual(taken);
    expect(await boughtBy(buyer)).toBe(0n);
    expect(await invoiceStatusOf(buyer)).toBe("void");
    const told = await invoiceAuditEntries(store.db, buyer.bill.accountId);
    expect(told.map((line) => line.split(" ")[0])).toEqual(["invoice.created", "invoice.voided"]);
  });

  test("what is refused after a lost reply is not believed: the first one may have moved money", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "reply lost" }, () => faultOf(take(blind, buyer)));
    pass(5_001);
    await inWeather({ settle: "refuses" }, () => pollX402(blind));
    expect(await stateOf(buyer)).toBe("open");
    expect(await invoiceStatusOf(buyer)).toBe("open");
    pass(5_001);
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("who stood still before settling, while another settled, is not believed that it was refused", async () => {
    const buyer = await newBuyer();
    const still: X402Deps = {
      ...blind,
      facilitator: {
        ...blind.facilitator,
        settle: async (...asked) => {
          pass(LEASE_MS);
          await inWeather({ settle: "reply lost" }, () => pollX402(blind));
          return await inWeather({ settle: "refuses" }, () => blind.facilitator.settle(...asked));
        },
      },
    };
    expect((await faultOf(take(still, buyer))).code).toBe("overloaded");
    expect(await stateOf(buyer)).toBe("open");
    expect(await invoiceStatusOf(buyer)).toBe("open");
    pass(5_001);
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("a chain whose clock is behind is waited for", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "dropped" }, () => faultOf(take(seeing, buyer)));
    harness.clock.now += AFTER_EXPIRY_MS;
    await pollX402(seeing);
    expect(await stateOf(buyer)).toBe("open");
    await facilitator.chain.mine([buyer.signed.transfer]);
    facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
    pass(AFTER_EXPIRY_MS + 1_000);
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("a payment of long ago is looked for as far back", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "reply lost" }, () => faultOf(take(seeing, buyer)));
    pass(100_000_000);
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("what is paid stays paid, whatever a slower process has to say", async () => {
    const buyer = await newBuyer();
    await take(blind, buyer);
    const row = await findX402Payment(store.db, buyer.id);
    if (row === undefined) throw new Error("it is gone");
    const late = { reason: "no_answer", dueAt: 1, now: harness.clock.now };
    for (const state of ["open", "refused", "unclear"] as const)
      await store.db.write((tx) => updateX402Payment(tx, row, { ...late, state }));
    expect(await findX402Payment(store.db, buyer.id)).toEqual(row);
    expect(await invoiceStatusOf(buyer)).toBe("paid");
  });

  test("without a node, a lost reply is for the operator: it is never guessed", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "reply lost" }, () => faultOf(take(blind, buyer)));
    pass(5_001);
    await pollX402(blind);
    expect(await stateOf(buyer)).toBe("open");
    expect(await boughtBy(buyer)).toBe(0n);
    pass(AFTER_EXPIRY_MS);
    harness.logged.length = 0;
    await pollX402(blind);
    expect(await stateOf(buyer)).toBe("unclear");
    expect(
      harness.logged.filter((line) => line.includes("payment needs operator action")),
    ).toHaveLength(1);
    expect(harness.logged.join("\n")).toContain(buyer.id);
    expect((await faultOf(take(blind, buyer))).code).toBe("conflict");
    expect(await boughtBy(buyer)).toBe(0n);
    // The invoice is there for `mark-paid`.
    expect(await invoiceStatusOf(buyer)).toBe("open");
    // So that the books of this file end even.
    await creditByHand(buyer);
  });

  async function creditByHand(buyer: Buyer): Promise<void> {
    await store.db.write((tx) =>
      tx.run("update agent_payment set state = 'open', due_at = 1 where id = ?", [buyer.id]),
    );
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  }

  test("a transaction that never arrives is over when its signature is", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "dropped" }, async () => {
      await faultOf(take(seeing, buyer));
      pass(AFTER_EXPIRY_MS);
      await pollX402(seeing);
    });
    expect(await stateOf(buyer)).toBe("refused");
    expect(await boughtBy(buyer)).toBe(0n);
    expect(facilitator.chain.balanceOf(buyer.payer)).toBe(100n);
    expect((await take(seeing, buyer)).kind).toBe("refused");
    expect(await invoiceStatusOf(buyer)).toBe("void");
  });

  for (const node of ["down", "elsewhere"] as const)
    test(`a node that is ${node} is asked again, and nothing is given up meanwhile`, async () => {
      const buyer = await newBuyer();
      await inWeather({ settle: "reply lost" }, () => faultOf(take(seeing, buyer)));
      await inWeather({ node }, async () => {
        pass(AFTER_EXPIRY_MS);
        await pollX402(seeing);
        expect(await stateOf(buyer)).toBe("open");
      });
      pass(AFTER_EXPIRY_MS + 1_000);
      await pollX402(seeing);
      expect(await boughtBy(buyer)).toBe(PAID_NANO);
    });

  test("a facilitator that settles and says it did not is overruled by the chain", async () => {
    const buyer = await newBuyer();
    const taken = await inWeather({ settle: "silent failure" }, () => take(seeing, buyer));
    expect(taken).toMatchObject({ kind: "refused", reason: "settle_failed" });
    expect(await boughtBy(buyer)).toBe(0n);
    pass(AFTER_EXPIRY_MS);
    await pollX402(seeing);
    expect(await stateOf(buyer)).toBe("paid");
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  describe("a used nonce is no proof of a payment", () => {
    test("where its owner cancelled it after the check", async () => {
      const buyer = await newBuyer();
      await inWeather({ settle: "down" }, () => faultOf(take(seeing, buyer)));
      facilitator.chain.cancel(buyer.payer, buyer.signed.transfer.authorization.nonce);
      pass(5_001);
      await pollX402(seeing);
      await pollX402(blind);
      expect(await boughtBy(buyer)).toBe(0n);
      pass(AFTER_EXPIRY_MS);
      await pollX402(seeing);
      expect(await stateOf(buyer)).toBe("refused");
      expect(await boughtBy(buyer)).toBe(0n);
    });

    test("where it was used for a smaller payment to the same payee", async () => {
      const wallet = fundedWallet(facilitator, 200n);
      const requirement = paymentRequirementsFor(seeing.paymentTerms, 100) as never;
      const about = { now: harness.clock.now };
      const nonce = newNonce();
      const pay = await signPayment(wallet, requirement, { ...about, authorization: { nonce } });
      const little = await signPayment(wallet, requirement, {
        ...about,
        authorization: { nonce, value: 10_000n },
      });
      const bill = { accountId: await harness.newAccount(), invoice: TOP_UP };
      await inWeather({ settle: "down" }, () => faultOf(acceptPayment(seeing, bill, pay.header)));
      await facilitator.chain.mine([little.transfer]);
      pass(AFTER_EXPIRY_MS);
      await pollX402(seeing);
      expect((await readWallet(store.db, bill.accountId)).paid).toBe(0n);
      facilitator.chain.fund(facilitator.payTo, -1n);
    });

    test("where it was used for a transfer to somebody else, beside another payment of the same amount", async () => {
      const wallet = fundedWallet(facilitator, 300n);
      const [one, two] = [newNonce(), newNonce()];
      const requirement = paymentRequirementsFor(seeing.paymentTerms, 100) as never;
      const about = { now: harness.clock.now };
      const pay = await signPayment(wallet, requirement, {
        ...about,
        authorization: { nonce: one },
      });
      const honest = await signPayment(wallet, requirement, {
        ...about,
        authorization: { nonce: two },
      });
      const toSelf = await signPayment(wallet, requirement, {
        ...about,
        authorization: { nonce: one, to: wallet.address },
      });
      const bill = { accountId: await harness.newAccount(), invoice: TOP_UP };
      const fault = await inWeather({ settle: "down" }, () =>
        faultOf(acceptPayment(seeing, bill, pay.header)),
      );
      expect(fault.status).toBe(503);
      await facilitator.chain.mine([toSelf.transfer, honest.transfer]);
      pass(AFTER_EXPIRY_MS);
      await pollX402(seeing);
      expect((await readWallet(store.db, bill.accountId)).paid).toBe(0n);
      // That other transfer was never presented: it stands for the operator's own money.
      facilitator.chain.fund(facilitator.payTo, -100n);
    });
  });

  test("an authorization that somebody else brought to the chain is credited to who presented it", async () => {
    const buyer = await newBuyer();
    await inWeather({ settle: "down" }, () => faultOf(take(seeing, buyer)));
    await facilitator.chain.mine([buyer.signed.transfer]);
    pass(5_001);
    await pollX402(seeing);
    expect(await boughtBy(buyer)).toBe(PAID_NANO);
  });

  test("several processes go on with the same payments, and each is credited once", async () => {
    const buyers = await Promise.all(Array.from({ length: 6 }, newBuyer));
    await inWeather({ settle: "out of sight" }, async () => {
      for (const buyer of buyers) await faultOf(take(blind, buyer));
    });
    pass(5_001);
    facilitator.calls.length = 0;
    await Promise.all([
      pollX402(blind),
      pollX402(seeing),
      pollX402(createX402Deps(harness, facilitator.env)),
      ...buyers.map((buyer) => take(blind, buyer).catch(() => undefined)),
    ]);
    pass(LEASE_MS);
    await pollX402(seeing);
    for (const buyer of buyers) expect(await boughtBy(buyer)).toBe(PAID_NANO);
    expect(facilitator.calls.length).toBeLessThanOrEqual(buyers.length);
  });

  describe("a process that dies", () => {
    const WRITES = 5;
    for (const when of ["before", "after"] as const)
      for (let write = 1; write <= WRITES; write++)
        test(`${when} its ${write}. write loses nothing and credits once`, async () => {
          const buyer = await newBuyer();
          const dying = {
            ...seeing,
            billing: { ...seeing.billing, db: failAtWrite(store.db, write, when) },
          };
          await take(dying, buyer).catch(() => undefined);
          pass(LEASE_MS);
          await pollX402(seeing);
          const taken = await take(seeing, buyer);
          expect(taken.kind).toBe("paid");
          expect(await boughtBy(buyer)).toBe(PAID_NANO);
          expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
          expect(await findX402Payment(store.db, buyer.id)).toMatchObject({
            state: "paid",
            dueAt: null,
          });
        });

    test("between the settlement and the credit: whoever sends the payment again finishes it", async () => {
      const buyer = await newBuyer();
      const dying = {
        ...blind,
        billing: { ...blind.billing, db: failAtWrite(store.db, 2, "after") },
      };
      expect(await deathOf(take(dying, buyer))).toBe("killed");
      expect(await stateOf(buyer)).toBe("paid");
      expect(await boughtBy(buyer)).toBe(0n);
      expect((await take(blind, buyer)).kind).toBe("paid");
      expect(await boughtBy(buyer)).toBe(PAID_NANO);
    });

    test("between the settlement and everything else is found on the chain", async () => {
      const buyer = await newBuyer();
      const dying: X402Deps = {
        ...seeing,
        facilitator: {
          ...seeing.facilitator,
          settle: async (...asked) => {
            await seeing.facilitator.settle(...asked);
            throw new Error("killed");
          },
        },
      };
      expect(await deathOf(take(dying, buyer))).toBe("killed");
      expect(facilitator.chain.balanceOf(buyer.payer)).toBe(0n);
      pass(LEASE_MS);
      await pollX402(seeing);
      expect(await boughtBy(buyer)).toBe(PAID_NANO);
    });

    test("before the settlement: the next one settles", async () => {
      const buyer = await newBuyer();
      const dying: X402Deps = {
        ...blind,
        facilitator: { ...blind.facilitator, settle: () => Promise.reject(new Error("killed")) },
      };
      expect(await deathOf(take(dying, buyer))).toBe("killed");
      pass(LEASE_MS);
      await pollX402(blind);
      expect(await boughtBy(buyer)).toBe(PAID_NANO);
    });
  });
});

describe("what a facilitator says of a settlement", () => {
  const transaction = `0x${"ab".repeat(32)}`;
  const good = { success: true, transaction, network: "eip155:84532" };
  const ANSWERS: readonly (readonly [string, number, unknown, string])[] = [
    ["what was asked for", 200, good, "paid"],
    ["another payer", 200, { ...good, payer: `0x${"12".repeat(20)}` }, "unknown"],
    ["another chain", 200, { ...good, network: "eip155:1" }, "unknown"],
    ["another amount", 200, { ...good, amount: "1" }, "unknown"],
    ["no transaction", 200, { ...good, transaction: "" }, "unknown"],
    ["success, with an error's status", 500, good, "unknown"],
    ["nothing", 204, undefined, "unknown"],
    ["another form", 202, { paymentId: "1", status: "pending" }, "unknown"],
    ["a plain refusal", 200, { ...good, success: false, transaction: "" }, "unknown"],
    ["a reason", 200, refusal("invalid_exact_evm_insufficient_balance"), "refused"],
    ["a reason, as a 400", 400, refusal("insufficient_funds"), "refused"],
    ["a reason, as a 500", 500, refusal("insufficient_funds"), "unknown"],
    ["a reason, and a transaction", 200, refusal("reverted", transaction), "unknown"],
    ["a used nonce", 200, refusal("invalid_exact_evm_nonce_already_used"), "unknown"],
    ["a transaction that is under way", 200, refusal("settlement_pending", transaction), "unknown"],
    ["a page of a reason", 200, refusal(`<b>${"no ".repeat(500)}`), "refused"],
  ];

  function refusal(errorReason: string, hash = ""): object {
    return { ...good, success: false, errorReason, transaction: hash };
  }

  for (const [what, status, body, kind] of ANSWERS)
    test(`${what} is ${kind}`, async () => {
      const server = Bun.serve({
        port: 0,
        fetch: () =>
          new Response(body === undefined ? null : JSON.stringify(body), {
            status,
          }),
      });
      try {
        const { requirement, signed } = await createPayment();
        const place = createFacilitatorClient({ url: `http://127.0.0.1:${server.port}` });
        const settled = await place.settle(signed, requirement);
        expect(settled.kind).toBe(kind as never);
        if (settled.kind !== "paid") expect(settled.reason).toMatch(/^[\w .:-]{1,120}$/);
      } finally {
        await server.stop(true);
      }
    });
});

describe("an response that does not end", () => {
  let server: ReturnType<typeof Bun.serve>;
  let sentBytes = 0;
  beforeAll(() => {
    const some = new Uint8Array(65_536).fill(0x20);
    server = Bun.serve({
      port: 0,
      fetch: () => {
        sentBytes = 0;
        return new Response(
          new ReadableStream({
            pull: async (body) => {
              await Bun.sleep(1);
              sentBytes += some.length;
              body.enqueue(some);
            },
          }),
        );
      },
    });
  });
  afterAll(() => server.stop(true));

  const place = () =>
    createFacilitatorClient({
      url: server.url.origin,
      verifyTimeoutMs: 3_000,
      settleTimeoutMs: 3_000,
    });

  test("of a facilitator's check is given up long before the time is over: 503", async () => {
    const { requirement, signed } = await createPayment();
    const fault = await place()
      .verify(signed, requirement)
      .catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(Fault);
    expect((fault as Fault).status).toBe(503);
    expect(String((fault as Fault).cause)).toBe(
      "ResponseTooLarge: the response is larger than 65536 bytes",
    );
  });

  test("of a settlement is given up, and what became of the payment is not known", async () => {
    const { requirement, signed } = await createPayment();
    expect(await place().settle(signed, requirement)).toEqual({
      kind: "unknown",
      reason: "AnswerTooLarge",
    });
    // What is under way in the machine's own buffers is not ours to bound.
    expect(sentBytes).toBeLessThan(16 * 1_048_576);
  });

  test("of a node is given up, and the node is asked again later", async () => {
    const chain = createChainClient(secret(server.url.origin));
    const { signed } = await createPayment();
    const error = await chain.findPayment(signed, 0).catch((thrown: unknown) => thrown);
    expect(String(error)).toBe("ResponseTooLarge: the response is larger than 8388608 bytes");
  });
});

/** A store whose process dies at one of its writes: nothing more is done, and what was done stays. */
function failAtWrite(db: Db, write: number, when: "before" | "after"): Db {
  let writes = 0;
  return {
    ...db,
    kind: db.kind,
    all: (sql, params) => db.all(sql, params),
    get: (sql, params) => db.get(sql, params),
    write: async (work) => {
      writes += 1;
      if (writes > write || (writes === write && when === "before")) throw new Error("killed");
      const result = await db.write(work);
      if (writes === write) throw new Error("killed");
      return result;
    },
  };
}

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
    const databaseUrl = await testPostgres();
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
      headers: header === undefined ? {} : { "payment-signature": header },
    });
  }

  async function payment(): Promise<{ readonly header: string; readonly payer: string }> {
    const [requirement] = challengeIn((await call(gateways[0])).headers).accepts;
    if (requirement === undefined) throw new Error("nothing is asked for");
    const wallet = fundedWallet(facilitator, 100n);
    const now = Date.now() + clock.ahead;
    return {
      header: (await signPayment(wallet, requirement, { now })).header,
      payer: wallet.address,
    };
  }

  test("the same payment at both at once is settled once, and both calls run on it", async () => {
    const { header, payer } = await payment();
    const responses = await Promise.all(
      [0, 1, 0, 1].map((place) => call(gateways[place === 0 ? 0 : 1], header)),
    );
    expect(facilitator.calls.filter((step) => step === "settle")).toHaveLength(1);
    expect(responses.some(({ status }) => status === 200)).toBe(true);
    for (const { status } of responses) expect([200, 402]).toContain(status);
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(PAID_NANO);
    expect(facilitator.chain.balanceOf(payer)).toBe(0n);
    expect([...facilitator.authorizationHeaders]).toEqual(["Bearer a token for the facilitator"]);
  });

  test("the other one finds what the first one's facilitator has lost: 503, then 200 with the same payment", async () => {
    account = await registerAccount(gateways[0]);
    const { header, payer } = await payment();
    facilitator.faults.settle = "reply lost";
    const lost = await call(gateways[0], header);
    facilitator.faults.settle = "fine";
    expect(lost.status).toBe(503);
    expect(lost.headers.get("retry-after")).toBe("5");
    expect(lost.headers.get("payment-required")).toBeNull();
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(0n);
    clock.ahead += 5_001;
    const found = await call(gateways[1], header);
    expect(found.status).toBe(200);
    const receipt = decodePaymentResponseHeader(found.headers.get("payment-response") ?? "");
    expect(receipt).toMatchObject({ success: true, payer: payer.toLowerCase() });
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(PAID_NANO);
  });

  test("one invoice, two wallets, two processes: one of them pays", async () => {
    account = await registerAccount(gateways[0]);
    const invoice = await buyCredits(gateways[0], account, 1);
    const route = `/v1/billing/invoice/${invoice.id}/x402`;
    const headers = await Promise.all(
      gateways.map(async (gateway) => {
        const refused = await api(gateway, account, ["POST", route]);
        const [requirement] = challengeIn(refused.headers).accepts;
        if (requirement === undefined) throw new Error("nothing is asked for");
        const wallet = fundedWallet(facilitator, 105n);
        return (await signPayment(wallet, requirement, { now: Date.now() + clock.ahead })).header;
      }),
    );
    const responses = await Promise.all(
      gateways.map((gateway, place) =>
        api(gateway, account, ["POST", route], {
          headers: { "payment-signature": headers[place] ?? "" },
        }),
      ),
    );
    expect(responses.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      200, 409,
    ]);
    expect((await readWallet(gateways[0].server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
  });
});
