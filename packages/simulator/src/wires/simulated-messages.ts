// Simulates Anthropic's Messages API.

import { isObject, type JsonObject, stringOrEmpty } from "../json-readers.ts";
import type { ToolCall, Choice, FinishReason, Reply } from "../reply/compose-reply.ts";
import { base62From, hashText, opaqueTextFrom } from "../reply/hash.ts";
import { countTokens, cutToPieces } from "../reply/tokens.ts";
import { parseMessagesRequest } from "./messages-request.ts";
import {
  namedEvent,
  applyUsageFault,
  SSE_CONTENT_TYPE,
  type ApiError,
  type Frame,
  type SimulatedWire,
} from "./simulated-wire.ts";

const STOP_REASONS: Readonly<Record<FinishReason, string>> = {
  done: "end_turn",
  stop_string: "stop_sequence",
  tool: "tool_use",
  length: "max_tokens",
  refusal: "refusal",
  filter: "refusal",
};

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

export const messagesWire: SimulatedWire = {
  name: "messages",
  cachesImplicitly: false,
  newline: "lf",
  parseRequest: parseMessagesRequest,
  replyBody: messageBody,
  streamReply: messageEvents,
  streamContentType: () => SSE_CONTENT_TYPE,
  modelNotFound: (model) => ({ status: 404, message: `model: ${model}` }),
  errorBody: messagesError,
  errorHeaders: (failure) => ({
    "x-should-retry": failure.status === 429 || failure.status >= 500 ? "true" : "false",
  }),
  errorFrame: (message) => ({
    data: namedEvent("error", { type: "error", error: { type: "overloaded_error", message } }),
  }),
  malformedFrame: {
    data: 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"tor\n\n',
  },
  keepaliveFrame: { data: namedEvent("ping", { type: "ping" }) },
  requestIdHeader: "request-id",
  rateLimitHeaders: (remaining) => ({
    "anthropic-ratelimit-requests-limit": "4000",
    "anthropic-ratelimit-requests-remaining": String(remaining),
    "anthropic-ratelimit-requests-reset": "2026-01-02T03:04:05Z",
    "anthropic-ratelimit-input-tokens-limit": "2000000",
    "anthropic-ratelimit-input-tokens-remaining": remaining === 0 ? "0" : "2000000",
    "anthropic-ratelimit-input-tokens-reset": "2026-01-02T03:04:05Z",
  }),
  missingKeyError: { status: 401, message: "x-api-key header is required" },
  invalidKeyError: { status: 401, message: "invalid x-api-key" },
};

function messagesError(failure: ApiError): JsonObject {
  const type =
    ERROR_TYPES[failure.status] ?? (failure.status >= 500 ? "api_error" : "invalid_request_error");
  return { type: "error", error: { type, message: failure.message }, request_id: null };
}

function messageBody(reply: Reply): JsonObject {
  const usage = messagesUsage(reply);
  return {
    ...messageHeader(reply),
    content: blocksOf(reply).map((block) => block.content),
    ...stopFields(reply.first),
    container: null,
    ...(usage === undefined ? {} : { usage }),
  };
}

function messageHeader(reply: Reply): JsonObject {
  return {
    model: reply.model,
    id: `msg_01${base62From(reply.seed, 22)}`,
    type: "message",
    role: "assistant",
  };
}

function stopFields(choice: Choice): JsonObject {
  const isRefusal = choice.finishReason === "refusal" || choice.finishReason === "filter";
  const details = {
    type: "refusal",
    category: "cyber",
    explanation: "A directive refused this request.",
  };
  return {
    stop_reason: STOP_REASONS[choice.finishReason],
    stop_sequence: choice.stopSequence,
    stop_details: isRefusal ? details : null,
  };
}

