// Credit leases on PostgreSQL: holds of a busy key that its process decides in memory, and what ends them.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { changeKey, revokeKey } from "../../src/keys/keys.ts";
import { endBatchHold, freeCreditsForBatch, holdBatch } from "../../src/ledger/batch-holds.ts";
import { LEASE_STATE } from "../../src/ledger/credit-lease.ts";
import type { HoldOutcome, HoldRequest } from "../../src/ledger/decide.ts";
import { setFreeze } from "../../src/ledger/freezes.ts";
import {
  countOpenCalls,
  deposit,
  getWallet,
  type Ledger,
  type LedgerDeps,
  startEpoch,
} from "../../src/ledger/ledger.ts";
import { createOwnHolds } from "../../src/ledger/own-holds.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { getBudgets, setBudgets } from "../../src/ledger/wallet-budgets.ts";
import { type Db, UNAVAILABLE } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { actIn } from "../support/act.ts";
import { eventually } from "../support/eventually.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

const NOON = Date.UTC(2026, 4, 12, 12);
const LIFETIME_MS = 60_000;
const AMOUNT = 1_000n;

let store: TestStore;
let db: Db;
let count = 0;
let account = "";
let key = "";
let now = NOON;
const started: Ledger<UsageRecord>[] = [];

beforeAll(async () => {
  store = await openStore("postgres");
  ({ db } = store);
});
afterEach(async () => {
  for (const ledger of started.splice(0)) {
    ledger.returnLeases();
    await ledger.idle();
  }
  await eventually(
    async () =>
      (await db.all("select id from hold where lease is not null")).length === 0 ||
      (await sweepAll()),
  );
  expect((await verifyLedger(db)).problems).toEqual([]);
});
afterAll(() => store.close());

/** Releases the leases of processes that a test left behind. */
async function sweepAll(): Promise<false> {
  await db.write((tx) => tx.run("update process set epoch = epoch + 1"));
  await sweepHolds(db, now);
  return false;
}

async function openFunded(credit: bigint): Promise<void> {
  count += 1;
  now = NOON;
  account = `acct_lease${count}`;
  key = `${account}.key`;
  await db.write(async (tx) => {
    await tx.run("insert into account (id, created_at, created_from) values (?, ?, 'test')", [
      account,
      now,
    ]);
    await openAccount(tx, account, [key, `${account}.other`], now);
    await deposit(tx, promoDeposit(`${account}.start`, account, credit, now));
  });
}

async function startProcess(
  name: string,
  deps: Partial<LedgerDeps<UsageRecord>> = {},
): Promise<Ledger<UsageRecord>> {
  const leases = { now: () => now, busyHolds: 1 };
  const ownHolds = createOwnHolds<UsageRecord>();
  const ledger = await startLedger(db, `${account} ${name}`, now, { leases, ownHolds, ...deps });
  started.push(ledger);
  return ledger;
}

let calls = 0;
function callOf(fields: Partial<HoldRequest> = {}): HoldRequest {
  calls += 1;
  const id = `req_lease${calls}`;
  return {
    id,
    accountId: account,
    keyId: key,
    amount: AMOUNT,
    now,
    expiresAt: now + LIFETIME_MS,
    ...fields,
  };
}

function settle(ledger: Ledger<UsageRecord>, { id, keyId }: HoldRequest, cost = AMOUNT / 2n) {
  const record = usageRecord({ id, accountId: account, keyId, cost, createdAt: now });
  return ledger.settle({ id, accountId: account, keyId, cost, now, record });
}

/** A first call, after which the process decides holds on a lease. */
async function takeLease(
  ledger: Ledger<UsageRecord>,
  fields: Partial<HoldRequest> = {},
): Promise<void> {
  const first = callOf(fields);
  expect((await ledger.hold(first)).status).toBe("held");
  await settle(ledger, first);
  await ledger.idle();
}

