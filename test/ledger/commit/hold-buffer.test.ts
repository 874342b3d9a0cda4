// A hold that is young is kept in memory, on the store that serves one process. What that must not change is in
// property.test.ts; here is what it changes, and what happens at its edges.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../../src/base/time.ts";
import type { HoldRequest, SettleRequest } from "../../../src/ledger/decide.ts";
import { adjust } from "../../../src/ledger/payments/adjustments.ts";
import { deposit, getWallet, type Ledger } from "../../../src/ledger/ledger.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { verifyLedger } from "../../../src/ledger/verify.ts";
import { type BufferedDb, bufferHolds } from "../../../src/ledger/commit/hold-buffer.ts";
import { type Db, type Reader, text, UNAVAILABLE, integer } from "../../../src/store/db.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";
import { openStoreAt, openStore, type TestStore } from "../../support/stores/stores.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "../fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const OWNER = { accountId: "a", keyId: "a.k", now: NOW };
const NEVER_FLUSH_MS = HOUR_MS;

let store: TestStore;
/** What the gateway uses, and the same store as another process sees it. */
let db: BufferedDb;
let outside: Db;
let ledger: Ledger<UsageRecord>;
/** How often the store was written to. */
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
    write: (work, lasting) => {
      writes += 1;
      return store.db.write(work, lasting);
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

describe("a hold that is young", () => {
  test("stands in no table, and holds all the same", async () => {
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect(await readHoldRows(outside)).toEqual([]);
    expect((await getWallet(outside, "a")).held).toBe(0n);
    expect(await ledger.hold(hold("i", 301n))).toEqual({
      status: "insufficient_credits",
      available: 300n,
      posted: 1_000n,
    });
  });

  test("that is settled leaves its charge and its record, and was never written", async () => {
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

  test("is seen by whoever reads what is held, through the gateway's own store", async () => {
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

  test("is seen by a snapshot, and by whatever writes", async () => {
    await ledger.hold(hold("h", 700n));
    expect(await db.snapshot(readHoldRows)).toEqual(["h 700"]);
    await ledger.hold(hold("i", 100n));
    expect(await db.write((tx) => getWallet(tx, "a"))).toMatchObject({ held: 800n });
  });

  test("is not written for whoever reads something else", async () => {
    await ledger.hold(hold("h", 700n));
    await db.all("select id from swept_hold");
    await db.get("select count(*) as count from transfer");
    expect(await readHoldRows(outside)).toEqual([]);
  });

  test("is written when it is old, and settled from its table then", async () => {
    await restart(20);
    await ledger.hold(hold("h", 700n));
    expect(await readHoldRows(outside)).toEqual([]);
    await until(async () => (await readHoldRows(outside)).length === 1);
    expect((await getWallet(outside, "a")).held).toBe(700n);
    expect(await ledger.settle(settle("h", 40n))).toMatchObject({ status: "settled", late: false });
    expect(await readHoldRows(outside)).toEqual([]);
    expect(await getWallet(outside, "a")).toEqual({ promo: 960n, paid: 0n, held: 0n });
  });

  test("that was written is known when it is asked for again", async () => {
    await ledger.hold(hold("h", 700n));
    await readHoldRows(db);
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("of another key or account is not settled", async () => {
    await ledger.hold(hold("h", 700n));
    expect(await rejectionMessage(ledger.settle(settle("h", 40n, "a.l")))).toBe(
      "hold h is settled for another account or key",
    );
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("is lost with its process, and holds nothing after it", async () => {
    await ledger.hold(hold("h", 1_000n));
    await restart(NEVER_FLUSH_MS);
    expect(await sweepHolds(db, NOW)).toBe(0);
    expect(await ledger.hold(hold("i", 1_000n))).toMatchObject({ status: "held" });
  });

  test("that was written is given back after the end of its process, and settles late", async () => {
    await ledger.hold(hold("h", 700n));
    await readHoldRows(db);
    await startLedger(db, "main", NOW);
    expect(await sweepHolds(db, NOW)).toBe(1);
    expect((await getWallet(db, "a")).held).toBe(0n);
    expect(await ledger.settle(settle("h", 40n))).toMatchObject({ status: "settled", late: true });
  });
});

describe("a hold whose wallet and key are known", () => {
  /** Makes them known: the first call's batch has read them. */
  const getKnown = async (name = "first"): Promise<void> => {
    await ledger.hold(hold(name, 100n));
    await ledger.settle(settle(name, 0n));
    writes = 0;
  };

  test("is decided at once, and nothing is written", async () => {
    await getKnown();
    expect(ledger.tryHoldSync(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect(ledger.tryHoldSync(hold("i", 301n))).toMatchObject({ status: "insufficient_credits" });
    expect(writes).toBe(0);
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("and its settle write the balance that they found and what they charged", async () => {
    await getKnown();
    for (let call = 0; call < 50; call++) {
      expect(ledger.tryHoldSync(hold(`h${call}`, 7n))).toMatchObject({ status: "held" });
      await ledger.settle(settle(`h${call}`, BigInt(call % 9)));
    }
    const { promo, held } = await getWallet(outside, "a");
    expect(promo).toBe(1_000n - sum(50, (call) => BigInt(Math.min(call % 9, 8))));
    expect(held).toBe(0n);
  });

  test("is asked of a batch while anything is written", async () => {
    await getKnown();
    const writing = db.write(() => Bun.sleep(5));
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    await writing;
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
  });

  test("is asked of a batch when the same one is asked for again", async () => {
    await getKnown();
    ledger.tryHoldSync(hold("h", 700n));
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect((await getWallet(db, "a")).held).toBe(700n);
  });

  test("is refused as soon as its key is revoked in this process", async () => {
    await getKnown();
    await db.write((tx) => tx.run("update api_key set revoked_at = ? where id = 'a.k'", [NOW]));
    const refused = { status: "key_refused", reason: "revoked" } as const;
    expect(await ledger.hold(hold("h", 1n))).toEqual(refused);
    expect(ledger.tryHoldSync(hold("h", 1n))).toEqual(refused);
  });

  test("is refused as soon as its key is revoked by another process", async () => {
    await getKnown();
    expect(ledger.tryHoldSync(hold("h", 1n))).toMatchObject({ status: "held" });
    await outside.write((tx) =>
      tx.run("update api_key set revoked_at = ? where id = 'a.k'", [NOW]),
    );
    await nextTurn();
    expect(ledger.tryHoldSync(hold("i", 1n))).toBeUndefined();
    expect(await ledger.hold(hold("i", 1n))).toEqual({ status: "key_refused", reason: "revoked" });
  });

  test("finds what another process has granted and taken, beside what is held in memory", async () => {
    await getKnown();
    ledger.tryHoldSync(hold("h", 700n));
    await outside.write((tx) => deposit(tx, promoDeposit("more", "a", 500n, NOW)));
    await nextTurn();
    expect(ledger.tryHoldSync(hold("i", 801n))).toBeUndefined();
    expect(await ledger.hold(hold("i", 801n))).toEqual({
      status: "insufficient_credits",
      available: 800n,
      posted: 1_500n,
    });
    expect(await ledger.settle(settle("h", 700n))).toMatchObject({ charged: 700n });
    expect(await getWallet(outside, "a")).toMatchObject({ promo: 800n });
  });

  test("is not decided on what a batch has changed that was not committed", async () => {
    await getKnown();
    ledger.tryHoldSync(hold("h", 700n));
    const twice = { ...settle("h", 700n), record: settle("first", 0n).record as UsageRecord };
    expect(await rejectionMessage(ledger.settle(twice))).toContain("UNIQUE");
    expect(await ledger.hold(hold("i", 301n))).toEqual({
      status: "insufficient_credits",
      available: 300n,
      posted: 1_000n,
    });
    expect(await ledger.settle(settle("h", 5n))).toMatchObject({ charged: 5n });
  });

  test("is asked of a batch where the store cannot say whether others have written", async () => {
    const mute: Db = {
      ...store.db,
      dataVersion: () => {
        throw new Error("cannot be read");
      },
      close: async () => {},
    };
    db = bufferHolds(mute, NEVER_FLUSH_MS);
    ledger = await startLedger(db, "mute", NOW, { holdBuffer: db });
    await getKnown();
    expect(ledger.tryHoldSync(hold("h", 700n))).toBeUndefined();
    expect(await ledger.hold(hold("h", 700n))).toEqual({ status: "held", amount: 700n });
    expect(await ledger.settle(settle("h", 5n))).toMatchObject({ charged: 5n });
  });

  test("is asked of a batch while the store fails", async () => {
    let isBroken = true;
    const holdBuffer: BufferedDb = {
      ...db,
      writeBatch: (work) =>
        isBroken
          ? Promise.reject(Object.assign(new Error("full"), { [UNAVAILABLE]: true }))
          : db.writeBatch(work),
    };
    const failing = await startLedger(db, "failing", NOW, { holdBuffer });
    await getKnown("second");
    expect(failing.tryHoldSync(hold("h", 1n))).toMatchObject({ status: "held" });
    const settling = failing.settle(settle("h", 1n));
    await Bun.sleep(20);
    expect(failing.tryHoldSync(hold("i", 1n))).toBeUndefined();
    const deciding = failing.hold(hold("i", 1n));
    isBroken = false;
    expect(await deciding).toMatchObject({ status: "held" });
    expect(await settling).toMatchObject({ status: "settled", charged: 1n });
    await failing.settle(settle("i", 0n));
    expect(failing.tryHoldSync(hold("j", 1n))).toMatchObject({ status: "held" });
  });
});

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function sum(count: number, of: (place: number) => bigint): bigint {
  let total = 0n;
  for (let place = 0; place < count; place++) total += of(place);
  return total;
}

describe("what bounds a key", () => {
  test("counts its young calls and those that were written", async () => {
    const open = { openCallsMax: 2 };
    await ledger.hold(hold("h", 1n, open));
    await readHoldRows(db);
    await ledger.hold(hold("i", 1n, open));
    expect(await ledger.hold(hold("j", 1n, open))).toEqual({ status: "too_many_open", open: 2 });
    await ledger.settle(settle("i", 0n));
    expect(await ledger.hold(hold("j", 1n, open))).toMatchObject({ status: "held" });
  });

  test("keeps its pace, before and after they are written", async () => {
    const pace = { rateLimit: { intervalMs: 1_000, burst: 2 } };
    await ledger.hold(hold("h", 1n, pace));
    await ledger.hold(hold("i", 1n, pace));
    const tooFast = { status: "too_fast", retryAfterMs: 1_000 } as const;
    expect(await ledger.hold(hold("j", 1n, pace))).toEqual(tooFast);
    await readHoldRows(db);
    expect(await ledger.hold(hold("j", 1n, pace))).toEqual(tooFast);
  });

  test("is its limit less what is spent, young and written", async () => {
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

describe("credit that another process takes", () => {
  const take = (usd: bigint): Promise<unknown> =>
    outside.write((tx) =>
      adjust(tx, { id: `t${usd}`, accountId: "a", amount: -usd, reason: "test", now: NOW }),
    );

  test("is not charged: a young hold settles for what is left, and the rest is the house's", async () => {
    await ledger.hold(hold("h", 700n));
    await ledger.hold(hold("i", 300n));
    await take(900n);
    expect(await ledger.settle(settle("h", 700n))).toMatchObject({ charged: 0n, overrun: 700n });
    expect(await ledger.settle(settle("i", 300n))).toMatchObject({ charged: 100n, overrun: 200n });
    expect(await getWallet(db, "a")).toEqual({ promo: 0n, paid: 0n, held: 0n });
  });

  test("lowers a young hold to what is left when it is written", async () => {
    await ledger.hold(hold("h", 700n));
    await ledger.hold(hold("i", 300n));
    await take(200n);
    expect(await readHoldRows(db)).toEqual(["h 700", "i 100"]);
    expect(await getWallet(db, "a")).toEqual({ promo: 800n, paid: 0n, held: 800n });
    expect(await ledger.settle(settle("i", 300n))).toMatchObject({ charged: 100n, overrun: 200n });
    expect(await ledger.settle(settle("h", 5n))).toMatchObject({ charged: 5n, overrun: 0n });
  });

  test("in this process is not taken where a young hold needs it", async () => {
    await ledger.hold(hold("h", 700n));
    const taken = db.write((tx) =>
      adjust(tx, { id: "t", accountId: "a", amount: -301n, reason: "test", now: NOW }),
    );
    expect(await rejectionMessage(taken)).toContain("taken");
  });
});

describe("many young holds", () => {
  test("that are asked for at once hold no more than there is", async () => {
    const names = Array.from({ length: 64 }, (_, place) => `h${place}`);
    const held = await Promise.all(names.map((name) => ledger.hold(hold(name, 100n))));
    expect(held.filter(({ status }) => status === "held")).toHaveLength(10);
    const served = names.filter((_, place) => held[place]?.status === "held");
    await Promise.all(served.map((name) => ledger.settle(settle(name, 100n))));
    expect(await getWallet(outside, "a")).toEqual({ promo: 0n, paid: 0n, held: 0n });
  });

  test("are written before they are too many", async () => {
    const names = Array.from({ length: 4_600 }, (_, place) => `h${place}`);
    for (let from = 0; from < names.length; from += 100)
      await Promise.all(names.slice(from, from + 100).map((name) => ledger.hold(hold(name, 0n))));
    const row = await outside.get("select count(*) as count from hold");
    expect(row && integer(row, "count")).toBe(1_000);
    await Promise.all(names.map((name) => ledger.settle(settle(name, 0n))));
    expect(await readHoldRows(db)).toEqual([]);
    expect(await getWallet(db, "a")).toEqual({ promo: 1_000n, paid: 0n, held: 0n });
  });
});

describe("a store that fails", () => {
  test("at the commit of another's work keeps young holds young", async () => {
    await ledger.hold(hold("h", 700n));
    const broken = db.write(async () => {
      throw new Error("nothing comes of it");
    });
    expect(await rejectionMessage(broken)).toBe("nothing comes of it");
    expect(await readHoldRows(outside)).toEqual([]);
    expect(await readHoldRows(db)).toEqual(["h 700"]);
  });

  test("when a hold grows old is tried again", async () => {
    let failures = 0;
    const faulty: Db = {
      ...store.db,
      write: (work, lasting) => {
        if (lasting !== "os_cache" || failures === 2) return store.db.write(work, lasting);
        failures += 1;
        return Promise.reject(new Error("full"));
      },
      close: async () => {},
    };
    db = bufferHolds(faulty, 10);
    ledger = await startLedger(db, "main", NOW, { holdBuffer: db });
    await ledger.hold(hold("h", 700n));
    await until(async () => (await readHoldRows(outside)).length === 1);
    expect(failures).toBe(2);
  });
});

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let waited = 0; waited < 500; waited++) {
    if (await isSo()) return;
    await Bun.sleep(10);
  }
  throw new Error("it never came about");
}
