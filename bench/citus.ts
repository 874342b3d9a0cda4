// Benchmarks a gateway on a Citus cluster, a coordinator and two workers, beside one on a PostgreSQL server of the same version:
// JSON calls of one account and of many; then the syncs of the write-ahead log for each call, one after the other. All processes
// share the machine, and the data is in memory if there is space. Run it with
// `POSTERN_TEST_POSTGRES_HOME=<PostgreSQL with Citus> node bin/bun.js bench/citus.ts`.

import { cpus, loadavg } from "node:os";
import { SQL } from "bun";
import { distributedPostgres } from "../test/support/stores/citus.ts";
import { startServerGroup } from "../test/support/stores/server-group.ts";
import { cpuOfOwnPostgres, startPostgres } from "./bench-postgres.ts";
import { serveConstantReplies } from "./constant-provider.ts";
import { generateLoad, type LoadResult, openSequentially } from "./load-generator.ts";
import { fundedKey, type ServerProcess, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 3);
const WARM_UP_SECONDS = 5;
const ROUNDS = 3;
const CONNECTIONS = 64;
const ACCOUNTS = 64;
const STREAMS = 50;
const PATH = "/v1/chat/completions";
/** So many that the syncs of background jobs are a small part. */
const SYNCED_CALLS = 200;
/** An idle process of PostgreSQL reports its syncs after 10 s. */
const SYNCS_REPORTED_MS = 11_000;
const REQUEST = {
  model: "sim/tiny",
  max_tokens: 16,
  messages: [{ role: "user", content: "x".repeat(900) }],
};

interface Subject {
  readonly store: "PostgreSQL" | "Citus";
  readonly accounts: number;
  readonly server: ServerProcess;
  readonly keys: readonly string[];
  readonly rounds: Round[];
}

interface Round {
  readonly load: LoadResult;
  readonly gatewayMicros: number;
  readonly postgresMicros: number;
  readonly firstTokenMs: number;
}

const COLUMNS: readonly (readonly [
  name: string,
  digits: number,
  valueOf: (round: Round) => number,
])[] = [
  ["calls/s", 0, (round) => round.load.perSecond],
  ["p50 ms", 1, (round) => round.load.p50Ms],
  ["p99 ms", 1, (round) => round.load.p99Ms],
  ["gateway µs/call", 0, (round) => round.gatewayMicros],
  ["PostgreSQL µs/call", 0, (round) => round.postgresMicros],
  ["first token ms", 1, (round) => round.firstTokenMs],
  ["failures", 0, (round) => round.load.failures],
];

const postgres = await startPostgres();
const cluster = await startServerGroup("citus-cluster.mjs", []);
const provider = serveConstantReplies(0);
const subjects: Subject[] = [];
// One after the other: the command that grants credit reads the environment of this process.
for (const store of ["PostgreSQL", "Citus"] as const)
  subjects.push(...(await startSubjects(store)));
for (const subject of subjects) await load(subject, WARM_UP_SECONDS);
for (let round = 0; round < ROUNDS; round++)
  for (const subject of subjects) subject.rounds.push(await measure(subject));
printResults();
await printSyncs();
for (const server of new Set(subjects.map((subject) => subject.server))) await server.stop();
provider.stop();
postgres.stop();
await cluster.stop();
process.exit(0);

/** One gateway, with the load of one account and with that of many. */
async function startSubjects(store: Subject["store"]): Promise<readonly Subject[]> {
  const databaseUrl = await (store === "Citus"
    ? distributedPostgres(cluster.firstLine)
    : postgres.createDatabase());
  const settings = {
    DATABASE_URL: databaseUrl,
    SIM_BASE_URL: provider.url,
    POSTERN_LOG_LEVEL: "error",
    POSTERN_OPEN_CALLS_PER_KEY: "0",
  };
  const server = await startServer(["serve"], settings);
  const keys = [await fundedKey(server.url, settings)];
  while (keys.length < ACCOUNTS) keys.push(await fundedKey(server.url, settings));
  await postgres.analyze(databaseUrl);
  return [1, ACCOUNTS].map((accounts) => ({
    store,
    accounts,
    server,
    keys: keys.slice(0, accounts),
    rounds: [],
  }));
}

function load({ server, keys }: Subject, seconds: number): Promise<LoadResult> {
  const body = JSON.stringify(REQUEST);
  const options = { url: server.url, path: PATH, headers: {}, keys, body };
  return generateLoad({ ...options, connections: CONNECTIONS, seconds });
}

async function measure(subject: Subject): Promise<Round> {
  const { server, keys } = subject;
  const before = [server.cpuSeconds(), cpuOfOwnPostgres()] as const;
  const result = await load(subject, SECONDS);
  const microsSince = (seconds: number, from: number): number =>
    ((seconds - from) * 1e6) / result.requests;
  const gatewayMicros = microsSince(server.cpuSeconds(), before[0]);
  const postgresMicros = microsSince(cpuOfOwnPostgres(), before[1]);
  const { firstTokenP50Ms: firstTokenMs } = await openSequentially(STREAMS, {
    url: server.url,
    path: PATH,
    headers: { authorization: `Bearer ${keys[0] ?? ""}` },
    body: JSON.stringify({ ...REQUEST, stream: true }),
    connections: 1,
    timeoutSeconds: 10,
  });
  return { load: result, gatewayMicros, postgresMicros, firstTokenMs };
}

