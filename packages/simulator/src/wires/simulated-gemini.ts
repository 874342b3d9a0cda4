// Simulates Google's Gemini API.

import { type JsonObject, objectOrEmpty, stringOrEmpty } from "../json-readers.ts";
import type { ToolCall, Choice, FinishReason, Reply } from "../reply/compose-reply.ts";
import { base62From, hashText, opaqueTextFrom } from "../reply/hash.ts";
import { scoreTokens } from "../reply/logprobs.ts";
import type { NormalizedRequest } from "../reply/normalized-request.ts";
import { countTokens, cutToPieces } from "../reply/tokens.ts";
import { parseGeminiRequest } from "./gemini-request.ts";
import {
  dataEvent,
  JSON_CONTENT_TYPE,
  applyUsageFault,
  type ApiError,
  type Frame,
  type SimulatedWire,
} from "./simulated-wire.ts";

const FINISH_REASONS: Readonly<Record<FinishReason, string>> = {
  done: "STOP",
  stop_string: "STOP",
  tool: "STOP",
  length: "MAX_TOKENS",
  refusal: "SAFETY",
  filter: "SAFETY",
};

const STATUS_NAMES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

export const geminiWire: SimulatedWire = {
  name: "gemini",
  cachesImplicitly: true,
  newline: "crlf",
  parseRequest: parseGeminiRequest,
  replyBody: geminiBody,
  streamReply: (reply) =>
    isEventStream(reply.request) ? geminiChunks(reply) : arrayOf(geminiChunks(reply)),
  streamContentType: (request) =>
    isEventStream(request) ? "text/event-stream" : JSON_CONTENT_TYPE,
  modelNotFound: (model) => ({
    status: 404,
    message: `models/${model} is not found for API version v1beta, or is not supported for generateContent. Call ModelService.ListModels to see the list of available models and their supported methods.`,
  }),
  errorBody: geminiError,
  errorHeaders: () => ({}),
  errorFrame: (message) => ({ data: dataEvent(geminiError({ status: 503, message })) }),
  malformedFrame: { data: 'data: {"candidates": [{"content": {"parts": [{"text": "tor\n\n' },
  keepaliveFrame: { data: ": keepalive\n\n" },
  requestIdHeader: "x-goog-request-id",
  rateLimitHeaders: () => ({}),
  missingKeyError: {
    status: 403,
    message:
      "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
  },
  invalidKeyError: {
    status: 400,
    message: "API key not valid. Please pass a valid API key.",
    code: "API_KEY_INVALID",
  },
};

function geminiError(failure: ApiError): JsonObject {
  const status =
    STATUS_NAMES[failure.status] ?? (failure.status >= 500 ? "INTERNAL" : "INVALID_ARGUMENT");
  const details =
    typeof failure.code === "string"
      ? {
          details: [
            {
              "@type": "type.googleapis.com/google.rpc.ErrorInfo",
              reason: failure.code,
              domain: "googleapis.com",
            },
          ],
        }
      : {};
  return { error: { code: failure.status, message: failure.message, status, ...details } };
}

/** Without `alt=sse` the stream is one JSON array. */
function isEventStream(request: NormalizedRequest): boolean {
  return request.isSse;
}

function geminiBody(reply: Reply): JsonObject {
  if (reply.first.finishReason === "refusal") return blockedBody(reply);
  return chunkBody(
    reply,
    reply.choices.map((choice, index) => ({
      ...candidate([...partsOf(reply, choice)], index, choice),
      ...logprobsFields(reply, choice.text),
    })),
    finalUsage(reply),
  );
}

/** The reply to a blocked prompt has no candidates. */
function blockedBody(reply: Reply): JsonObject {
  return {
    promptFeedback: { blockReason: "SAFETY" },
    ...responseTail(reply, geminiUsage(reply, { candidates: 0, thoughts: 0 })),
  };
}

function* geminiChunks(reply: Reply): Generator<Frame> {
  if (reply.first.finishReason === "refusal") {
    yield { data: dataEvent(blockedBody(reply)), isUsage: true, isTerminal: true };
    return;
  }
  let candidates = 0;
  const usage = (): JsonObject | undefined =>
    geminiUsage(reply, {
      candidates: Math.min(candidates, reply.counts.output),
      thoughts: reply.counts.reasoning,
    });
  for (const [index, choice] of reply.choices.entries()) {
    for (const part of streamedParts(reply, choice)) {
      if (part["thought"] !== true)
        candidates += countTokens(
          stringOrEmpty(part["text"]) || JSON.stringify(part["functionCall"] ?? ""),
        );
      const scored =
        part["thought"] === true ? {} : logprobsFields(reply, stringOrEmpty(part["text"]));
      const one = { ...candidate([part], index), ...scored };
      yield { data: dataEvent(chunkBody(reply, [one], usage())), isDelta: true };
    }
  }
  // The signature of a text comes in an empty part after it.
  const endings = reply.choices.map((choice, index) => {
    const signed = choice.toolCalls.length === 0 ? signature(reply, choice) : {};
    return candidate([{ text: "", ...signed }], index, choice);
  });
  yield {
    data: dataEvent(chunkBody(reply, endings, finalUsage(reply))),
    isUsage: true,
    isTerminal: true,
  };
}

