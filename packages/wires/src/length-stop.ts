// The last events of a stream that a gateway cuts: the API's own stop at the output limit. They are written from what the
// caller has seen so far.

import { isObject, type JsonObject, objectIn, parseObject, stringIn } from "./json-fields.ts";

export interface CutStream {
  /** The first event, where the last one repeats it. */
  readonly first: Uint8Array | undefined;
  readonly latest: Uint8Array | undefined;
  /** Events of finished output items, where the last event repeats them. */
  readonly items: readonly Uint8Array[];
  /** The id for the reply, if none of it was sent. */
  readonly id: string;
  readonly model: string;
  readonly createdSeconds: number;
  readonly usage: {
    readonly inputTokens: number;
    readonly cacheReadTokens: number;
    readonly outputTokens: number;
    readonly reasoningTokens: number;
    readonly costUsd: number;
  };
  readonly showsUsage: boolean;
  /** Why it was cut, as the caller reads it. */
  readonly reason: string;
}

const decoder = new TextDecoder();

export function chatLengthStop(cut: CutStream): string {
  const last = lastData(cut.latest);
  const head = {
    id: stringIn(last["id"]) ?? cut.id,
    object: "chat.completion.chunk",
    created: last["created"] ?? cut.createdSeconds,
    model: stringIn(last["model"]) ?? cut.model,
  };
  const choices = [{ index: 0, delta: {}, logprobs: null, finish_reason: "length" }];
  const stop = dataFrame({ ...head, choices, postern: { stopped_by: cut.reason } });
  const counted = { ...head, choices: [], usage: chatCutUsage(cut.usage) };
  return `${stop}${cut.showsUsage ? dataFrame(counted) : ""}data: [DONE]\n\n`;
}

export function chatCutUsage(usage: CutStream["usage"]): JsonObject {
  const { inputTokens, cacheReadTokens, outputTokens, reasoningTokens, costUsd } = usage;
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cacheReadTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
    cost: costUsd,
  };
}

export function messagesLengthStop(cut: CutStream): string {
  const { inputTokens, cacheReadTokens, outputTokens, costUsd } = cut.usage;
  const last = lastData(cut.latest);
  const uncached = Math.max(0, inputTokens - cacheReadTokens);
  const message = {
    id: cut.id,
    type: "message",
    role: "assistant",
    model: cut.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: uncached, output_tokens: 0 },
  };
  const start =
    cut.latest === undefined ? namedFrame("message_start", { type: "message_start", message }) : "";
  const isOpen = last["type"] === "content_block_start" || last["type"] === "content_block_delta";
  const close = isOpen
    ? namedFrame("content_block_stop", { type: "content_block_stop", index: last["index"] })
    : "";
  const delta = namedFrame("message_delta", {
    type: "message_delta",
    delta: { stop_reason: "max_tokens", stop_sequence: null },
    usage: { output_tokens: outputTokens, cost: costUsd },
    postern: { stopped_by: cut.reason },
  });
  return start + close + delta + namedFrame("message_stop", { type: "message_stop" });
}

export function geminiLengthStop(cut: CutStream): string {
  const { inputTokens, cacheReadTokens, outputTokens, reasoningTokens, costUsd } = cut.usage;
  const last = lastData(cut.latest);
  return dataFrame({
    candidates: [
      { content: { parts: [{ text: "" }], role: "model" }, finishReason: "MAX_TOKENS", index: 0 },
    ],
    usageMetadata: {
      promptTokenCount: inputTokens,
      cachedContentTokenCount: cacheReadTokens,
      candidatesTokenCount: outputTokens - reasoningTokens,
      thoughtsTokenCount: reasoningTokens,
      totalTokenCount: inputTokens + outputTokens,
      cost: costUsd,
    },
    modelVersion: stringIn(last["modelVersion"]) ?? cut.model,
    responseId: stringIn(last["responseId"]) ?? cut.id,
    postern: { stopped_by: cut.reason },
  });
}

export function responsesLengthStop(cut: CutStream): string {
  const sequence = lastData(cut.latest)["sequence_number"];
  const response = objectIn(lastData(cut.first)["response"]) ?? {
    id: cut.id,
    object: "response",
    created_at: cut.createdSeconds,
    model: cut.model,
  };
  return namedFrame("response.incomplete", {
    type: "response.incomplete",
    sequence_number: typeof sequence === "number" ? sequence + 1 : 0,
    response: {
      ...response,
      ...responsesCutEnd(cut.usage),
      output: cut.items.flatMap(doneItems),
    },
    postern: { stopped_by: cut.reason },
  });
}

/** The members of a response that say that it was cut. */
export function responsesCutEnd(usage: CutStream["usage"]): JsonObject {
  const { inputTokens, cacheReadTokens, outputTokens, reasoningTokens, costUsd } = usage;
  return {
    status: "incomplete",
    error: null,
    incomplete_details: { reason: "max_output_tokens" },
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: cacheReadTokens },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: reasoningTokens },
      total_tokens: inputTokens + outputTokens,
      cost: costUsd,
    },
  };
}

function doneItems(bytes: Uint8Array): readonly unknown[] {
  return dataOf(bytes).flatMap(({ type, item }) =>
    type === "response.output_item.done" && isObject(item) ? [item] : [],
  );
}

/** Bytes may have several events. */
function dataOf(bytes: Uint8Array | undefined): readonly JsonObject[] {
  const lines = decoder.decode(bytes).matchAll(/^data: ?(\{.*)$/gm);
  return Array.from(lines, ([, data = ""]) => parseObject(data)).filter(isObject);
}

function lastData(bytes: Uint8Array | undefined): JsonObject {
  return dataOf(bytes).at(-1) ?? {};
}

function dataFrame(data: JsonObject): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function namedFrame(name: string, data: JsonObject): string {
  return `event: ${name}\n${dataFrame(data)}`;
}
