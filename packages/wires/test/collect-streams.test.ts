// A whole reply that is collected from a stream says the same as the stream: checked on every recorded stream, on the
// simulated provider's whole replies, and on streams that are cut at any event.

import { describe, expect, test } from "bun:test";
import { createSimulator } from "@postern/simulator";
import { assert, constantFrom, integer, property } from "fast-check";
import { TEST_SEED } from "../../../test/support/random.ts";
import {
  eventsOf,
  type Recording,
  recordings,
  skipWithoutRecordings,
} from "../../../test/support/recordings/recordings.ts";
import { OUTBOUND_WIRES } from "../src/all-wires.ts";
import type { CanonicalReply } from "../src/canonical/canonical-reply.ts";
import type { StreamCollector } from "../src/collect/stream-collector.ts";
import { type JsonObject, parseObject } from "../src/json-fields.ts";
import { usageOf } from "../src/usage/provider-usage.ts";
import { WIRE_TRAITS } from "../src/wire-traits.ts";
import { sampleRecordings } from "./sample-recordings.ts";
import { collectReply, ORIGIN, readEvents, sseEvents } from "./stream-helpers.ts";

type CollectedWire = "chat" | "responses" | "messages";
const WIRES: readonly CollectedWire[] = ["chat", "responses", "messages"];

function collectorOf(wire: CollectedWire): StreamCollector {
  const { createCollector } = WIRE_TRAITS[wire];
  if (createCollector === undefined) throw new Error(`streams of ${wire} are not collected`);
  return createCollector();
}

function collect(
  wire: CollectedWire,
  events: readonly { readonly data: string }[],
): StreamCollector {
  const collector = collectorOf(wire);
  for (const { data } of events) {
    const json = parseObject(data);
    if (json !== undefined) collector.push(json);
  }
  return collector;
}

const context = (wire: CollectedWire, provider: string) => ({
  origin: ORIGIN,
  readUsage: (body: JsonObject) => usageOf(wire, body, provider),
});

/** What both say. A whole reply has more, such as the ids of its parts, and no arguments that were cut off. */
function contentOf({ choices, usage, model }: CanonicalReply): unknown {
  const contents = choices.map(({ parts, finish }) => {
    const textOf = (type: "text" | "refusal" | "reasoning"): string =>
      parts.map((part) => (part.type === type ? part.text : "")).join("");
    const calls = parts.flatMap((part) => (part.type === "tool_call" ? [part] : []));
    return {
      text: textOf("text"),
      refusal: textOf("refusal"),
      reasoning: textOf("reasoning"),
      calls: calls.map(({ name, arguments: args }) => [name, parseObject(args) ?? {}]),
      natives: parts.flatMap((part) => (part.type === "native" ? [part.value["type"]] : [])),
      finish: finish.reason,
    };
  });
  return JSON.parse(JSON.stringify({ contents, usage: usage?.usage, model }));
}

function expectSame(wire: CollectedWire, recording: Recording): void {
  const events = eventsOf(recording);
  const streamed = collectReply(
    readEvents(OUTBOUND_WIRES[wire], events, context(wire, recording.provider)),
  );
  const whole = collect(wire, events).reply();
  if (whole === undefined || streamed.choices.some(({ finish }) => finish.reason === "error"))
    return;
  const read = OUTBOUND_WIRES[wire].readReply(whole, context(wire, recording.provider));
  expect([recording.file, contentOf(read)]).toEqual([recording.file, contentOf(streamed)]);
}

