// Tests the Converse schema validator: it accepts recorded requests and Postern's own, and finds every kind of violation.

import { describe, expect, test } from "bun:test";
import { converseWire } from "@postern/wires";
import * as fc from "fast-check";
import { outboundRequests } from "../../../packages/wires/test/gemini-converse/gemini-converse-arbitraries.ts";
import { runs } from "../../support/full.ts";
import { recordings, skipWithoutRecordings } from "../../support/recordings/recordings.ts";
import {
  validateConverseEvent,
  validateConverseReply,
  validateConverseRequest,
} from "../support/converse-schema.ts";

const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;
const messages = [{ role: "user", content: [{ text: "hello" }] }];
const VALID_REQUEST = {
  output: { message: { role: "assistant", content: [{ text: "hi" }] } },
  stopReason: "end_turn",
  usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  metrics: { latencyMs: 1 },
};
const user = (block: unknown) => ({ messages: [{ role: "user", content: [block] }] });

describe("valid requests", () => {
  test.skipIf(skipWithoutRecordings("Converse schema"))(
    "accepts every successful recorded request (requires ../shared/recordings)",
    () => {
      let checked = 0;
      for (const recording of recordings(
        // Other files have the client's input, whose bytes are not base64.
        ({ endpoint, file }) =>
          endpoint.startsWith("bedrock.converse") && file.startsWith("cassettes/"),
      )) {
        const where = `${recording.file}#${recording.interaction}`;
        if (recording.status !== 200) continue;
        checked += 1;
        const request = parsed(recording.requestBody);
        if (request !== undefined)
          expect([where, validateConverseRequest(request)]).toEqual([where, []]);
      }
      console.log(`» ${checked} recorded requests of Converse are valid`);
      expect(checked).toBeGreaterThan(0);
    },
  );

  test("accepts random requests that Postern writes", () => {
    fc.assert(
      fc.property(outboundRequests("converse"), (request) => {
        const target = { provider: "bedrock", model: "anthropic.claude-sonnet-4-6-v1:0" };
        const { body, losses } = converseWire.writeRequest(request, target);
        if (losses.some((loss) => loss.tolerated !== true)) return;
        expect(validateConverseRequest(jsonRoundTrip(body))).toEqual([]);
      }),
      { numRuns: runs(300) },
    );
  });
});

describe("invalid requests", () => {
  test.each([
    ["an unknown member", { messages, frobnicate: 1 }],
    [
      "an unknown nested member",
      user({ image: { format: "png", source: { bytes: "AA==" }, x: 1 } }),
    ],
    ["a missing member", { messages: [{ role: "user" }] }],
    ["a missing nested member", user({ toolUse: { toolUseId: "a", name: "f" } })],
    ["two members of a union", user({ text: "a", cachePoint: { type: "default" } })],
    ["no member of a union", user({})],
    ["an unknown enum value", { messages: [{ role: "robot", content: [{ text: "a" }] }] }],
    ["an unknown format", user({ image: { format: "tiff", source: { bytes: "AA==" } } })],
    ["bytes that are not base64", user({ image: { format: "png", source: { bytes: "a b" } } })],
    ["a string for a number", { messages, inferenceConfig: { maxTokens: "1" } }],
    ["a number for a string", user({ text: 1 })],
    ["an object for an array", { messages: {} }],
    ["a number in an array of strings", { messages, inferenceConfig: { stopSequences: [1] } }],
    ["a string for a boolean", { messages, toolConfig: { tools: [tool({ strict: "yes" })] } }],
    ["an empty text", user({ text: "" })],
    ["no messages", { messages: [] }],
    ["no content", { messages: [{ role: "user", content: [] }] }],
    ["no tools", { messages, toolConfig: { tools: [] } }],
    ["a tool name with a dot", { messages, toolConfig: { tools: [tool({ name: "a.b" })] } }],
    ["a temperature above 1", { messages, inferenceConfig: { temperature: 1.5 } }],
    ["metadata that is not a string", { messages, requestMetadata: { a: 1 } }],
  ])("%s", (_, body) => {
    expect(validateConverseRequest(body)).not.toEqual([]);
  });

  test("validates replies and events", () => {
    expect(validateConverseReply({ stopReason: "end_turn" })).not.toEqual([]);
    expect(validateConverseReply(VALID_REQUEST)).toEqual([]);
    expect(validateConverseEvent({ messageStart: { role: "robot" } })).not.toEqual([]);
    expect(validateConverseEvent({ messageStart: { role: "assistant" } })).toEqual([]);
    expect(validateConverseEvent({ frobnicated: {} })).not.toEqual([]);
  });
});

function tool(more: Readonly<Record<string, unknown>>) {
  return { toolSpec: { name: "f", inputSchema: { json: {} }, ...more } };
}

function parsed(bytes: Uint8Array | string | undefined): unknown {
  const text = typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
