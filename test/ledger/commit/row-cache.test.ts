// Cached rows of wallets, keys and their counters, only with SQLite. They are changed by batches of the ledger, by other
// transactions of the process, and by other processes such as an operator's command.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../../src/base/time.ts";
import { type BufferedDb, bufferHolds } from "../../../src/ledger/commit/hold-buffer.ts";
import type { HoldOutcome, HoldRequest } from "../../../src/ledger/decide.ts";
import { setFreeze } from "../../../src/ledger/freezes.ts";
import { deposit, getWallet, type Ledger } from "../../../src/ledger/ledger.ts";
import { type Db, integer, text, type Tx } from "../../../src/store/db.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { openStore, openStoreAt, type TestStore } from "../../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../fixtures.ts";

const NOW = Date.UTC(2026, 10, 24, 12);
const PENDING_COLUMNS = ["account_id:text", "id:text", "deltas:text"] as const;

let store: TestStore;
/** The gateway's store, and the same store as another process sees it. */
let db: BufferedDb;
let outside: Db;
let ledger: Ledger<UsageRecord>;

beforeEach(async () => {
  store = await openStore("sqlite");
  outside = openStoreAt(store.location);
  db = bufferHolds(store.db, HOUR_MS);
  await db.write(async (tx) => {
    for (const account of ["a", "b"]) {
      await openAccount(tx, account, [`${account}.k`], NOW);
      await deposit(tx, promoDeposit(`${account}.start`, account, 1_000n, NOW));
    }
  });
  ledger = await startLedger(db, "main", NOW, { holdBuffer: db });
  await cacheRows("a");
  await cacheRows("b");
});
afterEach(async () => {
  expect((await verifyLedger(outside)).problems).toEqual([]);
  await outside.close();
  await store.close();
});

function hold(id: string, amount: bigint, accountId = "a"): HoldRequest {
  return { id, accountId, keyId: `${accountId}.k`, amount, now: NOW, expiresAt: NOW + 60_000 };
}

async function settle(id: string, cost: bigint, accountId = "a"): Promise<void> {
  const call = { id, accountId, keyId: `${accountId}.k`, cost };
  const record = usageRecord({ ...call, createdAt: NOW });
  expect(await ledger.settle({ ...call, now: NOW, record })).toMatchObject({ status: "settled" });
}

async function cacheRows(accountId: string): Promise<void> {
  await ledger.hold(hold(`first.${accountId}`, 0n, accountId));
  await settle(`first.${accountId}`, 0n, accountId);
}

/** A decision of the next tick, because changes of other processes are looked for once a tick. */
async function holdLater(request: HoldRequest): Promise<HoldOutcome> {
  await new Promise((resolve) => setImmediate(resolve));
  return ledger.tryHoldSync(request) ?? (await ledger.hold(request));
}

async function writeOther(): Promise<void> {
  await db.write(async (tx) => {
    await tx.run("delete from swept_hold where swept_at < ?", [NOW]);
    await tx.insertMany("usage_pending", PENDING_COLUMNS, [["", "other", "[]"]]);
    await tx.deleteMany("usage_pending", "account_id, id", [["", "other"]]);
    await tx.all("select id from usage_record");
  });
}

async function openHolds(): Promise<readonly string[]> {
  const rows = await outside.all("select id from hold order by id");
  return rows.map((row) => text(row, "id"));
}