/** A hold that is decided on a lease; undefined if the store must decide. */
function leasedCall(
  ledger: Ledger<UsageRecord>,
  fields: Partial<HoldRequest> = {},
): HoldRequest | undefined {
  const call = callOf(fields);
  const outcome = ledger.tryHoldSync(call);
  if (outcome === undefined) return undefined;
  expect(outcome).toMatchObject({ status: "held", leaseId: expect.stringContaining("lease_") });
  return call;
}

/** Polls confirm the lease, also on a busy machine. */
function nextLeasedCall(
  ledger: Ledger<UsageRecord>,
  fields: Partial<HoldRequest> = {},
): Promise<HoldRequest> {
  return eventually(async () => {
    const call = leasedCall(ledger, fields);
    if (call === undefined) await takeLease(ledger, fields);
    return call;
  });
}

/** Starts calls whenever a lease allows it, and returns those that started after `work` had ended. */
async function startCallsDuring(
  ledger: Ledger<UsageRecord>,
  work: () => Promise<unknown>,
): Promise<HoldRequest[]> {
  const late: HoldRequest[] = [];
  let isDone = false;
  const running = work().then(() => {
    isDone = true;
  });
  for (let lateTurns = 0; lateTurns < 200; lateTurns += isDone ? 1 : 0) {
    const call = leasedCall(ledger);
    if (call !== undefined && isDone) late.push(call);
    // A release is in memory only, so no batch tells the process of the change.
    if (call !== undefined)
      await ledger.settle({ id: call.id, accountId: account, keyId: key, cost: 0n, now });
    // A call that must not start has no event.
    await new Promise((resolve) => setTimeout(resolve));
  }
  await running;
  return late;
}

test("a busy key's holds are decided in memory, and each call is charged once", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  await takeLease(ledger);
  const open = [await nextLeasedCall(ledger), await nextLeasedCall(ledger)];
  const row = await db.get(
    "select amount, calls, lease from hold where account_id = ? and lease is not null",
    [account],
  );
  expect(row).toMatchObject({ calls: 8n, lease: 1n });
  for (const call of open)
    expect(await settle(ledger, call)).toMatchObject({ status: "settled", charged: AMOUNT / 2n });
  const records = await db.all("select id from usage_record where account_id = ?", [account]);
  const { promo } = await getWallet(db, account);
  expect(promo).toBe(1_000_000n - BigInt(records.length) * (AMOUNT / 2n));
});

test("a busy key gets a lease, and a larger one, before the first of its calls ends", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  const open: HoldRequest[] = [];
  let leased = 0;
  await eventually(async () => {
    const call = callOf();
    const outcome = ledger.tryHoldSync(call) ?? (await ledger.hold(call));
    if (outcome.status !== "held") throw new Error(`${outcome.status} with enough credits`);
    open.push(call);
    if (outcome.leaseId !== undefined) leased += 1;
    return leased >= 40 ? true : undefined;
  });
  const own = await db.all("select id from hold where account_id = ? and lease is null", [account]);
  expect(own).toHaveLength(open.length - leased);
  const { held } = await getWallet(db, account);
  expect(held).toBeGreaterThanOrEqual(BigInt(open.length) * AMOUNT);
  for (const call of open) await settle(ledger, call);
});

test("a call that is released costs nothing and frees its part of the lease", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  await takeLease(ledger);
  for (let round = 0; round < 50; round++) {
    const { id } = await nextLeasedCall(ledger);
    await ledger.settle({ id, accountId: account, keyId: key, cost: 0n, now });
  }
  expect(
    await db.all("select id from usage_record where account_id = ? and cost_nano = 0", [account]),
  ).toEqual([]);
});

test("a lease is returned when its key is idle", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  await takeLease(ledger);
  await eventually(async () => (await getWallet(db, account)).held === 0n);
  expect(await countOpenCalls(db, account, key)).toBe(0);
});

test("no call starts on a lease after the revocation of its key was confirmed", async () => {
  await openFunded(1_000_000n);
  const [one, two] = [await startProcess("one"), await startProcess("two")];
  await nextLeasedCall(one).then((call) => settle(one, call));
  const late = await startCallsDuring(one, () =>
    db.write((tx) => revokeKey(tx, actIn(account, now), key)),
  );
  expect(late).toEqual([]);
  const refused: HoldOutcome = { status: "key_rejected", reason: "revoked" };
  expect(await one.hold(callOf())).toEqual(refused);
  expect(await two.hold(callOf())).toEqual(refused);
});

