// What frameworks leave in the messages that they send back: it must not decide which models a conversation can go on with.

import { afterAll, describe, expect, test } from "bun:test";
import {
  type Api,
  callApi,
  type Json,
  minimalBody,
  modelOn,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";

const harness = await startHarness();
afterAll(() => harness.stop());

const UUID = "0b2f8f0e-7c1d-4e55-9a43-5d1f6f1c2b7a";
const TIME = "2026-11-28T10:15:30.123Z";
const USER = { role: "user", content: "hi" };
const CALL = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } };

/** A conversation with one more field in a message, a part, a call, a result or the request. */
const onMessage = (fields: Json): Json => ({
  messages: [{ ...USER, ...fields }, { role: "assistant", content: "yes", ...fields }, USER],
});
const onText = (fields: Json): Json => ({
  messages: [
    USER,
    { role: "assistant", content: [{ type: "text", text: "yes", ...fields }] },
    { role: "user", content: [{ type: "text", text: "go on", ...fields }] },
  ],
});
const chatCall = (call: Json, result: Json): Json => ({
  messages: [
    USER,
    { role: "assistant", content: null, tool_calls: [{ ...CALL, ...call }] },
    { role: "tool", tool_call_id: "call_1", content: "found", ...result },
  ],
});
const messagesCall = (call: Json, result: Json): Json => ({
  messages: [
    USER,
    {
      role: "assistant",
      content: [{ type: "tool_use", id: "toolu_1", name: "look", input: {}, ...call }],
    },
    {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "found", ...result }],
    },
  ],
});
const responsesItems = (fields: Json): Json => ({
  input: [
    { ...USER, ...fields },
    {
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text: "yes" }],
      ...fields,
    },
    { type: "function_call", call_id: "call_1", name: "look", arguments: "{}", ...fields },
    { type: "function_call_output", call_id: "call_1", output: "found", ...fields },
  ],
});

