// Benchmarks a gateway on a Citus cluster, a coordinator and two workers, beside one on a PostgreSQL server of the same version:
// JSON calls of one account and of many. All processes share the machine, and the data is in memory
// if there is space. Run it with `POSTERN_TEST_POSTGRES_HOME=<PostgreSQL with Citus> node bin/bun.js bench/citus.ts`.

import { cpus, loadavg } from "node:os";
import { distributedPostgres } from "../test/support/stores/citus.ts";
import { startServerGroup } from "../test/support/stores/server-group.ts";
import { cpuOfOwnPostgres, startPostgres } from "./bench-postgres.ts";
import { serveConstantReplies } from "./constant-provider.ts";
import { generateLoad, type LoadResult, openSequentially } from "./load-generator.ts";
import { createKey, fundedKey, type ServerProcess, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 3);
const WARM_UP_SECONDS = 5;
const ROUNDS = 3;
const CONNECTIONS = 64;
const ACCOUNTS = 64;
const STREAMS = 50;
const PATH = "/v1/chat/completions";
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
  while (keys.length < ACCOUNTS) keys.push(await createKey(server.url));
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
    `${cpus().length} cores, Bun ${Bun.version}, medians of ${ROUNDS} rounds of ${SECONDS} s, load average ${loadavg()
      .map((each) => each.toFixed(1))
      .join(", ")}\n`,
  );
  const names = ["accounts", "store", ...COLUMNS.map(([name]) => name)];
  console.log(`| ${names.join(" | ")} |\n|${names.map(() => "---").join("|")}|`);
  for (const { accounts, store, rounds } of subjects) {
    const values = COLUMNS.map(([, digits, valueOf]) => median(rounds.map(valueOf), digits));
    console.log(`| ${[accounts, store, ...values].join(" | ")} |`);
  }
  console.log("\nCitus to PostgreSQL, medians of the ratios of the rounds:");
  for (const one of subjects)
    for (const other of subjects) {
      const isPair = one.accounts === other.accounts;
      if (!isPair || one.store !== "Citus" || other.store !== "PostgreSQL") continue;
      const ratio = (valueOf: (round: Round) => number): string =>
        median(
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

function median(values: readonly number[], digits: number): string {
  const sorted = values.toSorted((one, two) => one - two);
  return (sorted[Math.floor(sorted.length / 2)] ?? Number.NaN).toFixed(digits);
}
