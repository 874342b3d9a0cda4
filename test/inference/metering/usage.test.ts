import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import type { Usage } from "../../../src/base/usage-meters.ts";
import { createSseParser } from "../../../src/base/streams/sse.ts";
import { formatSse } from "../../support/format-sse.ts";
import {
  createStreamMeter,
  usageOf,
  type MeteredWire,
  type StreamedWire,
} from "../../../src/inference/metering/usage/usage.ts";
import {
  isReplyComplete,
  readEvent,
  type StreamMeter,
  usageSoFar,
  scanEvent,
} from "../../../src/inference/metering/usage/stream-meter.ts";

const WIRES: readonly MeteredWire[] = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "converse",
  "embeddings",
];
const STREAMED: readonly StreamedWire[] = ["chat", "responses", "messages", "gemini", "converse"];

const tokensOf = (wire: MeteredWire, body: unknown, provider = "openai") =>
  usageOf(wire, body, provider)?.tokens;
const feesOf = (wire: MeteredWire, body: unknown, provider = "openai") =>
  usageOf(wire, body, provider)?.fees;
const chat = (usage: object, provider = "openai") =>
  usageOf("chat", { model: "m", usage }, provider);

function streamed(
  wire: StreamedWire,
  events: readonly (object | string)[],
  provider = "openai",
): StreamMeter {
  const meter = createStreamMeter(wire, provider);
  for (const event of events) readEvent(meter, "", event);
  return meter;
}

