// The hold buffer, which keeps new holds in memory with SQLite. histories/ tests that the rules stay the same with it;
// this file tests what it changes.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../../src/base/time.ts";
import { type BufferedDb, bufferHolds } from "../../../src/ledger/commit/hold-buffer.ts";
import type { HoldRequest, SettleRequest } from "../../../src/ledger/decide.ts";
import { deposit, getWallet, type Ledger } from "../../../src/ledger/ledger.ts";
import { adjust } from "../../../src/ledger/payments/adjustments.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { type Db, type Reader, text, UNAVAILABLE, integer } from "../../../src/store/db.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { eventually } from "../../support/eventually.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { openStoreAt, openStore, type TestStore } from "../../support/stores/stores.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "../fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const OWNER = { accountId: "a", keyId: "a.k", now: NOW };
const NEVER_FLUSH_MS = HOUR_MS;

let store: TestStore;
/** The gateway's store, and the same store as another process sees it. */
let db: BufferedDb;
let outside: Db;
let ledger: Ledger<UsageRecord>;
/** The number of write transactions. */
let writes: number;

beforeEach(async () => {
  store = await openStore("sqlite");
  outside = openStoreAt(store.location);
  await outside.write(async (tx) => {
    await openAccount(tx, "a", ["a.k", "a.l"], NOW);
    await deposit(tx, promoDeposit("a.start", "a", 1_000n, NOW));
  });
  await restart(NEVER_FLUSH_MS);
});
afterEach(async () => {
  expect((await verifyLedger(db)).problems).toEqual([]);
  expect((await verifyLedger(outside)).problems).toEqual([]);
  await db.close();
  await outside.close();
  await store.close();
});

async function restart(flushAfterMs: number): Promise<void> {
  writes = 0;
  const counted: Db = {
    ...store.db,
    write: (work, durability) => {
      writes += 1;
      return store.db.write(work, durability);
    },
    close: async () => {},
  };
  db = bufferHolds(counted, flushAfterMs);
  ledger = await startLedger(db, "main", NOW, { holdBuffer: db });
  writes = 0;
}

function hold(name: string, amount: bigint, more: Partial<HoldRequest> = {}): HoldRequest {
  return { ...OWNER, id: name, amount, expiresAt: NOW + 60_000, ...more };
}

function settle(name: string, cost: bigint, keyId = "a.k"): SettleRequest<UsageRecord> {
  const record = usageRecord({ ...OWNER, keyId, id: name, cost, createdAt: NOW });
  return { ...OWNER, keyId, id: name, cost, record };
}

async function readHoldRows(of: Reader): Promise<readonly string[]> {
  const rows = await of.all("select id, amount from hold order by id");
  return rows.map((row) => `${text(row, "id")} ${integer(row, "amount")}`);
}

