// Replies of providers that searched the web, in each of their forms: one query, one result, and a text that cites it.

import { formatSse } from "../../support/format-sse.ts";
import type { Json } from "./harness.ts";

export const SEARCH_QUERY = "rain in Oslo";
export const SEARCH_URL = "https://weather.example/oslo";
const SEARCH_TITLE = "Oslo";
export const SEARCH_TEXT = "It rains.";

export type SearchWire = "responses" | "messages" | "gemini";

const MESSAGE = { id: "msg_1", type: "message", role: "assistant", model: "claude" };
const MESSAGES_USAGE = {
  input_tokens: 3,
  output_tokens: 3,
  server_tool_use: { web_search_requests: 1 },
};
const USE = {
  type: "server_tool_use",
  id: "srvtoolu_1",
  name: "web_search",
  input: { query: SEARCH_QUERY },
};
const RESULT = {
  type: "web_search_tool_result",
  tool_use_id: "srvtoolu_1",
  content: [
    {
      type: "web_search_result",
      url: SEARCH_URL,
      title: SEARCH_TITLE,
      encrypted_content: "EqgfCio=",
      page_age: null,
    },
  ],
};
const MESSAGES_CITATION = {
  type: "web_search_result_location",
  url: SEARCH_URL,
  title: SEARCH_TITLE,
  cited_text: "Rain all day",
  encrypted_index: "Eo8BCioI",
};

const CALL = {
  id: "ws_1",
  type: "web_search_call",
  status: "completed",
  action: {
    type: "search",
    query: SEARCH_QUERY,
    queries: [SEARCH_QUERY],
    sources: [{ type: "url", url: SEARCH_URL }],
  },
};
const ANNOTATION = {
  type: "url_citation",
  start_index: 0,
  end_index: SEARCH_TEXT.length,
  url: SEARCH_URL,
  title: SEARCH_TITLE,
};
const ITEM = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: SEARCH_TEXT, annotations: [ANNOTATION], logprobs: [] }],
};
const RESPONSE = {
  id: "resp_1",
  object: "response",
  created_at: 1_700_000_000,
  status: "completed",
  model: "echo",
  output: [CALL, ITEM],
  usage: { input_tokens: 3, output_tokens: 3, total_tokens: 6 },
};

const GROUNDED = {
  candidates: [
    {
      content: { role: "model", parts: [{ text: SEARCH_TEXT }] },
      finishReason: "STOP",
      groundingMetadata: {
        webSearchQueries: [SEARCH_QUERY],
        groundingChunks: [{ web: { uri: SEARCH_URL, title: SEARCH_TITLE } }],
        groundingSupports: [
          {
            segment: { endIndex: SEARCH_TEXT.length, text: SEARCH_TEXT },
            groundingChunkIndices: [0],
          },
        ],
      },
    },
  ],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 3, totalTokenCount: 6 },
};

const BODIES: Readonly<Record<SearchWire, Json>> = {
  messages: {
    ...MESSAGE,
    content: [USE, RESULT, { type: "text", text: SEARCH_TEXT, citations: [MESSAGES_CITATION] }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: MESSAGES_USAGE,
  },
  responses: RESPONSE,
  gemini: GROUNDED,
};

const EVENTS: Readonly<Record<SearchWire, readonly Json[]>> = {
  messages: [
    {
      type: "message_start",
      message: { ...MESSAGE, content: [], stop_reason: null, usage: { input_tokens: 3 } },
    },
    { type: "content_block_start", index: 0, content_block: { ...USE, input: {} } },
    {
      type: "content_block_delta",
      index: 0,
      delta: { type: "input_json_delta", partial_json: JSON.stringify(USE.input) },
    },
    { type: "content_block_stop", index: 0 },
    { type: "content_block_start", index: 1, content_block: RESULT },
    { type: "content_block_stop", index: 1 },
    { type: "content_block_start", index: 2, content_block: { type: "text", text: "" } },
    {
      type: "content_block_delta",
      index: 2,
      delta: { type: "citations_delta", citation: MESSAGES_CITATION },
    },
    { type: "content_block_delta", index: 2, delta: { type: "text_delta", text: SEARCH_TEXT } },
    { type: "content_block_stop", index: 2 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: MESSAGES_USAGE },
    { type: "message_stop" },
  ],
  responses: [
    { type: "response.created", sequence_number: 0, response: { ...RESPONSE, output: [] } },
    ...RESPONSE.output.flatMap((item, at) => [
      { type: "response.output_item.added", output_index: at, item },
      { type: "response.output_item.done", output_index: at, item },
    ]),
    { type: "response.completed", sequence_number: 5, response: RESPONSE },
  ],
  gemini: [
    { candidates: [{ content: { role: "model", parts: [{ text: "It " }] } }] },
    {
      ...GROUNDED,
      candidates: GROUNDED.candidates.map((one) => ({
        ...one,
        content: { role: "model", parts: [{ text: "rains." }] },
      })),
    },
  ],
};

export function searchedReply(wire: SearchWire, stream: boolean): Response {
  if (!stream) return Response.json(BODIES[wire]);
  const text = EVENTS[wire].map((event) => {
    const { type } = event;
    const named = typeof type === "string" ? { event: type } : {};
    return formatSse({ ...named, data: JSON.stringify(event) });
  });
  return new Response(text.join(""), { headers: { "content-type": "text/event-stream" } });
}
