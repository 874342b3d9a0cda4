// Code, MCP servers and pages that the provider runs or fetches, over each API and at each provider that has the same.

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { stringIn } from "../../../src/base/json.ts";
import { errorOf } from "../../inference/support/harness.ts";
import { checkExchanges } from "../support/check-exchanges.ts";
import {
  anthropicFor,
  type Api,
  callApi,
  type Json,
  minimalBody,
  modelOn,
  openaiFor,
  startHarness,
  type Wire,
} from "../support/harness.ts";
import {
  CODE,
  codeReply,
  MCP_CALL,
  MCP_OUTPUT,
  mcpReply,
  OUTPUT,
  replyOf,
  TEXT,
  type ToolWire,
} from "../support/tool-replies.ts";

const harness = await startHarness({ sellsServerTools: true });
afterEach(() => {
  harness.providerResponse = undefined;
});
afterAll(async () => {
  await checkExchanges(harness, "tools that providers run");
  await harness.stop();
});

const INTERPRETER = { type: "code_interpreter", container: { type: "auto" } };
const EXECUTION = { type: "code_execution_20250825", name: "code_execution" };
const URL = "https://mcp.example/docs";
const MCP_TOOL = { type: "mcp", server_label: "docs", server_url: URL, require_approval: "never" };
const SERVER = { type: "url", name: "docs", url: URL };
const TOOLSET = { type: "mcp_toolset", mcp_server_name: "docs" };
const ONLY_ASK = { default_config: { enabled: false }, configs: { ask: { enabled: true } } };
const ADD = { name: "add", input_schema: { type: "object", properties: {} } };

interface RequestCase {
  readonly title: string;
  readonly api: Api;
  readonly wire: Wire;
  readonly fields: Json;
  readonly sent: Json;
  readonly dropped?: string;
}

const REQUESTS: readonly RequestCase[] = [
  {
    title: "OpenAI's code interpreter at Anthropic",
    api: "responses",
    wire: "messages",
    fields: {
      tools: [{ ...INTERPRETER, container: { type: "auto", memory_limit: "4g" } }],
      include: ["code_interpreter_call.outputs"],
      tool_choice: { type: "code_interpreter" },
      store: false,
    },
    sent: { tools: [EXECUTION], tool_choice: { type: "tool", name: "code_execution" } },
    dropped: "tools[0].container.memory_limit",
  },
  {
    title: "OpenAI's code interpreter at Google",
    api: "responses",
    wire: "gemini",
    fields: { tools: [{ ...INTERPRETER, container: { type: "auto", memory_limit: "1g" } }] },
    sent: { tools: [{ codeExecution: {} }] },
  },
  {
    title: "a search beside the code interpreter at Google",
    api: "responses",
    wire: "gemini",
    fields: { tools: [INTERPRETER, { type: "web_search" }] },
    sent: { tools: [{ googleSearch: {} }, { codeExecution: {} }] },
  },
  {
    title: "Anthropic's code execution at OpenAI, beside a function",
    api: "messages",
    wire: "responses",
    fields: { tools: [{ ...EXECUTION, cache_control: { type: "ephemeral" } }, ADD] },
    sent: {
      tools: [{ type: "function", name: "add" }, INTERPRETER],
      include: ["code_interpreter_call.outputs"],
    },
    dropped: "tools[0].cache_control",
  },
  {
    title: "Anthropic's code execution at Google",
    api: "messages",
    wire: "gemini",
    fields: { tools: [{ ...EXECUTION, type: "code_execution_20260120" }] },
    sent: { tools: [{ codeExecution: {} }] },
  },
  {
    title: "an MCP server of OpenAI's form at Anthropic",
    api: "responses",
    wire: "messages",
    fields: {
      tools: [
        { ...MCP_TOOL, headers: { Authorization: "Bearer t" }, server_description: "Documents." },
        { ...MCP_TOOL, server_label: "wiki", allowed_tools: { tool_names: ["ask"] } },
      ],
    },
    sent: {
      mcp_servers: [
        { ...SERVER, authorization_token: "t" },
        { ...SERVER, name: "wiki" },
      ],
      tools: [TOOLSET, { ...TOOLSET, mcp_server_name: "wiki", ...ONLY_ASK }],
    },
    dropped: "tools[0].server_description",
  },
  {
    title: "MCP servers of Anthropic's form at OpenAI",
    api: "messages",
    wire: "responses",
    fields: {
      mcp_servers: [
        { ...SERVER, authorization_token: "t" },
        { ...SERVER, name: "old", tool_configuration: { allowed_tools: ["ask"] } },
        { ...SERVER, name: "off", tool_configuration: { enabled: false } },
      ],
      tools: [{ ...TOOLSET, ...ONLY_ASK }],
    },
    sent: {
      tools: [
        { ...MCP_TOOL, authorization: "t", allowed_tools: ["ask"] },
        { ...MCP_TOOL, server_label: "old", allowed_tools: ["ask"] },
      ],
    },
  },
  {
    title: "Anthropic's fetching of pages at Google",
    api: "messages",
    wire: "gemini",
    fields: { tools: [{ type: "web_fetch_20250910", name: "web_fetch", max_uses: 2 }] },
    sent: { tools: [{ urlContext: {} }] },
    dropped: "tools[0].max_uses",
  },
];

