// An upgrade from the first schema: a gateway with calls, a migration that is killed, the same migration again, and the way back, as
// docs/site/upgrading.md describes it.

import { afterEach, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { SQL } from "bun";
import {
  createTempFolder,
  type RunningProcess,
  runPostern,
  type Settings,
  startPostern,
  stopAll,
  stopPostern,
} from "../commands/run-postern.ts";
import { eventually } from "../support/eventually.ts";
import { dropPostgres, testPostgres } from "../support/stores/postgres.ts";

const PROCESS = path.join(import.meta.dirname, "upgrade-process.ts");
const NEWER = "the store was migrated by a newer Postern (0002-note)";
const children = new Set<ChildProcess>();
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
  stopAll();
});

function startUpgrade(address: string, isSlow: boolean): ChildProcess {
  const args = [PROCESS, address, isSlow ? "slow" : ""];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  return child;
}

async function outputOf(child: ChildProcess): Promise<string> {
  let text = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  await new Promise((resolve) => child.once("close", resolve));
  return text;
}

interface Customer {
  readonly key: string;
  readonly balance: number;
}

async function readBalance({ url }: RunningProcess, key: string): Promise<number> {
  const response = await fetch(`${url}/v1/account`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return ((await response.json()) as { balance: { credits: number } }).balance.credits;
}

/** The first version serves: an account and three calls. */
async function serveFirstVersion(settings: Settings): Promise<Customer> {
  const running = await startPostern([], settings);
  const json = { "content-type": "application/json" };
  const created = await fetch(`${running.url}/v1/accounts`, {
    method: "POST",
    headers: json,
    body: "{}",
  });
  const { api_key: key } = (await created.json()) as { api_key: string };
  for (let calls = 0; calls < 3; calls++) {
    const response = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...json, authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "hello" }] }),
    });
    expect(response.status).toBe(200);
  }
  const balance = await readBalance(running, key);
  await stopPostern(running);
  return { key, balance };
}

/** The store works for the first version, with every balance. */
async function expectAsBefore(settings: Settings, { key, balance }: Customer): Promise<void> {
  const verified = await runPostern(["admin", "verify-ledger", "--full"], settings);
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining("No differences.") });
  const running = await startPostern([], settings);
  expect(await readBalance(running, key)).toBe(balance);
  expect((await stopPostern(running)).code).toBe(0);
}

test("SQLite: an upgrade that is killed leaves the store as it was, and a backup leads back", async () => {
  const temp = createTempFolder();
  const folder = temp.settings["POSTERN_DATA_DIR"] ?? "";
  const customer = await serveFirstVersion(temp.settings);
  const backup = path.join(temp.folder, "backup.db");
  expect((await runPostern(["admin", "backup", backup], temp.settings)).code).toBe(0);

  const killed = startUpgrade(folder, true);
  // The transaction is in the midst of its writes.
  await eventually(() => sizeOf(path.join(folder, "postern.db-wal")) > 1_000_000);
  killed.kill("SIGKILL");
  await new Promise((resolve) => killed.once("close", resolve));
  await expectAsBefore(temp.settings, customer);

  const output = await outputOf(startUpgrade(folder, false));
  expect(output).toContain("applied 0002-note");
  const refused = await runPostern(["serve"], temp.settings);
  expect([refused.code, refused.stdout + refused.stderr]).toEqual([
    1,
    expect.stringContaining(NEWER),
  ]);

  // Back: the copy, or the one that the migration made, in an empty folder.
  const made = readdirSync(folder).findLast((name) => name.startsWith("before-0002-note-")) ?? "";
  for (const [index, copy] of [backup, path.join(folder, made)].entries()) {
    const restored = path.join(temp.folder, `restored-${index}`);
    mkdirSync(restored, { mode: 0o700 });
    copyFileSync(copy, path.join(restored, "postern.db"));
    copyFileSync(path.join(folder, "secret"), path.join(restored, "secret"));
    await expectAsBefore({ ...temp.settings, POSTERN_DATA_DIR: restored }, customer);
  }
  temp.remove();
});

test("PostgreSQL: an upgrade that is killed leaves the store as it was, and a backup leads back", async () => {
  const temp = createTempFolder();
  const database = await testPostgres();
  const settings = { ...temp.settings, DATABASE_URL: database, POSTERN_SECRET: "u".repeat(44) };
  const customer = await serveFirstVersion(settings);
  const { pathname } = new URL(database);
  const name = pathname.slice(1);
  const admin = new SQL(database.replace(pathname, "/postgres"), { max: 1 });
  // What pg_dump and createdb would do; the test's PostgreSQL has no pg_dump.
  const backup = `${name}_b`;
  await admin.unsafe(`create database ${backup} template ${name}`);

  const killed = startUpgrade(database, true);
  await eventually(async () => {
    const sleeping = await admin.unsafe(
      `select 1 from pg_stat_activity where datname = '${name}' and query like 'select pg_sleep%' and state = 'active'`,
    );
    return sleeping.length === 1;
  });
  killed.kill("SIGKILL");
  await new Promise((resolve) => killed.once("close", resolve));
  // The server notices the lost connection only at its next write.
  await admin.unsafe(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
  );
  await expectAsBefore(settings, customer);

  const output = await outputOf(startUpgrade(database, false));
  expect(output).toContain("applied 0002-note");
  const refused = await runPostern(["serve"], settings);
  expect([refused.code, refused.stdout + refused.stderr]).toEqual([
    1,
    expect.stringContaining(NEWER),
  ]);
  await expectAsBefore({ ...settings, DATABASE_URL: database.replace(name, backup) }, customer);
  await admin.unsafe(`drop database ${backup} with (force)`);
  await admin.close();
  await dropPostgres(database);
  temp.remove();
});

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
