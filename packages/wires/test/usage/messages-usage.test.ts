import { describe, expect, test } from "bun:test";
import { usageOf } from "../../src/usage/provider-usage.ts";
import { isReplyComplete, readEvent, usageSoFar } from "../../src/usage/stream-meter.ts";
import { tokensOf, meterOfEvents } from "./usage-harness.ts";

describe("usage on the messages wire", () => {
  test("reads cached tokens beside the input, and cache writes by lifetime", () => {
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

  test("limits one-hour cache writes to the total, which a later event may have corrected", () => {
    const usage = {
      input_tokens: 3,
      output_tokens: 5,
      cache_creation_input_tokens: 100,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 400 },
    };
    expect(tokensOf("messages", { usage })).toEqual({ input: 3, cache_write_1h: 100, output: 5 });
  });

  test("later events of a stream replace fields of earlier ones", () => {
    const meter = meterOfEvents("messages", [
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

  const iteration = (type: string, input: number, output: number, more: object = {}) => ({
    type,
    input_tokens: input,
    output_tokens: output,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
    ...more,
  });

  test("reads iterations that the top level omits: a compaction, and an advisor of another model", () => {
    const compaction = iteration("compaction", 100, 131, { cache_creation_input_tokens: 55_096 });
    const usage = usageOf(
      "messages",
      {
        model: "sonnet",
        usage: {
          input_tokens: 229,
          output_tokens: 5,
          iterations: [
            compaction,
            iteration("message", 229, 5),
            iteration("advisor_message", 2_518, 22, { model: "opus" }),
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

  test("after a fallback, reads the usage of the model that answered", () => {
    const usage = usageOf(
      "messages",
      {
        model: "fable",
        usage: {
          input_tokens: 412,
          output_tokens: 264,
          iterations: [
            iteration("message", 408, 0, { model: "fable" }),
            iteration("fallback_message", 412, 264, { model: "opus" }),
          ],
        },
      },
      "anthropic",
    );
    expect(usage).toEqual({ tokens: { input: 412, output: 264 }, fees: {}, model: "opus" });
  });

  test("limits the number of iterations", () => {
    const usage = usageOf(
      "messages",
      {
        usage: {
          input_tokens: 1,
          output_tokens: 1,
          iterations: Array.from({ length: 100_000 }, () => iteration("message", 1, 1)),
        },
      },
      "anthropic",
    );
    expect(usage?.additional).toHaveLength(63);
    expect(usage?.isClamped).toBe(true);
  });
});