function printResults(): void {
  console.log(
    `${cpus().length} cores, Bun ${Bun.version}, ${ROUNDS} rounds of ${SECONDS} s, load average ${loadavg()
      .map((each) => each.toFixed(1))
      .join(", ")}\n`,
  );
  console.log("Medians, with the lowest and the highest round.\n");
  const names = ["accounts", "store", ...COLUMNS.map(([name]) => name)];
  console.log(`| ${names.join(" | ")} |\n|${names.map(() => "---").join("|")}|`);
  for (const { accounts, store, rounds } of subjects) {
    const values = COLUMNS.map(([, digits, valueOf]) => spread(rounds.map(valueOf), digits));
    console.log(`| ${[accounts, store, ...values].join(" | ")} |`);
  }
  console.log("\nCitus to PostgreSQL, ratios of the rounds:");
  for (const one of subjects)
    for (const other of subjects) {
      const isPair = one.accounts === other.accounts;
      if (!isPair || one.store !== "Citus" || other.store !== "PostgreSQL") continue;
      const ratio = (valueOf: (round: Round) => number): string =>
        spread(
          one.rounds.map((round, index) => {
            const same = other.rounds[index];
            return same === undefined ? Number.NaN : valueOf(round) / valueOf(same);
          }),
          2,
        );
      const cpu = (round: Round): number => round.gatewayMicros + round.postgresMicros;
      console.log(
        `${one.accounts} accounts: calls/s ${ratio((round) => round.load.perSecond)}, CPU of gateway and PostgreSQL ${ratio(cpu)}, first token ${ratio((round) => round.firstTokenMs)}`,
      );
    }
}

/** The median, and between which values the rounds are. */
function spread(values: readonly number[], digits: number): string {
  const sorted = values.toSorted((one, two) => one - two);
  const at = (index: number): string => (sorted[index] ?? Number.NaN).toFixed(digits);
  return `${at(Math.floor(sorted.length / 2))} (${at(0)} to ${at(sorted.length - 1)})`;
}

async function printSyncs(): Promise<void> {
  const nodes = await connectToNodes();
  const idle = await countSyncs(nodes, () => Bun.sleep(SYNCS_REPORTED_MS));
  const perSecond = idle.map((syncs) => ((syncs * 1_000) / (2 * SYNCS_REPORTED_MS)).toFixed(1));
  console.log(
    `\nSyncs of coordinator and workers without calls: ${perSecond.join(", ")} a second.`,
  );
  console.log("\n| call | worker of the account | other worker | coordinator | sum |");
  console.log("|---|---|---|---|---|");
  const calls = [
    ["JSON", {}, false],
    ["streamed", { stream: true }, false],
    ["with an Idempotency-Key", {}, true],
  ] as const;
  for (const { store, accounts, server, keys } of subjects) {
    if (store !== "Citus" || accounts !== 1) continue;
    for (const [name, fields, hasIdempotencyKey] of calls) {
      const [coordinator = 0, ...workers] = await countSyncs(nodes, async () => {
        for (let call = 0; call < SYNCED_CALLS; call++)
          await callOnce(server.url, keys[0] ?? "", fields, hasIdempotencyKey);
      });
      const syncs = [...workers.toSorted((one, two) => two - one), coordinator];
      const columns = [...syncs, syncs.reduce((sum, each) => sum + each, 0)];
      const perCall = columns.map((each) => (each / SYNCED_CALLS).toFixed(2));
      console.log(`| ${[name, ...perCall].join(" | ")} |`);
    }
  }
  for (const node of nodes) await node.close();
}

/** The coordinator first. */
async function connectToNodes(): Promise<readonly SQL[]> {
  const coordinator = new SQL(cluster.firstLine, { max: 1 });
  const rows = await coordinator.unsafe("select nodeport from pg_dist_node order by groupid");
  await coordinator.close();
  return Array.from(rows, (row: { nodeport: number }) => {
    const url = new URL(cluster.firstLine);
    url.port = String(row.nodeport);
    return new SQL(url.href, { max: 1 });
  });
}

/** Counts the syncs of each node during the work, and of background jobs until they are reported. */
async function countSyncs(
  nodes: readonly SQL[],
  work: () => Promise<void>,
): Promise<readonly number[]> {
  const read = (): Promise<readonly number[]> =>
    Promise.all(
      nodes.map(async (node) => {
        const [row] = await node.unsafe("select wal_sync from pg_stat_wal");
        return Number(row?.wal_sync);
      }),
    );
  const before = await read();
  await work();
  await Bun.sleep(SYNCS_REPORTED_MS);
  const after = await read();
  return after.map((syncs, index) => syncs - (before[index] ?? 0));
}

async function callOnce(
  url: string,
  key: string,
  fields: object,
  hasIdempotencyKey: boolean,
): Promise<void> {
  const response = await fetch(url + PATH, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      ...(hasIdempotencyKey ? { "idempotency-key": crypto.randomUUID() } : {}),
    },
    body: JSON.stringify({ ...REQUEST, ...fields }),
  });
  await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`a call got ${response.status}`);
}