test("no call starts on a lease after the freeze of its account was confirmed", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  await nextLeasedCall(ledger).then((call) => settle(ledger, call));
  const late = await startCallsDuring(ledger, () =>
    db.write(async (tx) => {
      await tx.lockMany("wallet", "account_id", [account]);
      await setFreeze(tx, account, { at: now, reason: "test" });
    }),
  );
  expect(late).toEqual([]);
  expect((await ledger.hold(callOf())).status).toBe("frozen");
});

test("a key's limit that is lowered during a lease ends it before the change is confirmed", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  await nextLeasedCall(ledger).then((call) => settle(ledger, call));
  const spent = async (): Promise<bigint> => {
    const row = await db.get("select total_spent, held from spender where key_id = ?", [key]);
    return BigInt(String(row?.["total_spent"])) + BigInt(String(row?.["held"]));
  };
  let limit = 0n;
  const late = await startCallsDuring(ledger, () =>
    db.write(async (tx) => {
      limit = 1n;
      await changeKey(tx, actIn(account, now), key, { limit });
    }),
  );
  expect(late).toEqual([]);
  expect((await ledger.hold(callOf())).status).toBe("key_limit");
  expect(await spent()).toBeGreaterThan(limit);
});

test("a lease takes at most half of what a key's limit, the budgets and the credits leave", async () => {
  await openFunded(10_000n);
  await db.write((tx) => setBudgets(tx, account, { day: 6_000n }, now));
  const ledger = await startProcess("one");
  await takeLease(ledger);
  const { held } = await getWallet(db, account);
  expect(held).toBeLessThanOrEqual(2_750n);
  const { day } = await getBudgets(db, account, now);
  expect(day.used + day.held).toBeLessThanOrEqual(6_000n);
});

test("two processes spend the last credits to the end, and no more", async () => {
  await openFunded(10_000n);
  const ledgers = [await startProcess("one"), await startProcess("two")];
  const isSpent = new Set<Ledger<UsageRecord>>();
  let charged = 0n;
  const spend = async (ledger: Ledger<UsageRecord>): Promise<void> => {
    for (;;) {
      const call = callOf();
      const outcome = ledger.tryHoldSync(call) ?? (await ledger.hold(call));
      if (outcome.status !== "held") {
        expect(outcome.status).toBe("insufficient_credits");
        isSpent.add(ledger);
        return;
      }
      const settled = await settle(ledger, call, AMOUNT);
      if (settled.status === "settled") charged += settled.charged;
      expect(settled).toMatchObject({ overrun: 0n });
    }
  };
  // A refusal is final only for a balance that is held by calls of the other process.
  while (isSpent.size < 2)
    await Promise.all(ledgers.filter((ledger) => !isSpent.has(ledger)).map(spend));
  await spend(ledgers[0] ?? (await startProcess("three")));
  expect(charged).toBe(10_000n);
  expect((await getWallet(db, account)).promo).toBe(0n);
});

test.each([
  ["with", 1],
  ["without", Infinity],
])(
  "a process %s leases of its own gets the credits of another's idle lease",
  async (_, busyHolds) => {
    await openFunded(10_000n);
    const leases = { now: () => now, busyHolds };
    const [one, two] = [await startProcess("one"), await startProcess("two", { leases })];
    await takeLease(one);
    expect((await getWallet(db, account)).held).toBeGreaterThan(0n);
    const large = callOf({ amount: 9_000n });
    expect(await two.hold(large)).toMatchObject({ status: "held", amount: 9_000n });
    await settle(two, large);
  },
);

/** Starts a process whose lease has one open call and spare credits. A lease without calls would be returned when it is idle. */
async function startProcessWithSpareLease(): Promise<HoldRequest> {
  const other = await startProcess("other");
  const open = await nextLeasedCall(other);
  expect((await getWallet(db, account)).held).toBeGreaterThan(AMOUNT);
  return open;
}

