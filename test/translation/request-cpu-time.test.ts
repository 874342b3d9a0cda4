// The CPU time of reading and writing a request grows in proportion to it: twice as many of anything take at most three
// times as long. Times below the noise are not compared; a quadratic algorithm is far above it at this size.

import { describe, test } from "bun:test";
import { INBOUND_WIRES, OUTBOUND_WIRES } from "@postern/wires";
import { inputBound } from "../../src/inference/metering/input-bound.ts";
import { parseRequest } from "../../src/inference/request/parse-request.ts";
import { droppedPaths } from "../../src/inference/translate/losses.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";
import { type Api, APIS, type Wire, WIRES } from "./support/harness.ts";

const COUNT = 4_000;
/** A request may have fewer tools than other parts. */
const PARTS_PER_TOOL = 4;

const PDF_BASE64 = "JVBERi0xLjQK";
const PDF_URL = `data:application/pdf;base64,${PDF_BASE64}`;
const PNG_URL = "data:image/png;base64,AAAA";
const EPHEMERAL = { cache_control: { type: "ephemeral" } };
const TEXT = { type: "text", text: "hi" };
const PDF_FILE = { type: "file", file: { filename: "a.pdf", file_data: PDF_URL } };
const PDF_DOCUMENT = {
  type: "document",
  title: "a",
  source: { type: "base64", media_type: "application/pdf", data: PDF_BASE64 },
};

type Body = Readonly<Record<string, unknown>>;
type BodyOf = (count: number) => Body;

/** A body of each API with `count` of one thing. */
const BODIES: Readonly<Record<Api, Readonly<Record<string, BodyOf>>>> = {
  chat: {
    "alternating messages": (count) =>
      chat(times(count, (index) => ({ role: roleAt(index), content: "hi" }))),
    "messages of one role": (count) => chat(times(count, () => ({ role: "user", content: "hi" }))),
    texts: (count) => chatContent(times(count, () => TEXT)),
    "cached texts": (count) => chatContent(times(count, () => ({ ...TEXT, ...EPHEMERAL }))),
    images: (count) =>
      chatContent(times(count, () => ({ type: "image_url", image_url: { url: PNG_URL } }))),
    "documents of one name": (count) => chatContent([TEXT, ...times(count, () => PDF_FILE)]),
    "cached documents": (count) =>
      chatContent([TEXT, ...times(count, () => ({ ...PDF_FILE, ...EPHEMERAL }))]),
    "calls with one id": (count) =>
      chat([
        { role: "user", content: "hi" },
        ...times(count, () => [
          chatCalls(["one id"]),
          { role: "tool", tool_call_id: "one id", content: "ok" },
        ]).flat(),
      ]),
    "parallel calls": (count) =>
      chat([
        { role: "user", content: "hi" },
        chatCalls(times(count, (index) => `call ${index}`)),
        ...times(count, (index) => ({
          role: "tool",
          tool_call_id: `call ${index}`,
          content: "ok",
        })),
      ]),
    tools: (count) => ({ ...chatContent("hi"), tools: times(count / PARTS_PER_TOOL, chatTool) }),
    "properties of a schema": (count) => ({
      ...chatContent("hi"),
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", strict: true, schema: objectSchema(count) },
      },
    }),
    "unknown fields": (count) => ({
      ...chatContent("hi"),
      ...Object.fromEntries(times(count, (index) => [`field_${index}`, 1])),
    }),
    "escaped quotes": (count) => chatContent('\\"'.repeat(count * 20)),
  },
  messages: {
    "alternating messages": (count) =>
      messages(times(count, (index) => ({ role: roleAt(index), content: "hi" }))),
    "system texts": (count) => ({ ...messagesContent("hi"), system: times(count, () => TEXT) }),
    "documents of one title": (count) =>
      messagesContent([TEXT, ...times(count, () => PDF_DOCUMENT)]),
    "documents, then cached documents": (count) =>
      messagesContent([
        TEXT,
        ...times(count / 2, () => PDF_DOCUMENT),
        ...times(count / 2, () => ({ ...PDF_DOCUMENT, ...EPHEMERAL })),
      ]),
    "parallel calls": (count) =>
      messages([
        { role: "user", content: "hi" },
        {
          role: "assistant",
          content: times(count, (index) => ({
            type: "tool_use",
            id: `call_${index}`,
            name: "lookup",
            input: {},
          })),
        },
        {
          role: "user",
          content: times(count, (index) => ({
            type: "tool_result",
            tool_use_id: `call_${index}`,
            content: "ok",
          })),
        },
      ]),
    tools: (count) => ({
      ...messagesContent("hi"),
      tools: times(count / PARTS_PER_TOOL, (index) => ({
        name: `tool_${index}`,
        input_schema: { type: "object" },
      })),
    }),
  },
  responses: {
    items: (count) => responses(times(count, (index) => ({ role: roleAt(index), content: "hi" }))),
    "files of one name": (count) =>
      responses([
        {
          role: "user",
          content: [
            { type: "input_text", text: "hi" },
            ...times(count, () => ({
              type: "input_file",
              filename: "a.pdf",
              file_data: PDF_URL,
            })),
          ],
        },
      ]),
    "calls with one id": (count) =>
      responses([
        { role: "user", content: "hi" },
        ...times(count, () => [
          { type: "function_call", call_id: "one id", name: "lookup", arguments: "{}" },
          { type: "function_call_output", call_id: "one id", output: "ok" },
        ]).flat(),
      ]),
    "tools of one namespace": (count) => ({
      ...responses("hi"),
      tools: [
        {
          type: "namespace",
          name: "shop",
          description: "A shop.",
          tools: times(count / PARTS_PER_TOOL, (index) => ({
            type: "function",
            ...functionAt(index),
          })),
        },
      ],
    }),
  },
};