describe("chat", () => {
  test("parts are taken out of their wholes", () => {
    expect(
      chat({
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 150,
        prompt_tokens_details: {
          cached_tokens: 30,
          cache_write_tokens: 20,
          audio_tokens: 10,
          image_tokens: 5,
        },
        completion_tokens_details: { reasoning_tokens: 25, audio_tokens: 5 },
      })?.tokens,
    ).toEqual({
      input: 35,
      input_audio: 10,
      input_image: 5,
      cache_read: 30,
      cache_write_5m: 20,
      output: 20,
      reasoning: 25,
      output_audio: 5,
    });
  });

  test.each([
    [
      "xai",
      {
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 22,
        completion_tokens_details: { reasoning_tokens: 7 },
      },
      { input: 10, output: 5, reasoning: 7 },
    ],
    [
      "xai",
      {
        prompt_tokens: 10,
        completion_tokens: 50,
        completion_tokens_details: { reasoning_tokens: 7 },
      },
      { input: 10, output: 50, reasoning: 7 },
    ],
    [
      "anyone",
      {
        prompt_tokens: 10,
        completion_tokens: 50,
        total_tokens: 67,
        completion_tokens_details: { reasoning_tokens: 7 },
      },
      { input: 10, output: 50, reasoning: 7 },
    ],
    [
      "anyone",
      {
        prompt_tokens: 10,
        completion_tokens: 50,
        total_tokens: 60,
        completion_tokens_details: { reasoning_tokens: 7 },
      },
      { input: 10, output: 43, reasoning: 7 },
    ],
    [
      "vercel-gateway",
      {
        prompt_tokens: 28,
        completion_tokens: 9,
        total_tokens: 37,
        completion_tokens_details: { reasoning_tokens: 61 },
      },
      { input: 28, output: 9, reasoning: 61 },
    ],
    [
      "google",
      { prompt_tokens: 7, completion_tokens: 40, total_tokens: 109 },
      { input: 7, output: 40, reasoning: 62 },
    ],
    [
      "mistral",
      {
        prompt_tokens: 9,
        completion_tokens: 201,
        total_tokens: 585,
        prompt_tokens_details: { audio_tokens: 375 },
      },
      { input: 9, input_audio: 375, output: 201 },
    ],
    [
      "deepseek",
      { prompt_tokens: 10, completion_tokens: 1, prompt_cache_hit_tokens: 4 },
      { input: 6, cache_read: 4, output: 1 },
    ],
    [
      "moonshot",
      { prompt_tokens: 10, completion_tokens: 1, cached_tokens: 4 },
      { input: 6, cache_read: 4, output: 1 },
    ],
    ["ollama", { prompt_tokens: 10, total_tokens: 10 }, { input: 10, output: 0 }],
    [
      "perplexity",
      {
        prompt_tokens: 33,
        completion_tokens: 7_163,
        total_tokens: 7_196,
        citation_tokens: 20_016,
        reasoning_tokens: 5,
      },
      { input: 20_049, output: 7_163, reasoning: 5 },
    ],
  ])("%s: %j", (provider, usage, tokens) => {
    expect(chat(usage, provider)?.tokens).toEqual(tokens);
  });

  test("more from the cache than was in the prompt is clamped and flagged", () => {
    const usage = chat(
      { prompt_tokens: 7, completion_tokens: 8, prompt_tokens_details: { cached_tokens: 163 } },
      "azure",
    );
    expect(usage?.tokens).toEqual({ input: 0, cache_read: 7, output: 8 });
    expect(usage?.isClamped).toBe(true);
  });

  test("zero is zero, and nothing is nothing", () => {
    expect(chat({ prompt_tokens: 0, completion_tokens: 0 })).toEqual({
      tokens: { input: 0, output: 0 },
      fees: {},
      model: "m",
    });
    for (const usage of [{}, { prompt_tokens: null }, { other: 1 }])
      expect(chat(usage)).toBeUndefined();
    expect(usageOf("chat", { usage: null }, "openai")).toBeUndefined();
    expect(usageOf("chat", { error: { message: "no" } }, "openai")).toBeUndefined();
  });

  test("Groq's second report of the same is not added", () => {
    const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };
    const meter = streamed(
      "chat",
      [
        { model: "m", choices: [{ delta: {}, finish_reason: "stop" }], x_groq: { usage } },
        { model: "m", choices: [], usage },
        "[DONE]",
      ],
      "groq",
    );
    expect(usageSoFar(meter)?.tokens).toEqual({ input: 5, output: 3 });
    expect([meter.isUsageFinal, meter.finished]).toEqual([true, true]);
  });

  test("a running total in every chunk: the last one counts, and it is exact once the answer is complete", () => {
    const meter = createStreamMeter("chat", "perplexity");
    const chunk = (completion: number, reason: string | null) => ({
      model: "sonar",
      choices: [{ delta: { content: "ab" }, finish_reason: reason }],
      usage: {
        prompt_tokens: 9,
        completion_tokens: completion,
        search_context_size: "low",
        cost: { request_cost: 0.005, total_cost: 0.006 },
      },
    });
    readEvent(meter, "", chunk(1, null));
    expect([usageSoFar(meter)?.tokens.output, meter.isUsageFinal, isReplyComplete(meter)]).toEqual([
      1,
      false,
      false,
    ]);
    readEvent(meter, "", chunk(2, "stop"));
    expect(usageSoFar(meter)).toEqual({
      tokens: { input: 9, output: 2 },
      fees: { request: 1 },
      model: "sonar",
      serviceTier: "low",
      statedCostUsd: 0.006,
    });
    expect([meter.isUsageFinal, isReplyComplete(meter), meter.finished, meter.outputBytes]).toEqual(
      [true, true, false, 4],
    );
  });

  test("a stream that gives no reason to end is exact once it says that it is done", () => {
    const meter = streamed("chat", [
      { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } },
    ]);
    expect(meter.isUsageFinal).toBe(false);
    readEvent(meter, "", "[DONE]");
    expect(meter.isUsageFinal).toBe(true);
  });

  test("costs and fees as stated", () => {
    expect(chat({ prompt_tokens: 1, cost: 0.5 }, "openrouter")?.statedCostUsd).toBe(0.5);
    expect(
      chat({ prompt_tokens: 1, cost_in_usd_ticks: 2_488_500 }, "xai")?.statedCostUsd,
    ).toBeCloseTo(0.00024885, 12);
    expect(chat({ prompt_tokens: 1, cost: -1 })?.statedCostUsd).toBeUndefined();
    expect(
      chat({ prompt_tokens: 1, server_tool_use_details: { web_search_requests: 2 } }, "openrouter")
        ?.fees,
    ).toEqual({ web_search: 2 });
    expect(
      feesOf("chat", {
        model: "gpt-4o-mini-search-preview-2025-03-11",
        usage: { prompt_tokens: 1 },
      }),
    ).toEqual({ web_search: 1 });
    expect(chat({ prompt_tokens: 1, num_search_queries: 18 }, "perplexity")?.fees).toEqual({
      web_search: 18,
    });
  });

  test.each([
    ["default", "standard"],
    ["on_demand", "standard"],
    ["priority", "priority"],
    ["FLEX", "flex"],
    ["auto", undefined],
    ["", undefined],
    [7, undefined],
  ])("service tier %p is %p", (said, tier) => {
    expect(
      usageOf("chat", { service_tier: said, usage: { prompt_tokens: 1 } }, "openai")?.serviceTier,
    ).toBe(tier);
  });

  test("an error within the stream is told, and usage after it still counts", () => {
    const meter = createStreamMeter("chat", "openrouter");
    expect(
      readEvent(meter, "", {
        error: { message: "x" },
        choices: [{ delta: {}, finish_reason: "error" }],
      }),
    ).toBe("failure");
    expect(
      readEvent(meter, "", { choices: [], usage: { prompt_tokens: 4, completion_tokens: 2 } }),
    ).toBe("usage");
    expect(readEvent(meter, "", "[DONE]")).toBe("last");
    expect([meter.failed, usageSoFar(meter)?.tokens.output]).toEqual([true, 2]);
    const groq = createStreamMeter("chat", "groq");
    expect(readEvent(groq, "error", { error: { message: "tool_use_failed" } })).toBe("failure");
  });
});

