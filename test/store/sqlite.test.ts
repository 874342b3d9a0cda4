import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { Worker } from "node:worker_threads";
import { integer } from "../../src/store/db.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { eventually } from "../support/eventually.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { startScript } from "../support/script-process.ts";

// Starts other processes, possibly on a busy machine.

const STORE_PROCESS = path.join(import.meta.dirname, "store-process.ts");
/** How long a write waits for the lock. */
const LOCK_WAIT_MS = 5_000;
const inUse = /is in use by another Postern: stop it, or set POSTERN_DATA_DIR to another folder/;

describe("the data folder", () => {
  test("is locked against a second process, with an error that says what to do", async () => {
    const folder = scratchFolder();
    const child = startScript(STORE_PROCESS, ["lock", folder]);
    await child.waitForLine("locked");
    expect(() => openSqlite({ folder, lock: true })).toThrow(inUse);
    child.process.stdin.end();
    await child.exitCode;
    const db = openSqlite({ folder, lock: true });
    expect(() => openSqlite({ folder, lock: true })).toThrow(inUse);
    // The failed attempt must not have released the lock.
    const second = startScript(STORE_PROCESS, ["lock", folder]);
    expect(await rejectionMessage(second.waitForLine("locked"))).toMatch(inUse);
    await db.close();
    rmSync(folder, { recursive: true });
  });

  test("is unlocked after kill -9", async () => {
    const folder = scratchFolder();
    const child = startScript(STORE_PROCESS, ["lock", folder]);
    await child.waitForLine("locked");
    child.process.kill("SIGKILL");
    await child.exitCode;
    await openSqlite({ folder, lock: true }).close();
    rmSync(folder, { recursive: true });
  });

  test("is created with mode 0700", async () => {
    const folder = path.join(scratchFolder(), "new");
    await openSqlite({ folder, lock: true }).close();
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    rmSync(path.dirname(folder), { recursive: true });
  });

  test("that cannot be created or written fails with the reason", () => {
    const folder = scratchFolder();
    expect(() => openSqlite({ folder: "/dev/null/data", lock: true })).toThrow(
      /ENOTDIR|EEXIST|not a directory/i,
    );
    mkdirSync(path.join(folder, "postern.db"));
    expect(() => openSqlite({ folder, lock: true })).toThrow(/unable to open/i);
    rmSync(folder, { recursive: true });
  });
});

