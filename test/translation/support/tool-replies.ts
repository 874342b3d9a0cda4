// Replies of providers that ran code or called an MCP server, in each of their forms, whole or streamed.

import { formatSse } from "../../support/format-sse.ts";
import type { Json } from "./harness.ts";

export type ToolWire = "responses" | "messages" | "gemini";

export const TEXT = "It is 4.";
export const CODE = "print(2 + 2)";
export const OUTPUT = "4\n";
export const MCP_CALL = { server: "docs", name: "ask", input: { question: "Why?" } };
export const MCP_OUTPUT = "Because.";

const CODE_ITEMS: Readonly<Record<ToolWire, readonly Json[]>> = {
  responses: [
    {
      id: "ci_1",
      type: "code_interpreter_call",
      status: "completed",
      code: CODE,
      container_id: "cntr_1",
      outputs: [{ type: "logs", logs: OUTPUT }],
    },
  ],
  messages: [
    { type: "server_tool_use", id: "srvtoolu_1", name: "code_execution", input: { code: CODE } },
    {
      type: "code_execution_tool_result",
      tool_use_id: "srvtoolu_1",
      content: {
        type: "code_execution_result",
        stdout: OUTPUT,
        stderr: "",
        return_code: 0,
        content: [],
      },
    },
  ],
  gemini: [
    { executableCode: { language: "PYTHON", code: CODE } },
    { codeExecutionResult: { outcome: "OUTCOME_OK", output: OUTPUT } },
  ],
};

const MCP_ITEMS: Readonly<Record<"responses" | "messages", readonly Json[]>> = {
  responses: [
    { id: "mcpl_1", type: "mcp_list_tools", server_label: MCP_CALL.server, tools: [] },
    {
      id: "mcp_1",
      type: "mcp_call",
      status: "completed",
      approval_request_id: null,
      server_label: MCP_CALL.server,
      name: MCP_CALL.name,
      arguments: JSON.stringify(MCP_CALL.input),
      output: MCP_OUTPUT,
      error: null,
    },
  ],
  messages: [
    {
      type: "mcp_tool_use",
      id: "mcptoolu_1",
      name: MCP_CALL.name,
      server_name: MCP_CALL.server,
      input: MCP_CALL.input,
    },
    {
      type: "mcp_tool_result",
      tool_use_id: "mcptoolu_1",
      is_error: false,
      content: [{ type: "text", text: MCP_OUTPUT }],
    },
  ],
};

export function codeReply(wire: ToolWire, stream: boolean): Response {
  return replyOf(wire, CODE_ITEMS[wire], stream);
}

export function mcpReply(wire: "responses" | "messages", stream: boolean): Response {
  return replyOf(wire, MCP_ITEMS[wire], stream);
}

export function replyOf(wire: ToolWire, items: readonly Json[], stream: boolean): Response {
  const { body, events } = FORMS[wire](items);
  if (!stream) return Response.json(body);
  const text = events.map((event) => {
    const { type } = event;
    const named = typeof type === "string" ? { event: type } : {};
    return formatSse({ ...named, data: JSON.stringify(event) });
  });
  return new Response(text.join(""), { headers: { "content-type": "text/event-stream" } });
}

type Form = (items: readonly Json[]) => { readonly body: Json; readonly events: readonly Json[] };

const USAGE = { input_tokens: 3, output_tokens: 3 };

const FORMS: Readonly<Record<ToolWire, Form>> = {
  responses: (items) => {
    const content = [{ type: "output_text", text: TEXT, annotations: [], logprobs: [] }];
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content,
    };
    const body = {
      id: "resp_1",
      object: "response",
      created_at: 1_700_000_000,
      status: "completed",
      model: "echo",
      output: [...items, message],
      usage: { ...USAGE, total_tokens: 6 },
    };
    const events = [
      { type: "response.created", sequence_number: 0, response: { ...body, output: [] } },
      ...body.output.flatMap((item, at) => [
        { type: "response.output_item.added", output_index: at, item },
        { type: "response.output_item.done", output_index: at, item },
      ]),
      { type: "response.completed", sequence_number: 9, response: body },
    ];
    return { body, events };
  },
  messages: (items) => {
    const message = { id: "msg_1", type: "message", role: "assistant", model: "claude" };
    const end = { stop_reason: "end_turn", stop_sequence: null };
    const content = [...items, { type: "text", text: TEXT, citations: null }];
    const start = { ...message, content: [], stop_reason: null, usage: { input_tokens: 3 } };
    const events = [
      { type: "message_start", message: start },
      ...content.flatMap(blockEvents),
      { type: "message_delta", delta: end, usage: USAGE },
      { type: "message_stop" },
    ];
    return { body: { ...message, content, ...end, usage: USAGE }, events };
  },
  gemini: (items) => {
    const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 3, totalTokenCount: 6 };
    const chunk = (parts: readonly Json[], end: Json): Json => ({
      candidates: [{ content: { role: "model", parts }, ...end }],
    });
    const last = { finishReason: "STOP" };
    return {
      body: { ...chunk([...items, { text: TEXT }], last), usageMetadata },
      events: [
        ...items.map((item) => chunk([item], {})),
        { ...chunk([{ text: TEXT }], last), usageMetadata },
      ],
    };
  },
};

function blockEvents(block: Json, index: number): readonly Json[] {
  const stop = { type: "content_block_stop", index };
  if (block["type"] === "text")
    return [
      { type: "content_block_start", index, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index, delta: { type: "text_delta", text: block["text"] } },
      stop,
    ];
  if (block["input"] === undefined)
    return [{ type: "content_block_start", index, content_block: block }, stop];
  const partial = JSON.stringify(block["input"]);
  return [
    { type: "content_block_start", index, content_block: { ...block, input: {} } },
    {
      type: "content_block_delta",
      index,
      delta: { type: "input_json_delta", partial_json: partial },
    },
    stop,
  ];
}