describe("a collected reply", () => {
  for (const wire of WIRES) {
    test(`has the content of sample streams (${wire})`, () => {
      const streams = sampleRecordings(wire).filter(({ stream }) => stream);
      expect(streams.length).toBeGreaterThan(0);
      for (const recording of streams) expectSame(wire, recording);
    });

    test.skipIf(skipWithoutRecordings("collected replies"))(
      `has the content of recorded streams (${wire})`,
      () => {
        let count = 0;
        for (const recording of recordings()) {
          const { stream, status, bodyFormat } = recording;
          if (recording.wire !== wire || !stream || status !== 200 || bodyFormat !== "sse")
            continue;
          count += 1;
          expectSame(wire, recording);
        }
        expect(count).toBeGreaterThan(20);
      },
    );
  }

  const simulator = createSimulator({ now: () => 1_700_000_000_000 });
  const PATHS = {
    chat: "/v1/chat/completions",
    responses: "/v1/responses",
    messages: "/v1/messages",
  };
  const ask = async (wire: CollectedWire, text: string, more: JsonObject): Promise<string> => {
    const content =
      wire === "responses" ? { input: text } : { messages: [{ role: "user", content: text }] };
    const body = {
      model: "sim/echo",
      ...content,
      ...(wire === "messages" && { max_tokens: 500 }),
      ...more,
    };
    const url = `http://simulator.test${PATHS[wire]}`;
    const headers = { "x-api-key": "k", "anthropic-version": "2023-06-01" };
    const request = new Request(url, { method: "POST", headers, body: JSON.stringify(body) });
    return await (await simulator.fetch(request)).text();
  };
  const streamOf = (wire: CollectedWire, text: string): Promise<string> =>
    ask(wire, text, {
      stream: true,
      ...(wire === "chat" && { stream_options: { include_usage: true } }),
    });
  /** Ids, times and signatures are new in each reply, and streams leave out some members that are null. */
  const NEW =
    /^(?:id|call_id|created|created_at|completed_at|system_fingerprint|signature|encrypted_content)$/;
  const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
  const comparable = (json: JsonObject | undefined): unknown =>
    JSON.parse(
      JSON.stringify(json, (name, value: unknown) =>
        NEW.test(name) || value === null || isEmptyList(value) ? undefined : value,
      ),
    );

  for (const wire of WIRES)
    for (const text of ["Hello", "[[sim: reasoning=30]] Hello", "lookup both"])
      test(`is the whole reply of the provider (${wire}, ${text})`, async () => {
        const whole = parseObject(await ask(wire, text, {}));
        expect(whole).toBeDefined();
        const collected = collect(wire, sseEvents(await streamOf(wire, text))).reply();
        expect(comparable(collected)).toEqual(comparable(whole));
      });

  const usage = {
    inputTokens: 40,
    cacheReadTokens: 10,
    outputTokens: 30,
    reasoningTokens: 5,
    costUsd: 0.5,
  };
  test("ends as at an output limit wherever its stream is cut", async () => {
    const text = "[[sim: reasoning=20]] lookup both";
    const streams = new Map<CollectedWire, readonly { readonly data: string }[]>();
    for (const wire of WIRES) streams.set(wire, sseEvents(await streamOf(wire, text)));
    assert(
      property(constantFrom(...WIRES), integer({ min: 1, max: 60 }), (wire, count) => {
        const collector = collect(wire, (streams.get(wire) ?? []).slice(0, count));
        collector.stop(usage);
        const json = collector.reply() ?? {};
        const read = OUTBOUND_WIRES[wire].readReply(json, context(wire, "openai"));
        expect(read.choices.map(({ finish }) => finish.reason)).toEqual(["length"]);
        expect(read.usage?.usage.tokens.output).toBeGreaterThan(0);
        expect(JSON.stringify(json)).toContain('"cost":0.5');
      }),
      { seed: TEST_SEED },
    );
  });

  test("keeps the text of an item that is not finished", () => {
    const collector = collectorOf("responses");
    const item = { type: "message", id: "msg_1", status: "in_progress", content: [] };
    for (const data of [
      { type: "response.created", response: { id: "resp_1", status: "in_progress", output: [] } },
      { type: "response.output_item.added", output_index: 0, item },
      {
        type: "response.content_part.added",
        output_index: 0,
        content_index: 0,
        part: { type: "output_text", text: "" },
      },
      { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "Hel" },
      { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "lo" },
    ])
      collector.push(data);
    collector.stop(usage);
    expect(collector.reply()).toMatchObject({
      id: "resp_1",
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output: [{ status: "incomplete", content: [{ type: "output_text", text: "Hello" }] }],
    });
  });

  test("continues parts with text, and keeps what no API of today has", () => {
    const collector = collectorOf("chat");
    const delta = (piece: JsonObject): void =>
      collector.push({ id: "c", choices: [{ index: 0, delta: piece }] });
    delta({ role: "assistant", content: "a" });
    delta({ content: [{ type: "thinking", thinking: "b" }], future: { note: "x" } });
    delta({ role: "assistant", content: "c", future: { note: "y", count: 2 } });
    collector.push({ choices: [{ index: 5_000, delta: { content: "d" } }], usage: null });
    expect(collector.reply()).toMatchObject({
      choices: [
        {
          message: {
            role: "assistant",
            content: [
              { type: "text", text: "a" },
              { type: "thinking", thinking: "b" },
              { type: "text", text: "c" },
              { type: "text", text: "d" },
            ],
            future: { note: "xy", count: 2 },
          },
        },
      ],
    });
  });
});
