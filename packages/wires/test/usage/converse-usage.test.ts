import { describe, expect, test } from "bun:test";
import { createStreamMeter } from "../../src/usage/provider-usage.ts";
import { isReplyComplete, readEvent, usageSoFar } from "../../src/usage/stream-meter.ts";
import { tokensOf, meterOfEvents } from "./usage-harness.ts";

describe("usage on the converse wire", () => {
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
  test("reads cached tokens beside the input, under either name", () => {
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

  test("limits one-hour cache writes to the total", () => {
    const cacheDetails = [{ ttl: "1h", inputTokens: 700 }];
    expect(
      tokensOf("converse", {
        usage: { inputTokens: 1, outputTokens: 1, cacheWriteInputTokens: 500, cacheDetails },
      }),
    ).toEqual({ input: 1, cache_write_1h: 500, output: 1 });
  });

  test("reads usage from the metadata event of a stream, of frames or JSON lines", () => {
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
      usageSoFar(meterOfEvents("converse", [{ messageStop: {} }, { metadata: { usage } }]))?.tokens
        .output,
    ).toBe(227);
    const failed = createStreamMeter("converse", "bedrock");
    expect(readEvent(failed, "throttlingException", { message: "slow down" })).toBe("failure");
  });
});
