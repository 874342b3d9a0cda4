// Google's Gemini API, as the provider answers it.

import type { Ask } from "./ask.ts";
import { readGemini } from "./gemini-request.ts";
import { base62From, hashText, opaqueFrom } from "./hash.ts";
import { fieldsOf, textOf, type Fields } from "./json.ts";
import type { Call, Choice, Finish, Reply } from "./reply.ts";
import { countTokens, cutToPieces } from "./tokens.ts";
import { dataEvent, JSON_TYPE, spoilUsage, type Failure, type Frame, type Wire } from "./wire.ts";

const FINISH: Readonly<Record<Finish, string>> = {
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

export const gemini: Wire = {
  name: "gemini",
  cachesUnasked: true,
  newline: "crlf",
  read: readGemini,
  whole: wholeGemini,
  stream: (reply) =>
    isEventStream(reply.ask) ? streamGemini(reply) : arrayOf(streamGemini(reply)),
  streamType: (ask) => (isEventStream(ask) ? "text/event-stream" : JSON_TYPE),
  unknownModel: (model) => ({
    status: 404,
    message: `models/${model} is not found for API version v1beta, or is not supported for generateContent. Call ModelService.ListModels to see the list of available models and their supported methods.`,
  }),
  failure: geminiFailure,
  failureHeaders: () => ({}),
  failureFrame: (message) => ({ data: dataEvent(geminiFailure({ status: 503, message })) }),
  garbledFrame: { data: 'data: {"candidates": [{"content": {"parts": [{"text": "tor\n\n' },
  keepalive: { data: ": keepalive\n\n" },
  requestIdHeader: "x-goog-request-id",
  limitHeaders: () => ({}),
  missingKey: {
    status: 403,
    message:
      "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
  },
  wrongKey: {
    status: 400,
    message: "API key not valid. Please pass a valid API key.",
    code: "API_KEY_INVALID",
  },
};

function geminiFailure(failure: Failure): Fields {
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
function isEventStream(ask: Ask): boolean {
  return ask.events;
}

function wholeGemini(reply: Reply): Fields {
  if (reply.first.finish === "refusal") return blocked(reply);
  return answer(
    reply,
    reply.choices.map((choice, index) => candidate([...partsOf(reply, choice)], index, choice)),
    finalUsage(reply),
  );
}

/** A prompt that is refused has no candidate at all. */
function blocked(reply: Reply): Fields {
  return {
    promptFeedback: { blockReason: "SAFETY" },
    ...tail(reply, usageOf(reply, { candidates: 0, thoughts: 0 })),
  };
}

function* streamGemini(reply: Reply): Generator<Frame> {
  if (reply.first.finish === "refusal") {
    yield { data: dataEvent(blocked(reply)), usage: true, end: true };
    return;
  }
  let candidates = 0;
  const usage = (): Fields | undefined =>
    usageOf(reply, {
      candidates: Math.min(candidates, reply.counts.output),
      thoughts: reply.counts.reasoning,
    });
  for (const [index, choice] of reply.choices.entries()) {
    for (const part of streamedParts(reply, choice)) {
      if (part["thought"] !== true)
        candidates += countTokens(
          textOf(part["text"]) || JSON.stringify(part["functionCall"] ?? ""),
        );
      yield { data: dataEvent(answer(reply, [candidate([part], index)], usage())), delta: true };
    }
  }
  const endings = reply.choices.map((choice, index) => candidate([{ text: "" }], index, choice));
  yield { data: dataEvent(answer(reply, endings, finalUsage(reply))), usage: true, end: true };
}

/** The same replies as one JSON array, which is how the API streams when it is not asked for events. */
function* arrayOf(frames: Iterable<Frame>): Generator<Frame> {
  let opened = false;
  for (const frame of frames) {
    const json = String(frame.data).slice("data: ".length).trimEnd();
    yield { ...frame, data: `${opened ? ",\r\n" : "["}${json}` };
    opened = true;
  }
  yield { data: "]" };
}

function answer(reply: Reply, candidates: readonly Fields[], usage: Fields | undefined): Fields {
  return { candidates, ...tail(reply, usage) };
}

function tail(reply: Reply, usage: Fields | undefined): Fields {
  return {
    ...(usage === undefined ? {} : { usageMetadata: usage }),
    modelVersion: reply.model,
    responseId: base62From(reply.seed, 23),
  };
}

function candidate(parts: readonly Fields[], index: number, ended?: Choice): Fields {
  return {
    content: { ...(parts.length === 0 ? {} : { parts }), role: "model" },
    ...(ended === undefined ? {} : { finishReason: FINISH[ended.finish] }),
    index,
    ...(ended?.finish === "tool" ? { finishMessage: "Model generated function call(s)." } : {}),
  };
}

function* partsOf(reply: Reply, choice: Choice): Generator<Fields> {
  if (choice.reasoning !== "" && showsThoughts(reply))
    yield { text: choice.reasoning, thought: true };
  const signed = signature(reply, choice);
  if (choice.text !== "") yield { text: choice.text, ...(choice.calls.length === 0 ? signed : {}) };
  for (const [index, call] of choice.calls.entries())
    yield { functionCall: functionCall(call), ...(index === 0 ? signed : {}) };
}

function* streamedParts(reply: Reply, choice: Choice): Generator<Fields> {
  if (choice.reasoning !== "" && showsThoughts(reply)) {
    for (const text of cutToPieces(choice.reasoning, 4)) yield { text, thought: true };
  }
  for (const text of choice.pieces) yield { text };
  const signed = signature(reply, choice);
  for (const [index, call] of choice.calls.entries())
    yield { functionCall: functionCall(call), ...(index === 0 ? signed : {}) };
}

function functionCall(call: Call): Fields {
  const args: unknown = call.whole ? JSON.parse(call.input) : {};
  return { name: call.name, args, id: base62From(call.seed, 8).toLowerCase() };
}

function showsThoughts(reply: Reply): boolean {
  return (
    fieldsOf(fieldsOf(reply.ask.body["generationConfig"])["thinkingConfig"])["includeThoughts"] ===
    true
  );
}

function signature(reply: Reply, choice: Choice): Fields {
  return choice.reasoning === ""
    ? {}
    : { thoughtSignature: opaqueFrom(hashText(choice.reasoning, reply.seed | 0), 160) };
}

function finalUsage(reply: Reply): Fields | undefined {
  return usageOf(reply, { candidates: reply.counts.output, thoughts: reply.counts.reasoning });
}

function usageOf(
  reply: Reply,
  made: { readonly candidates: number; readonly thoughts: number },
): Fields | undefined {
  const { input, read, write5m, write1h } = reply.counts;
  const prompt = input + read + write5m + write1h;
  const { imageTokens, audioTokens } = reply.ask;
  const parts: readonly (readonly [string, number])[] = [
    ["TEXT", Math.max(0, prompt - imageTokens - audioTokens)],
    ["IMAGE", imageTokens],
    ["AUDIO", audioTokens],
  ];
  const modalities = parts
    .filter(([, tokens]) => tokens > 0)
    .map(([modality, tokenCount]) => ({ modality, tokenCount }));
  return spoilUsage(
    {
      promptTokenCount: prompt,
      ...(made.candidates === 0 ? {} : { candidatesTokenCount: made.candidates }),
      totalTokenCount: prompt + made.candidates + made.thoughts,
      ...(read === 0
        ? {}
        : {
            cachedContentTokenCount: read,
            cacheTokensDetails: [{ modality: "TEXT", tokenCount: read }],
          }),
      promptTokensDetails: modalities,
      ...(made.thoughts === 0 ? {} : { thoughtsTokenCount: made.thoughts }),
      serviceTier: reply.serviceTier ?? "standard",
    },
    reply.order,
  );
}
