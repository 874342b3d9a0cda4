// Builds the OpenTelemetry span of a model call from its usage record, by the semantic conventions for generative AI.
// Prompts and replies are not included.

import { createHash, randomBytes } from "node:crypto";
import { usdNumber } from "../base/money/money.ts";
import type { TraceParent } from "../base/network/trace-parent.ts";
import { API_PATHS, type UsageRecord } from "../usage/usage.ts";

export interface CallTrace {
  readonly record: UsageRecord;
  /** The model id as requested. */
  readonly requestedModel: string;
  readonly parent: TraceParent | undefined;
}

export type AttributeValue = string | number | boolean | readonly string[];

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
  /** The outcome of a failed call that the caller did not abort. */
  readonly error: string | undefined;
}

const TRACE_BYTES = 16;
const SPAN_BYTES = 8;

/** The conventions have names for `chat`, `generate_content` and `embeddings` only. */
const OPERATIONS: Readonly<Record<UsageRecord["api"], string>> = {
  chat: "chat",
  responses: "chat",
  messages: "chat",
  gemini: "generate_content",
  embeddings: "embeddings",
  images: "image_generation",
  image_edits: "image_generation",
  speech: "speech_generation",
  transcriptions: "transcription",
  translations: "transcription",
  rerank: "rerank",
  moderations: "moderation",
  decisions: "decision",
  completions: "text_completion",
};

/** Provider names of the conventions that differ from our ids. */
const OTEL_PROVIDER_NAMES: Readonly<Record<string, string>> = {
  azure: "azure.ai.openai",
  bedrock: "aws.bedrock",
  google: "gcp.gemini",
  mistral: "mistral_ai",
  moonshot: "moonshot_ai",
  vertex: "gcp.vertex_ai",
  xai: "x_ai",
};

interface SpanIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** The same for each repetition of a record, so that a collector can recognize it. */
export function idsOfRecord({ id, traceId }: UsageRecord): SpanIds {
  const hash = createHash("sha256").update(id).digest("hex");
  const [trace, span] = [hash.slice(0, 2 * TRACE_BYTES), hash.slice(2 * TRACE_BYTES)];
  return { traceId: traceId ?? trace, spanId: span.slice(0, 2 * SPAN_BYTES) };
}

function newIds(parent: TraceParent | undefined): SpanIds {
  return {
    traceId: parent?.traceId ?? randomBytes(TRACE_BYTES).toString("hex"),
    spanId: randomBytes(SPAN_BYTES).toString("hex"),
  };
}

export function spanOf(
  { record, requestedModel, parent }: CallTrace,
  { traceId, spanId }: SpanIds = newIds(parent),
): Span {
  const operation = OPERATIONS[record.api];
  const error = errorType(record);
  return {
    traceId,
    spanId,
    parentSpanId: parent?.spanId,
    name: `${operation} ${record.model}`,
    startedAt: record.createdAt,
    endedAt: record.createdAt + record.latencyMs,
    attributes: {
      "gen_ai.operation.name": operation,
      "gen_ai.provider.name": OTEL_PROVIDER_NAMES[record.provider] ?? record.provider,
      "gen_ai.request.model": requestedModel,
      "gen_ai.response.model": record.model,
      "gen_ai.usage.input_tokens": record.inputTokens,
      "gen_ai.usage.output_tokens": record.outputTokens,
      "gen_ai.usage.cache_read.input_tokens": record.cacheReadTokens,
      "gen_ai.usage.cache_creation.input_tokens": record.cacheWriteTokens,
      "gen_ai.usage.reasoning.output_tokens": record.reasoningTokens,
      "http.request.method": "POST",
      "http.route": API_PATHS[record.api],
      "http.response.status_code": record.status,
      "error.type": error,
      "postern.request_id": record.id,
      "postern.account_id": record.accountId,
      "postern.key_id": record.keyId,
      "postern.cost_usd": usdNumber(record.cost),
      "postern.outcome": record.outcome,
      "postern.stream": record.stream,
      "postern.byok": record.byok,
      "postern.exact": record.exact,
      "postern.first_token_ms": record.firstTokenMs ?? undefined,
      "postern.attempts": record.attempts.map(
        ({ provider, model, status, ms }) => `${provider} ${model} ${status} ${ms} ms`,
      ),
    },
    error,
  };
}

function errorType({ outcome }: UsageRecord): string | undefined {
  return outcome === "completed" || outcome === "client_aborted" ? undefined : outcome;
}
