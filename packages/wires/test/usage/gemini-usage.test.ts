import { describe, expect, test } from "bun:test";
import { createStreamMeter, usageOf } from "../../src/usage/provider-usage.ts";
import { isReplyComplete, readEvent, usageSoFar } from "../../src/usage/stream-meter.ts";
import { meterOfEvents } from "./usage-harness.ts";

describe("usage on the gemini wire", () => {
  test("adds thoughts to the output, subtracts cached tokens from the prompt, and separates modalities", () => {
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

  test("uses the usage of the last chunk, and collects searches from all chunks", () => {
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
    const meter = meterOfEvents("gemini", chunks, "google");
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

  test("a stream of several candidates is complete when all that began have ended", () => {
    const meter = createStreamMeter("gemini", "google");
    const addChunk = (index: number, finishReason?: string) => {
      readEvent(meter, "", {
        candidates: [{ index, content: { parts: [{ text: "a" }] }, finishReason }],
        usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1 },
      });
      return [isReplyComplete(meter), meter.isUsageFinal];
    };
    expect(addChunk(0)).toEqual([false, false]);
    expect(addChunk(1)).toEqual([false, false]);
    expect(addChunk(0, "STOP")).toEqual([false, false]);
    expect(addChunk(1, "MAX_TOKENS")).toEqual([true, true]);
    expect(addChunk(1)).toEqual([true, true]);
    expect(addChunk(2)).toEqual([false, false]);
  });
});
