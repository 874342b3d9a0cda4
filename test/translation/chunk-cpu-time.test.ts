// The CPU time of a translated chunk on every pair: parsed, metered, read, written and encoded. The limit is three times
// the budget, because a busy machine can be several times slower.

import { expect, test } from "bun:test";
import { createSimulator } from "@postern/simulator";
import {
  createSseParser,
  type SseParser,
  createStreamMeter,
  usageOf,
  scanEvent,
  createAwsFrameParser,
  INBOUND_WIRES,
  OUTBOUND_WIRES,
} from "@postern/wires";
import { writeContext } from "../../packages/wires/test/stream-helpers.ts";
import { translationTransform } from "../../src/inference/translate/translate-stream.ts";
import { type Api, APIS, minimalBody, type Wire, WIRES } from "./support/harness.ts";

const BUDGET_US = 35;
const ROUNDS = 10;
const DIRECTIVE = "[[sim: tokens=2000 chunks=1000]] hello";

const PATHS: Readonly<Record<Wire, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  gemini: "/v1beta/models/echo:streamGenerateContent?alt=sse",
  converse: "/model/echo/converse-stream",
};

test("a translated chunk stays within the CPU budget", async () => {
  const lines: string[] = [];
  let slowest = 0;
  for (const wire of WIRES) {
    const chunks = await streamOn(wire);
    for (const api of APIS) {
      if (api === wire) continue;
      const us = cpuTimeOf(api, wire, chunks);
      slowest = Math.max(slowest, us);
      lines.push(`${api} from ${wire} ${us.toFixed(1)}`);
    }
  }
  console.log(`» µs of CPU a translated chunk: ${lines.join(", ")}; budget ${BUDGET_US}`);
  expect(slowest).toBeLessThan(BUDGET_US * 3);
});

/** The provider's stream, one event per chunk. */
async function streamOn(wire: Wire): Promise<readonly Uint8Array[]> {
  const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
  const bodies: Readonly<Record<Wire, object>> = {
    chat: {
      ...minimalBody("chat", wire, DIRECTIVE),
      stream: true,
      stream_options: { include_usage: true },
    },
    responses: { ...minimalBody("responses", wire, DIRECTIVE), stream: true },
    messages: { ...minimalBody("messages", wire, DIRECTIVE), stream: true, max_tokens: 4_000 },
    gemini: { contents: [{ role: "user", parts: [{ text: DIRECTIVE }] }] },
    converse: { messages: [{ role: "user", content: [{ text: DIRECTIVE }] }] },
  };
  const response = await simulator.fetch(
    new Request(`http://simulator${PATHS[wire]}`, {
      method: "POST",
      headers: { "content-type": "application/json", "anthropic-version": "2023-06-01" },
      body: JSON.stringify(bodies[wire]),
    }),
  );
  const chunks: Uint8Array[] = [];
  if (response.body === null) throw new Error("no stream");
  for await (const chunk of response.body) chunks.push(chunk);
  expect(chunks.length).toBeGreaterThan(500);
  return chunks;
}

function cpuTimeOf(api: Api, wire: Wire, chunks: readonly Uint8Array[]): number {
  for (let warm = 0; warm < 5; warm++) translate(api, wire, chunks);
  const before = process.cpuUsage();
  let events = 0;
  for (let round = 0; round < ROUNDS; round++) events += translate(api, wire, chunks);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / events;
}

function translate(api: Api, wire: Wire, chunks: readonly Uint8Array[]): number {
  const parser: SseParser = wire === "converse" ? createAwsFrameParser() : createSseParser();
  const meter = createStreamMeter(wire, "sim");
  const transform = translationTransform(api, {
    modelIdOf: (name) => name,
    reader: OUTBOUND_WIRES[wire].createStreamReader({
      origin: { provider: "sim", model: "echo" },
      readUsage: (body) => usageOf(wire, body, "sim"),
    }),
    writer: INBOUND_WIRES[api].createStreamWriter(writeContext()),
    showsUsage: true,
    dropped: [],
    toErrorObject: ({ code, message }) => ({ code, message }),
  });
  const costUsd = (): string => "0.001";
  let events = 0;
  for (const chunk of chunks)
    for (const event of parser.push(chunk)) {
      events += 1;
      if (scanEvent(meter, event) === "usage" && meter.isUsageFinal)
        transform.transformUsageEvent(event, costUsd);
      else transform.transformEvent(event);
    }
  expect(transform.finish(true, costUsd)).toBeDefined();
  return events;
}