describe("responses", () => {
  const usage = {
    input_tokens: 100,
    output_tokens: 40,
    total_tokens: 140,
    input_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    output_tokens_details: { reasoning_tokens: 40 },
  };

  test.each(["completed", "incomplete", "failed"])("usage on response.%s", (end) => {
    const meter = streamed("responses", [
      { type: "response.created", response: { model: "gpt", usage: null, service_tier: "auto" } },
      { type: "response.output_text.delta", delta: "héllo" },
      {
        type: `response.${end}`,
        response: { model: "gpt", usage, service_tier: "priority", output: [] },
      },
    ]);
    expect(usageSoFar(meter)).toEqual({
      tokens: { input: 10, cache_read: 60, cache_write_5m: 30, output: 0, reasoning: 40 },
      fees: {},
      model: "gpt",
      serviceTier: "priority",
    });
    expect([meter.isUsageFinal, meter.finished, meter.failed, meter.outputBytes]).toEqual([
      true,
      true,
      end === "failed",
      6,
    ]);
  });

  const output = [
    { type: "web_search_call", status: "completed", action: { type: "search" } },
    { type: "web_search_call", status: "completed", action: { type: "open_page" } },
    { type: "web_search_call", status: "failed", action: { type: "search" } },
    { type: "code_interpreter_call", container_id: "c1" },
    { type: "code_interpreter_call", container_id: "c1" },
    { type: "file_search_call" },
    { type: "image_generation_call" },
    { type: "message" },
    null,
  ];
  const fees = { web_search: 1, code_execution: 1, file_search: 1, image_generation: 1 };

  test("tools that are charged by the piece are counted from the items", () => {
    expect(feesOf("responses", { usage, output })).toEqual(fees);
  });

  test("so they are from a stream, whether its last event repeats them or not, and if it never comes", () => {
    const items = output.map((item) => ({ type: "response.output_item.done", item }));
    for (const repeated of [output, []]) {
      const meter = streamed("responses", [
        ...items,
        { type: "response.completed", response: { usage, output: repeated } },
      ]);
      expect(usageSoFar(meter)?.fees).toEqual(fees);
    }
    expect(streamed("responses", items).fees).toEqual(fees);
  });

  test("xAI counts its own tools, and reasoning lies inside", () => {
    const details = {
      web_search_calls: 2,
      x_search_calls: 1,
      mcp_calls: 9,
      code_interpreter_calls: 0,
    };
    const meter = usageOf(
      "responses",
      { usage: { ...usage, server_side_tool_usage_details: details }, output },
      "xai",
    );
    expect(meter?.fees).toEqual({ web_search: 2, x_search: 1 });
    expect(meter?.tokens.output).toBe(0);
  });

  test("images that a tool made are a leg of the image model where their tokens are told", () => {
    const image = {
      input_tokens: 10,
      input_tokens_details: { image_tokens: 4 },
      output_tokens: 1_000,
      output_tokens_details: { image_tokens: 1_000 },
    };
    const made = usageOf(
      "responses",
      {
        usage,
        output,
        tool_usage: { image_gen: image },
        tools: [{ type: "image_generation", model: "gpt-image-1" }],
      },
      "openai",
    );
    expect(made?.additional).toEqual([
      {
        tokens: { input: 6, input_image: 4, output: 0, output_image: 1_000 },
        fees: {},
        model: "gpt-image-1",
      },
    ]);
    expect(made?.fees.image_generation).toBeUndefined();
  });
});

