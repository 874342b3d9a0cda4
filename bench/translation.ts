// Benchmarks translated streams: CPU time per chunk for every pair of API and wire, with many concurrent streams. The
// gateway with its ledger, the simulated provider and the load generator share the machine. Run it with
// `node bin/bun.js bench/translation.ts`; BENCH_PAIRS=chat-gemini,messages-chat selects rows.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import path from "node:path";
import { exitIfInterrupted, startScriptProgress } from "../test/support/script-progress.ts";
import { openStreams } from "./load-generator.ts";
import { type ServerProcess, fundedKey, startServer } from "./server-process.ts";

const STREAMS = Number(process.env["BENCH_STREAMS"] ?? 500);
const CHUNKS = Number(process.env["BENCH_CHUNKS"] ?? 200);
const PACE_MS = Number(process.env["BENCH_PACE_MS"] ?? 50);
const SELECTED_PAIRS = process.env["BENCH_PAIRS"]?.split(",");

const APIS = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
} as const;
type Api = keyof typeof APIS;
const WIRES = {
  chat: "/v1",
  responses: "/v1",
  messages: "",
  gemini: "/v1beta",
  converse: "",
} as const;
type Wire = keyof typeof WIRES;

const pairs = keysOf(APIS)
  .flatMap((api) => keysOf(WIRES).map((wire) => ({ api, wire })))
  .filter(({ api, wire }) => SELECTED_PAIRS?.includes(`${api}-${wire}`) ?? true);
const progress = startScriptProgress({
  unit: "pairs",
  verb: "measured",
  whenInterrupted: "Run it again. BENCH_PAIRS selects pairs.",
});

let interruption: unknown;

const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
const simulator = await startServer(["simulate", "--port"], {});
const file = path.join(folder, "models.json");
writeFileSync(file, JSON.stringify(modelsFile(simulator.url)));
const gateway = await startServer(["serve"], {
  SIM_BASE_URL: simulator.url,
  POSTERN_DATA_DIR: folder,
  POSTERN_MODELS_FILE: file,
  POSTERN_LOG_LEVEL: "warn",
  POSTERN_OPEN_CALLS_PER_KEY: "0",
});
try {
  const key = await fundedKey(gateway.url, { POSTERN_DATA_DIR: folder });
  console.log(
    `${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), Bun ${Bun.version}, ${STREAMS} concurrent streams, ${CHUNKS} chunks each, one per ${PACE_MS} ms\n`,
  );
  console.log(
    "| API | wire | CPU µs/chunk | first token p50 ms | first token p99 ms | failures | memory MB |",
  );
  console.log("|---|---|---|---|---|---|---|");
  for (const [index, { api, wire }] of pairs.entries()) {
    await measurePair(gateway, key, api, wire);
    progress.update(index + 1, pairs.length, `${api}-${wire}`);
  }
  progress.end(pairs.length);
} catch (error) {
  interruption = error;
} finally {
  await gateway.stop();
  await simulator.stop();
  rmSync(folder, { recursive: true, force: true });
}
if (interruption !== undefined) exitIfInterrupted(interruption);

async function measurePair(
  target: ServerProcess,
  key: string,
  api: Api,
  wire: Wire,
): Promise<void> {
  const streamOptions = {
    url: target.url,
    path: APIS[api],
    headers: { authorization: `Bearer ${key}` },
    connections: STREAMS,
    timeoutSeconds: 90,
  };
  // Warm-up: the runtime compiles the code of the pair.
  await openStreams({ ...streamOptions, connections: 200, body: requestBody(api, wire, 150, 10) });
  const before = target.cpuSeconds();
  const result = await openStreams({
    ...streamOptions,
    body: requestBody(api, wire, CHUNKS, PACE_MS),
  });
  const micros = ((target.cpuSeconds() - before) * 1e6) / (STREAMS * CHUNKS);
  console.log(
    `| ${api} | ${wire} | ${micros.toFixed(1)} | ${result.firstTokenP50Ms.toFixed(1)} | ${result.firstTokenP99Ms.toFixed(1)} | ${result.failures} | ${target.rssMb().toFixed(0)} |`,
  );
}

function requestBody(api: Api, wire: Wire, chunks: number, paceMs: number): string {
  const prompt = `[[sim: tokens=${chunks} chunks=${chunks} pace=${paceMs}]]`;
  const common = { model: `on-${wire}/echo`, stream: true };
  if (api === "responses")
    return JSON.stringify({ ...common, max_output_tokens: 2_000, input: prompt });
  return JSON.stringify({
    ...common,
    max_tokens: 2_000,
    messages: [{ role: "user", content: prompt }],
  });
}

/** One provider per wire, each with a model that only supports this wire. */
function modelsFile(url: string): object {
  const wires = keysOf(WIRES);
  return {
    providers: wires.map((wire) => ({
      id: `on-${wire}`,
      base_url: url + WIRES[wire],
      wires: [wire],
      stops_billing_on_abort: true,
    })),
    models: wires.map((wire) => ({
      id: `on-${wire}/echo`,
      name: "echo",
      context_length: 128_000,
      max_output_tokens: 16_000,
      wires: [wire],
      pricing: { tokens: { input: "0.1", output: "0.2" } },
    })),
  };
}

function keysOf<Key extends string>(record: Readonly<Record<Key, unknown>>): readonly Key[] {
  // Safe: the records above have no other keys.
  return Object.keys(record) as Key[];
}
