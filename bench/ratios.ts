// Benchmarks the gateway, with its durable ledger, beside nginx and a minimal proxy on Bun, in interleaved rounds: CPU time of a
// JSON call and of a relayed chunk, and what each adds to the latency. The measured process has a core of its own; the
// provider, a socket server with constant replies, and the load generator have the others. Run it with
// `node bin/bun.js bench/ratios.ts`. `--before <tree>` also measures the gateway of another source tree, such as a worktree of an
// earlier commit, in the same rounds. `--postgres` also measures it on PostgreSQL; the CPU time is then
// that of both, and the database may use all cores. `--peer name,url,pid,model` adds a proxy that is running already, with
// `--provider-port` as its provider.

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { startScriptProgress } from "../test/support/script-progress.ts";
import { cpuOfOwnPostgres, startPostgres } from "./bench-postgres.ts";
import { serveConstantReplies } from "./constant-provider.ts";
import { generateLoad, openStreams, type StreamsResult } from "./load-generator.ts";
import { startBareProxy, startNginx } from "./peers.ts";
import {
  cpuSecondsOf,
  fundedKey,
  pinApart,
  type ServerProcess,
  startServer,
} from "./server-process.ts";

const ROUNDS = Number(process.env["BENCH_ROUNDS"] ?? 10);
const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 2);
/** Before each kind of load is measured: the runtime compiles hot code in its first seconds. */
const WARM_UP_SECONDS = Number(process.env["BENCH_WARM_UP_SECONDS"] ?? 10);
const CHAT_PATH = "/v1/chat/completions";
const UNPACED = { streams: 16, chunks: 1_000, paceMs: 0 };
const PACED = { streams: 500, chunks: 40, paceMs: 50 };
/** As many streams are open as of the load above, but they open one after another. */
const ARRIVING = { ...PACED, streams: 1_000, intervalMs: 4 };

const COLUMNS = [
  { name: "json", title: "JSON µs a call", digits: 1 },
  { name: "perSecond", title: "req/s", digits: 0 },
  { name: "oneConnection", title: "one connection p50 ms", digits: 2 },
  { name: "unpaced", title: "un-paced µs a chunk", digits: 1 },
  { name: "paced", title: `${PACED.streams} paced µs a chunk`, digits: 1 },
  {
    name: "firstToken",
    title: `first token p50 ms, ${PACED.streams} streams opened at once`,
    digits: 1,
  },
  {
    name: "firstTokenArriving",
    title: `first token p50 ms, a stream every ${ARRIVING.intervalMs} ms`,
    digits: 2,
  },
] as const;
type Sample = Readonly<Record<(typeof COLUMNS)[number]["name"], number>>;

interface Peer {
  readonly name: string;
  readonly url: string;
  readonly key: string;
  readonly model: string;
  readonly cpuSeconds: () => number;
  readonly samples: Sample[];
}

const { values: args } = parseArgs({
  options: {
    before: { type: "string", multiple: true, default: [] },
    peer: { type: "string", multiple: true, default: [] },
    "provider-port": { type: "string", default: "0" },
    postgres: { type: "boolean", default: false },
  },
});
const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
const provider = serveConstantReplies(Number(args["provider-port"]));
const postgres = args.postgres ? await startPostgres() : undefined;
interface Gateway {
  readonly name: string;
  readonly tree: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly server: ServerProcess;
}
const gateways: Gateway[] = [];
const addGateway = async (
  name: string,
  tree: string,
  more: Readonly<Record<string, string>> = {},
): Promise<void> => {
  const settings = {
    SIM_BASE_URL: provider.url,
    POSTERN_DATA_DIR: path.join(folder, `gateway-${gateways.length}`),
    POSTERN_LOG_LEVEL: "error",
    POSTERN_OPEN_CALLS_PER_KEY: "0",
    ...more,
  };
  const server = await startServer(["serve"], settings, tree);
  gateways.push({ name: `Postern, durable ledger${name}`, tree, settings, server });
};
for (const tree of args.before) await addGateway(`, ${path.basename(tree)}`, tree);
await addGateway("", process.cwd());
if (postgres !== undefined)
  await addGateway(", PostgreSQL", process.cwd(), {
    DATABASE_URL: await postgres.createDatabase(),
  });
const nginx = await startNginx(provider.url, folder);
const bareProxy = await startBareProxy(provider.url);
const servers = [nginx, bareProxy, ...gateways.map(({ server }) => server)].filter(
  (server) => server !== undefined,
);
try {
  const isPinned = pinApart([
    ...servers.map(({ pid }) => pid),
    ...args.peer.map((peer) => Number(peer.split(",")[2])),
  ]);
  const peers = [
    ...(nginx === undefined ? [] : [peerOf("nginx", nginx)]),
    peerOf("bare Bun proxy", bareProxy),
    ...(await Promise.all(gateways.map(postern))),
    ...args.peer.map(runningPeer),
  ];
  console.log(
    `${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), ${isPinned ? "pinned" : "not pinned"}, Bun ${Bun.version}, ${ROUNDS} rounds\n`,
  );
  for (const peer of peers) await warmUp(peer);
  const progress = startScriptProgress({
    unit: "samples",
    verb: "took",
    whenInterrupted: "Nothing is kept: run node bin/bun.js bench/ratios.ts again.",
  });
  let samples = 0;
  for (let round = 0; round < ROUNDS; round++)
    for (const peer of peers) {
      peer.samples.push(await measure(peer));
      progress.update((samples += 1), ROUNDS * peers.length, peer.name);
    }
  progress.end(samples);
  printTable(peers);
  console.log(
    `\nLoad average at the end: ${loadavg()
      .map((load) => load.toFixed(1))
      .join(", ")}`,
  );
} finally {
  for (const server of servers) await server.stop();
  postgres?.stop();
  provider.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);

