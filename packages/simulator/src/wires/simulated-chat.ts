// Simulates OpenAI's Chat Completions API.

import type { JsonObject } from "../json-readers.ts";
import type { ToolCall, Choice, FinishReason, Reply } from "../reply/compose-reply.ts";
import { base62From, hashText, hexFrom } from "../reply/hash.ts";
import { openAiLogprobs } from "../reply/logprobs.ts";
import { countTokens, cutToPieces } from "../reply/tokens.ts";
import { parseChatRequest } from "./chat-request.ts";
import { openAiCommon } from "./openai-common.ts";
import {
  dataEvent,
  applyUsageFault,
  SSE_CONTENT_TYPE,
  type Frame,
  type SimulatedWire,
} from "./simulated-wire.ts";

const FINISH_REASONS: Readonly<Record<FinishReason, string>> = {
  done: "stop",
  stop_string: "stop",
  tool: "tool_calls",
  length: "length",
  refusal: "stop",
  filter: "content_filter",
};

export const chatWire: SimulatedWire = {
  ...openAiCommon,
  name: "chat",
  cachesImplicitly: true,
  newline: "lf",
  parseRequest: parseChatRequest,
  replyBody: chatCompletion,
  streamReply: chatChunks,
  streamContentType: () => SSE_CONTENT_TYPE,
  errorFrame: (message) => ({
    data: dataEvent({ error: { message, type: "server_error", param: null, code: null } }),
  }),
  malformedFrame: {
    data: 'data: {"id":"chatcmpl-garbled","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"tor\n\n',
  },
  keepaliveFrame: { data: ": keepalive\n\n" },
};

function chatCompletion(reply: Reply): unknown {
  const usage = chatUsage(reply);
  return {
    id: `chatcmpl-${base62From(reply.seed, 29)}`,
    object: "chat.completion",
    created: reply.createdSeconds,
    model: reply.model,
    choices: reply.choices.map((choice, index) => ({
      index,
      message: {
        role: "assistant",
        content:
          choice.refusal !== "" || (choice.text === "" && choice.toolCalls.length > 0)
            ? null
            : choice.text,
        ...reasoningField(reply, choice.reasoning),
        ...(choice.toolCalls.length === 0 ? {} : { tool_calls: choice.toolCalls.map(toolCall) }),
        refusal: choice.refusal === "" ? null : choice.refusal,
        annotations: [],
      },
      logprobs: wantsLogprobs(reply)
        ? { content: logprobs(choice.text, reply), refusal: null }
        : null,
      finish_reason: FINISH_REASONS[choice.finishReason],
    })),
    ...(usage === undefined ? {} : { usage }),
    service_tier: reply.serviceTier ?? "default",
    system_fingerprint: `fp_${hexFrom(hashText(reply.model), 10)}`,
  };
}

function* chatChunks(reply: Reply): Generator<Frame> {
  const options = reply.request.body["stream_options"];
  const includesUsage =
    typeof options === "object" &&
    options !== null &&
    "include_usage" in options &&
    options.include_usage === true;
  const head = `data: ${JSON.stringify({
    id: `chatcmpl-${base62From(reply.seed, 29)}`,
    object: "chat.completion.chunk",
    created: reply.createdSeconds,
    model: reply.model,
    service_tier: reply.serviceTier ?? "default",
    system_fingerprint: `fp_${hexFrom(hashText(reply.model), 10)}`,
  }).slice(0, -1)}`;
  const tail = includesUsage ? `,"usage":null}\n\n` : "}\n\n";
  const choiceStreams = reply.choices.map((choice, index) =>
    choiceFrames(reply, choice, { index, head, tail }),
  );
  // Choices of a request with `n` are interleaved, one event of each in turn.
  for (let open = choiceStreams; open.length > 0;) {
    const remaining: Generator<Frame>[] = [];
    for (const choiceStream of open) {
      const next = choiceStream.next();
      if (next.done === true) continue;
      yield next.value;
      remaining.push(choiceStream);
    }
    open = remaining;
  }
  const usage = includesUsage ? chatUsage(reply) : undefined;
  if (usage !== undefined)
    yield { data: `${head},"choices":[],"usage":${JSON.stringify(usage)}}\n\n`, isUsage: true };
  yield { data: "data: [DONE]\n\n", isTerminal: true };
}