const LEFTOVERS: readonly (readonly [api: Api, fields: Json])[] = [
  // The OpenAI Agents SDK.
  ["chat", onText({ role: "assistant", refusal: null })],
  ["chat", onMessage({ providerData: { itemId: `msg_${UUID}` } })],
  ["responses", responsesItems({ providerData: { model: "openai/gpt-6" } })],
  ["responses", responsesItems({ provider_data: { model: "gpt-6", at: 1_796_000_000 } })],
  // The Vercel AI SDK and chat user interfaces.
  ["chat", onMessage({ id: UUID })],
  ["chat", onMessage({ id: "msg-7", createdAt: TIME })],
  ["chat", onMessage({ createdAt: 1_796_000_000 })],
  ["chat", onMessage({ parts: [{ type: "text", text: "yes" }] })],
  ["messages", onMessage({ id: `msg_${UUID}` })],
  ["messages", onMessage({ createdAt: TIME })],
  // LangChain and LiteLLM.
  ["chat", onMessage({ metadata: { run: UUID } })],
  ["chat", onMessage({ response_metadata: { finish_reason: "stop", id: `chatcmpl-${UUID}` } })],
  ["chat", onMessage({ additional_kwargs: {} })],
  ["chat", onMessage({ provider_specific_fields: { citations: null } })],
  ["chat", chatCall({ provider_specific_fields: { signature: "A".repeat(40) } }, {})],
  ["chat", chatCall({}, { status: "success" })],
  ["chat", chatCall({}, { artifact: null, status: "Done at 10:15" })],
  ["messages", messagesCall({}, { status: "success" })],
  ["messages", messagesCall({ provider_specific_fields: { index: 0 } }, {})],
  ["messages", onMessage({ response_metadata: { id: `msg_${UUID}` } })],
  ["messages", onText({ provider_specific_fields: { source: "Cache A" } })],
  // Open WebUI and other chat servers.
  ["chat", { ...onMessage({ timestamp: 1_796_000_000 }), chat_id: UUID }],
  ["chat", { ...onMessage({ timestamp: TIME }), session_id: UUID }],
  ["chat", { ...onMessage({ models: ["echo"] }), chat_id: UUID, created_at: TIME }],
  ["chat", onMessage({ model: "openai/gpt-6.2-sol" })],
  ["messages", { ...onMessage({ session_id: UUID }), chat_id: UUID }],
  ["responses", { ...responsesItems({ session_id: UUID }), chat_id: UUID }],
  ["responses", responsesItems({ created_at: TIME })],
  ["responses", responsesItems({ timestamp: TIME })],
  ["responses", responsesItems({ metadata: { step: "Plan A" } })],
  ["responses", responsesItems({ response_metadata: { tokens: 12 } })],
  // Errors of tools.
  ["chat", chatCall({}, { is_error: true })],
  ["chat", chatCall({}, { is_error: false, name: "look" })],
  ["responses", responsesItems({ is_error: true })],
  // The signature of a call, which the gateway returns in the call.
  ["chat", onMessage({ extra_content: { google: { thought_signature: "c2lnbmF0dXJl" } } })],
  ["chat", chatCall({ extra_content: { google: { thought_signature: "c2lnbmF0dXJl" } } }, {})],
  ["chat", onMessage({ created_at: TIME })],
  ["chat", onText({ id: UUID, createdAt: TIME })],
  // What a client copies from a reply: members without a value, and the reply's own.
  ["chat", onMessage({ audio: null, function_call: null, refusal: null, tool_calls: null })],
  ["chat", onMessage({ annotations: [], reasoning: null, reasoning_details: [] })],
  ["chat", onMessage({ finish_reason: "stop", usage: { prompt_tokens: 3, completion_tokens: 5 } })],
  ["chat", onMessage({ usage_metadata: { input_tokens: 3, output_tokens: 5, total_tokens: 8 } })],
  ["chat", onMessage({ name: null, cache_control: null, weight: 1 })],
  ["chat", chatCall({ index: 0 }, { id: UUID, type: "tool" })],
  ["messages", onMessage({ type: "message", model: "claude-opus-5-5", stop_reason: "end_turn" })],
  ["messages", onMessage({ stop_sequence: null, usage: { input_tokens: 3, output_tokens: 5 } })],
  ["messages", messagesCall({ index: 0 }, { name: "look", timestamp: TIME })],
  ["messages", onText({ id: UUID, index: 0, citations: null })],
  ["responses", responsesItems({ index: 0, provider_specific_fields: {} })],
  ["responses", responsesItems({ model: "gpt-6", usage: { total_tokens: 8 } })],
  // User interfaces: who wrote it and how it is shown.
  ["chat", onMessage({ attachments: [], experimental_attachments: [] })],
  ["chat", onMessage({ session_id: UUID, user_id: "u-7", example: false })],
  ["chat", onMessage({ provider: "openai", done: true, statusHistory: [{ done: true }] })],
  ["chat", { ...onMessage({ files: [] }), chat_id: UUID, thread_ts: 1_796_000_000 }],
  ["messages", onMessage({ metadata: { run: UUID }, isSidechain: false })],
  ["messages", onMessage({ uuid: UUID, parentUuid: null, timestamp: TIME })],
  ["messages", onMessage({ providerData: { itemId: `msg_${UUID}` } })],
  ["responses", responsesItems({ createdAt: TIME, parts: [{ type: "text", text: "yes" }] })],
  ["responses", { ...responsesItems({ uuid: UUID }), created_at: TIME }],
  // Settings that no API has.
  ["chat", { ...onMessage({}), sampling_mode: "balanced" }],
  ["messages", { ...onMessage({}), thinking_mode: "balanced" }],
  ["responses", { ...responsesItems({}), plan_mode: "balanced" }],
];

const LOOK = {
  chat: { type: "function", function: { name: "look", parameters: { type: "object" } } },
  responses: { type: "function", name: "look", parameters: { type: "object" } },
  messages: { name: "look", input_schema: { type: "object" } },
} as const satisfies Readonly<Record<Api, Json>>;

function bodyOf(api: Api, wire: Wire, fields: Json): Json {
  return minimalBody(api, wire, "hi", { ...fields, tools: [LOOK[api]] });
}

describe.each(WIRES.map((wire) => ({ wire })))("leftovers of a framework at $wire", ({ wire }) => {
  test.each(LEFTOVERS.map(([api, fields]) => ({ api, fields })))(
    "do not get a call over $api refused: $fields",
    async ({ api, fields }) => {
      const { status, json } = await callApi(harness, api, bodyOf(api, wire, fields));
      expect([status, (json["error"] as Json | null)?.["message"]]).toEqual([200, undefined]);
    },
  );
});

