// Moves a store between SQLite and PostgreSQL, also after a crash in the middle, and proves that rows and money are the same.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import path from "node:path";
import { newId } from "../../src/base/id.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import { bytesOrNull, type Db, type Values } from "../../src/store/db.ts";
import { clearMovedMark, migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { PROGRAM, PROGRAM_SETTINGS } from "../support/program.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { runInProcess } from "../support/run-command.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import {
  newStoreLocation,
  openStore,
  openStoreAt,
  type TestStore,
} from "../support/stores/stores.ts";
import { startPostern, stopAll, stopPostern } from "./run-postern.ts";

/** Above what a float represents exactly. */
const LARGE = 2n ** 60n + 1n;
const BALANCE = 8_999_999_123_456_789n;
const AUDIT_ROWS = 30_000;
const UNUSUAL = 'Zoë "quoted" back\\slash\nline {a,b} 中文';
const BYTES = Uint8Array.from({ length: 256 }, (_, index) => index);
const folders: string[] = [];

const newFolder = (): string => {
  const folder = scratchFolder();
  folders.push(folder);
  return folder;
};

afterAll(() => {
  stopAll();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe("postern move from SQLite to PostgreSQL", () => {
  let source: TestStore;
  beforeAll(async () => {
    source = await openStore("sqlite");
    await fill(source.db, AUDIT_ROWS);
    await source.db.close();
  });
  afterAll(() => rmSync(source.location.address, { recursive: true, force: true }));
  const settings = () => ({ POSTERN_DATA_DIR: source.location.address });
  afterEach(async () => {
    const db = openStoreAt(source.location);
    await clearMovedMark(db);
    await db.close();
  });

  test("copies every row and the money, and back", async () => {
    const target = await newStoreLocation("postgres");
    const { code, stdout, stderr } = await runInProcess(
      ["move", "--to", target.address],
      settings(),
    );
    expect([code, stderr]).toEqual([0, expect.stringMatching(/copied 30,\d{3} rows in/)]);
    expect(stdout).toContain("all are equal");
    expect(stdout).toContain("differences 0");
    expect(stdout).toContain("The move is complete. Set DATABASE_URL to the target");
    expect(stdout).toContain("a gateway starts on it only with postern serve --force");
    const again = await runInProcess(["serve"], { ...settings(), POSTERN_PORT: "0" });
    expect([again.code, again.stderr]).toEqual([
      1,
      expect.stringContaining("the store was moved to another one with postern move"),
    ]);
    const unlocked = openSqlite({ folder: source.location.address, lock: true });
    await unlocked.close();
    const forced = await startPostern(["serve", "--force"], { ...settings(), POSTERN_PORT: "0" });
    await stopPostern(forced);
    const moved = openStoreAt(target);
    await expectSameMoney(moved);
    await expectSameRows(moved);
    await migrate(moved, 2);
    await moved.close();

    const back = path.join(newFolder(), "back");
    const second = await runInProcess(["move", "--to", back], { DATABASE_URL: target.address });
    expect(second.code).toBe(0);
    const returned = openStoreAt({ kind: "sqlite", address: back });
    await expectSameMoney(returned);
    await expectSameRows(returned);
    await returned.close();
  });

  test("continues after it was killed, and no gateway starts on the unfinished copy", async () => {
    const target = await newStoreLocation("postgres");
    await killDuringCopy(target.address, settings());
    const unfinished = openStoreAt(target);
    const copied = await countAudit(unfinished);
    expect(copied).toBeGreaterThan(0);
    expect(copied).toBeLessThan(AUDIT_ROWS);
    expect(await rejectionMessage(migrate(unfinished, 2))).toContain("unfinished move");
    const started = startGateway({ databaseUrl: target.address });
    expect(await rejectionMessage(started)).toContain("run the same postern move again");

    const other = await openStore("sqlite");
    await other.db.close();
    const wrong = await runInProcess(["move", "--to", target.address], {
      POSTERN_DATA_DIR: other.location.address,
    });
    expect([wrong.code, wrong.stderr]).toEqual([
      1,
      expect.stringContaining("unfinished move from SQLite in"),
    ]);

    const { code, stderr } = await runInProcess(["move", "--to", target.address], settings());
    expect(code).toBe(0);
    expect(stderr).toMatch(/^copied 30,\d{3} rows/m);
    await expectSameMoney(unfinished);
    expect(await countAudit(unfinished)).toBe(AUDIT_ROWS);
    await unfinished.close();
  });

  test("refuses a target with rows", async () => {
    const target = await openStore("postgres");
    await openAccountRow(target.db, "acct_other");
    const { code, stderr } = await runInProcess(
      ["move", "--to", target.location.address],
      settings(),
    );
    expect([code, stderr]).toEqual([1, expect.stringContaining("the target is not empty")]);
    const over = await runInProcess(
      ["move", "--to", target.location.address, "--start-over"],
      settings(),
    );
    expect([over.code, over.stderr]).toEqual([1, expect.stringContaining("nothing was deleted")]);
    await target.close();
  });

  test("refuses a source that a gateway uses", async () => {
    const gateway = await startGateway();
    const target = await newStoreLocation("postgres");
    const { code, stderr } = await runInProcess(["move", "--to", target.address], {
      POSTERN_DATA_DIR: gateway.config.store.dataDir,
    });
    expect([code, stderr]).toEqual([1, expect.stringContaining("in use by another Postern")]);
    await gateway.stop();
  });

  test("says which source and target fit", async () => {
    const to = async (target: string, env = settings()) => {
      const { code, stderr } = await runInProcess(["move", "--to", target], env);
      return [code, stderr];
    };
    expect(await to(newFolder())).toEqual([
      2,
      expect.stringMatching(/^postern move: .*postern admin backup/),
    ]);
    expect(await to("mysql://host/db")).toEqual([2, expect.stringContaining("postgres://user")]);
    const absent = { POSTERN_DATA_DIR: path.join(newFolder(), "absent") };
    expect(await to("postgres://localhost/none", absent)).toEqual([
      1,
      expect.stringContaining("There is no store in"),
    ]);
    expect(existsSync(absent.POSTERN_DATA_DIR)).toBe(false);
    const postgres = { POSTERN_DATA_DIR: "", DATABASE_URL: "postgres://localhost/none" };
    expect(await to("postgres://localhost/other", postgres)).toEqual([
      2,
      expect.stringContaining("pg_dump"),
    ]);
  });
});

describe("postern move with a source that changes", () => {
  test("finds rows that were written since the copy began, and starts over", async () => {
    const source = await openStore("sqlite");
    await fill(source.db, AUDIT_ROWS);
    const settings = { POSTERN_DATA_DIR: source.location.address };
    const target = await newStoreLocation("postgres");
    await killDuringCopy(target.address, settings);
    await openAccountRow(source.db, "acct_0");
    await source.db.write((tx) => openAccount(tx, "acct_0", [], 1));
    const changed = await runInProcess(["move", "--to", target.address], settings);
    expect([changed.code, changed.stderr]).toEqual([
      1,
      expect.stringContaining("the table account differs: 3 rows in the source, 2 in the target"),
    ]);
    await source.db.close();
    const again = await runInProcess(["move", "--to", target.address, "--start-over"], settings);
    expect(again.code).toBe(0);
    rmSync(source.location.address, { recursive: true, force: true });
  });

  test("refuses a PostgreSQL store that a gateway uses", async () => {
    const gateway = await startGateway({ store: "postgres" });
    const { databaseUrl } = gateway.config.store;
    const { code, stderr } = await runInProcess(["move", "--to", path.join(newFolder(), "new")], {
      DATABASE_URL: databaseUrl?.reveal() ?? "",
    });
    expect([code, stderr]).toEqual([1, expect.stringContaining("Gateways use the source: test:")]);
    await gateway.stop();
  });
});

/** Two accounts with money, a call, and many rows of another table. */
async function fill(db: Db, auditRows: number): Promise<void> {
  const now = Date.now() - 600_000;
  for (const id of ["acct_1", "acct_2"]) await openAccountRow(db, id);
  await db.write(async (tx) => {
    await openAccount(tx, "acct_1", ["key_1"], now);
    await openAccount(tx, "acct_2", ["key_2"], now);
    await deposit(tx, promoDeposit("start.acct_1", "acct_1", BALANCE, now));
    await tx.run("insert into swept_hold values ('hold', 'acct_1', 'key_1', ?, 1, 'test', null)", [
      LARGE,
    ]);
    await deposit(tx, promoDeposit("start.acct_2", "acct_2", 50_000_000n, now));
  });
  const ledger = await startLedger(db, "test", now);
  const id = newId("req", now);
  const call = { id, accountId: "acct_2", keyId: "key_2", now };
  await ledger.hold({ ...call, amount: 10n, expiresAt: now + 60_000 });
  const record = usageRecord({ ...call, cost: 7n, createdAt: now });
  await ledger.settle({ ...call, cost: 7n, record });
  await ledger.idle();
  const columns =
    "id, account_id, key_id, status, background, hold_id, bytes, sealed_input, sealed_response, data_key, created_at, expires_at, sealed_record";
  for (const [responseId, sealed] of [
    ["resp_1", BYTES],
    ["resp_2", new Uint8Array(0)],
    ["resp_3", null],
  ] as const)
    await db.write((tx) =>
      tx.run(
        `insert into stored_response (${columns}) values (?, 'acct_1', 'key_1', 'completed', 0, 'h', 1, '', '', 'k', 1, 2, ?)`,
        [responseId, sealed],
      ),
    );
  const rows: Values[] = [["aud_unusual", "acct_1", now, "operator", "x", "y", UNUSUAL, "{}"]];
  for (let index = 1; index < auditRows; index += 1)
    rows.push([newId("aud", now), null, now, "operator", "x", "y", null, "{}"]);
  await db.write((tx) =>
    tx.insertMany(
      "audit",
      [
        "id:text",
        "account_id:text",
        "at:bigint",
        "actor_type:text",
        "actor_id:text",
        "action:text",
        "target:text",
        "detail:text",
      ],
      rows,
    ),
  );
}

async function openAccountRow(db: Db, id: string): Promise<void> {
  await db.write((tx) =>
    tx.run("insert into account (id, created_at, created_from) values (?, 1, '192.0.2.0/24')", [
      id,
    ]),
  );
}

async function expectSameMoney(db: Db): Promise<void> {
  const { problems, checked } = await verifyLedger(db);
  expect(problems).toEqual([]);
  expect(checked).toMatchObject({ wallets: 2, keys: 2, usageRecords: 1 });
  const wallets = await db.all(
    "select account_id, cast(promo as text) as promo from wallet order by account_id",
  );
  expect(wallets.map((row) => row["promo"])).toEqual([String(BALANCE), "49999993"]);
}

async function expectSameRows(db: Db): Promise<void> {
  const large = await db.get("select cast(amount as text) as amount from swept_hold");
  expect(large?.["amount"]).toBe(String(LARGE));
  const unusual = await db.get("select target from audit where id = 'aud_unusual'");
  expect(unusual?.["target"]).toBe(UNUSUAL);
  const records = await db.all("select id, sealed_record from stored_response order by id");
  expect(records.map((row) => bytesOrNull(row, "sealed_record")?.join(" ") ?? null)).toEqual([
    BYTES.join(" "),
    "",
    null,
  ]);
}

async function countAudit(db: Db): Promise<number> {
  return Number((await db.get("select count(*) as count from audit"))?.["count"]);
}

/** Kills the command, without any chance to clean up, as soon as it has copied a part of the largest table. */
async function killDuringCopy(
  target: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const [command, ...args] = PROGRAM;
  const child = spawn(command, [...args, "move", "--to", target], {
    env: { ...PROGRAM_SETTINGS, PATH: process.env["PATH"] ?? "", ...settings },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
  });
  const copy = openStoreAt({ kind: "postgres", address: target });
  // The tables do not exist at first.
  await eventually(() => countAudit(copy).catch(() => 0));
  if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  await copy.close();
  await ended;
  expect(output).not.toContain("The move is complete");
}
