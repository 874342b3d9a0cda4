import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { errorBody } from "../../../../src/base/error-body.ts";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { Target } from "../../src/canonical/wire-interfaces.ts";
import { InvalidRequest } from "../../src/invalid-request.ts";
import { responsesWire } from "../../src/responses/responses-wire.ts";
import { usageOf } from "../../src/usage/provider-usage.ts";
import { replyToEvents } from "../reply-to-events.ts";
import {
  collectReply,
  ORIGIN,
  readEvents,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";
import { validateResponsesStream } from "../validate-responses-stream.ts";

const TARGET: Target = ORIGIN;
const CONTEXT = {
  origin: ORIGIN,
  readUsage: (body: unknown) => usageOf("responses", body, "openai"),
};
const read = (body: object) => responsesWire.readRequest({ model: "m", ...body });
const user = { role: "user", content: "hi" };
const callOf = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
const resultOf = (id: string) => ({ type: "function_call_output", call_id: id, output: "ok" });

function failureOf(promise: PromiseLike<unknown>): PromiseLike<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

function paramOf(body: object): string | undefined {
  try {
    read(body);
  } catch (error) {
    if (error instanceof InvalidRequest) return error.path ?? "";
    throw error;
  }
  return undefined;
}

describe("invalid requests", () => {
  const cases: readonly (readonly [string, object, string])[] = [
    ["no input", {}, "input"],
    ["an input of another type", { input: 7 }, "input"],
    ["an empty input", { input: [] }, "input"],
    ["an item without type or role", { input: [user, { id: "msg_1" }] }, "input[1]"],
    ["an item by reference", { input: [{ type: "item_reference", id: "rs_1" }] }, "input[0]"],
    ["an unknown role", { input: [{ role: "tool", content: "x" }] }, "input[0].role"],
    ["an empty message", { input: [{ role: "user", content: "" }] }, "input[0]"],
    ["an output without a call", { input: [user, resultOf("a")] }, "input[1]"],
    ["an unanswered call", { input: [user, callOf("a"), user] }, "input[1]"],
    ["a repeated call id", { input: [user, callOf("a"), callOf("a"), resultOf("a")] }, "input[2]"],
    [
      "a call without name",
      { input: [user, { ...callOf("a"), name: "" }, resultOf("a")] },
      "input[1].name",
    ],
    [
      "a data URL that is not an image",
      {
        input: [
          {
            role: "user",
            content: [{ type: "input_image", image_url: "data:text/html;base64,AA==" }],
          },
        ],
      },
      "input[0].content[0].image_url",
    ],
    [
      "a file without media type",
      {
        input: [
          { role: "user", content: [{ type: "input_file", filename: "a.bin", file_data: "AAAA" }] },
        ],
      },
      "input[0].content[0].file_data",
    ],
    ["an unknown effort", { input: "x", reasoning: { effort: "huge" } }, "reasoning.effort"],
    ["a temperature out of range", { input: "x", temperature: 9 }, "temperature"],
    ["an output limit out of range", { input: "x", max_output_tokens: 1e18 }, "max_output_tokens"],
    [
      "an invalid schema",
      { input: "x", text: { format: { type: "json_schema", name: "a", schema: { type: "zz" } } } },
      "text.format.schema.type",
    ],
    ["a tool without name", { input: "x", tools: [{ type: "function" }] }, "tools[0].name"],
    [
      "a choice of a missing tool",
      { input: "x", tool_choice: { type: "function", name: "f" } },
      "tool_choice",
    ],
    ["metadata that is not a string", { input: "x", metadata: { a: 1 } }, "metadata.a"],
    ["an unknown truncation", { input: "x", truncation: "middle" }, "truncation"],
  ];
  for (const [what, body, param] of cases)
    test(`rejects ${what}`, () => expect(paramOf(body)).toBe(param));
});

describe("requests", () => {
  test("reads consecutive items of the model as one turn", () => {
    const { turns } = read({
      instructions: "be brief",
      input: [
        user,
        {
          type: "reasoning",
          id: "rs_1",
          summary: [{ type: "summary_text", text: "a" }],
          encrypted_content: "enc",
        },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "b" }] },
        callOf("1"),
        callOf("2"),
        resultOf("2"),
        {
          type: "function_call_output",
          call_id: "1",
          output: [{ type: "input_image", image_url: "https://a.b/c.png" }],
        },
      ],
    });
    expect(turns.map((turn) => [turn.role, ...turn.parts.map((part) => part.type)])).toEqual([
      ["system", "text"],
      ["user", "text"],
      ["assistant", "reasoning", "text", "tool_call", "tool_call"],
      ["tool", "tool_result", "tool_result"],
    ]);
    expect(turns[2]?.parts[0]).toMatchObject({
      summary: true,
      blob: { wire: "responses", kind: "encrypted", data: "enc" },
    });
  });

  test("keeps server tools, which are losses on other wires", () => {
    const { tools, toolChoice, turns } = read({
      input: [user, { type: "web_search_call", id: "ws_1", status: "completed" }, user],
      tools: [{ type: "web_search" }, { type: "mcp", server_label: "x", server_url: "https://x" }],
      tool_choice: { type: "web_search_preview" },
    });
    expect(tools?.map((tool) => tool.type)).toEqual(["native", "native"]);
    expect(toolChoice?.type).toBe("native");
    expect(turns[1]).toMatchObject({ role: "assistant", parts: [{ type: "native" }] });
  });

  test("reads references to state as native fields and never sends them", () => {
    const request = read({
      input: "x",
      previous_response_id: "resp_1",
      background: true,
      store: true,
    });
    expect(request.native?.fields).toEqual({ previous_response_id: "resp_1", background: true });
    const { body, losses } = responsesWire.writeRequest(request, TARGET);
    expect(body).toMatchObject({ store: true });
    expect(body["previous_response_id"]).toBeUndefined();
    expect(losses.map((loss) => [loss.path, loss.tolerated === true])).toEqual([
      ["previous_response_id", false],
      ["background", false],
    ]);
  });

  test("asks the provider not to store, unless the request says so", () => {
    for (const store of [undefined, false])
      expect(responsesWire.writeRequest(read({ input: "x", store }), TARGET).body).toMatchObject({
        store: false,
      });
  });

  test("names unsupported fields in losses", () => {
    const { losses } = responsesWire.writeRequest(
      {
        model: "m",
        turns: [
          { role: "user", name: "ann", path: "messages[0]", parts: [{ type: "text", text: "x" }] },
        ],
        stop: ["END"],
        seed: 1,
        n: 2,
        topK: 3,
        maxOutputTokens: 5,
        logitBias: { "1": 2 },
        presencePenalty: 1,
        names: { topK: "top_k" },
      },
      TARGET,
    );
    expect(losses.map((loss) => loss.path).sort()).toEqual(
      [
        "logitBias",
        "maxOutputTokens",
        "messages[0].name",
        "n",
        "presencePenalty",
        "seed",
        "stop",
        "top_k",
      ].sort(),
    );
    expect(losses.some((loss) => loss.tolerated)).toBe(false);
  });

  test("always sends strict, and requests encrypted reasoning", () => {
    const { body } = responsesWire.writeRequest(
      {
        model: "m",
        turns: [{ role: "user", parts: [{ type: "text", text: "x" }] }],
        tools: [{ type: "function", name: "f" }],
        reasoning: { budgetTokens: 6_000 },
      },
      TARGET,
    );
    expect(body).toMatchObject({
      tools: [{ type: "function", name: "f", strict: false }],
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "medium" },
    });
  });

  test("sends reasoning only to the provider that produced it", () => {
    const turns = [
      { role: "user" as const, parts: [{ type: "text" as const, text: "x" }] },
      {
        role: "assistant" as const,
        parts: [
          {
            type: "reasoning" as const,
            text: "t",
            blob: {
              wire: "responses" as const,
              kind: "encrypted" as const,
              data: "e",
              origin: ORIGIN,
            },
          },
          { type: "text" as const, text: "y" },
        ],
      },
      { role: "user" as const, parts: [{ type: "text" as const, text: "z" }] },
    ];
    const own = responsesWire.writeRequest({ model: "m", turns }, TARGET);
    expect(own.losses).toEqual([]);
    expect(own.body["input"]).toMatchObject([
      {},
      { type: "reasoning", encrypted_content: "e" },
      {},
      {},
    ]);
    const other = responsesWire.writeRequest({ model: "m", turns }, { ...ORIGIN, model: "other" });
    expect(other.losses).toMatchObject([{ tolerated: true }]);
    expect(other.body["input"]).toHaveLength(3);
  });
});

