// Replies of Converse, streamed and not: random round trips, splits at every byte, and edge cases.

import { describe, expect, test } from "bun:test";
import { encodeEventFrame } from "@postern/simulator";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { WireEvent, WireStreamReader } from "../../src/canonical/wire-interfaces.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";
import { cutEvents, stripPaths } from "../chat-messages/chat-messages-arbitraries.ts";
import {
  ORIGIN,
  outboundContext,
  outboundReplies,
  splitBytes,
} from "../gemini-converse/gemini-converse-arbitraries.ts";
import { collectReply, readEvents, validateCanonicalStream } from "../stream-helpers.ts";
import { bodyOf, encodeFrame, eventsOf, readFrames } from "./encode-converse-frames.ts";

const context = outboundContext("converse");
const comparableReply = ({ choices, usage }: CanonicalReply) => {
  const { input = 0, cache_read = 0, output = 0, reasoning = 0 } = usage?.usage.tokens ?? {};
  const summary = choices.map(({ parts, finish: { reason, stopSequence } }) => ({
    parts,
    reason,
    stopString: stopSequence,
  }));
  return stripPaths({ summary, tokens: [input, cache_read, output + reasoning] });
};
const event = (name: string, payload: unknown): WireEvent => ({
  name,
  data: JSON.stringify(payload),
});
const delta = (contentBlockIndex: number, held: unknown) =>
  event("contentBlockDelta", { contentBlockIndex, delta: held });
const stop = (stopReason: string, rest: object = {}) =>
  event("messageStop", { stopReason, ...rest });
const readStream = (...events: WireEvent[]) => readEvents(converseWire, events, context);
const wholeBody = (stopReason: string, ...content: unknown[]) =>
  converseWire.readReply(
    { output: { message: { role: "assistant", content } }, stopReason },
    context,
  );

