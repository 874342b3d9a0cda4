// Replies of Gemini, streamed and not: random round trips, splits at every byte, and edge cases.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { cutEvents, stripPaths } from "../chat-messages/chat-messages-arbitraries.ts";
import {
  ORIGIN,
  outboundContext,
  outboundReplies,
  splitBytes,
} from "../gemini-converse/gemini-converse-arbitraries.ts";
import {
  collectReply,
  readEvents,
  readPieces,
  validateCanonicalStream,
} from "../stream-helpers.ts";
import { encodeChunks } from "./encode-gemini-chunks.ts";
import type { GeminiBody, GeminiCandidate, GeminiChunk, GeminiPart } from "./gemini-types.ts";

const context = outboundContext("gemini");
const encoder = new TextEncoder();

const sse = (chunks: readonly GeminiChunk[]) =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`).join("");
const comparableReply = (reply: CanonicalReply) =>
  stripPaths({
    ...reply,
    usage: Object.fromEntries(
      Object.entries(reply.usage?.usage.tokens ?? {}).filter(([, count]) => count > 0),
    ),
    choices: reply.choices.map(({ parts, finish }) => ({ parts, reason: finish.reason })),
  });
const readChunks = (chunks: readonly GeminiChunk[]) =>
  readEvents(
    geminiWire,
    chunks.map((chunk) => ({ name: "", data: JSON.stringify(chunk) })),
    context,
  );
const candidateChunk = (candidate: GeminiCandidate, rest: GeminiChunk = {}): GeminiChunk => ({
  responseId: "r1",
  modelVersion: "g",
  ...rest,
  candidates: [candidate],
});
const parts = (...list: GeminiPart[]) => ({ content: { parts: list } });

describe("replies of Gemini", () => {
  test("round-trip random streams, split anywhere or as one array of chunks", () => {
    const streams = outboundReplies("gemini").chain((reply) =>
      fc.tuple(
        fc.constant(reply),
        cutEvents(reply),
        fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
      ),
    );
    fc.assert(
      fc.property(streams, ([reply, events, sizes]) => {
        const chunks = encodeChunks(events);
        const bytes = encoder.encode(sse(chunks));
        const out = readPieces(geminiWire.createStreamReader(context), splitBytes(bytes, sizes));
        expect(validateCanonicalStream(out)).toEqual([]);
        expect(comparableReply(collectReply(out))).toEqual(comparableReply(reply));
        expect(
          comparableReply(geminiWire.readReply(JSON.parse(JSON.stringify(chunks)), context)),
        ).toEqual(comparableReply(reply));
      }),
      { numRuns: runs(300) },
    );
  });

  test("give the same events for a stream split at any byte", () => {
    const text = sse([
      candidateChunk(parts({ text: "Hm 🏴‍☠️", thought: true })),
      candidateChunk(parts({ text: "Grüße" })),
      candidateChunk(parts({ text: "", thoughtSignature: "c2ln" })),
      candidateChunk(
        parts({ functionCall: { name: "f", args: { a: "ü" } }, thoughtSignature: "c2ln" }),
      ),
      candidateChunk(
        { ...parts({ functionCall: { id: "x", name: "g" } }), finishReason: "STOP" },
        { usageMetadata: { promptTokenCount: 3, totalTokenCount: 3 } },
      ),
    ]);
    const bytes = encoder.encode(text);
    const whole = readPieces(geminiWire.createStreamReader(context), [bytes]);
    expect(validateCanonicalStream(whole)).toEqual([]);
    for (let at = 1; at < bytes.length; at++) {
      const cut = readPieces(geminiWire.createStreamReader(context), [
        bytes.subarray(0, at),
        bytes.subarray(at),
      ]);
      expect(cut).toEqual(whole);
    }
    expect(collectReply(whole).choices).toEqual([
      {
        parts: [
          { type: "reasoning", summary: true, id: undefined, text: "Hm 🏴‍☠️", blob: undefined },
          {
            type: "text",
            text: "Grüße",
            signature: { wire: "gemini", kind: "text", data: "c2ln", origin: ORIGIN },
            citations: undefined,
            logprobs: undefined,
          },
          {
            type: "tool_call",
            id: "pstg_r1_0_0",
            name: "f",
            arguments: '{"a":"ü"}',
            signature: { wire: "gemini", kind: "call", data: "c2ln", origin: ORIGIN },
          },
          { type: "tool_call", id: "x", name: "g", arguments: "{}", signature: undefined },
        ] as never,
        finish: { reason: "tool_calls", nativeReason: "STOP", detail: undefined },
      },
    ]);
  });

  test("emit text with its chunk and finish at the end", () => {
    const reader = geminiWire.createStreamReader(context);
    const first = reader.push({
      name: "",
      data: JSON.stringify(candidateChunk({ ...parts({ text: "a" }), finishReason: "STOP" })),
    });
    expect(first.map((event) => event.type)).toEqual(["start", "part_start", "delta"]);
    expect(reader.end().map((event) => event.type)).toEqual(["part_end", "finish"]);
    expect(reader.end()).toEqual([]);
  });

  test("report truncated streams and errors in streams", () => {
    const cut = readChunks([candidateChunk(parts({ text: "a" }))]);
    expect(cut.at(-1)).toMatchObject({ type: "error", error: { code: "upstream_error" } });
    expect(validateCanonicalStream(cut)).toEqual([]);
    const failed = readChunks([
      candidateChunk(parts({ text: "a" })),
      { error: { code: 503, status: "UNAVAILABLE", message: "The model is overloaded." } },
      candidateChunk(parts({ text: "b" })),
    ]);
    expect(failed.at(-1)).toMatchObject({
      type: "error",
      error: { code: "overloaded", status: 503 },
    });
    expect(readChunks([])).toMatchObject([{ type: "error" }]);
    const listed = geminiWire.createStreamReader(context).push({
      name: "",
      data: '[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota"}}]',
    });
    expect(listed).toMatchObject([{ type: "error", error: { code: "rate_limited", status: 429 } }]);
  });

  test("read a blocked prompt as a choice without parts", () => {
    const blocked = {
      promptFeedback: { blockReason: "PROHIBITED_CONTENT" },
      usageMetadata: { promptTokenCount: 5, totalTokenCount: 5 },
    };
    const finish = { reason: "content_filter", nativeReason: "PROHIBITED_CONTENT" };
    for (const reply of [
      geminiWire.readReply(blocked, context),
      collectReply(readChunks([blocked])),
    ]) {
      expect(reply.choices).toMatchObject([{ parts: [], finish }]);
      expect(reply.usage?.usage.tokens.input).toBe(5);
    }
    expect(
      geminiWire.readReply({ usageMetadata: { totalTokenCount: 1 } }, context).choices,
    ).toMatchObject([{ parts: [], finish: { reason: "error" } }]);
  });

  test("map finish reasons", () => {
    const reason = (finishReason: string, ...list: GeminiPart[]) =>
      geminiWire.readReply(
        candidateChunk({ ...parts(...list), finishReason, finishMessage: "why" }),
        context,
      ).choices[0]?.finish;
    const call = { functionCall: { name: "f", args: {} } };
    expect(reason("STOP")).toMatchObject({ reason: "stop", nativeReason: "STOP" });
    expect(reason("STOP", call)?.reason).toBe("tool_calls");
    expect(reason("MAX_TOKENS", call)?.reason).toBe("length");
    expect(reason("MALFORMED_FUNCTION_CALL")).toMatchObject({
      reason: "bad_tool_call",
      detail: "why",
    });
    expect(reason("UNEXPECTED_TOOL_CALL", call)?.reason).toBe("tool_calls");
    expect(reason("SAFETY")).toMatchObject({ reason: "content_filter", detail: "why" });
    expect(reason("RECITATION")?.reason).toBe("content_filter");
    expect(reason("MODEL_ARMOR")?.reason).toBe("content_filter");
    expect(reason("A_NEW_WORD")).toMatchObject({ reason: "stop", nativeReason: "A_NEW_WORD" });
  });

  test("turn the output tool's call into text", () => {
    const reply = geminiWire.readReply(
      candidateChunk({
        ...parts({ functionCall: { name: "out", args: { a: 1 } } }),
        finishReason: "STOP",
      }),
      outboundContext("gemini", "out"),
    );
    expect(reply.choices).toMatchObject([
      { parts: [{ type: "text", text: '{"a":1}' }], finish: { reason: "stop" } },
    ]);
  });

  test("read code, its result, images and audio as complete parts", () => {
    const code = { executableCode: { language: "PYTHON", code: "1+1" }, thoughtSignature: "c2ln" };
    const result = { codeExecutionResult: { outcome: "OUTCOME_OK", output: "2" } };
    const image = { inlineData: { mimeType: "image/png", data: "AAAA" }, thoughtSignature: "c2ln" };
    const sound = { inlineData: { mimeType: "audio/L16;rate=24000", data: "AAAA" } };
    const reply = geminiWire.readReply(
      candidateChunk({ ...parts({ text: "a" }, code, result, image, sound), finishReason: "STOP" }),
      context,
    );
    expect(reply.choices[0]?.parts).toMatchObject([
      { type: "text" },
      { type: "native", wire: "gemini", value: code },
      { type: "native", wire: "gemini", value: result },
      { type: "image", signature: { wire: "gemini", kind: "image", data: "c2ln" } },
      { type: "audio" },
    ]);
  });

  test("write a reply's parts back unchanged in the next request", () => {
    const list = [
      { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
      { text: "Let me see.", thoughtSignature: "dGV4dA==" },
      { executableCode: { language: "PYTHON", code: "1+1" }, thoughtSignature: "Y29kZQ==" },
      { inlineData: { mimeType: "image/png", data: "AAAA" }, thoughtSignature: "aW1n" },
      { functionCall: { name: "f", args: { a: 1 } }, thoughtSignature: "Y2FsbA==" },
      { functionCall: { id: "own", name: "f", args: {} } },
    ];
    const origin = { provider: "acme", model: "gemini-3-flash" };
    const reply = geminiWire.readReply(
      candidateChunk({ ...parts(...list), finishReason: "STOP" }),
      {
        ...context,
        origin,
      },
    );
    const replyParts = reply.choices[0]?.parts ?? [];
    const results = replyParts.flatMap((part) =>
      part.type === "tool_call"
        ? [{ type: "tool_result" as const, callId: part.id, content: [] }]
        : [],
    );
    const { body, losses } = geminiWire.writeRequest(
      {
        model: "m",
        turns: [
          { role: "user", parts: [{ type: "text", text: "hi" }] },
          { role: "assistant", parts: replyParts },
          { role: "tool", parts: results },
        ],
      },
      origin,
    );
    expect(losses).toEqual([]);
    const sent = JSON.parse(JSON.stringify(body)) as GeminiBody;
    expect(sent.contents[1]?.parts).toEqual(list);
    const ids = sent.contents[2]?.parts?.map((part) => part.functionResponse?.id);
    expect(ids).toEqual([undefined, "own"]);
  });

  test("convert citation ranges to positions in their text part", () => {
    const chunks = [
      candidateChunk(parts({ text: "Grüße. " })),
      candidateChunk(parts({ text: "Aus Köln." })),
      candidateChunk({
        finishReason: "STOP",
        groundingMetadata: {
          webSearchQueries: ["q"],
          groundingChunks: [
            { web: { uri: "https://a.example", title: "A" } },
            { maps: { uri: "https://m.example", title: "M" } },
            { web: { uri: "https://b.example" } },
          ],
          groundingSupports: [
            {
              segment: { startIndex: 9, endIndex: 19, text: "Aus Köln." },
              groundingChunkIndices: [0, 1],
            },
          ],
        },
        citationMetadata: {
          citationSources: [{ startIndex: 0, endIndex: 8, uri: "https://c.example" }],
        },
      }),
    ];
    const events = readChunks(chunks);
    expect(validateCanonicalStream(events)).toEqual([]);
    const part = collectReply(events).choices[0]?.parts[0];
    expect(part).toMatchObject({
      text: "Grüße. Aus Köln.",
      citations: [
        { url: "https://a.example", title: "A", citedText: "Aus Köln.", start: 7, end: 16 },
        { url: "https://m.example", title: "M", start: 7, end: 16 },
        { url: "https://b.example" },
        { url: "https://c.example", start: 0, end: 6 },
      ],
    });
  });

  test("merge partial arguments", () => {
    const piece = (...partialArgs: Record<string, unknown>[]) =>
      candidateChunk(parts({ functionCall: { partialArgs, willContinue: true } }));
    const events = readChunks([
      candidateChunk(
        parts({ functionCall: { name: "f", willContinue: true }, thoughtSignature: "c2ln" }),
      ),
      piece({ jsonPath: "$.list[0].name", stringValue: "Ap", willContinue: true }),
      piece(
        { jsonPath: "$.list[0].name", stringValue: "ple" },
        { jsonPath: "$.list[1].name", stringValue: "" },
      ),
      piece(
        { jsonPath: "$['a b']", numberValue: 1.5 },
        { jsonPath: "$.yes", boolValue: true },
        { jsonPath: "$.no", nullValue: null },
        { jsonPath: "$.__proto__.x", stringValue: "y" },
      ),
      candidateChunk(parts({ functionCall: {} })),
      candidateChunk({
        ...parts({ functionCall: { name: "g", willContinue: true } }),
        finishReason: "STOP",
      }),
    ]);
    expect(validateCanonicalStream(events)).toEqual([]);
    const [first, second] = collectReply(events).choices[0]?.parts ?? [];
    expect(first).toMatchObject({
      name: "f",
      arguments:
        '{"list":[{"name":"Apple"},{"name":""}],"a b":1.5,"yes":true,"no":null,"__proto__":{"x":"y"}}',
    });
    expect(second).toMatchObject({ name: "g", arguments: "{}" });
    expect(Object.hasOwn(Object.prototype, "x")).toBe(false);
  });

  test("attach logprobs to their text", () => {
    const chosenCandidates = [{ token: "Hi", logProbability: -0.5 }];
    const topCandidates = [
      {
        candidates: [
          { token: "Hi", logProbability: -0.5 },
          { token: "Ho", logProbability: -2 },
        ],
      },
    ];
    const reply = geminiWire.readReply(
      candidateChunk({
        ...parts({ text: "Hi" }),
        finishReason: "STOP",
        logprobsResult: { chosenCandidates, topCandidates },
      }),
      context,
    );
    expect(reply.choices[0]?.parts[0]).toMatchObject({
      logprobs: [
        {
          token: "Hi",
          logprob: -0.5,
          bytes: [72, 105],
          top: [{ token: "Hi" }, { token: "Ho", logprob: -2 }],
        },
      ],
    });
  });

  test("use the last usage with a total and count searches", () => {
    const events = readChunks([
      candidateChunk(
        { groundingMetadata: { webSearchQueries: ["a", "b"] } },
        { usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 9, totalTokenCount: 18 } },
      ),
      candidateChunk(parts({ text: "a" }), {
        usageMetadata: {
          promptTokenCount: 8,
          candidatesTokenCount: 2,
          thoughtsTokenCount: 1,
          toolUsePromptTokenCount: 4,
          totalTokenCount: 15,
          serviceTier: "standard",
        },
      }),
      candidateChunk({ finishReason: "STOP" }, { usageMetadata: { trafficType: "ON_DEMAND" } }),
    ]);
    expect(events.at(-1)).toMatchObject({
      type: "usage",
      report: { usage: { tokens: { input: 12, output: 2, reasoning: 1 }, fees: { grounding: 2 } } },
    });
  });

  test("map provider errors", () => {
    const code = (status: number, body: unknown) => geminiWire.readError(status, body);
    const error = (code: number, word: string, message: string, details?: unknown[]) => ({
      error: { code, status: word, message, details },
    });
    expect(
      code(
        400,
        error(400, "INVALID_ARGUMENT", "API key not valid.", [{ reason: "API_KEY_INVALID" }]),
      ),
    ).toMatchObject({ code: "provider_not_configured", status: 503 });
    expect(
      code(400, error(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum")),
    ).toMatchObject({
      code: "invalid_request",
      status: 400,
      nativeCode: "context_length_exceeded",
    });
    expect(
      code(
        404,
        error(
          404,
          "NOT_FOUND",
          "Publisher Model `projects/p-1/locations/us/publishers/google/models/x` not found.",
        ),
      ),
    ).toMatchObject({
      code: "model_not_found",
      message: "Publisher Model `publishers/google/models/x` not found.",
    });
    expect(
      code(429, [
        error(429, "RESOURCE_EXHAUSTED", "Quota", [
          { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "48.9s" },
        ]),
      ]),
    ).toMatchObject({ code: "rate_limited", status: 429, retryAfterSeconds: 49 });
    expect(code(403, error(403, "PERMISSION_DENIED", "no"))).toMatchObject({
      code: "provider_not_configured",
      status: 503,
    });
    expect(code(504, error(504, "DEADLINE_EXCEEDED", "slow"))).toMatchObject({
      code: "upstream_timeout",
      status: 504,
    });
    expect(code(502, "<html>")).toMatchObject({ code: "upstream_error", status: 502 });
  });

  test("stay within the CPU budget per chunk", () => {
    const data = JSON.stringify(
      candidateChunk(
        { index: 0, ...parts({ text: "Some words of an answer. " }) },
        {
          usageMetadata: {
            promptTokenCount: 3,
            candidatesTokenCount: 43,
            totalTokenCount: 785,
            promptTokensDetails: [{ modality: "TEXT", tokenCount: 3 }],
          },
        },
      ),
    );
    const reader = geminiWire.createStreamReader(context);
    const runs = 20_000;
    for (let run = 0; run < runs; run++) reader.push({ name: "", data });
    const started = process.cpuUsage();
    for (let run = 0; run < runs; run++) reader.push({ name: "", data });
    const { user, system } = process.cpuUsage(started);
    console.log(`gemini: ${((user + system) / runs).toFixed(2)} µs a chunk`);
    expect((user + system) / runs).toBeLessThan(35);
  });
});
