import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { formatSse } from "../../../../test/support/format-sse.ts";
import { runs } from "../../../../test/support/full.ts";
import { createSseParser } from "../../src/frames/sse.ts";
import {
  createStreamMeter,
  usageOf,
  type MeteredWire,
  type StreamedWire,
} from "../../src/usage/provider-usage.ts";
import { readEvent, usageSoFar, scanEvent } from "../../src/usage/stream-meter.ts";
import type { Usage } from "../../src/usage/usage-meters.ts";
import { chatUsage } from "./usage-harness.ts";

const WIRES: readonly MeteredWire[] = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "converse",
  "embeddings",
];
const STREAMED_WIRES: readonly StreamedWire[] = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "converse",
];

describe("invalid usage", () => {
  test.each([
    [-1, 0],
    [1.5, 2],
    [1e12, 1_000_000_000],
    ["7", 0],
    [true, 0],
    [{}, 0],
  ])("clamps a count of %p to %p", (reported, count) => {
    const usage = chatUsage({ prompt_tokens: reported, completion_tokens: 1 });
    expect(usage?.tokens.input).toBe(count);
    expect(usage?.isClamped).toBe(true);
  });

  test("property: no body makes a meter throw, and all counts are non-negative, bounded integers", () => {
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
    const expectValidCounts = (usage: Usage | undefined): void => {
      if (usage === undefined) return;
      for (const amount of [...Object.values(usage.tokens), ...Object.values(usage.fees)]) {
        expect(Number.isInteger(amount) && amount >= 0 && amount <= 4_000_000_000).toBe(true);
      }
      usage.additional?.forEach(expectValidCounts);
    };
    fc.assert(
      fc.property(
        tree,
        fc.array(tree, { maxLength: 5 }),
        fc.constantFrom("xai", "google", "perplexity", "mistral", "constructor"),
        (body, events, provider) => {
          for (const wire of WIRES) expectValidCounts(usageOf(wire, body, provider));
          for (const wire of STREAMED_WIRES) {
            const meter = createStreamMeter(wire, provider);
            const parser = createSseParser();
            for (const event of events) {
              readEvent(meter, "", event);
              for (const parsed of parser.push(
                new TextEncoder().encode(formatSse({ data: JSON.stringify(event) })),
              ))
                scanEvent(meter, parsed);
            }
            expectValidCounts(usageSoFar(meter));
          }
        },
      ),
      { numRuns: runs(2_000) },
    );
  });

  test.each(["", "<html>", "null", "[]", '"usage"', "{", "[".repeat(200_000), '{"usage":'])(
    "finds no usage in %.20j",
    (body) => {
      for (const wire of WIRES) {
        expect(usageOf(wire, body, "openai")).toBeUndefined();
        expect(usageOf(wire, new TextEncoder().encode(body), "openai")).toBeUndefined();
      }
    },
  );

  test("ignores inherited property names", () => {
    const body = JSON.parse('{"__proto__":{"usage":{"prompt_tokens":9}}}');
    expect(usageOf("chat", body, "openai")).toBeUndefined();
    expect(
      usageOf("chat", { model: "x".repeat(5_000), usage: { prompt_tokens: 1 } }, "toString")?.model,
    ).toHaveLength(256);
  });

  test("counts text after resolving JSON escapes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.boolean(), (text, isEscaped) => {
        const json = JSON.stringify({
          type: "content_block_delta",
          delta: { type: "text_delta", text },
        });
        const sent = isEscaped
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
