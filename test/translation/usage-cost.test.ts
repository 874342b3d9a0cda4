// A call costs the same streamed or not, over its own API or another. Each token is charged once, by its kind, and the
// reply and the usage record agree.

import { afterAll, describe, expect, test } from "bun:test";
import { usageRecordOf } from "../inference/support/harness.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import {
  type Api,
  APIS,
  modelOn,
  PRICES,
  recordedExchanges,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";
import { createSdkClients, type NormalizedReply } from "./support/sdk-clients.ts";

const harness = await startHarness();
afterAll(async () => {
  await checkExchanges(harness, "metering");
  await harness.stop();
});

interface Case {
  readonly title: string;
  readonly directive: string;
  /** The tokens by kind, for wires that distinguish these kinds. */
  readonly tokens: Readonly<Partial<Record<keyof typeof PRICES, number>>>;
  readonly wires: readonly Wire[];
}

const CASES: readonly Case[] = [
  {
    title: "input and output",
    directive: "input=1000 output=50 cached=0",
    tokens: { input: 1_000, output: 50 },
    wires: WIRES,
  },
  {
    title: "tokens read from the cache",
    directive: "input=1000 cached=512 output=50",
    tokens: { input: 1_000, cache_read: 512, output: 50 },
    wires: WIRES,
  },
  {
    title: "tokens written to the cache with both TTLs",
    directive: "input=1000 cached=512 cache-5m=300 cache-1h=200 output=50",
    tokens: { input: 1_000, cache_read: 512, cache_write_5m: 300, cache_write_1h: 200, output: 50 },
    wires: ["messages", "converse"],
  },
  {
    title: "reasoning",
    directive: "input=1000 cached=0 output=50 reasoning=64",
    tokens: { input: 1_000, output: 50, reasoning: 64 },
    wires: ["chat", "responses", "gemini"],
  },
];

/** The usage record of the last call. */
async function lastRecord() {
  await recordedExchanges();
  const id = harness.exchanges.at(-1)?.headers.get("x-request-id");
  return await usageRecordOf(harness.gateway.server.db, id ?? null);
}

function costOf(tokens: Case["tokens"]): number {
  const nanos = Object.entries(tokens).reduce(
    (sum, [meter, count]) => sum + count * Number(PRICES[meter as keyof typeof PRICES]),
    0,
  );
  return nanos / 1e9;
}

function expectUsage(api: Api, reply: NormalizedReply, { tokens }: Case): void {
  const { input = 0, cache_read: read = 0, output = 0, reasoning = 0 } = tokens;
  const written = (tokens.cache_write_5m ?? 0) + (tokens.cache_write_1h ?? 0);
  expect(reply.usage).toMatchObject({
    input: input + read + written,
    cached: read,
    output: output + reasoning,
    cost: costOf(tokens),
  });
  expect(reply.usage.reasoning).toBe(reasoning);
  if (api === "messages") expect(reply.usage.cacheWritten).toBe(written);
}

for (const testCase of CASES)
  describe(testCase.title, () => {
    for (const api of APIS)
      for (const wire of testCase.wires)
        test(`${api} to ${wire}`, async () => {
          const client = createSdkClients(harness)[api];
          const prompt = { model: modelOn(wire), text: `[[sim: ${testCase.directive}]] hello` };
          for (const method of ["complete", "stream"] as const) {
            const reply = await client[method](prompt);
            if (api !== wire || method === "complete") expectUsage(api, reply, testCase);
            const record = await lastRecord();
            expect(Number(record["cost_nano"]) / 1e9).toBe(costOf(testCase.tokens));
          }
        });
  });