describe("replies of Converse", () => {
  test("round-trip random replies and streams, split anywhere", () => {
    const streams = outboundReplies("converse").chain((reply) =>
      fc.tuple(
        fc.constant(reply),
        cutEvents(reply),
        fc.infiniteStream(fc.integer({ min: 1, max: 60 })),
      ),
    );
    fc.assert(
      fc.property(streams, ([reply, events, sizes]) => {
        const bytes = Buffer.concat(eventsOf(events).map((one) => encodeFrame(one)));
        const out = readFrames(converseWire.createStreamReader(context), splitBytes(bytes, sizes));
        expect(validateCanonicalStream(out)).toEqual([]);
        expect(comparableReply(collectReply(out))).toEqual(comparableReply(reply));
        expect(comparableReply(converseWire.readReply(bodyOf(reply), context))).toEqual(
          comparableReply(reply),
        );
      }),
      { numRuns: runs(300) },
    );
  });

  test("give the same events for a stream split at any byte", () => {
    const bytes = Buffer.concat(
      [
        event("messageStart", { role: "assistant" }),
        delta(0, { reasoningContent: { text: "Hm 🏴‍☠️" } }),
        delta(0, { reasoningContent: { signature: "sig" } }),
        event("contentBlockStop", { contentBlockIndex: 0 }),
        delta(1, { text: "Grüße" }),
        event("contentBlockStop", { contentBlockIndex: 1 }),
        event("contentBlockStart", {
          contentBlockIndex: 2,
          start: { toolUse: { toolUseId: "t1", name: "f" } },
        }),
        delta(2, { toolUse: { input: '{"a":' } }),
        delta(2, { toolUse: { input: "1}" } }),
        event("contentBlockStop", { contentBlockIndex: 2 }),
        stop("tool_use"),
        event("metadata", { usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 } }),
      ].map((one) => encodeFrame(one)),
    );
    const one = readFrames(converseWire.createStreamReader(context), [bytes]);
    expect(validateCanonicalStream(one)).toEqual([]);
    for (let at = 1; at < bytes.length; at++) {
      const pieces = [bytes.subarray(0, at), bytes.subarray(at)];
      expect(readFrames(converseWire.createStreamReader(context), pieces)).toEqual(one);
    }
    expect(collectReply(one)).toMatchObject({
      choices: [
        {
          parts: [
            {
              type: "reasoning",
              text: "Hm 🏴‍☠️",
              blob: { kind: "signature", data: "sig", origin: ORIGIN },
            },
            { type: "text", text: "Grüße" },
            { type: "tool_call", id: "t1", name: "f", arguments: '{"a":1}' },
          ],
          finish: { reason: "tool_calls", nativeReason: "tool_use" },
        },
      ],
      usage: { usage: { tokens: { input: 3, output: 4 } } },
    });
  });

  test("emit text with its frame and finish with the metadata", () => {
    const reader = converseWire.createStreamReader(context);
    const types = (one: WireEvent) => reader.push(one).map(({ type }) => type);
    expect(types(delta(0, { text: "" }))).toEqual(["start"]);
    expect(types(delta(0, { text: "a" }))).toEqual(["part_start", "delta"]);
    expect(types(event("contentBlockStop", { contentBlockIndex: 0 }))).toEqual([]);
    expect(types(stop("end_turn"))).toEqual(["part_end"]);
    expect(
      types(event("metadata", { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } })),
    ).toEqual(["finish", "usage"]);
    expect(reader.end()).toEqual([]);
  });

  test("report truncated streams and exceptions in streams as errors", () => {
    expect(readStream(delta(0, { text: "a" })).at(-1)).toMatchObject({
      type: "error",
      error: { code: "upstream_error" },
    });
    expect(readStream()).toMatchObject([{ type: "error" }]);
    expect(readStream(delta(0, { text: "a" }), stop("end_turn")).at(-1)).toMatchObject({
      type: "finish",
    });
    const exception = (name: string, message: string) =>
      readFrames(converseWire.createStreamReader(context), [
        encodeFrame(delta(0, { text: "a" })),
        encodeFrame(event(name, { message }), "exception"),
        encodeFrame(delta(0, { text: "b" })),
      ]).at(-1);
    expect(exception("throttlingException", "Too many")).toMatchObject({
      type: "error",
      error: {
        code: "rate_limited",
        status: 429,
        message: "Too many",
        nativeCode: "throttlingException",
      },
    });
    expect(exception("modelStreamErrorException", "Broken")).toMatchObject({
      error: { code: "upstream_error", status: 502 },
    });
    expect(exception("serviceUnavailableException", "Busy")).toMatchObject({
      error: { code: "overloaded", status: 503 },
    });
    expect(exception("validationException", "Input is too long: context length")).toMatchObject({
      error: { code: "invalid_request", nativeCode: "context_length_exceeded" },
    });
    const made = encodeEventFrame(
      { ":message-type": "error", ":error-code": "InternalError", ":error-message": "Ow" },
      new Uint8Array(0),
    );
    expect(readFrames(converseWire.createStreamReader(context), [made])).toMatchObject([
      { type: "error", error: { message: "Ow" } },
    ]);
  });

  test("map stop reasons", () => {
    const reason = (word: string, ...content: unknown[]) =>
      wholeBody(word, ...content).choices[0]?.finish;
    const use = { toolUse: { toolUseId: "t", name: "f", input: {} } };
    expect(reason("end_turn")).toMatchObject({ reason: "stop", nativeReason: "end_turn" });
    expect(reason("tool_use", use)?.reason).toBe("tool_calls");
    expect(reason("max_tokens", use)?.reason).toBe("length");
    expect(reason("guardrail_intervened")?.reason).toBe("content_filter");
    expect(reason("content_filtered")?.reason).toBe("content_filter");
    expect(reason("malformed_tool_use")?.reason).toBe("bad_tool_call");
    expect(reason("malformed_model_output")?.reason).toBe("error");
    expect(reason("model_context_window_exceeded")?.reason).toBe("context_full");
    expect(reason("a_new_word")).toMatchObject({ reason: "stop", nativeReason: "a_new_word" });
    const fields = { additionalModelResponseFields: { delta: { stop_sequence: "END" } } };
    expect(readStream(stop("stop_sequence", fields)).at(-1)).toMatchObject({
      finish: { reason: "stop_sequence", stopSequence: "END" },
    });
    const trace = { guardrail: { actionReason: "Guardrail blocked." } };
    expect(
      readStream(stop("guardrail_intervened"), event("metadata", { trace })).at(-1),
    ).toMatchObject({
      finish: { detail: "Guardrail blocked." },
    });
  });

  test("turn the output tool's call into text", () => {
    const emulated = outboundContext("converse", "out");
    const content = [{ toolUse: { toolUseId: "t", name: "out", input: { a: 1 } } }];
    const reply = converseWire.readReply(
      { output: { message: { content } }, stopReason: "tool_use" },
      emulated,
    );
    expect(reply.choices).toMatchObject([
      { parts: [{ type: "text", text: '{"a":1}' }], finish: { reason: "stop" } },
    ]);
  });

  test("give a call without arguments an empty object", () => {
    const start = event("contentBlockStart", {
      contentBlockIndex: 0,
      start: { toolUse: { toolUseId: "t", name: "f" } },
    });
    const events = readStream(
      start,
      event("contentBlockStop", { contentBlockIndex: 0 }),
      stop("tool_use"),
    );
    expect(validateCanonicalStream(events)).toEqual([]);
    expect(collectReply(events).choices[0]?.parts).toMatchObject([
      { type: "tool_call", arguments: "{}" },
    ]);
  });

  test("keep a server tool's call and result as native parts", () => {
    const use = { toolUseId: "t", name: "nova_grounding", type: "server_tool_use" };
    const answer = { toolUseId: "t", type: "nova_grounding_result", status: "success" };
    const content = [
      { toolUse: { ...use, input: { q: 1 } } },
      { toolResult: { ...answer, content: [{ text: "x" }] } },
      { image: { format: "png", source: { bytes: "AAAA" } } },
      { reasoningContent: { redactedContent: "eA==" } },
      { text: "done" },
    ];
    const streamed = readStream(
      event("contentBlockStart", { contentBlockIndex: 0, start: { toolUse: use } }),
      delta(0, { toolUse: { input: '{"q":1}' } }),
      event("contentBlockStop", { contentBlockIndex: 0 }),
      event("contentBlockStart", { contentBlockIndex: 1, start: { toolResult: answer } }),
      delta(1, { toolResult: [{ text: "x" }] }),
      event("contentBlockStart", { contentBlockIndex: 2, start: { image: { format: "png" } } }),
      delta(2, { image: { source: { bytes: "AAAA" } } }),
      delta(3, { reasoningContent: { redactedContent: "eA==" } }),
      delta(4, { text: "done" }),
      stop("end_turn"),
    );
    expect(validateCanonicalStream(streamed)).toEqual([]);
    const reply = wholeBody("end_turn", ...content);
    expect(stripPaths(collectReply(streamed).choices)).toEqual(stripPaths(reply.choices));
    const turns = [
      { role: "user", parts: [{ type: "text", text: "hi" }] } as const,
      { role: "assistant", parts: reply.choices[0]?.parts ?? [] } as const,
    ];
    const { body, losses } = converseWire.writeRequest({ model: "m", turns }, ORIGIN);
    expect(losses).toEqual([]);
    expect(JSON.parse(JSON.stringify(body))).toMatchObject({
      messages: [{}, { role: "assistant", content }],
    });
  });

  test("attach citations to the text of their block", () => {
    const web = { location: { web: { url: "https://a.example", domain: "a.example" } } };
    const document = {
      title: "Doc",
      sourceContent: [{ text: "as is" }],
      location: { documentChar: { documentIndex: 0 } },
    };
    const citations = [
      { url: "https://a.example", title: "a.example", start: 0, end: 3 },
      { title: "Doc", citedText: "as is", start: 3, end: 6 },
    ];
    const streamed = readStream(
      delta(0, { text: "One" }),
      delta(1, { citation: web }),
      delta(2, { text: "Two" }),
      delta(2, { citation: document }),
      delta(3, { text: "." }),
      stop("end_turn"),
    );
    expect(validateCanonicalStream(streamed)).toEqual([]);
    const reply = wholeBody(
      "end_turn",
      { citationsContent: { content: [{ text: "One" }], citations: [web] } },
      { citationsContent: { content: [{ text: "Two" }], citations: [document] } },
      { text: "." },
    );
    for (const { choices } of [collectReply(streamed), reply])
      expect(choices[0]?.parts).toMatchObject([{ type: "text", text: "OneTwo.", citations }]);
  });

  test("read usage with cache reads, and writes by TTL", () => {
    const usage = {
      inputTokens: 1,
      outputTokens: 2,
      totalTokens: 110,
      cacheReadInputTokens: 7,
      cacheWriteInputTokens: 100,
      cacheDetails: [
        { ttl: "1h", inputTokens: 60 },
        { ttl: "5m", inputTokens: 40 },
      ],
    };
    const tokens = { input: 1, output: 2, cache_read: 7, cache_write_5m: 40, cache_write_1h: 60 };
    const metadata = {
      usage,
      serviceTier: { type: "flex" },
      performanceConfig: { latency: "optimized" },
    };
    const report = { usage: { tokens, serviceTier: "flex", speed: "optimized" } };
    expect(readStream(stop("end_turn"), event("metadata", metadata)).at(-1)).toMatchObject({
      type: "usage",
      report,
    });
    const reply = converseWire.readReply({ stopReason: "end_turn", ...metadata }, context);
    expect(reply).toMatchObject({ usage: report, serviceTier: "flex" });
  });

  test("map provider errors", () => {
    const code = (status: number, message: string, type?: string) =>
      converseWire.readError(status, { message, __type: type });
    expect(code(400, "The provided model identifier is invalid.")).toMatchObject({
      code: "model_not_found",
      status: 404,
    });
    expect(
      code(400, "Invocation of model ID x with on-demand throughput isn’t supported."),
    ).toMatchObject({ code: "provider_not_configured", status: 503 });
    expect(code(403, "User: arn:aws:iam::123456789012:user/me is not authorized")).toMatchObject({
      code: "provider_not_configured",
      message: "User: the resource is not authorized",
    });
    expect(code(404, "This model version has reached the end of its life.")).toMatchObject({
      code: "model_not_found",
    });
    expect(
      code(400, "Input Tokens Exceeded: Number of input tokens exceeds maximum length."),
    ).toMatchObject({ code: "invalid_request", nativeCode: "context_length_exceeded" });
    expect(code(429, "Too many", "com.amazon.coral#ThrottlingException:http://x")).toMatchObject({
      code: "rate_limited",
      nativeCode: "ThrottlingException",
    });
    expect(code(400, "Quota", "ServiceQuotaExceededException")).toMatchObject({
      code: "rate_limited",
    });
    expect(code(429, "Loading", "ModelNotReadyException")).toMatchObject({ code: "overloaded" });
    expect(code(424, "The model failed")).toMatchObject({ code: "upstream_error", status: 424 });
    expect(code(408, "Slow", "ModelTimeoutException")).toMatchObject({
      code: "upstream_timeout",
      status: 504,
    });
    expect(converseWire.readError(500, "oops")).toMatchObject({
      code: "upstream_error",
      status: 500,
      message: "oops",
    });
  });

  test("stay within the CPU budget per chunk", () => {
    const reader = converseWire.createStreamReader(context);
    const frame = encodeFrame(
      event("contentBlockDelta", {
        contentBlockIndex: 0,
        delta: { text: "Some words of an answer. " },
        p: "abcdefghijklmnopqrstuvwxyz",
      }),
    );
    const runs = 20_000;
    const bytes = Buffer.concat(Array.from({ length: runs }, () => frame));
    const open: WireStreamReader = { push: (wireEvent) => reader.push(wireEvent), end: () => [] };
    readFrames(open, [bytes]);
    const started = process.cpuUsage();
    readFrames(open, [bytes]);
    const { user, system } = process.cpuUsage(started);
    console.log(`converse: ${((user + system) / runs).toFixed(2)} µs a chunk, including its frame`);
    expect((user + system) / runs).toBeLessThan(35);
  });
});
