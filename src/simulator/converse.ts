// Amazon Bedrock's Converse, as the provider answers it. Its streams are binary frames.

import { encodeEventFrame } from "../base/event-stream.ts";
import { readConverse } from "./converse-request.ts";
import { base62From, hashText, opaqueFrom } from "./hash.ts";
import type { Fields } from "./json.ts";
import type { Call, Choice, Finish, Reply } from "./reply.ts";
import { countTokens, cutToPieces } from "./tokens.ts";
import { JSON_TYPE, spoilUsage, type Failure, type Frame, type Wire } from "./wire.ts";

const STOP_REASONS: Readonly<Record<Finish, string>> = {
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
const MADE_UP_LATENCY_MS = 100;

export const converse: Wire = {
  name: "converse",
  cachesUnasked: false,
  newline: "lf",
  read: readConverse,
  whole: wholeConverse,
  stream: streamConverse,
  streamType: () => "application/vnd.amazon.eventstream",
  unknownModel: () => ({ status: 400, message: "The provided model identifier is invalid." }),
  failure: (failure) => ({ message: failure.message }),
  failureHeaders: errorTypeHeader,
  failureFrame: (message) => ({ data: exceptionFrame("modelStreamErrorException", message) }),
  garbledFrame: { data: garbled() },
  // The framing has no comments; an event of a type that nobody knows comes nearest.
  keepalive: { data: eventFrame("keepalive", {}) },
  requestIdHeader: "x-amzn-requestid",
  limitHeaders: () => ({}),
  missingKey: { status: 403, message: "Missing Authentication Token" },
  wrongKey: {
    status: 403,
    message: "The security token included in the request is invalid.",
    code: "UnrecognizedClientException",
  },
};

function errorTypeHeader(failure: Failure): Readonly<Record<string, string>> {
  const known =
    ERROR_TYPES[failure.status] ??
    (failure.status >= 500 ? "InternalServerException" : "ValidationException");
  return {
    "x-amzn-errortype": `${failure.code ?? known}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
  };
}

function wholeConverse(reply: Reply): Fields {
  const usage = converseUsage(reply);
  return {
    output: {
      message: { role: "assistant", content: blocksOf(reply).map((block) => block.whole) },
    },
    stopReason: STOP_REASONS[reply.first.finish],
    ...(usage === undefined ? {} : { usage }),
    metrics: { latencyMs: MADE_UP_LATENCY_MS },
    ...(reply.serviceTier === undefined ? {} : { serviceTier: { type: reply.serviceTier } }),
  };
}

function* streamConverse(reply: Reply): Generator<Frame> {
  yield { data: eventFrame("messageStart", { role: "assistant" }) };
  for (const [contentBlockIndex, block] of blocksOf(reply).entries()) {
    if (block.start !== undefined)
      yield { data: eventFrame("contentBlockStart", { contentBlockIndex, start: block.start }) };
    for (const delta of block.deltas())
      yield { data: eventFrame("contentBlockDelta", { contentBlockIndex, delta }), delta: true };
    yield { data: eventFrame("contentBlockStop", { contentBlockIndex }) };
  }
  yield { data: eventFrame("messageStop", { stopReason: STOP_REASONS[reply.first.finish] }) };
  const usage = converseUsage(reply);
  const metadata = {
    metrics: { latencyMs: MADE_UP_LATENCY_MS },
    ...(usage === undefined ? {} : { usage }),
  };
  yield { data: eventFrame("metadata", metadata), usage: true, end: true };
}

interface Block {
  readonly whole: Fields;
  readonly start?: Fields;
  readonly deltas: () => Iterable<Fields>;
}

function blocksOf(reply: Reply): Block[] {
  const { first } = reply;
  const blocks: Block[] = [];
  if (first.reasoning !== "") blocks.push(reasoningBlock(reply, first));
  if (first.text !== "")
    blocks.push({
      whole: { text: first.text },
      deltas: () => first.pieces.map((text) => ({ text })),
    });
  if (first.refusal !== "") {
    blocks.push({
      whole: { text: first.refusal },
      deltas: () => cutToPieces(first.refusal, 8).map((text) => ({ text })),
    });
  }
  for (const call of first.calls) blocks.push(toolBlock(call));
  return blocks;
}

function reasoningBlock(reply: Reply, choice: Choice): Block {
  const signature = opaqueFrom(hashText(choice.reasoning, reply.seed | 0), 200);
  return {
    whole: { reasoningContent: { reasoningText: { text: choice.reasoning, signature } } },
    deltas: () => [
      ...cutToPieces(choice.reasoning, 16).map((text) => ({ reasoningContent: { text } })),
      { reasoningContent: { signature } },
    ],
  };
}

function toolBlock(call: Call): Block {
  const start = { toolUseId: `tooluse_${base62From(call.seed, 22)}`, name: call.name };
  const input: unknown = call.whole ? JSON.parse(call.input) : {};
  return {
    whole: { toolUse: { ...start, input } },
    start: { toolUse: start },
    deltas: () =>
      ["", ...cutToPieces(call.input, Math.min(32, countTokens(call.input)))].map((part) => ({
        toolUse: { input: part },
      })),
  };
}

function converseUsage(reply: Reply): Fields | undefined {
  const { input, output, read, write5m, write1h, reasoning } = reply.counts;
  const written = write5m + write1h;
  const lives = [
    { inputTokens: write1h, ttl: "1h" },
    { inputTokens: write5m, ttl: "5m" },
  ].filter((detail) => detail.inputTokens > 0);
  return spoilUsage(
    {
      inputTokens: input,
      outputTokens: output + reasoning,
      totalTokens: input + output + reasoning + read + written,
      cacheReadInputTokens: read,
      cacheWriteInputTokens: written,
      ...(lives.length === 0 ? {} : { cacheDetails: lives }),
    },
    reply.order,
  );
}

function eventFrame(type: string, value: Fields): Uint8Array {
  // Real frames are padded so that their length tells nothing of the words inside; here the padding follows the length.
  const bare = JSON.stringify(value);
  const p = PADDING.slice(0, 1 + (bare.length % PADDING.length));
  const headers = { ":event-type": type, ":content-type": JSON_TYPE, ":message-type": "event" };
  return encodeEventFrame(headers, encoder.encode(JSON.stringify({ ...value, p })));
}

function exceptionFrame(type: string, message: string): Uint8Array {
  const headers = {
    ":exception-type": type,
    ":content-type": JSON_TYPE,
    ":message-type": "exception",
  };
  return encodeEventFrame(headers, encoder.encode(JSON.stringify({ message })));
}

/** A frame whose last checksum is wrong. */
function garbled(): Uint8Array {
  const frame = eventFrame("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "torn" } });
  const last = frame.length - 1;
  frame[last] = (frame[last] ?? 0) ^ 0xff;
  return frame;
}
