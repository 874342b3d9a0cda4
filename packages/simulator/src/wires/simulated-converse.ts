// Simulates Amazon Bedrock's Converse API. Its streams are binary frames.

import { encodeEventFrame } from "../encode-event-frame.ts";
import type { JsonObject } from "../json-readers.ts";
import type { ToolCall, Choice, FinishReason, Reply } from "../reply/compose-reply.ts";
import { base62From, hashText, opaqueTextFrom } from "../reply/hash.ts";
import { countTokens, cutToPieces } from "../reply/tokens.ts";
import { parseConverseRequest } from "./converse-request.ts";
import {
  JSON_CONTENT_TYPE,
  applyUsageFault,
  type ApiError,
  type Frame,
  type SimulatedWire,
} from "./simulated-wire.ts";

const STOP_REASONS: Readonly<Record<FinishReason, string>> = {
  done: "end_turn",
  stop_string: "stop_sequence",
  tool: "tool_use",
  length: "max_tokens",
  refusal: "content_filtered",
  filter: "guardrail_intervened",
};

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: "ValidationException",
  401: "UnrecognizedClientException",
  403: "AccessDeniedException",
  404: "ResourceNotFoundException",
  408: "ModelTimeoutException",
  424: "ModelErrorException",
  429: "ThrottlingException",
  500: "InternalServerException",
  503: "ServiceUnavailableException",
};

const encoder = new TextEncoder();
const PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const REPORTED_LATENCY_MS = 100;

export const converseWire: SimulatedWire = {
  name: "converse",
  cachesImplicitly: false,
  newline: "lf",
  parseRequest: parseConverseRequest,
  replyBody: converseBody,
  streamReply: converseEvents,
  streamContentType: () => "application/vnd.amazon.eventstream",
  modelNotFound: () => ({ status: 400, message: "The provided model identifier is invalid." }),
  errorBody: (failure) => ({ message: failure.message }),
  errorHeaders: errorTypeHeader,
  errorFrame: (message) => ({ data: exceptionFrame("modelStreamErrorException", message) }),
  malformedFrame: { data: malformedFrame() },
  // The framing has no comments, so the keep-alive is an event of an unknown type.
  keepaliveFrame: { data: eventFrame("keepalive", {}) },
  requestIdHeader: "x-amzn-requestid",
  rateLimitHeaders: () => ({}),
  missingKeyError: { status: 403, message: "Missing Authentication Token" },
  invalidKeyError: {
    status: 403,
    message: "The security token included in the request is invalid.",
    code: "UnrecognizedClientException",
  },
};

