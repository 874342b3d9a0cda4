// Two turns in the exact form of popular clients, over every wire: what the first turn returned is sent back as the client
// does it, with a tool result, and the provider must receive the whole conversation. Each client runs over every API that it
// speaks, on all five wires: the AI SDK and LangChain over three (15 pairs), the OpenAI Agents SDK over Chat Completions and
// Responses (10), Codex over Responses (5) and Claude Code over Messages (5).

import { afterAll, describe, expect, test } from "bun:test";
import type { APIError } from "@anthropic-ai/sdk";
import { generateText, jsonSchema, type ModelMessage, tool } from "ai";
import { sseEvents } from "../../packages/wires/test/stream-helpers.ts";
import {
  aiModel,
  anthropicFor,
  type Api,
  APIS,
  callApi,
  type Json,
  modelOn,
  startHarness,
  WIRES,
} from "./support/harness.ts";

const ASK = "[[sim: reasoning=12]] use the weather tool";
const RESULT = "heavy rain over the harbor";
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
} as const;

const harness = await startHarness();
afterAll(() => harness.stop());

/** The newest provider request must have both turns. */
function expectWholeConversation(): void {
  const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
  for (const part of ["use the weather tool", "weather", RESULT]) expect(sent).toContain(part);
}

async function send(api: Api, body: Json): Promise<readonly Json[]> {
  const { status, text, json } = await callApi(harness, api, body);
  expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
  return body["stream"] === true
    ? sseEvents(text).map(({ data }) => JSON.parse(data) as Json)
    : [json];
}

const outputOf = (response: Json | undefined): readonly Json[] =>
  (response?.["output"] ?? []) as readonly Json[];
const callIn = (items: readonly Json[]): Json =>
  items.find(({ type }) => type === "function_call") ?? {};

for (const api of APIS)
  describe(`the AI SDK over ${api}`, () => {
    for (const wire of WIRES)
      test(`sends a tool result to ${wire}`, async () => {
        const ask = (messages: ModelMessage[], toolChoice: "required" | "auto") =>
          generateText({
            model: aiModel(harness, api, modelOn(wire)),
            maxRetries: 0,
            maxOutputTokens: 400,
            messages,
            toolChoice,
            tools: {
              weather: tool({
                description: "the weather",
                inputSchema: jsonSchema<{ city: string }>({ ...SCHEMA, required: ["city"] }),
              }),
            },
          });
        const user: ModelMessage = { role: "user", content: ASK };
        const first = await ask([user], "required");
        const [call] = first.toolCalls;
        if (call === undefined) throw new Error("no tool call");
        const { toolCallId, toolName } = call;
        const output = { type: "text", value: RESULT } as const;
        const second = await ask(
          [
            user,
            ...first.response.messages,
            { role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] },
          ],
          "auto",
        );
        expect(second.text).not.toBe("");
        expectWholeConversation();
      });
  });

describe("Responses clients", () => {
  const tools = [{ type: "function", name: "weather", parameters: SCHEMA, strict: true }];
  const toolResult = (items: readonly Json[]): Json => ({
    type: "function_call_output",
    call_id: callIn(items)["call_id"],
    output: RESULT,
  });

  for (const wire of WIRES) {
    const common: Json = { model: modelOn(wire), tools, reasoning: { effort: "low" } };

    test(`the OpenAI Agents SDK sends its items back, with ids, to ${wire}`, async () => {
      const input = [{ role: "user", content: ASK }];
      const [first] = await send("responses", { ...common, input, tool_choice: "required" });
      const items = outputOf(first);
      await send("responses", { ...common, input: [...input, ...items, toolResult(items)] });
      expectWholeConversation();
    });

    test(`the OpenAI Agents SDK continues by previous_response_id to ${wire}`, async () => {
      const [first] = await send("responses", { ...common, input: ASK, tool_choice: "required" });
      const input = [toolResult(outputOf(first))];
      await send("responses", { ...common, input, previous_response_id: first?.["id"] });
      expectWholeConversation();
    });

    test(`LangChain sends reasoning without its content, and references, to ${wire}`, async () => {
      const input = [{ type: "message", role: "user", content: ASK }];
      const [first] = await send("responses", { ...common, input, tool_choice: "required" });
      const items = outputOf(first);
      const sentBack = items.map((item) =>
        item["type"] === "reasoning" ? { type: "item_reference", id: item["id"] } : item,
      );
      await send("responses", { ...common, input: [...input, ...sentBack, toolResult(items)] });
      expectWholeConversation();
    });

    test(`Codex sends encrypted reasoning back to ${wire}`, async () => {
      const codex: Json = {
        ...common,
        instructions: "You are Codex.",
        tool_choice: "auto",
        parallel_tool_calls: false,
        reasoning: { effort: "low", summary: "auto" },
        store: false,
        stream: true,
        include: ["reasoning.encrypted_content"],
        prompt_cache_key: "0199a1b2-c3d4",
      };
      const message = (text: string): Json => ({
        type: "message",
        role: "user",
        content: [{ type: "input_text", text }],
      });
      const input = [message("<environment_context/>"), message(ASK)];
      const events = await send("responses", { ...codex, input });
      const items = events
        .filter(({ type }) => type === "response.output_item.done")
        .map(({ item }) => {
          const { id: _id, status: _status, ...rest } = item as Json;
          return rest;
        });
      expect(callIn(items)["name"]).toBe("weather");
      await send("responses", { ...codex, input: [...input, ...items, toolResult(items)] });
      expectWholeConversation();
    });
  }
});

