// New fields and types that clients and providers add: on the gateway's accounts they are sent if nothing in them could name
// something stored there.

import { afterAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../support/full.ts";
import {
  type Api,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
} from "../../translation/support/harness.ts";
import { errorOf } from "../support/harness.ts";

const harness = await startHarness();
afterAll(() => harness.stop());

async function send(
  api: Api,
  fields: Json,
): Promise<{ status: number; error: Json; sent: Json; dropped: string }> {
  const before = harness.upstreamRequests.length;
  const { status, json, headers } = await callApi(
    harness,
    api,
    minimalBody(api, wireOf(api), "hi", fields),
  );
  const sent = harness.upstreamRequests[before]?.body ?? {};
  const dropped = headers.get("x-postern-dropped") ?? "";
  return { status, error: status === 200 ? {} : errorOf(json), sent, dropped };
}

/** The wire that passes the request through. */
function wireOf(api: Api): Wire {
  return api;
}

const USER = { role: "user", content: "hi" };
const SCHEMA = { type: "object", properties: { query: { type: "string" } } };
const CLIENT_SEARCH = {
  type: "tool_search",
  execution: "client",
  description: "Finds tools.",
  parameters: SCHEMA,
};
const item = (value: Json) => ({ input: [value, USER] });
const system = (value: Json) => ({ messages: [USER, { role: "system", ...value }] });
const assistant = (...content: Json[]) => ({
  messages: [USER, { role: "assistant", content }, USER],
});
const TEXT = { type: "text", text: "hello" };

const SHAPES: readonly (readonly [api: Api, fields: Json])[] = [
  ["messages", system({ content: [], output_config: { effort: "low" } })],
  ["messages", system({ content: "Be short.", clear_at: "next_user_message" })],
  [
    "messages",
    system({ content: [{ type: "tool_addition", tool: { type: "tool_reference", name: "f" } }] }),
  ],
  [
    "messages",
    system({
      content: [
        {
          type: "tool_addition",
          tool: { type: "tool_definition", definition: { name: "f", input_schema: SCHEMA } },
        },
      ],
    }),
  ],
  [
    "messages",
    assistant(
      {
        type: "mcp_tool_listing",
        mcp_server_name: "docs",
        tools: [{ name: "find", description: "Finds a page.", input_schema: SCHEMA }],
      },
      TEXT,
    ),
  ],
  ["messages", { compaction: { type: "summarize", instructions: "Keep the names." } }],
  [
    "messages",
    {
      thinking: { type: "adaptive", block_binding: { prefix_mismatch_behavior: "drop_block" } },
    },
  ],
  ["messages", { billing_policy: { type: "billing_policy", bill_to: "self" } }],
  ["messages", { tools: [{ type: "browser_toolset_20260801", configs: { find: {} } }] }],
  ["responses", { tools: [CLIENT_SEARCH] }],
  ["responses", { tools: [{ type: "programmatic_tool_calling" }] }],
  [
    "responses",
    { tools: [{ ...CLIENT_SEARCH, type: "tool_search", return_token_budget: "unlimited" }] },
  ],
  ["responses", { access_programs: { cyber: "standard" } }],
  [
    "responses",
    item({
      type: "agent_message",
      author: "/lead/tester",
      recipient: "/lead",
      content: [{ type: "input_text", text: "All tests pass." }],
    }),
  ],
  [
    "responses",
    item({
      type: "agent_message",
      author: "/lead/tester",
      recipient: "/lead",
      content: [{ type: "encrypted_content", encrypted_content: "gAAAAABo" }],
      agent: { agent_name: "/lead/tester" },
    }),
  ],
  [
    "responses",
    item({
      type: "multi_agent_call",
      call_id: "call_A1b2",
      action: "spawn_agent",
      arguments: '{"task":"test"}',
    }),
  ],
  [
    "responses",
    item({
      type: "multi_agent_call_output",
      call_id: "call_A1b2",
      action: "spawn_agent",
      output: [{ type: "output_text", text: "started" }],
    }),
  ],
  ["responses", item({ type: "configuration_update", reasoning: { effort: "low" } })],
  ["responses", item({ type: "context_compaction", encrypted_content: "gAAAAABo" })],
  [
    "responses",
    item({
      ...USER,
      type: "message",
      internal_chat_message_metadata_passthrough: { turn_id: "019ac-7f", tags: ["A"] },
    }),
  ],
  // What no API has today.
  ["chat", { sampling_mode: "balanced", verbosity_style: ["short", "dry"] }],
  [
    "chat",
    {
      messages: [
        { ...USER, priority: "high", flags: { pinned: true, mode: "per-turn-control-2026-07-01" } },
      ],
    },
  ],
  ["responses", item({ type: "plan_update", content: "First the tests.", status: "completed" })],
  ["messages", assistant({ type: "self_review", text: "That was right." }, TEXT)],
  ["messages", { thinking: { type: "disabled", cadence: "between_tools" } }],
];

describe("a field or type that the gateway may not know", () => {
  test.each(SHAPES.map(([api, fields]) => ({ api, fields })))(
    "of $api is sent as it is: $fields",
    async ({ api, fields }) => {
      const { status, error, sent } = await send(api, fields);
      expect([status, error]).toEqual([200, {}]);
      expect(sent).toMatchObject(fields);
    },
  );

  test.each<[api: Api, fields: Json, sent: Json, dropped: string]>([
    [
      "responses",
      item({ type: "plan_update", id: "pl_0A9f8e7d", content: "First the tests." }),
      item({ type: "plan_update", content: "First the tests." }),
      "input[0].id",
    ],
    [
      "messages",
      assistant({ type: "self_review", id: "rev_0A9f8e7d", text: "That was right." }, TEXT),
      assistant({ type: "self_review", text: "That was right." }, TEXT),
      "messages[1].content[0].id",
    ],
    // They say nothing to the model, and the provider would look them up.
    [
      "responses",
      { input: [{ type: "reasoning", id: "rs_0A9f8e7d", summary: [] }, USER] },
      { input: [USER] },
      "input[0]",
    ],
    [
      "responses",
      { input: [{ type: "web_search_call", id: "ws_0A9f8e7d", status: "completed" }, USER] },
      { input: [USER] },
      "input[0]",
    ],
  ])("of %s is sent without an id that could name it: %j", async (api, fields, kept, path) => {
    const { status, error, sent, dropped } = await send(api, fields);
    expect([status, error]).toEqual([200, {}]);
    expect(JSON.stringify(sent)).not.toContain("0A9f8e7d");
    expect(sent).toMatchObject(kept);
    expect(dropped).toContain(path);
  });

  test.each(
    [
      { type: "message", role: "assistant" },
      { type: "message", role: "assistant", content: [] },
      { type: "function_call", call_id: "call_1", status: "completed" },
      { type: "custom_tool_call", call_id: "call_1" },
      { type: "image_generation_call", status: "completed", output_format: "png" },
      { type: "code_interpreter_call", code: null, outputs: null },
      { type: "computer_call", call_id: "call_1" },
      { type: "file_search_call", queries: [] },
      { type: "mcp_list_tools", server_label: "s", tools: [] },
      { type: "mcp_call", server_label: "s" },
      { type: "compaction" },
      { type: "agent_message", author: "a" },
    ].map((value) => ({ value })),
  )("of responses that has only an id is refused: $value", async ({ value }) => {
    const { status, error } = await send("responses", item({ ...value, id: "msg_0A9f8e7d" }));
    expect([status, error["message"]]).toEqual([400, expect.stringContaining("`input[0].id`")]);
  });

  test.each<[api: Api, fields: Json, path: string]>([
    ["messages", { fallbacks: [{ model: "claude-opus-5" }] }, "fallbacks"],
    ["messages", { thread: { id: "thread_A1" } }, "thread"],
    [
      "messages",
      system({
        content: [
          {
            type: "tool_addition",
            tool: {
              type: "tool_definition",
              definition: { type: "web_search_20260209", name: "web_search" },
            },
          },
        ],
      }),
      "messages[1].content[0].tool.definition.type",
    ],
    ["responses", item({ type: "item_pointer", id: "msg_0A9f8e7d" }), "input[0].id"],
    ["responses", item({ type: "plan_update", content: "x", source: "plan A" }), "input[0].source"],
    [
      "responses",
      { background_options: { continuation_id: "A1" } },
      "background_options.continuation_id",
    ],
    ["chat", { memory_scope: "Team A" }, "memory_scope"],
    ["chat", { workspace_token: "abc" }, "workspace_token"],
    // Names that the owner of an account chose, and models whose price was not held.
    ["chat", { lora_adapter: "customer" }, "lora_adapter"],
    ["chat", { knowledge: { stores: ["handbook"] } }, "knowledge"],
    ["responses", { agent: "support" }, "agent"],
    ["responses", { escalation: { model: "gpt-5-pro" } }, "escalation"],
    // They multiply what a call costs.
    ["responses", { multi_agent: { enabled: true, max_concurrent_subagents: 50 } }, "multi_agent"],
    ["chat", { best_of: 20 }, "best_of"],
  ])("of %s that could name something stored is refused: %j", async (api, fields, path) => {
    const { status, error } = await send(api, fields);
    expect([status, error["message"]]).toEqual([400, expect.stringContaining(`\`${path}\``)]);
  });
});

const word = fc.stringMatching(/^[a-z]{1,10}(?:[_-](?:[a-z]{1,8}|20\d\d|\d\d?)){0,2}$/);
const settingName = word.map((text) => `x_${text.replaceAll("-", "_")}_mode`);
const plain = fc.oneof(word, fc.integer(), fc.boolean(), fc.constant(null));
const setting = fc.oneof(
  plain,
  fc.array(plain, { maxLength: 3 }),
  fc.dictionary(settingName, plain, { maxKeys: 3, noNullPrototype: true }),
);
const identifier = fc.oneof(
  fc.uuid(),
  fc.stringMatching(/^[A-Za-z0-9]{24}$/),
  fc.stringMatching(/^(?:file|vs|resp|msg|asst|batch|cntr)[-_][a-f0-9]{16,32}$/),
  fc.stringMatching(/^(?:files|projects|cachedContents)\/[a-z]{1,12}$/),
  fc.webUrl(),
  fc.stringMatching(/^[a-z]{1,8}-\d{6,10}$/),
  fc.emailAddress(),
);

describe("an unknown field", () => {
  test("with plain words only is always sent", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<Api>("chat", "responses", "messages"),
        settingName,
        setting,
        async (api, name, value) => {
          const { status, error, sent } = await send(api, { [name]: value });
          expect([status, error]).toEqual([200, {}]);
          expect(sent[name]).toEqual(value);
        },
      ),
      { numRuns: runs(150) },
    );
  });

  test("with an identifier anywhere in it is never sent", async () => {
    const hide = (id: string) =>
      fc.constantFrom<Json>(
        { x_mode: id },
        { x_mode: [id] },
        { x_mode: { y: ["high", { z: id }] } },
        { x_mode: { [id]: true } },
      );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<Api>("chat", "responses", "messages"),
        identifier.chain(hide),
        async (api, fields) => {
          const { status } = await send(api, fields);
          expect(status).toBe(400);
        },
      ),
      { numRuns: runs(150) },
    );
  });
});

