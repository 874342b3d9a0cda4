// What counts as an empty reply: over every API, from every wire of a provider, whole and streamed. A caller cannot make a reply
// empty: an output limit, reasoning and leaving have a reason, tokens or an end of their own.

import { afterAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { encodeFrame } from "../../../packages/wires/test/converse/encode-converse-frames.ts";
import { integer, type Row } from "../../../src/store/db.ts";
import { runs } from "../../support/full.ts";
import {
  type Api,
  APIS,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "../../translation/support/harness.ts";
import { usageRecordsOf, waitUntil } from "../support/harness.ts";

const harness = await startHarness();
const { gateway, account } = harness;
afterAll(() => harness.stop());

const INPUT = 50;

interface Content {
  readonly text: string;
  readonly hasCall: boolean;
  /** Why the reply ended. */
  readonly reason: "stop" | "length" | undefined;
  readonly outputTokens: number;
}

const NOTHING: Content = { text: "", hasCall: false, reason: undefined, outputTokens: 0 };

const isEmpty = ({ text, hasCall, reason, outputTokens }: Content): boolean =>
  text === "" && !hasCall && reason === undefined && outputTokens === 0;

const json = (body: Json): Response => Response.json(body);
const sse = (events: readonly Json[], end = ""): Response =>
  new Response(
    events
      .map((event) => {
        const name = typeof event["type"] === "string" ? `event: ${event["type"]}\n` : "";
        return `${name}data: ${JSON.stringify(event)}\n\n`;
      })
      .join("") + end,
    { headers: { "content-type": "text/event-stream" } },
  );

const REPLIES: Readonly<Record<Wire, (content: Content, stream: boolean) => Response>> = {
  chat: ({ text, hasCall, reason, outputTokens }, stream) => {
    const usage = { prompt_tokens: INPUT, completion_tokens: outputTokens };
    const call = { id: "c1", type: "function", function: { name: "look", arguments: "{}" } };
    const message = { role: "assistant", content: text, ...(hasCall && { tool_calls: [call] }) };
    const finish_reason = reason ?? null;
    const base = { id: "chatcmpl-1", model: "echo", created: 1 };
    if (!stream) return json({ ...base, choices: [{ index: 0, message, finish_reason }], usage });
    const delta = { ...message, ...(hasCall && { tool_calls: [{ index: 0, ...call }] }) };
    const chunk = { ...base, object: "chat.completion.chunk" };
    return sse(
      [
        { ...chunk, choices: [{ index: 0, delta, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }] },
        { ...chunk, choices: [], usage },
      ],
      "data: [DONE]\n\n",
    );
  },
  responses: ({ text, hasCall, reason, outputTokens }, stream) => {
    const status = reason === "length" ? "incomplete" : "completed";
    const part = { type: "output_text", text, annotations: [] };
    const item = { id: "msg_1", type: "message", role: "assistant", status: "completed" };
    const call = {
      id: "fc_1",
      type: "function_call",
      call_id: "c1",
      name: "look",
      arguments: "{}",
    };
    const response = {
      id: "resp_1",
      object: "response",
      model: "echo",
      ...(reason !== undefined && { status }),
      ...(reason === "length" && { incomplete_details: { reason: "max_output_tokens" } }),
      output: [...(text === "" ? [] : [{ ...item, content: [part] }]), ...(hasCall ? [call] : [])],
      usage: {
        input_tokens: INPUT,
        output_tokens: outputTokens,
        total_tokens: INPUT + outputTokens,
      },
    };
    if (!stream) return json(response);
    const items = response.output.flatMap((one, output_index) => [
      { type: "response.output_item.added", output_index, item: one },
      ...(one === call
        ? []
        : [
            {
              type: "response.output_text.delta",
              output_index,
              item_id: "msg_1",
              content_index: 0,
              delta: text,
            },
          ]),
      { type: "response.output_item.done", output_index, item: one },
    ]);
    return sse([
      { type: "response.created", response: { ...response, output: [], usage: null } },
      ...items,
      { type: `response.${reason === "length" ? status : "completed"}`, response },
    ]);
  },
  messages: ({ text, hasCall, reason, outputTokens }, stream) => {
    const stop_reason =
      reason === undefined ? null : reason === "length" ? "max_tokens" : "end_turn";
    const usage = { input_tokens: INPUT, output_tokens: outputTokens };
    const call = { type: "tool_use", id: "toolu_1", name: "look", input: {} };
    const content = [...(text === "" ? [] : [{ type: "text", text }]), ...(hasCall ? [call] : [])];
    const message = { id: "msg_1", type: "message", role: "assistant", model: "echo" };
    if (!stream) return json({ ...message, content, stop_reason, stop_sequence: null, usage });
    const blocks = content.flatMap((block, index) => [
      {
        type: "content_block_start",
        index,
        content_block: block.type === "text" ? { type: "text", text: "" } : block,
      },
      ...(block.type === "text"
        ? [{ type: "content_block_delta", index, delta: { type: "text_delta", text } }]
        : []),
      { type: "content_block_stop", index },
    ]);
    return sse([
      { type: "message_start", message: { ...message, content: [], usage } },
      ...blocks,
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
      { type: "message_stop" },
    ]);
  },
  gemini: ({ text, hasCall, reason, outputTokens }, stream) => {
    const parts = [
      ...(text === "" ? [] : [{ text }]),
      ...(hasCall ? [{ functionCall: { name: "look", args: {} } }] : []),
    ];
    const finishReason = reason === "length" ? "MAX_TOKENS" : "STOP";
    const body = {
      candidates: [
        {
          index: 0,
          content: { role: "model", parts },
          ...(reason !== undefined && { finishReason }),
        },
      ],
      usageMetadata: {
        promptTokenCount: INPUT,
        candidatesTokenCount: outputTokens,
        totalTokenCount: INPUT + outputTokens,
      },
      modelVersion: "echo",
    };
    return stream ? sse([body]) : json(body);
  },
  converse: ({ text, hasCall, reason, outputTokens }, stream) => {
    const stopReason = reason === "length" ? "max_tokens" : reason && "end_turn";
    const usage = {
      inputTokens: INPUT,
      outputTokens,
      totalTokens: INPUT + outputTokens,
    };
    const toolUse = { toolUseId: "t1", name: "look" };
    const content = [
      ...(text === "" ? [] : [{ text }]),
      ...(hasCall ? [{ toolUse: { ...toolUse, input: {} } }] : []),
    ];
    if (!stream)
      return json({ output: { message: { role: "assistant", content } }, stopReason, usage });
    const events: (readonly [name: string, data: Json])[] = [
      ["messageStart", { role: "assistant" }],
    ];
    if (text !== "")
      events.push(
        ["contentBlockDelta", { contentBlockIndex: 0, delta: { text } }],
        ["contentBlockStop", { contentBlockIndex: 0 }],
      );
    if (hasCall)
      events.push(
        ["contentBlockStart", { contentBlockIndex: 1, start: { toolUse } }],
        ["contentBlockDelta", { contentBlockIndex: 1, delta: { toolUse: { input: "{}" } } }],
        ["contentBlockStop", { contentBlockIndex: 1 }],
      );
    if (stopReason !== undefined) events.push(["messageStop", { stopReason }]);
    events.push(["metadata", { usage }]);
    return new Response(
      Buffer.concat(
        events.map(([name, data]) => encodeFrame({ name, data: JSON.stringify(data) })),
      ),
      { headers: { "content-type": "application/vnd.amazon.eventstream" } },
    );
  },
};

const TOOLS: Readonly<Record<Api, Json>> = {
  chat: { type: "function", function: { name: "look", parameters: { type: "object" } } },
  responses: { type: "function", name: "look", parameters: { type: "object" } },
  messages: { name: "look", input_schema: { type: "object" } },
};

async function lastRecord(): Promise<Row> {
  const record = (await usageRecordsOf(gateway.server.db, account.id)).at(-1);
  if (record === undefined) throw new Error("no record");
  return record;
}

async function call(api: Api, wire: Wire, content: Content, stream: boolean): Promise<Row> {
  harness.providerResponse = () => REPLIES[wire](content, stream);
  const before = (await usageRecordsOf(gateway.server.db, account.id)).length;
  const body = minimalBody(api, wire, "hi", {
    tools: [TOOLS[api]],
    stream,
    ...(api === "responses" && { store: false }),
  });
  const { status, text } = await callApi(harness, api, body);
  harness.providerResponse = undefined;
  const records = await usageRecordsOf(gateway.server.db, account.id);
  expect([status, text, records.length]).toEqual([status, text, before + 1]);
  return lastRecord();
}

const EVERY = APIS.flatMap((api) =>
  WIRES.flatMap((wire) => [false, true].map((stream) => ({ api, wire, stream }))),
);

/** The streams of two wires end with their reason: without one, they were cut. */
function outcomeOf({ wire, stream }: { readonly wire: Wire; readonly stream: boolean }): string {
  return stream && (wire === "gemini" || wire === "converse") ? "upstream_error" : "empty_reply";
}

describe("a reply without output, tool call and reason", () => {
  test.each(EVERY)("costs nothing over $api from $wire (streamed: $stream)", async (pair) => {
    const { api, wire, stream } = pair;
    const record = await call(api, wire, NOTHING, stream);
    expect([integer(record, "cost_nano"), record["outcome"]]).toEqual([0, outcomeOf(pair)]);
  });
});

describe("no caller makes a reply free", () => {
  test.each(EVERY)("by an output limit over $api from $wire (streamed: $stream)", async (pair) => {
    const { api, wire, stream } = pair;
    // All output was reasoning that is not shown.
    for (const outputTokens of [0, 1]) {
      const record = await call(api, wire, { ...NOTHING, reason: "length", outputTokens }, stream);
      expect({ ...pair, outputTokens, cost: integer(record, "cost_nano") }).toEqual({
        ...pair,
        outputTokens,
        cost: INPUT * 1_000 + outputTokens * 5_000,
      });
    }
  });

  test("by any other content, and every reply that is empty costs nothing", async () => {
    const content = fc.record({
      text: fc.constantFrom("", "", "a"),
      hasCall: fc.boolean(),
      reason: fc.constantFrom("stop" as const, "length" as const, undefined, undefined),
      outputTokens: fc.constantFrom(0, 0, 3),
    });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...EVERY), content, async ({ api, wire, stream }, one) => {
        const record = await call(api, wire, one, stream);
        const cost = integer(record, "cost_nano");
        const outcome = String(record["outcome"]);
        if (isEmpty(one)) expect([cost, outcome]).toEqual([0, outcomeOf({ wire, stream })]);
        else expect(outcome).not.toBe("empty_reply");
        // A stream that lacks its end is the provider's failure.
        if (one.reason !== undefined) expect(cost).toBe(INPUT * 1_000 + one.outputTokens * 5_000);
      }),
      { numRuns: runs(120) },
    );
  });

  test.each(APIS.map((api) => ({ api })))(
    "by leaving a stream of $api before its first output",
    async ({ api }) => {
      const rest = Promise.withResolvers<void>();
      const whole = await REPLIES[api](
        { ...NOTHING, text: "a", reason: "stop", outputTokens: 9 },
        true,
      ).text();
      const [first = "", ...others] = whole.split(/(?<=\n\n)/);
      harness.providerResponse = () =>
        new Response(
          new ReadableStream<Uint8Array>({
            async start(controller) {
              controller.enqueue(new TextEncoder().encode(first));
              await rest.promise;
              controller.enqueue(new TextEncoder().encode(others.join("")));
              controller.close();
            },
          }),
          { headers: { "content-type": "text/event-stream" } },
        );
      const before = (await usageRecordsOf(gateway.server.db, account.id)).length;
      const leaving = new AbortController();
      const path = { chat: "chat/completions", responses: "responses", messages: "messages" }[api];
      const response = await fetch(`${gateway.url}/v1/${path}`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(minimalBody(api, api, "hi", { stream: true })),
        signal: leaving.signal,
      });
      await response.body?.getReader().read();
      leaving.abort();
      rest.resolve();
      await waitUntil(
        () => usageRecordsOf(gateway.server.db, account.id),
        ({ length }) => length > before,
      );
      harness.providerResponse = undefined;
      expect(integer(await lastRecord(), "cost_nano")).toBeGreaterThan(0);
    },
  );
});
