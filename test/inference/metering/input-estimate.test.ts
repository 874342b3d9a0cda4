// The estimate of a request's input, for calls that end before their usage: never below what providers have counted.

import { describe, expect, test } from "bun:test";
import { createStreamMeter, usageOf, readEvent, usageSoFar } from "@postern/wires";
import { isObject, type JsonObject, parseObject } from "../../../src/base/json.ts";
import { tokenTotals } from "../../../src/inference/metering/charge.ts";
import { estimateInputTokens } from "../../../src/inference/metering/input-estimate.ts";
import { estimateTextTokens } from "../../../src/inference/metering/text-estimate.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { toolBounds } from "../../../src/inference/request/tool-bounds.ts";
import {
  eventsOf,
  type Recording,
  recordings,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";

const KNOWN_PROVIDERS = new Set(PROVIDERS.map(({ id }) => id));
const CONTEXT_TOKENS = 1_000_000;

interface Sample {
  readonly name: string;
  readonly counted: number;
  readonly estimated: number;
  readonly media: boolean;
}

/** Undefined for a recording without usage, and for a call that is read to its usage: its input is not estimated. */
function sampleOf(recording: Recording): Sample | undefined {
  const { wire, provider, requestBody, status, file, interaction } = recording;
  if (wire !== "chat" && wire !== "responses" && wire !== "messages") return undefined;
  if (requestBody === undefined || status >= 300 || !KNOWN_PROVIDERS.has(provider))
    return undefined;
  const json = parseObject(requestBody);
  if (json === undefined || isReadToUsage(json)) return undefined;
  const usage = recordedUsage(recording, wire);
  if (usage === undefined || Object.keys(usage.fees).length > 0) return undefined;
  const { additional: _, ...own } = usage;
  return {
    name: `${file} ${interaction}`,
    counted: tokenTotals(own).inputTokens,
    estimated: estimateInputTokens(json, {
      model: recording.model,
      contextTokens: CONTEXT_TOKENS,
    }),
    media: hasImage(json),
  };
}

function isReadToUsage(json: JsonObject): boolean {
  const { toolTokens, toolCalls, advisors, fees } = toolBounds(json);
  const hasProviderTools =
    toolTokens > 0 || toolCalls > 0 || advisors.length > 0 || Object.keys(fees).length > 0;
  // Earlier turns that the provider stores are not in the request; the gateway sends them itself.
  return hasProviderTools || json["previous_response_id"] !== undefined;
}

function recordedUsage(recording: Recording, wire: "chat" | "responses" | "messages") {
  if (!recording.stream) {
    const body = parseObject(new TextDecoder().decode(recording.responseBody));
    return body && usageOf(wire, body, recording.provider);
  }
  const meter = createStreamMeter(wire, recording.provider);
  for (const { name, data } of eventsOf(recording)) readEvent(meter, name, data);
  return usageSoFar(meter);
}

function hasImage(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasImage);
  if (!isObject(value)) return false;
  return (
    ["image", "image_url", "input_image"].includes(String(value["type"])) ||
    Object.values(value).some(hasImage)
  );
}

test.skipIf(skipWithoutRecordings("input estimates"))(
  "is never below the input that a provider has counted, and seldom twice as high",
  () => {
    const samples = [...recordings()].flatMap((recording) => sampleOf(recording) ?? []);
    expect(samples.length).toBeGreaterThan(400);
    expect(samples.filter(({ counted, estimated }) => estimated < counted)).toEqual([]);
    const excess = samples
      .filter(({ counted, media }) => counted > 500 && !media)
      .map(({ counted, estimated }) => estimated / counted)
      .sort((left, right) => left - right);
    const at = (share: number): number => excess[Math.floor(share * excess.length)] ?? 0;
    expect(at(0.5)).toBeLessThan(1.5);
    expect(at(0.9)).toBeLessThan(2.1);
    console.log(
      `» ${samples.length} recorded requests: estimate ÷ count is ${at(0.5).toFixed(2)} at the median, ${at(0.9).toFixed(2)} at the 90th percentile (above 500 tokens)`,
    );
  },
);

describe("text", () => {
  // Rough counts: a token per common word, three digits, two encoded characters, one and a half Chinese characters.
  test.each([
    ["prose", "The quick brown fox jumps over the lazy dog. ".repeat(20), 180],
    ["digits", "3141592653589793".repeat(20), 107],
    ["encoded bytes", "aGVsbG8gd29ybGQhIQ".repeat(20), 180],
    ["Chinese", "今天天气很好我们去公园散步吧".repeat(20), 186],
    ["code", "for (let i = 0; i < n; i++) { sum += a[i] * b[i]; }\n".repeat(10), 200],
  ])("of %s counts at least its tokens", (_, content, tokens) => {
    const estimated = estimateTextTokens(content);
    expect(estimated).toBeGreaterThanOrEqual(tokens);
    expect(estimated).toBeLessThanOrEqual(Buffer.byteLength(content));
  });

  test("that looks like media outside of a media part counts as text", () => {
    const content = `data:image/png;base64,${"Ab1/".repeat(2_000)}`;
    const estimated = estimateInputTokens(
      { messages: [{ role: "user", content }] },
      { model: "openai/gpt-4.1", contextTokens: CONTEXT_TOKENS },
    );
    expect(estimated).toBeGreaterThan(4_000);
  });

  test("counts at most the context of the model", () => {
    const json = { messages: [{ role: "user", content: "word ".repeat(1_000) }] };
    expect(estimateInputTokens(json, { model: "openai/gpt-4.1", contextTokens: 300 })).toBe(300);
  });
});

describe("media", () => {
  const estimateOf = (model: string, part: JsonObject): number =>
    estimateInputTokens(
      { messages: [{ role: "user", content: [part] }] },
      { model, contextTokens: CONTEXT_TOKENS },
    );
  const image = { type: "image_url", image_url: { url: "https://x.test/a.png" } };

  test("counts an image by what one costs at most in the model's family", () => {
    expect(estimateOf("openai/gpt-4.1", image)).toBeGreaterThan(1_500);
    expect(estimateOf("openai/gpt-4o-mini", image)).toBeGreaterThan(48_000);
  });

  test("counts files and audio by their size, but at least as a short one", () => {
    const file = (bytes: number): JsonObject => ({
      type: "file",
      file: { file_data: `data:application/pdf;base64,${"A".repeat(bytes)}` },
    });
    expect(estimateOf("openai/gpt-4.1", file(2_000))).toBeGreaterThan(8_635);
    expect(estimateOf("openai/gpt-4.1", file(3_200_000))).toBeGreaterThan(100_000);
    const audio = { type: "input_audio", input_audio: { data: "A".repeat(92_000), format: "mp3" } };
    expect(estimateOf("mistral/voxtral-small-latest", audio)).toBeGreaterThan(2_800);
  });
});
