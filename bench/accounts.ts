// Benchmarks what many accounts cost: the CPU time of a JSON call of one account and of 1,000 accounts at random, with all jobs, on both
// stores. Run it with `node bin/bun.js bench/accounts.ts [--before <tree>] [--store sqlite] [--accounts 1000]`. `--before` also measures
// another source tree, such as a worktree of an earlier commit, in the same rounds. Each gateway is a process of its own, warmed up by
// calls. A round counts the CPU time until its queued work is done, without that of an idle gateway, and on PostgreSQL also that of the
// server.

import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { cpuOfOwnPostgres, startPostgres } from "./bench-postgres.ts";
import { serveConstantReplies } from "./constant-provider.ts";
import { generateLoad } from "./load-generator.ts";
import { createKey, fundedKey, type ServerProcess, startServer } from "./server-process.ts";

const { values: args } = parseArgs({
  options: {
    before: { type: "string" },
    store: { type: "string" },
    accounts: { type: "string", default: "1000" },
    calls: { type: "string", default: "6000" },
    "warm-up": { type: "string", default: "8000" },
    rounds: { type: "string", default: "7" },
    /** With this number of accounts only. */
    only: { type: "string" },
  },
});
const CALLS = Number(args.calls);
const CONNECTIONS = Number(process.env["BENCH_CONNECTIONS"] ?? 16);
const SECONDS_MAX = 120;
/** Longer than the interval of each job that writes what calls left in memory or in a queue. */
const QUIET_MS = Number(process.env["BENCH_QUIET_MS"] ?? 36_000);
/** For the CPU time of an idle gateway. */
const IDLE_MS = 20_000;
const KINDS = ["sqlite", "postgres"] as const;
const BODY = JSON.stringify({
  model: "sim/tiny",
  max_tokens: 16,
  messages: [{ role: "user", content: "x".repeat(900) }],
});

interface Subject {
  readonly tree: string;
  readonly kind: (typeof KINDS)[number];
  readonly accounts: number;
  readonly server: ServerProcess;
  readonly keys: readonly string[];
  readonly gateway: number[];
  readonly database: number[];
  calls: number;
  failures: number;
  /** Seconds of CPU time while the gateway is quiet after a load. */
  idle: number;
}

const provider = serveConstantReplies(0);
const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
const postgres = args.store === "sqlite" ? undefined : await startPostgres();
const subjects: Subject[] = [];
try {
  const trees = [...(args.before === undefined ? [] : [args.before]), process.cwd()];
  for (const kind of KINDS)
    for (const accounts of [1, Number(args.accounts)])
      for (const tree of trees)
        if ((args.store ?? kind) === kind && Number(args.only ?? accounts) === accounts)
          subjects.push(await start(tree, kind, accounts));
  for (const subject of subjects) await load(subject, Number(args["warm-up"]));
  await Bun.sleep(QUIET_MS);
  for (const subject of subjects) subject.idle = subject.server.cpuSeconds();
  await Bun.sleep(IDLE_MS);
  for (const subject of subjects)
    subject.idle = ((subject.server.cpuSeconds() - subject.idle) * QUIET_MS) / IDLE_MS;
  for (let round = 0; round < Number(args.rounds); round++)
    for (const subject of subjects) await measure(subject);
  printResults();
} finally {
  for (const { server } of subjects) await server.stop();
  provider.stop();
  postgres?.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);

async function start(tree: string, kind: Subject["kind"], accounts: number): Promise<Subject> {
  const settings = {
    SIM_BASE_URL: provider.url,
    POSTERN_DATA_DIR: mkdtempSync(path.join(folder, "data-")),
    POSTERN_LOG_LEVEL: "error",
    POSTERN_OPEN_CALLS_PER_KEY: "0",
    ...(kind === "postgres" && { DATABASE_URL: (await postgres?.createDatabase()) ?? "" }),
  };
  const server = await startServer(["serve"], settings, tree);
  const keys: string[] = [];
  if (accounts === 1) keys.push(await fundedKey(server.url, settings, tree));
  while (keys.length < accounts)
    keys.push(...(await Promise.all(Array.from({ length: 25 }, () => createKey(server.url)))));
  if (settings.DATABASE_URL !== undefined) await postgres?.analyze(settings.DATABASE_URL);
  return {
    tree,
    kind,
    accounts,
    server,
    keys,
    gateway: [],
    database: [],
    calls: 0,
    failures: 0,
    idle: 0,
  };
}

async function load(subject: Subject, calls: number): Promise<number> {
  const result = await generateLoad({
    url: subject.server.url,
    path: "/v1/chat/completions",
    headers: {},
    keys: subject.keys,
    body: BODY,
    connections: CONNECTIONS,
    seconds: SECONDS_MAX,
    calls,
  });
  subject.failures += result.failures;
  return result.requests;
}

async function measure(subject: Subject): Promise<void> {
  const before = [subject.server.cpuSeconds(), cpuOfOwnPostgres()] as const;
  const calls = await load(subject, CALLS);
  await Bun.sleep(QUIET_MS);
  const cpuSeconds = subject.server.cpuSeconds() - before[0] - subject.idle;
  subject.gateway.push((cpuSeconds * 1e6) / calls);
  subject.database.push(((cpuOfOwnPostgres() - before[1]) * 1e6) / calls);
  subject.calls += calls;
}

function printResults(): void {
  console.log("| store | tree | accounts | gateway µs/call | PostgreSQL µs/call | failures |");
  console.log("|---|---|---:|---:|---:|---:|");
  for (const { kind, tree, accounts, gateway, database, failures } of subjects) {
    const server = kind === "postgres" ? spread(database, 0) : "";
    const name = tree === process.cwd() ? "this" : "before";
    console.log(`| ${[kind, name, accounts, spread(gateway, 0), server, failures].join(" | ")} |`);
  }
  console.log(
    "\nRatios of the rounds, gateway and PostgreSQL together, median (first to third quartile):",
  );
  for (const one of subjects) for (const two of subjects) printRatio(one, two);
  console.log(
    `\nLoad average at the end: ${loadavg()
      .map((each) => each.toFixed(1))
      .join(", ")}`,
  );
}

/** Of many accounts to one account in a tree, and of this tree to the one before with the same accounts. */
function printRatio(one: Subject, two: Subject): void {
  if (one.kind !== two.kind) return;
  const isByAccounts = one.tree === two.tree && one.accounts > two.accounts;
  const isByTree = one.accounts === two.accounts && one.tree === process.cwd() && one !== two;
  if (!isByAccounts && !isByTree) return;
  const ratios = sumsOf(one).map((sum, round) => sum / (sumsOf(two)[round] ?? Number.NaN));
  const name = (tree: string): string => (tree === process.cwd() ? "this tree" : "the tree before");
  const what = isByAccounts
    ? `${one.accounts} accounts to one, ${name(one.tree)}`
    : `this tree to the one before, ${one.accounts} accounts`;
  console.log(`${one.kind}: ${what}: ${spread(ratios, 2)}`);
}

function sumsOf({ gateway, database, kind }: Subject): readonly number[] {
  return gateway.map((own, round) => own + (kind === "postgres" ? (database[round] ?? 0) : 0));
}

function spread(values: readonly number[], digits: number): string {
  const sorted = values.toSorted((one, two) => one - two);
  const at = (share: number): string =>
    (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(digits);
  return `${at(0.5)} (${at(0.25)} to ${at(0.75)})`;
}