function errorTypeHeader(failure: ApiError): Readonly<Record<string, string>> {
  const known =
    ERROR_TYPES[failure.status] ??
    (failure.status >= 500 ? "InternalServerException" : "ValidationException");
  return {
    "x-amzn-errortype": `${failure.code ?? known}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
  };
}

function converseBody(reply: Reply): JsonObject {
  const usage = converseUsage(reply);
  return {
    output: {
      message: { role: "assistant", content: blocksOf(reply).map((block) => block.content) },
    },
    stopReason: STOP_REASONS[reply.first.finishReason],
    ...(usage === undefined ? {} : { usage }),
    metrics: { latencyMs: REPORTED_LATENCY_MS },
    ...(reply.serviceTier === undefined ? {} : { serviceTier: { type: reply.serviceTier } }),
  };
}

function* converseEvents(reply: Reply): Generator<Frame> {
  yield { data: eventFrame("messageStart", { role: "assistant" }) };
  for (const [contentBlockIndex, block] of blocksOf(reply).entries()) {
    if (block.start !== undefined)
      yield { data: eventFrame("contentBlockStart", { contentBlockIndex, start: block.start }) };
    for (const delta of block.deltas())
      yield { data: eventFrame("contentBlockDelta", { contentBlockIndex, delta }), isDelta: true };
    yield { data: eventFrame("contentBlockStop", { contentBlockIndex }) };
  }
  yield { data: eventFrame("messageStop", { stopReason: STOP_REASONS[reply.first.finishReason] }) };
  const usage = converseUsage(reply);
  const metadata = {
    metrics: { latencyMs: REPORTED_LATENCY_MS },
    ...(usage === undefined ? {} : { usage }),
  };
  yield { data: eventFrame("metadata", metadata), isUsage: true, isTerminal: true };
}

interface ContentBlock {
  readonly content: JsonObject;
  readonly start?: JsonObject;
  readonly deltas: () => Iterable<JsonObject>;
}

function blocksOf(reply: Reply): ContentBlock[] {
  const { first } = reply;
  const blocks: ContentBlock[] = [];
  if (first.reasoning !== "") blocks.push(reasoningBlock(reply, first));
  if (first.text !== "")
    blocks.push({
      content: { text: first.text },
      deltas: () => first.pieces.map((text) => ({ text })),
    });
  if (first.refusal !== "") {
    blocks.push({
      content: { text: first.refusal },
      deltas: () => cutToPieces(first.refusal, 8).map((text) => ({ text })),
    });
  }
  for (const call of first.toolCalls) blocks.push(toolBlock(call));
  return blocks;
}

function reasoningBlock(reply: Reply, choice: Choice): ContentBlock {
  const signature = opaqueTextFrom(hashText(choice.reasoning, reply.seed | 0), 200);
  return {
    content: { reasoningContent: { reasoningText: { text: choice.reasoning, signature } } },
    deltas: () => [
      ...cutToPieces(choice.reasoning, 16).map((text) => ({ reasoningContent: { text } })),
      { reasoningContent: { signature } },
    ],
  };
}

function toolBlock(call: ToolCall): ContentBlock {
  const start = { toolUseId: `tooluse_${base62From(call.seed, 22)}`, name: call.name };
  const input: unknown = call.isComplete ? JSON.parse(call.input) : {};
  return {
    content: { toolUse: { ...start, input } },
    start: { toolUse: start },
    deltas: () =>
      ["", ...cutToPieces(call.input, Math.min(32, countTokens(call.input)))].map((part) => ({
        toolUse: { input: part },
      })),
  };
}

function converseUsage(reply: Reply): JsonObject | undefined {
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h, reasoning } = reply.counts;
  const cacheWrites = cacheWrite5m + cacheWrite1h;
  const ttls = [
    { inputTokens: cacheWrite1h, ttl: "1h" },
    { inputTokens: cacheWrite5m, ttl: "5m" },
  ].filter((detail) => detail.inputTokens > 0);
  return applyUsageFault(
    {
      inputTokens: input,
      outputTokens: output + reasoning,
      totalTokens: input + output + reasoning + cacheRead + cacheWrites,
      cacheReadInputTokens: cacheRead,
      cacheWriteInputTokens: cacheWrites,
      ...(ttls.length === 0 ? {} : { cacheDetails: ttls }),
    },
    reply.directives,
  );
}

function eventFrame(type: string, value: JsonObject): Uint8Array {
  // Real frames are padded to hide the text's length; here the padding depends on the length, to be deterministic.
  const bare = JSON.stringify(value);
  const p = PADDING.slice(0, 1 + (bare.length % PADDING.length));
  const headers = {
    ":event-type": type,
    ":content-type": JSON_CONTENT_TYPE,
    ":message-type": "event",
  };
  return encodeEventFrame(headers, encoder.encode(JSON.stringify({ ...value, p })));
}

function exceptionFrame(type: string, message: string): Uint8Array {
  const headers = {
    ":exception-type": type,
    ":content-type": JSON_CONTENT_TYPE,
    ":message-type": "exception",
  };
  return encodeEventFrame(headers, encoder.encode(JSON.stringify({ message })));
}

/** A frame whose last checksum is wrong. */
function malformedFrame(): Uint8Array {
  const frame = eventFrame("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "torn" } });
  const last = frame.length - 1;
  frame[last] = (frame[last] ?? 0) ^ 0xff;
  return frame;
}
