// How long requests wait in a gateway while its ledger is verified as POSTERN_VERIFY_LEDGER_HOURS does it, in a process of its own, and
// beside a quiet gateway. `node bin/bun.js bench/verification.ts [records] [--store sqlite|postgres]`; the default is 100000.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { commandRunner } from "../src/commands/workers/worker-process.ts";
import { openPostgres } from "../src/store/postgres.ts";
import { openSqlite } from "../src/store/sqlite.ts";
import { testPostgres } from "../test/support/stores/postgres.ts";
import { createFilledAccount, fillStore } from "./growth-records.ts";
import { startServer } from "./server-process.ts";

const DAYS = 30;
const RECORDS_PER_SMALL_ACCOUNT = 50;
const PAUSE_MS = 5;
const QUIET_MS = 10_000;
const PROGRAM = [process.execPath, path.join(import.meta.dir, "../src/main.ts")];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { store: { type: "string" } },
});
const records = Number(positionals[0] ?? 100_000);
console.log("| Store | Beside | Seconds | p50, ms | p99, ms | Longest, ms |");
console.log("| --- | --- | ---: | ---: | ---: | ---: |");
for (const kind of ["sqlite", "postgres"] as const)
  if (values.store === undefined || values.store === kind) await measureStore(kind);
process.exit(0);

async function measureStore(kind: "sqlite" | "postgres"): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-verification-"));
  const url = kind === "postgres" ? await testPostgres() : undefined;
  const env = {
    POSTERN_DATA_DIR: folder,
    POSTERN_SECRET: "a secret of the verification benchmark",
    ...(url === undefined ? {} : { DATABASE_URL: url }),
  };
  const server = await startServer(["serve"], env);
  const db = url === undefined ? openSqlite({ folder, lock: false }) : openPostgres(url);
  const smallAccounts = Math.ceil(records / RECORDS_PER_SMALL_ACCOUNT);
  const account = await createFilledAccount(server.url);
  await fillStore(db, account, { records, smallAccounts, days: DAYS, now: Date.now() });
  await db.close();
  const verify = async (...flags: readonly string[]): Promise<void> => {
    const run = commandRunner(PROGRAM, { ...process.env, ...env });
    const output = await run(["admin", "verify-ledger", "--json", ...flags]);
    if (!output.includes('"problem_count":0')) throw new Error(output);
  };
  await measureWaits(`${kind} | nothing`, server.url, () => Bun.sleep(QUIET_MS));
  await measureWaits(`${kind} | a verification in full`, server.url, () => verify("--full"));
  await verify();
  await measureWaits(`${kind} | a verification after a checkpoint`, server.url, () => verify());
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function measureWaits(name: string, url: string, work: () => Promise<void>): Promise<void> {
  const waits: number[] = [];
  const began = performance.now();
  const isDone = new AbortController();
  const working = work().finally(() => isDone.abort());
  while (!isDone.signal.aborted) {
    const sent = performance.now();
    await (await fetch(`${url}/healthz`)).text();
    waits.push(performance.now() - sent);
    await Bun.sleep(PAUSE_MS);
  }
  await working;
  const seconds = (performance.now() - began) / 1_000;
  const sorted = waits.toSorted((one, other) => one - other);
  const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1);
  console.log(`| ${name} | ${seconds.toFixed(1)} | ${at(0.5)} | ${at(0.99)} | ${at(1)} |`);
}