describe("translates", () => {
  for (const { title, api, wire, fields, sent, dropped } of REQUESTS)
    test(title, async () => {
      const body = minimalBody(api, wire, "hi", fields);
      const { status, headers, text } = await callApi(harness, api, body);
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
      expect(headers.get("x-postern-dropped")).toBe(dropped ?? null);
      expect(harness.upstreamRequests.at(-1)?.body).toMatchObject(sent);
    });

  test("MCP servers with the beta that Anthropic asks for, beside the caller's", async () => {
    const response = await fetch(`${harness.gateway.url}/v1/responses`, {
      method: "POST",
      headers: { ...harness.account.headers, "anthropic-beta": "fast-mode-2026-02-01" },
      body: JSON.stringify(minimalBody("responses", "messages", "hi", { tools: [MCP_TOOL] })),
    });
    expect(response.status).toBe(200);
    const beta = harness.upstreamRequests.at(-1)?.headers.get("anthropic-beta");
    expect(beta).toBe("fast-mode-2026-02-01,mcp-client-2025-11-20");
  });
});

const REFUSED: readonly (readonly [
  title: string,
  api: Api,
  wire: Wire,
  fields: Json,
  param: string | undefined,
])[] = [
  [
    "network access for code",
    "responses",
    "messages",
    {
      tools: [
        {
          ...INTERPRETER,
          container: {
            type: "auto",
            network_policy: { type: "allowlist", allowed_domains: ["a.example"] },
          },
        },
      ],
    },
    "tools[0].container.network_policy",
  ],
  [
    "code beside functions at Google",
    "messages",
    "gemini",
    { tools: [EXECUTION, ADD] },
    "tools[0]",
  ],
  [
    "a required run at Google",
    "messages",
    "gemini",
    { tools: [EXECUTION], tool_choice: { type: "tool", name: "code_execution" } },
    "tool_choice",
  ],
  ["code at Bedrock", "responses", "converse", { tools: [INTERPRETER] }, "tools[0]"],
  [
    "approval of calls, which is OpenAI's default",
    "responses",
    "messages",
    { tools: [{ ...MCP_TOOL, require_approval: undefined }] },
    "tools[0].require_approval",
  ],
  [
    "other headers for an MCP server",
    "responses",
    "messages",
    { tools: [{ ...MCP_TOOL, headers: { "x-team": "a" } }] },
    "tools[0].headers",
  ],
  [
    "a filter of tools that only read",
    "responses",
    "messages",
    { tools: [{ ...MCP_TOOL, allowed_tools: { read_only: true } }] },
    "tools[0].allowed_tools.read_only",
  ],
  [
    "an MCP server without TLS at Anthropic",
    "responses",
    "messages",
    { tools: [{ ...MCP_TOOL, server_url: "http://mcp.example" }] },
    "tools[0].server_url",
  ],
  ["an MCP server at Google", "responses", "gemini", { tools: [MCP_TOOL] }, "tools[0].server_url"],
  [
    "a connector of OpenAI's account",
    "responses",
    "messages",
    {
      tools: [
        {
          type: "mcp",
          server_label: "calendar",
          connector_id: "connector_googlecalendar",
          authorization: "t",
          require_approval: "never",
        },
      ],
    },
    "tools[0]",
  ],
  [
    "a list of disabled tools at OpenAI",
    "messages",
    "responses",
    {
      mcp_servers: [SERVER],
      tools: [{ ...TOOLSET, configs: { ask: { enabled: false } } }],
    },
    "tools[0].configs",
  ],
  [
    "tools of an MCP server that is not listed",
    "messages",
    "responses",
    { mcp_servers: [SERVER], tools: [TOOLSET, { ...TOOLSET, mcp_server_name: "wiki" }] },
    "tools[1].mcp_server_name",
  ],
  [
    "two toolsets of one MCP server",
    "messages",
    "responses",
    { mcp_servers: [SERVER], tools: [{ ...TOOLSET, ...ONLY_ASK }, TOOLSET] },
    "tools[1].mcp_server_name",
  ],
  [
    "fetching from some domains only at Google",
    "messages",
    "gemini",
    { tools: [{ type: "web_fetch_20250910", name: "web_fetch", allowed_domains: ["a.example"] }] },
    "tools[0].allowed_domains",
  ],
];

