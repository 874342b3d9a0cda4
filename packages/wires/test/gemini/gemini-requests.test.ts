// Requests to Gemini: random round trips, validation by Google's schema, and one test per rule.

import { describe, expect, test } from "bun:test";
import {
  type Content,
  FunctionCallingConfigMode,
  type GenerationConfig,
  ThinkingLevel,
  type Tool as SdkTool,
  type ToolConfig,
} from "@google/genai";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { Part } from "../../src/canonical/canonical-parts.ts";
import type { CanonicalRequest, Turn } from "../../src/canonical/canonical-request.ts";
import { checkRequest } from "../../src/canonical/check-request.ts";
import type { Target, WrittenRequest } from "../../src/canonical/wire-interfaces.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { stripPaths } from "../chat-messages/chat-messages-arbitraries.ts";
import { ORIGIN, outboundRequests } from "../gemini-converse/gemini-converse-arbitraries.ts";
import { geminiValidator } from "./gemini-discovery-schema.ts";
import type { GeminiBody, GeminiPart } from "./gemini-types.ts";
import { parseGeminiRequest } from "./parse-gemini-request.ts";

const GEMINI_3_FLASH: Target = { provider: "acme", model: "gemini-3-flash-preview" };
const GEMINI_25_FLASH: Target = { provider: "acme", model: "gemini-2.5-flash" };
const GEMINI_25_PRO: Target = { provider: "acme", model: "gemini-2.5-pro" };
const validateBody = geminiValidator();

const jsonRoundTrip = (value: unknown) => JSON.parse(JSON.stringify(value)) as GeminiBody;
const userTurn = (...parts: Part[]): Turn => ({ role: "user", parts });
const textPart = (text: string): Part => ({ type: "text", text });
const requestWith = (rest: Partial<CanonicalRequest> = {}): CanonicalRequest => ({
  model: "m",
  turns: [userTurn(textPart("hi"))],
  ...rest,
});

interface Written extends Omit<WrittenRequest, "body"> {
  readonly body: GeminiBody;
}

function writeForTarget(request: CanonicalRequest, target: Target = GEMINI_3_FLASH): Written {
  const written = geminiWire.writeRequest(request, target);
  const body = jsonRoundTrip(written.body);
  if (validateBody !== undefined) expect(validateBody("GenerateContentRequest", body)).toEqual([]);
  return { ...written, body };
}

const rejectedLosses = ({ losses }: Written) =>
  losses.filter((loss) => loss.tolerated !== true).map((loss) => loss.path);
const toleratedLosses = ({ losses }: Written) =>
  losses.filter((loss) => loss.tolerated === true).map((loss) => loss.path);