describe("Chat Completions clients", () => {
  const tools = [{ type: "function", function: { name: "weather", parameters: SCHEMA } }];
  /** What each client sends as the earlier assistant message. */
  const CLIENTS: readonly (readonly [client: string, sentBack: (message: Json) => Json])[] = [
    ["LangChain", ({ tool_calls }) => ({ role: "assistant", content: "", tool_calls })],
    [
      "the OpenAI Agents SDK",
      ({ tool_calls }) => ({ role: "assistant", content: null, tool_calls }),
    ],
    ["the OpenAI SDK", (message) => message],
  ];

  for (const [client, sentBack] of CLIENTS)
    for (const wire of WIRES)
      test(`${client} sends a tool result to ${wire}`, async () => {
        const user = { role: "user", content: ASK };
        const common: Json = { model: modelOn(wire), tools, reasoning_effort: "low" };
        const messages = [user];
        const [first] = await send("chat", { ...common, messages, tool_choice: "required" });
        const [choice] = (first?.["choices"] ?? []) as readonly { message: Json }[];
        const message = choice?.message ?? {};
        const [call] = (message["tool_calls"] ?? []) as readonly Json[];
        const result = { role: "tool", tool_call_id: call?.["id"], content: RESULT };
        await send("chat", { ...common, messages: [user, sentBack(message), result] });
        expectWholeConversation();
      });
});

describe("LangChain over Messages", () => {
  for (const wire of WIRES)
    test(`sends its content blocks and a tool result to ${wire}`, async () => {
      const tools = [{ name: "weather", input_schema: SCHEMA }];
      const common: Json = { model: modelOn(wire), max_tokens: 4_000, tools };
      const user = { role: "user", content: ASK };
      const forced = { tool_choice: { type: "any" } };
      const [first] = await send("messages", { ...common, ...forced, messages: [user] });
      const content = (first?.["content"] ?? []) as readonly Json[];
      const call = content.find(({ type }) => type === "tool_use");
      const result = {
        type: "tool_result",
        tool_use_id: call?.["id"],
        content: [{ type: "text", text: RESULT }],
      };
      const messages = [user, { role: "assistant", content }, { role: "user", content: [result] }];
      await send("messages", { ...common, messages });
      expectWholeConversation();
    });
});

describe("Claude Code", () => {
  for (const wire of WIRES)
    test(`sends thinking and a tool result back to ${wire}`, async () => {
      const ephemeral = { cache_control: { type: "ephemeral" } };
      const common: Json = {
        model: modelOn(wire),
        max_tokens: 4_000,
        system: [
          { type: "text", text: "You are Claude Code.", ...ephemeral },
          { type: "text", text: "Environment: test", ...ephemeral },
        ],
        tools: [{ name: "weather", description: "the weather", input_schema: SCHEMA }],
        metadata: { user_id: "user_1_account__session_1" },
        thinking: { type: "enabled", budget_tokens: 2_000 },
        stream: true,
      };
      const user = { role: "user", content: [{ type: "text", text: ASK, ...ephemeral }] };
      const events = await send("messages", { ...common, messages: [user] });
      const content = contentOf(events);
      const call = content.find(({ type }) => type === "tool_use");
      expect(call?.["name"]).toBe("weather");
      const result = { type: "tool_result", tool_use_id: call?.["id"], content: RESULT };
      const messages = [
        user,
        { role: "assistant", content },
        { role: "user", content: [{ ...result, ...ephemeral }] },
      ];
      await send("messages", { ...common, messages });
      expectWholeConversation();
    });
});

describe("the ID of a request over Messages", () => {
  test("is in the header request-id, where Anthropic's SDK reads it", async () => {
    const client = anthropicFor(harness);
    const body = { max_tokens: 100, messages: [{ role: "user" as const, content: "hi" }] };
    for (const wire of WIRES) {
      const message = await client.messages.create({ ...body, model: modelOn(wire) });
      expect(message._request_id).toMatch(/^req_/);
    }
    const failed: unknown = await client.messages
      .create({ ...body, model: "none/such" })
      .catch((error: unknown) => error);
    expect([(failed as APIError).status, (failed as APIError).requestID]).toEqual([
      404,
      expect.stringMatching(/^req_/),
    ]);
  });
});

describe("a phase of an earlier reply", () => {
  for (const api of APIS)
    for (const wire of WIRES)
      test(`is accepted over ${api} by ${wire}`, async () => {
        const turns = [
          { role: "user", content: "hello" },
          { role: "assistant", content: "Hello.", phase: "final_answer" },
          { role: "user", content: "again" },
        ];
        const limit = api === "messages" ? { max_tokens: 64 } : {};
        const field = api === "responses" ? { input: turns } : { messages: turns };
        const reply = await callApi(harness, api, { model: modelOn(wire), ...limit, ...field });
        expect([reply.status, reply.headers.has("x-request-id")]).toEqual([200, true]);
        // Anthropic's SDKs read the id of a request from this header.
        const id = api === "messages" ? reply.headers.get("x-request-id") : null;
        expect(reply.headers.get("request-id")).toBe(id);
      });
});

/** The content blocks of a Messages stream. */
function contentOf(events: readonly Json[]): readonly Json[] {
  const blocks: Json[] = [];
  for (const { type, index, content_block: block, delta } of events) {
    const at = Number(index);
    if (type === "content_block_start") blocks[at] = { ...(block as Json) };
    if (type !== "content_block_delta") continue;
    for (const [field, value] of Object.entries(delta as Json))
      if (field !== "type")
        blocks[at] = { ...blocks[at], [field]: joined(blocks[at]?.[field], value) };
  }
  return blocks.map(({ partial_json: json, ...block }) =>
    block["type"] === "tool_use"
      ? { ...block, input: JSON.parse(joined(json, "") || "{}") as Json }
      : block,
  );
}

function joined(before: unknown, more: unknown): string {
  return `${typeof before === "string" ? before : ""}${typeof more === "string" ? more : ""}`;
}
