// Usage records, one per model call. It owns the table usage_record. A record contains the measured usage and the
// prices, so that its cost can be recomputed; the ledger writes it in the transaction of the settlement.

import { Fault } from "../base/fault.ts";
import type { GuardrailCheck } from "../base/guard.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { utcDay } from "../base/time.ts";
import {
  type Column,
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Value,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { parseStoredLabels, storedLabels } from "./labels.ts";
import type { ChargesAt } from "./rollup/charge-hours.ts";

export const USAGE_APIS = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "embeddings",
  "images",
  "image_edits",
  "speech",
  "transcriptions",
  "translations",
  "rerank",
  "moderations",
  "decisions",
  "completions",
] as const;
export type UsageApi = (typeof USAGE_APIS)[number];

/** The endpoints of the APIs. */
export const API_PATHS: Readonly<Record<UsageApi, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  gemini: "/v1beta/models",
  embeddings: "/v1/embeddings",
  images: "/v1/images/generations",
  image_edits: "/v1/images/edits",
  speech: "/v1/audio/speech",
  transcriptions: "/v1/audio/transcriptions",
  translations: "/v1/audio/translations",
  rerank: "/v1/rerank",
  moderations: "/v1/moderations",
  decisions: "/v1/decisions",
  completions: "/v1/completions",
};