/** Types of items, known and new ones. */
const itemType = fc.oneof(
  fc.constantFrom(
    ..."message reasoning function_call image_generation_call web_search_call computer_call mcp_call compaction".split(
      " ",
    ),
  ),
  fc.stringMatching(/^[a-z]{3,9}_(?:note|update|pointer)$/),
);
const STORED_ID = fc.stringMatching(/^[a-z]{2,4}_[a-f0-9]{32}$/);
const withoutPayload = fc.record(
  { status: fc.constant("completed"), role: fc.constant("assistant"), content: fc.constant([]) },
  { requiredKeys: [] },
);

describe("the id of an item", () => {
  test("is never sent where the item has nothing else", async () => {
    await fc.assert(
      fc.asyncProperty(itemType, STORED_ID, withoutPayload, async (type, id, more) => {
        const { sent } = await send("responses", item({ type, id, ...more }));
        expect(JSON.stringify(sent)).not.toContain(id);
      }),
      { numRuns: runs(100) },
    );
  });

  test("is never sent with a type that the gateway does not know, and its text is", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.stringMatching(/^[a-z]{3,9}_(?:note|update|pointer)$/),
        STORED_ID,
        fc.constantFrom("text", "content", "summary"),
        async (type, id, field) => {
          const { status, sent } = await send("responses", item({ type, id, [field]: "Tests." }));
          expect(status).toBe(200);
          expect(JSON.stringify(sent)).not.toContain(id);
          expect(sent).toMatchObject(item({ type, [field]: "Tests." }));
        },
      ),
      { numRuns: runs(60) },
    );
  });
});
