// Benchmarks model calls, JSON and streamed: directly to a simulated provider, through nginx, and through the gateway with
// its durable ledger. All of them and the load generator share the machine. Run it with `npm run bench`; compare only the
// rows of one run.

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import path from "node:path";
import { exitIfInterrupted, startScriptProgress } from "../test/support/script-progress.ts";
import {
  generateLoad,
  type LoadResult,
  openSequentially,
  openStreams,
  type StreamsOptions,
} from "./load-generator.ts";
import { startNginx } from "./peers.ts";
import { type ServerProcess, fundedKey, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 5);
/** The runtime compiles hot code in the first seconds of a process. */
const WARM_UP_SECONDS = 10;
const SEQUENTIAL_STREAMS = 100;
const CHAT_PATH = "/v1/chat/completions";
const CHAT_BODY = JSON.stringify({
  model: "sim/tiny",
  max_tokens: 16,
  messages: [{ role: "user", content: "x".repeat(900) }],
});

const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
const simulator = await startServer(["simulate", "--port"], {});
const gateway = await startServer(["serve"], {
  SIM_BASE_URL: simulator.url,
  POSTERN_DATA_DIR: folder,
  POSTERN_LOG_LEVEL: "warn",
});
const proxy = await startNginx(simulator.url, folder);
/** With nginx, and two rows for each load of streams. */
const ROWS = (proxy === undefined ? 4 : 6) + 6;
const progress = startScriptProgress({
  unit: "rows",
  verb: "measured",
  whenInterrupted: "Nothing is kept: run npm run bench again.",
});
let rows = 0;
let interruption: unknown;
try {
  const key = await fundedKey(gateway.url, { POSTERN_DATA_DIR: folder });
  console.log(
    `${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), Bun ${Bun.version}, ${SECONDS} s a row\n`,
  );
  await jsonTable(key);
  await streamTable(key);
  progress.end(rows);
} catch (error) {
  interruption = error;
} finally {
  await gateway.stop();
  await proxy?.stop();
  await simulator.stop();
  rmSync(folder, { recursive: true, force: true });
}
if (interruption !== undefined) exitIfInterrupted(interruption);

async function jsonTable(key: string): Promise<void> {
  console.log(
    "| JSON calls | connections | requests/s | CPU µs/request | p50 ms | p99 ms | failures |",
  );
  console.log("|---|---|---|---|---|---|---|");
  const headers = { authorization: `Bearer ${key}` };
  for (const connections of [1, 64]) {
    const common = { path: CHAT_PATH, headers, body: CHAT_BODY, connections, seconds: SECONDS };
    await generateLoad({ ...common, url: gateway.url, seconds: WARM_UP_SECONDS });
    const direct = await measureCpu(simulator, () =>
      generateLoad({ ...common, url: simulator.url }),
    );
    printRow("direct to the simulator", connections, direct);
    if (proxy !== undefined) {
      const proxied = await measureCpu(proxy, () => generateLoad({ ...common, url: proxy.url }));
      printRow("through nginx `proxy_pass`", connections, proxied);
    }
    const relayed = await measureCpu(gateway, () => generateLoad({ ...common, url: gateway.url }));
    printRow("through Postern", connections, relayed);
    const added = (name: "p50Ms" | "p99Ms"): string =>
      (relayed.result[name] - direct.result[name]).toFixed(2);
    console.log(
      `| added by Postern | ${connections} | | | ${added("p50Ms")} | ${added("p99Ms")} | |`,
    );
  }
  console.log(`\nResident memory of Postern: ${gateway.rssMb().toFixed(0)} MB\n`);
}

async function streamTable(key: string): Promise<void> {
  console.log(
    "| streams | concurrent | first token p50 ms | first token p99 ms | events | CPU µs/event | failures | memory MB |",
  );
  console.log("|---|---|---|---|---|---|---|---|");
  const streams = (
    target: ServerProcess,
    connections: number,
    chunks: number,
    paceMs: number,
  ): StreamsOptions => ({
    url: target.url,
    path: CHAT_PATH,
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: "sim/echo",
      stream: true,
      max_tokens: 2_000,
      messages: [{ role: "user", content: `[[sim: tokens=${chunks} pace=${paceMs}]]` }],
    }),
    connections,
    timeoutSeconds: 90,
  });
  const loads: readonly (readonly [connections: number, chunks: number, paceMs: number])[] = [
    [1, 20, 5],
    [500, 200, 50],
    [3_000, 40, 200],
  ];
  for (const target of [simulator, gateway]) await openStreams(streams(target, 100, 100, 20));
  for (const [connections, chunks, paceMs] of loads) {
    for (const [name, target] of [["direct", simulator] as const, ["Postern", gateway] as const]) {
      const before = target.cpuSeconds();
      const options = streams(target, connections, chunks, paceMs);
      const result = await (connections === 1
        ? openSequentially(SEQUENTIAL_STREAMS, options)
        : openStreams(options));
      const cpu = ((target.cpuSeconds() - before) * 1e6) / Math.max(1, result.events);
      console.log(
        `| ${name}, one event per ${paceMs} ms | ${connections === 1 ? `1 (${SEQUENTIAL_STREAMS} in sequence)` : connections} | ${result.firstTokenP50Ms.toFixed(2)} | ${result.firstTokenP99Ms.toFixed(2)} | ${result.events} | ${cpu.toFixed(1)} | ${result.failures} | ${target.rssMb().toFixed(0)} |`,
      );
      progress.update((rows += 1), ROWS);
    }
  }
}

interface CpuMeasurement {
  readonly result: LoadResult;
  readonly cpuMicros: number;
}

async function measureCpu(
  target: ServerProcess,
  run: () => Promise<LoadResult>,
): Promise<CpuMeasurement> {
  const before = target.cpuSeconds();
  const result = await run();
  return {
    result,
    cpuMicros: ((target.cpuSeconds() - before) * 1e6) / Math.max(1, result.requests),
  };
}

function printRow(name: string, connections: number, { result, cpuMicros }: CpuMeasurement): void {
  progress.update((rows += 1), ROWS);
  console.log(
    `| ${name} | ${connections} | ${result.perSecond.toFixed(0)} | ${cpuMicros.toFixed(1)} | ${result.p50Ms.toFixed(2)} | ${result.p99Ms.toFixed(2)} | ${result.failures} |`,
  );
}