describe("refuses", () => {
  for (const [title, api, wire, fields, param] of REFUSED)
    test(title, async () => {
      const { status, json } = await callApi(harness, api, minimalBody(api, wire, "hi", fields));
      expect([status, errorOf(json)["param"]]).toEqual([400, param]);
    });
});

/** What the official client gets. */
interface Seen {
  readonly calls: readonly unknown[];
  readonly text: string;
}

async function overResponses(wire: Wire, tool: Json, stream: boolean): Promise<Seen> {
  const { responses } = openaiFor(harness);
  const body = { model: modelOn(wire), input: "hi", tools: [tool as never] };
  const { output, output_text } = stream
    ? await responses.stream(body).finalResponse()
    : await responses.create(body);
  const calls = output.flatMap((item): readonly unknown[] => {
    if (item.type === "code_interpreter_call") return [{ code: item.code, outputs: item.outputs }];
    if (item.type !== "mcp_call") return [];
    const { server_label: server, name, arguments: text, output: result } = item;
    return [{ server, name, input: JSON.parse(text), result }];
  });
  return { calls, text: output_text };
}

async function overMessages(wire: Wire, fields: Json, stream: boolean): Promise<Seen> {
  const { messages } = anthropicFor(harness);
  const body = {
    model: modelOn(wire),
    max_tokens: 100,
    messages: [{ role: "user" as const, content: "hi" }],
    ...fields,
  };
  const { content } = stream
    ? await messages.stream(body).finalMessage()
    : await messages.create(body);
  const blocks = content as unknown as readonly Json[];
  const calls = blocks.flatMap((block): readonly unknown[] => {
    if (block["type"] === "text" || block["type"] === "thinking") return [];
    const { type, name, server_name: server, input, content: result } = block;
    return [{ type, name, server, input, result }];
  });
  const text = blocks.map((block) => stringIn(block["text"]) ?? "").join("");
  return { calls, text };
}

const RUN_OVER_MESSAGES = [
  { type: "server_tool_use", name: "code_execution", input: { code: CODE } },
  {
    type: "code_execution_tool_result",
    result: {
      type: "code_execution_result",
      stdout: OUTPUT,
      stderr: "",
      return_code: 0,
      content: [],
    },
  },
];
const CALL_OVER_MESSAGES = [
  { type: "mcp_tool_use", name: MCP_CALL.name, server: MCP_CALL.server, input: MCP_CALL.input },
  { type: "mcp_tool_result", result: [{ type: "text", text: MCP_OUTPUT, citations: [] }] },
];

describe("the reply", () => {
  for (const stream of [false, true]) {
    const how = stream ? ", streamed" : "";
    for (const wire of ["messages", "gemini"] as const)
      test(`of ${wire} has the run of code over Responses${how}`, async () => {
        harness.providerResponse = () => codeReply(wire, stream);
        const seen = await overResponses(wire, INTERPRETER, stream);
        const outputs = [{ type: "logs", logs: OUTPUT }];
        expect(seen).toEqual({ calls: [{ code: CODE, outputs }], text: TEXT });
      });
    for (const wire of ["responses", "gemini"] as const)
      test(`of ${wire} has the run of code over Messages${how}`, async () => {
        harness.providerResponse = () => codeReply(wire, stream);
        const seen = await overMessages(wire, { tools: [EXECUTION] }, stream);
        expect(seen).toEqual({ calls: RUN_OVER_MESSAGES, text: TEXT });
      });
    test(`of Anthropic has the call of an MCP server over Responses${how}`, async () => {
      harness.providerResponse = () => mcpReply("messages", stream);
      const seen = await overResponses("messages", MCP_TOOL, stream);
      expect(seen).toEqual({ calls: [{ ...MCP_CALL, result: MCP_OUTPUT }], text: TEXT });
    });
    test(`of OpenAI has the call of an MCP server over Messages${how}`, async () => {
      harness.providerResponse = () => mcpReply("responses", stream);
      const seen = await overMessages("responses", { mcp_servers: [SERVER] }, stream);
      expect(seen).toEqual({ calls: CALL_OVER_MESSAGES, text: TEXT });
    });
  }

  test("lists an image that code made as dropped, and has the failed run's error", async () => {
    const outputs = [
      { type: "logs", logs: "Traceback" },
      { type: "image", url: "https://files.example/1.png" },
    ];
    const item = {
      id: "ci_1",
      type: "code_interpreter_call",
      status: "failed",
      code: CODE,
      container_id: "cntr_1",
      outputs,
    };
    harness.providerResponse = () => replyOf("responses", [item], false);
    const body = minimalBody("messages", "responses", "hi", { tools: [EXECUTION] });
    const { json, headers } = await callApi(harness, "messages", body);
    expect(json["content"]).toMatchObject([
      { type: "server_tool_use" },
      { type: "code_execution_tool_result", content: { stdout: "Traceback", return_code: 1 } },
      { type: "text" },
    ]);
    expect(headers.get("x-postern-dropped")).toBe("reply.content[2].code_interpreter_call");
  });
});

