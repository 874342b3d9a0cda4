// The transfers of calls, which are columns of usage records, beside those of older versions, which are rows.

import { afterEach, beforeEach, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { newId } from "../../src/base/id.ts";
import { createLog } from "../../src/base/log.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { keepCallTransfers } from "../../src/ledger/call-charges.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import { listTransfers } from "../../src/ledger/transfers.ts";
import { archiveUsage, createArchiveFiles } from "../../src/usage/archive/archive-usage.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { findChargeDifferences } from "../../src/verification/verify-charges.ts";
import { verifyFromCheckpoint, verifyLedger } from "../../src/verification/verify.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { describeEachStore, openStore, type TestStore } from "../support/stores/stores.ts";
import { ALL_TRANSFERS, openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 20, 12);

describeEachStore((kind) => {
  let store: TestStore;
  let ledger: Ledger<UsageRecord>;
  beforeEach(async () => {
    store = await openStore(kind);
    ledger = await startLedger(store.db, "p", NOW);
    await store.db.write(async (tx) => {
      for (const account of ["a", "b"]) {
        await openAccount(tx, account, [`${account}1`], NOW);
        await deposit(tx, promoDeposit(`start.${account}`, account, 150n, NOW));
        const paid = { ...promoDeposit(`buy.${account}`, account, 200n, NOW), kind: "adjust" };
        await deposit(tx, { ...paid, bucket: "paid", from: "system:adjustment" });
      }
    });
  });
  afterEach(() => store.close());

  const call = async (accountId: string, cost: bigint, at = NOW): Promise<string> => {
    const request = { id: newId("req", at), accountId, keyId: `${accountId}1`, now: at };
    await ledger.hold({ ...request, amount: 1n, expiresAt: at + 1 });
    const record = usageRecord({ ...request, cost, createdAt: at });
    await ledger.settle({ ...request, cost, record });
    return request.id;
  };
  /** As an older version has written them. */
  const moveToRows = (ids: readonly string[]): Promise<void> =>
    store.db.write(async (tx) => {
      for (const id of ids) {
        await keepCallTransfers(tx, await tx.all("select * from usage_record where id = ?", [id]));
        await tx.run(
          "update usage_record set promo_nano = null, paid_nano = null, overrun_nano = null, charged_at = null where id = ?",
          [id],
        );
      }
    });
  const listAll = async (accountId: string, limit: number): Promise<readonly string[]> => {
    const found: string[] = [];
    for (let cursor: string | undefined; ;) {
      const page = await listTransfers(store.db, accountId, { limit, cursor });
      found.push(...page.transfers.map(({ id, from, amount }) => `${id} ${from} ${amount}`));
      if (page.next === undefined) return found;
      cursor = page.next;
    }
  };
  const transferRows = (): Promise<readonly unknown[]> =>
    store.db.all(
      `select account_id, id, from_account, to_account, cast(amount as text) as amount, kind, ref, at from ${ALL_TRANSFERS} order by id`,
    );
  const problems = async (): Promise<readonly string[]> => [
    ...(await verifyLedger(store.db)).problems,
    ...(await findChargeDifferences(store.db, true)),
  ];

  test("lists every transfer once directly after a call, whatever the size of a page", async () => {
    const first = await call("a", 100n);
    // A call at no cost has a record and no transfer.
    await call("a", 0n, NOW + 1);
    const split = await call("a", 270n, NOW + 2);
    await call("b", 10n, NOW + 3);
    const expected = [
      `${first}.promo a:promo 100`,
      `${split}.overrun system:receivable 20`,
      `${split}.paid a:paid 200`,
      `${split}.promo a:promo 50`,
      "buy.a system:adjustment 200",
      "start.a system:promo_expense 150",
    ];
    for (const limit of [1, 2, 3, 4, 100]) expect(await listAll("a", limit)).toEqual(expected);
    expect(await store.db.all("select id from transfer where kind = 'usage'")).toEqual([]);
    const { checked } = await verifyLedger(store.db);
    expect(checked).toMatchObject({ transfers: 9, usageRecords: 4 });
  });

  test("writes rows for a call without a usage record", async () => {
    const request = { id: newId("req", NOW), accountId: "a", keyId: "a1", now: NOW };
    await ledger.hold({ ...request, amount: 1n, expiresAt: NOW + 1 });
    await ledger.settle({ ...request, cost: 5n });
    expect(await store.db.all("select id from transfer where kind = 'usage'")).toEqual([
      { id: `${request.id}.promo` },
    ]);
    expect(await findChargeDifferences(store.db, true)).toEqual([]);
  });

  test("verifies calls of an older version beside new ones, in full and from a checkpoint", async () => {
    const old = [await call("a", 100n), await call("a", 90n, NOW + 1), await call("b", 7n)];
    const before = await transferRows();
    await moveToRows(old);
    expect(await transferRows()).toEqual(before);
    await call("a", 30n, NOW + 2);
    expect(await problems()).toEqual([]);
    for (let day = 1; day < 4; day++) {
      const verified = await verifyFromCheckpoint(store.db, { now: NOW + day * DAY_MS });
      expect(verified.problems).toEqual([]);
      await call("a", 1n, NOW + day * DAY_MS);
    }
    const sums = await store.db.all(
      "select key_id, cast(promo_nano as text) as promo, cast(paid_nano as text) as paid from ledger_checkpoint where account_id = 'a'",
    );
    expect(sums).toEqual([{ key_id: "a1", promo: "150", paid: "72" }]);
  });

  test("keeps every transfer when old records are archived", async () => {
    await call("a", 100n, NOW - 90 * DAY_MS);
    await call("b", 9n, NOW - 90 * DAY_MS);
    await call("a", 270n, NOW - 80 * DAY_MS);
    await call("a", 3n);
    await rollUpUsage(store.db);
    const [before, sums] = [await transferRows(), await listAll("a", 2)];
    const folder = scratchFolder();
    const log = createLog({ level: "error", isPretty: false, now: () => NOW, write: () => {} });
    const files = createArchiveFiles(folder, () => NOW);
    const deps = { db: store.db, log, files, retentionDays: 62, keepTransfers: keepCallTransfers };
    expect(await archiveUsage(deps, NOW)).toBe(3);
    rmSync(folder, { recursive: true });
    expect(await transferRows()).toEqual(before);
    expect((await listAll("a", 2)).toSorted()).toEqual(sums.toSorted());
    expect(await problems()).toEqual([]);
  });
});