function* messageEvents(reply: Reply): Generator<Frame> {
  const usage = messagesUsage(reply);
  const opening =
    usage === undefined
      ? {}
      : { usage: { ...usage, output_tokens: Math.min(1, reply.counts.output) } };
  const message = {
    ...messageHeader(reply),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    ...opening,
  };
  yield streamEvent({ type: "message_start", message });
  for (const [index, block] of blocksOf(reply).entries()) {
    yield streamEvent({ type: "content_block_start", index, content_block: block.start });
    if (index === 0) yield streamEvent({ type: "ping" });
    for (const delta of block.deltas())
      yield { ...streamEvent({ type: "content_block_delta", index, delta }), isDelta: true };
    yield streamEvent({ type: "content_block_stop", index });
  }
  const end = streamEvent({
    type: "message_delta",
    delta: stopFields(reply.first),
    ...(usage === undefined ? {} : { usage: finalUsage(usage) }),
  });
  yield { ...end, isUsage: true };
  yield { ...streamEvent({ type: "message_stop" }), isTerminal: true };
}

function streamEvent(value: JsonObject): Frame {
  return { data: namedEvent(stringOrEmpty(value["type"]), value) };
}

interface ContentBlock {
  readonly content: JsonObject;
  readonly start: JsonObject;
  readonly deltas: () => Iterable<JsonObject>;
}

function blocksOf(reply: Reply): ContentBlock[] {
  const { first } = reply;
  const blocks: ContentBlock[] = [];
  if (first.reasoning !== "") blocks.push(thinkingBlock(reply));
  if (first.text !== "") {
    blocks.push({
      // The published schema requires the fields that are empty here.
      content: { type: "text", text: first.text, citations: [] },
      start: { type: "text", text: "", citations: [] },
      deltas: () => first.pieces.map((text) => ({ type: "text_delta", text })),
    });
  }
  for (const call of first.toolCalls) blocks.push(toolBlock(call));
  return blocks;
}

function thinkingBlock(reply: Reply): ContentBlock {
  const requestedThinking = reply.request.body["thinking"];
  const shown =
    isObject(requestedThinking) && requestedThinking["display"] === "omitted"
      ? ""
      : reply.first.reasoning;
  const signature = opaqueTextFrom(hashText(reply.first.reasoning, reply.seed | 0), 200);
  return {
    content: { type: "thinking", thinking: shown, signature },
    start: { type: "thinking", thinking: "", signature: "" },
    deltas: () => [
      ...cutToPieces(shown, 16).map((thinking) => ({ type: "thinking_delta", thinking })),
      { type: "signature_delta", signature },
    ],
  };
}

function toolBlock(call: ToolCall): ContentBlock {
  const start = { type: "tool_use", id: `toolu_01${base62From(call.seed, 22)}`, name: call.name };
  const caller = { type: "direct" };
  // Truncated arguments can be streamed as partial JSON, but not sent as an object.
  const input: unknown = call.isComplete ? JSON.parse(call.input) : {};
  return {
    content: { ...start, input, caller },
    start: { ...start, input: {}, caller },
    deltas: () =>
      ["", ...cutToPieces(call.input, Math.min(32, countTokens(call.input)))].map((part) => ({
        type: "input_json_delta",
        partial_json: part,
      })),
  };
}

function messagesUsage(reply: Reply): JsonObject | undefined {
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h, reasoning } = reply.counts;
  return applyUsageFault(
    {
      input_tokens: input,
      cache_creation_input_tokens: cacheWrite5m + cacheWrite1h,
      cache_read_input_tokens: cacheRead,
      cache_creation: {
        ephemeral_5m_input_tokens: cacheWrite5m,
        ephemeral_1h_input_tokens: cacheWrite1h,
      },
      output_tokens: output + reasoning,
      output_tokens_details: reasoning === 0 ? null : { thinking_tokens: reasoning },
      server_tool_use: null,
      service_tier: reply.serviceTier ?? "standard",
      inference_geo: "not_available",
      ...(reply.request.body["speed"] === undefined ? {} : { speed: reply.request.body["speed"] }),
    },
    reply.directives,
  );
}

/** The last event repeats the counts without the fields that only message_start has. */
function finalUsage(usage: JsonObject): JsonObject {
  const { cache_creation: _creation, service_tier: _tier, inference_geo: _geo, ...counts } = usage;
  return counts;
}