const SCARCE = 40_000n;
/** A process without leases recalls those of others, too. */
const BUSY_HOLDS = [1, Infinity];
const RESTRICTED: Readonly<Record<string, () => Promise<unknown>>> = {
  "the credits": () => Promise.resolve(),
  "the key's limit": () =>
    db.write((tx) => changeKey(tx, actIn(account, now), key, { limit: SCARCE })),
  "the budget": () => db.write((tx) => setBudgets(tx, account, { day: SCARCE }, now)),
};

describe.each(Object.entries(RESTRICTED))(
  "of %s that another process has leased",
  (name, restrict) => {
    const credit = name === "the credits" ? SCARCE : 1_000_000n;
    const left = async (): Promise<bigint> => {
      const { promo } = await getWallet(db, account);
      return promo - (credit - SCARCE) - AMOUNT;
    };
    test.each(BUSY_HOLDS)(
      "a hold is not shortened, by a process with leases after %d holds",
      async (busyHolds) => {
        await openFunded(credit);
        await restrict();
        await startProcessWithSpareLease();
        const leases = { now: () => now, busyHolds };
        const ledger = await startProcess("one", { leases });
        const amount = await left();
        const whole = callOf({ amount, minimum: 1n });
        expect(await ledger.hold(whole)).toMatchObject({ status: "held", amount });
        await settle(ledger, whole, amount);
      },
    );

    test.each(BUSY_HOLDS)(
      "a hold may roll to all, by a process with leases after %d holds",
      async (busyHolds) => {
        await openFunded(credit);
        await restrict();
        await startProcessWithSpareLease();
        const leases = { now: () => now, busyHolds };
        const ledger = await startProcess("one", { leases });
        const limit = await left();
        const rolling = callOf({ amount: 50_000n, upfront: AMOUNT, minimum: 1n });
        expect(await ledger.hold(rolling)).toMatchObject({ status: "held", amount: AMOUNT, limit });
        await settle(ledger, rolling, limit);
      },
    );

    test.each(BUSY_HOLDS)(
      "a hold is raised to all, by a process with leases after %d holds",
      async (busyHolds) => {
        await openFunded(credit);
        await restrict();
        const leases = { now: () => now, busyHolds };
        const ledger = await startProcess("one", { leases });
        const rolling = callOf({ amount: SCARCE, upfront: AMOUNT });
        expect(await ledger.hold(rolling)).toMatchObject({ status: "held", amount: AMOUNT });
        await startProcessWithSpareLease();
        const amount = await left();
        const owner = { id: rolling.id, accountId: account, keyId: key, now };
        expect(await ledger.raise({ ...owner, amount })).toEqual({ status: "raised", amount });
        expect(await ledger.raise({ ...owner, amount: amount + 1n })).toEqual({
          status: "refused",
        });
        await settle(ledger, rolling, amount);
      },
    );

    test("a call on a lease raises its hold to all", async () => {
      await openFunded(credit);
      await restrict();
      const ledger = await startProcess("one");
      const rolling = await nextLeasedCall(ledger, { amount: 20_000n, upfront: AMOUNT });
      await startProcessWithSpareLease();
      const amount = await left();
      const owner = { id: rolling.id, accountId: account, keyId: key, now };
      expect(await ledger.raise({ ...owner, amount })).toEqual({ status: "raised", amount });
      await settle(ledger, rolling, amount);
    });
  },
);

test("a hold gets what its own process has leased, also if that is returned before the recall", async () => {
  await openFunded(10_000n);
  let writes = -Infinity;
  const slow: Db = {
    ...db,
    write: async (work, durability) => {
      writes += 1;
      // The first one is the hold's, the second one the recall.
      if (writes === 2) await eventually(async () => (await getWallet(db, account)).held === 0n);
      return db.write(work, durability);
    },
  };
  const ledger = await startProcess("one", { db: slow });
  await takeLease(ledger, { keyId: `${account}.other` });
  const large = callOf({ amount: 9_000n });
  writes = 0;
  expect(await ledger.hold(large)).toMatchObject({ status: "held", amount: 9_000n });
  expect(writes).toBeGreaterThan(2);
  await settle(ledger, large);
});

