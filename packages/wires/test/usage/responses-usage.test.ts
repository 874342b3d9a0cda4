import { describe, expect, test } from "bun:test";
import { usageOf } from "../../src/usage/provider-usage.ts";
import { usageSoFar } from "../../src/usage/stream-meter.ts";
import { feesOf, meterOfEvents, tokensOf } from "./usage-harness.ts";

describe("usage on the responses wire", () => {
  const usage = {
    input_tokens: 100,
    output_tokens: 40,
    total_tokens: 140,
    input_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    output_tokens_details: { reasoning_tokens: 40 },
  };

  test.each(["completed", "incomplete", "failed"])("reads usage from response.%s", (end) => {
    const meter = meterOfEvents("responses", [
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

  test("counts cache writes that OpenAI keeps for 12 hours separately", () => {
    const details = { ttl_12h_tokens: 20, ttl_30m_tokens: 10 };
    const input = { ...usage.input_tokens_details, cache_write_tokens_details: details };
    expect(
      tokensOf("responses", { usage: { ...usage, input_tokens_details: input } }),
    ).toMatchObject({ input: 10, cache_write_5m: 10, cache_write_1h: 20 });
    const tooMany = { ...input, cache_write_tokens_details: { ttl_12h_tokens: 31 } };
    expect(
      tokensOf("responses", { usage: { ...usage, input_tokens_details: tooMany } }),
    ).toMatchObject({ input: 10, cache_write_1h: 30 });
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

  test("counts charged tool uses from the output items", () => {
    expect(feesOf("responses", { usage, output })).toEqual(fees);
  });

  test("counts tool uses in a stream, also if the terminal event omits them or is missing", () => {
    const items = output.map((item) => ({ type: "response.output_item.done", item }));
    for (const repeated of [output, []]) {
      const meter = meterOfEvents("responses", [
        ...items,
        { type: "response.completed", response: { usage, output: repeated } },
      ]);
      expect(usageSoFar(meter)?.fees).toEqual(fees);
    }
    expect(meterOfEvents("responses", items).fees).toEqual(fees);
  });

  test("uses xAI's own tool counts, and counts its reasoning as part of the output", () => {
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

  test("reads generated images as additional usage of the image model if their tokens are reported", () => {
    const image = {
      input_tokens: 10,
      input_tokens_details: { image_tokens: 4 },
      output_tokens: 1_000,
      output_tokens_details: { image_tokens: 1_000 },
    };
    const usageWithImages = usageOf(
      "responses",
      {
        usage,
        output,
        tool_usage: { image_gen: image },
        tools: [{ type: "image_generation", model: "gpt-image-1" }],
      },
      "openai",
    );
    expect(usageWithImages?.additional).toEqual([
      {
        tokens: { input: 6, input_image: 4, output: 0, output_image: 1_000 },
        fees: {},
        model: "gpt-image-1",
      },
    ]);
    expect(usageWithImages?.fees.image_generation).toBeUndefined();
  });
});
