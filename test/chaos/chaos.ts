// Three gateways on one PostgreSQL serve calls while they, the store and the connections between them fail. Afterwards the
// ledger must be exact, and nothing may hang or stay open. Faults and calls come from the seed; their timing does not.

import { SQL } from "bun";
import { spawn } from "node:child_process";
import path from "node:path";
import { deposit, startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { verifyLedger } from "../../src/ledger/verify/verify.ts";
import { type Db, text } from "../../src/store/db.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { type Random, randomFor } from "../fuzz/random.ts";
import { promoDeposit } from "../ledger/fixtures.ts";
import { eventually } from "../support/eventually.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty-proxy.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { CLIENTS } from "./clients.ts";
import { type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";

export interface ChaosOptions {
  readonly seed: number;
  readonly faults: number;
  readonly onFault?: (name: string) => void;
}

export interface ChaosResult {
  readonly failures: readonly string[];
  readonly calls: number;
  /** Calls whose whole reply arrived. */
  readonly completed: number;
}

interface ChaosRun {
  readonly random: Random;
  readonly databaseUrl: string;
  readonly proxy: FaultyProxy;
  readonly processes: readonly GatewayProcess[];
  /** In this process, with a clock that jumps. */
  readonly gateway: Gateway;
  readonly keys: readonly string[];
  readonly clock: { offsetMs: number };
  readonly completed: string[];
  readonly failures: string[];
  calls: number;
  isOver: boolean;
}

const CALLERS = 12;
/** Faults follow each other after this many calls. */
const CALLS_PER_FAULT = 40;
/** A call that takes longer hangs: longer than any timeout on its way. */
const HANG_MS = 50_000;
const HOUR_MS = 3_600_000;
const SECRET = "chaos".repeat(8);
const CREDIT = 1_000_000_000_000n;

type Fault = (run: ChaosRun) => Promise<void>;

const FAULTS: Readonly<Record<string, Fault>> = {
  "kill a gateway": async ({ random, processes }) => {
    await random.pickFrom(processes)?.kill();
  },
  // PostgreSQL ends all sessions and recovers from its log when one of its processes is killed.
  "kill PostgreSQL": async ({ databaseUrl }) => {
    const admin = new SQL(databaseUrl, { max: 1 });
    const found = await admin.unsafe("select pg_backend_pid() as pid");
    process.kill(Number(found[0]?.pid), "SIGKILL");
    await admin.close({ timeout: 0 }).catch(() => {});
  },
  "reset the connections to PostgreSQL": async (run) => {
    run.proxy.stop();
    await waitForCalls(run, CALLERS);
    await run.proxy.restart();
  },
  "delay the connections to PostgreSQL": async (run) => {
    run.proxy.delay(10 + run.random.integer(60));
    await waitForCalls(run, CALLS_PER_FAULT);
    run.proxy.delay(0);
  },
  // Every insert fails with the error of a full disk.
  "fill the disk": async (run) => {
    await runAdmin(run, [
      "create or replace function disk_full() returns trigger language plpgsql as $$ begin raise exception 'disk full' using errcode = '53100'; end $$",
      ...GROWING_TABLES.map(
        (table) =>
          `create trigger disk_full before insert on ${table} execute function disk_full()`,
      ),
    ]);
    await waitForCalls(run, CALLERS);
    await runAdmin(
      run,
      GROWING_TABLES.map((table) => `drop trigger disk_full on ${table}`),
    );
  },
  "make PostgreSQL read-only": async (run) => {
    const endSessions =
      "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    await runAdmin(run, [
      "alter database postgres set default_transaction_read_only = on",
      endSessions,
    ]);
    await waitForCalls(run, CALLERS);
    await runAdmin(run, [
      "set default_transaction_read_only = off",
      "alter database postgres reset default_transaction_read_only",
      endSessions,
    ]);
  },
  "lose the reply to a commit": ({ proxy }) => proxy.cutAtCommit("after"),
  "lose a commit": ({ proxy }) => proxy.cutAtCommit("before"),
  "set a clock forward": async ({ clock, random }) => {
    clock.offsetMs += random.integer(3 * HOUR_MS);
  },
  "set a clock back": async ({ clock, random }) => {
    clock.offsetMs -= random.integer(3 * HOUR_MS);
  },
};

const GROWING_TABLES = ["hold", "transfer", "usage_record"] as const;

async function runAdmin(
  { databaseUrl }: Pick<ChaosRun, "databaseUrl">,
  statements: readonly string[],
): Promise<void> {
  const admin = new SQL(databaseUrl, { max: 1 });
  for (const statement of statements) await admin.unsafe(statement);
  await admin.close({ timeout: 0 }).catch(() => {});
}

export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const postgres = await startPostgres();
  const run = await startRun(options.seed, postgres.url);
  try {
    const callers = Array.from({ length: CALLERS }, (_, caller) => runCaller(run, options, caller));
    for (const name of faultOrder(run.random, options.faults)) {
      await waitForCalls(run, CALLS_PER_FAULT);
      options.onFault?.(name);
      await FAULTS[name]?.(run);
    }
    await waitForCalls(run, CALLS_PER_FAULT);
    run.isOver = true;
    await Promise.all(callers);
    await stopAndCheck(run);
  } finally {
    for (const { end } of run.processes) end();
    run.proxy.stop();
    postgres.stop();
  }
  const { failures, calls, completed } = run;
  return { failures, calls, completed: completed.length };
}

