// Three gateways on one PostgreSQL server: two in their own processes, and one in this process with a clock that jumps.

import { SQL } from "bun";
import { migrate } from "../../src/store/migrate.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import type { Random } from "../fuzz/random.ts";
import { eventually, eventuallyPasses } from "../support/eventually.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty-proxy.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { type OwnPostgres, startOwnPostgres } from "../support/stores/own-postgres.ts";
import { type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { type OpenTimers, trackTimers } from "./open-timers.ts";
import {
  ACCOUNTS,
  CALLERS,
  CALLS_PER_FAULT,
  type ChaosTarget,
  createAccounts,
  type Fault,
} from "./target.ts";

interface Parts {
  readonly random: Random;
  readonly databaseUrl: string;
  readonly postgres: OwnPostgres;
  readonly proxy: FaultyProxy;
  readonly processes: readonly GatewayProcess[];
  readonly clock: { offsetMs: number };
}

const HOUR_MS = 3_600_000;
const SECRET = "chaos".repeat(8);
const GROWING_TABLES = ["hold", "transfer", "usage_record"] as const;
const END_SESSIONS =
  "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";

export async function startPostgresTarget(
  random: Random,
  hasBusyKey: boolean,
): Promise<ChaosTarget> {
  const postgres = await startOwnPostgres();
  const databaseUrl = postgres.url;
  const proxy = await startFaultyProxy(databaseUrl);
  const db = openPostgres(databaseUrl);
  await migrate(db, Date.now());
  const clock = { offsetMs: 0 };
  const timers = trackTimers();
  const shared = {
    POSTERN_SECRET: SECRET,
    // Leases count calls towards the rate limit in advance.
    ...(hasBusyKey && { POSTERN_REQUESTS_PER_MINUTE: "30000" }),
  };
  const gateway = await startGateway({
    databaseUrl: proxy.url,
    now: () => Date.now() + clock.offsetMs,
    env: { POSTERN_PROCESS_NAME: "chaos:clock", ...shared },
    logLevel: "warn",
  });
  const settings = {
    DATABASE_URL: proxy.url,
    ...shared,
    SIM_BASE_URL: gateway.simulatorUrl,
  };
  const processes = [await startGatewayProcess(settings), await startGatewayProcess(settings)];
  return {
    urls: [...processes.map(({ url }) => url), gateway.url],
    keys: await createAccounts(gateway.url, db, hasBusyKey ? 1 : ACCOUNTS),
    simulatorUrl: gateway.simulatorUrl,
    faults: createFaults({ random, databaseUrl, postgres, proxy, processes, clock }),
    openStore: () => openPostgres(databaseUrl),
    stop: () => stopGateways(processes, gateway, { databaseUrl, timers }),
    end: () => {
      timers.stop();
      for (const { end } of processes) end();
      proxy.stop();
      postgres.stop();
    },
  };
}

function createFaults(parts: Parts): Readonly<Record<string, Fault>> {
  return {
    ...processFaults(parts),
    ...connectionFaults(parts),
    ...storageFaults(parts),
    ...clockFaults(parts),
  };
}

function processFaults({
  random,
  databaseUrl,
  postgres,
  processes,
}: Parts): Readonly<Record<string, Fault>> {
  return {
    "kill a gateway": async () => {
      await random.pickFrom(processes)?.killAndStart();
    },
    "restart a gateway": async () => {
      await random.pickFrom(processes)?.restart();
    },
    // PostgreSQL ends all sessions and recovers from its log when one of its processes is killed.
    "kill PostgreSQL": async () => {
      const admin = new SQL(databaseUrl, { max: 1 });
      const found = await admin.unsafe("select pg_backend_pid() as pid");
      process.kill(Number(found[0]?.pid), "SIGKILL");
      await admin.close({ timeout: 0 }).catch(() => {});
      await eventuallyPasses(() => runStatements(databaseUrl, ["select 1"]));
    },
    "restart PostgreSQL": postgres.restart,
  };
}

function connectionFaults({ random, proxy }: Parts): Readonly<Record<string, Fault>> {
  return {
    "reset the connections to PostgreSQL": async (waitForCalls) => {
      proxy.stop();
      await waitForCalls(CALLERS);
      await proxy.restart();
    },
    "delay the connections to PostgreSQL": async (waitForCalls) => {
      proxy.delay(10 + random.integer(60));
      await waitForCalls(CALLS_PER_FAULT);
      proxy.delay(0);
    },
    "lose the reply to a commit": () => proxy.cutAtCommit("after"),
    "lose a commit": () => proxy.cutAtCommit("before"),
  };
}

function storageFaults({ databaseUrl }: Parts): Readonly<Record<string, Fault>> {
  const run = (statements: readonly string[]) => runStatements(databaseUrl, statements);
  return {
    // Every insert fails with the error of a full disk.
    "fill the disk": async (waitForCalls) => {
      await run([
        "create or replace function disk_full() returns trigger language plpgsql as $$ begin raise exception 'disk full' using errcode = '53100'; end $$",
        ...GROWING_TABLES.map(
          (table) =>
            `create trigger disk_full before insert on ${table} execute function disk_full()`,
        ),
      ]);
      await waitForCalls(CALLERS);
      await run(GROWING_TABLES.map((table) => `drop trigger disk_full on ${table}`));
    },
    "make PostgreSQL read-only": async (waitForCalls) => {
      await run(["alter database postgres set default_transaction_read_only = on", END_SESSIONS]);
      await waitForCalls(CALLERS);
      await run([
        "set default_transaction_read_only = off",
        "alter database postgres reset default_transaction_read_only",
        END_SESSIONS,
      ]);
    },
  };
}

function clockFaults({ random, clock }: Parts): Readonly<Record<string, Fault>> {
  return {
    "set a clock forward": async () => {
      clock.offsetMs += random.integer(3 * HOUR_MS);
    },
    "set a clock back": async () => {
      clock.offsetMs -= random.integer(3 * HOUR_MS);
    },
  };
}

async function runStatements(databaseUrl: string, statements: readonly string[]): Promise<void> {
  const admin = new SQL(databaseUrl, { max: 1 });
  for (const statement of statements) await admin.unsafe(statement);
  await admin.close({ timeout: 0 }).catch(() => {});
}

async function stopGateways(
  processes: readonly GatewayProcess[],
  gateway: Gateway,
  { databaseUrl, timers }: { readonly databaseUrl: string; readonly timers: OpenTimers },
): Promise<readonly string[]> {
  const problems: string[] = [];
  const codes = await Promise.all(processes.map(({ stop }) => stop()));
  if (codes.some((code) => code !== 0)) problems.push(`gateways exited with ${codes.join(", ")}`);
  await gateway.stop();
  await eventually(async () => (await openConnections(databaseUrl)) === 0).catch(() =>
    problems.push("connections to PostgreSQL are open"),
  );
  await eventually(() => timers.count() === 0).catch(() =>
    problems.push(`${timers.count()} timers of a stopped gateway remain`),
  );
  return problems;
}

async function openConnections(databaseUrl: string): Promise<number> {
  const admin = new SQL(databaseUrl, { max: 1 });
  const found = await admin.unsafe(
    "select count(*) as count from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
  );
  await admin.close();
  return Number(found[0]?.count);
}