describe("messages", () => {
  test("the cache lies outside the input, and is written for two lifetimes", () => {
    const usage = {
      input_tokens: 3,
      output_tokens: 50,
      cache_read_input_tokens: 2_000,
      cache_creation_input_tokens: 500,
      cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 400 },
      output_tokens_details: { thinking_tokens: 20 },
      service_tier: "standard",
      speed: "fast",
      inference_geo: "us",
      server_tool_use: { web_search_requests: 2, web_fetch_requests: 0 },
    };
    expect(usageOf("messages", { model: "claude", usage }, "anthropic")).toEqual({
      tokens: {
        input: 3,
        cache_read: 2_000,
        cache_write_5m: 100,
        cache_write_1h: 400,
        output: 30,
        reasoning: 20,
      },
      fees: { web_search: 2 },
      model: "claude",
      serviceTier: "standard",
      speed: "fast",
      region: "us",
    });
    expect(
      tokensOf("messages", {
        usage: { input_tokens: 3, output_tokens: 5, cache_creation_input_tokens: 7 },
      }),
    ).toEqual({ input: 3, cache_write_5m: 7, output: 5 });
  });

  test("a stream corrects its start field by field", () => {
    const meter = streamed("messages", [
      {
        type: "message_start",
        message: {
          model: "claude",
          usage: {
            input_tokens: 10,
            output_tokens: 1,
            cache_read_input_tokens: 5,
            service_tier: "standard",
          },
        },
      },
      { type: "content_block_delta", delta: { type: "text_delta", text: "hi" } },
    ]);
    expect([usageSoFar(meter)?.tokens.output, meter.isUsageFinal, meter.outputBytes]).toEqual([
      1,
      false,
      2,
    ]);
    readEvent(meter, "", {
      type: "message_delta",
      delta: { stop_reason: "end_turn" },
      usage: { input_tokens: 900, output_tokens: 20, cache_read_input_tokens: null },
    });
    expect(usageSoFar(meter)).toEqual({
      tokens: { input: 900, cache_read: 5, output: 20 },
      fees: {},
      model: "claude",
      serviceTier: "standard",
    });
    expect([meter.isUsageFinal, isReplyComplete(meter), meter.finished]).toEqual([
      true,
      true,
      false,
    ]);
    expect(readEvent(meter, "", { type: "message_stop" })).toBe("last");
  });

  const leg = (type: string, input: number, output: number, more: object = {}) => ({
    type,
    input_tokens: input,
    output_tokens: output,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
    ...more,
  });

  test("legs that the top level leaves out are billed: a compaction, and an advisor at its own model's price", () => {
    const compaction = leg("compaction", 100, 131, { cache_creation_input_tokens: 55_096 });
    const usage = usageOf(
      "messages",
      {
        model: "sonnet",
        usage: {
          input_tokens: 229,
          output_tokens: 5,
          iterations: [
            compaction,
            leg("message", 229, 5),
            leg("advisor_message", 2_518, 22, { model: "opus" }),
          ],
        },
      },
      "anthropic",
    );
    expect(usage?.tokens).toEqual({ input: 229, output: 5 });
    expect(usage?.additional?.map(({ tokens, model }) => ({ tokens, model }))).toEqual([
      { tokens: { input: 100, output: 131, cache_write_5m: 55_096 }, model: "sonnet" },
      { tokens: { input: 2_518, output: 22 }, model: "opus" },
    ]);
  });

  test("after a fallback the answer that was served is billed, at the price of who served it", () => {
    const usage = usageOf(
      "messages",
      {
        model: "fable",
        usage: {
          input_tokens: 412,
          output_tokens: 264,
          iterations: [
            leg("message", 408, 0, { model: "fable" }),
            leg("fallback_message", 412, 264, { model: "opus" }),
          ],
        },
      },
      "anthropic",
    );
    expect(usage).toEqual({ tokens: { input: 412, output: 264 }, fees: {}, model: "opus" });
  });

  test("a flood of legs is bounded", () => {
    const usage = usageOf(
      "messages",
      {
        usage: {
          input_tokens: 1,
          output_tokens: 1,
          iterations: Array.from({ length: 100_000 }, () => leg("message", 1, 1)),
        },
      },
      "anthropic",
    );
    expect(usage?.additional).toHaveLength(63);
    expect(usage?.isClamped).toBe(true);
  });
});