async function postern({ name, tree, settings, server }: Gateway): Promise<Peer> {
  const key = await fundedKey(server.url, settings, tree);
  const { DATABASE_URL: database } = settings;
  if (database === undefined) return peerOf(name, server, key);
  await postgres?.analyze(database);
  const cpuSeconds = (): number => server.cpuSeconds() + cpuOfOwnPostgres();
  return peerOf(name, { ...server, cpuSeconds }, key);
}

function peerOf(name: string, { url, cpuSeconds }: ServerProcess, key = "none"): Peer {
  return { name, url, key, model: "sim/tiny", cpuSeconds, samples: [] };
}

function runningPeer(text: string): Peer {
  const [name = "", url = "", pid = "", model = ""] = text.split(",");
  const cpuSeconds = (): number => cpuSecondsOf(Number(pid));
  return { name, url, key: "none", model, cpuSeconds, samples: [] };
}

async function warmUp(peer: Peer): Promise<void> {
  await jsonLoad(peer, 64, WARM_UP_SECONDS);
  for (const load of [UNPACED, PACED]) {
    const until = performance.now() + WARM_UP_SECONDS * 1_000;
    while (performance.now() < until) await streams(peer, load);
  }
}

async function measure(peer: Peer): Promise<Sample> {
  const cpuBefore = peer.cpuSeconds();
  const json = await jsonLoad(peer, 64, SECONDS);
  const jsonCpu = peer.cpuSeconds() - cpuBefore;
  const single = await jsonLoad(peer, 1, SECONDS / 2);
  const unpaced = await streams(peer, UNPACED);
  const paced = await streams(peer, PACED);
  const arriving = await streams(peer, ARRIVING);
  return {
    json: (jsonCpu * 1e6) / json.requests,
    perSecond: json.perSecond,
    oneConnection: single.p50Ms,
    unpaced: unpaced.cpuMicros,
    paced: paced.cpuMicros,
    firstToken: paced.result.firstTokenP50Ms,
    firstTokenArriving: arriving.result.firstTokenP50Ms,
  };
}

async function jsonLoad({ url, key, model, name }: Peer, connections: number, seconds: number) {
  const result = await generateLoad({
    url,
    path: CHAT_PATH,
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model,
      max_tokens: 16,
      messages: [{ role: "user", content: "x".repeat(900) }],
    }),
    connections,
    seconds,
  });
  if (result.failures > 0)
    console.log(
      `${name}: ${result.failures} calls failed, first with ${result.firstFailure ?? "a lost connection"}`,
    );
  return result;
}

interface StreamsLoad {
  readonly streams: number;
  readonly chunks: number;
  readonly paceMs: number;
  readonly intervalMs?: number;
}

interface StreamsMeasurement {
  readonly result: StreamsResult;
  readonly cpuMicros: number;
}

async function streams(
  { url, key, model, name, cpuSeconds }: Peer,
  load: StreamsLoad,
): Promise<StreamsMeasurement> {
  const before = cpuSeconds();
  const result = await openStreams({
    url,
    path: CHAT_PATH,
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model,
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 2_000,
      messages: [{ role: "user", content: `chunks=${load.chunks} pace=${load.paceMs}` }],
    }),
    connections: load.streams,
    ...(load.intervalMs !== undefined && { intervalMs: load.intervalMs }),
    timeoutSeconds: 60,
  });
  if (result.failures > 0) console.log(`${name}: ${result.failures} streams failed`);
  const cpuMicros = ((cpuSeconds() - before) * 1e6) / Math.max(1, result.events);
  return { result, cpuMicros };
}

/** Medians, with the first and third quartile. */
function printTable(peers: readonly Peer[]): void {
  console.log(`| | ${COLUMNS.map(({ title }) => title).join(" | ")} |`);
  console.log(`|---|${COLUMNS.map(() => "---").join("|")}|`);
  for (const { name, samples } of peers) {
    const cells = COLUMNS.map((column) => {
      const values = samples.map((sample) => sample[column.name]).sort((one, two) => one - two);
      const at = (share: number): string =>
        (values[Math.floor(values.length * share)] ?? Number.NaN).toFixed(column.digits);
      return `${at(0.5)} (${at(0.25)}–${at(0.75)})`;
    });
    console.log(`| ${name} | ${cells.join(" | ")} |`);
  }
}
