// Usage records and sums as the API returns them.

import { z } from "zod";
import { creditsOf, usdText } from "../base/money/money.ts";
import { timestamp } from "../http/schemas.ts";
import { cacheHitShare, type Grouping, type UsageSum } from "./usage-stats.ts";
import { OUTCOMES, USAGE_APIS, type UsageRecord } from "./usage.ts";

const Tokens = z
  .object({
    input_tokens: z.int().meta({ description: "All input tokens, including cached ones." }),
    cache_read_tokens: z
      .int()
      .meta({ description: "Input tokens read from the provider's cache." }),
    cache_write_tokens: z
      .int()
      .meta({ description: "Input tokens written to the provider's cache." }),
    output_tokens: z.int().meta({ description: "All output tokens, including reasoning." }),
    reasoning_tokens: z.int().meta({ description: "Output tokens used for reasoning." }),
  })
  .meta({ id: "TokenUsage" });

const PricedLineRecord = z
  .object({
    meter: z.string().meta({ description: "The meter; each token counts in one meter only." }),
    count: z.number(),
    usd: z.string().meta({ description: "Price per unit in US dollars." }),
    model: z
      .string()
      .optional()
      .meta({ description: "The model whose price applies, if it is not the record's model." }),
  })
  .meta({ id: "PricedLine" });

export const UsageRecordSchema = z
  .object({
    id: z.string().meta({ description: "The call's `x-request-id`." }),
    object: z.literal("usage"),
    created_at: z.string(),
    key_id: z.string(),
    model: z.string(),
    provider: z.string(),
    api: z.enum(USAGE_APIS),
    stream: z.boolean(),
    outcome: z.enum(OUTCOMES),
    status: z.int().meta({ description: "The HTTP status of the response." }),
    usage: Tokens,
    exact: z
      .boolean()
      .meta({ description: "False if the provider reported no usage and it was estimated." }),
    price: z.array(PricedLineRecord).meta({
      description:
        "The cost is the sum of `count` × `usd`, rounded up once to a billionth of a dollar.",
    }),
    cost_usd: z.string().meta({ description: "Exact to a billionth of a dollar." }),
    cost_credits: z.number().meta({ description: "One credit is $0.000001." }),
    owed_usd: z.string().meta({
      description:
        "The part of the cost that the credits did not cover. It was not charged: the account owes it.",
    }),
    byok: z
      .boolean()
      .meta({ description: "True if the call used your own provider key and was not charged." }),
    attempts: z.array(
      z.object({ provider: z.string(), model: z.string(), status: z.int(), ms: z.number() }),
    ),
    latency_ms: z.int(),
    first_token_ms: z.int().nullable(),
    labels: z.record(z.string(), z.string()).meta({
      description:
        "The labels of the header `x-postern-labels`, the `session`, `agent` and `parent_agent` that the headers of an agent name, and the `batch` that the call is a request of.",
    }),
    dropped: z.array(z.string()).meta({
      description: "What a translation could not express, as in the header `x-postern-dropped`.",
    }),
    guardrails: z
      .array(
        z.object({
          name: z.string(),
          phase: z.enum(["input", "output"]),
          action: z.enum(["allowed", "masked", "rewritten", "denied", "failed"]),
          ms: z.int(),
        }),
      )
      .meta({ description: "What the guardrails of the workspace decided, and their time." }),
    mcp_calls: z
      .array(
        z.object({
          server: z.string().meta({ description: "Its name in the request." }),
          tool: z.string().meta({ description: "The tool that the model called." }),
          ok: z.boolean().meta({ description: "Whether the tool returned a result." }),
          ms: z.int().meta({ description: "How long the call took, in milliseconds." }),
        }),
      )
      .meta({ description: "The calls that the gateway made to MCP servers." }),
    trace_id: z
      .string()
      .nullable()
      .meta({ description: "The trace of the request's `traceparent` header." }),
  })
  .meta({ id: "UsageRecord" });

export const USAGE_EXAMPLE = {
  id: "req_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "usage",
  created_at: "2026-11-21T09:31:00.000Z",
  key_id: "key_01kah5t3mq7d2c9w4e6r8t0yax",
  model: "sim/echo",
  provider: "sim",
  api: "chat",
  stream: false,
  outcome: "completed",
  status: 200,
  usage: {
    input_tokens: 12,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: 8,
    reasoning_tokens: 0,
  },
  exact: true,
  price: [
    { meter: "input", count: 12, usd: "0.000001" },
    { meter: "output", count: 8, usd: "0.000002" },
  ],
  cost_usd: "0.000028",
  cost_credits: 28,
  owed_usd: "0",
  byok: false,
  attempts: [{ provider: "sim", model: "sim/echo", status: 200, ms: 11 }],
  latency_ms: 12,
  first_token_ms: null,
  labels: { team: "search" },
  dropped: [],
  guardrails: [],
  mcp_calls: [],
  trace_id: null,
};