describe("streams", () => {
  const start: CanonicalEvent = { type: "start", id: "r", model: "m" };
  const write = (events: readonly CanonicalEvent[]) =>
    sseEvents(writeEvents(responsesWire, events, writeContext()));

  test("writes overlapping parts one after another", () => {
    const head = (id: string) => ({ type: "tool_call", id, name: "f" }) as const;
    const events: CanonicalEvent[] = [
      start,
      { type: "part_start", choice: 0, part: 0, head: head("a") },
      { type: "part_start", choice: 0, part: 1, head: head("b") },
      { type: "delta", choice: 0, part: 1, text: '{"b":' },
      { type: "delta", choice: 0, part: 0, text: '{"a":1}' },
      { type: "part_end", choice: 0, part: 0 },
      { type: "delta", choice: 0, part: 1, text: "2}" },
      { type: "part_end", choice: 0, part: 1 },
      { type: "finish", choice: 0, finish: { reason: "tool_calls" } },
    ];
    const written = write(events);
    expect(validateResponsesStream(written)).toEqual([]);
    const reply = collectReply(readEvents(responsesWire, written, CONTEXT));
    expect(reply.choices[0]?.parts).toMatchObject([
      { id: "a", arguments: '{"a":1}' },
      { id: "b", arguments: '{"b":2}' },
    ]);
  });

  test("writes text at once", () => {
    const writer = responsesWire.createStreamWriter(writeContext());
    writer.push(start);
    writer.push({ type: "part_start", choice: 0, part: 0, head: { type: "text" } });
    expect(writer.push({ type: "delta", choice: 0, part: 0, text: "Hello" })).toContain(
      '"delta":"Hello"',
    );
  });

  test("writes an error event before the start and a failed response after it, and nothing more", () => {
    const error = { code: "rate_limited", status: 429, message: "Slow down." } as const;
    const early = write([{ type: "error", error }]);
    expect(validateResponsesStream(early)).toEqual([]);
    expect(early.map((one) => one.name)).toEqual(["error"]);
    const late = write([
      start,
      { type: "part_start", choice: 0, part: 0, head: { type: "text" } },
      { type: "delta", choice: 0, part: 0, text: "x" },
      { type: "error", error },
    ]);
    expect(validateResponsesStream(late)).toEqual([]);
    expect(late.at(-1)?.name).toBe("response.failed");
    for (const events of [early, late]) {
      const back = readEvents(responsesWire, events, CONTEXT);
      expect(validateCanonicalStream(back)).toEqual([]);
      expect(back.at(-1)).toMatchObject({
        type: "error",
        error: { code: "rate_limited", status: 429, message: "Slow down." },
      });
    }
  });

  test("writes OpenAI's code for a full context in a failed response", () => {
    const error = {
      code: "invalid_request",
      status: 400,
      message: "Too long.",
      object: { code: "context_length_exceeded", message: "Too long." },
    } as const;
    const last = write([start, { type: "error", error }]).at(-1);
    expect(last?.data).toContain('"code":"context_length_exceeded"');
  });

  test("reports truncation and completes what is missing", () => {
    const cut = readEvents(
      responsesWire,
      [{ name: "", data: '{"type":"response.output_text.delta","delta":"a"}' }],
      CONTEXT,
    );
    expect(cut.at(-1)).toMatchObject({ type: "error", error: { code: "upstream_error" } });
    const response = {
      id: "r",
      status: "completed",
      output: [
        { type: "message", content: [{ type: "output_text", text: "ab" }] },
        { type: "function_call", call_id: "c", name: "f", arguments: "" },
      ],
    };
    const bare = readEvents(
      responsesWire,
      [
        { name: "", data: '{"type":"response.output_text.delta","delta":"a"}' },
        { name: "", data: JSON.stringify({ type: "response.completed", response }) },
      ],
      CONTEXT,
    );
    expect(validateCanonicalStream(bare)).toEqual([]);
    expect(collectReply(bare).choices[0]).toMatchObject({
      parts: [{ text: "ab" }, { id: "c", arguments: "{}" }],
      finish: { reason: "tool_calls" },
    });
  });

  test("the stream validator finds errors", () => {
    const good = write(
      replyToEvents({
        id: "r",
        choices: [{ parts: [{ type: "text", text: "hello" }], finish: { reason: "stop" } }],
      }),
    );
    expect(validateResponsesStream(good)).toEqual([]);
    for (let at = 0; at < good.length; at++)
      expect(validateResponsesStream(good.toSpliced(at, 1))).not.toEqual([]);
    for (let at = 1; at < good.length; at++) {
      const [before, after] = [good[at - 1], good[at]];
      if (before === undefined || after === undefined) continue;
      expect(validateResponsesStream(good.toSpliced(at - 1, 2, after, before))).not.toEqual([]);
    }
  });
});

