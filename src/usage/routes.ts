// /v1/usage: the HTTP face of the usage room.

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
/** A model's name with its grouping. */
const CURSOR_LENGTH_MAX = 300;

const Tokens = z
  .object({
    input_tokens: z.int().meta({ description: "All input, cached or not." }),
    cache_read_tokens: z
      .int()
      .meta({ description: "Of the input, read from the provider's cache." }),
    cache_write_tokens: z
      .int()
      .meta({ description: "Of the input, written to the provider's cache." }),
    output_tokens: z.int().meta({ description: "All output, reasoning included." }),
    reasoning_tokens: z.int().meta({ description: "Of the output, reasoning." }),
  })
  .meta({ id: "TokenUsage" });

const PricedLineRecord = z
  .object({
    meter: z.string().meta({ description: "What was counted; no token is counted by two meters." }),
    count: z.number(),
    usd: z.string().meta({ description: "US dollars for one." }),
    model: z
      .string()
      .optional()
      .meta({ description: "Whose price it is, where it is not the record's model." }),
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
    status: z.int().meta({ description: "The HTTP status that the caller saw." }),
    usage: Tokens,
    exact: z
      .boolean()
      .meta({ description: "False where the provider gave no numbers and they were estimated." }),
    price: z.array(PricedLineRecord).meta({
      description:
        "The cost is the sum of count × usd, rounded up once to a billionth of a dollar.",
    }),
    cost_usd: z.string().meta({ description: "To the billionth of a dollar." }),
    cost_credits: z.number().meta({ description: "One credit is 0.000001 USD." }),
    byok: z
      .boolean()
      .meta({ description: "Made with the caller's own provider key; not charged." }),
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
    tag: "Usage",
    summary: "The usage ledger: one record a call, newest first",
    description: `With \`accept: text/csv\` the answer is a table of up to ${CSV_ROWS_MAX} records, or of \`limit\`; \`x-next-cursor\` says where it goes on.`,
    dialect: "openai",
    query: z.strictObject({
      ...FilterQuery,
      limit: PageLimit.optional().meta({
        description: `Records on a page: ${PAGE_LIMIT_DEFAULT} unless told, and ${CSV_ROWS_MAX} in a table.`,
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
          "x-next-cursor": "In a table: the cursor of the next one, where there is more.",
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
    tag: "Usage",
    summary: "Usage summed by day, model or key",
    description: `All sums are on one page while they are ${GROUPS_MAX} or fewer, unless \`limit\` says otherwise.`,
    dialect: "openai",
    query: z.strictObject({
      ...FilterQuery,
      group_by: z.enum(GROUPINGS).default("day").meta({ description: "What to sum by." }),
      limit: PageLimit.optional().meta({
        description: `Sums on a page: ${GROUPS_MAX} unless told.`,
      }),
      cursor: z
        .string()
        .max(CURSOR_LENGTH_MAX)
        .optional()
        .meta({ description: "`next_cursor` of the page before, with the same `group_by`." }),
    }),
    responses: {
      200: {
        description: "A page of sums, newest day or last name first.",
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
    tag: "Usage",
    summary: "The usage record of one call",
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