test("a raise keeps what it got before a recall that frees nothing", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one", { leases: { now: () => now, busyHolds: Infinity } });
  const rolling = callOf({ amount: 1_000_000n, upfront: AMOUNT });
  expect((await ledger.hold(rolling)).status).toBe("held");
  const other = await startProcess("other");
  const open = [await nextLeasedCall(other)];
  while (open.length < 8) open.push(await nextLeasedCall(other));
  expect((await readLease()).amount).toBe("8000");
  const amount = (await getWallet(db, account)).promo - 8_000n;
  const owner = { id: rolling.id, accountId: account, keyId: key, now };
  const raised = await ledger.raise({ ...owner, amount: amount + 1n });
  expect(raised).toEqual({ status: "raised", amount });
  await settle(ledger, rolling, amount);
});

test("a hold that the key's own limit shortens recalls no lease", async () => {
  await openFunded(1_000_000n);
  await db.write((tx) => changeKey(tx, actIn(account, now), key, { limit: 2_000n }));
  const other = await startProcess("other");
  await nextLeasedCall(other, { keyId: `${account}.other` });
  const ledger = await startProcess("one");
  const short = callOf({ amount: 5_000n, minimum: 1n });
  expect(await ledger.hold(short)).toMatchObject({ status: "held", amount: 2_000n });
  const rows = await db.all("select lease from hold where account_id = ? and lease is not null", [
    account,
  ]);
  expect(rows).toEqual([{ lease: BigInt(LEASE_STATE.open) }]);
  await settle(ledger, short, 1_000n);
});

test("a lease counts each call that may run on it towards the open calls of its key", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  const limited = { openCallsMax: 6 };
  await takeLease(ledger, limited);
  const open: HoldRequest[] = [];
  for (let attempt = 0; attempt < 40; attempt++) {
    const call = callOf(limited);
    const outcome = ledger.tryHoldSync(call) ?? (await ledger.hold(call));
    if (outcome.status === "held") open.push(call);
    else expect(outcome.status).toBe("too_many_calls");
  }
  expect(open).toHaveLength(6);
  await Promise.all(open.map((call) => settle(ledger, call)));
});

test("calls on leases keep the rate limit", async () => {
  await openFunded(1_000_000n);
  const ledgers = [await startProcess("one"), await startProcess("two")];
  const limited = { rateLimit: { intervalMs: 1_000, burst: 20 } };
  let held = 0;
  const callBoth = async (): Promise<void> => {
    for (const ledger of ledgers) {
      const call = callOf(limited);
      const outcome = ledger.tryHoldSync(call) ?? (await ledger.hold(call));
      if (outcome.status !== "held") continue;
      held += 1;
      await settle(ledger, call);
    }
  };
  // Calls that leases have counted in advance are not lost.
  await eventually(async () => {
    await callBoth();
    return held >= 20;
  });
  for (let attempt = 0; attempt < 20; attempt++) await callBoth();
  expect(held).toBe(20);
});

test("calls that the lease of another process counts in advance are not refused", async () => {
  await openFunded(1_000_000n);
  const limited = { rateLimit: { intervalMs: 1_000, burst: 20 } };
  // Its open call keeps the lease.
  await nextLeasedCall(await startProcess("other"), limited);
  const { length } = await db.all("select id from usage_record where account_id = ?", [account]);
  let held = length + 1;
  const ledger = await startProcess("one", { leases: { now: () => now, busyHolds: Infinity } });
  for (;;) {
    const call = callOf(limited);
    const { status } = await ledger.hold(call);
    if (status !== "held") break;
    held += 1;
    await settle(ledger, call);
  }
  expect(held).toBe(20);
});

