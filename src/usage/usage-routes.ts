// Routes of /v1/usage.

import { z } from "zod";
import { invalid } from "../base/fault.ts";
import { type Nano, nanoFromUsd } from "../base/money/money.ts";
import { type Page, PAGE_LIMIT_DEFAULT } from "../base/pagination.ts";
import { keyRoute, oneResponse, type Route } from "../http/route.ts";
import { cursorSchema, listSchema, PageLimit, Timestamp, UsdAmount } from "../http/schemas.ts";
import type { Db, Reader } from "../store/db.ts";
import { sumsToCsv, toCsv } from "./csv.ts";
import { SESSION_ID_LENGTH_MAX } from "./session-labels.ts";
import { isTimeZone } from "./time-buckets.ts";
import type { UsageFilter, UsageListFilter } from "./usage-filter.ts";
import { listUsage, type Ranking, rankUsage, USAGE_SORTS } from "./usage-list.ts";
import {
  SUMMARY_EXAMPLE,
  toSumRecord,
  toTotalRecord,
  toUsageRecord,
  USAGE_EXAMPLE,
  UsageRecordSchema,
  UsageSummary,
} from "./usage-record.ts";
import {
  GROUPINGS,
  GROUPS_MAX,
  listUsageSums,
  previousPeriod,
  readUsage,
  totalUsage,
} from "./usage-stats.ts";
import { getUsage, OUTCOMES, USAGE_APIS, type UsageRecord } from "./usage.ts";

const CSV_ROWS_MAX = 10_000;
/** Fits a grouping and a model name. */
const CURSOR_LENGTH_MAX = 300;
const CSV_HEADERS = { "x-next-cursor": "CSV only: the cursor of the next page, if there is one." };

const IdQuery = z.string().max(SESSION_ID_LENGTH_MAX).optional();

const FilterQuery = {
  from: Timestamp.optional().meta({ description: "Calls made at or after this time." }),
  to: Timestamp.optional().meta({ description: "Calls made before this time." }),
  model: z.string().max(200).optional().meta({ description: "Only this model." }),
  key_id: z.string().max(64).optional().meta({ description: "Only this key." }),
  provider: z.string().max(64).optional().meta({ description: "Only this provider." }),
  api: z.enum(USAGE_APIS).optional().meta({ description: "Of this API." }),
  label: z
    .string()
    .max(100)
    .optional()
    .meta({ description: "Only calls with this label, as `name=value`." }),
  session: IdQuery.meta({ description: "Only calls of this session." }),
  agent: IdQuery.meta({ description: "Only calls of this agent." }),
  parent_agent: IdQuery.meta({ description: "Only calls of agents that this agent started." }),
  batch: IdQuery.meta({ description: "Only requests of this batch." }),
};

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
    description: `One record per call, newest first. With a filter that few calls match, a page can have fewer records than \`limit\` and still be followed by others. With \`accept: text/csv\`, returns CSV with up to \`limit\` records (default: ${CSV_ROWS_MAX}); the header \`x-next-cursor\` is the cursor of the next page.`,
    dialect: "openai",
    query: z.strictObject({
      ...FilterQuery,
      outcome: z
        .enum([...OUTCOMES, "failed"])
        .optional()
        .meta({ description: "Only calls with this outcome; `failed` stands for every failure." }),
      status: z.coerce
        .number()
        .int()
        .min(100)
        .max(599)
        .optional()
        .meta({ description: "Only calls with this HTTP status." }),
      request_id: z
        .string()
        .max(64)
        .optional()
        .meta({ description: "Only the call with this `x-request-id`." }),
      min_cost_usd: UsdAmount.optional().meta({
        description: "Only calls that cost at least this many US dollars.",
      }),
      sort: z.enum(USAGE_SORTS).optional().meta({
        description:
          "The `limit` calls with the highest cost, latency or number of tokens, the highest first, among the newest 100,000 of the period. Has no further pages.",
      }),
      limit: PageLimit.optional().meta({
        description: `Records per page. Default: ${PAGE_LIMIT_DEFAULT}, or ${CSV_ROWS_MAX} for CSV.`,
      }),
      cursor: cursorSchema("req"),
    }),
    responses: {
      200: {
        description: "A page of usage records.",
        schema: listSchema(UsageRecordSchema, "UsageList"),
        example: { object: "list", data: [USAGE_EXAMPLE], has_more: false, next_cursor: null },
        alternatives: [{ contentType: "text/csv" }],
        headers: CSV_HEADERS,
      },
    },
    faults: [],
    run: async ({ caller, query, headers }) => {
      const isCsv = acceptsCsv(headers);
      const { limit = isCsv ? CSV_ROWS_MAX : PAGE_LIMIT_DEFAULT, cursor } = query;
      const { sort, outcome, status, request_id: id } = query;
      const minCost = parseMinCost(query.min_cost_usd);
      const filter = { ...parseFilter(query), outcome, status, id, minCost };
      const page = await readUsage(db, (reader) =>
        sort === undefined
          ? listUsage(reader, caller.accountId, filter, { limit, cursor })
          : rankPage(reader, caller.accountId, filter, { sort, limit }),
      );
      return isCsv
        ? csvResponse(await toCsv(page.data), page)
        : { status: 200, body: { ...page, data: page.data.map(toUsageRecord) } };
    },
  });
}

