// Requests to Converse: random round trips, and one test per rule.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { Part } from "../../src/canonical/canonical-parts.ts";
import type { CanonicalRequest, Reasoning, Turn } from "../../src/canonical/canonical-request.ts";
import { checkRequest } from "../../src/canonical/check-request.ts";
import type { Target, WrittenRequest } from "../../src/canonical/wire-interfaces.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";
import { stripPaths } from "../chat-messages/chat-messages-arbitraries.ts";
import { ORIGIN, outboundRequests } from "../gemini-converse/gemini-converse-arbitraries.ts";
import type { ConverseBody } from "./converse-types.ts";
import { parseConverseRequest } from "./parse-converse-request.ts";

const target = (model: string, rest: Partial<Target> = {}): Target => ({
  provider: "acme",
  model,
  ...rest,
});
const CLAUDE = target("us.anthropic.claude-opus-4-8");
const HAIKU = target("us.anthropic.claude-haiku-4-5-20251001-v1:0");
const NOVA = target("us.amazon.nova-2-lite-v1:0");
const GPT_OSS = target("openai.gpt-oss-120b-1:0");
const LLAMA = target("meta.llama3-3-70b-instruct-v1:0");

interface Written extends Omit<WrittenRequest, "body"> {
  readonly body: ConverseBody;
}

const jsonRoundTrip = (value: unknown) => JSON.parse(JSON.stringify(value)) as ConverseBody;
const userTurn = (...parts: Part[]): Turn => ({ role: "user", parts });
const textPart = (text: string): Part => ({ type: "text", text });
const call = (id: string, rest: Part[] = []): Turn => ({
  role: "assistant",
  parts: [...rest, { type: "tool_call", id, name: "f", arguments: "{}" }],
});
const result = (callId: string): Turn => ({
  role: "tool",
  parts: [{ type: "tool_result", callId, content: [] }],
});
const requestWith = (rest: Partial<CanonicalRequest> = {}): CanonicalRequest => ({
  model: "m",
  turns: [userTurn(textPart("hi"))],
  ...rest,
});
const tools = [{ type: "function", name: "f" } as const];

function writeForTarget(request: CanonicalRequest, target: Target = CLAUDE): Written {
  const written = converseWire.writeRequest(request, target);
  return { ...written, body: jsonRoundTrip(written.body) };
}

const lossesOfRequest = ({ losses }: Written) =>
  losses.filter((loss) => loss.tolerated !== true).map((loss) => loss.path);
const toleratedLosses = ({ losses }: Written) =>
  losses.filter((loss) => loss.tolerated === true).map((loss) => loss.path);

