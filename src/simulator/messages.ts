// Anthropic's Messages, as the provider answers it.

import { base62From, hashText, opaqueFrom } from "./hash.ts";
import { isFields, textOf, type Fields } from "./json.ts";
import { readMessages } from "./messages-request.ts";
import type { Call, Choice, Finish, Reply } from "./reply.ts";
import { countTokens, cutToPieces } from "./tokens.ts";
import { namedEvent, spoilUsage, SSE_TYPE, type Failure, type Frame, type Wire } from "./wire.ts";

const STOP_REASONS: Readonly<Record<Finish, string>> = {
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

export const messages: Wire = {
  name: "messages",
  cachesUnasked: false,
  newline: "lf",
  read: readMessages,
  whole: wholeMessage,
  stream: streamMessage,
  streamType: () => SSE_TYPE,
  unknownModel: (model) => ({ status: 404, message: `model: ${model}` }),
  failure: messagesFailure,
  failureHeaders: (failure) => ({
    "x-should-retry": failure.status === 429 || failure.status >= 500 ? "true" : "false",
  }),
  failureFrame: (message) => ({
    data: namedEvent("error", { type: "error", error: { type: "overloaded_error", message } }),
  }),
  garbledFrame: {
    data: 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"tor\n\n',
  },
  keepalive: { data: namedEvent("ping", { type: "ping" }) },
  requestIdHeader: "request-id",
  limitHeaders: (left) => ({
    "anthropic-ratelimit-requests-limit": "4000",
    "anthropic-ratelimit-requests-remaining": String(left),
    "anthropic-ratelimit-requests-reset": "2026-01-02T03:04:05Z",
    "anthropic-ratelimit-input-tokens-limit": "2000000",
    "anthropic-ratelimit-input-tokens-remaining": left === 0 ? "0" : "2000000",
    "anthropic-ratelimit-input-tokens-reset": "2026-01-02T03:04:05Z",
  }),
  missingKey: { status: 401, message: "x-api-key header is required" },
  wrongKey: { status: 401, message: "invalid x-api-key" },
};

function messagesFailure(failure: Failure): Fields {
  const type =
    ERROR_TYPES[failure.status] ?? (failure.status >= 500 ? "api_error" : "invalid_request_error");
  return { type: "error", error: { type, message: failure.message }, request_id: null };
}

function wholeMessage(reply: Reply): Fields {
  const usage = messagesUsage(reply);
  return {
    ...head(reply),
    content: blocksOf(reply).map((block) => block.whole),
    ...ending(reply.first),
    ...(usage === undefined ? {} : { usage }),
  };
}

function head(reply: Reply): Fields {
  return {
    model: reply.model,
    id: `msg_01${base62From(reply.seed, 22)}`,
    type: "message",
    role: "assistant",
  };
}

function ending(choice: Choice): Fields {
  const refused = choice.finish === "refusal" || choice.finish === "filter";
  const details = {
    type: "refusal",
    category: "cyber",
    explanation: "This request was refused, as it was ordered to be.",
  };
  return {
    stop_reason: STOP_REASONS[choice.finish],
    stop_sequence: choice.stopString,
    stop_details: refused ? details : null,
  };
}

function* streamMessage(reply: Reply): Generator<Frame> {
  const usage = messagesUsage(reply);
  const opening =
    usage === undefined
      ? {}
      : { usage: { ...usage, output_tokens: Math.min(1, reply.counts.output) } };
  const message = {
    ...head(reply),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    ...opening,
  };
  yield event({ type: "message_start", message });
  for (const [index, block] of blocksOf(reply).entries()) {
    yield event({ type: "content_block_start", index, content_block: block.opening });
    if (index === 0) yield event({ type: "ping" });
    for (const delta of block.deltas())
      yield { ...event({ type: "content_block_delta", index, delta }), delta: true };
    yield event({ type: "content_block_stop", index });
  }
  const end = event({
    type: "message_delta",
    delta: ending(reply.first),
    ...(usage === undefined ? {} : { usage: finalUsage(usage) }),
  });
  yield { ...end, usage: true };
  yield { ...event({ type: "message_stop" }), end: true };
}

function event(value: Fields): Frame {
  return { data: namedEvent(textOf(value["type"]), value) };
}

interface Block {
  readonly whole: Fields;
  readonly opening: Fields;
  readonly deltas: () => Iterable<Fields>;
}

function blocksOf(reply: Reply): Block[] {
  const { first } = reply;
  const blocks: Block[] = [];
  if (first.reasoning !== "") blocks.push(thinkingBlock(reply));
  if (first.text !== "") {
    blocks.push({
      whole: { type: "text", text: first.text },
      opening: { type: "text", text: "" },
      deltas: () => first.pieces.map((text) => ({ type: "text_delta", text })),
    });
  }
  for (const call of first.calls) blocks.push(toolBlock(call));
  return blocks;
}

function thinkingBlock(reply: Reply): Block {
  const asked = reply.ask.body["thinking"];
  const shown = isFields(asked) && asked["display"] === "omitted" ? "" : reply.first.reasoning;
  const signature = opaqueFrom(hashText(reply.first.reasoning, reply.seed | 0), 200);
  return {
    whole: { type: "thinking", thinking: shown, signature },
    opening: { type: "thinking", thinking: "", signature: "" },
    deltas: () => [
      ...cutToPieces(shown, 16).map((thinking) => ({ type: "thinking_delta", thinking })),
      { type: "signature_delta", signature },
    ],
  };
}

function toolBlock(call: Call): Block {
  const start = { type: "tool_use", id: `toolu_01${base62From(call.seed, 22)}`, name: call.name };
  const caller = { type: "direct" };
  // A call that the token limit cut has half of its JSON in a stream, and cannot have it in an object.
  const input: unknown = call.whole ? JSON.parse(call.input) : {};
  return {
    whole: { ...start, input, caller },
    opening: { ...start, input: {}, caller },
    deltas: () =>
      ["", ...cutToPieces(call.input, Math.min(32, countTokens(call.input)))].map((part) => ({
        type: "input_json_delta",
        partial_json: part,
      })),
  };
}

function messagesUsage(reply: Reply): Fields | undefined {
  const { input, output, read, write5m, write1h, reasoning } = reply.counts;
  return spoilUsage(
    {
      input_tokens: input,
      cache_creation_input_tokens: write5m + write1h,
      cache_read_input_tokens: read,
      cache_creation: { ephemeral_5m_input_tokens: write5m, ephemeral_1h_input_tokens: write1h },
      output_tokens: output + reasoning,
      ...(reasoning === 0 ? {} : { output_tokens_details: { thinking_tokens: reasoning } }),
      service_tier: reply.serviceTier ?? "standard",
      inference_geo: "not_available",
      ...(reply.ask.body["speed"] === undefined ? {} : { speed: reply.ask.body["speed"] }),
    },
    reply.order,
  );
}

/** The last event repeats the counts, without what was settled when the message began. */
function finalUsage(usage: Fields): Fields {
  const { cache_creation: _creation, service_tier: _tier, inference_geo: _geo, ...counts } = usage;
  return counts;
}
