// Calls that a wallet pays after they ran: attacks, and faults between the signature and the settlement. A wallet is never
// charged more than it signed, nor twice; what cannot be settled is the operator's loss, within a limit.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { decodePaymentResponseHeader } from "@x402/fetch";
import { pollUpto, type UptoDeps } from "../../../src/billing/x402/upto-payments.ts";
import { createX402 } from "../../../src/billing/x402/x402-protocol.ts";
import { createUpto } from "../../../src/server/create-agent-payments.ts";
import { eventually } from "../../support/eventually.ts";
import {
  newWallet,
  startFacilitator,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { createRandom, type RandomInt, TEST_SEED } from "../../support/random.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { expectLedgerValid, ledgerBalanceOf } from "../fixtures.ts";
import {
  approvedWallet,
  type CeilingOverrides,
  type Requirements,
  settledWords,
  signCeiling,
  uptoEnv,
} from "./upto.ts";
import { challengeIn, headerOf, signPayment } from "./wallet.ts";

const TEXT = "[[sim: tokens=20]] hello";
const AFTER_EXPIRY_MS = 3 * 3_600_000;

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  readonly error: {
    readonly message: string;
    readonly param?: string;
    readonly payment_error?: string;
  };
}

describe.each(STORE_KINDS)("upto with faults on %s", (store) => {
  const clock = { aheadMs: 0 };
  const now = () => Date.now() + clock.aheadMs;
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  /** Another process on the same store. */
  let other: UptoDeps;
  let wallet: Wallet;
  /** Received for an invoice that the gateway does not know. */
  let invoiceUnits = 0n;
  beforeAll(async () => {
    facilitator = startFacilitator();
    const env = uptoEnv(facilitator);
    const timeouts = { drainMs: 200 };
    gateway = await startGateway({ store, env, providers: ["sim", "openai"], now, timeouts });
    other = uptoOf(gateway);
  });
  afterAll(async () => {
    await expectSettled();
    await gateway.stop();
    await facilitator.stop();
  });
  beforeEach(() => {
    wallet = approvedWallet(facilitator);
    facilitator.calls.length = 0;
  });
  afterEach(() => {
    Object.assign(facilitator.faults, { verify: "ok", settle: "ok", node: "ok" });
    facilitator.onStep = () => {};
  });

  function uptoOf({ config, server }: Gateway): UptoDeps {
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const billing = { db: server.db, log } as never;
    if (config.x402 === undefined) throw new Error("x402 is off");
    const x402 = createX402(config.x402, { billing, now, baseUrl: config.baseUrl });
    const unused = undefined as never;
    const upto = createUpto(config, x402, { db: server.db, keys: unused, signingKeys: unused });
    if (upto === undefined) throw new Error("upto is off");
    return upto;
  }

  /** Resumes what is not settled, as another process does after a crash. */
  async function settleAll(): Promise<void> {
    // SQLite has one process, whose holds are in memory at first: it does not resume the calls that it runs.
    await gateway.server.idle();
    await gateway.server.db.write((tx) =>
      tx.run("update metered_payment set due_at = 1 where due_at is not null"),
    );
    await pollUpto(other);
  }

  /** A job of the gateway may have a payment of the wallet at first. */
  async function settlePayments(): Promise<void> {
    await eventually(async () => {
      await settleAll();
      return (await paymentsOf()).every(({ due_at: dueAt }) => dueAt === null);
    });
  }

  /** A stream that does not end until its client leaves. */
  async function openStream(payer: Wallet): Promise<() => void> {
    const messages = [{ role: "user", content: "[[sim: tokens=40 hang=5]] hello" }];
    const more = { stream: true, messages };
    const requirements = await requirementsFor(more);
    const client = new AbortController();
    const deadline = Math.floor(now() / 1_000) + 3_600;
    const header = await signCeiling(payer, requirements, { deadline });
    const response = await send(header, more, client.signal);
    expect(response.status).toBe(200);
    await response.body?.getReader().read();
    return () => client.abort();
  }

  async function expectSettled(): Promise<void> {
    const { db } = gateway.server;
    clock.aheadMs += AFTER_EXPIRY_MS;
    facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
    await eventually(async () => {
      await settleAll();
      const open = await db.get(
        "select count(*) as count from metered_payment where due_at is not null or state in ('open', 'due')",
      );
      return Number(open?.["count"]) === 0;
    });
    const received = (facilitator.chain.unitsOf(facilitator.payTo) - invoiceUnits) * 1_000n;
    expect(-(await ledgerBalanceOf(db, "system:clearing:x402"))).toBe(received);
    await expectLedgerValid(db);
    const left = await db.all(
      "select account_id from wallet where paid <> 0 or held <> 0 or owed <> 0",
    );
    expect(left).toEqual([]);
  }

  async function call(header?: string, more: object = {}, signal?: AbortSignal): Promise<Reply> {
    const response = await send(header, more, signal);
    const text = await response.text();
    const body = text.startsWith("{") ? (JSON.parse(text) as Partial<Reply>) : {};
    const error = body.error ?? { message: "" };
    return { status: response.status, text, headers: response.headers, error };
  }

  function send(header?: string, more: object = {}, signal?: AbortSignal): Promise<Response> {
    const body = {
      model: "openai/gpt-5",
      messages: [{ role: "user", content: TEXT }],
      max_tokens: 1_000,
      ...more,
    };
    return fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(header === undefined ? {} : { "payment-signature": header }),
      },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async function requirementsFor(more: object = {}): Promise<Requirements> {
    const [requirements] = challengeIn((await call(undefined, more)).headers).accepts;
    if (requirements === undefined) throw new Error("no payment requirements");
    return requirements;
  }

  async function sign(overrides?: CeilingOverrides, more: object = {}): Promise<string> {
    const deadline = Math.floor(now() / 1_000) + 3_600;
    return signCeiling(wallet, await requirementsFor(more), { deadline, ...overrides });
  }

  function spent(of = wallet, funded = 5_000_000n): bigint {
    return funded - facilitator.chain.unitsOf(of.address);
  }

  async function paymentsOf(of = wallet) {
    return await gateway.server.db.all(
      "select state, reason, due_at, request_id, account_id, cast(charge_nano as text) as charge, cast(credit_nano as text) as credit from metered_payment where payer = ? order by created_at",
      [of.address.toLowerCase()],
    );
  }

  function settlementIn({ headers, text }: Reply) {
    const comment = /^: payment-response (\S+)$/m.exec(text)?.[1];
    return decodePaymentResponseHeader(headers.get("payment-response") ?? comment ?? "");
  }

  describe("attacks", () => {
    test("a replay is a 409 with the settlement, without the receipt, and charges nothing", async () => {
      const header = await sign();
      expect((await call(header)).status).toBe(200);
      const charged = spent();
      for (const more of [{}, { stream: true }, { max_tokens: 10 }]) {
        const replay = await call(header, more);
        expect([replay.status, replay.error.param]).toEqual([409, "payment-signature"]);
        expect(settlementIn(replay)).toMatchObject({ success: true, amount: String(charged) });
        // A reader of the chain can send the authorization again.
        expect(replay.headers.has("x-postern-receipt")).toBe(false);
      }
      expect(spent()).toBe(charged);
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("of concurrent calls with one signature, one runs", async () => {
      const header = await sign();
      const replies = await Promise.all(Array.from({ length: 4 }, () => call(header)));
      const statuses = replies.map(({ status }) => status).toSorted((one, other) => one - other);
      expect(statuses[0]).toBe(200);
      expect(statuses.slice(1).every((status) => status === 402 || status === 409)).toBe(true);
      const payments = await paymentsOf();
      expect(payments.map(({ state }) => state)).toEqual(["paid"]);
      const records = await gateway.server.db.all(
        "select id from usage_record where account_id = ?",
        [String(payments[0]?.["account_id"])],
      );
      expect(records).toHaveLength(1);
      expect(facilitator.calls.filter((step) => step === "settle")).toHaveLength(1);
    });

    if (store === "postgres")
      test("a payment does not wait for a vacuum of its table", async () => {
        const header = await sign();
        await gateway.server.db.write(async (tx) => {
          // The lock that a vacuum takes.
          await tx.run("lock table metered_payment in share update exclusive mode");
          expect((await call(header)).status).toBe(200);
        });
      });

    const otherAddress = newWallet().address;
    const refusals: Readonly<Record<string, readonly [CeilingOverrides, reason: string]>> = {
      "another network": [{ accepted: { network: "eip155:8453" } }, "network_mismatch"],
      "a signature for another chain": [{ chainId: 8_453 }, "invalid_permit2_signature"],
      "another token": [{ token: otherAddress }, "permit2_token_mismatch"],
      "another token in its terms": [{ accepted: { asset: otherAddress } }, "token_mismatch"],
      "another payee": [{ to: otherAddress }, "recipient_mismatch"],
      "another payee in its terms": [{ accepted: { payTo: otherAddress } }, "recipient_mismatch"],
      "another facilitator": [{ facilitator: otherAddress }, "facilitator_mismatch"],
      "another spender": [{ spender: otherAddress }, "invalid_permit2_spender"],
      "a ceiling that is too low": [{ amount: "1" }, "permit2_amount_mismatch"],
      "a ceiling below its terms": [{ accepted: { amount: "9000000" } }, "amount_mismatch"],
      "another signer": [{ signer: newWallet() }, "invalid_permit2_signature"],
    };
    for (const [title, [overrides, reason]] of Object.entries(refusals))
      test(`a payment with ${title} is refused, and nothing is stored or sent`, async () => {
        const reply = await call(await sign(overrides));
        expect(reply.status).toBe(402);
        expect(reply.error.payment_error).toContain(reason);
        expect(challengeIn(reply.headers).accepts).toHaveLength(1);
        expect(await paymentsOf()).toEqual([]);
      });

    const times: Readonly<Record<string, readonly [(at: number) => CeilingOverrides, string]>> = {
      "has expired": [(at) => ({ deadline: at - 1 }), "deadline_expired"],
      "expires before a call could be settled": [(at) => ({ deadline: at + 2_600 }), "expired"],
      "is valid for longer than a call": [(at) => ({ deadline: at + 8_000 }), "deadline"],
      "is not valid yet": [(at) => ({ validAfter: at + 60 }), "not_yet_valid"],
    };
    for (const [title, [overrides, reason]] of Object.entries(times))
      test(`a signature that ${title} is refused`, async () => {
        const reply = await call(await sign(overrides(Math.floor(now() / 1_000))));
        expect([reply.status, reply.error.payment_error?.includes(reason)]).toEqual([402, true]);
        expect(await paymentsOf()).toEqual([]);
      });

    test("upto is not taken for exact, nor exact for upto", async () => {
      const requirements = await requirementsFor();
      const { header: exact } = await signPayment(wallet, requirements);
      const asExact = await call(
        headerOf({
          ...JSON.parse(Buffer.from(exact, "base64").toString()),
          accepted: { ...requirements, scheme: "exact" },
        }),
      );
      expect([asExact.status, asExact.error.param]).toEqual([400, "payment-signature"]);
      const mixed = await call(await sign({ accepted: { scheme: "exact" } }));
      expect(mixed.status).toBe(400);
      const account = await registerAccount(gateway);
      const withKey = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          ...account.headers,
          "payment-signature": await sign(),
          "x-postern-hold": "full",
        },
        body: JSON.stringify({
          model: "openai/gpt-5",
          messages: [{ role: "user", content: TEXT }],
          max_tokens: 60_000,
        }),
      });
      expect(withKey.status).toBe(400);
      expect(spent()).toBe(0n);
    });

    test("a signature for a cheaper request does not pay for a dearer one", async () => {
      const cheap = await sign({}, { max_tokens: 20 });
      const reply = await call(cheap, { max_tokens: 5_000 });
      expect([reply.status, reply.error.payment_error]).toEqual([402, "permit2_amount_mismatch"]);
      expect(await paymentsOf()).toEqual([]);
    });

    test("a higher ceiling than needed is taken, and charged what was used", async () => {
      const reply = await call(await sign({ amount: "2000000" }));
      expect(reply.status).toBe(200);
      expect(spent()).toBeGreaterThan(0n);
      expect(spent()).toBeLessThan(2_000n);
    });

    test("one balance does not pay for several open calls", async () => {
      wallet = approvedWallet(facilitator, 2n);
      const leave = await openStream(wallet);
      const refused = await call(await sign());
      expect(refused.status).toBe(402);
      expect(refused.error.payment_error).toContain("insufficient_balance");
      leave();
      await settlePayments();
      facilitator.chain.fund(wallet.address, 2n);
      expect((await call(await sign())).status).toBe(200);
    });

    test("a wallet without an allowance, or without money, is refused", async () => {
      facilitator.chain.approve(wallet.address, 0n);
      expect((await call(await sign())).error.payment_error).toBe("permit2_allowance_required");
      facilitator.chain.approve(wallet.address);
      facilitator.chain.drain(wallet.address);
      expect((await call(await sign())).error.payment_error).toBe("permit2_insufficient_balance");
      expect(await paymentsOf()).toEqual([]);
    });
  });

  describe("a wallet that is emptied between verification and settlement", () => {
    const emptied: readonly (readonly [string, () => void])[] = [
      ["drained", () => facilitator.chain.drain(wallet.address)],
      ["without its allowance", () => facilitator.chain.approve(wallet.address, 0n)],
    ];
    for (const [title, empty] of emptied)
      test(`gets no whole reply if it is ${title}, and no further call`, async () => {
        facilitator.onStep = (step) => (step === "settle" ? empty() : undefined);
        const reply = await call(await sign());
        expect(reply.status).toBe(402);
        expect(reply.text).not.toContain("the sim can say");
        expect(settlementIn(reply)).toMatchObject({ success: false, transaction: "" });
        facilitator.onStep = () => {};
        facilitator.chain.fund(wallet.address, 500n);
        facilitator.chain.approve(wallet.address);
        const next = await call(await sign());
        expect([next.status, next.error.payment_error]).toEqual([
          402,
          "an earlier call of this wallet could not be settled",
        ]);
        expect((await paymentsOf()).map(({ state }) => state)).toEqual(["lost"]);
      });

    test("gets no whole reply if it cancels the nonce meanwhile", async () => {
      const header = await sign({ nonce: 77n });
      facilitator.onStep = (step) => {
        if (step === "settle") facilitator.chain.cancelPermit(wallet.address, 77n);
      };
      const reply = await call(header);
      expect(reply.status).toBe(402);
      expect(reply.text).not.toContain("the sim can say");
      expect((await call(await sign())).status).toBe(402);
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["lost"]);
    });

    test("does not prove an unpaid call by another call's settlement, whose data has the nonce", async () => {
      const read = async (nonce: bigint) =>
        settlementIn(await call(await sign({ nonce }, { stream: true }), { stream: true }));
      // The payer is a word of each settlement.
      const [paid, unpaid] = [77n, BigInt(wallet.address)];
      expect(await read(paid)).toMatchObject({ success: true });
      const spentOnce = spent();
      facilitator.onStep = (step) =>
        step === "settle" ? facilitator.chain.approve(wallet.address, 0n) : undefined;
      expect(await read(unpaid)).toMatchObject({ success: false });
      clock.aheadMs += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await settlePayments();
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["paid", "lost"]);
      expect(spent()).toBe(spentOnce);
    });

    test("does not prove an unpaid call by the payment of an invoice, whose data names it", async () => {
      const streams = { stream: true };
      const header = await sign({}, streams);
      facilitator.onStep = (step) =>
        step === "settle" ? facilitator.chain.approve(wallet.address, 0n) : undefined;
      const units = BigInt(settlementIn(await call(header, streams)).amount ?? 0);
      const data = `0xcf092995${settledWords(header, units)}`;
      facilitator.chain.send(wallet.address, units, data, `0x${"7".repeat(64)}`);
      invoiceUnits += units;
      clock.aheadMs += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await settlePayments();
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["lost"]);
    });

    test("does not prove several unpaid calls by one transfer, whose data names all of them", async () => {
      const streams = { stream: true };
      const headers = [await sign({}, streams), await sign({}, streams)];
      const bothEnded = Promise.withResolvers<void>();
      facilitator.onStep = async (step) => {
        if (step !== "settle") return;
        if (facilitator.calls.filter((one) => one === "settle").length === headers.length) {
          facilitator.chain.approve(wallet.address, 0n);
          bothEnded.resolve();
        }
        await bothEnded.promise;
      };
      const replies = await Promise.all(headers.map((header) => call(header, streams)));
      const [units, ...others] = replies.map((reply) => settlementIn(reply).amount);
      expect(others).toEqual([units]);
      const named = headers.map((header) => settledWords(header, BigInt(units ?? 0))).join("");
      facilitator.chain.send(wallet.address, BigInt(units ?? 0), `0xa9059cbb${named}`);
      clock.aheadMs += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await settlePayments();
      const states = (await paymentsOf()).map(({ state }) => String(state));
      expect(states.toSorted()).toEqual(["lost", "paid"]);
      facilitator.chain.approve(wallet.address);
      expect((await call(await sign())).status).toBe(402);
    });

    test("has read its stream, which ends with the refusal, and gets no further call", async () => {
      facilitator.onStep = (step) =>
        step === "settle" ? facilitator.chain.drain(wallet.address) : undefined;
      const reply = await call(await sign({}, { stream: true }), { stream: true });
      expect(reply.text).toContain("[DONE]");
      expect(settlementIn(reply)).toMatchObject({
        success: false,
        errorReason: "permit2_insufficient_balance",
      });
      expect((await call(await sign())).status).toBe(402);
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["lost"]);
    });
  });

  describe("a settlement with an unknown outcome", () => {
    for (const fault of ["reply lost", "unconfirmed", "down", "malformed"] as const)
      test(`(${fault}) delivers the reply and is settled once`, async () => {
        facilitator.faults.settle = fault;
        const reply = await call(await sign());
        expect(reply.status).toBe(200);
        expect(settlementIn(reply)).toMatchObject({
          success: false,
          errorReason: "settlement_pending",
        });
        facilitator.faults.settle = "ok";
        await settlePayments();
        const [payment] = await paymentsOf();
        expect(payment?.["state"]).toBe("paid");
        expect(spent()).toBeGreaterThan(0n);
        expect(spent()).toBeLessThanOrEqual(
          (BigInt(String(payment?.["charge"])) * 106n) / 100_000n + 1n,
        );
      });

    test("is settled once by two processes at the same time", async () => {
      facilitator.faults.settle = "down";
      await call(await sign());
      facilitator.faults.settle = "ok";
      await Promise.all([settleAll(), settleAll(), settleAll()]);
      await settlePayments();
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["paid"]);
      expect(spent()).toBeGreaterThan(0n);
    });

    test("is settled in time if a clock that ran ahead has put it off", async () => {
      facilitator.faults.settle = "down";
      await call(await sign());
      facilitator.faults.settle = "ok";
      await gateway.server.db.write((tx) =>
        tx.run("update metered_payment set due_at = ? where payer = ?", [
          now() + 365 * 86_400_000,
          wallet.address.toLowerCase(),
        ]),
      );
      await pollUpto(other);
      // A job of the gateway may have the payment at first.
      await eventually(async () => (await paymentsOf())[0]?.["state"] === "paid");
    });

    test("that is never mined is lost once its signature has expired", async () => {
      facilitator.faults.settle = "dropped";
      expect((await call(await sign())).status).toBe(200);
      clock.aheadMs += AFTER_EXPIRY_MS;
      facilitator.chain.advance(AFTER_EXPIRY_MS / 1_000);
      await settlePayments();
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["lost"]);
      expect(spent()).toBe(0n);
    });

    test("that the facilitator denies falsely is found on the chain", async () => {
      facilitator.faults.settle = "false failure";
      const reply = await call(await sign());
      expect(reply.status).toBe(402);
      facilitator.faults.settle = "ok";
      await settlePayments();
      expect((await paymentsOf()).map(({ state }) => state)).toEqual(["paid"]);
      expect(spent()).toBeGreaterThan(0n);
    });
  });

  test("a facilitator that does not verify, or a node that is down, is a 503 before anything runs", async () => {
    const header = await sign();
    facilitator.faults.verify = "down";
    expect((await call(header)).status).toBe(503);
    facilitator.faults.verify = "ok";
    facilitator.faults.node = "wrong chain";
    expect((await call(header)).status).toBe(503);
    expect(await paymentsOf()).toEqual([]);
    facilitator.faults.node = "ok";
    expect((await call(header)).status).toBe(200);
  });

  test("a stream whose client leaves is charged, and at most its ceiling", async () => {
    const leave = await openStream(wallet);
    leave();
    await settlePayments();
    const [payment] = await paymentsOf();
    expect(payment?.["state"]).toBe("paid");
    expect(spent()).toBeGreaterThan(0n);
    expect(spent() * 1_000n).toBeLessThanOrEqual(
      (BigInt(String(payment?.["credit"])) * 105n) / 100n + 1_000n,
    );
  });

  test("a stream ends before its signature does, and is settled", async () => {
    const messages = [{ role: "user", content: "[[sim: tokens=40 hang=5]] hello" }];
    const more = { stream: true, messages };
    const header = await sign({ deadline: Math.floor(now() / 1_000) + 3_600 }, more);
    // Verified an hour before the deadline; the call begins about two minutes before it, and ends then.
    facilitator.onStep = (step) => {
      if (step === "verify") clock.aheadMs += 3_477_000;
    };
    const reply = await call(header, more);
    expect(reply.text).not.toContain("[DONE]");
    await settlePayments();
    expect((await paymentsOf())[0]?.["state"]).toBe("paid");
    expect(spent()).toBeGreaterThan(0n);
  });

  test("a process that ends before the provider replies releases the authorization", async () => {
    const header = await sign();
    expect((await call(header)).status).toBe(200);
    const charged = spent();
    // As a crash between the authorization and the call leaves it.
    const { authorize } = await import("../../../src/billing/x402/upto-payments.ts");
    const { parseCeilingHeader } = await import("../../../src/billing/x402/upto-messages.ts");
    const [payment] = await paymentsOf();
    const caller = { accountId: String(payment?.["account_id"]), keyId: "", granted: new Set() };
    const crashed = { ...other, findCaller: () => Promise.resolve(caller as never) };
    const signed = parseCeilingHeader(await sign());
    const lost = { requestId: "req_crashed", credit: 1_000_000n };
    expect((await authorize(crashed, signed, lost)).kind).toBe("authorized");
    await settlePayments();
    expect((await paymentsOf()).map(({ state }) => state)).toEqual(["paid", "released"]);
    expect(spent()).toBe(charged);
  });

  test("random histories: charged, receipt and chain agree, and never exceed the ceiling", async () => {
    const random = createRandom(TEST_SEED);
    const wallets = Array.from({ length: 6 }, () => approvedWallet(facilitator));
    for (let round = 0; round < 5; round++)
      await Promise.all(wallets.map((one) => runRandomCall(random, one)));
    await expectSettled();
    for (const one of wallets) {
      const rows = await gateway.server.db.all(
        `select sum(amount_nano) as amount, max(case when charge_nano > credit_nano then 1 else 0 end) as above
         from metered_payment where payer = ? and state = 'paid'`,
        [one.address.toLowerCase()],
      );
      expect([Number(rows[0]?.["amount"] ?? 0), Number(rows[0]?.["above"] ?? 0)]).toEqual([
        Number(spent(one) * 1_000n),
        0,
      ]);
    }
  });

  const SETTLE = [
    "ok",
    "ok",
    "ok",
    "down",
    "reply lost",
    "unconfirmed",
    "dropped",
    "twice",
  ] as const;

  async function runRandomCall(random: RandomInt, payer: Wallet): Promise<void> {
    const more = { stream: random(2) === 0, max_tokens: 20 + random(500) };
    const [requirements] = challengeIn((await call(undefined, more)).headers).accepts;
    if (requirements === undefined) throw new Error("no payment requirements");
    const deadline = Math.floor(now() / 1_000) + 3_600;
    const header = await signCeiling(payer, requirements, { deadline });
    facilitator.faults.settle = SETTLE[random(SETTLE.length)] ?? "ok";
    const client = new AbortController();
    if (random(6) === 0) client.abort();
    const replies = await Promise.allSettled(
      Array.from({ length: 1 + random(2) }, () => call(header, more, client.signal)),
    );
    for (const reply of replies)
      if (reply.status === "fulfilled") expect([200, 402, 409]).toContain(reply.value.status);
    facilitator.faults.settle = "ok";
    if (random(3) === 0) await settleAll();
  }
});