const Latency = z
  .object({ p50: z.int(), p95: z.int() })
  .nullable()
  .meta({ description: "Milliseconds, estimated from a histogram with doubling buckets." });

const SUM_FIELDS = {
  calls: z.int(),
  errors: z.int().meta({
    description: "Calls that failed. Those that failed before their reply began cost nothing.",
  }),
  client_aborted: z.int().meta({ description: "Calls whose client disconnected." }),
  usage: Tokens,
  cache_hit_share: z.number().meta({
    description: "The share of input tokens read from the provider's cache, from 0 to 1.",
  }),
  cost_usd: z.string(),
  cost_credits: z.number(),
  latency_ms: Latency,
  first_token_ms: Latency,
};

const TotalRecord = z.object(SUM_FIELDS).meta({ id: "UsageTotal" });

const SumRecord = z
  .object({
    day: z.string().optional(),
    hour: z.string().optional(),
    model: z.string().optional(),
    key_id: z.string().optional(),
    provider: z.string().optional(),
    api: z.string().optional(),
    label: z.string().optional(),
    session: z.string().optional(),
    agent: z.string().optional(),
    parent_agent: z.string().optional(),
    batch: z.string().optional(),
    ...SUM_FIELDS,
  })
  .meta({ id: "UsageSum" });

export const UsageSummary = z
  .object({
    object: z.literal("list"),
    data: z.array(SumRecord),
    has_more: z.boolean(),
    next_cursor: z.string().nullable(),
    totals: TotalRecord,
    previous_totals: TotalRecord.nullable().meta({
      description: "Totals of the period of the same length before `from`; null without `from`.",
    }),
  })
  .meta({ id: "UsageSummary" });

const TOTAL_EXAMPLE = {
  calls: 1,
  errors: 0,
  client_aborted: 0,
  usage: USAGE_EXAMPLE.usage,
  cache_hit_share: 0,
  cost_usd: "0.000028",
  cost_credits: 28,
  latency_ms: { p50: 12, p95: 16 },
  first_token_ms: null,
};

export const SUMMARY_EXAMPLE = {
  object: "list",
  data: [{ day: "2026-11-21", ...TOTAL_EXAMPLE }],
  has_more: false,
  next_cursor: null,
  totals: TOTAL_EXAMPLE,
  previous_totals: null,
};

type TokenCounts = Pick<
  UsageSum,
  "inputTokens" | "cacheReadTokens" | "cacheWriteTokens" | "outputTokens" | "reasoningTokens"
>;

function toTokensRecord(sum: TokenCounts): z.infer<typeof Tokens> {
  return {
    input_tokens: sum.inputTokens,
    cache_read_tokens: sum.cacheReadTokens,
    cache_write_tokens: sum.cacheWriteTokens,
    output_tokens: sum.outputTokens,
    reasoning_tokens: sum.reasoningTokens,
  };
}

export function toUsageRecord(record: UsageRecord): z.infer<typeof UsageRecordSchema> {
  return {
    id: record.id,
    object: "usage",
    created_at: timestamp(record.createdAt),
    key_id: record.keyId,
    model: record.model,
    provider: record.provider,
    api: record.api,
    stream: record.stream,
    outcome: record.outcome,
    status: record.status,
    usage: toTokensRecord(record),
    exact: record.exact,
    price: [...record.price],
    cost_usd: usdText(record.cost),
    cost_credits: creditsOf(record.cost),
    owed_usd: usdText(record.owed ?? 0n),
    byok: record.byok,
    attempts: record.attempts.map(({ provider, model, status, ms }) => ({
      provider,
      model,
      status,
      ms,
    })),
    latency_ms: record.latencyMs,
    first_token_ms: record.firstTokenMs,
    labels: Object.fromEntries(record.labels.map(splitLabel)),
    dropped: [...(record.dropped ?? [])],
    guardrails: [...(record.guardrails ?? [])],
    mcp_calls: [...(record.mcpCalls ?? [])],
    trace_id: record.traceId ?? null,
  };
}

function splitLabel(label: string): readonly [name: string, value: string] {
  const end = label.indexOf("=");
  return [label.slice(0, end), label.slice(end + 1)];
}

export function toTotalRecord(sum: UsageSum): z.infer<typeof TotalRecord> {
  return {
    calls: sum.calls,
    errors: sum.errors,
    client_aborted: sum.aborted,
    usage: toTokensRecord(sum),
    cache_hit_share: cacheHitShare(sum),
    cost_usd: usdText(sum.cost),
    cost_credits: creditsOf(sum.cost),
    latency_ms: sum.latencyMs ?? null,
    first_token_ms: sum.firstTokenMs ?? null,
  };
}

export function toSumRecord(sum: UsageSum, grouping: Grouping): z.infer<typeof SumRecord> {
  return { [grouping === "key" ? "key_id" : grouping]: sum.group, ...toTotalRecord(sum) };
}