describe("gemini", () => {
  test("thoughts lie outside, the cache inside, and modalities apart", () => {
    const usageMetadata = {
      promptTokenCount: 1_000,
      toolUsePromptTokenCount: 50,
      candidatesTokenCount: 30,
      thoughtsTokenCount: 70,
      cachedContentTokenCount: 400,
      totalTokenCount: 1_150,
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 600 },
        { modality: "AUDIO", tokenCount: 300 },
        { modality: "IMAGE", tokenCount: 100 },
      ],
      cacheTokensDetails: [
        { modality: "AUDIO", tokenCount: 120 },
        { modality: "TEXT", tokenCount: 280 },
      ],
      candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 10 }],
      trafficType: "ON_DEMAND_PRIORITY",
    };
    expect(usageOf("gemini", { modelVersion: "gemini-x", usageMetadata }, "google")).toEqual({
      tokens: {
        input: 370,
        input_audio: 180,
        input_image: 100,
        cache_read: 280,
        cache_read_audio: 120,
        output: 20,
        output_image: 10,
        reasoning: 70,
      },
      fees: {},
      model: "gemini-x",
      serviceTier: "priority",
    });
  });

  test("of the usage in every chunk the last is true, and searches are gathered from all", () => {
    const chunk = (
      prompt: number,
      candidates: number,
      queries: string[],
      finishReason?: string,
    ) => ({
      modelVersion: "gemini-3-pro",
      candidates: [
        {
          content: { parts: [{ text: "ab" }] },
          finishReason,
          groundingMetadata: { webSearchQueries: queries },
        },
      ],
      usageMetadata: { promptTokenCount: prompt, candidatesTokenCount: candidates },
    });
    const chunks = [chunk(10, 30, ["a", ""]), chunk(12, 20, ["a", "b"], "STOP")];
    const meter = streamed("gemini", chunks, "google");
    expect(usageSoFar(meter)).toEqual({
      tokens: { input: 12, output: 20 },
      fees: { grounding: 2 },
      model: "gemini-3-pro",
    });
    expect([meter.isUsageFinal, isReplyComplete(meter), meter.finished, meter.outputBytes]).toEqual(
      [true, true, false, 4],
    );
    expect(usageOf("gemini", chunks, "google")).toEqual(usageSoFar(meter));
  });

  test("a stream of several candidates is answered when all that began have ended", () => {
    const meter = createStreamMeter("gemini", "google");
    const ends = (index: number, finishReason?: string) => {
      readEvent(meter, "", {
        candidates: [{ index, content: { parts: [{ text: "a" }] }, finishReason }],
        usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1 },
      });
      return [isReplyComplete(meter), meter.isUsageFinal];
    };
    expect(ends(0)).toEqual([false, false]);
    expect(ends(1)).toEqual([false, false]);
    expect(ends(0, "STOP")).toEqual([false, false]);
    expect(ends(1, "MAX_TOKENS")).toEqual([true, true]);
    expect(ends(1)).toEqual([true, true]);
    expect(ends(2)).toEqual([false, false]);
  });
});

