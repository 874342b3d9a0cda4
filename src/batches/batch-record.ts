// A batch in the form of OpenAI's and of Anthropic's API, with what the gateway adds to both.

import { z } from "zod";
import type { JsonObject } from "../base/json.ts";
import { usdText } from "../base/money/money.ts";
import { HOUR_MS } from "../base/time.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import type { Batch, BatchStatus } from "./batch-rows.ts";
import { PROCESSINGS } from "./create-batch.ts";
import { BATCH_ENDPOINTS } from "./item-call.ts";

export const OPENAI_STATUSES = {
  validating: "validating",
  in_progress: "in_progress",
  canceling: "cancelling",
  completed: "completed",
  expired: "expired",
  canceled: "cancelled",
} as const satisfies Record<BatchStatus, string>;

const Seconds = z.int().nullable();

const GATEWAY_FIELDS = {
  processing: z
    .enum(["gateway", "provider"])
    .describe(
      "`gateway`: the gateway runs the requests itself, at list price. `provider`: a batch of the provider, at its batch price.",
    ),
  provider: z.string().nullable().describe("The provider that runs the batch."),
  cost_usd: z.string().describe("Cost of the requests that have ended, in US dollars."),
};

/** The field `processing` of a request for a new batch. */
export const ProcessingField = z.enum(PROCESSINGS).default("auto").meta({
  description:
    "Who runs the batch. `auto`, the default: the provider if it can, at its batch price and within 24 hours; else the gateway. `gateway`: the gateway, soon and at list price. `provider`: the provider, or an error.",
});

export const BatchRecord = z
  .object({
    id: z.string(),
    object: z.literal("batch"),
    endpoint: z.enum(BATCH_ENDPOINTS).describe("The endpoint of the requests."),
    errors: z.null(),
    input_file_id: z.string().nullable().describe("The file with the requests."),
    completion_window: z.string().describe("As requested."),
    status: z.enum(OPENAI_STATUSES),
    output_file_id: z.string().nullable().describe("The file with the results."),
    error_file_id: z.string().nullable().describe("The file with the errors."),
    created_at: z.int(),
    in_progress_at: Seconds.describe("When it started."),
    expires_at: z.int().describe("When requests that were not run expire."),
    completed_at: Seconds.describe("When it completed."),
    expired_at: Seconds.describe("When it expired."),
    cancelling_at: Seconds.describe("When it was to be cancelled."),
    cancelled_at: Seconds.describe("When it was cancelled."),
    failed_at: z.null().describe("Always null."),
    finalizing_at: Seconds.describe("When its results were written."),
    request_counts: z
      .object({
        total: z.int().describe("All requests."),
        completed: z.int().describe("Succeeded."),
        failed: z.int().describe("Failed."),
      })
      .describe("Requests by state."),
    metadata: z.record(z.string(), z.unknown()).nullable().describe("As requested."),
    ...GATEWAY_FIELDS,
  })
  .meta({
    id: "Batch",
    description: "A batch in the form of OpenAI's API: times are in Unix seconds.",
  });

function seconds(at: number): number {
  return Math.floor(at / 1_000);
}

type Window = Pick<Batch, "createdAt" | "expiresAt">;

function completionWindow({ createdAt, expiresAt }: Window): string {
  return `${Math.round((expiresAt - createdAt) / HOUR_MS)}h`;
}

function processingOf({ provider }: Pick<Batch, "provider">): "gateway" | "provider" {
  return provider === null ? "gateway" : "provider";
}

/** What a background response says of its batch. */
export function responseFields(batch: Window & Pick<Batch, "provider">): JsonObject {
  const { createdAt, provider } = batch;
  return {
    created_at: seconds(createdAt),
    background_options: { completion_window: completionWindow(batch) },
    postern: { processing: processingOf(batch), provider },
  };
}

export function toBatchRecord(batch: Batch): z.infer<typeof BatchRecord> {
  const { status, createdAt, startedAt, expiresAt, endedAt, cancelAt } = batch;
  const secondsIf = (is: boolean, at: number | null): number | null =>
    is && at !== null ? seconds(at) : null;
  const { succeeded, errored, canceled, expired } = batch;
  return {
    id: batch.id,
    object: "batch",
    endpoint: BATCH_ENDPOINTS.find((path) => path === batch.endpoint) ?? "/v1/chat/completions",
    errors: null,
    input_file_id: batch.inputFileId,
    completion_window: completionWindow(batch),
    status: OPENAI_STATUSES[status],
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: seconds(createdAt),
    in_progress_at: secondsIf(true, startedAt),
    expires_at: seconds(expiresAt),
    completed_at: secondsIf(status === "completed", endedAt),
    expired_at: secondsIf(status === "expired", endedAt),
    cancelling_at: secondsIf(true, cancelAt),
    cancelled_at: secondsIf(status === "canceled", endedAt),
    failed_at: null,
    finalizing_at: secondsIf(status === "completed", endedAt),
    request_counts: {
      total: batch.requests,
      completed: succeeded,
      failed: errored + canceled + expired,
    },
    metadata: batch.metadata === null ? null : { ...batch.metadata },
    processing: processingOf(batch),
    provider: batch.provider,
    cost_usd: usdText(batch.cost),
  };
}

export const MessageBatchRecord = z
  .object({
    id: z.string(),
    type: z.literal("message_batch"),
    processing_status: z
      .enum(["in_progress", "canceling", "ended"])
      .describe("`canceling` waits for requests that run; `ended` has results."),
    request_counts: z
      .object({
        processing: z.int().describe("Not ended."),
        succeeded: z.int().describe("Succeeded."),
        errored: z.int().describe("Failed."),
        canceled: z.int().describe("Canceled."),
        expired: z.int().describe("Expired."),
      })
      .describe("Requests by state."),
    created_at: z.string(),
    expires_at: z.string(),
    ended_at: z.string().nullable(),
    cancel_initiated_at: z.string().nullable().describe("When it was to be canceled."),
    archived_at: z.null().describe("Always null."),
    results_url: z.string().nullable().describe("Where the results are."),
    ...GATEWAY_FIELDS,
  })
  .meta({ id: "MessageBatch" });

export function toMessageBatchRecord(
  batch: Batch,
  baseUrl: string,
): z.infer<typeof MessageBatchRecord> {
  const { id, status, requests, succeeded, errored, canceled, expired, endedAt } = batch;
  const isEnded = endedAt !== null;
  return {
    id,
    type: "message_batch",
    processing_status: isEnded ? "ended" : status === "canceling" ? "canceling" : "in_progress",
    request_counts: {
      processing: requests - succeeded - errored - canceled - expired,
      succeeded,
      errored,
      canceled,
      expired,
    },
    created_at: timestamp(batch.createdAt),
    expires_at: timestamp(batch.expiresAt),
    ended_at: timestampOrNull(endedAt),
    cancel_initiated_at: timestampOrNull(batch.cancelAt),
    archived_at: null,
    results_url: isEnded ? `${baseUrl}/v1/messages/batches/${id}/results` : null,
    processing: processingOf(batch),
    provider: batch.provider,
    cost_usd: usdText(batch.cost),
  };
}
