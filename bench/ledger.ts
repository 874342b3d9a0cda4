// Benchmarks the ledger: holds, settlements and usage records per second on both stores, on disk and with durable commits.
// Run it with `node bin/bun.js bench/ledger.ts`.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { newId } from "../src/base/id.ts";
import { type BufferedDb, bufferHolds } from "../src/ledger/commit/hold-buffer.ts";
import { createLedger, deposit, startEpoch } from "../src/ledger/ledger.ts";
import { verifyLedger } from "../src/ledger/verify/verify.ts";
import type { Db } from "../src/store/db.ts";
import { migrate } from "../src/store/migrate.ts";
import { openPostgres } from "../src/store/postgres.ts";
import { openSqlite } from "../src/store/sqlite.ts";
import { insertUsage } from "../src/usage/insert-usage.ts";
import type { UsageRecord } from "../src/usage/usage.ts";
import { openAccount, promoDeposit, usageRecord } from "../test/ledger/fixtures.ts";
import { testPostgres } from "../test/support/stores/postgres.ts";

const MEASURE_MS = Number(process.env["POSTERN_BENCH_MS"] ?? 1_500);
const WARM_UP_MS = 400;
const { values: args } = parseArgs({
  options: {
    accounts: { type: "string", default: "1,1000" },
    callers: { type: "string", default: "1,32,1000" },
    store: { type: "string" },
  },
});
const CALLERS = args.callers.split(",").map(Number);
const ACCOUNTS = args.accounts.split(",").map(Number);
const ACCOUNTS_PER_TRANSACTION = 1_000;
const INITIAL_BALANCE = 1_000_000_000_000n;

interface BenchResult {
  readonly calls: number;
  readonly seconds: number;
  readonly cpuMicros: number;
  readonly latencies: readonly number[];
}

const verifications: string[] = [];
console.log("| store | accounts | callers | calls/s | CPU µs/call | p50 ms | p99 ms |");
console.log("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
for (const kind of ["sqlite", "postgres"] as const) {
  if (args.store !== undefined && args.store !== kind) continue;
  const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
  const holdBuffer =
    kind === "sqlite" ? bufferHolds(openSqlite({ folder, lock: true })) : undefined;
  const db = holdBuffer ?? openPostgres(await testPostgres());
  await migrate(db, Date.now());
  const epoch = await startEpoch(db, "bench", Date.now());
  for (const accounts of ACCOUNTS) {
    const owners = await openAccounts(db, accounts);
    for (const callers of CALLERS) {
      const load = { db, holdBuffer, epoch, owners, callers };
      await measure({ ...load, forMs: WARM_UP_MS });
      printRow(kind, accounts, callers, await measure({ ...load, forMs: MEASURE_MS }));
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
console.log(["", ...verifications].join("\n"));
process.exit(0);

async function openAccounts(db: Db, count: number): Promise<readonly string[]> {
  const now = Date.now();
  const owners = Array.from({ length: count }, () => newId("acct", now));
  for (let from = 0; from < count; from += ACCOUNTS_PER_TRANSACTION)
    await db.write(async (tx) => {
      for (const owner of owners.slice(from, from + ACCOUNTS_PER_TRANSACTION)) {
        await openAccount(tx, owner, [`${owner}.k`], now);
        await deposit(tx, promoDeposit(`start.${owner}`, owner, INITIAL_BALANCE, now));
      }
    });
  return owners;
}

interface BenchRun {
  readonly db: Db;
  readonly holdBuffer: BufferedDb | undefined;
  readonly epoch: number;
  readonly owners: readonly string[];
  readonly callers: number;
  readonly forMs: number;
}

async function measure({
  db,
  holdBuffer,
  epoch,
  owners,
  callers,
  forMs,
}: BenchRun): Promise<BenchResult> {
  const ledger = createLedger<UsageRecord>({
    db,
    holdBuffer,
    process: "bench",
    epoch,
    writeRecords: insertUsage,
  });
  const latencies: number[] = [];
  const started = performance.now();
  const cpu = process.cpuUsage();
  const runCaller = async (callerIndex: number): Promise<void> => {
    for (let callIndex = callerIndex; performance.now() - started < forMs; callIndex += callers) {
      // Neighbors in the order of creation share pages of the tables.
      const accountId = owners[Math.floor(Math.random() * owners.length)] ?? "";
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
  await Promise.all(Array.from({ length: callers }, (_, callerIndex) => runCaller(callerIndex)));
  const { user, system } = process.cpuUsage(cpu);
  return {
    calls: latencies.length,
    seconds: (performance.now() - started) / 1_000,
    cpuMicros: user + system,
    latencies,
  };
}

function printRow(kind: string, accounts: number, callers: number, result: BenchResult): void {
  const sorted = result.latencies.toSorted((a, b) => a - b);
  const percentile = (share: number): string =>
    (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2);
  const whole = (value: number): string => Math.round(value).toLocaleString("en");
  const columns = [
    kind,
    accounts,
    callers,
    whole(result.calls / result.seconds),
    whole(result.cpuMicros / result.calls),
    percentile(0.5),
    percentile(0.99),
  ];
  console.log(`| ${columns.join(" | ")} |`);
}