describe("converse", () => {
  const usage = {
    inputTokens: 3,
    outputTokens: 227,
    totalTokens: 1_942,
    cacheReadInputTokens: 0,
    cacheWriteInputTokens: 1_712,
    cacheDetails: [
      { ttl: "1h", inputTokens: 700 },
      { ttl: "5m", inputTokens: 1_012 },
    ],
  };
  test("the cache lies outside the input, under either name", () => {
    expect(tokensOf("converse", { usage })).toEqual({
      input: 3,
      cache_write_5m: 1_012,
      cache_write_1h: 700,
      output: 227,
    });
    expect(
      tokensOf("converse", {
        usage: { inputTokens: 1, outputTokens: 1, cacheReadInputTokenCount: 9 },
      }),
    ).toEqual({ input: 1, cache_read: 9, output: 1 });
  });

  test("a stream tells in its metadata, named by the frame or by the line", () => {
    const meter = createStreamMeter("converse", "bedrock");
    readEvent(meter, "contentBlockDelta", { delta: { text: "abc" } });
    readEvent(meter, "contentBlockDelta", { delta: { toolUse: { input: "{}" } } });
    readEvent(meter, "messageStop", { stopReason: "end_turn" });
    expect([isReplyComplete(meter), meter.finished]).toEqual([true, false]);
    expect(
      readEvent(meter, "metadata", { usage, performanceConfig: { latency: "optimized" } }),
    ).toBe("usage");
    expect([
      meter.finished,
      meter.isUsageFinal,
      meter.outputBytes,
      usageSoFar(meter)?.speed,
    ]).toEqual([true, true, 5, "optimized"]);
    expect(
      usageSoFar(streamed("converse", [{ messageStop: {} }, { metadata: { usage } }]))?.tokens
        .output,
    ).toBe(227);
    const failed = createStreamMeter("converse", "bedrock");
    expect(readEvent(failed, "throttlingException", { message: "slow down" })).toBe("failure");
  });
});

describe("embeddings", () => {
  test.each([
    [{ model: "e", usage: { prompt_tokens: 8, total_tokens: 8 } }, 8],
    [{ usage: { total_tokens: 8 } }, 8],
    [{ meta: { billed_units: { input_tokens: 8 } } }, 8],
    [{ usage: { prompt_tokens: 0, total_tokens: 0 } }, 0],
  ])("%j", (body, input) => {
    expect(tokensOf("embeddings", body)).toEqual({ input, output: 0 });
  });
});

