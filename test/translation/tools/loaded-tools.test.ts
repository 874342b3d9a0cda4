// Searches for tools and tools that are loaded later: at providers of other APIs, the model gets all tools at once.

import { afterAll, describe, expect, test } from "bun:test";
import { errorOf } from "../../inference/support/harness.ts";
import { type Api, callApi, type Json, modelOn, startHarness, WIRES } from "../support/harness.ts";

const SCHEMA = { type: "object", properties: {}, additionalProperties: false };
const LISTED = { type: "function", name: "listed", parameters: SCHEMA };
const LOADED = { type: "function", name: "loaded_later", parameters: SCHEMA };
const MESSAGES_TOOLS = [
  { name: "listed", input_schema: SCHEMA },
  { name: "loaded_later", input_schema: SCHEMA, defer_loading: true },
];

const harness = await startHarness();
afterAll(() => harness.stop());

async function expectAllTools(api: Api, body: Json, dropped: string): Promise<string> {
  const { status, text, headers } = await callApi(harness, api, body);
  expect([body["model"], status, status === 200 ? "" : text]).toEqual([body["model"], 200, ""]);
  expect(headers.get("x-postern-dropped")).toContain(dropped);
  const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
  for (const name of ["listed", "loaded_later"]) expect(sent).toContain(`"${name}"`);
  for (const removed of ["tool_search", "tool_reference", "additional_tools", "tool_addition"])
    expect(sent).not.toContain(removed);
  return sent;
}

describe("Responses", () => {
  const search = {
    type: "tool_search_call",
    call_id: null,
    execution: "server",
    arguments: {},
    status: "completed",
  };
  const found = {
    type: "tool_search_output",
    call_id: null,
    execution: "server",
    tools: [LOADED],
    status: "completed",
  };
  const added = { type: "additional_tools", role: "developer", tools: [LOADED] };
  const user = { role: "user", content: "hello" };

  for (const wire of WIRES.filter((one) => one !== "responses")) {
    const model = modelOn(wire);
    test(`a hosted search is left out at ${wire}`, () =>
      expectAllTools(
        "responses",
        {
          model,
          input: "hello",
          tools: [LISTED, { ...LOADED, defer_loading: true }, { type: "tool_search" }],
        },
        "tools[2]",
      ));

    test(`tools that a search found are sent to ${wire}`, () =>
      expectAllTools(
        "responses",
        { model, input: [user, search, found, user], tools: [LISTED, { type: "tool_search" }] },
        "tools[1], input[1], input[2]",
      ));

    test(`tools that instructions add are sent to ${wire}`, () =>
      expectAllTools(
        "responses",
        { model, input: [user, added, user], tools: [LISTED] },
        "input[1]",
      ));
  }

  test("they stay where they are on their own API", async () => {
    const input = [user, search, found, user];
    const tools = [LISTED, { type: "tool_search" }];
    const { status } = await callApi(harness, "responses", {
      model: modelOn("responses"),
      input,
      tools,
    });
    const sent = harness.upstreamRequests.at(-1)?.body as Json;
    expect([status, sent["input"], sent["tools"]]).toEqual([200, input, tools]);
  });
});

describe("Messages", () => {
  const search = { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" };
  const reference = { type: "tool_reference", tool_name: "loaded_later" };
  const user = { role: "user", content: "hello" };

  for (const wire of WIRES.filter((one) => one !== "messages")) {
    const common = { model: modelOn(wire), max_tokens: 100, tools: MESSAGES_TOOLS };
    test(`a hosted search and its results are left out at ${wire}`, () =>
      expectAllTools(
        "messages",
        {
          ...common,
          tools: [...MESSAGES_TOOLS, search],
          messages: [
            user,
            {
              role: "assistant",
              content: [
                {
                  type: "server_tool_use",
                  id: "srvtoolu_1",
                  name: search.name,
                  input: { query: "a" },
                },
                {
                  type: "tool_search_tool_result",
                  tool_use_id: "srvtoolu_1",
                  content: { type: "tool_search_tool_search_result", tool_references: [reference] },
                },
                { type: "text", text: "Found." },
              ],
            },
            user,
          ],
        },
        "tools[2], messages[1].content[0], messages[1].content[1]",
      ));

    test(`a reference to a tool in a result becomes its name at ${wire}`, async () => {
      const call = { type: "tool_use", id: "toolu_1", name: "listed", input: {} };
      const result = { type: "tool_result", tool_use_id: "toolu_1", content: [reference] };
      const messages = [
        user,
        { role: "assistant", content: [call] },
        { role: "user", content: [result] },
      ];
      const sent = await expectAllTools(
        "messages",
        { ...common, messages },
        "messages[2].content[0].content[0]",
      );
      expect(sent).toContain("Loaded the tool loaded_later.");
    });

    test(`a tool that instructions add is there at ${wire}`, () =>
      expectAllTools(
        "messages",
        {
          ...common,
          messages: [
            user,
            {
              role: "system",
              content: [
                { type: "tool_addition", tool: { type: "tool_reference", name: "loaded_later" } },
              ],
            },
            user,
          ],
        },
        "messages[1].content[0]",
      ));
  }
});

describe("an advisor", () => {
  const tool = { type: "advisor_20260301", name: "advisor", model: "claude-opus-4-8" };
  const call = { type: "server_tool_use", id: "srvtoolu_1", name: "advisor", input: {} };
  const advice = {
    type: "advisor_tool_result",
    tool_use_id: "srvtoolu_1",
    content: { type: "advisor_result", text: "Count twice." },
  };
  const messages = [
    { role: "user", content: "How many?" },
    { role: "assistant", content: [call, advice, { type: "text", text: "Two." }] },
    { role: "user", content: "Sure?" },
  ];

  for (const wire of WIRES.filter((one) => one !== "messages"))
    for (const stream of [false, true])
      test(`is left out at ${wire}, which has none${stream ? ", streamed" : ""}`, async () => {
        const body = { model: modelOn(wire), max_tokens: 100, messages, tools: [tool], stream };
        const choice = { tool_choice: { type: "auto" } };
        const { status, text, headers } = await callApi(harness, "messages", {
          ...body,
          ...choice,
        });
        expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
        expect(headers.get("x-postern-dropped")).toBe(
          "messages[1].content[0], messages[1].content[1], tools[0]",
        );
        const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
        expect(sent).toContain("Two.");
        for (const removed of ["advisor", "Count twice", "tool_choice", "toolConfig"])
          expect(sent).not.toContain(removed);
      });

  test("is refused there if the request requires it, or is strict", async () => {
    const body = { model: modelOn("chat"), max_tokens: 100, messages, tools: [tool] };
    const forced = { ...body, tool_choice: { type: "tool", name: "advisor" } };
    const strict = {
      ...body,
      messages: messages.slice(0, 1),
      provider: { require_parameters: true },
    };
    for (const refused of [forced, strict]) {
      const { status, json } = await callApi(harness, "messages", refused);
      expect([status, errorOf(json)["param"]]).toEqual([400, "tools[0]"]);
    }
  });
});
