// OpenAI's tools that the client runs are functions for models of other providers. Calls come back as items of OpenAI's API,
// streamed or not, and are sent back with their results.

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { sseEvents } from "../../../packages/wires/test/stream-helpers.ts";
import { errorOf } from "../../inference/support/harness.ts";
import { formatSse } from "../../support/format-sse.ts";
import { checkExchanges } from "../support/check-exchanges.ts";
import {
  callApi,
  type Json,
  minimalBody,
  modelOn,
  startHarness,
  WIRES,
} from "../support/harness.ts";

const harness = await startHarness();
afterEach(() => {
  harness.providerResponse = undefined;
});
afterAll(async () => {
  await checkExchanges(harness, "OpenAI's tools that the client runs");
  await harness.stop();
});

const PIXEL = "data:image/png;base64,iVBORw0KGgo=";

interface ToolCase {
  readonly tool: Json;
  readonly choice?: Json;
  readonly item: Json;
  readonly result: Json;
  /** Of the result, as other APIs get it. */
  readonly text: string;
}

const CASES: Readonly<Record<string, ToolCase>> = {
  shell: {
    tool: { type: "shell", environment: { type: "local" } },
    choice: { type: "shell" },
    item: {
      type: "shell_call",
      action: { commands: [expect.any(String)] },
      environment: { type: "local" },
    },
    result: {
      type: "shell_call_output",
      output: [{ stdout: "two files", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
    },
    text: "two files",
  },
  local_shell: {
    tool: { type: "local_shell" },
    item: { type: "local_shell_call", action: { type: "exec", command: [expect.any(String)] } },
    result: { type: "local_shell_call_output", output: '{"stdout":"two files"}' },
    text: "two files",
  },
  apply_patch: {
    tool: { type: "apply_patch" },
    choice: { type: "apply_patch" },
    item: {
      type: "apply_patch_call",
      operation: { type: "create_file", path: expect.any(String) },
    },
    result: { type: "apply_patch_call_output", status: "completed", output: "Created it." },
    text: "Created it.",
  },
  computer: {
    tool: { type: "computer" },
    choice: { type: "computer" },
    item: { type: "computer_call", actions: [{ type: "click" }], pending_safety_checks: [] },
    result: {
      type: "computer_call_output",
      output: { type: "computer_screenshot", image_url: PIXEL },
    },
    text: "iVBORw0KGgo=",
  },
  computer_use_preview: {
    tool: {
      type: "computer_use_preview",
      display_width: 800,
      display_height: 600,
      environment: "browser",
    },
    choice: { type: "computer_use_preview" },
    item: { type: "computer_call", action: { type: "click" }, pending_safety_checks: [] },
    result: {
      type: "computer_call_output",
      output: { type: "computer_screenshot", image_url: PIXEL },
    },
    text: "iVBORw0KGgo=",
  },
  tool_search: {
    tool: {
      type: "tool_search",
      execution: "client",
      description: "Finds tools.",
      parameters: { type: "object", properties: { goal: { type: "string" } }, required: ["goal"] },
    },
    item: {
      type: "tool_search_call",
      execution: "client",
      arguments: { goal: expect.any(String) },
    },
    result: {
      type: "tool_search_output",
      execution: "client",
      tools: [{ type: "function", name: "weather", parameters: { type: "object" } }],
    },
    text: "Loaded the tools weather.",
  },
};

const INPUT = [{ role: "user", content: "Use the tool." }];

function lastSent(): string {
  return JSON.stringify(harness.upstreamRequests.at(-1)?.body);
}

/** The items of the reply. In a stream, those of its events and of its end are the same. */
async function outputOf(body: Json): Promise<readonly Json[]> {
  const { status, text, json, headers } = await callApi(harness, "responses", body);
  expect([status, headers.get("x-postern-dropped"), status === 200 ? "" : text]).toEqual([
    200,
    null,
    "",
  ]);
  if (body["stream"] !== true) return json["output"] as Json[];
  const events = sseEvents(text).map(({ data }) => JSON.parse(data) as Json);
  const done = events.filter(({ type }) => type === "response.output_item.done");
  const last = events.at(-1)?.["response"] as Json;
  expect(done.map(({ item }) => item)).toEqual(last["output"] as unknown[]);
  return last["output"] as Json[];
}

for (const [name, { tool, choice, item, result, text }] of Object.entries(CASES))
  describe(`the tool ${name}`, () => {
    for (const wire of WIRES.filter((one) => one !== "responses"))
      for (const stream of [false, true])
        test(`is called and answered at ${wire}${stream ? ", streamed" : ""}`, async () => {
          const common = { model: modelOn(wire), tools: [tool], stream };
          const forced = { tool_choice: choice ?? "required" };
          const output = await outputOf({ ...common, ...forced, input: INPUT });
          expect(lastSent()).not.toContain(`"type":"${name}"`);
          const call = output.find(({ type }) => type === item["type"]);
          expect(call).toMatchObject({ ...item, status: "completed" });
          expect(call?.["call_id"]).toBeString();
          const answered = { ...result, call_id: call?.["call_id"] };
          await outputOf({ ...common, input: [...INPUT, ...output, answered] });
          expect(lastSent()).toContain(text);
          // Gemini requires the signatures of its calls.
          if (wire === "gemini") expect(lastSent()).toContain("thoughtSignature");
          expect(lastSent()).not.toContain(String(item["type"]));
        });
  });

const CALLS: readonly Json[] = [
  {
    type: "shell_call",
    call_id: "c1",
    action: { commands: ["ls"] },
    environment: { type: "local" },
  },
  { type: "shell_call_output", call_id: "c1", output: [] },
  { type: "apply_patch_call", call_id: "c2", operation: { type: "delete_file", path: "a" } },
  { type: "apply_patch_call_output", call_id: "c2", status: "failed" },
];

test("calls and results stay as they are at OpenAI", async () => {
  const tools = [{ type: "shell" }, { type: "apply_patch" }];
  const input = [...INPUT, ...CALLS];
  const body = { model: modelOn("responses"), tools, input };
  expect((await callApi(harness, "responses", body)).status).toBe(200);
  expect(harness.upstreamRequests.at(-1)?.body).toMatchObject({ input, tools });
});

test("parallel calls and their results are one turn beside those of functions", async () => {
  const call = { type: "function_call", call_id: "c3", name: "f", arguments: "{}" };
  const [shell, output, patch, failure] = CALLS;
  const { status } = await callApi(harness, "responses", {
    ...minimalBody("responses", "messages", ""),
    input: [
      ...INPUT,
      shell,
      call,
      patch,
      failure,
      { type: "function_call_output", call_id: "c3", output: "42" },
      output,
    ],
    tools: [{ type: "shell" }, { type: "apply_patch" }],
  });
  expect(status).toBe(200);
  expect(harness.upstreamRequests.at(-1)?.body["messages"]).toMatchObject([
    { role: "user" },
    {
      role: "assistant",
      content: [
        { type: "tool_use", name: "shell", input: { commands: ["ls"] } },
        { type: "tool_use", name: "f" },
        { type: "tool_use", name: "apply_patch", input: { type: "delete_file", path: "a" } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "c2", is_error: true },
        { type: "tool_result", tool_use_id: "c3" },
        { type: "tool_result", tool_use_id: "c1" },
      ],
    },
  ]);
});

describe("a call whose arguments do not fit the item", () => {
  for (const stream of [false, true])
    test(`stays a function call${stream ? ", streamed" : ""}`, async () => {
      const input = { commands: "ls" };
      harness.providerResponse = () => toolUseReply("shell", input, stream);
      const output = await outputOf({
        model: modelOn("messages"),
        tools: [{ type: "shell" }],
        input: INPUT,
        stream,
      });
      expect(output).toMatchObject([
        { type: "function_call", name: "shell", arguments: JSON.stringify(input) },
      ]);
    });
});

test("allowed tools can list them", async () => {
  const f = { type: "function", name: "f", parameters: { type: "object", properties: {} } };
  const body = minimalBody("responses", "gemini", "hi", {
    tools: [{ type: "shell" }, { type: "apply_patch" }, f],
    tool_choice: {
      type: "allowed_tools",
      mode: "required",
      tools: [{ type: "shell" }, { type: "function", name: "f" }],
    },
  });
  expect((await callApi(harness, "responses", body)).status).toBe(200);
  expect(harness.upstreamRequests.at(-1)?.body["toolConfig"]).toEqual({
    functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["shell", "f"] },
  });
});

describe("is refused", () => {
  const REFUSED: readonly (readonly [title: string, tools: readonly Json[], param: string])[] = [
    [
      "a tool beside a function of its name",
      [{ type: "function", name: "shell", parameters: { type: "object" } }, { type: "shell" }],
      "tools[1]",
    ],
    [
      "a search for tools with an invalid schema",
      [{ type: "tool_search", execution: "client", parameters: { type: "object", required: 1 } }],
      "tools[0].parameters.required",
    ],
    [
      "the computer in two versions",
      [{ type: "computer" }, { type: "computer_use_preview", display_width: 8, display_height: 6 }],
      "tools[1]",
    ],
  ];
  for (const [title, tools, param] of REFUSED)
    test(title, async () => {
      const body = minimalBody("responses", "messages", "hi", { tools });
      const { status, json } = await callApi(harness, "responses", body);
      expect([status, errorOf(json)["param"]]).toEqual([400, param]);
    });
});

test("skills of a local shell and the size of a display are in the description", async () => {
  const skill = { name: "csv", description: "Reads tables.", path: "/skills/csv" };
  const { status } = await callApi(harness, "responses", {
    ...minimalBody("responses", "messages", "hi"),
    tools: [
      { type: "shell", environment: { type: "local", skills: [skill] } },
      CASES["computer_use_preview"]?.tool,
    ],
  });
  expect(status).toBe(200);
  expect(lastSent()).toContain("csv: Reads tables. (/skills/csv)");
  expect(lastSent()).toContain("The display has 800 x 600 pixels. Its environment is browser.");
});

function toolUseReply(name: string, input: Json, stream: boolean): Response {
  const block = { type: "tool_use", id: "toolu_1", name };
  const head = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [] };
  const usage = { input_tokens: 5, output_tokens: 3 };
  if (!stream)
    return Response.json({
      ...head,
      content: [{ ...block, input }],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage,
    });
  const delta = { type: "input_json_delta", partial_json: JSON.stringify(input) };
  const events: readonly Json[] = [
    { type: "message_start", message: { ...head, stop_reason: null, usage } },
    { type: "content_block_start", index: 0, content_block: { ...block, input: {} } },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "tool_use" }, usage },
    { type: "message_stop" },
  ];
  const text = events.map((data) =>
    formatSse({ event: String(data["type"]), data: JSON.stringify(data) }),
  );
  return new Response(text.join(""), { headers: { "content-type": "text/event-stream" } });
}
