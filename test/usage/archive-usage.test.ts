// Archives usage records beyond their retention, and proves the money before and after.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { newId } from "../../src/base/id.ts";
import { createLog } from "../../src/base/log.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { keepCallTransfers } from "../../src/ledger/call-charges.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import type { Tx } from "../../src/store/db.ts";
import {
  archiveUsage,
  type ArchiveDeps,
  createArchiveFiles,
} from "../../src/usage/archive/archive-usage.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { listUsage } from "../../src/usage/usage-list.ts";
import { totalUsage } from "../../src/usage/usage-stats.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 23, 12);
const OLD = NOW - 100 * DAY_MS;
const RETENTION_DAYS = 62;
const OLD_CALLS = 1_203;

describeEachStore((kind, open) => {
  describe(`archive of usage records on ${kind}`, () => {
    let store: TestStore;
    let folder: string;
    let deps: ArchiveDeps;
    const lines: string[] = [];
    const total = () => totalUsage(store.db, "acct_a");
    const problems = async () => (await verifyLedger(store.db)).problems;

    beforeAll(async () => {
      store = await open();
      folder = scratchFolder();
      const log = createLog({
        level: "debug",
        isPretty: false,
        now: () => NOW,
        write: (line) => lines.push(line),
      });
      deps = {
        db: store.db,
        log,
        files: createArchiveFiles(folder, () => NOW),
        retentionDays: RETENTION_DAYS,
        keepTransfers: keepCallTransfers,
      };
      await store.db.write(async (tx) => {
        await openAccount(tx, "acct_a", ["k1", "k2"], OLD);
        await openAccount(tx, "acct_b", ["kb"], OLD);
        // The last calls cost more than what is left: the gateway bears the rest.
        await deposit(tx, promoDeposit("start.a", "acct_a", 1_240_000n, OLD));
      });
      const ledger = await startLedger(store.db, "p", OLD);
      const call = async (at: number, keyId: string, cost: bigint, byok = false): Promise<void> => {
        const request = { id: newId("req", at), accountId: "acct_a", keyId, now: at };
        await ledger.hold({ ...request, amount: byok ? 0n : 10n, expiresAt: at + DAY_MS });
        const record = usageRecord({ ...request, cost, createdAt: at, byok });
        await ledger.settle({ ...request, cost, record });
      };
      const calls = Array.from({ length: OLD_CALLS }, (_, index) => index);
      for (const index of calls) {
        const at = OLD + index * 60_000;
        await call(
          at,
          index % 3 === 0 ? "k2" : "k1",
          index % 50 === 0 ? 0n : 1_000n,
          index % 50 === 0,
        );
      }
      await call(NOW - 2 * DAY_MS, "k1", 1_000n);
      await call(NOW - DAY_MS, "k1", 700_000n);
      await ledger.idle();
    });
    afterAll(async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    });

    test("waits until the records are in the roll-ups", async () => {
      expect(await archiveUsage(deps, NOW)).toBe(0);
      await rollUpUsage(store.db);
    });

    test("moves old records to one file a month and keeps sums, balances and newer records", async () => {
      expect(await problems()).toEqual([]);
      const before = await total();
      const wallet = await store.db.get("select * from wallet where account_id = 'acct_a'");
      expect(await archiveUsage(deps, NOW)).toBe(OLD_CALLS);
      expect(await problems()).toEqual([]);
      expect(await total()).toEqual(before);
      expect(await store.db.get("select * from wallet where account_id = 'acct_a'")).toEqual(
        wallet,
      );
      const page = await listUsage(store.db, "acct_a", {}, { limit: 100 });
      expect(page.data.map(({ createdAt }) => createdAt)).toEqual([NOW - DAY_MS, NOW - 2 * DAY_MS]);
      expect(lines.join("\n")).toContain("archived usage records");
    });

    test("writes every record once, as the API returns it", () => {
      const files = readdirSync(folder).sort();
      expect(files).toEqual(["usage-2026-08-20261123T120000000Z.jsonl.gz"]);
      const records = files
        .flatMap((file) =>
          gunzipSync(readFileSync(path.join(folder, file)))
            .toString()
            .trim()
            .split("\n"),
        )
        .map((line): unknown => JSON.parse(line));
      expect(records).toHaveLength(OLD_CALLS);
      expect(records[1]).toMatchObject({
        account_id: "acct_a",
        object: "usage",
        key_id: "k1",
        cost_usd: "0.000001",
        usage: { input_tokens: 10 },
      });
    });

    test("appends to no file of another process, or after a write that failed", () => {
      const shared = scratchFolder();
      const [one, two] = [0, 1].map(() => createArchiveFiles(shared, () => NOW));
      const append = (files = one, at = OLD): void =>
        files?.append([
          usageRecord({
            id: newId("req", at),
            accountId: "a",
            keyId: "k",
            cost: 0n,
            createdAt: at,
          }),
        ]);
      append();
      append(two);
      const name = (end: string): string => `usage-2026-08-20261123T12000000${end}Z.jsonl.gz`;
      expect(readdirSync(shared).sort()).toEqual([name("0"), name("1")]);
      // A write fails where a folder is in place of its file.
      const file = path.join(shared, name("0"));
      renameSync(file, path.join(shared, "first"));
      mkdirSync(file);
      expect(append).toThrow();
      append();
      append();
      append(two);
      expect(readdirSync(shared).sort()).toEqual(["first", name("0"), name("1"), name("2")]);
      const records = ["first", name("1"), name("2")].map(
        (each) =>
          gunzipSync(readFileSync(path.join(shared, each)))
            .toString()
            .trim()
            .split("\n").length,
      );
      expect(records).toEqual([1, 2, 2]);
      rmSync(shared, { recursive: true });
    });

    test("finds nothing more to archive", async () => {
      expect(await archiveUsage(deps, NOW)).toBe(0);
    });

    test("is noticed by verify-ledger if archived sums or their transfers change", async () => {
      const corruptions = [
        "update usage_archive set cost_nano = cost_nano + 1 where key_id = 'k1'",
        "update usage_archive set charged_nano = charged_nano - 1 where key_id = 'k2'",
        `delete from transfer where id = (select min(id) from transfer where account_id = 'acct_a' and kind = 'usage')`,
      ];
      for (const sql of corruptions) {
        const found = await problemsAfter(store, sql);
        expect({ sql, found: found.join("\n") }).toMatchObject({
          sql,
          found: expect.stringContaining("archived usage records does not match"),
        });
      }
      expect(await problems()).toEqual([]);
    });

    test("leaves an account whose records do not match their transfers", async () => {
      const id = newId("req", OLD);
      const record = usageRecord({
        id,
        accountId: "acct_b",
        keyId: "kb",
        cost: 5n,
        createdAt: OLD,
      });
      const ledger = await startLedger(store.db, "q", OLD);
      const owner = { id, accountId: "acct_b", keyId: "kb", now: OLD };
      await ledger.hold({ ...owner, amount: 0n, expiresAt: NOW });
      await ledger.settle({ ...owner, cost: 5n, record });
      await store.db.write((tx) =>
        tx.run("update usage_record set cost_nano = 6 where id = ?", [id]),
      );
      await rollUpUsage(store.db);
      expect(await archiveUsage(deps, NOW)).toBe(0);
      expect(lines.join("\n")).toContain("its account is not archived");
    });
  });
});

/** Verifies a changed ledger, and takes the change back. */
async function problemsAfter({ db }: TestStore, sql: string): Promise<readonly string[]> {
  let problems: readonly string[] = [];
  const undo = new Error("undo");
  const outcome = await db
    .write(async (tx) => {
      await tx.run(sql);
      // A migration opened the temporary storage of this connection, so a transaction cannot move it to memory.
      const all: Tx["all"] = async (statement, params) =>
        statement === "pragma temp_store = memory" ? [] : tx.all(statement, params);
      ({ problems } = await verifyLedger({ ...db, snapshot: (work) => work({ ...tx, all }) }));
      throw undo;
    })
    .catch((error: unknown) => error);
  expect(outcome).toBe(undo);
  return problems;
}
