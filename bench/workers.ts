// Benchmarks `postern serve --workers` on one PostgreSQL: JSON calls per second, the CPU time of a call in the gateway, in
// PostgreSQL and in the simulated provider, the first token of streams one after the other, and, in a round of its own, the
// statements of a commit. All processes share the machine: the provider does the same for each call, so its CPU time tells what
// more processes than cores cost. Run it with `node bin/bun.js bench/workers.ts [workers …]`; `4x256` is 4 workers under the load
// of 256 connections instead of 64.

import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { SQL } from "bun";
import { cpuOfOwnPostgres, startPostgres } from "./bench-postgres.ts";
import { generateLoad, type LoadResult, openSequentially } from "./load-generator.ts";
import { cpuSecondsOf, fundedKey, type ServerProcess, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 5);
const ROUNDS = 3;
const CONNECTIONS = 64;
/** Of each worker. Until its code is compiled, a call takes more than twice as much CPU time. */
const WARM_UP_CALLS = 20_000;
const SUBJECTS = process.argv.length > 2 ? process.argv.slice(2) : ["1", "2"];
const STREAMS = 150;
const REQUEST = {
  model: "sim/tiny",
  max_tokens: 16,
  messages: [{ role: "user", content: "x".repeat(900) }],
};
const BODY = JSON.stringify(REQUEST);

interface Row {
  readonly gateway: Gateway;
  readonly firstTokenMs: number;
  readonly load: LoadResult;
  readonly gatewayMicros: number;
  readonly postgresMicros: number;
  readonly providerMicros: number;
  readonly callsPerCommit: number;
}

const postgres = await startPostgres(["shared_preload_libraries=pg_stat_statements"]);
await trackStatements("none");
const simulator = await startServer(["simulate", "--port"], {});
const rows: Row[] = [];
const gateways: Gateway[] = [];
for (const subject of SUBJECTS) gateways.push(await startGateway(subject));
for (const gateway of gateways) await warmUp(gateway);
for (let round = 0; round < ROUNDS; round++)
  for (const gateway of gateways) rows.push(await measure(gateway));
console.log(
  `${cpus().length} cores, Bun ${Bun.version}, medians of ${ROUNDS} rounds of ${SECONDS} s`,
);
const statements = new Map<Gateway, string>();
for (const gateway of gateways)
  statements.set(gateway, (await countStatements(gateway)).toFixed(1));
console.log(
  "\n| workers | connections | calls/s | p50 ms | p99 ms | gateway µs/call | PostgreSQL µs/call | provider µs/call | calls per commit | statements per commit | first token ms | failures |",
);
console.log("|---|---|---|---|---|---|---|---|---|---|---|---|");
for (const gateway of gateways)
  printRow(
    gateway,
    rows.filter((row) => row.gateway === gateway),
  );
for (const { server } of gateways) await server.stop();
await simulator.stop();
postgres.stop();
process.exit(0);

interface Gateway {
  readonly workers: number;
  readonly connections: number;
  readonly server: ServerProcess;
  readonly databaseUrl: string;
  readonly key: string;
  readonly tree: () => number;
}

async function startGateway(subject: string): Promise<Gateway> {
  const [workers = 1, connections = CONNECTIONS] = subject.split("x").map(Number);
  const databaseUrl = await postgres.createDatabase();
  const settings = {
    DATABASE_URL: databaseUrl,
    SIM_BASE_URL: simulator.url,
    POSTERN_LOG_LEVEL: "warn",
  };
  const server = await startServer(["serve", "--workers", String(workers)], settings);
  await eventuallyRuns(server.pid, workers);
  const key = await fundedKey(server.url, settings);
  const tree = (): number => cpuOfTree(server.pid);
  return { workers, connections, server, databaseUrl, key, tree };
}

async function eventuallyRuns(pid: number, workers: number): Promise<void> {
  while (childrenOf(pid).length < workers) await Bun.sleep(50);
  await Bun.sleep(2_000);
}

async function warmUp(gateway: Gateway): Promise<void> {
  for (let calls = 0; calls < WARM_UP_CALLS * gateway.workers;)
    calls += (await load(gateway, SECONDS)).requests;
}

