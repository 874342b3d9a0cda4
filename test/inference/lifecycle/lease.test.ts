// A gateway that was suspended for longer than its lease, on PostgreSQL: others may have spent what its calls held.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { HeldCall } from "../../../src/inference/lifecycle/call.ts";
import { confirmHold } from "../../../src/inference/lifecycle/hold/confirm-hold.ts";
import { LEASE_STATE } from "../../../src/ledger/credit-lease.ts";
import { createLease } from "../../../src/ledger/lease.ts";
import { insertHolds } from "../../../src/ledger/ledger-rows.ts";
import { startEpoch } from "../../../src/ledger/ledger.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { sweepAsDead } from "../../ledger/fixtures.ts";
import { eventually } from "../../support/eventually.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import { bodyOf, countOpenHolds, postCall, usageRecordsOf } from "../support/harness.ts";

const SUSPENDED_MS = 40_000;

describe("a gateway that was suspended for longer than its lease", () => {
  let gate: GatedSimulator;
  let gateway: Gateway;
  let aheadMs = 0;
  beforeAll(async () => {
    gate = startGatedSimulator();
    gateway = await startGateway({
      store: "postgres",
      now: () => Date.now() + aheadMs,
      env: { SIM_BASE_URL: gate.url },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await gate.stop();
  });

  const sweep = (): Promise<number> => sweepAsDead(gateway.server.db, Date.now() + aheadMs);
  const suspend = (): void => {
    aheadMs += SUSPENDED_MS;
  };

  test("does not serve a reply whose hold was swept, and does not charge it", async () => {
    gate.close();
    const account = await registerAccount(gateway);
    const pending = postCall(gateway, account, "chat", bodyOf("chat", "[[sim: tokens=20]] once"));
    await eventually(() => gate.waiting() === 1);
    suspend();
    await eventually(async () => (await sweep()) === 1);
    gate.open();
    const response = await pending;
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await response.text()).toContain("suspended during the call");
    const { db } = gateway.server;
    const [record] = await usageRecordsOf(db, account.id);
    expect(record).toMatchObject({ outcome: "shut_down", status: 503n, cost_nano: 0n });
    expect((await verifyLedger(db)).problems).toEqual([]);
  });

  test("serves a reply whose hold still exists", async () => {
    gate.close();
    const account = await registerAccount(gateway);
    const pending = postCall(gateway, account, "chat", bodyOf("chat", "[[sim: tokens=20]] once"));
    await eventually(() => gate.waiting() === 1);
    suspend();
    gate.open();
    expect((await pending).status).toBe(200);
  });

  test("asks the store about a hold that was taken under an expired lease", async () => {
    const { db } = gateway.server;
    const epoch = await startEpoch(db, "late", Date.now());
    let now = 0;
    const lease = createLease({
      db,
      process: "late",
      epoch,
      now: Date.now,
      monotonicNow: () => now,
    });
    now += SUSPENDED_MS;
    const hold = { amount: 1n, isPaid: true, isPaying: false, leaseTerm: lease.term() };
    const input = { requestId: "req_swept", caller: { accountId: "acct_1" } };
    // Safe: these are the only fields that it reads.
    const call = { input, hold } as unknown as HeldCall;
    expect(await confirmHold(lease, call)).toBe("lost");
  });

  test("asks nothing about an item that its provider ran: the hold of its batch belongs to no process", async () => {
    const expired = {
      term: () => 0,
      confirmHold: () => {
        throw new Error("the store was asked");
      },
    };
    const hold = { amount: 1n, leaseTerm: 0 };
    const caller = { accountId: "acct_1" };
    const item = { requestId: "req_item", caller, batchItem: { hasNoCall: true } };
    // Safe: these are the only fields that it reads.
    expect(await confirmHold(expired, { input: item, hold } as unknown as HeldCall)).toBe("held");
    const call = { input: { requestId: "req_call", caller }, hold } as unknown as HeldCall;
    expect(() => confirmHold(expired, call)).toThrow("the store was asked");
  });

  test("asks the store about the credit lease that a call's hold is a part of", async () => {
    const { db } = gateway.server;
    const account = await registerAccount(gateway);
    const name = "leasing";
    const epoch = await startEpoch(db, name, Date.now());
    await db.write((tx) =>
      insertHolds(tx, [
        {
          id: "lease_leasing_1",
          accountId: account.id,
          keyId: "key_1",
          amount: 0n,
          calls: 0,
          lease: LEASE_STATE.open,
          process: name,
          epoch,
          createdAt: Date.now(),
          expiresAt: Date.now() + SUSPENDED_MS,
        },
      ]),
    );
    const lease = createLease({ db, process: name, epoch, now: Date.now });
    const hold = { amount: 1n, leaseTerm: 0, rowId: "lease_leasing_1" };
    const input = { requestId: "req_leased", caller: { accountId: account.id } };
    // Safe: these are the only fields that it reads.
    const call = { input, hold } as unknown as HeldCall;
    expect(await confirmHold(lease, call)).toBe("held");
    await db.write((tx) => tx.run("delete from hold where id = 'lease_leasing_1'"));
    hold.leaseTerm = 0;
    expect(await confirmHold(lease, call)).toBe("lost");
  });

  for (const isSwept of [true, false])
    test(
      isSwept ? "ends a stream whose hold was swept" : "continues a stream whose hold exists",
      async () => {
        gate.open();
        const { db } = gateway.server;
        const account = await registerAccount(gateway);
        // The gateway ends the slow stream as soon as its hold is swept.
        const pace = isSwept ? 1_000 : 50;
        const text = `[[sim: chunks=30 pace=${pace} tokens=30]] go on`;
        const body = bodyOf("chat", text, { stream: true });
        const response = await postCall(gateway, account, "chat", body);
        const reader = response.body?.getReader();
        await reader?.read();
        expect(await countOpenHolds(db)).toBe(1);
        suspend();
        if (isSwept) await eventually(async () => (await sweep()) === 1);
        let rest = "";
        for (;;) {
          const part = await reader?.read();
          if (part?.value === undefined) break;
          rest += new TextDecoder().decode(part.value);
        }
        expect(rest.includes("suspended during the call")).toBe(isSwept);
        expect(rest.includes("[DONE]")).toBe(!isSwept);
        const [record] = await usageRecordsOf(db, account.id);
        expect(record?.["outcome"]).toBe(isSwept ? "shut_down" : "completed");
        expect((await verifyLedger(db)).problems).toEqual([]);
      },
    );
});
