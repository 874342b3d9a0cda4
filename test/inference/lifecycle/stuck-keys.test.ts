// Idempotency keys of model calls after a failure of the store and after the end of a process.

import { describe, expect, test } from "bun:test";
import { secret } from "../../../src/base/crypto/secret.ts";
import {
  createIdempotency,
  type IdempotentResponse,
} from "../../../src/idempotency/idempotency.ts";
import type { CallInput, SettledCall } from "../../../src/inference/lifecycle/call.ts";
import { withIdempotency } from "../../../src/inference/lifecycle/with-idempotency.ts";
import { createLedger, deposit, startEpoch } from "../../../src/ledger/ledger.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { createPromptLog } from "../../../src/prompt-log/prompt-log.ts";
import { writeCallRecords } from "../../../src/server/call-records.ts";
import { type Db, UNAVAILABLE } from "../../../src/store/db.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import {
  ALL_TRANSFERS,
  openAccount,
  promoDeposit,
  startLedger,
  usageRecord,
} from "../../ledger/fixtures.ts";
import { eventually } from "../../support/eventually.ts";
import { describeEachStore, openStore } from "../../support/stores/stores.ts";

const now = Date.now();
const MASTER = secret("the master secret of this test");
const idempotency = createIdempotency(MASTER);
const promptLog = createPromptLog(MASTER, 30);
const call = (holdId: string) => ({
  accountId: "acct_1",
  scope: "chat",
  key: "a-key",
  body: "{}",
  now,
  holdId,
});
const lost = (): Error => Object.assign(new Error("connection lost"), { [UNAVAILABLE]: true });

const owner = { id: "req_1", accountId: "acct_1", keyId: "key_1" };
const beginFundedCall = (db: Db): Promise<unknown> =>
  db.write(async (tx) => {
    await openAccount(tx, "acct_1", ["key_1"], now);
    await deposit(tx, promoDeposit("d1", "acct_1", 100n, now));
    await idempotency.begin(tx, call("req_1"));
  });

describeEachStore((kind, open) => {
  describe(`a key, on ${kind}`, () => {
    test("is free at once when the hold of its call was swept", async () => {
      const { db, close } = await open();
      await db.write(async (tx) => {
        await openAccount(tx, "acct_1", ["key_1"], now);
        await idempotency.begin(tx, call("req_1"));
      });
      const ledger = await startLedger(db, "killed", now);
      const held = await ledger.hold({
        id: "req_1",
        accountId: "acct_1",
        keyId: "key_1",
        amount: 0n,
        now,
        expiresAt: now + 60_000,
      });
      expect(held.status).toBe("held");
      const repeat = (): Promise<IdempotentResponse | undefined> =>
        db.write((tx) => idempotency.begin(tx, call("req_2")));
      expect(await repeat().catch((error: unknown) => String(error))).toContain("still running");
      await startLedger(db, "killed", now);
      expect(await sweepHolds(db, now)).toBe(1);
      expect(await repeat()).toBeUndefined();
      await close();
    });

    test("that a repetition took over leaves the first call uncharged", async () => {
      const { db, close } = await open();
      await beginFundedCall(db);
      const epoch = await startEpoch(db, "suspended", now);
      const ledger = createLedger<SettledCall>({
        db,
        process: "suspended",
        epoch,
        writeRecords: (tx, records, charges) =>
          writeCallRecords(tx, { records, charges }, { idempotency, promptLog }),
      });
      await ledger.hold({ ...owner, amount: 50n, now, expiresAt: now + 60_000 });
      await startEpoch(db, "suspended", now);
      await sweepHolds(db, now);
      await db.write((tx) => idempotency.begin(tx, call("req_2")));
      const usage = usageRecord({ ...owner, cost: 50n, createdAt: now });
      const reply = { status: 200, body: "late" };
      const record = { usage, idempotent: { call: call("req_1"), reply } };
      const settled = ledger.settle({ ...owner, cost: 50n, now, record });
      expect(await settled.catch((error: unknown) => String(error))).toContain("was taken over");
      expect(await db.all(`select id from ${ALL_TRANSFERS} where kind = 'usage'`)).toEqual([]);
      expect(await ledger.settle({ ...owner, cost: 0n, now })).toMatchObject({ late: true });
      await close();
    });

    test("is free after a refused call, however often its settlement is repeated", async () => {
      const { db, close } = await open();
      await beginFundedCall(db);
      const ledger = createLedger<SettledCall>({
        db,
        process: "suspended",
        epoch: await startEpoch(db, "suspended", now),
        writeRecords: (tx, records, charges) =>
          writeCallRecords(tx, { records, charges }, { idempotency, promptLog }),
      });
      await ledger.hold({ ...owner, amount: 60n, now, expiresAt: now + 60_000 });
      await startEpoch(db, "suspended", now);
      await sweepHolds(db, now);
      const other = { ...owner, id: "req_other", now };
      await ledger.hold({ ...other, amount: 80n, expiresAt: now + 60_000 });
      const usage = usageRecord({ ...owner, cost: 60n, createdAt: now });
      const reply = { status: 200, body: "unpaid" };
      const record = { usage, idempotent: { call: call("req_1"), reply } };
      const request = { ...owner, cost: 60n, now, refuseUncovered: true, record };
      expect(await ledger.settle(request)).toMatchObject({ charged: 0n, overrun: 60n });
      // As after a commit whose reply was lost.
      expect(await ledger.settle(request)).toEqual({ status: "already", overrun: 60n });
      expect(await db.write((tx) => idempotency.begin(tx, call("req_2")))).toBeUndefined();
      await ledger.settle({ ...other, cost: 0n });
      expect((await verifyLedger(db)).problems).toEqual([]);
      await close();
    });
  });
});

describe("a key whose claim or release met a failing store", () => {
  const run = async (failWrite: (writes: number) => "before" | "after" | undefined) => {
    const { db, close } = await openStore("sqlite");
    let writes = 0;
    const failing: Db = {
      ...db,
      write: async (work, durability) => {
        writes += 1;
        const failure = failWrite(writes);
        if (failure === "before") throw lost();
        const result = await db.write(work, durability);
        if (failure === "after") throw lost();
        return result;
      },
    };
    const deps = {
      ...idempotency,
      db: failing,
      now: () => now,
      findKey: async () => ({}),
    };
    const attempt = (requestId: string, reply: () => Promise<Response>): Promise<unknown> => {
      // Only these members are read.
      const input = { text: "{}", caller: { keyId: "key_1" }, requestId } as unknown as CallInput;
      return withIdempotency(deps, input, call(requestId), reply).catch((error: unknown) => error);
    };
    const first = await attempt("req_1", () => Promise.reject(new Error("the call failed")));
    await eventually(async () => {
      const again = await attempt("req_2", async () => new Response("served"));
      return again instanceof Response && again.status === 200;
    });
    await close();
    return String(first);
  };

  test("is released when the reply to its claim was lost", async () => {
    expect(await run((writes) => (writes === 1 ? "after" : undefined))).toContain(
      "connection lost",
    );
  });

  test("is released later when its release failed", async () => {
    expect(await run((writes) => (writes === 2 || writes === 3 ? "before" : undefined))).toContain(
      "the call failed",
    );
  });
});