function load(gateway: Gateway, seconds: number): Promise<LoadResult> {
  const { connections } = gateway;
  return generateLoad({ ...requestOf(gateway), body: BODY, connections, seconds });
}

function requestOf({ server, key }: Gateway) {
  const headers = { authorization: `Bearer ${key}` };
  return { url: server.url, path: "/v1/chat/completions", headers };
}

/** The median of streams one after the other. */
async function firstToken(gateway: Gateway): Promise<number> {
  const body = JSON.stringify({ ...REQUEST, stream: true });
  const stream = { ...requestOf(gateway), body, connections: 1, timeoutSeconds: 10 };
  return (await openSequentially(STREAMS, stream)).firstTokenP50Ms;
}

async function measure(gateway: Gateway): Promise<Row> {
  const admin = new SQL(gateway.databaseUrl, { max: 1 });
  const commits = async (): Promise<number> => {
    const found = await admin.unsafe(
      "select xact_commit::int as count from pg_stat_database where datname = current_database()",
    );
    return Number(found[0]?.count);
  };
  const before = {
    gateway: gateway.tree(),
    postgres: cpuOfOwnPostgres(),
    provider: simulator.cpuSeconds(),
    commits: await commits(),
  };
  const result = await load(gateway, SECONDS);
  const perCall = (seconds: number): number => (seconds * 1e6) / result.requests;
  const micros = {
    gatewayMicros: perCall(gateway.tree() - before.gateway),
    postgresMicros: perCall(cpuOfOwnPostgres() - before.postgres),
    providerMicros: perCall(simulator.cpuSeconds() - before.provider),
  };
  // PostgreSQL publishes its counters at most once a second.
  await Bun.sleep(1_500);
  const callsPerCommit = result.requests / ((await commits()) - before.commits);
  await admin.close();
  const firstTokenMs = await firstToken(gateway);
  return { gateway, load: result, ...micros, callsPerCommit, firstTokenMs };
}

/** Counts the statements of the gateway's transactions, without `begin`, its settings and `commit`. */
async function countStatements(gateway: Gateway): Promise<number> {
  const admin = new SQL(gateway.databaseUrl, { max: 1 });
  await admin.unsafe("create extension pg_stat_statements");
  await trackStatements("top");
  await load(gateway, SECONDS);
  await trackStatements("none");
  const [row] = await admin.unsafe(
    `select sum(case when query like 'begin%' or query like 'select set_config%' or query = 'commit' then 0 else calls end)::float8
       / sum(case when query = 'commit' then calls end) as count
     from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())`,
  );
  await admin.close();
  return Number(row?.count);
}

async function trackStatements(level: "top" | "none"): Promise<void> {
  const admin = new SQL(postgres.url, { max: 1 });
  await admin.unsafe(`alter system set pg_stat_statements.track = '${level}'`);
  await admin.unsafe("select pg_reload_conf()");
  await admin.close();
}

function printRow(gateway: Gateway, measured: readonly Row[]): void {
  const median = (value: (row: Row) => number, digits: number): string => {
    const sorted = measured.map(value).toSorted((a, b) => a - b);
    return (sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(digits);
  };
  const columns = [
    String(gateway.workers),
    String(gateway.connections),
    median((row) => row.load.perSecond, 0),
    median((row) => row.load.p50Ms, 1),
    median((row) => row.load.p99Ms, 1),
    median((row) => row.gatewayMicros, 0),
    median((row) => row.postgresMicros, 0),
    median((row) => row.providerMicros, 0),
    median((row) => row.callsPerCommit, 1),
    statements.get(gateway) ?? "",
    median((row) => row.firstTokenMs, 1),
    median((row) => row.load.failures, 0),
  ];
  console.log(`| ${columns.join(" | ")} |`);
}

function childrenOf(pid: number): readonly number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .split(" ")
    .filter(Boolean)
    .map(Number);
}

function cpuOfTree(pid: number): number {
  return childrenOf(pid).reduce((sum, child) => sum + cpuOfTree(child), cpuSecondsOf(pid));
}