/** The stream as one JSON array, which the API sends without `alt=sse`. */
function* arrayOf(frames: Iterable<Frame>): Generator<Frame> {
  let opened = false;
  for (const frame of frames) {
    const json = String(frame.data).slice("data: ".length).trimEnd();
    yield { ...frame, data: `${opened ? ",\r\n" : "["}${json}` };
    opened = true;
  }
  yield { data: "]" };
}

function chunkBody(
  reply: Reply,
  candidates: readonly JsonObject[],
  usage: JsonObject | undefined,
): JsonObject {
  return { candidates, ...responseTail(reply, usage) };
}

function responseTail(reply: Reply, usage: JsonObject | undefined): JsonObject {
  return {
    ...(usage === undefined ? {} : { usageMetadata: usage }),
    modelVersion: reply.model,
    responseId: base62From(reply.seed, 23),
  };
}

function candidate(parts: readonly JsonObject[], index: number, ended?: Choice): JsonObject {
  return {
    content: { ...(parts.length === 0 ? {} : { parts }), role: "model" },
    ...(ended === undefined ? {} : { finishReason: FINISH_REASONS[ended.finishReason] }),
    index,
    ...(ended?.finishReason === "tool"
      ? { finishMessage: "Model generated function call(s)." }
      : {}),
  };
}

function* partsOf(reply: Reply, choice: Choice): Generator<JsonObject> {
  if (choice.reasoning !== "" && showsThoughts(reply))
    yield { text: choice.reasoning, thought: true };
  const signed = signature(reply, choice);
  if (choice.text !== "")
    yield { text: choice.text, ...(choice.toolCalls.length === 0 ? signed : {}) };
  for (const [index, call] of choice.toolCalls.entries())
    yield { functionCall: functionCall(call), ...(index === 0 ? signed : {}) };
}

function* streamedParts(reply: Reply, choice: Choice): Generator<JsonObject> {
  if (choice.reasoning !== "" && showsThoughts(reply)) {
    for (const text of cutToPieces(choice.reasoning, 4)) yield { text, thought: true };
  }
  for (const text of choice.pieces) yield { text };
  const signed = signature(reply, choice);
  for (const [index, call] of choice.toolCalls.entries())
    yield { functionCall: functionCall(call), ...(index === 0 ? signed : {}) };
}

function functionCall(call: ToolCall): JsonObject {
  const args: unknown = call.isComplete ? JSON.parse(call.input) : {};
  return { name: call.name, args, id: base62From(call.seed, 8).toLowerCase() };
}

function showsThoughts(reply: Reply): boolean {
  return (
    objectOrEmpty(objectOrEmpty(reply.request.body["generationConfig"])["thinkingConfig"])[
      "includeThoughts"
    ] === true
  );
}

function signature(reply: Reply, choice: Choice): JsonObject {
  return choice.reasoning === ""
    ? {}
    : { thoughtSignature: opaqueTextFrom(hashText(choice.reasoning, reply.seed | 0), 160) };
}

function logprobsFields({ request: { body } }: Reply, text: string): JsonObject {
  const config = objectOrEmpty(body["generationConfig"] ?? body["generation_config"]);
  if (config["responseLogprobs"] !== true || text === "") return {};
  const scored = scoreTokens(text, Number(config["logprobs"] ?? 0));
  const entry = ({ token, logprob }: { readonly token: string; readonly logprob: number }) => ({
    token,
    tokenId: hashText(token) >>> 16,
    logProbability: logprob,
  });
  const total = scored.reduce((sum, { logprob }) => sum + logprob, 0);
  return {
    avgLogprobs: total / Math.max(1, scored.length),
    logprobsResult: {
      topCandidates: scored.map(({ top }) => ({ candidates: top.map(entry) })),
      chosenCandidates: scored.map(entry),
    },
  };
}

function finalUsage(reply: Reply): JsonObject | undefined {
  return geminiUsage(reply, { candidates: reply.counts.output, thoughts: reply.counts.reasoning });
}

function geminiUsage(
  reply: Reply,
  base: { readonly candidates: number; readonly thoughts: number },
): JsonObject | undefined {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h } = reply.counts;
  const prompt = input + cacheRead + cacheWrite5m + cacheWrite1h;
  const { imageTokens, audioTokens } = reply.request;
  const parts: readonly (readonly [string, number])[] = [
    ["TEXT", Math.max(0, prompt - imageTokens - audioTokens)],
    ["IMAGE", imageTokens],
    ["AUDIO", audioTokens],
  ];
  const modalities = parts
    .filter(([, tokens]) => tokens > 0)
    .map(([modality, tokenCount]) => ({ modality, tokenCount }));
  return applyUsageFault(
    {
      promptTokenCount: prompt,
      ...(base.candidates === 0 ? {} : { candidatesTokenCount: base.candidates }),
      totalTokenCount: prompt + base.candidates + base.thoughts,
      ...(cacheRead === 0
        ? {}
        : {
            cachedContentTokenCount: cacheRead,
            cacheTokensDetails: [{ modality: "TEXT", tokenCount: cacheRead }],
          }),
      promptTokensDetails: modalities,
      ...(base.thoughts === 0 ? {} : { thoughtsTokenCount: base.thoughts }),
      serviceTier: reply.serviceTier ?? "standard",
    },
    reply.directives,
  );
}