describe("what hostile or broken upstreams send", () => {
  test.each([
    [-1, 0],
    [1.5, 2],
    [1e12, 1_000_000_000],
    ["7", 0],
    [true, 0],
    [{}, 0],
  ])("a count of %p becomes %p, flagged", (said, read) => {
    const usage = chat({ prompt_tokens: said, completion_tokens: 1 });
    expect(usage?.tokens.input).toBe(read);
    expect(usage?.isClamped).toBe(true);
  });

  test("no body makes a meter throw, and no meter is negative, fractional or boundless", () => {
    const keys = [
      "usage",
      "usageMetadata",
      "choices",
      "delta",
      "model",
      "prompt_tokens",
      "completion_tokens",
      "total_tokens",
      "prompt_tokens_details",
      "cached_tokens",
      "reasoning_tokens",
      "completion_tokens_details",
      "input_tokens",
      "output_tokens",
      "iterations",
      "cache_creation",
      "type",
      "response",
      "item",
      "output",
      "promptTokenCount",
      "totalTokenCount",
      "candidates",
      "inputTokens",
      "metadata",
      "tool_usage",
      "image_gen",
      "__proto__",
      "constructor",
      "error",
      "message",
    ];
    const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        fc.oneof(
          fc.double(),
          fc.integer(),
          fc.constantFrom(
            null,
            "",
            "message_start",
            "message_delta",
            "response.completed",
            "[DONE]",
            "fallback_message",
            true,
          ),
        ),
        fc.array(tie("tree"), { maxLength: 4 }),
        fc
          .array(fc.tuple(fc.constantFrom(...keys), tie("tree")), { maxLength: 8 })
          .map((pairs) =>
            JSON.parse(
              `{${pairs.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(",")}}`,
            ),
          ),
      ),
    }));
    const sound = (usage: Usage | undefined): void => {
      if (usage === undefined) return;
      for (const amount of [...Object.values(usage.tokens), ...Object.values(usage.fees)]) {
        expect(Number.isInteger(amount) && amount >= 0 && amount <= 4_000_000_000).toBe(true);
      }
      usage.additional?.forEach(sound);
    };
    fc.assert(
      fc.property(
        tree,
        fc.array(tree, { maxLength: 5 }),
        fc.constantFrom("xai", "google", "perplexity", "mistral", "constructor"),
        (body, events, provider) => {
          for (const wire of WIRES) sound(usageOf(wire, body, provider));
          for (const wire of STREAMED) {
            const meter = createStreamMeter(wire, provider);
            const parser = createSseParser();
            for (const event of events) {
              readEvent(meter, "", event);
              for (const one of parser.push(
                new TextEncoder().encode(formatSse({ data: JSON.stringify(event) })),
              ))
                scanEvent(meter, one);
            }
            sound(usageSoFar(meter));
          }
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test.each(["", "<html>", "null", "[]", '"usage"', "{", "[".repeat(200_000), '{"usage":'])(
    "%.20j is no reply with usage",
    (body) => {
      for (const wire of WIRES) {
        expect(usageOf(wire, body, "openai")).toBeUndefined();
        expect(usageOf(wire, new TextEncoder().encode(body), "openai")).toBeUndefined();
      }
    },
  );

  test("a name that objects inherit is not a member", () => {
    const body = JSON.parse('{"__proto__":{"usage":{"prompt_tokens":9}}}');
    expect(usageOf("chat", body, "openai")).toBeUndefined();
    expect(
      usageOf("chat", { model: "x".repeat(5_000), usage: { prompt_tokens: 1 } }, "toString")?.model,
    ).toHaveLength(256);
  });

  test("text is counted as it reads, not as it is escaped", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.boolean(), (text, escaped) => {
        const json = JSON.stringify({
          type: "content_block_delta",
          delta: { type: "text_delta", text },
        });
        const sent = escaped
          ? json.replaceAll(/[\u{80}-\u{10ffff}]/gu, (character) =>
              Array.from(
                { length: character.length },
                (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
              ).join(""),
            )
          : json;
        const meter = createStreamMeter("messages", "anthropic");
        readEvent(meter, "", {
          type: "message_start",
          message: { model: "m", usage: { input_tokens: 1, output_tokens: 1 } },
        });
        for (const event of createSseParser().push(new TextEncoder().encode(`data: ${sent}\n\n`)))
          scanEvent(meter, event);
        expect(meter.outputBytes).toBe(new TextEncoder().encode(text).length);
      }),
    );
  });
});
