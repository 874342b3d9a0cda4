// Custom tools over every wire: those without custom tools get a function whose one argument is the text.

import { afterAll, describe, expect, test } from "bun:test";
import { sseEvents } from "../../../packages/wires/test/stream-helpers.ts";
import { callApi, type Json, modelOn, startHarness, WIRES } from "../support/harness.ts";

const GRAMMAR = { type: "grammar", syntax: "lark", definition: 'start: "a"+' } as const;
const TOOL = { type: "custom", name: "write_note", description: "Writes a note.", format: GRAMMAR };
const CHAT_TOOL = {
  type: "custom",
  custom: {
    name: TOOL.name,
    format: { type: "grammar", grammar: { syntax: "lark", definition: GRAMMAR.definition } },
  },
};
const RESULT = "The note is written.";

const harness = await startHarness();
afterAll(() => harness.stop());

const sent = (): Json => harness.upstreamRequests.at(-1)?.body ?? {};

async function callResponses(body: Json): Promise<readonly Json[]> {
  const { status, text, json, headers } = await callApi(harness, "responses", body);
  expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
  const isNative = JSON.stringify(sent()).includes('"custom"');
  expect(headers.get("x-postern-dropped")).toBe(isNative ? null : "tools[0].format");
  if (body["stream"] !== true) return json["output"] as Json[];
  return sseEvents(text).map(({ data }) => JSON.parse(data) as Json);
}

describe("a custom tool of Responses", () => {
  for (const wire of WIRES) {
    const common = { model: modelOn(wire), tools: [TOOL], tool_choice: "required" };
    const input = [{ role: "user", content: "Write a note." }];

    test(`is called with text by ${wire}, and its result is sent back`, async () => {
      const output = await callResponses({ ...common, input });
      const call = output.find(({ type }) => type === "custom_tool_call") ?? {};
      expect([call["name"], typeof call["input"]]).toEqual([TOOL.name, "string"]);
      expect(String(call["input"])).not.toStartWith("{");
      const result = { type: "custom_tool_call_output", call_id: call["call_id"], output: RESULT };
      const next = [...input, ...output, result];
      await callResponses({ ...common, tool_choice: "auto", input: next });
      for (const part of [RESULT, GRAMMAR.definition])
        expect(JSON.stringify(sent())).toContain(JSON.stringify(part).slice(1, -1));
    });

    test(`is streamed from ${wire}`, async () => {
      const events = await callResponses({ ...common, input, stream: true });
      const deltas = events.filter(({ type }) => type === "response.custom_tool_call_input.delta");
      const done = events.find(({ type }) => type === "response.custom_tool_call_input.done");
      expect(deltas.map(({ delta }) => delta).join("")).toBe(String(done?.["input"]));
      expect(String(done?.["input"])).not.toStartWith("{");
    });
  }
});

test("a custom tool of Chat Completions works with providers of that API that have none", async () => {
  for (const wire of ["chat", "messages"] as const) {
    const { json, headers } = await callApi(harness, "chat", {
      model: modelOn(wire),
      messages: [{ role: "user", content: "Write a note." }],
      tools: [CHAT_TOOL],
      tool_choice: { type: "custom", custom: { name: TOOL.name } },
    });
    const [choice] = json["choices"] as readonly { message: Json }[];
    expect(choice?.message["tool_calls"]).toMatchObject([
      { type: "custom", custom: { name: TOOL.name, input: expect.any(String) } },
    ]);
    expect(headers.get("x-postern-dropped")).toBe("tools[0].format");
  }
});

test("a strict caller is refused, because the grammar is not enforced", async () => {
  const body = { model: modelOn("messages"), input: "a", tools: [TOOL] };
  const refused = await callApi(harness, "responses", {
    ...body,
    provider: { require_parameters: true },
  });
  expect([refused.status, (refused.json["error"] as Json)["param"]]).toEqual([
    400,
    "tools[0].format",
  ]);
});