describe.each(STORE_KINDS)("the limit of what is at risk, on %s", (store) => {
  test("a call above it is a 503 before anything is sent, until others are settled", async () => {
    const facilitator = startFacilitator();
    const env = uptoEnv(facilitator, "0.02");
    const gateway = await startGateway({ store, env, providers: ["sim", "openai"] });
    try {
      const url = `${gateway.url}/v1/chat/completions`;
      const body = JSON.stringify({
        model: "openai/gpt-5",
        messages: [{ role: "user", content: TEXT }],
        max_tokens: 1_200,
      });
      const headers = { "content-type": "application/json" };
      const asked = await fetch(url, { method: "POST", headers, body });
      const [requirements] = challengeIn(asked.headers).accepts;
      if (requirements === undefined) throw new Error("no payment requirements");
      const pay = async (payer: Wallet) =>
        (
          await fetch(url, {
            method: "POST",
            headers: { ...headers, "payment-signature": await signCeiling(payer, requirements) },
            body,
          })
        ).status;
      const wallets = Array.from({ length: 3 }, () => approvedWallet(facilitator));
      const verified = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      // They are stored at once, and none is settled before the others are refused.
      facilitator.onStep = (step) => (step === "settle" ? released.promise : verified.promise);
      let refused = 0;
      const paid = wallets.map(async (wallet) => {
        const status = await pay(wallet);
        if (status === 503) refused += 1;
        return status;
      });
      const counted = (of: string): number =>
        facilitator.calls.filter((step) => step === of).length;
      await eventually(() => counted("verify") === 3);
      verified.resolve();
      await eventually(() => counted("settle") + refused === 3);
      released.resolve();
      expect((await Promise.all(paid)).toSorted((one, other) => one - other)).toEqual([
        200, 503, 503,
      ]);
    } finally {
      await gateway.stop();
      await facilitator.stop();
    }
  });
});