describe("requests to Converse", () => {
  test("round-trip random requests without loss", () => {
    fc.assert(
      fc.property(outboundRequests("converse"), (request) => {
        const written = writeForTarget(request, { ...ORIGIN, model: "anthropic.claude-opus-4-8" });
        expect(written.losses).toEqual([]);
        const back = checkRequest(parseConverseRequest(written.body, written.path ?? ""));
        expect(stripPaths(back)).toEqual(stripPaths(request));
      }),
      { numRuns: runs(300) },
    );
  });

  test("use the path of the operation", () => {
    const arn = "arn:aws:bedrock:us-east-1:1:application-inference-profile/x";
    expect(writeForTarget(requestWith(), HAIKU).path).toBe(
      "/model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse",
    );
    expect(writeForTarget(requestWith({ stream: true }), target(arn)).path).toBe(
      "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fx/converse-stream",
    );
  });

  test("send a placeholder tool if the history has calls but no tool may be called", () => {
    const turns = [userTurn(textPart("a")), call("x"), result("x"), userTurn(textPart("b"))];
    expect(
      writeForTarget(requestWith({ tools, toolChoice: { type: "none" } })).body.toolConfig,
    ).toBeUndefined();
    for (const rest of [{ tools, toolChoice: { type: "none" } as const }, {}]) {
      const written = writeForTarget(requestWith({ turns, ...rest }));
      expect(written.body.toolConfig?.tools.map((tool) => tool.toolSpec?.name)).toEqual([
        "no_tool_available",
      ]);
      expect(written.body.toolConfig?.toolChoice).toBeUndefined();
      expect(lossesOfRequest(written)).toEqual([]);
    }
    const allowed = writeForTarget(
      requestWith({
        tools: [...tools, { type: "function", name: "g" }],
        toolChoice: { type: "allowed", mode: "required", names: ["g"] },
      }),
    );
    expect(allowed.body.toolConfig).toMatchObject({
      tools: [{ toolSpec: { name: "g" } }],
      toolChoice: { any: {} },
    });
  });

  test("encode call ids and put results first in the next user message", () => {
    const id = "functions.add:0";
    const { body } = writeForTarget(
      requestWith({
        turns: [userTurn(textPart("a")), call(id), result(id), userTurn(textPart("b"))],
      }),
    );
    const use = body.messages[1]?.content[0]?.toolUse?.toolUseId ?? "";
    expect(use).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    expect(body.messages[2]).toEqual({
      role: "user",
      content: [{ toolResult: { toolUseId: use, content: [] } }, { text: "b" }],
    });
  });

  test("write cache breakpoints that the model supports and drop others", () => {
    const marked = requestWith({
      turns: [
        { role: "system", parts: [{ type: "text", text: "s", cache: {} }] },
        userTurn(
          { type: "text", text: "a", cache: { ttl: "1h" } },
          { type: "text", text: "b", cache: { ttl: "30m" } },
        ),
      ],
      tools: [{ type: "function", name: "f", cache: { ttl: "5m" } }],
    });
    const claude = writeForTarget(marked);
    const point = (ttl?: string) => ({
      cachePoint: ttl === undefined ? { type: "default" } : { type: "default", ttl },
    });
    expect(claude.body.system).toEqual([{ text: "s" }, point()] as never);
    expect(claude.body.messages[0]?.content).toEqual([
      { text: "a" },
      point("1h"),
      { text: "b" },
      point(),
    ] as never);
    expect(claude.body.toolConfig?.tools[1]).toEqual(point("5m") as never);
    expect([lossesOfRequest(claude), toleratedLosses(claude)]).toEqual([
      [],
      ["messages.content[1].cache_control.ttl"],
    ]);
    const nova = writeForTarget(marked, NOVA);
    expect(nova.body.messages[0]?.content[1]).toEqual(point() as never);
    expect(nova.body.toolConfig?.tools).toHaveLength(1);
    const llama = writeForTarget(marked, LLAMA);
    expect(llama.body.messages[0]?.content).toHaveLength(2);
    expect([lossesOfRequest(llama), toleratedLosses(llama).length]).toEqual([[], 4]);
    expect(writeForTarget(requestWith({ cache: { ttl: "1h" } })).body.messages[0]?.content).toEqual(
      [{ text: "hi" }, point("1h")] as never,
    );
    const within = requestWith({
      turns: [
        userTurn(textPart("a")),
        call("x"),
        {
          role: "tool",
          parts: [
            {
              type: "tool_result",
              callId: "x",
              cache: {},
              content: [{ type: "text", text: "r", cache: {} }],
            },
          ],
        },
      ],
    });
    expect(writeForTarget(within).body.messages[2]?.content).toEqual([
      { toolResult: { toolUseId: "x", content: [{ text: "r" }] } },
      point(),
    ] as never);
    expect(toleratedLosses(writeForTarget(within))).toEqual([
      "messages.content[0].content[0].cache_control",
    ]);
  });

  test("move cache points before documents", () => {
    const source = { kind: "text", mediaType: "text/plain", text: "x" } as const;
    const file: Part = { type: "file", source, cache: {} };
    const kinds = (...parts: Part[]) => {
      const written = writeForTarget(requestWith({ turns: [userTurn(...parts)] }));
      const content = written.body.messages[0]?.content ?? [];
      return [content.map((block) => Object.keys(block).join("")), toleratedLosses(written).length];
    };
    expect(kinds(textPart("a"), file)).toEqual([["text", "cachePoint", "document"], 1]);
    expect(kinds(textPart("a"), file, file)).toEqual([
      ["text", "cachePoint", "document", "document"],
      2,
    ]);
    expect(kinds(file, textPart("a"))).toEqual([["document", "text"], 1]);
  });

  test("write media as bytes or from S3 in supported formats", () => {
    const block = (part: Part, to = CLAUDE) => {
      const written = writeForTarget(requestWith({ turns: [userTurn(textPart("see"), part)] }), to);
      return [written.body.messages[0]?.content[1], lossesOfRequest(written)] as unknown[];
    };
    const bytes = (mediaType: string) => ({ kind: "base64", mediaType, data: "AAAA" }) as const;
    expect(block({ type: "image", source: bytes("image/jpeg") })).toEqual([
      { image: { format: "jpeg", source: { bytes: "AAAA" } } },
      [],
    ]);
    expect(block({ type: "image", source: bytes("image/tiff") })[1]).toHaveLength(1);
    expect(
      block({ type: "image", source: { kind: "url", url: "https://a.example/b.png" } })[1],
    ).toEqual(["messages.content[1]"]);
    expect(block({ type: "image", source: { kind: "url", url: "s3://bucket/b.png" } })).toEqual([
      { image: { format: "png", source: { s3Location: { uri: "s3://bucket/b.png" } } } },
      [],
    ]);
    expect(
      block({ type: "image", source: { kind: "file_id", wire: "messages", id: "f" } })[1],
    ).toHaveLength(1);
    expect(block({ type: "video", source: bytes("video/mp4") })[1]).toHaveLength(1);
    expect(block({ type: "video", source: bytes("video/mp4") }, NOVA)).toEqual([
      { video: { format: "mp4", source: { bytes: "AAAA" } } },
      [],
    ]);
    expect(
      block({
        type: "file",
        source: bytes("application/pdf"),
        name: "Q3 report (final)__v2.pdf",
        context: "c",
        citable: true,
      }),
    ).toEqual([
      {
        document: {
          format: "pdf",
          source: { bytes: "AAAA" },
          name: "Q3 report (final) v2",
          context: "c",
          citations: { enabled: true },
        },
      },
      [],
    ]);
    expect(
      block({ type: "file", source: { kind: "text", mediaType: "text/x-log", text: "ä" } }),
    ).toEqual([{ document: { format: "txt", source: { bytes: "w6Q=" }, name: "document" } }, []]);
    expect(block({ type: "file", source: bytes("application/zip") })[1]).toHaveLength(1);
  });

  test("give documents unique names and require text with them", () => {
    const file: Part = {
      type: "file",
      name: "a.txt",
      source: { kind: "text", mediaType: "text/plain", text: "x" },
    };
    const written = writeForTarget(
      requestWith({
        turns: [userTurn(textPart("see"), file, file, { ...file, name: "../é.txt" })],
      }),
    );
    expect(
      written.body.messages[0]?.content.flatMap((block) => block.document?.name ?? []),
    ).toEqual(["a", "a (2)", "document"]);
    expect(lossesOfRequest(writeForTarget(requestWith({ turns: [userTurn(file)] })))).toEqual([
      "messages",
    ]);
  });

  test("send reasoning only to the model that produced it", () => {
    const blob = { wire: "converse", kind: "signature", data: "s" } as const;
    const origin = { provider: "acme", model: CLAUDE.model };
    const parts: Part[] = [
      { type: "reasoning", text: "a", blob: { ...blob, origin } },
      { type: "reasoning", text: "", blob: { ...blob, kind: "encrypted", data: "eA==" } },
      { type: "reasoning", text: "b", blob: { ...blob, wire: "messages" } },
      { type: "reasoning", text: "c" },
    ];
    const written = writeForTarget(
      requestWith({ turns: [userTurn(textPart("q")), call("x", parts), result("x")] }),
    );
    expect(written.body.messages[1]?.content.slice(0, 2)).toEqual([
      { reasoningContent: { reasoningText: { text: "a", signature: "s" } } },
      { reasoningContent: { redactedContent: "eA==" } },
    ]);
    expect(written.body.messages[1]?.content).toHaveLength(3);
    expect([lossesOfRequest(written), toleratedLosses(written).length]).toEqual([[], 2]);
  });

  test("write reasoning settings for each model family", () => {
    const fields = (reasoning: Reasoning, to: Target, rest: Partial<CanonicalRequest> = {}) => {
      const written = writeForTarget(requestWith({ reasoning, ...rest }), to);
      return [
        written.body.additionalModelRequestFields,
        toleratedLosses(written).length,
        lossesOfRequest(written).length,
      ] as unknown[];
    };
    expect(fields({ effort: "high" }, CLAUDE)).toEqual([
      { thinking: { type: "adaptive" }, output_config: { effort: "high" } },
      0,
      0,
    ]);
    expect(fields({ effort: "minimal", summary: "auto" }, CLAUDE)).toEqual([
      { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "low" } },
      1,
      0,
    ]);
    expect(fields({ mode: "off" }, CLAUDE)).toEqual([{ thinking: { type: "disabled" } }, 0, 0]);
    expect(fields({ effort: "low" }, HAIKU)).toEqual([
      { thinking: { type: "enabled", budget_tokens: 2_048 } },
      0,
      0,
    ]);
    expect(fields({ budgetTokens: 9_000 }, HAIKU, { maxOutputTokens: 4_096 })).toEqual([
      { thinking: { type: "enabled", budget_tokens: 4_095 } },
      1,
      0,
    ]);
    expect(fields({ budgetTokens: 9_000 }, HAIKU, { maxOutputTokens: 500 })).toEqual([
      undefined,
      1,
      0,
    ]);
    expect(fields({ effort: "low" }, HAIKU, { tools, toolChoice: { type: "required" } })).toEqual([
      undefined,
      1,
      0,
    ]);
    expect(
      fields({ effort: "low" }, HAIKU, {
        tools,
        turns: [userTurn(textPart("q")), call("x"), result("x")],
      }),
    ).toEqual([undefined, 1, 0]);
    expect(fields({ effort: "high" }, NOVA)).toEqual([
      { reasoningConfig: { type: "enabled", maxReasoningEffort: "medium" } },
      1,
      0,
    ]);
    expect(fields({ effort: "none" }, NOVA)).toEqual([undefined, 0, 0]);
    expect(fields({ effort: "high" }, GPT_OSS)).toEqual([{ reasoning_effort: "high" }, 0, 0]);
    expect(fields({ effort: "high" }, LLAMA)).toEqual([undefined, 0, 1]);
    expect(fields({ effort: "high" }, target("anthropic.claude-3-5-haiku-20241022-v1:0"))).toEqual([
      undefined,
      0,
      1,
    ]);
    expect(
      fields({ effort: "low" }, target("anthropic.claude-3-7-sonnet-20250219-v1:0"))[0],
    ).toMatchObject({ thinking: { type: "enabled" } });
    expect(
      fields({ effort: "low" }, target("anthropic.claude-sonnet-4-20250514-v1:0"))[0],
    ).toMatchObject({ thinking: { type: "enabled" } });
  });

  test("keep sampling within the provider's limits", () => {
    const sampled = (rest: Partial<CanonicalRequest>, to = CLAUDE) => {
      const written = writeForTarget(requestWith({ ...rest }), to);
      return [
        written.body.inferenceConfig,
        written.body.additionalModelRequestFields,
        lossesOfRequest(written),
      ] as unknown[];
    };
    expect(sampled({ temperature: 1.5 })).toEqual([{ temperature: 1 }, undefined, ["temperature"]]);
    expect(sampled({ topK: 5, stop: ["\n", "END"] })).toEqual([
      { stopSequences: ["END"] },
      { top_k: 5 },
      ["stop"],
    ]);
    expect(sampled({ topK: 5 }, NOVA)).toEqual([undefined, { inferenceConfig: { topK: 5 } }, []]);
    expect(sampled({ topK: 5 }, LLAMA)[2]).toEqual(["topK"]);
    const thinking = { temperature: 1, topP: 0.9, topK: 5, reasoning: { effort: "high" } } as const;
    expect(sampled(thinking)[2]).toEqual(["topK", "topP"]);
    const closed = { ...CLAUDE, abilities: { sampling: false } };
    expect(sampled({ temperature: 0.5, topP: 1 }, closed)).toEqual([
      undefined,
      undefined,
      ["temperature"],
    ]);
    expect(
      writeForTarget(requestWith({ stop: ["END"] })).body.additionalModelResponseFieldPaths,
    ).toEqual(["/stop_sequence"]);
    expect(
      writeForTarget(requestWith(), { ...CLAUDE, maxOutputTokens: 64 }).body.inferenceConfig,
    ).toEqual({
      maxTokens: 64,
    });
  });

  test("write a JSON schema natively or as a tool", () => {
    const schema = { properties: { a: {} }, additionalProperties: false };
    const output = { type: "json_schema", schema, name: "out" } as const;
    expect(writeForTarget(requestWith({ output })).body.outputConfig).toEqual({
      textFormat: {
        type: "json_schema",
        structure: { jsonSchema: { schema: JSON.stringify(schema), name: "out" } },
      },
    });
    const old = { ...CLAUDE, abilities: { jsonSchema: false } };
    const alone = writeForTarget(requestWith({ output }), old);
    expect(alone.emulation).toEqual({ outputTool: "out" });
    expect(alone.body.toolConfig).toMatchObject({
      tools: [
        {
          toolSpec: {
            name: "out",
            inputSchema: { json: { type: "object", properties: { a: {} } } },
          },
        },
      ],
      toolChoice: { tool: { name: "out" } },
    });
    expect(writeForTarget(requestWith({ output, tools }), old).body.toolConfig?.toolChoice).toEqual(
      { any: {} },
    );
    const any = writeForTarget(requestWith({ output: { type: "json_object" } }));
    expect(lossesOfRequest(any)).toEqual([]);
    expect(any.losses).toMatchObject([{ path: "output", tolerated: true }]);
    expect(any.body.outputConfig).toBeUndefined();
    expect(any.body.system?.at(-1)?.text).toContain("one JSON object");
  });

  test("report losses under the caller's field names", () => {
    const written = writeForTarget(
      requestWith({
        seed: 1,
        n: 2,
        logprobs: true,
        logitBias: { "1": 1 },
        parallelToolCalls: false,
        serviceTier: "scale",
        user: "u",
        tools: [
          { type: "function", name: "a.b" },
          { type: "custom", name: "c" },
          { type: "native", wire: "messages", name: "web_search", value: {} },
        ],
        native: { wire: "messages", fields: { container: "c" } },
        names: { logitBias: "logit_bias", parallelToolCalls: "parallel_tool_calls" },
      }),
    );
    expect(lossesOfRequest(written)).toEqual([
      "container",
      "seed",
      "logit_bias",
      "logprobs",
      "n",
      "serviceTier",
      "tools.c",
      "tools.web_search",
    ]);
    expect(toleratedLosses(written)).toEqual(["user"]);
    expect(
      lossesOfRequest(
        writeForTarget(requestWith({ n: 1, frequencyPenalty: 0, store: false, logprobs: false })),
      ),
    ).toEqual([]);
    const opening = writeForTarget(
      requestWith({
        turns: [{ role: "assistant", parts: [textPart("a")] }, userTurn(textPart("b"))],
      }),
    );
    expect(lossesOfRequest(opening)).toEqual(["messages"]);
    const blank = writeForTarget(
      requestWith({ turns: [userTurn(textPart("a"), textPart(" "), textPart(""))] }),
    );
    expect([blank.body.messages[0]?.content, toleratedLosses(blank).length]).toEqual([
      [{ text: "a" }],
      1,
    ]);
  });
});
