// Batches and their results as each of the simulated batch APIs shows them.

import { isObject, type JsonObject } from "./json-readers.ts";

export type Form = "openai" | "anthropic" | "gemini" | "mistral" | "together";

export interface Item {
  readonly customId: string;
  readonly url: string;
  readonly body: JsonObject;
  state: "pending" | "done" | "expired" | "canceled";
  status: number;
  result: JsonObject;
}

export interface Batch {
  readonly id: string;
  readonly form: Form;
  readonly createdAt: number;
  readonly endpoint: string;
  readonly inputFileId: string | null;
  readonly model: string;
  readonly name: string;
  readonly metadata: unknown;
  readonly items: readonly Item[];
  failure: { readonly code: string; readonly line: number | null } | undefined;
  isCanceling: boolean;
  isEnded: boolean;
  outputFileId: string | null;
  errorFileId: string | null;
}

export function view(batch: Batch, url: string): JsonObject {
  switch (batch.form) {
    case "openai":
      return openaiView(batch);
    case "anthropic":
      return anthropicView(batch, url);
    case "gemini":
      return geminiView(batch);
    case "mistral":
      return mistralView(batch);
    case "together":
      return togetherView(batch);
  }
}

type State = "in_progress" | "cancelling" | "failed" | "cancelled" | "expired" | "completed";

export function stateOf({ items, failure, isCanceling, isEnded }: Batch): State {
  if (!isEnded) return isCanceling ? "cancelling" : "in_progress";
  if (failure !== undefined) return "failed";
  if (isCanceling) return "cancelled";
  return items.some(({ state }) => state === "expired") ? "expired" : "completed";
}

const GEMINI_STATES: Readonly<Record<State, string>> = {
  in_progress: "RUNNING",
  cancelling: "RUNNING",
  failed: "FAILED",
  cancelled: "CANCELLED",
  expired: "EXPIRED",
  completed: "SUCCEEDED",
};
const RESOURCE_EXHAUSTED = 8;
const INVALID_ARGUMENT = 3;

export function geminiView(batch: Batch): JsonObject {
  const { id, createdAt, model, name, failure, isEnded } = batch;
  const code = failure?.code === "token_limit_exceeded" ? RESOURCE_EXHAUSTED : INVALID_ARGUMENT;
  return {
    name: `batches/${id}`,
    metadata: {
      model: `models/${model}`,
      displayName: name,
      createTime: new Date(createdAt).toISOString(),
      state: `BATCH_STATE_${GEMINI_STATES[stateOf(batch)]}`,
      name: `batches/${id}`,
    },
    ...(isEnded && { done: true }),
    ...(failure !== undefined && { error: { code, message: `Batch failed: ${failure.code}` } }),
  };
}

const MISTRAL_STATES: Readonly<Record<State, string>> = {
  in_progress: "RUNNING",
  cancelling: "CANCELLATION_REQUESTED",
  failed: "FAILED",
  cancelled: "CANCELLED",
  expired: "TIMEOUT_EXCEEDED",
  completed: "SUCCESS",
};

function mistralView(batch: Batch): JsonObject {
  const { id, endpoint, inputFileId, model, metadata, createdAt, failure } = batch;
  return {
    id,
    object: "batch",
    input_files: [inputFileId],
    metadata,
    endpoint,
    model,
    output_file: batch.outputFileId,
    error_file: batch.errorFileId,
    errors: failure === undefined ? [] : [{ message: `Batch failed: ${failure.code}`, count: 1 }],
    status: MISTRAL_STATES[stateOf(batch)],
    created_at: Math.floor(createdAt / 1_000),
    total_requests: batch.items.length,
  };
}

export function togetherView(batch: Batch): JsonObject {
  const { id, endpoint, inputFileId, createdAt, failure, outputFileId, errorFileId } = batch;
  const state = stateOf(batch);
  return {
    id,
    input_file_id: inputFileId,
    endpoint,
    status: state === "cancelling" ? "CANCELING" : state.toUpperCase(),
    created_at: new Date(createdAt).toISOString(),
    ...(outputFileId !== null && { output_file_id: outputFileId }),
    ...(errorFileId !== null && { error_file_id: errorFileId }),
    ...(failure !== undefined && { error: `Batch failed: ${failure.code}` }),
  };
}

function openaiView(batch: Batch): JsonObject {
  const { id, endpoint, inputFileId, metadata, items, failure } = batch;
  const errors = failure && {
    object: "list",
    data: [{ ...failure, message: `Batch failed: ${failure.code}` }],
  };
  return {
    id,
    object: "batch",
    endpoint,
    errors: errors ?? null,
    input_file_id: inputFileId,
    completion_window: "24h",
    status: stateOf(batch),
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: Math.floor(batch.createdAt / 1_000),
    request_counts: {
      total: items.length,
      completed: items.filter(({ status }) => status === 200).length,
      failed: items.filter(({ state, status }) => state === "done" && status !== 200).length,
    },
    metadata,
  };
}

function anthropicView(
  { id, items, createdAt, isEnded, isCanceling }: Batch,
  url: string,
): JsonObject {
  const countOf = (is: (item: Item) => boolean): number => items.filter(is).length;
  const time = new Date(createdAt).toISOString();
  return {
    id,
    type: "message_batch",
    processing_status: isEnded ? "ended" : isCanceling ? "canceling" : "in_progress",
    request_counts: {
      processing: countOf(({ state }) => state === "pending"),
      succeeded: countOf(({ status }) => status === 200),
      errored: countOf(({ state, status }) => state === "done" && status !== 200),
      canceled: countOf(({ state }) => state === "canceled"),
      expired: countOf(({ state }) => state === "expired"),
    },
    created_at: time,
    ended_at: isEnded ? time : null,
    cancel_initiated_at: isCanceling ? time : null,
    results_url: isEnded ? `${new URL(url).origin}/v1/messages/batches/${id}/results` : null,
  };
}

const NOT_RUN: Readonly<Record<string, string>> = {
  expired: "batch_expired",
  canceled: "batch_cancelled",
};

const GRPC_CODES: Readonly<Record<number, number>> = { 400: 3, 403: 7, 404: 5, 429: 8 };

export function geminiResult({ customId, status, result }: Item, hasKey: boolean): JsonObject {
  const named = hasKey ? { metadata: { key: customId } } : {};
  if (status === 200) return { ...named, response: result };
  const { message } = isObject(result["error"]) ? result["error"] : {};
  return { ...named, error: { code: GRPC_CODES[status] ?? 13, message } };
}

export function openaiLine({ customId, state, status, result }: Item): JsonObject {
  const code = NOT_RUN[state];
  return code === undefined
    ? { custom_id: customId, response: { status_code: status, body: result }, error: null }
    : { custom_id: customId, response: null, error: { code, message: code } };
}

export function togetherError({ customId, state, status, result }: Item): JsonObject {
  const { message = state } = isObject(result["error"]) ? result["error"] : {};
  const code = status < 500 ? "batch_client_error" : "batch_server_error";
  return { custom_id: customId, error: { code: NOT_RUN[state] ?? code, message } };
}

export function anthropicLine({ customId, state, status, result }: Item): JsonObject {
  if (state !== "done") return { custom_id: customId, result: { type: state } };
  if (status !== 200) return { custom_id: customId, result: { type: "errored", error: result } };
  const usage = isObject(result["usage"]) ? result["usage"] : {};
  const message = { ...result, usage: { ...usage, service_tier: "batch" } };
  return { custom_id: customId, result: { type: "succeeded", message } };
}