/** Every fault once, in an order from the seed, before one repeats: a short run has most of them. */
function faultOrder(random: Random, count: number): readonly string[] {
  const names: string[] = [];
  while (names.length < count) {
    const left = Object.keys(FAULTS);
    while (left.length > 0) names.push(...left.splice(random.integer(left.length), 1));
  }
  return names.slice(0, count);
}

async function startRun(seed: number, databaseUrl: string): Promise<ChaosRun> {
  const proxy = await startFaultyProxy(databaseUrl);
  const db = openPostgres(databaseUrl);
  await migrate(db, Date.now());
  const clock = { offsetMs: 0 };
  const gateway = await startGateway({
    databaseUrl: proxy.url,
    now: () => Date.now() + clock.offsetMs,
    env: { POSTERN_PROCESS_NAME: "chaos:clock", POSTERN_SECRET: SECRET },
    logLevel: "warn",
  });
  const settings = {
    DATABASE_URL: proxy.url,
    POSTERN_SECRET: SECRET,
    SIM_BASE_URL: gateway.simulatorUrl,
  };
  const processes = [await startGatewayProcess(settings), await startGatewayProcess(settings)];
  const accounts = await Promise.all([0, 1, 2].map(() => registerAccount(gateway)));
  await db.write(async (tx) => {
    for (const { id } of accounts) await deposit(tx, promoDeposit(`chaos.${id}`, id, CREDIT, 1));
  });
  await db.close();
  return {
    random: randomFor(seed, -1),
    databaseUrl,
    proxy,
    processes,
    gateway,
    keys: accounts.map(({ key }) => key),
    clock,
    completed: [],
    failures: [],
    calls: 0,
    isOver: false,
  };
}

async function runCaller(run: ChaosRun, { seed }: ChaosOptions, caller: number): Promise<void> {
  const urls = [...run.processes.map(({ url }) => url), run.gateway.url];
  for (let call = 0; !run.isOver; call++) {
    const random = randomFor(seed, caller + call * CALLERS);
    const name = random.pickFrom(Object.keys(CLIENTS)) ?? "";
    const target = { url: random.pickFrom(urls) ?? "", key: random.pickFrom(run.keys) ?? "" };
    const hung = Promise.withResolvers<string>();
    const timer = setTimeout(() => hung.resolve("hung"), HANG_MS);
    const served = CLIENTS[name]?.(target, random).catch(() => undefined);
    const outcome = await Promise.race([served, hung.promise]);
    clearTimeout(timer);
    if (outcome === "hung")
      run.failures.push(`a call hung: ${name}, caller ${caller}, call ${call}`);
    else if (outcome !== undefined) run.completed.push(outcome);
    run.calls += 1;
  }
}

async function waitForCalls(run: ChaosRun, count: number): Promise<void> {
  const until = run.calls + count;
  await eventually(() => run.calls >= until, { timeoutMs: HANG_MS * 2 });
}

async function stopAndCheck(run: ChaosRun): Promise<void> {
  const { failures, processes, gateway } = run;
  const codes = await Promise.all(processes.map(({ stop }) => stop()));
  if (codes.some((code) => code !== 0)) failures.push(`gateways exited with ${codes.join(", ")}`);
  await eventually(async () => (await openStreams(gateway)) === 0).catch(() =>
    failures.push("streams of the provider are open"),
  );
  await gateway.stop();
  await eventually(async () => (await openConnections(run.databaseUrl)) === 0).catch(() =>
    failures.push("connections to PostgreSQL are open"),
  );
  const db = openPostgres(run.databaseUrl);
  await checkStore(run, db);
  await db.close();
}

async function openStreams({ simulatorUrl }: Gateway): Promise<number> {
  const response = await fetch(`${simulatorUrl}/sim/stats`);
  // Safe: without the number the condition never becomes true, which is reported.
  return ((await response.json()) as { open_streams: number }).open_streams;
}

async function openConnections(databaseUrl: string): Promise<number> {
  const admin = new SQL(databaseUrl, { max: 1 });
  const found = await admin.unsafe(
    "select count(*) as count from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
  );
  await admin.close();
  return Number(found[0]?.count);
}

async function checkStore({ failures, completed }: ChaosRun, db: Db): Promise<void> {
  // A start ends the epoch of the process before, as after a crash.
  for (const row of await db.all("select name from process"))
    await startEpoch(db, text(row, "name"), Date.now());
  await sweepHolds(db, Date.now());
  const { problems, checked } = await verifyLedger(db);
  failures.push(...problems);
  if (checked.holds !== 0) failures.push(`${checked.holds} holds are open`);
  const rows = await db.all("select id from usage_record");
  const recorded = new Set(rows.map((row) => text(row, "id")));
  for (const id of completed)
    if (!recorded.has(id)) failures.push(`call ${id} was served and not recorded`);
}

/** A server of its own, because it is killed. */
function startPostgres(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const script = path.resolve(import.meta.dirname, "../support/stores/postgres-server.mjs");
  const server = spawn("node", [script, "log_min_messages=panic"], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  return new Promise((resolve, reject) => {
    server.stdout.setEncoding("utf8").once("data", (line: string) => {
      resolve({ url: line.trim(), stop: () => server.stdin.end() });
    });
    server.on("exit", (code) => reject(new Error(`PostgreSQL exited with ${code}`)));
  });
}
