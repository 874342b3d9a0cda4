// Routes of /v1/usage.

import { z } from "zod";
import { creditsOf, usdText } from "../base/money.ts";
import { PAGE_LIMIT_DEFAULT } from "../base/pagination.ts";
import { cursorSchema, listSchema, PageLimit, Timestamp, timestamp } from "../http/schemas.ts";
import { keyRoute, type Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import { toCsv } from "./csv.ts";
import {
  getUsage,
  GROUPINGS,
  GROUPS_MAX,
  listUsage,
  OUTCOMES,
  listUsageSums,
  USAGE_APIS,
  type UsageFilter,
  type UsageRecord,
  type UsageSum,
} from "./usage.ts";

const CSV_ROWS_MAX = 10_000;
/** Fits a grouping and a model name. */
const CURSOR_LENGTH_MAX = 300;

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

const UsageRecordSchema = z
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
    cost_credits: z.number().meta({ description: "One credit is 0.000001 USD." }),
    byok: z
      .boolean()
      .meta({ description: "True if the call used your own provider key and was not charged." }),
    attempts: z.array(
      z.object({ provider: z.string(), model: z.string(), status: z.int(), ms: z.number() }),
    ),
    latency_ms: z.int(),
    first_token_ms: z.int().nullable(),
  })
  .meta({ id: "UsageRecord" });

const EXAMPLE = {
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
  byok: false,
  attempts: [{ provider: "sim", model: "sim/echo", status: 200, ms: 11 }],
  latency_ms: 12,
  first_token_ms: null,
};

const FilterQuery = {
  from: Timestamp.optional().meta({ description: "Calls made at or after this time." }),
  to: Timestamp.optional().meta({ description: "Calls made before this time." }),
  model: z.string().max(200).optional().meta({ description: "Only this model." }),
  key_id: z.string().max(64).optional().meta({ description: "Only this key." }),
};

const SumRecord = z
  .object({
    day: z.string().optional(),
    model: z.string().optional(),
    key_id: z.string().optional(),
    calls: z.int(),
    usage: Tokens,
    cost_usd: z.string(),
    cost_credits: z.number(),
  })
  .meta({ id: "UsageSum" });

export function usageRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [listRoute(db), summaryRoute(db), getRoute(db)];
}

function listRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/usage",
    id: "listUsage",
    scope: "usage:read",
    tag: "Usage",
    summary: "List usage records",
    description: `One record per call, newest first. With \`accept: text/csv\`, returns CSV with up to \`limit\` records (default: ${CSV_ROWS_MAX}); the header \`x-next-cursor\` is the cursor of the next page.`,
    dialect: "openai",
    query: z.strictObject({
      ...FilterQuery,
      limit: PageLimit.optional().meta({
        description: `Records per page. Default: ${PAGE_LIMIT_DEFAULT}, or ${CSV_ROWS_MAX} for CSV.`,
      }),
      cursor: cursorSchema("req"),
    }),
    responses: {
      200: {
        description: "A page of usage records.",
        schema: listSchema(UsageRecordSchema, "UsageList"),
        example: { object: "list", data: [EXAMPLE], has_more: false, next_cursor: null },
        alternatives: [{ contentType: "text/csv" }],
        headers: {
          "x-next-cursor": "CSV only: the cursor of the next page, if there is one.",
        },
      },
    },
    faults: [],
    run: async ({ caller, query, headers }) => {
      const csv = headers.get("accept")?.includes("text/csv") === true;
      const limit = query.limit ?? (csv ? CSV_ROWS_MAX : PAGE_LIMIT_DEFAULT);
      const page = await listUsage(db, caller.accountId, parseFilter(query), {
        limit,
        cursor: query.cursor,
      });
      if (!csv) return { status: 200, body: { ...page, data: page.data.map(toUsageRecord) } };
      const headersOut = new Headers({
        "content-type": "text/csv; charset=utf-8",
        "cache-control": "no-store",
      });
      if (page.next_cursor !== null) headersOut.set("x-next-cursor", page.next_cursor);
      return new Response(toCsv(page.data), { headers: headersOut });
    },
  });
}

function summaryRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/usage/summary",
    id: "summarizeUsage",
    scope: "usage:read",
    tag: "Usage",
    summary: "Summarize usage by day, model or key",
    description: `Returns up to \`limit\` groups per page (default: ${GROUPS_MAX}).`,
    dialect: "openai",
    query: z.strictObject({
      ...FilterQuery,
      group_by: z.enum(GROUPINGS).default("day").meta({ description: "What to group by." }),
      limit: PageLimit.optional().meta({
        description: `Groups per page. Default: ${GROUPS_MAX}.`,
      }),
      cursor: z
        .string()
        .max(CURSOR_LENGTH_MAX)
        .optional()
        .meta({ description: "`next_cursor` of the previous page, with the same `group_by`." }),
    }),
    responses: {
      200: {
        description: "A page of groups: days newest first, models and keys in descending order.",
        schema: listSchema(SumRecord, "UsageSummary"),
        example: {
          object: "list",
          data: [
            {
              day: "2026-11-21",
              calls: 1,
              usage: EXAMPLE.usage,
              cost_usd: "0.000028",
              cost_credits: 28,
            },
          ],
          has_more: false,
          next_cursor: null,
        },
      },
    },
    faults: [],
    run: async ({ caller, query }) => {
      const { group_by: grouping, limit = GROUPS_MAX, cursor } = query;
      const name = grouping === "key" ? "key_id" : grouping;
      const page = await listUsageSums(db, caller.accountId, parseFilter(query), {
        grouping,
        limit,
        cursor,
      });
      return {
        status: 200,
        body: { ...page, data: page.data.map((sum) => toSumRecord(sum, name)) },
      };
    },
  });
}

function getRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/usage/{id}",
    id: "getUsage",
    scope: "usage:read",
    tag: "Usage",
    summary: "Get the usage record of a call",
    dialect: "openai",
    params: z.object({
      id: z.string().meta({ description: "The call's `x-request-id`.", example: EXAMPLE.id }),
    }),
    responses: { 200: { description: "The record.", schema: UsageRecordSchema, example: EXAMPLE } },
    faults: ["not_found"],
    run: async ({ caller, params }) => ({
      status: 200,
      body: toUsageRecord(await getUsage(db, caller.accountId, params.id)),
    }),
  });
}

function parseFilter(query: {
  from?: string | undefined;
  to?: string | undefined;
  model?: string | undefined;
  key_id?: string | undefined;
}): UsageFilter {
  return {
    from: query.from === undefined ? undefined : Date.parse(query.from),
    to: query.to === undefined ? undefined : Date.parse(query.to),
    model: query.model,
    keyId: query.key_id,
  };
}

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

function toUsageRecord(record: UsageRecord): z.infer<typeof UsageRecordSchema> {
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
    byok: record.byok,
    attempts: [...record.attempts],
    latency_ms: record.latencyMs,
    first_token_ms: record.firstTokenMs,
  };
}

function toSumRecord(sum: UsageSum, name: "day" | "model" | "key_id"): z.infer<typeof SumRecord> {
  return {
    [name]: sum.group,
    calls: sum.calls,
    usage: toTokensRecord(sum),
    cost_usd: usdText(sum.cost),
    cost_credits: creditsOf(sum.cost),
  };
}
