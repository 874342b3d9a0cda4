// For any provider input, the readers return a valid reply or event stream and never throw.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { OutboundWire } from "../../src/canonical/wire-interfaces.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { readEvents, validateCanonicalStream } from "../stream-helpers.ts";
import { outboundContext } from "./gemini-converse-arbitraries.ts";

// Each API's field names, so that random input reaches all code paths.
const KEYWORDS = {
  gemini:
    "candidates content parts text thought thoughtSignature functionCall name args partialArgs jsonPath stringValue willContinue inlineData mimeType data executableCode finishReason index usageMetadata promptTokenCount totalTokenCount groundingMetadata groundingChunks groundingSupports groundingChunkIndices segment startIndex endIndex web uri citationMetadata citationSources logprobsResult chosenCandidates topCandidates promptFeedback blockReason responseId modelVersion createTime error code message status details retryDelay reason",
  converse:
    "output message content text toolUse toolUseId name input type toolResult reasoningContent reasoningText signature redactedContent citationsContent citations citation location web url image format source bytes stopReason additionalModelResponseFields stop_sequence usage inputTokens outputTokens totalTokens cacheDetails ttl trace guardrail actionReason promptRouter invokedModelId serviceTier contentBlockIndex start delta metadata messageStop contentBlockDelta contentBlockStart __type",
};
const NAMES = [
  "",
  "messageStart",
  "contentBlockStart",
  "contentBlockDelta",
  "contentBlockStop",
  "messageStop",
  "metadata",
  "throttlingException",
];

function randomJson(words: string): fc.Arbitrary<unknown> {
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 7, depthSize: "large", withCrossShrink: true },
      fc.constantFrom(
        "",
        "STOP",
        "x",
        "$.a[0].b",
        "$[0]",
        "end_turn",
        "server_tool_use",
        null,
        true,
        false,
        0,
        1,
        -1,
        2.5,
        99_999,
      ),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...words.split(" ")), tie("value"), { maxKeys: 6 }),
    ),
  }));
  return value;
}

for (const wire of [geminiWire, converseWire] as const satisfies readonly OutboundWire[]) {
  const name = wire.name === "gemini" ? "gemini" : "converse";
  const context = outboundContext(name, "x");
  const value = randomJson(KEYWORDS[name]);

  describe(name, () => {
    test("reads any reply as one with a choice", () => {
      fc.assert(
        fc.property(value, (body) => {
          const reply = wire.readReply(body, context);
          expect(reply.choices.length).toBeGreaterThan(0);
          for (const choice of reply.choices) expect(typeof choice.finish.reason).toBe("string");
        }),
        { numRuns: runs(2_000) },
      );
    });

    test("reads any stream as a valid event sequence", () => {
      const event = fc.record({
        name: name === "gemini" ? fc.constant("") : fc.constantFrom(...NAMES),
        data: fc.oneof(
          value.map((one) => JSON.stringify(one)),
          fc.string(),
        ),
      });
      fc.assert(
        fc.property(fc.array(event, { maxLength: 6 }), (events) => {
          expect(validateCanonicalStream(readEvents(wire, events, context))).toEqual([]);
        }),
        { numRuns: runs(2_000) },
      );
    });

    test("reads any error body as an error", () => {
      fc.assert(
        fc.property(fc.integer({ min: 200, max: 599 }), value, (status, body) => {
          const error = wire.readError(status, body);
          expect(typeof error.message).toBe("string");
          expect(error.status).toBeGreaterThanOrEqual(400);
        }),
        { numRuns: runs(1_000) },
      );
    });
  });
}