describe("a call in the conversation", () => {
  const again = { role: "user", content: "Again." };
  const CASES: readonly (readonly [
    title: string,
    api: "messages" | "responses",
    from: ToolWire,
    to: Wire,
    fields: Json,
    reply: () => Response,
  ])[] = [
    [
      "a run at Google",
      "messages",
      "gemini",
      "messages",
      { tools: [EXECUTION] },
      () => codeReply("gemini", false),
    ],
    [
      "a run at Anthropic",
      "messages",
      "messages",
      "gemini",
      { tools: [EXECUTION] },
      () => codeReply("messages", false),
    ],
    [
      "a run at Google",
      "responses",
      "gemini",
      "responses",
      { tools: [INTERPRETER] },
      () => codeReply("gemini", false),
    ],
    [
      "a run at OpenAI",
      "responses",
      "responses",
      "messages",
      {},
      () => codeReply("responses", false),
    ],
    [
      "an MCP server's call",
      "responses",
      "responses",
      "chat",
      {},
      () => mcpReply("responses", false),
    ],
    [
      "an MCP server's call",
      "messages",
      "responses",
      "messages",
      { mcp_servers: [SERVER] },
      () => mcpReply("responses", false),
    ],
  ];
  for (const [title, api, from, to, fields, reply] of CASES)
    test(`over ${api} of ${title} is left out at ${to}, and its text is sent`, async () => {
      harness.providerResponse = reply;
      const { json } = await callApi(harness, api, minimalBody(api, from, "hi", fields));
      harness.providerResponse = undefined;
      const user = { role: "user", content: "hi" };
      const history =
        api === "messages"
          ? { messages: [user, { role: "assistant", content: json["content"] }, again] }
          : { input: [user, ...(json["output"] as readonly Json[]), again] };
      const own = to === "responses" ? { tools: [INTERPRETER] } : {};
      const { status, text, headers } = await callApi(harness, api, {
        ...minimalBody(api, to, "hi", own),
        ...history,
      });
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
      expect(headers.get("x-postern-dropped")).toContain(
        api === "messages" ? "messages[1].content[0]" : "input[1]",
      );
      const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
      expect(sent).toContain(TEXT);
      for (const one of [CODE, MCP_OUTPUT]) expect(sent).not.toContain(one);
    });
});

describe("a compaction that only OpenAI can read", () => {
  const compaction = { id: "cmp_1", type: "compaction", encrypted_content: "gAAAAABp4CVu" };
  const user = (content: string): Json => ({ role: "user", content });
  const sendItems = (input: readonly Json[]) =>
    callApi(harness, "responses", { ...minimalBody("responses", "messages", ""), input });

  test("is left out after the conversation that it summarizes", async () => {
    const { status, headers } = await sendItems([
      user("one"),
      { role: "assistant", content: "two" },
      compaction,
      user("three"),
    ]);
    expect([status, headers.get("x-postern-dropped")]).toEqual([200, "input[2]"]);
    const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body["messages"]);
    for (const text of ["one", "two", "three"]) expect(sent).toContain(text);
    expect(sent).not.toContain("gAAAA");
  });

  test.each([
    ["stands alone", []],
    ["follows only the user's messages, which a compaction keeps", [user("one")]],
  ])("is refused if it %s", async (_, before) => {
    const { status, json } = await sendItems([...before, compaction, user("three")]);
    expect([status, errorOf(json)["param"]]).toEqual([400, `input[${before.length}]`]);
  });
});