async function rankPage(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
  ranking: Ranking,
): Promise<Page<UsageRecord>> {
  const { records } = await rankUsage(reader, accountId, filter, ranking);
  return { object: "list", data: records, has_more: false, next_cursor: null };
}

function parseMinCost(usd: string | number | undefined): Nano | undefined {
  if (usd === undefined) return undefined;
  const cost = nanoFromUsd(usd);
  if (cost === undefined)
    throw invalid(
      "min_cost_usd",
      "`min_cost_usd` must be an amount of US dollars with at most nine decimals.",
    );
  return cost;
}

function summaryRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/usage/summary",
    id: "summarizeUsage",
    scope: "usage:read",
    tag: "Usage",
    summary: "Summarize usage by time, model, key, provider, API, label or session",
    description: `Returns up to \`limit\` groups per page (default: ${GROUPS_MAX}), with the totals of the period and of the one before it. With \`accept: text/csv\`, returns the groups as CSV; the header \`x-next-cursor\` is the cursor of the next page. A call with several labels counts in each of them, so sums can be filtered by one of \`label\`, \`session\`, \`agent\`, \`parent_agent\` and \`batch\`.`,
    dialect: "openai",
    query: z.strictObject({
      ...FilterQuery,
      group_by: z.enum(GROUPINGS).default("day").meta({ description: "What to group by." }),
      time_zone: z.string().max(64).default("UTC").meta({
        description:
          "The IANA time zone of days, such as `Europe/Berlin`. Where it differs from UTC by a fraction of an hour, days start at the full hour before.",
      }),
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
        description:
          "A page of groups: days and hours newest first, other groups in descending order.",
        schema: UsageSummary,
        example: SUMMARY_EXAMPLE,
        alternatives: [{ contentType: "text/csv" }],
        headers: CSV_HEADERS,
      },
    },
    faults: [],
    run: async ({ caller, query, headers, now }) => {
      const { group_by: grouping, limit = GROUPS_MAX, cursor, time_zone: timeZone } = query;
      if (!isTimeZone(timeZone))
        throw invalid(
          "time_zone",
          "`time_zone` must be an IANA time zone, such as `Europe/Berlin`.",
        );
      const filter = untilNow(parseFilter(query), now);
      return readUsage(db, async (reader) => {
        const { accountId } = caller;
        const { total, ...page } = await listUsageSums(
          reader,
          accountId,
          { ...filter, timeZone },
          { grouping, limit, cursor },
        );
        if (acceptsCsv(headers)) return csvResponse(await sumsToCsv(page.data, grouping), page);
        const previous = previousPeriod(filter, now);
        const body = {
          ...page,
          data: page.data.map((sum) => toSumRecord(sum, grouping)),
          totals: toTotalRecord(total),
          previous_totals:
            previous === undefined
              ? null
              : toTotalRecord(await totalUsage(reader, accountId, previous)),
        };
        return { status: 200, body };
      });
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
      id: z.string().meta({ description: "The call's `x-request-id`.", example: USAGE_EXAMPLE.id }),
    }),
    responses: oneResponse("The record.", UsageRecordSchema, USAGE_EXAMPLE),
    faults: ["not_found"],
    run: async ({ caller, params }) => ({
      status: 200,
      body: toUsageRecord(await getUsage(db, caller.accountId, params.id)),
    }),
  });
}

type FilterInput = {
  readonly [Name in keyof typeof FilterQuery]?: z.infer<(typeof FilterQuery)[Name]>;
};

function parseFilter(query: FilterInput): UsageFilter {
  return {
    from: query.from === undefined ? undefined : Date.parse(query.from),
    to: query.to === undefined ? undefined : Date.parse(query.to),
    model: query.model,
    keyId: query.key_id,
    provider: query.provider,
    api: query.api,
    label: query.label,
    session: query.session,
    agent: query.agent,
    parentAgent: query.parent_agent,
    batch: query.batch,
  };
}

/** A period that ends in the future ends now: then the roll-ups have all of it. */
function untilNow(filter: UsageFilter, now: number): UsageFilter {
  return filter.to !== undefined && filter.to > now ? { ...filter, to: undefined } : filter;
}

function acceptsCsv(headers: Headers): boolean {
  return headers.get("accept")?.includes("text/csv") === true;
}

function csvResponse(csv: string, { next_cursor: next }: Page<unknown>): Response {
  const headers = new Headers({
    "content-type": "text/csv; charset=utf-8",
    "cache-control": "no-store",
  });
  if (next !== null) headers.set("x-next-cursor", next);
  return new Response(csv, { headers });
}