for (const api of APIS)
  describe(`CPU time of a request to ${api}`, () => {
    for (const [thing, bodyOf] of Object.entries(BODIES[api]))
      test(`grows in proportion to the number of ${thing}`, () => {
        const texts = new Map(
          [COUNT, COUNT * 2].map((count) => [count, JSON.stringify(bodyOf(count))]),
        );
        for (const wire of WIRES)
          if (wire !== api)
            expectLinearCpuTime((count) => translate(api, wire, texts.get(count) ?? ""), COUNT * 2);
      });
  });

function translate(api: Api, wire: Wire, text: string): void {
  const parsed = parseRequest(api, text);
  inputBound(text, parsed.json, { imageTokensMax: 1_000, contextTokens: 1_000_000 });
  const { postern: _postern, ...body } = parsed.json;
  const request = INBOUND_WIRES[api].readRequest(body);
  const { body: sent, losses } = OUTBOUND_WIRES[wire].writeRequest(request, {
    provider: "acme",
    model: "anthropic.claude-sonnet-4",
    maxOutputTokens: 1_000,
  });
  JSON.stringify(sent);
  droppedPaths(true, request, losses, "acme/claude");
}

function times<T>(count: number, of: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => of(index));
}

function roleAt(index: number): string {
  return index % 2 === 0 ? "user" : "assistant";
}

const COMMON = { model: "acme/claude", postern: { lossy: true } };

function chat(list: readonly unknown[]): Body {
  return { ...COMMON, messages: list };
}

function chatContent(content: unknown): Body {
  return chat([{ role: "user", content }]);
}

function messages(list: readonly unknown[]): Body {
  return { ...COMMON, max_tokens: 100, messages: list };
}

function messagesContent(content: unknown): Body {
  return messages([{ role: "user", content }]);
}

function responses(input: unknown): Body {
  return { ...COMMON, input };
}

function chatCalls(ids: readonly string[]): Body {
  return {
    role: "assistant",
    tool_calls: ids.map((id) => ({
      id,
      type: "function",
      function: { name: "lookup", arguments: "{}" },
    })),
  };
}

function chatTool(index: number): Body {
  return { type: "function", function: functionAt(index) };
}

function functionAt(index: number): Body {
  return { name: `tool_${index}`, description: "A tool.", parameters: { type: "object" } };
}

function objectSchema(count: number): Body {
  const names = times(count, (index) => `property_${index}`);
  return {
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    required: names,
  };
}
