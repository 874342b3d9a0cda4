// Benchmarks overload: an account offers four times what the gateway can serve, while another one offers little. Prints what is
// served and refused, the latency of what is admitted, and how fast the gateway recovers, as medians of several rounds. At last,
// callers that wait for their replies share the gateway's core with other processes. The gateway has a core of its own; a provider
// with constant replies and the load generator have the others. Run it with `node bin/bun.js bench/overload.ts`.

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import path from "node:path";
import { serveConstantReplies } from "./constant-provider.ts";
import { generateLoad } from "./load-generator.ts";
import { fundedKey, pinApart, type ServerProcess, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 5);
const ROUNDS = Number(process.env["BENCH_ROUNDS"] ?? 5);
const CONNECTIONS = 64;
const OVERLOAD = 4;
/** The load of the other account, as a share of the capacity. */
const LIGHT_SHARE = 0.05;
const CONNECTIONS_MAX = 4_000;
/** A conversation of 801 turns costs the gateway ten times as much as the generator and the provider. */
const TURNS = Number(process.env["BENCH_TURNS"] ?? 1);
/** Other processes on the gateway's core. */
const BUSY_PROCESSES = 4;
const STARVED_CALLERS = [64, 1_000];
const REQUEST_BODY = JSON.stringify({
  model: "sim/tiny",
  max_tokens: 16,
  messages: Array.from({ length: TURNS }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: `Turn ${index}.`,
  })),
});
const CHAT_PATH = "/v1/chat/completions";
/** A step of the open-loop generator. */
const STEP_MS = 5;

interface OpenLoad {
  readonly name: string;
  readonly key: string;
  readonly perSecond: number;
}