test("the hold of a response that waits is not refused for calls that a lease counts in advance", async () => {
  await openFunded(1_000_000n);
  const limited = { rateLimit: { intervalMs: 1_000, burst: 20 } };
  // Its open call keeps the lease.
  await nextLeasedCall(await startProcess("other"), limited);
  const { length } = await db.all("select id from usage_record where account_id = ?", [account]);
  let held = length + 1;
  for (;;) {
    const request = callOf({ ...limited, amount: 1n });
    await freeCreditsForBatch(db, request);
    const { status } = await db.write((tx) => holdBatch(tx, request));
    if (status === "refused") break;
    held += 1;
  }
  expect(held).toBe(20);
  const holds = await db.all("select id from hold where account_id = ? and process = ''", [
    account,
  ]);
  for (const { id } of holds)
    await db.write((tx) => endBatchHold(tx, { id: String(id), accountId: account, keyId: key }));
});

test("the lease of a killed process is free again after the sweep, and its late calls are charged once", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  const call = await nextLeasedCall(ledger);
  const { held } = await getWallet(db, account);
  expect(held).toBeGreaterThan(0n);
  await startEpoch(db, `${account} one`, now);
  expect(await sweepHolds(db, now)).toBe(1);
  expect((await getWallet(db, account)).held).toBe(0n);
  expect(await settle(ledger, call)).toMatchObject({
    status: "settled",
    late: true,
    charged: AMOUNT / 2n,
  });
  expect(await settle(ledger, call)).toEqual({ status: "already" });
  await eventually(() => leasedCall(ledger) === undefined);
});

test("a clock that jumps ends the decisions on a lease until it is confirmed again", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  await takeLease(ledger);
  await nextLeasedCall(ledger).then((call) => settle(ledger, call));
  now += 3_600_000;
  expect(leasedCall(ledger)).toBeUndefined();
  now -= 7_200_000;
  expect(leasedCall(ledger)).toBeUndefined();
  await nextLeasedCall(ledger).then((call) => settle(ledger, call));
});

test("a lease that was taken before midnight keeps the budget of the next day", async () => {
  await openFunded(1_000_000n);
  await db.write((tx) => setBudgets(tx, account, { day: 20_000n }, now));
  const ledger = await startProcess("one");
  now = Date.UTC(2026, 4, 12, 23, 59, 59);
  const before = await nextLeasedCall(ledger);
  now = Date.UTC(2026, 4, 13);
  await settle(ledger, before, AMOUNT);
  for (let attempt = 0; attempt < 60; attempt++) {
    const call = callOf();
    const outcome = ledger.tryHoldSync(call) ?? (await ledger.hold(call));
    if (outcome.status === "held") await settle(ledger, call, AMOUNT);
    const { day } = await getBudgets(db, account, now);
    expect(day.used + day.held).toBeLessThanOrEqual(20_000n);
  }
  expect((await getBudgets(db, account, now)).day.used).toBe(20_000n);
});

test("a settlement whose commit had no reply is charged once", async () => {
  await openFunded(1_000_000n);
  let losesReply = false;
  const lossy: Db = {
    ...db,
    write: async (work, durability) => {
      const result = await db.write(work, durability);
      if (!losesReply) return result;
      losesReply = false;
      throw Object.assign(new Error("the reply was lost"), { [UNAVAILABLE]: true });
    },
  };
  const ledger = await startProcess("one", { db: lossy });
  const call = await nextLeasedCall(ledger);
  const before = (await getWallet(db, account)).promo;
  losesReply = true;
  expect(await settle(ledger, call)).toEqual({ status: "already" });
  expect((await getWallet(db, account)).promo).toBe(before - AMOUNT / 2n);
});

test("a call on a lease raises its hold, at most to what is affordable", async () => {
  await openFunded(10_000n);
  const ledger = await startProcess("one");
  const call = await nextLeasedCall(ledger, { amount: 4_000n, upfront: 1_000n });
  const owner = { id: call.id, accountId: account, keyId: key, now };
  expect(await ledger.raise({ ...owner, amount: 2_000n })).toEqual({
    status: "raised",
    amount: 2_000n,
  });
  const raised = await ledger.raise({ ...owner, amount: 50_000n });
  expect(raised.status).toBe("raised");
  const { promo, held } = await getWallet(db, account);
  expect(held).toBe(promo);
  expect(await settle(ledger, call, 3_000n)).toMatchObject({ charged: 3_000n, overrun: 0n });
});