export const OUTCOMES = [
  "completed",
  "client_aborted",
  "upstream_error",
  "upstream_timeout",
  "shut_down",
  "limit_exceeded",
  "budget_cut",
  "empty_reply",
  "guardrail_denied",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** A part of a call's cost: the count of one meter and its unit price. */
export interface PricedLine {
  readonly meter: string;
  readonly count: number;
  /** The unit price in US dollars, as a decimal. */
  readonly usd: string;
  /** The model whose price applies, if it is not the record's. */
  readonly model?: string;
}

export interface ProviderAttempt {
  readonly provider: string;
  readonly model: string;
  readonly status: number;
  readonly ms: number;
  /** Present if the attempt was made with the caller's own provider key. */
  readonly byok?: true;
  /** The name of the gateway's key, if it was not the one in the settings. Only operators see it. */
  readonly credential?: string;
}

/** A call of a tool of an MCP server that the gateway made. */
export interface McpCallRecord {
  /** As the request names it. */
  readonly server: string;
  readonly tool: string;
  readonly ok: boolean;
  readonly ms: number;
}

/** What only a receipt says of a call. */
export interface ReceiptDetail {
  readonly requestedModel: string;
  /** In hexadecimal, of the bodies as they were received and sent. */
  readonly requestSha256: string;
  readonly responseSha256: string;
  readonly priceSource: string;
  readonly priceChecked: string;
  /** The binding quote that the call was made with. */
  readonly quoteId?: string | undefined;
}

export interface UsageRecord {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly createdAt: number;
  readonly model: string;
  readonly provider: string;
  readonly api: UsageApi;
  readonly stream: boolean;
  readonly outcome: Outcome;
  readonly status: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** One line for every meter above zero. */
  readonly price: readonly PricedLine[];
  readonly attempts: readonly ProviderAttempt[];
  readonly cost: Nano;
  /** The part of the cost that the credits did not cover. The ledger sets it: it is only known of stored records. */
  readonly owed?: Nano;
  readonly byok: boolean;
  /** False if the provider reported no usage and it was estimated. */
  readonly exact: boolean;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
  /** `name=value`, sorted by name. */
  readonly labels: readonly string[];
  /** What a translation could not express, as in the header `x-postern-dropped`. */
  readonly dropped?: readonly string[] | undefined;
  /** What the guardrails of the workspace decided. */
  readonly guardrails?: readonly GuardrailCheck[] | undefined;
  readonly mcpCalls?: readonly McpCallRecord[] | undefined;
  /** The trace of the caller's `traceparent` header. */
  readonly traceId?: string | undefined;
  /** Set if the caller asked for a receipt. */
  readonly receipt?: ReceiptDetail | undefined;
}

export const USAGE_COLUMNS: readonly Column[] = [
  "id:text",
  "account_id:text",
  "key_id:text",
  "created_at:bigint",
  "day:text",
  "model:text",
  "provider:text",
  "api:text",
  "stream:bigint",
  "outcome:text",
  "status:bigint",
  "input_tokens:bigint",
  "cache_read_tokens:bigint",
  "cache_write_tokens:bigint",
  "output_tokens:bigint",
  "reasoning_tokens:bigint",
  "cost_nano:bigint",
  "byok:bigint",
  "exact:bigint",
  "latency_ms:bigint",
  "first_token_ms:bigint",
  "labels:text",
  "detail:text",
  "promo_nano:bigint",
  "paid_nano:bigint",
  "overrun_nano:bigint",
  "charged_at:bigint",
];

export async function findUsage(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<UsageRecord | undefined> {
  const row = await reader.get("select * from usage_record where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  return row && toUsageRecord(row);
}

export async function getUsage(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<UsageRecord> {
  const record = await findUsage(reader, accountId, id);
  if (record !== undefined) return record;
  throw new Fault("not_found", "no such usage record", {
    message: "No usage record has this id. List the records with GET /v1/usage.",
    param: "id",
    next: [{ method: "GET", url: "/v1/usage", why: "List the usage records." }],
  });
}

/** Without `charges`, the call's transfers are rows of their own. */
export function toUsageValues(record: UsageRecord, charges?: ChargesAt): readonly Value[] {
  return [
    record.id,
    record.accountId,
    record.keyId,
    record.createdAt,
    utcDay(record.createdAt),
    record.model,
    record.provider,
    record.api,
    Number(record.stream),
    record.outcome,
    record.status,
    record.inputTokens,
    record.cacheReadTokens,
    record.cacheWriteTokens,
    record.outputTokens,
    record.reasoningTokens,
    record.cost,
    Number(record.byok),
    Number(record.exact),
    record.latencyMs,
    record.firstTokenMs,
    record.labels.length === 0 ? null : storedLabels(record.labels),
    JSON.stringify({
      price: record.price,
      attempts: record.attempts,
      dropped: record.dropped,
      guardrails: record.guardrails,
      mcpCalls: record.mcpCalls,
      traceId: record.traceId,
      receipt: record.receipt,
    }),
    charges?.promo ?? null,
    charges?.paid ?? null,
    charges?.overrun ?? null,
    charges?.at ?? null,
  ];
}

export function toUsageRecord(row: Row): UsageRecord {
  // Safe because only `toUsageValues` writes this column.
  const detail = JSON.parse(text(row, "detail")) as Pick<
    UsageRecord,
    "price" | "attempts" | "dropped" | "guardrails" | "mcpCalls" | "traceId" | "receipt"
  >;
  const labels = textOrNull(row, "labels");
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    createdAt: integer(row, "created_at"),
    model: text(row, "model"),
    provider: text(row, "provider"),
    api: enumValue(row, "api", USAGE_APIS),
    stream: integer(row, "stream") === 1,
    outcome: enumValue(row, "outcome", OUTCOMES),
    status: integer(row, "status"),
    inputTokens: integer(row, "input_tokens"),
    cacheReadTokens: integer(row, "cache_read_tokens"),
    cacheWriteTokens: integer(row, "cache_write_tokens"),
    outputTokens: integer(row, "output_tokens"),
    reasoningTokens: integer(row, "reasoning_tokens"),
    price: detail.price,
    attempts: detail.attempts,
    cost: toNano(row["cost_nano"]),
    owed: toNano(row["overrun_nano"] ?? 0n),
    byok: integer(row, "byok") === 1,
    exact: integer(row, "exact") === 1,
    latencyMs: integer(row, "latency_ms"),
    firstTokenMs: integerOrNull(row, "first_token_ms"),
    labels: labels === null ? [] : parseStoredLabels(labels),
    dropped: detail.dropped,
    guardrails: detail.guardrails,
    mcpCalls: detail.mcpCalls,
    traceId: detail.traceId,
    receipt: detail.receipt,
  };
}