interface ChunkEnvelope {
  readonly index: number;
  readonly head: string;
  readonly tail: string;
}

function* choiceFrames(reply: Reply, choice: Choice, envelope: ChunkEnvelope): Generator<Frame> {
  const { index, head, tail } = envelope;
  const frame = (delta: string, finish = "null", scored = "null"): string =>
    `${head},"choices":[{"index":${index},"delta":${delta},"logprobs":${scored},"finish_reason":${finish}}]${tail}`;
  const empty =
    choice.refusal !== "" || (choice.text === "" && choice.toolCalls.length > 0) ? "null" : '""';
  yield {
    data: frame(
      `{"role":"assistant","content":${empty},"refusal":${choice.refusal === "" ? "null" : '""'}}`,
    ),
  };
  for (const piece of cutToPieces(choice.reasoning, 16)) {
    const field = reasoningField(reply, piece);
    if (Object.keys(field).length > 0) yield { data: frame(JSON.stringify(field)), isDelta: true };
  }
  for (const piece of choice.pieces) {
    const scored = wantsLogprobs(reply)
      ? JSON.stringify({ content: logprobs(piece, reply), refusal: null })
      : "null";
    yield { data: frame(`{"content":${JSON.stringify(piece)}}`, "null", scored), isDelta: true };
  }
  for (const piece of cutToPieces(choice.refusal, 8))
    yield { data: frame(`{"refusal":${JSON.stringify(piece)}}`), isDelta: true };
  for (const [at, call] of choice.toolCalls.entries()) {
    for (const part of toolCallDeltas(call, at))
      yield { data: frame(JSON.stringify({ tool_calls: [part] })), isDelta: true };
  }
  yield { data: frame("{}", JSON.stringify(FINISH_REASONS[choice.finishReason])) };
}

function* toolCallDeltas(call: ToolCall, index: number): Generator<JsonObject> {
  const pieces = cutToPieces(call.input, Math.min(32, countTokens(call.input)));
  if (call.isFreeform) {
    yield { index, id: callId(call), type: "custom", custom: { name: call.name, input: "" } };
    for (const input of pieces) yield { index, custom: { input } };
    return;
  }
  yield { index, id: callId(call), type: "function", function: { name: call.name, arguments: "" } };
  for (const piece of pieces) yield { index, function: { arguments: piece } };
}

function toolCall(call: ToolCall): JsonObject {
  return call.isFreeform
    ? { id: callId(call), type: "custom", custom: { name: call.name, input: call.input } }
    : { id: callId(call), type: "function", function: { name: call.name, arguments: call.input } };
}

function callId(call: ToolCall): string {
  return `call_${base62From(call.seed, 24)}`;
}

function reasoningField(reply: Reply, text: string): JsonObject {
  const field = reply.directives["reasoning-field"] ?? "reasoning_content";
  return text === "" || field === "none" ? {} : { [field]: text };
}

function chatUsage(reply: Reply): JsonObject | undefined {
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h, reasoning } = reply.counts;
  const prompt = input + cacheRead + cacheWrite5m + cacheWrite1h;
  const completion = output + reasoning;
  const cacheWrites = cacheWrite5m + cacheWrite1h;
  return applyUsageFault(
    {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      prompt_tokens_details: {
        cached_tokens: cacheRead,
        ...(cacheWrites === 0 ? {} : { cache_write_tokens: cacheWrites }),
        audio_tokens: reply.request.audioTokens,
      },
      completion_tokens_details: {
        reasoning_tokens: reasoning,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    },
    reply.directives,
  );
}

function wantsLogprobs(reply: Reply): boolean {
  return reply.request.body["logprobs"] === true;
}

function logprobs(text: string, reply: Reply): JsonObject[] {
  return openAiLogprobs(text, Number(reply.request.body["top_logprobs"] ?? 0));
}