describe("a buffered hold", () => {
  test("is in no table, but reserves credit", async () => {
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect(await readHoldRows(outside)).toEqual([]);
    expect((await getWallet(outside, "a")).held).toBe(0n);
    expect(await ledger.hold(hold("i", 301n))).toEqual({
      status: "insufficient_credits",
      available: 300n,
      posted: 1_000n,
    });
  });

  test("is never written if it is settled", async () => {
    await ledger.hold(hold("h", 700n));
    expect(await ledger.settle(settle("h", 40n))).toMatchObject({
      status: "settled",
      charged: 40n,
    });
    expect(await readHoldRows(outside)).toEqual([]);
    expect(await getWallet(outside, "a")).toEqual({ promo: 960n, paid: 0n, held: 0n });
    expect(writes).toBe(2);
    expect(await ledger.settle(settle("h", 40n))).toEqual({ status: "already" });
  });

  test("is flushed before reads of wallets, keys and holds", async () => {
    await ledger.hold(hold("h", 700n));
    await ledger.hold(hold("i", 100n, { keyId: "a.l" }));
    expect((await getWallet(db, "a")).held).toBe(800n);
    expect(await readHoldRows(db)).toEqual(["h 700", "i 100"]);
    const keys = await db.all("select held, open_calls from spender order by key_id");
    expect(keys.map((row) => [integer(row, "held"), integer(row, "open_calls")])).toEqual([
      [700, 1],
      [100, 1],
    ]);
  });

  test("is flushed before snapshots and writes", async () => {
    await ledger.hold(hold("h", 700n));
    expect(await db.snapshot(readHoldRows)).toEqual(["h 700"]);
    await ledger.hold(hold("i", 100n));
    expect(await db.write((tx) => getWallet(tx, "a"))).toMatchObject({ held: 800n });
  });

  test("is not flushed before other reads", async () => {
    await ledger.hold(hold("h", 700n));
    await db.all("select id from swept_hold");
    await db.get("select count(*) as count from transfer");
    expect(await readHoldRows(outside)).toEqual([]);
  });

  test("is flushed after a while, and then settled from its table", async () => {
    await restart(20);
    await ledger.hold(hold("h", 700n));
    expect(await readHoldRows(outside)).toEqual([]);
    await eventually(async () => (await readHoldRows(outside)).length === 1);
    expect((await getWallet(outside, "a")).held).toBe(700n);
    expect(await ledger.settle(settle("h", 40n))).toMatchObject({ status: "settled", late: false });
    expect(await readHoldRows(outside)).toEqual([]);
    expect(await getWallet(outside, "a")).toEqual({ promo: 960n, paid: 0n, held: 0n });
  });

  test("is recognized after a flush if it is repeated", async () => {
    await ledger.hold(hold("h", 700n));
    await readHoldRows(db);
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("is not settled for another key or account", async () => {
    await ledger.hold(hold("h", 700n));
    expect(await rejectionMessage(ledger.settle(settle("h", 40n, "a.l")))).toBe(
      "hold h belongs to another account or key",
    );
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("is lost with its process and reserves nothing afterwards", async () => {
    await ledger.hold(hold("h", 1_000n));
    await restart(NEVER_FLUSH_MS);
    expect(await sweepHolds(db, NOW)).toBe(0);
    expect(await ledger.hold(hold("i", 1_000n))).toMatchObject({ status: "held" });
  });

  test("is swept after a flush and the end of its process, and settles late", async () => {
    await ledger.hold(hold("h", 700n));
    await readHoldRows(db);
    await startLedger(db, "main", NOW);
    expect(await sweepHolds(db, NOW)).toBe(1);
    expect((await getWallet(db, "a")).held).toBe(0n);
    expect(await ledger.settle(settle("h", 40n))).toMatchObject({ status: "settled", late: true });
  });
});

describe("tryHoldSync", () => {
  /** Caches the rows of the wallet and key. */
  const fillCache = async (name = "first"): Promise<void> => {
    await ledger.hold(hold(name, 100n));
    await ledger.settle(settle(name, 0n));
    writes = 0;
  };

  test("decides a hold from cached rows without a write", async () => {
    await fillCache();
    expect(ledger.tryHoldSync(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect(ledger.tryHoldSync(hold("i", 301n))).toMatchObject({ status: "insufficient_credits" });
    expect(writes).toBe(0);
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("keeps balances exact over many holds and settlements", async () => {
    await fillCache();
    for (let call = 0; call < 50; call++) {
      expect(ledger.tryHoldSync(hold(`h${call}`, 7n))).toMatchObject({ status: "held" });
      await ledger.settle(settle(`h${call}`, BigInt(call % 9)));
    }
    const { promo, held } = await getWallet(outside, "a");
    expect(promo).toBe(1_000n - sum(50, (call) => BigInt(Math.min(call % 9, 8))));
    expect(held).toBe(0n);
  });

  test("returns undefined during a write", async () => {
    await fillCache();
    const release = Promise.withResolvers<void>();
    const writing = db.write(() => release.promise);
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    release.resolve();
    await writing;
    expect(ledger.tryHoldSync(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
  });

  test("returns undefined for a repeated hold", async () => {
    await fillCache();
    ledger.tryHoldSync(hold("h", 700n));
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("rejects a key revoked in this process immediately", async () => {
    await fillCache();
    await db.write((tx) => tx.run("update api_key set revoked_at = ? where id = 'a.k'", [NOW]));
    const rejection = { status: "key_rejected", reason: "revoked" } as const;
    expect(await ledger.hold(hold("h", 1n))).toEqual(rejection);
    expect(ledger.tryHoldSync(hold("h", 1n))).toEqual(rejection);
  });

  test("rejects a key revoked by another process immediately", async () => {
    await fillCache();
    expect(ledger.tryHoldSync(hold("h", 1n))).toMatchObject({ status: "held" });
    await outside.write((tx) =>
      tx.run("update api_key set revoked_at = ? where id = 'a.k'", [NOW]),
    );
    await nextTick();
    expect(ledger.tryHoldSync(hold("i", 1n))).toBeUndefined();
    expect(await ledger.hold(hold("i", 1n))).toEqual({ status: "key_rejected", reason: "revoked" });
  });

  test("combines changes of other processes with buffered holds", async () => {
    await fillCache();
    ledger.tryHoldSync(hold("h", 700n));
    await outside.write((tx) => deposit(tx, promoDeposit("more", "a", 500n, NOW)));
    await nextTick();
    expect(ledger.tryHoldSync(hold("i", 801n))).toBeUndefined();
    expect(await ledger.hold(hold("i", 801n))).toEqual({
      status: "insufficient_credits",
      available: 800n,
      posted: 1_500n,
    });
    expect(await ledger.settle(settle("h", 700n))).toMatchObject({ charged: 700n });
    expect(await getWallet(outside, "a")).toMatchObject({ promo: 800n });
  });

  test("ignores changes of a batch that was not committed", async () => {
    await fillCache();
    ledger.tryHoldSync(hold("h", 700n));
    const duplicateRecord = {
      ...settle("h", 700n),
      record: settle("first", 0n).record as UsageRecord,
    };
    expect(await rejectionMessage(ledger.settle(duplicateRecord))).toContain("UNIQUE");
    expect(await ledger.hold(hold("i", 301n))).toEqual({
      status: "insufficient_credits",
      available: 300n,
      posted: 1_000n,
    });
    expect(await ledger.settle(settle("h", 5n))).toMatchObject({ charged: 5n });
  });

  test("returns undefined if the data version cannot be read", async () => {
    const unversioned: Db = {
      ...store.db,
      dataVersion: () => {
        throw new Error("cannot be read");
      },
      close: async () => {},
    };
    db = bufferHolds(unversioned, NEVER_FLUSH_MS);
    ledger = await startLedger(db, "unversioned", NOW, { holdBuffer: db });
    await fillCache();
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect(await ledger.settle(settle("h", 5n))).toMatchObject({ charged: 5n });
  });

  test("returns undefined while the store fails", async () => {
    let [isBroken, failures] = [true, 0];
    const holdBuffer: BufferedDb = {
      ...db,
      writeBatch: (work) => {
        if (!isBroken) return db.writeBatch(work);
        failures += 1;
        return Promise.reject(Object.assign(new Error("full"), { [UNAVAILABLE]: true }));
      },
    };
    const failing = await startLedger(db, "failing", NOW, { holdBuffer });
    await fillCache("second");
    expect(failing.tryHoldSync(hold("h", 1n))).toMatchObject({ status: "held" });
    const settling = failing.settle(settle("h", 1n));
    await eventually(() => failures > 0);
    expect(failing.tryHoldSync(hold("i", 1n))).toBeUndefined();
    const deciding = failing.hold(hold("i", 1n));
    isBroken = false;
    expect(await deciding).toMatchObject({ status: "held" });
    expect(await settling).toMatchObject({ status: "settled", charged: 1n });
    await failing.settle(settle("i", 0n));
    expect(failing.tryHoldSync(hold("j", 1n))).toMatchObject({ status: "held" });
  });
});

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function sum(count: number, of: (index: number) => bigint): bigint {
  let total = 0n;
  for (let index = 0; index < count; index++) total += of(index);
  return total;
}

describe("limits of a key", () => {
  test("the limit of open calls counts buffered and flushed holds", async () => {
    const open = { openCallsMax: 2 };
    await ledger.hold(hold("h", 1n, open));
    await readHoldRows(db);
    await ledger.hold(hold("i", 1n, open));
    expect(await ledger.hold(hold("j", 1n, open))).toEqual({ status: "too_many_calls", open: 2 });
    await ledger.settle(settle("i", 0n));
    expect(await ledger.hold(hold("j", 1n, open))).toMatchObject({ status: "held" });
  });

  test("the rate limit counts buffered and flushed holds", async () => {
    const rateLimited = { rateLimit: { intervalMs: 1_000, burst: 2 } };
    await ledger.hold(hold("h", 1n, rateLimited));
    await ledger.hold(hold("i", 1n, rateLimited));
    const rateLimitOutcome = { status: "rate_limited", retryAfterMs: 1_000 } as const;
    expect(await ledger.hold(hold("j", 1n, rateLimited))).toEqual(rateLimitOutcome);
    await readHoldRows(db);
    expect(await ledger.hold(hold("j", 1n, rateLimited))).toEqual(rateLimitOutcome);
  });

  test("the spending limit counts buffered and flushed holds", async () => {
    await outside.write((tx) => tx.run("update api_key set limit_nano = 100 where id = 'a.k'"));
    await ledger.hold(hold("h", 60n));
    expect(await ledger.hold(hold("i", 41n))).toMatchObject({
      status: "key_limit",
      remaining: 40n,
    });
    await readHoldRows(db);
    await ledger.hold(hold("j", 30n));
    expect(await ledger.hold(hold("i", 11n))).toMatchObject({
      status: "key_limit",
      remaining: 10n,
    });
  });
});

describe("credit taken by another process", () => {
  const take = (usd: bigint): Promise<unknown> =>
    outside.write((tx) =>
      adjust(tx, { id: `t${usd}`, accountId: "a", amount: -usd, reason: "test", now: NOW }),
    );

  test("is not charged: a buffered hold settles for what is left, and the rest is owed", async () => {
    await ledger.hold(hold("h", 700n));
    await ledger.hold(hold("i", 300n));
    await take(900n);
    expect(await ledger.settle(settle("h", 700n))).toMatchObject({ charged: 0n, overrun: 700n });
    expect(await ledger.settle(settle("i", 300n))).toMatchObject({ charged: 100n, overrun: 200n });
    expect(await getWallet(db, "a")).toEqual({ promo: 0n, paid: 0n, held: 0n, owed: 900n });
  });

  test("lowers a buffered hold to what is left when it is flushed", async () => {
    await ledger.hold(hold("h", 700n));
    await ledger.hold(hold("i", 300n));
    await take(200n);
    expect(await readHoldRows(db)).toEqual(["h 700", "i 100"]);
    expect(await getWallet(db, "a")).toEqual({ promo: 800n, paid: 0n, held: 800n });
    expect(await ledger.settle(settle("i", 300n))).toMatchObject({ charged: 100n, overrun: 200n });
    expect(await ledger.settle(settle("h", 5n))).toMatchObject({ charged: 5n, overrun: 0n });
  });

  test("cannot be taken in the same process while a buffered hold reserves it", async () => {
    await ledger.hold(hold("h", 700n));
    const taken = db.write((tx) =>
      adjust(tx, { id: "t", accountId: "a", amount: -301n, reason: "test", now: NOW }),
    );
    expect(await rejectionMessage(taken)).toContain("taken");
  });
});

describe("many buffered holds", () => {
  test("made concurrently hold no more than the balance", async () => {
    const names = Array.from({ length: 64 }, (_, index) => `h${index}`);
    const held = await Promise.all(names.map((name) => ledger.hold(hold(name, 100n))));
    expect(held.filter(({ status }) => status === "held")).toHaveLength(10);
    const served = names.filter((_, index) => held[index]?.status === "held");
    await Promise.all(served.map((name) => ledger.settle(settle(name, 100n))));
    expect(await getWallet(outside, "a")).toEqual({ promo: 0n, paid: 0n, held: 0n });
  });

  test("are flushed before they exceed the limit", async () => {
    const names = Array.from({ length: 4_600 }, (_, index) => `h${index}`);
    for (let from = 0; from < names.length; from += 100)
      await Promise.all(names.slice(from, from + 100).map((name) => ledger.hold(hold(name, 0n))));
    const row = await outside.get("select count(*) as count from hold");
    expect(row && integer(row, "count")).toBe(1_000);
    await Promise.all(names.map((name) => ledger.settle(settle(name, 0n))));
    expect(await readHoldRows(db)).toEqual([]);
    expect(await getWallet(db, "a")).toEqual({ promo: 1_000n, paid: 0n, held: 0n });
  });
});

describe("a failing store", () => {
  test("keeps holds buffered if another transaction fails", async () => {
    await ledger.hold(hold("h", 700n));
    const broken = db.write(async () => {
      throw new Error("failed on purpose");
    });
    expect(await rejectionMessage(broken)).toBe("failed on purpose");
    expect(await readHoldRows(outside)).toEqual([]);
    expect(await readHoldRows(db)).toEqual(["h 700"]);
  });

  test("is retried when a flush fails", async () => {
    let failures = 0;
    const faulty: Db = {
      ...store.db,
      write: (work, durability) => {
        if (durability !== "os_cache" || failures === 2) return store.db.write(work, durability);
        failures += 1;
        return Promise.reject(new Error("full"));
      },
      close: async () => {},
    };
    db = bufferHolds(faulty, 10);
    ledger = await startLedger(db, "main", NOW, { holdBuffer: db });
    await ledger.hold(hold("h", 700n));
    await eventually(async () => (await readHoldRows(outside)).length === 1);
    expect(failures).toBe(2);
  });
});
