// Benchmarks overload: an account offers four times what the gateway can serve, while another one offers little. Prints what is
// served and refused, the latency of what is admitted, and how fast the gateway recovers. Run it with
// `node bin/bun.js bench/overload.ts`.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { generateLoad } from "./load-generator.ts";
import { fundedKey, type ServerProcess, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 5);
const CONNECTIONS = 64;
const OVERLOAD = 4;
/** Of the capacity. */
const LIGHT_SHARE = 0.05;
const CONNECTIONS_MAX = 4_000;
/** A long conversation costs the gateway ten times as much as this generator, which shares the machine. */
const REQUEST_BODY = JSON.stringify({
  model: "sim/echo",
  max_tokens: 16,
  messages: Array.from({ length: 801 }, (_, index) => ({
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
  readonly offered: number;
  readonly served: number;
  readonly refused: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const folder = mkdtempSync(path.join(tmpdir(), "postern-overload-"));
process.env["POSTERN_DATA_DIR"] = folder;
const simulator = await startServer(["simulate", "--port"], {});
const gateway = await startServer(["serve"], {
  POSTERN_DATA_DIR: folder,
  SIM_BASE_URL: simulator.url,
  POSTERN_LOG_LEVEL: "error",
});
const [heavyKey, lightKey] = [
  await fundedKey(gateway.url, folder),
  await fundedKey(gateway.url, folder),
];
const closed = (seconds: number) =>
  generateLoad({
    url: gateway.url,
    path: CHAT_PATH,
    headers: { authorization: `Bearer ${heavyKey}` },
    body: REQUEST_BODY,
    connections: CONNECTIONS,
    seconds,
  });
await closed(SECONDS);
const capacity = await closed(SECONDS);
console.log(
  `capacity with ${CONNECTIONS} connections: ${capacity.perSecond.toFixed(0)} calls/s, p50 ${capacity.p50Ms.toFixed(1)} ms, p99 ${capacity.p99Ms.toFixed(1)} ms`,
);
const light = { name: "light", key: lightKey, perSecond: capacity.perSecond * LIGHT_SHARE };
const heavy = { name: "heavy", key: heavyKey, perSecond: capacity.perSecond * 0.6 };
console.log("\n| load | account | offered/s | served/s | refused/s | failed | p50 ms | p99 ms |");
console.log("|---|---|---|---|---|---|---|---|");
await measure("0.65 ×", gateway, [heavy, light]);
await measure(`${OVERLOAD} ×`, gateway, [
  { ...heavy, perSecond: capacity.perSecond * OVERLOAD },
  light,
]);
await measure("first second after", gateway, [heavy, light], 1);
await measure("next second", gateway, [heavy, light], 1);
await gateway.stop();
await simulator.stop();
rmSync(folder, { recursive: true });
process.exit(0);

async function measure(
  name: string,
  server: ServerProcess,
  loads: readonly OpenLoad[],
  seconds = SECONDS,
): Promise<void> {
  const results = await Promise.all(loads.map((load) => offer(server, load, seconds)));
  for (const result of results) {
    const perSecond = (count: number): string => (count / seconds).toFixed(0);
    console.log(
      `| ${name} | ${result.name} | ${perSecond(result.offered)} | ${perSecond(result.served)} | ${perSecond(result.refused)} | ${result.failed} | ${result.p50Ms.toFixed(1)} | ${result.p99Ms.toFixed(1)} |`,
    );
  }
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