/** Its writes have no reply before `reply` resolves. */
function withLateReplies(): { readonly late: Db; readonly delay: () => () => void } {
  let reply: Promise<void> | undefined;
  const write: Db["write"] = async (work, durability) => {
    const result = await db.write(work, durability);
    await reply;
    return result;
  };
  const delay = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    reply = promise;
    return resolve;
  };
  return { late: { ...db, write }, delay };
}

const ROLLING = { amount: 4_000n, upfront: 1_000n };

test("a lease that is returned during a raise keeps what the raise adds", async () => {
  await openFunded(10_000n);
  const { late, delay } = withLateReplies();
  const ledger = await startProcess("one", { db: late });
  const call = await nextLeasedCall(ledger, ROLLING);
  const reply = delay();
  const raising = ledger.raise({
    id: call.id,
    accountId: account,
    keyId: key,
    amount: 8_000n,
    now,
  });
  await eventually(async () => (await getWallet(db, account)).held >= 8_000n);
  ledger.returnLeases();
  reply();
  expect(await raising).toEqual({ status: "raised", amount: 8_000n });
  await ledger.idle();
  expect((await getWallet(db, account)).held).toBe(8_000n);
  expect(await settle(ledger, call, 8_000n)).toMatchObject({ charged: 8_000n, overrun: 0n });
});

test("two calls on a lease raise their holds at once", async () => {
  await openFunded(10_000n);
  const ledger = await startProcess("one");
  const calls = [await nextLeasedCall(ledger, ROLLING), await nextLeasedCall(ledger, ROLLING)];
  const raised = await Promise.all(
    calls.map(({ id }) =>
      ledger.raise({ id, accountId: account, keyId: key, amount: 4_000n, now }),
    ),
  );
  expect(raised).toEqual(calls.map(() => ({ status: "raised", amount: 4_000n })));
  for (const call of calls)
    expect(await settle(ledger, call, 4_000n)).toMatchObject({ charged: 4_000n, overrun: 0n });
});

/** What the lease of the key reserves, and what its wallet has held. */
async function readLease(): Promise<{ readonly amount: unknown; readonly held: bigint }> {
  const row = await db.get(
    "select cast(amount as text) as amount from hold where account_id = ? and lease is not null",
    [account],
  );
  return { amount: row?.["amount"], held: (await getWallet(db, account)).held };
}

test("a lease that is raised and filled in one batch has in its row what is held for it", async () => {
  await openFunded(1_000_000n);
  const ledger = await startProcess("one");
  const small = await nextLeasedCall(ledger);
  // From now on, a lease of eight calls has as much as the raise asks for.
  const larger = await nextLeasedCall(ledger, { amount: 1_250n });
  await ledger.idle();
  expect(await readLease()).toEqual({ amount: "8000", held: 8_000n });
  const owner = { id: small.id, accountId: account, keyId: key, now };
  const [raised] = await Promise.all([
    ledger.raise({ ...owner, amount: 8_750n }),
    settle(ledger, larger),
  ]);
  expect(raised).toEqual({ status: "raised", amount: 8_750n });
  expect(await readLease()).toEqual({ amount: "10000", held: 10_000n });
  await settle(ledger, small, 8_750n);
});

test("a raise that ends after the settlement of its call adds nothing to the lease", async () => {
  await openFunded(10_000n);
  const ledger = await startProcess("one");
  const call = await nextLeasedCall(ledger, ROLLING);
  const [raised] = await Promise.all([
    ledger.raise({ id: call.id, accountId: account, keyId: key, amount: 8_000n, now }),
    settle(ledger, call),
  ]);
  expect(raised).toEqual({ status: "lost" });
});
