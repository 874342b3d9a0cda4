// Migrations beside other processes: on SQLite the lock of the data folder tells, on PostgreSQL the heartbeats.

import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { secret } from "../../src/base/crypto/secret.ts";
import { endEpoch, heartbeat, startEpoch } from "../../src/ledger/ledger.ts";
import { findRunningProcesses } from "../../src/ledger/running-processes.ts";
import { upgradeStore, type UpgradeOptions } from "../../src/server/upgrade-store.ts";
import { MIGRATIONS, missingMigrations } from "../../src/store/migrate.ts";
import type { StoreSettings } from "../../src/store/open.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { dropPostgres, migratedPostgres } from "../support/stores/postgres.ts";
import { openStore, type StoreLocation, type TestStore } from "../support/stores/stores.ts";

const SQL = "alter table email_opt_out add column note text;";
const LATER = [...MIGRATIONS, { name: "0002-note", sqlite: SQL, postgres: SQL }];
/** Shorter than the interval of heartbeats in production: tests write them as often as they need. */
const WATCH_MS = 600;

let beating: ReturnType<typeof setInterval> | undefined;
afterEach(() => clearInterval(beating));

async function startProcess(store: TestStore, name: string): Promise<number> {
  const epoch = await startEpoch(store.db, name, Date.now());
  beating = setInterval(
    () => void heartbeat(store.db, name, epoch, Date.now()).catch(() => {}),
    100,
  );
  return epoch;
}

function settingsOf({ kind, address }: StoreLocation): StoreSettings {
  return kind === "sqlite"
    ? { dataDir: address }
    : { databaseUrl: secret(address), dataDir: "", poolSize: 2 };
}

function options(): UpgradeOptions & { readonly applied: string[]; readonly backups: string[] } {
  const [applied, backups]: [string[], string[]] = [[], []];
  return {
    now: Date.now,
    migrations: LATER,
    watchMs: WATCH_MS,
    onApplied: (name, ms) => applied.push(`${name} ${ms >= 0}`),
    onBackup: (file) => backups.push(file),
    applied,
    backups,
  };
}

describe("migrations of a store that is in use", () => {
  test("on PostgreSQL are refused while a process has a heartbeat, unless they are forced", async () => {
    const store = await openStore("postgres");
    const settings = settingsOf(store.location);
    await startProcess(store, "gateway-1");
    const watching = upgradeStore(settings, { ...options(), watchMs: 60_000 });
    expect(await rejectionMessage(watching)).toMatch(
      /older version still use the store \(gateway-1\): stop all of them .* --force/,
    );
    expect(await missingMigrations(store.db, LATER)).toEqual(["0002-note"]);
    const forced = options();
    expect(await upgradeStore(settings, { ...forced, isForced: true })).toEqual(["0002-note"]);
    expect(forced.applied).toEqual(["0002-note true"]);
    clearInterval(beating);
    await store.close();
  });

  test("on PostgreSQL wait for the heartbeat of a process that was killed, and not for one that stopped", async () => {
    const store = await openStore("postgres");
    await startEpoch(store.db, "killed", Date.now());
    expect(await upgradeStore(settingsOf(store.location), options())).toEqual(["0002-note"]);
    await store.close();

    const other = await openStore("postgres");
    const epoch = await startEpoch(other.db, "stopped", Date.now());
    await endEpoch(other.db, "stopped", epoch, Date.now());
    // Without `watchMs` it would watch a heartbeat for twelve seconds, longer than the store takes to close.
    const running = findRunningProcesses(other.db, { now: Date.now(), watchMs: 1e9 });
    expect(await running).toEqual([]);
    await other.close();
  });

  test("on SQLite are refused while the data folder is locked, and back up the store first", async () => {
    const store = await openStore("sqlite");
    const settings = settingsOf(store.location);
    const serving = openSqlite({ folder: store.location.address, lock: true });
    expect(await rejectionMessage(upgradeStore(settings, options()))).toContain(
      "is in use by another Postern: stop it",
    );
    await serving.close();
    const done = options();
    expect(await upgradeStore(settings, done)).toEqual(["0002-note"]);
    expect(done.backups).toHaveLength(1);
    const backup = readdirSync(store.location.address).find((name) =>
      name.startsWith("before-0002-note-"),
    );
    expect(done.backups[0]).toEndWith(backup ?? "a backup");
    expect(await upgradeStore(settings, options())).toEqual([]);
    await store.close();
  });

  for (const kind of ["sqlite", "postgres"] as const)
    test(`stop a serving process of an older version on ${kind}`, async () => {
      const gateway = await startGateway({ store: kind });
      await gateway.server.db.write((tx) =>
        tx.run("insert into migration (name, applied_at) values ('9999-future', 1)"),
      );
      const stopping = /^fatal: the store was migrated by a newer Postern \(9999-future\)/;
      await eventually(() => gateway.logLines.some((line) => stopping.test(line)));
      await gateway.stop();
    });
});

describe("the name of a process", () => {
  test("is refused while another process on PostgreSQL has its heartbeat, and free after that stopped", async () => {
    const env = { POSTERN_PROCESS_NAME: "gateway-1" };
    const databaseUrl = await migratedPostgres();
    const first = await startGateway({ databaseUrl, env });
    expect(await rejectionMessage(startGateway({ databaseUrl, env }))).toContain(
      "another process runs under the name gateway-1 on this store: set POSTERN_PROCESS_NAME",
    );
    // The healthy one still serves.
    expect(first.logLines.filter((line) => line.startsWith("fatal"))).toEqual([]);
    const other = await startGateway({ databaseUrl, env: { POSTERN_PROCESS_NAME: "gateway-2" } });
    await other.stop();
    await first.stop();
    const second = await startGateway({ databaseUrl, env });
    expect((await fetch(`${second.url}/readyz`)).status).toBe(200);
    await second.stop();
    await dropPostgres(databaseUrl);
  });
});