describe("a transaction that names no table of cached rows", () => {
  test("keeps them, and flushes no hold", async () => {
    expect(ledger.tryHoldSync(hold("h", 700n))).toMatchObject({ status: "held" });
    await writeOther();
    expect(ledger.tryHoldSync(hold("i", 301n))).toMatchObject({ status: "insufficient_credits" });
    expect(ledger.tryHoldSync(hold("i", 300n))).toMatchObject({ status: "held" });
    expect(await openHolds()).toEqual([]);
    await settle("h", 600n);
    await settle("i", 300n);
    expect(await getWallet(outside, "a")).toEqual({ promo: 100n, paid: 0n, held: 0n });
  });

  test("keeps them, and flushes no hold, when the last uses of keys are written", async () => {
    expect(ledger.tryHoldSync(hold("h", 700n))).toMatchObject({ status: "held" });
    const used = [["a.k", NOW]] as const;
    await db.write((tx) => tx.updateMany("api_key", ["id:text", "last_used_at:bigint"], used));
    expect(ledger.tryHoldSync(hold("i", 300n))).toMatchObject({ status: "held" });
    expect(await openHolds()).toEqual([]);
    await db.write(async (tx) => {
      await tx.run("update api_key set revoked_at = ? where id = 'a.k'", [NOW]);
      await tx.updateMany("api_key", ["id:text", "last_used_at:bigint"], used);
    });
    expect(await holdLater(hold("j", 1n))).toMatchObject({ status: "key_rejected" });
    await settle("h", 0n);
    await settle("i", 0n);
  });

  test("does not hide what another process changed before or after it", async () => {
    await outside.write((tx) => deposit(tx, promoDeposit("more", "a", 500n, NOW)));
    await writeOther();
    expect(await holdLater(hold("h", 1_500n))).toEqual({ status: "held", amount: 1_500n });
    await settle("h", 1_500n);
    await writeOther();
    await outside.write((tx) => setFreeze(tx, "b", { at: NOW, reason: "test" }));
    expect(await holdLater(hold("i", 1n, "b"))).toMatchObject({ status: "frozen" });
  });

  test("that another process makes is noticed as one that may have changed them", async () => {
    await outside.write((tx) =>
      tx.insertMany("usage_pending", PENDING_COLUMNS, [["", "other", "[]"]]),
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(ledger.tryHoldSync(hold("h", 1n))).toBeUndefined();
  });
});

describe("a transaction of this process", () => {
  const writes: readonly (readonly [string, (tx: Tx) => Promise<unknown>, Partial<HoldOutcome>])[] =
    [
      [
        "adds credit",
        (tx) => deposit(tx, promoDeposit("more", "a", 500n, NOW)),
        { status: "held", amount: 1_500n },
      ],
      [
        "freezes the account",
        (tx) => setFreeze(tx, "a", { at: NOW, reason: "test" }),
        { status: "frozen" },
      ],
      [
        "sets the limit of the key",
        (tx) => tx.updateMany("api_key", ["id:text", "limit_nano:bigint"], [["a.k", 5]]),
        { status: "key_limit" },
      ],
      [
        "deletes the key",
        (tx) => tx.deleteMany("api_key", "id", ["a.k"]),
        { status: "key_rejected" },
      ],
      [
        "revokes the key in capital letters",
        (tx) => tx.run(`UPDATE "API_KEY" SET revoked_at = ? WHERE id = 'a.k'`, [NOW]),
        { status: "key_rejected" },
      ],
    ];
  for (const [name, write, outcome] of writes)
    test(`that ${name} is seen by the next hold`, async () => {
      await db.write(write);
      expect(ledger.tryHoldSync(hold("h", 1_500n))).toBeUndefined();
      expect(await ledger.hold(hold("h", 1_500n))).toMatchObject(outcome);
    });

  test("finds buffered holds with its first statement about them", async () => {
    ledger.tryHoldSync(hold("h", 700n));
    const [other, wallet, keys, holds] = await db.write((tx) =>
      Promise.all([
        tx.get("select count(*) as count from swept_hold"),
        getWallet(tx, "a"),
        tx.readMany("spender", "account_id, key_id", [["a", "a.k"]]),
        tx.lockMany("hold", "account_id, id", [["a", "h"]]),
      ]),
    );
    expect(other && integer(other, "count")).toBe(0);
    expect(wallet.held).toBe(700n);
    expect(keys.map((row) => integer(row, "open_calls"))).toEqual([1]);
    expect(holds).toHaveLength(1);
    await settle("h", 1n);
  });

  test("that fails keeps its holds in the buffer, and the rows cached", async () => {
    ledger.tryHoldSync(hold("h", 700n));
    const failing = db.write(async (tx) => {
      await deposit(tx, promoDeposit("more", "a", 500n, NOW));
      throw new Error("failed on purpose");
    });
    expect(await rejectionMessage(failing)).toBe("failed on purpose");
    expect(await openHolds()).toEqual([]);
    expect(ledger.tryHoldSync(hold("i", 301n))).toMatchObject({ status: "insufficient_credits" });
    expect(await db.write((tx) => getWallet(tx, "a"))).toMatchObject({ promo: 1_000n, held: 700n });
    await settle("h", 1n);
  });
});

test("a flush before a read keeps the rows of other accounts", async () => {
  ledger.tryHoldSync(hold("h", 700n));
  expect(await getWallet(db, "a")).toMatchObject({ held: 700n });
  expect(ledger.tryHoldSync(hold("i", 1n, "b"))).toMatchObject({ status: "held" });
  expect(ledger.tryHoldSync(hold("j", 301n))).toBeUndefined();
  expect(await ledger.hold(hold("j", 301n))).toMatchObject({ status: "insufficient_credits" });
  await settle("h", 700n);
  await settle("i", 1n, "b");
  expect(await getWallet(outside, "a")).toEqual({ promo: 300n, paid: 0n, held: 0n });
});

test("no view, trigger or foreign key lets a statement change a table that it does not name", async () => {
  const rows = await outside.all(
    "select name from sqlite_master where type in ('view', 'trigger') or sql like '%references%'",
  );
  expect(rows).toEqual([]);
});