interface OpenLoadResult {
  readonly name: string;
  readonly seconds: number;
  readonly offered: number;
  readonly served: number;
  readonly refused: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const folder = mkdtempSync(path.join(tmpdir(), "postern-overload-"));
const provider = serveConstantReplies();
const gateway = await startServer(["serve"], {
  POSTERN_DATA_DIR: folder,
  SIM_BASE_URL: provider.url,
  POSTERN_LOG_LEVEL: "error",
  POSTERN_OPEN_CALLS_PER_KEY: "0",
});
const isPinned = pinApart([gateway.pid]);
const [heavyKey, lightKey] = [
  await fundedKey(gateway.url, { POSTERN_DATA_DIR: folder }),
  await fundedKey(gateway.url, { POSTERN_DATA_DIR: folder }),
];
const closed = (seconds: number, connections = CONNECTIONS) =>
  generateLoad({
    url: gateway.url,
    path: CHAT_PATH,
    headers: { authorization: `Bearer ${heavyKey}` },
    body: REQUEST_BODY,
    connections,
    seconds,
  });
await closed(2 * SECONDS);
const rows = new Map<string, OpenLoadResult[]>();
const capacities: number[] = [];
for (let round = 0; round < ROUNDS; round++) await runRound();
printTable();
await starve();
await gateway.stop();
provider.stop();
rmSync(folder, { recursive: true });
process.exit(0);

/** The capacity is measured in each round, because other processes of the machine change it. */
async function runRound(): Promise<void> {
  const { perSecond: capacity } = await closed(SECONDS);
  capacities.push(capacity);
  const light = { name: "light", key: lightKey, perSecond: capacity * LIGHT_SHARE };
  const heavy = (share: number): OpenLoad => ({
    name: "heavy",
    key: heavyKey,
    perSecond: capacity * (share - LIGHT_SHARE),
  });
  await measure("0.5 ×", gateway, [heavy(0.5), light]);
  await measure("1 ×", gateway, [heavy(1), light]);
  await measure(`${OVERLOAD} ×`, gateway, [heavy(OVERLOAD), light]);
  await measure("0.5 ×, first second after", gateway, [heavy(0.5), light], 1);
  await measure("0.5 ×, next second", gateway, [heavy(0.5), light], 1);
}

/** Callers that send the next call after a reply, while other processes use the core. */
async function starve(): Promise<void> {
  const busy = Array.from({ length: BUSY_PROCESSES }, () =>
    Bun.spawn([process.execPath, "-e", "for (;;);"], { stdout: "ignore", stderr: "ignore" }),
  );
  pinApart([gateway.pid, ...busy.map(({ pid }) => pid)]);
  console.log("\n| callers on a busy core | served/s | refused | p50 ms | p99 ms |");
  console.log("|---:|---:|---:|---:|---:|");
  for (const connections of STARVED_CALLERS) {
    const { perSecond, failures, p50Ms, p99Ms } = await closed(2 * SECONDS, connections);
    const cells = [connections, perSecond.toFixed(0), failures, p50Ms.toFixed(0), p99Ms.toFixed(0)];
    console.log(`| ${cells.join(" | ")} |`);
  }
  for (const child of busy) child.kill("SIGKILL");
}

async function measure(
  name: string,
  server: ServerProcess,
  loads: readonly OpenLoad[],
  seconds = SECONDS,
): Promise<void> {
  const results = await Promise.all(loads.map((load) => offer(server, load, seconds)));
  for (const result of results) {
    const row = `${name} | ${result.name}`;
    rows.set(row, [...(rows.get(row) ?? []), result]);
  }
}

function printTable(): void {
  const capacity = medianOf(capacities).toFixed(0);
  console.log(
    `${cpus().length} cores, ${isPinned ? "pinned" : "not pinned"}, load average ${loadavg()[0]?.toFixed(1)}, medians of ${ROUNDS} rounds of ${SECONDS} s, capacity with ${CONNECTIONS} connections ${capacity} calls/s\n`,
  );
  console.log(
    "| load | account | offered/s | served/s | refused/s | failed | p50 ms | p99 ms (all rounds) |",
  );
  console.log("|---|---|---|---|---|---|---|---|");
  for (const [row, results] of rows) {
    const median = (pick: (result: OpenLoadResult) => number): string =>
      medianOf(results.map(pick)).toFixed(0);
    const p99 = results.map(({ p99Ms }) => p99Ms).sort((one, other) => one - other);
    const cells = [
      row,
      median(({ offered, seconds }) => offered / seconds),
      median(({ served, seconds }) => served / seconds),
      median(({ refused, seconds }) => refused / seconds),
      median(({ failed }) => failed),
      medianOf(results.map(({ p50Ms }) => p50Ms)).toFixed(1),
      `${medianOf(p99).toFixed(1)} (${p99[0]?.toFixed(1)}–${p99.at(-1)?.toFixed(1)})`,
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[values.length >> 1] ?? Number.NaN;
}

interface Connection {
  sentAt: number;
  text: string;
}

/** Sends requests at a rate, whether or not earlier ones have been answered. */
async function offer(
  server: ServerProcess,
  { name, key, perSecond }: OpenLoad,
  seconds: number,
): Promise<OpenLoadResult> {
  const { hostname, port } = new URL(server.url);
  const request = `POST ${CHAT_PATH} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(REQUEST_BODY)}\r\n\r\n${REQUEST_BODY}`;
  const latencies: number[] = [];
  const counts = { offered: 0, refused: 0, failed: 0 };
  const idle: Bun.Socket<Connection>[] = [];
  const all: Bun.Socket<Connection>[] = [];
  let sent = 0;
  const send = (socket: Bun.Socket<Connection>): void => {
    socket.data = { sentAt: performance.now(), text: "" };
    sent += 1;
    socket.write(request);
  };
  const onResponse = (socket: Bun.Socket<Connection>): void => {
    const { text, sentAt } = socket.data;
    if (text.startsWith("HTTP/1.1 200")) latencies.push(performance.now() - sentAt);
    else if (/^HTTP\/1.1 (?:429|503)/.test(text)) counts.refused += 1;
    idle.push(socket);
  };
  const connect = async (): Promise<void> => {
    const socket = await Bun.connect<Connection>({
      hostname,
      port: Number(port),
      data: { sentAt: 0, text: "" },
      socket: {
        data: (one, chunk) => {
          one.data.text += chunk.toString("latin1");
          if (isWhole(one.data.text)) onResponse(one);
        },
      },
    });
    all.push(socket);
    send(socket);
  };
  const startedAt = performance.now();
  while (performance.now() - startedAt < seconds * 1_000) {
    const due = ((performance.now() - startedAt) / 1_000) * perSecond;
    for (; counts.offered < due; counts.offered++) {
      const socket = idle.pop();
      if (socket !== undefined) send(socket);
      else if (all.length < CONNECTIONS_MAX) await connect();
      // A client without a free connection does not send.
      else counts.failed += 1;
    }
    await Bun.sleep(STEP_MS);
  }
  for (let waitedMs = 0; latencies.length + counts.refused < sent && waitedMs < 10_000;)
    waitedMs += await pause(STEP_MS);
  counts.failed += sent - latencies.length - counts.refused;
  for (const socket of all) socket.end();
  latencies.sort((one, other) => one - other);
  const percentile = (part: number): number =>
    latencies[Math.floor(latencies.length * part)] ?? Number.NaN;
  return {
    name,
    seconds,
    ...counts,
    served: latencies.length,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
  };
}

async function pause(ms: number): Promise<number> {
  await Bun.sleep(ms);
  return ms;
}

function isWhole(text: string): boolean {
  const end = text.indexOf("\r\n\r\n");
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1];
  return end !== -1 && length !== undefined && text.length >= end + 4 + Number(length);
}
