import { describe, expect, test } from "bun:test";
import { createStreamMeter, usageOf } from "../../src/usage/provider-usage.ts";
import { isReplyComplete, readEvent, usageSoFar } from "../../src/usage/stream-meter.ts";
import { feesOf, chatUsage, meterOfEvents } from "./usage-harness.ts";

describe("usage on the chat wire", () => {
  test("subtracts the parts from their totals", () => {
    expect(
      chatUsage({
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
      "unknown",
      {
        prompt_tokens: 10,
        completion_tokens: 50,
        total_tokens: 67,
        completion_tokens_details: { reasoning_tokens: 7 },
      },
      { input: 10, output: 50, reasoning: 7 },
    ],
    [
      "unknown",
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
    // More reasoning than completion, but the total says that it is inside.
    [
      "openrouter",
      {
        prompt_tokens: 43,
        completion_tokens: 10,
        total_tokens: 53,
        completion_tokens_details: { reasoning_tokens: 11 },
      },
      { input: 43, output: 0, reasoning: 10 },
    ],
    [
      "unknown",
      {
        prompt_tokens: 43,
        completion_tokens: 10,
        total_tokens: 53,
        completion_tokens_details: { reasoning_tokens: 11 },
      },
      { input: 43, output: 0, reasoning: 10 },
    ],
    [
      "openrouter",
      {
        prompt_tokens: 43,
        completion_tokens: 10,
        total_tokens: 64,
        completion_tokens_details: { reasoning_tokens: 11 },
      },
      { input: 43, output: 10, reasoning: 11 },
    ],
  ])("reads %s: %j", (provider, usage, tokens) => {
    expect(chatUsage(usage, provider)?.tokens).toEqual(tokens);
  });

  test("clamps cached tokens to the prompt, and marks the usage as clamped", () => {
    const usage = chatUsage(
      { prompt_tokens: 7, completion_tokens: 8, prompt_tokens_details: { cached_tokens: 163 } },
      "azure",
    );
    expect(usage?.tokens).toEqual({ input: 0, cache_read: 7, output: 8 });
    expect(usage?.isClamped).toBe(true);
  });

  test("distinguishes zero usage from missing usage", () => {
    expect(chatUsage({ prompt_tokens: 0, completion_tokens: 0 })).toEqual({
      tokens: { input: 0, output: 0 },
      fees: {},
      model: "m",
    });
    for (const usage of [{}, { prompt_tokens: null }, { other: 1 }])
      expect(chatUsage(usage)).toBeUndefined();
    expect(usageOf("chat", { usage: null }, "openai")).toBeUndefined();
    expect(usageOf("chat", { error: { message: "no" } }, "openai")).toBeUndefined();
  });

  test("does not add Groq's second report of the same usage", () => {
    const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };
    const meter = meterOfEvents(
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

  test("uses the last running total, which is final once the reply is complete", () => {
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

  test("usage of a stream without a stop reason is final at [DONE]", () => {
    const meter = meterOfEvents("chat", [
      { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } },
    ]);
    expect(meter.isUsageFinal).toBe(false);
    readEvent(meter, "", "[DONE]");
    expect(meter.isUsageFinal).toBe(true);
  });

  test("reads stated costs and fees", () => {
    expect(chatUsage({ prompt_tokens: 1, cost: 0.5 }, "openrouter")?.statedCostUsd).toBe(0.5);
    expect(
      chatUsage({ prompt_tokens: 1, cost_in_usd_ticks: 2_488_500 }, "xai")?.statedCostUsd,
    ).toBeCloseTo(0.00024885, 12);
    expect(chatUsage({ prompt_tokens: 1, cost: -1 })?.statedCostUsd).toBeUndefined();
    expect(
      chatUsage(
        { prompt_tokens: 1, server_tool_use_details: { web_search_requests: 2 } },
        "openrouter",
      )?.fees,
    ).toEqual({ web_search: 2 });
    expect(
      feesOf("chat", {
        model: "gpt-4o-mini-search-preview-2025-03-11",
        usage: { prompt_tokens: 1 },
      }),
    ).toEqual({ web_search_preview: 1 });
    expect(feesOf("chat", { model: "gpt-5-search-api", usage: { prompt_tokens: 1 } })).toEqual({
      web_search: 1,
    });
    expect(chatUsage({ prompt_tokens: 1, num_search_queries: 18 }, "perplexity")?.fees).toEqual({
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
  ])("reads service tier %p as %p", (reported, tier) => {
    expect(
      usageOf("chat", { service_tier: reported, usage: { prompt_tokens: 1 } }, "openai")
        ?.serviceTier,
    ).toBe(tier);
  });

  test("detects an error within the stream, and reads usage after it", () => {
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
