// Faults between a credential and its credits: crashes at every write, lost replies, tokens that never reached Stripe. In
// every case a charged payment is credited once, an uncharged one is not, and the agent is not asked to pay twice.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { secret } from "../../../src/base/crypto/secret.ts";
import { Fault } from "../../../src/base/fault.ts";
import { cancelOpenCheckout } from "../../../src/billing/billing-deps.ts";
import { creditsFor, nanoOfCredits } from "../../../src/billing/invoices/cents.ts";
import { createChallenger } from "../../../src/billing/mpp/challenge.ts";
import { createEvmMethod } from "../../../src/billing/mpp/evm-method.ts";
import {
  type MachinePaymentMethod,
  createMppProtocol,
} from "../../../src/billing/mpp/mpp-protocol.ts";
import {
  createStripeMethod,
  pollSharedTokens,
  type StripeMethodDeps,
} from "../../../src/billing/mpp/stripe-method.ts";
import type {
  Payable,
  PaymentProtocol,
  ProtocolResult,
} from "../../../src/billing/payments/payment-protocol.ts";
import { pollX402, type X402Deps } from "../../../src/billing/x402/x402-payments.ts";
import type { Db } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { startFacilitator, type TestFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { openStore, STORE_KINDS, type TestStore } from "../../support/stores/stores.ts";
import { NANO_PER_CENT, readWallet } from "../fixtures.ts";
import {
  type BillingHarness,
  createBillingHarness,
  deliverWebhooks,
  expectLedgerMatchesStripe,
  failAtWrite,
} from "../harness.ts";
import { createX402Deps, fundedWallet } from "../x402/wallet.ts";
import { createEvmClient, createStripeClient, type MppClient } from "./client.ts";

/** What $1.00 buys. */
const TOP_UP = { credits: creditsFor(100) };
const PAID_NANO = nanoOfCredits(TOP_UP.credits);
/** After this time another process resumes a payment. */
const LEASE_MS = 61_000;
const RETRY_MS = 5_001;
/** After this time no token is charged. */
const AFTER_EXPIRY_MS = 10 * 60_000;
const HOUR_MS = 60 * 60_000;

const CHALLENGER = createChallenger(secret("a master secret for challenges"), "http://127.0.0.1");

describe.each(STORE_KINDS)("Machine Payments with faults on %s", (kind) => {
  let store: TestStore;
  let stripe: FakeStripe;
  let facilitator: TestFacilitator;
  let harness: BillingHarness;
  let x402: X402Deps;
  beforeAll(async () => {
    store = await openStore(kind);
    stripe = startFakeStripe();
    facilitator = startFacilitator();
    harness = await createBillingHarness(store.db, {
      ...stripe.env,
      STRIPE_NETWORK_ID: stripe.networkId,
    });
    const node = { X402_RPC_URL: facilitator.rpcUrl };
    x402 = { ...createX402Deps(harness, { ...facilitator.env, ...node }), outcomePollsMax: 2 };
  });
  afterEach(async () => {
    stripe.fault = "ok";
    await deliverWebhooks(harness, stripe);
    await expectLedgerMatchesStripe(harness, stripe);
  });
  afterAll(async () => {
    await stripe.stop();
    await facilitator.stop();
    await store.close();
  });

  function stripeDeps(db: Db = store.db): StripeMethodDeps {
    const { processor } = harness.billing;
    if (processor.kind !== "hosted" || processor.sharedTokens === undefined)
      throw new Error("shared payment tokens are off");
    const billing = { ...harness.billing, db };
    const now = () => harness.clock.now;
    return { billing, now, processor, tokens: processor.sharedTokens, outcomePollsMax: 2 };
  }

  function protocolOf(...methods: readonly MachinePaymentMethod[]): PaymentProtocol {
    return createMppProtocol({ challenger: CHALLENGER, methods, now: () => harness.clock.now });
  }

  /** A method, how it is resumed, its client, and what was moved. */
  interface TestedMethod {
    readonly create: (db?: Db) => MachinePaymentMethod;
    readonly poll: () => Promise<void>;
    readonly client: () => MppClient;
  }
  const methods: Readonly<Record<string, TestedMethod>> = {
    stripe: {
      create: (db) => createStripeMethod(stripeDeps(db)),
      poll: () => pollSharedTokens(stripeDeps()),
      client: () => createStripeClient(stripe),
    },
    evm: {
      create: (db = store.db) => createEvmMethod({ ...x402, billing: { ...x402.billing, db } }),
      poll: () => pollX402(x402),
      client: () => createEvmClient(fundedWallet(facilitator, 100n)),
    },
  };

  interface Buyer {
    readonly payable: Payable;
    readonly credential: string;
  }

  async function newBuyer(
    method: MachinePaymentMethod,
    client: MppClient,
    invoice: Payable["invoice"] = TOP_UP,
    accountId?: string,
  ): Promise<Buyer> {
    const payable = { accountId: accountId ?? (await harness.newAccount()), invoice };
    const resource = { path: "/", description: "credits" };
    const headers = protocolOf(method).challenge(payable, resource, undefined);
    const response = new Response("", { status: 402, headers: { ...headers } });
    return { payable, credential: await client.credentialFor(response) };
  }

  const tokenBuyer = (paymentMethod?: string): Promise<Buyer> =>
    newBuyer(createStripeMethod(stripeDeps()), createStripeClient(stripe, paymentMethod));

  function pay(method: MachinePaymentMethod, buyer: Buyer): Promise<ProtocolResult> {
    return protocolOf(method).accept(buyer.payable, buyer.credential);
  }

  const payToken = (buyer: Buyer): Promise<ProtocolResult> =>
    pay(createStripeMethod(stripeDeps()), buyer);

  function advanceTime(ms: number): void {
    harness.clock.now += ms;
    facilitator.chain.advance(Math.floor(ms / 1_000));
  }

  const balanceOf = async ({ payable }: Buyer): Promise<bigint> =>
    (await readWallet(store.db, payable.accountId)).paid;

  async function rowOf({ payable }: Buyer) {
    return await store.db.get("select * from agent_payment where account_id = ?", [
      payable.accountId,
    ]);
  }

  function chargesOf(row: Awaited<ReturnType<typeof rowOf>>) {
    return [...stripe.intents.values()].filter(
      ({ status, metadata }) =>
        status === "succeeded" && metadata["postern_invoice"] === row?.["invoice_id"],
    );
  }

  async function codeOf(work: Promise<unknown>): Promise<string> {
    return await work.then(
      () => "no error",
      (error: unknown) => (error instanceof Fault ? error.code : String(error)),
    );
  }

  const WRITES = 5;
  for (const [name, { create, poll, client }] of Object.entries(methods))
    describe(`a process that crashes with ${name}`, () => {
      for (const when of ["before", "after"] as const)
        for (let write = 1; write <= WRITES; write++)
          test(`${when} write ${write} loses nothing and credits once`, async () => {
            const buyer = await newBuyer(create(), client());
            const crashing = create(failAtWrite(store.db, write, when));
            await pay(crashing, buyer).catch(() => undefined);
            advanceTime(LEASE_MS);
            await poll();
            expect((await pay(create(), buyer)).kind).toBe("paid");
            expect(await balanceOf(buyer)).toBe(PAID_NANO);
            const row = await rowOf(buyer);
            expect(row).toMatchObject({ state: "paid", due_at: null });
            if (name === "stripe") expect(chargesOf(row)).toHaveLength(1);
          });
    });

  test("a crash right after the charge: sending the credential again credits it", async () => {
    const buyer = await tokenBuyer();
    const deps = stripeDeps();
    const crashing = createStripeMethod({
      ...deps,
      tokens: {
        ...deps.tokens,
        charge: async (charge) => {
          await deps.tokens.charge(charge);
          return await new Promise(() => {});
        },
      },
    });
    void pay(crashing, buyer);
    await eventually(async () => chargesOf(await rowOf(buyer)).length > 0);
    advanceTime(LEASE_MS);
    expect((await payToken(buyer)).kind).toBe("paid");
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
    expect(chargesOf(await rowOf(buyer))).toHaveLength(1);
  });

  test("a lost reply is a 503, and the charge is repeated with its key", async () => {
    const buyer = await tokenBuyer();
    stripe.fault = "reply lost";
    expect(await codeOf(payToken(buyer))).toBe("overloaded");
    stripe.fault = "ok";
    advanceTime(RETRY_MS);
    await pollSharedTokens(stripeDeps());
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
    expect(chargesOf(await rowOf(buyer))).toHaveLength(1);
    expect((await payToken(buyer)).kind).toBe("paid");
  });

  test("an abandoned payment with a lost reply is found by its metadata after the challenge has expired", async () => {
    const buyer = await tokenBuyer();
    stripe.fault = "reply lost";
    expect(await codeOf(payToken(buyer))).toBe("overloaded");
    stripe.fault = "ok";
    stripe.webhookEvents.length = 0;
    advanceTime(AFTER_EXPIRY_MS);
    const callsBefore = stripe.calls.length;
    await pollSharedTokens(stripeDeps());
    expect(stripe.calls.slice(callsBefore)).not.toContain("POST /v1/payment_intents");
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("a token that never reached Stripe is not charged after its challenge, and refused after an hour", async () => {
    const buyer = await tokenBuyer();
    stripe.fault = "down";
    expect(await codeOf(payToken(buyer))).toBe("overloaded");
    stripe.fault = "ok";
    advanceTime(AFTER_EXPIRY_MS);
    await pollSharedTokens(stripeDeps());
    expect(await rowOf(buyer)).toMatchObject({ state: "open" });
    expect(await codeOf(payToken(buyer))).toBe("overloaded");
    advanceTime(HOUR_MS);
    await pollSharedTokens(stripeDeps());
    const row = await rowOf(buyer);
    expect(row).toMatchObject({ state: "refused", due_at: null });
    expect(chargesOf(row)).toEqual([]);
    expect(await payToken(buyer)).toMatchObject({ kind: "refused" });
    expect(await balanceOf(buyer)).toBe(0n);
  });

  test("a payment that is processing is credited when it succeeds", async () => {
    const buyer = await tokenBuyer("pm_processing");
    expect(await codeOf(payToken(buyer))).toBe("overloaded");
    expect(await balanceOf(buyer)).toBe(0n);
    const row = await rowOf(buyer);
    const intent = stripe.intents.get(String(row?.["tx_hash"]));
    if (intent === undefined) throw new Error("no intent");
    stripe.completeCharge(intent, "succeeded");
    stripe.webhookEvents.length = 0;
    advanceTime(AFTER_EXPIRY_MS);
    await pollSharedTokens(stripeDeps());
    expect(await balanceOf(buyer)).toBe(PAID_NANO);
  });

  test("a payment that fails at the bank is refused, and its invoice is voided", async () => {
    const buyer = await tokenBuyer("pm_processing");
    expect(await codeOf(payToken(buyer))).toBe("overloaded");
    const row = await rowOf(buyer);
    const intent = stripe.intents.get(String(row?.["tx_hash"]));
    if (intent === undefined) throw new Error("no intent");
    stripe.completeCharge(intent, "requires_payment_method");
    advanceTime(AFTER_EXPIRY_MS);
    await pollSharedTokens(stripeDeps());
    expect(await rowOf(buyer)).toMatchObject({ state: "refused" });
    expect(await balanceOf(buyer)).toBe(0n);
  });

  test("several processes that resume the same payments charge and credit each once", async () => {
    const buyers = await Promise.all(Array.from({ length: 6 }, () => tokenBuyer()));
    stripe.fault = "reply lost";
    for (const buyer of buyers) await codeOf(payToken(buyer));
    stripe.fault = "ok";
    advanceTime(RETRY_MS);
    await Promise.all([
      pollSharedTokens(stripeDeps()),
      pollSharedTokens(stripeDeps()),
      deliverWebhooks(harness, stripe),
      ...buyers.map((buyer) => payToken(buyer).catch(() => undefined)),
    ]);
    advanceTime(LEASE_MS);
    await pollSharedTokens(stripeDeps());
    for (const buyer of buyers) {
      expect(await balanceOf(buyer)).toBe(PAID_NANO);
      expect(chargesOf(await rowOf(buyer))).toHaveLength(1);
    }
  });

  test("an invoice that a token pays at the moment cannot be paid by another token or a wallet, or voided unpaid", async () => {
    const accountId = await harness.newAccount();
    const invoice = await harness.newInvoice(accountId, 200);
    const byToken = createStripeMethod(stripeDeps());
    const byWallet = createEvmMethod(x402);
    const first = await newBuyer(byToken, createStripeClient(stripe), invoice, accountId);
    const second = await newBuyer(byToken, createStripeClient(stripe), invoice, accountId);
    const wallet = createEvmClient(fundedWallet(facilitator, 500n));
    const third = await newBuyer(byWallet, wallet, invoice, accountId);
    stripe.fault = "reply lost";
    expect(await codeOf(payToken(first))).toBe("overloaded");
    stripe.fault = "ok";
    expect(await codeOf(payToken(second))).toBe("conflict");
    expect(await codeOf(pay(byWallet, third))).toBe("conflict");
    advanceTime(RETRY_MS);
    expect((await payToken(first)).kind).toBe("paid");
    expect(await balanceOf(first)).toBe(200n * NANO_PER_CENT);
    const request = { id: invoice.id, accountId, now: harness.clock.now };
    await cancelOpenCheckout(harness.billing, request);
    const row = await store.db.get("select status from invoice where id = ?", [invoice.id]);
    expect(row).toMatchObject({ status: "paid" });
  });
});
