// Benchmarks the ledger: holds, settlements and usage records per second on both stores, on disk and with durable commits.
// Also prints the CPU of PostgreSQL's processes and, on SQLite, the pages written, with those of checkpoints; both on Linux only.
// Run it with `node bin/bun.js bench/ledger.ts [--accounts 1,1000] [--callers 1,32,1000] [--store sqlite] [--draw zipf] [--commit os_cache]`.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { newId } from "../src/base/id.ts";
import { type BufferedDb, bufferHolds } from "../src/ledger/commit/hold-buffer.ts";
import { createLedger, deposit, startEpoch } from "../src/ledger/ledger.ts";
import type { Db } from "../src/store/db.ts";
import { migrate } from "../src/store/migrate.ts";
import { openPostgres } from "../src/store/postgres.ts";
import { openSqlite } from "../src/store/sqlite.ts";
import { insertUsage } from "../src/usage/insert-usage.ts";
import type { UsageRecord } from "../src/usage/usage.ts";
import { verifyLedger } from "../src/verification/verify.ts";
import { openAccount, promoDeposit, usageRecord } from "../test/ledger/fixtures.ts";
import { exitIfInterrupted, startScriptProgress } from "../test/support/script-progress.ts";
import { testPostgres } from "../test/support/stores/postgres.ts";

const MEASURE_MS = Number(process.env["POSTERN_BENCH_MS"] ?? 1_500);
const WARM_UP_MS = 400;
const { values: args } = parseArgs({
  options: {
    accounts: { type: "string", default: "1,1000" },
    callers: { type: "string", default: "1,32,1000" },
    store: { type: "string" },
    /** As POSTERN_COMMIT. */
    commit: { type: "string", default: "disk" },
    /** `uniform`: all accounts are equally busy. `zipf`: the one of rank n has 1/n of the calls of the first. */
    draw: { type: "string", default: "uniform" },
    /** Measures this number of calls, after as many that are not measured, instead of a duration: pages written depend on the size of the indexes. */
    calls: { type: "string" },
  },
});
const CALLS = args.calls === undefined ? Number.POSITIVE_INFINITY : Number(args.calls);
const COMMIT = args.commit === "os_cache" ? "os_cache" : "disk";
const PAGE_BYTES = 4_096;
const MICROS_PER_CLOCK_TICK = 10_000;
const CALLERS = args.callers.split(",").map(Number);
const ACCOUNTS = args.accounts.split(",").map(Number);
const ACCOUNTS_PER_TRANSACTION = 1_000;
const INITIAL_BALANCE = 1_000_000_000_000n;

interface BenchResult {
  readonly calls: number;
  readonly seconds: number;
  readonly cpuMicros: number;
  readonly serverCpuMicros: number | undefined;
  readonly pages: number | undefined;
  readonly latencies: readonly number[];
}

const ROWS = (args.store === undefined ? 2 : 1) * ACCOUNTS.length * CALLERS.length;
const progress = startScriptProgress({
  unit: "rows",
  verb: "measured",
  whenInterrupted: "Nothing is kept: run node bin/bun.js bench/ledger.ts again.",
});
let rows = 0;
const verifications: string[] = [];
console.log(
  "| store | accounts | callers | calls/s | CPU µs/call | PostgreSQL µs/call | pages/call | p50 ms | p99 ms |",
);
console.log("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
for (const kind of ["sqlite", "postgres"] as const) {
  if (args.store !== undefined && args.store !== kind) continue;
  const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
  const holdBuffer =
    kind === "sqlite" ? bufferHolds(openSqlite({ folder, lock: true })) : undefined;
  const db =
    holdBuffer ?? openPostgres(await testPostgres(), { syncsEveryCommit: COMMIT === "disk" });
  await migrate(db, Date.now());
  const epoch = await startEpoch(db, "bench", Date.now());
  for (const accounts of ACCOUNTS) {
    const owners = await openAccounts(db, accounts);
    const draw = createDraw(owners);
    for (const callers of CALLERS) {
      const load = { db, holdBuffer, epoch, draw, callers };
      await measure({ ...load, forMs: WARM_UP_MS });
      printRow(kind, accounts, callers, await measure({ ...load, forMs: MEASURE_MS }));
      try {
        progress.update((rows += 1), ROWS, kind);
      } catch (error) {
        await db.close();
        rmSync(folder, { recursive: true, force: true });
        exitIfInterrupted(error);
      }
    }
  }
  const startedAt = performance.now();
  const { problems, checked } = await verifyLedger(db);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  const calls = checked.usageRecords.toLocaleString("en");
  verifications.push(
    `verify-ledger on ${kind}: verified ${calls} calls in ${seconds} s, no problems`,
  );
  await db.close();
  rmSync(folder, { recursive: true, force: true });
}
progress.end(rows);
console.log(["", ...verifications].join("\n"));
process.exit(0);

async function openAccounts(db: Db, count: number): Promise<readonly string[]> {
  const now = Date.now();
  const owners = Array.from({ length: count }, () => newId("acct", now));
  for (let from = 0; from < count; from += ACCOUNTS_PER_TRANSACTION)
    await db.write(async (tx) => {
      const open = async (owner: string): Promise<void> => {
        await openAccount(tx, owner, [`${owner}.k`], now);
        await deposit(tx, promoDeposit(`start.${owner}`, owner, INITIAL_BALANCE, now));
      };
      await Promise.all(owners.slice(from, from + ACCOUNTS_PER_TRANSACTION).map(open));
    });
  // As autovacuum does within a minute: without statistics, PostgreSQL may read whole tables instead of an index.
  if (db.kind === "postgres") await db.all("analyze");
  return owners;
}

/** Neighbors in the order of creation share pages of the tables, so busy accounts must not be neighbors. */
function createDraw(owners: readonly string[]): () => string {
  const pick = (index: number): string => owners[index] ?? "";
  if (args.draw === "uniform") return () => pick(Math.floor(Math.random() * owners.length));
  const shuffled = owners.toSorted(() => Math.random() - 0.5);
  let total = 0;
  const sums = Float64Array.from(shuffled, (_, index) => (total += 1 / (index + 1)));
  return () => {
    const target = Math.random() * total;
    let [low, high] = [0, sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) < target) low = middle + 1;
      else high = middle;
    }
    return shuffled[low] ?? "";
  };
}