describe("the official SDK", () => {
  const usage = {
    usage: { tokens: { input: 3, cache_read: 2, output: 4, reasoning: 1 }, fees: {} },
    extras: { cost: 0.5 },
  };
  const reply: CanonicalReply = {
    id: "resp_1",
    model: "deep-1",
    choices: [
      {
        parts: [
          {
            type: "reasoning",
            text: "hm",
            summary: true,
            blob: { wire: "messages", kind: "signature", data: "s", origin: ORIGIN },
          },
          { type: "text", text: '{"answer":42}', citations: [{ url: "https://a.b", title: "A" }] },
          { type: "tool_call", id: "call_1", name: "f", arguments: '{"a":1}' },
          { type: "tool_call", id: "call_2", name: "g", arguments: "free text", custom: true },
        ],
        finish: { reason: "tool_calls", nativeReason: "tool_use" },
      },
    ],
    usage,
  };
  let server: ReturnType<typeof Bun.serve>;
  let events: readonly CanonicalEvent[] = [];

  beforeAll(() => {
    server = Bun.serve({
      port: 0,
      async fetch(request) {
        const body = (await request.json()) as { stream?: boolean; model?: string };
        const context = writeContext(responsesWire.readRequest(body));
        if (body.model === "none") {
          const error = {
            code: "model_not_found",
            message: "No such model.",
          } as const;
          return Response.json(errorBody("openai", error, "req_1"), { status: 404 });
        }
        if (body.stream !== true)
          return Response.json(responsesWire.writeReply(reply, context).body);
        const bytes = new TextEncoder().encode(writeEvents(responsesWire, events, context));
        const stream = new ReadableStream<Uint8Array>({
          start(controller) {
            for (let at = 0; at < bytes.length; at += 61)
              controller.enqueue(bytes.subarray(at, at + 61));
            controller.close();
          },
        });
        return new Response(stream, { headers: { "content-type": "text/event-stream" } });
      },
    });
  });
  afterAll(() => server.stop(true));
  const client = () => new OpenAI({ apiKey: "x", baseURL: `${server.url}v1`, maxRetries: 0 });

  test("reads a response", async () => {
    const response = await client().responses.create({
      model: "m",
      input: "hi",
      instructions: "brief",
    });
    expect(response.output_text).toBe('{"answer":42}');
    expect(response.instructions).toBe("brief");
    expect(response.output.map((item) => item.type)).toEqual([
      "reasoning",
      "message",
      "function_call",
      "custom_tool_call",
    ]);
    expect(response.usage).toMatchObject({
      input_tokens: 5,
      output_tokens: 5,
      total_tokens: 10,
      cost: 0.5,
    });
  });

  test("accumulates a stream to the same response", async () => {
    events = replyToEvents(reply);
    const whole = await client().responses.create({ model: "m", input: "hi" });
    const run = client().responses.stream({ model: "m", input: "hi" });
    let words = "";
    run.on("response.output_text.delta", (event) => {
      words += event.delta;
    });
    const streamed = await run.finalResponse();
    expect(words).toBe('{"answer":42}');
    const plain = (value: { output: unknown; usage?: unknown }) =>
      JSON.parse(
        JSON.stringify([value.output, value.usage], (key, inner: unknown) =>
          key.startsWith("parsed") ? undefined : inner,
        ),
      );
    expect(plain(streamed)).toEqual(plain(whole));
  });

  test("throws an error", async () => {
    const wrong = client().responses.create({ model: "none", input: "hi" });
    expect(await failureOf(wrong)).toMatchObject({ status: 404, code: "model_not_found" });
    const error = { code: "overloaded", status: 503, message: "Busy." } as const;
    events = [{ type: "error", error }];
    const early = client().responses.stream({ model: "m", input: "hi" }).finalResponse();
    expect(await failureOf(early)).toMatchObject({ code: "overloaded" });
    events = [{ type: "start" }, { type: "error", error }];
    const failed = await client().responses.stream({ model: "m", input: "hi" }).finalResponse();
    expect(failed).toMatchObject({
      status: "failed",
      error: { code: "server_error", message: "Busy." },
    });
  });
});