describe("requests to Gemini", () => {
  test("round-trip random requests without loss and match Google's schema", () => {
    fc.assert(
      fc.property(outboundRequests("gemini"), (request) => {
        const { body, losses, path } = writeForTarget(request, {
          ...ORIGIN,
          model: "gemini-3-flash",
        });
        expect(losses).toEqual([]);
        expect(stripPaths(parseGeminiRequest(body, path ?? ""))).toEqual(stripPaths(request));
      }),
      { numRuns: runs(300) },
    );
  });

  test("write a full request that matches the official SDK's types", () => {
    const request = checkRequest({
      model: "m",
      turns: [
        { role: "system", parts: [textPart("Be brief."), textPart("Be kind.")] },
        userTurn(textPart("Weather?"), {
          type: "image",
          detail: "low",
          source: { kind: "base64", mediaType: "image/png", data: "AAAA" },
        }),
        {
          role: "assistant",
          parts: [
            {
              type: "reasoning",
              text: "Hm.",
              blob: { wire: "gemini", kind: "signature", data: "c2ln" },
            },
            {
              type: "tool_call",
              id: "one",
              name: "weather",
              arguments: '{"at":"Bern"}',
              signature: { wire: "gemini", kind: "call", data: "Y2FsbA==" },
            },
            { type: "tool_call", id: "two", name: "weather", arguments: '{"at":"Rome"}' },
          ],
        },
        {
          role: "tool",
          parts: [
            {
              type: "tool_result",
              callId: "two",
              content: [textPart("hot") as never],
              isError: true,
            },
            { type: "tool_result", callId: "one", content: [] },
          ],
        },
        { role: "developer", parts: [textPart("Now in German.")] },
      ],
      tools: [
        {
          type: "function",
          name: "weather",
          parameters: { type: "object", additionalProperties: false },
        },
      ],
      toolChoice: { type: "allowed", mode: "required", names: ["weather"] },
      reasoning: { effort: "high", summary: "auto" },
      maxOutputTokens: 99,
      stop: ["END"],
    });
    const contents: Content[] = [
      {
        role: "user",
        parts: [
          { text: "Weather?" },
          {
            inlineData: { mimeType: "image/png", data: "AAAA" },
            mediaResolution: { level: "MEDIA_RESOLUTION_LOW" as never },
          },
        ],
      },
      {
        role: "model",
        parts: [
          { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
          {
            functionCall: { id: "one", name: "weather", args: { at: "Bern" } },
            thoughtSignature: "Y2FsbA==",
          },
          { functionCall: { id: "two", name: "weather", args: { at: "Rome" } } },
        ],
      },
      {
        role: "user",
        parts: [
          { functionResponse: { id: "one", name: "weather", response: { output: "" } } },
          { functionResponse: { id: "two", name: "weather", response: { error: "hot" } } },
          { text: "Now in German." },
        ],
      },
    ];
    const expected = {
      systemInstruction: { parts: [{ text: "Be brief." }, { text: "Be kind." }] },
      contents,
      tools: [
        {
          functionDeclarations: [
            {
              name: "weather",
              parametersJsonSchema: { type: "object", additionalProperties: false },
            },
          ],
        },
      ],
      toolConfig: {
        functionCallingConfig: {
          mode: FunctionCallingConfigMode.ANY,
          allowedFunctionNames: ["weather"],
        },
      },
      generationConfig: {
        maxOutputTokens: 99,
        stopSequences: ["END"],
        thinkingConfig: { thinkingLevel: ThinkingLevel.HIGH, includeThoughts: true },
      },
    } satisfies {
      systemInstruction: Content;
      contents: Content[];
      tools: SdkTool[];
      toolConfig: ToolConfig;
      generationConfig: GenerationConfig;
    };
    const { body, losses, path } = writeForTarget(request);
    expect(body as unknown).toEqual(expected);
    expect(losses).toEqual([]);
    expect(path).toBe("/models/gemini-3-flash-preview:generateContent");
  });

  test("use the path of the operation", () => {
    const path = (model: string, stream?: boolean) =>
      writeForTarget(requestWith({ stream }), { provider: "acme", model }).path;
    expect(path("gemini-3-pro", true)).toBe("/models/gemini-3-pro:streamGenerateContent?alt=sse");
    expect(path("publishers/google/models/gemini-2.5-pro")).toBe(
      "/publishers/google/models/gemini-2.5-pro:generateContent",
    );
  });

  test("omit call ids and media results and emulate JSON schemas for older models", () => {
    const call: Turn = {
      role: "assistant",
      parts: [{ type: "tool_call", id: "x", name: "f", arguments: "{}" }],
    };
    const image: Part = {
      type: "image",
      source: { kind: "base64", mediaType: "image/png", data: "AAAA" },
    };
    const result: Turn = {
      role: "tool",
      parts: [{ type: "tool_result", callId: "x", name: "f", content: [image] }],
    };
    const tool = { type: "function", name: "f" } as const;
    const request = requestWith({
      turns: [userTurn(textPart("a")), call, result, userTurn(textPart("b"))],
      tools: [tool],
      output: { type: "json_schema", schema: { properties: {} } },
    });
    const old = writeForTarget(request, GEMINI_25_FLASH);
    expect(old.body.contents[1]?.parts).toEqual([{ functionCall: { name: "f", args: {} } }]);
    expect(old.body.contents[2]?.parts?.[0]).toEqual({
      functionResponse: { name: "f", response: { output: "" } },
    });
    expect(rejectedLosses(old)).toEqual(["messages.content[0]"]);
    expect(old.emulation).toEqual({ outputTool: "structured_output" });
    expect(old.body.toolConfig).toEqual({ functionCallingConfig: { mode: "ANY" } });
    expect(old.body.generationConfig).toBeUndefined();
    const young = writeForTarget(request);
    expect(young.body.contents[1]?.parts).toEqual([
      {
        functionCall: { id: "x", name: "f", args: {} },
        thoughtSignature: "skip_thought_signature_validator",
      },
    ]);
    expect(young.body.contents[2]?.parts?.[0]?.functionResponse?.parts).toHaveLength(1);
    expect(young.emulation).toBeUndefined();
    expect(young.losses).toEqual([]);
    const plain = writeForTarget(
      requestWith({ output: { type: "json_object" }, tools: [tool] }),
      GEMINI_25_FLASH,
    );
    expect(rejectedLosses(plain)).toEqual([]);
    expect(plain.losses).toMatchObject([{ path: "output", tolerated: true }]);
    expect(plain.body.generationConfig).toBeUndefined();
    expect(plain.body.systemInstruction?.parts?.at(-1)?.text).toContain("one JSON object");
  });

  test("omit generated call ids and distinguish reused ones", () => {
    const call = (id: string): Turn => ({
      role: "assistant",
      parts: [{ type: "tool_call", id, name: "f", arguments: "{}" }],
    });
    const result = (callId: string): Turn => ({
      role: "tool",
      parts: [{ type: "tool_result", callId, name: "f", content: [] }],
    });
    const turns = ["pstg_abc_0_0", "call_0", "call_0"].flatMap((id) => [
      userTurn(textPart("a")),
      call(id),
      result(id),
    ]);
    const { body } = writeForTarget(requestWith({ turns }));
    const ids = body.contents
      .flatMap(({ parts = [] }) => parts)
      .flatMap(
        ({ functionCall, functionResponse }: GeminiPart) => functionCall ?? functionResponse ?? [],
      )
      .map(({ id }) => id);
    expect(ids).toEqual([undefined, undefined, "call_0", "call_0", "call_0_1", "call_0_1"]);
  });

  test("drop signatures and reasoning of other models", () => {
    const origin = { provider: "acme", model: "other" };
    const turn: Turn = {
      role: "assistant",
      parts: [
        { type: "reasoning", text: "Hm." },
        {
          type: "reasoning",
          text: "Hm.",
          blob: { wire: "messages", kind: "signature", data: "x" },
        },
        {
          type: "text",
          text: "Hi",
          signature: { wire: "gemini", kind: "text", data: "eA==", origin },
        },
        {
          type: "tool_call",
          id: "c",
          name: "f",
          arguments: "{}",
          signature: { wire: "chat", kind: "call", data: "eA==" },
        },
      ],
    };
    const result: Turn = {
      role: "tool",
      parts: [{ type: "tool_result", callId: "c", content: [] }],
    };
    const written = writeForTarget(requestWith({ turns: [userTurn(textPart("a")), turn, result] }));
    expect(rejectedLosses(written)).toEqual([]);
    expect(toleratedLosses(written)).toHaveLength(4);
    expect(written.body.contents[1]?.parts).toEqual([
      { text: "Hi" },
      {
        functionCall: { id: "c", name: "f", args: {} },
        thoughtSignature: "skip_thought_signature_validator",
      },
    ]);
  });

  test("write reasoning settings for each model generation", () => {
    const config = (reasoning: CanonicalRequest["reasoning"], target: Target) => {
      const written = writeForTarget(requestWith({ reasoning }), target);
      return [
        written.body.generationConfig?.thinkingConfig,
        toleratedLosses(written).length,
        rejectedLosses(written).length,
      ];
    };
    const includeThoughts = true;
    expect(config({ effort: "low" }, GEMINI_3_FLASH)).toEqual([
      { thinkingLevel: "LOW", includeThoughts },
      0,
      0,
    ]);
    expect(config({ effort: "none" }, GEMINI_3_FLASH)).toEqual([
      { thinkingLevel: "MINIMAL" },
      1,
      0,
    ]);
    expect(config({ effort: "max" }, GEMINI_3_FLASH)).toEqual([
      { thinkingLevel: "HIGH", includeThoughts },
      1,
      0,
    ]);
    expect(config({ budgetTokens: 5_000 }, GEMINI_3_FLASH)).toEqual([
      { thinkingLevel: "MEDIUM", includeThoughts },
      0,
      0,
    ]);
    expect(config({ effort: "low", summary: "none" }, GEMINI_3_FLASH)).toEqual([
      { thinkingLevel: "LOW" },
      0,
      0,
    ]);
    expect(config({ effort: "minimal" }, { provider: "a", model: "gemini-3.1-pro" })).toEqual([
      { thinkingLevel: "LOW", includeThoughts },
      1,
      0,
    ]);
    expect(config({ effort: "medium" }, GEMINI_25_FLASH)).toEqual([
      { thinkingBudget: 5_120, includeThoughts },
      0,
      0,
    ]);
    expect(config({ mode: "adaptive" }, GEMINI_25_FLASH)).toEqual([
      { thinkingBudget: -1, includeThoughts },
      0,
      0,
    ]);
    expect(config({ mode: "off" }, GEMINI_25_FLASH)).toEqual([{ thinkingBudget: 0 }, 0, 0]);
    expect(config({ effort: "none" }, GEMINI_25_PRO)).toEqual([{ thinkingBudget: 128 }, 1, 0]);
    expect(config({ budgetTokens: 99_999 }, GEMINI_25_PRO)).toEqual([
      { thinkingBudget: 32_768, includeThoughts },
      1,
      0,
    ]);
    expect(config({ effort: "low" }, { provider: "a", model: "gemini-2.0-flash" })).toEqual([
      undefined,
      0,
      1,
    ]);
    expect(config({ effort: "none" }, { provider: "a", model: "gemma-3-27b-it" })).toEqual([
      undefined,
      0,
      0,
    ]);
    expect(
      config({ effort: "low" }, { ...GEMINI_25_FLASH, abilities: { reasoning: "effort" } }),
    ).toEqual([{ thinkingLevel: "LOW", includeThoughts }, 0, 0]);
  });

  test("report losses under the caller's field names", () => {
    const names = {
      logitBias: "logit_bias",
      toolChoice: "tool_choice",
      parallelToolCalls: "parallel_tool_calls",
    };
    const written = writeForTarget(
      requestWith({
        logitBias: { "1": 1 },
        metadata: { a: "b" },
        store: true,
        verbosity: "low",
        stop: ["1", "2", "3", "4", "5", "6"],
        parallelToolCalls: false,
        serviceTier: "scale",
        tools: [
          { type: "function", name: "a/b" },
          { type: "custom", name: "c" },
          { type: "native", wire: "messages", name: "web_search", value: {} },
        ],
        native: { wire: "chat", fields: { prediction: {} } },
        names,
      }),
    );
    expect(rejectedLosses(written)).toEqual([
      "logit_bias",
      "metadata",
      "store",
      "verbosity",
      "stop",
      "serviceTier",
      "prediction",
      "tools.c",
      "tools.web_search",
      "parallel_tool_calls",
    ]);
    expect(written.body.generationConfig?.stopSequences).toHaveLength(5);
    const harmless = writeForTarget(
      requestWith({ store: false, verbosity: "medium", user: "u", cacheKey: "k", cache: {} }),
    );
    expect([rejectedLosses(harmless), toleratedLosses(harmless)]).toEqual([
      [],
      ["cache", "cacheKey", "user"],
    ]);
  });

  test("write media as bytes, URL or Google file and reject other files", () => {
    const parts = (part: Part, target = GEMINI_3_FLASH) => {
      const written = writeForTarget(requestWith({ turns: [userTurn(part)] }), target);
      return [written.body.contents[0]?.parts?.[0], rejectedLosses(written)] as unknown[];
    };
    const url = "https://a.example/cat.webp?x=1";
    expect(parts({ type: "image", source: { kind: "url", url } })).toEqual([
      { fileData: { fileUri: url, mimeType: "image/webp" } },
      [],
    ]);
    const tube = "https://youtu.be/lCdaVNyHtjU";
    expect(parts({ type: "video", source: { kind: "url", url: tube } })).toEqual([
      { fileData: { fileUri: tube, mimeType: "video/mp4" } },
      [],
    ]);
    expect(
      parts({ type: "file", source: { kind: "text", mediaType: "text/plain", text: "ä" } }),
    ).toEqual([{ inlineData: { mimeType: "text/plain", data: "w6Q=" } }, []]);
    const closed = { ...GEMINI_3_FLASH, abilities: { urlSources: false } };
    // The message is dropped, since none of its parts is left.
    const lost = [undefined, ["messages.content[0]", "messages"]];
    expect(parts({ type: "image", source: { kind: "url", url } }, closed)).toEqual(lost);
    expect(
      parts({ type: "image", source: { kind: "url", url: "gs://b/c.png" } }, closed)[1],
    ).toEqual([]);
    expect(
      parts({ type: "image", source: { kind: "file_id", wire: "gemini", id: "files/1" } })[1],
    ).toEqual([]);
    expect(
      parts({ type: "image", source: { kind: "file_id", wire: "chat", id: "file-1" } }),
    ).toEqual(lost);
  });

  test("put a schema with upper-case types in its own field", () => {
    const schema = { type: "OBJECT", properties: { a: { type: "STRING" } } };
    const { body } = writeForTarget(
      requestWith({
        tools: [{ type: "function", name: "f", parameters: schema }],
        output: { type: "json_schema", schema },
      }),
    );
    expect(body.tools?.[0]?.functionDeclarations).toEqual([
      { name: "f", parameters: schema },
    ] as never);
    expect(body.generationConfig).toEqual({
      responseMimeType: "application/json",
      responseSchema: schema,
    } as never);
  });

  test("request validated function calls for strict tools", () => {
    const tools = [{ type: "function", name: "f", strict: true } as const];
    const mode = (rest: Partial<CanonicalRequest>) =>
      writeForTarget(requestWith({ tools, ...rest })).body.toolConfig;
    expect(mode({})).toEqual({ functionCallingConfig: { mode: "VALIDATED" } });
    expect(mode({ toolChoice: { type: "required" } })).toEqual({
      functionCallingConfig: { mode: "ANY" },
    });
  });

  test("place instructions, drop empty text and merge turns of one role", () => {
    const { body, losses } = writeForTarget(
      requestWith({
        turns: [
          { role: "system", parts: [textPart("")] },
          userTurn(textPart("a")),
          userTurn(textPart(""), textPart("b")),
          { role: "assistant", parts: [textPart("c")] },
          { role: "system", parts: [textPart("d")] },
          userTurn(textPart("e")),
        ],
      }),
    );
    expect(body as unknown).toEqual({
      contents: [
        { role: "user", parts: [{ text: "a" }, { text: "b" }] },
        { role: "model", parts: [{ text: "c" }] },
        { role: "user", parts: [{ text: "d" }, { text: "e" }] },
      ],
    });
    expect(losses).toEqual([]);
  });
});