describe("backup", () => {
  test("copies one consistent state while the store is written, and can be restored", async () => {
    const folder = scratchFolder();
    const db = openSqlite({ folder, lock: true });
    await migrate(db, 1);
    await db.write((tx) => tx.run("create table pair (id bigint primary key, twin bigint)"));
    const state = { written: 0, stop: false };
    const writing = (async () => {
      for (let id = 1; !state.stop; id++) {
        await db.write(async (tx) => {
          await tx.run("insert into pair (id, twin) values (?, ?)", [id, -id]);
          await tx.run("insert into pair (id, twin) values (?, ?)", [-id, id]);
        });
        state.written = id;
        if (id % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await eventually(() => state.written >= 200);
    const copies: { file: string; atLeast: number }[] = [];
    for (let round = 0; round < 5; round++) {
      const file = path.join(folder, `copy ${round}'s.db`);
      const atLeast = state.written;
      await db.backup(file);
      copies.push({ file, atLeast });
      await eventually(() => state.written > atLeast);
    }
    state.stop = true;
    await writing;
    expect(await rejectionMessage(db.backup(copies[0]?.file ?? ""))).toMatch(/exists/);
    await db.close();

    for (const [round, { file, atLeast }] of copies.entries()) {
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const restored = path.join(folder, `restored-${round}`);
      mkdirSync(restored);
      renameSync(file, path.join(restored, "postern.db"));
      const copy = openSqlite({ folder: restored, lock: true });
      expect(await migrate(copy, 2)).toEqual([]);
      const row = await copy.get("select count(*) as count, sum(id) as total from pair");
      expect(row === undefined ? row : integer(row, "total")).toBe(0);
      expect(row === undefined ? 0 : integer(row, "count")).toBeGreaterThanOrEqual(2 * atLeast);
      await copy.write((tx) => tx.run("insert into pair (id, twin) values (0, 0)"));
      await copy.close();
    }
    rmSync(folder, { recursive: true });
  });
});

describe("durability", () => {
  test('a commit is synced to disk, unless "os_cache" is requested', async () => {
    const folder = scratchFolder();
    const db = openSqlite({ folder, lock: true });
    const isSynced = async (...durability: ["disk" | "os_cache"] | []): Promise<boolean> =>
      db.write(
        async (tx) => (await tx.get("pragma synchronous"))?.["synchronous"] === 2,
        ...durability,
      );
    expect(await isSynced()).toBe(true);
    expect(await Promise.all([isSynced("os_cache"), isSynced(), isSynced("disk")])).toEqual([
      false,
      true,
      true,
    ]);
    await db.close();
    rmSync(folder, { recursive: true });
  });
});

describe("close", () => {
  test("waits for pending writes and leaves one file", async () => {
    const folder = scratchFolder();
    const db = openSqlite({ folder, lock: true });
    await db.write((tx) => tx.run("create table thing (id text)"));
    const release = Promise.withResolvers<void>();
    const pending = db.write(async (tx) => {
      await release.promise;
      await tx.run("insert into thing (id) values ('a')");
    });
    const closed = db.close();
    release.resolve();
    await Promise.all([closed, pending]);
    expect(existsSync(path.join(folder, "postern.db-wal"))).toBe(false);
    const again = openSqlite({ folder, lock: true });
    expect(await again.all("select id from thing")).toHaveLength(1);
    await again.close();
    rmSync(folder, { recursive: true });
  });
});

describe("dataVersion", () => {
  test("changes after a write of another connection, not after reads or own writes", async () => {
    const folder = scratchFolder();
    const [db, other] = [openSqlite({ folder, lock: true }), openSqlite({ folder, lock: false })];
    await db.write((tx) => tx.run("create table note (id bigint)"));
    const version = (): number | undefined => db.dataVersion?.();
    const first = version();
    expect(first).toBeNumber();
    await db.write((tx) => tx.run("insert into note values (1)"));
    await other.all("select id from note");
    await other.write((tx) => tx.all("select id from note"));
    expect(version()).toBe(first);
    await other.write((tx) => tx.run("insert into note values (2)"));
    const second = version();
    expect(second).not.toBe(first);
    await db.write(async (tx) => {
      expect(version()).toBe(second);
      await tx.run("insert into note values (3)");
    });
    expect(version()).toBe(second);
    await Promise.all([db.close(), other.close()]);
    rmSync(folder, { recursive: true });
  });

  test("changes after a write of another process", async () => {
    const folder = scratchFolder();
    const db = openSqlite({ folder, lock: true });
    await migrate(db, 1);
    const before = db.dataVersion?.();
    const child = startScript(STORE_PROCESS, ["write", folder]);
    await child.waitForLine("written");
    expect(db.dataVersion?.()).not.toBe(before);
    child.process.stdin.end();
    await child.exitCode;
    await db.close();
    rmSync(folder, { recursive: true });
  });
});

describe("a write lock of another connection", () => {
  test("fails waiting writes together, not one after the other, and does not stop later ones", async () => {
    const folder = scratchFolder();
    const db = openSqlite({ folder, lock: true });
    const write = () => db.write((tx) => tx.run("create table if not exists thing (id text)"));
    await write();
    const other = new Database(path.join(folder, "postern.db"));
    other.run("begin immediate");
    const now = performance.now.bind(performance);
    let time = 0;
    performance.now = () => time;
    const writes = [write(), write(), write(), write()];
    // From here on the clock stands still: a write that waited from its turn on would never fail.
    time = LOCK_WAIT_MS + 1;
    const messages = await Promise.all(writes.map(rejectionMessage));
    performance.now = now;
    for (const message of messages) expect(message).toMatch(/locked/);
    other.run("rollback");
    other.close();
    await write();
    await db.close();
    rmSync(folder, { recursive: true });
  });
});

describe("the write-ahead log", () => {
  const insert = "insert into thing values (?)";
  const openThings = async (folder: string) => {
    const db = openSqlite({ folder, lock: true });
    await db.write((tx) => tx.run("create table thing (id text primary key)"));
    return db;
  };

  for (const name of ["postern.db-wal", "postern.db-shm"])
    test(`is still written into the file at the close after ${name} was deleted`, async () => {
      const folder = scratchFolder();
      const db = await openThings(folder);
      expect(db.isFileReplaced?.()).toBe(false);
      rmSync(path.join(folder, name));
      await db.write((tx) => tx.run(insert, ["after"]));
      expect(db.isFileReplaced?.()).toBe(true);
      await db.close();
      const again = openSqlite({ folder, lock: true });
      expect(await again.get("select id from thing")).toEqual({ id: "after" });
      await again.close();
      rmSync(folder, { recursive: true });
    });

  test("a deleted postern.lock is noticed: a second process could open the folder", async () => {
    const folder = scratchFolder();
    const db = await openThings(folder);
    rmSync(path.join(folder, "postern.lock"));
    expect(db.isFileReplaced?.()).toBe(true);
    await db.close();
    rmSync(folder, { recursive: true });
  });

  test("shrinks after a long read", async () => {
    const folder = scratchFolder();
    const db = await openThings(folder);
    const walBytes = (): number => statSync(path.join(folder, "postern.db-wal")).size;
    const filler = "x".repeat(100_000);
    await db.snapshot(async (reader) => {
      await reader.all("select * from thing");
      for (let round = 0; round < 60; round++)
        await db.write(async (tx) => {
          for (let row = 0; row < 10; row++) await tx.run(insert, [`${round} ${row} ${filler}`]);
        });
      expect(walBytes()).toBeGreaterThan(50_000_000);
    });
    for (let round = 0; round < 3; round++) await db.write((tx) => tx.run(insert, [`${round}`]));
    expect(walBytes()).toBeLessThan(40_000_000);
    await db.close();
    rmSync(folder, { recursive: true });
  });
});

test("a write lock held elsewhere delays writes, and not the event loop", async () => {
  const folder = scratchFolder();
  const db = openSqlite({ folder, lock: false });
  await db.write((tx) => tx.run("create table thing (id text primary key)"));
  const other = new Database(path.join(folder, "postern.db"));
  other.run("begin immediate");
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 5);
  let isWritten = false;
  const written = db
    .write((tx) => tx.run("insert into thing values ('a')"))
    .then(() => {
      isWritten = true;
    });
  await eventually(() => turns > 50);
  expect(isWritten).toBe(false);
  expect(await db.get("select count(*) as n from thing")).toEqual({ n: 0 });
  other.run("rollback");
  other.close();
  await written;
  clearInterval(timer);
  await db.close();
  rmSync(folder, { recursive: true });
});

test("threads that open the same new store at once wait for each other", async () => {
  const threads = 2;
  const folders = Array.from({ length: 60 }, scratchFolder);
  const arrivals = new SharedArrayBuffer(4 * folders.length);
  const results = Array.from({ length: threads }, async () => {
    const workerData = { folders, threads, arrivals };
    const worker = new Worker(new URL("open-new-file.ts", import.meta.url), { workerData });
    return new Promise((resolve) => worker.once("message", resolve));
  });
  expect(await Promise.all(results)).toEqual([[], []]);
  for (const folder of folders) rmSync(folder, { recursive: true });
});
