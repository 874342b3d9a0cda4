// Anthropic's tools that the client runs are functions for models of other providers, and programs that call tools are left out.

import { afterAll, describe, expect, test } from "bun:test";
import { adaptSettings } from "@postern/wires";
import { builtInModels } from "../../../src/models/catalog.ts";
import { abilitiesOf } from "../../../src/models/model-abilities.ts";
import { callApi, minimalBody, startHarness, WIRES } from "../support/harness.ts";

const harness = await startHarness({ providers: ["anthropic"] });
afterAll(() => harness.stop());

const TOOLS = [
  { type: "bash_20250124", name: "bash" },
  { type: "text_editor_20250728", name: "str_replace_based_edit_tool", max_characters: 9_000 },
  { type: "memory_20250818", name: "memory" },
  { type: "computer_20251124", name: "computer", display_width_px: 800, display_height_px: 600 },
];
const COMPUTER = { name: "computer", display_width_px: 800, display_height_px: 600 };
const NAMES = TOOLS.map(({ name }) => name);

describe("tools that the client runs", () => {
  for (const wire of WIRES.filter((one) => one !== "messages"))
    for (const stream of [false, true])
      test(`are called and answered at ${wire}${stream ? ", streamed" : ""}`, async () => {
        const text = "Call the tool bash.";
        const choice = { tools: TOOLS, tool_choice: { type: "tool", name: "bash" }, stream };
        const first = await callApi(harness, "messages", {
          ...minimalBody("messages", wire, text),
          ...choice,
        });
        expect([first.status, first.headers.get("x-postern-dropped")]).toEqual([200, null]);
        const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
        for (const name of NAMES) expect(sent).toContain(`"name":"${name}"`);
        for (const type of TOOLS.map((tool) => tool.type)) expect(sent).not.toContain(type);
        expect(sent).toContain("The display has 800 x 600 pixels.");
        expect(first.text).toContain('"type":"tool_use"');
        expect(first.text).toContain('"name":"bash"');
      });

  test("send their results as those of functions, also screenshots", async () => {
    const image = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
    const call = {
      type: "tool_use",
      id: "toolu_1",
      name: "computer",
      input: { action: "screenshot" },
    };
    const result = {
      type: "tool_result",
      tool_use_id: "toolu_1",
      content: [{ type: "image", source: image }],
    };
    const { status } = await callApi(harness, "messages", {
      ...minimalBody("messages", "responses", "hi"),
      tools: TOOLS,
      messages: [
        { role: "user", content: "Take a screenshot." },
        { role: "assistant", content: [call] },
        { role: "user", content: [result] },
      ],
    });
    expect(status).toBe(200);
    const input = harness.upstreamRequests.at(-1)?.body["input"];
    expect(input).toMatchObject([
      { role: "user" },
      { type: "function_call", name: "computer", arguments: '{"action":"screenshot"}' },
      { type: "function_call_output", output: [{ type: "input_image" }] },
    ]);
  });

  test("stay as they are at Anthropic", async () => {
    const body = { ...minimalBody("messages", "messages", "hi"), tools: TOOLS };
    expect((await callApi(harness, "messages", body)).status).toBe(200);
    expect(harness.upstreamRequests.at(-1)?.body["tools"]).toEqual(TOOLS);
  });

  test("keep the computer's earlier form at Claude 5.5, which takes only the toolset", async () => {
    for (const model of ["anthropic/claude-opus-5-5", "anthropic/claude-sonnet-5-5"])
      for (const stream of [false, true]) {
        const body = {
          ...minimalBody("messages", "messages", "Take a screenshot."),
          model,
          tools: [...TOOLS.slice(0, 1), { type: "computer_20250124", ...COMPUTER }, TOOLS[3]],
          stream,
        };
        const { status, headers } = await callApi(harness, "messages", body);
        expect([status, headers.get("x-postern-dropped")]).toEqual([
          200,
          "tools[1].type, tools[2].type",
        ]);
        const strict = { ...body, provider: { require_parameters: true } };
        const refused = await callApi(harness, "messages", strict);
        expect([refused.status, refused.text]).toEqual([
          400,
          expect.stringContaining("`tools[1].type` would be dropped"),
        ]);
      }
  });

  test("are functions with the published schema there", () => {
    const model = builtInModels().find(({ id }) => id === "anthropic/claude-opus-5-5");
    if (model === undefined) throw new Error("no model");
    const bash = { type: "bash_20250124", name: "bash" };
    const computer = {
      type: "computer_20251124",
      ...COMPUTER,
      cache_control: { type: "ephemeral" },
    };
    const adapted = adaptSettings("messages", { tools: [bash, computer] }, abilitiesOf(model));
    expect(JSON.parse(adapted.members["tools"] ?? "")).toMatchObject([
      bash,
      {
        name: "computer",
        input_schema: { type: "object", required: ["action"] },
        cache_control: { type: "ephemeral" },
      },
    ]);
    expect(adapted?.members["tools"]).not.toContain("display_width_px");
    const toolset = { type: "computer_toolset_20260801", name: "computer" };
    const unchanged = { members: {}, dropped: [] };
    expect(adaptSettings("messages", { tools: [toolset] }, abilitiesOf(model))).toEqual(unchanged);
    const older = builtInModels().find(({ id }) => id === "anthropic/claude-opus-4-6");
    if (older === undefined) throw new Error("no model");
    expect(adaptSettings("messages", { tools: [computer] }, abilitiesOf(older))).toEqual(unchanged);
  });
});

describe("programs that call tools", () => {
  const PROGRAM = { type: "program", id: "cm_1", call_id: "call_1", code: "await tools.f()" };
  const caller = { type: "program", caller_id: "call_1" };
  const CALL = {
    type: "function_call",
    call_id: "call_2",
    name: "f",
    arguments: "{}",
    caller,
  };
  const RESULT = { type: "function_call_output", call_id: "call_2", output: "42", caller };

  for (const wire of WIRES.filter((one) => one !== "responses"))
    test(`are left out at ${wire}, and their calls stay`, async () => {
      const { status, headers } = await callApi(harness, "responses", {
        ...minimalBody("responses", wire, "hi"),
        input: [{ role: "user", content: "hi" }, PROGRAM, CALL, RESULT],
        tools: [
          { type: "function", name: "f", parameters: { type: "object", properties: {} } },
          { type: "programmatic_tool_calling" },
        ],
      });
      expect([status, headers.get("x-postern-dropped")]).toEqual([
        200,
        expect.stringContaining("tools[1], input[1], input[2].caller"),
      ]);
      const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
      expect(sent).not.toContain("await tools");
      expect(sent).toContain("42");
    });
});