/** The CPU time of the PostgreSQL server and all its processes. */
async function serverCpu(db: Db): Promise<number> {
  if (db.kind === "sqlite") return 0;
  const row = await db.get("select pg_backend_pid() as pid");
  const stats = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(statOf);
  const server = stats.find(({ pid }) => pid === row?.["pid"])?.parent;
  return stats
    .filter(({ parent }) => parent === server)
    .reduce((sum, { ticks }) => sum + ticks * MICROS_PER_CLOCK_TICK, 0);
}

function statOf(pid: string): { pid: number; parent: number; ticks: number } {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the name, which may contain spaces: state, parent, … and as the 12th and 13th field the times.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { pid: Number(pid), parent: Number(fields[1]), ticks };
  } catch {
    // It ended meanwhile.
    return { pid: Number(pid), parent: 0, ticks: 0 };
  }
}

function writtenBytes(): number {
  const io = readFileSync("/proc/self/io", "utf8");
  return Number(/^wchar: (\d+)$/m.exec(io)?.[1]);
}

interface BenchRun {
  readonly db: Db;
  readonly holdBuffer: BufferedDb | undefined;
  readonly epoch: number;
  readonly draw: () => string;
  readonly callers: number;
  readonly forMs: number;
}

async function measure({
  db,
  holdBuffer,
  epoch,
  draw,
  callers,
  forMs,
}: BenchRun): Promise<BenchResult> {
  const ledger = createLedger<UsageRecord>({
    db,
    holdBuffer,
    commit: COMMIT,
    process: "bench",
    epoch,
    writeRecords: insertUsage,
  });
  const latencies: number[] = [];
  const started = performance.now();
  const isMeasurable = process.platform === "linux";
  const serverBefore = isMeasurable ? await serverCpu(db) : 0;
  const writtenBefore = isMeasurable ? writtenBytes() : 0;
  const cpu = process.cpuUsage();
  let begun = 0;
  const runCaller = async (): Promise<void> => {
    while (
      CALLS === Number.POSITIVE_INFINITY ? performance.now() - started < forMs : begun < CALLS
    ) {
      begun += 1;
      const accountId = draw();
      const keyId = `${accountId}.k`;
      const now = Date.now();
      const id = newId("req", now);
      const began = performance.now();
      const holdRequest = { id, accountId, keyId, amount: 40_000n, now, expiresAt: now + 900_000 };
      const held = ledger.tryHoldSync(holdRequest) ?? (await ledger.hold(holdRequest));
      if (held.status !== "held") throw new Error(held.status);
      const record = usageRecord({ id, accountId, keyId, cost: 12_345n, createdAt: now });
      await ledger.settle({ id, accountId, keyId, cost: 12_345n, now, record });
      latencies.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: callers }, runCaller));
  const seconds = (performance.now() - started) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    calls: latencies.length,
    seconds,
    cpuMicros: user + system,
    serverCpuMicros:
      isMeasurable && db.kind === "postgres" ? (await serverCpu(db)) - serverBefore : undefined,
    pages:
      isMeasurable && db.kind === "sqlite"
        ? (writtenBytes() - writtenBefore) / PAGE_BYTES
        : undefined,
    latencies,
  };
}

function printRow(kind: string, accounts: number, callers: number, result: BenchResult): void {
  const sorted = result.latencies.toSorted((a, b) => a - b);
  const percentile = (share: number): string =>
    (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2);
  const whole = (value: number): string => Math.round(value).toLocaleString("en");
  const perCall = (value: number | undefined): string =>
    value === undefined ? "" : (value / result.calls).toFixed(1);
  const columns = [
    kind,
    accounts,
    callers,
    whole(result.calls / result.seconds),
    (result.cpuMicros / result.calls).toFixed(1),
    perCall(result.serverCpuMicros),
    perCall(result.pages),
    percentile(0.5),
    percentile(0.99),
  ];
  console.log(`| ${columns.join(" | ")} |`);
}