test("there are sixty leftovers, each at every wire", () => {
  expect([LEFTOVERS.length >= 60, WIRES.length]).toEqual([true, 5]);
});

describe("a field that only the caller's framework knows", () => {
  test.each<[api: Api, wire: Wire, fields: Json, dropped: string]>([
    [
      "chat",
      "gemini",
      onText({ role: "assistant" }),
      "messages[1].content[0].role, messages[2].content[0].role",
    ],
    ["chat", "converse", { ...onMessage({}), chat_id: UUID }, "chat_id"],
    ["chat", "messages", chatCall({}, { status: "success" }), "messages[2].status"],
    ["messages", "chat", messagesCall({}, { status: "success" }), "messages[2].content[0].status"],
    [
      "messages",
      "responses",
      onText({ role: "x" }),
      "messages[1].content[0].role, messages[2].content[0].role",
    ],
    ["responses", "gemini", { input: [{ ...USER, created_at: TIME }] }, "input[0].created_at"],
    // On the same wire, text that could name something stored.
    [
      "chat",
      "chat",
      { messages: [{ ...USER, id: UUID, createdAt: 1 }], chat_id: UUID },
      "chat_id, messages[0].id",
    ],
    ["messages", "messages", { messages: [{ ...USER, id: UUID }] }, "messages[0].id"],
    ["responses", "responses", { input: [{ ...USER, timestamp: TIME }] }, "input[0].timestamp"],
  ])(
    "over %s at %s is dropped, listed, and refused to a strict caller: %j",
    async (api, wire, fields, dropped) => {
      const before = harness.upstreamRequests.length;
      const body = bodyOf(api, wire, fields);
      const { status, headers } = await callApi(harness, api, body);
      expect([status, headers.get("x-postern-dropped")]).toEqual([200, dropped]);
      const sent = JSON.stringify(harness.upstreamRequests[before]?.body);
      for (const text of [UUID, TIME]) expect(sent).not.toContain(text);
      const strict = await callApi(harness, api, {
        ...body,
        provider: { require_parameters: true },
      });
      expect([
        strict.status,
        (strict.json["error"] as Json)["param"] ?? dropped.split(", ")[0],
      ]).toEqual([400, dropped.split(", ")[0]]);
    },
  );

  test("is sent as it is on its own wire if it cannot name anything", async () => {
    const before = harness.upstreamRequests.length;
    const messages = [{ ...USER, createdAt: 5, flags: { pinned: true } }];
    await callApi(harness, "chat", { model: modelOn("chat"), messages });
    expect(harness.upstreamRequests[before]?.body["messages"]).toEqual(messages);
  });

  test("keeps a call's signature that was copied to its message", async () => {
    const before = harness.upstreamRequests.length;
    const [user, assistant, result] = chatCall({}, {})["messages"] as readonly Json[];
    const signature = { extra_content: { google: { thought_signature: "c2lnbmF0dXJl" } } };
    const messages = [user, { ...assistant, ...signature }, result];
    const body = { model: modelOn("gemini"), messages, tools: [LOOK.chat] };
    expect((await callApi(harness, "chat", body)).status).toBe(200);
    const inCall = [user, { ...assistant, tool_calls: [{ ...CALL, ...signature }] }, result];
    await callApi(harness, "chat", { ...body, messages: inCall });
    const [copied, own] = harness.upstreamRequests.slice(before).map((request) => request.body);
    expect(copied).toEqual(own ?? {});
  });

  test.each<[fields: Json, path: string]>([
    [{ modalities: ["text", "audio"] }, "modalities"],
    [{ fallbacks: [{ model: "a" }] }, "fallbacks"],
    [{ guided_regex: "[a-z]+" }, "guided_regex"],
  ])("is refused if it changes what is asked for: %j", async (fields, path) => {
    const body = minimalBody("chat", "converse", "hi", fields);
    const { status, json } = await callApi(harness, "chat", body);
    expect([status, (json["error"] as Json)["param"]]).toEqual([400, path]);
  });
});
