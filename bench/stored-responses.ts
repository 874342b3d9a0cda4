// Benchmarks what storing a response costs: the same calls with `store: false` and without `store`, in turns, on one gateway.
// Run it with `node bin/bun.js bench/stored-responses.ts`; compare only the rows of one run.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { generateLoad } from "./load-generator.ts";
import { fundedKey, startServer } from "./server-process.ts";

const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 5);
const ROUNDS = Number(process.env["BENCH_ROUNDS"] ?? 3);
const WARM_UP_SECONDS = 8;
const CONNECTIONS = [1, 64];
const INPUT_CHARACTERS = [900, 50_000];

const folder = mkdtempSync(path.join(tmpdir(), "postern-bench-"));
const simulator = await startServer(["simulate", "--port"], {});
const gateway = await startServer(["serve"], {
  SIM_BASE_URL: simulator.url,
  POSTERN_DATA_DIR: folder,
  POSTERN_LOG_LEVEL: "warn",
});
try {
  const headers = {
    authorization: `Bearer ${await fundedKey(gateway.url, { POSTERN_DATA_DIR: folder })}`,
  };
  console.log("| input characters | connections | store | requests/s | CPU µs/request | p50 ms |");
  console.log("|---|---|---|---|---|---|");
  for (const characters of INPUT_CHARACTERS)
    for (const connections of CONNECTIONS) await compare(headers, characters, connections);
} finally {
  await gateway.stop();
  await simulator.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Words in an order that does not repeat, so that they compress as text does. */
function prose(characters: number): string {
  const words = readFileSync("docs/site/translation.md", "utf8").match(/[A-Za-z_]{2,}/g) ?? [];
  let text = "";
  for (let seed = 1; text.length < characters; seed = (seed * 48_271) % 0x7fffffff)
    text += `${words[seed % words.length]} `;
  return text.slice(0, characters);
}

interface Sum {
  requests: number;
  cpuMicros: number;
  perSecond: number;
  p50Ms: number;
}

async function compare(
  headers: Readonly<Record<string, string>>,
  characters: number,
  connections: number,
): Promise<void> {
  const variants: Readonly<Record<string, Sum>> = {
    false: { requests: 0, cpuMicros: 0, perSecond: 0, p50Ms: 0 },
    absent: { requests: 0, cpuMicros: 0, perSecond: 0, p50Ms: 0 },
  };
  for (let round = -1; round < ROUNDS; round++)
    for (const [name, sum] of Object.entries(variants)) {
      const body = JSON.stringify({
        model: "sim/echo",
        max_output_tokens: 16,
        input: prose(characters),
        ...(name === "false" ? { store: false } : {}),
      });
      const before = gateway.cpuSeconds();
      const seconds = round < 0 ? WARM_UP_SECONDS / 2 : SECONDS;
      const options = { url: gateway.url, path: "/v1/responses", headers, body, connections };
      const result = await generateLoad({ ...options, seconds });
      if (round < 0) continue;
      if (result.failures > 0) throw new Error(`${result.failures} calls failed`);
      sum.requests += result.requests;
      sum.cpuMicros += (gateway.cpuSeconds() - before) * 1e6;
      sum.perSecond += result.perSecond / ROUNDS;
      sum.p50Ms += result.p50Ms / ROUNDS;
    }
  const cpuOf = ({ cpuMicros, requests }: Sum): number => cpuMicros / Math.max(1, requests);
  const cpus = Object.entries(variants).map(([name, sum]) => {
    const row = [characters, connections, name, sum.perSecond.toFixed(0), cpuOf(sum).toFixed(1)];
    console.log(`| ${row.join(" | ")} | ${sum.p50Ms.toFixed(2)} |`);
    return cpuOf(sum);
  });
  const ratio = (cpus[1] ?? 0) / (cpus[0] ?? 1);
  console.log(`| ${characters} | ${connections} | CPU, absent ÷ false | | ${ratio.toFixed(2)} | |`);
}
