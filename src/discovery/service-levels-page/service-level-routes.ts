// The routes of the service levels: HTML and JSON, written once for a snapshot of the status.

import { z } from "zod";
import { usdText } from "../../base/money/money.ts";
import { publicRoute, type Route } from "../../http/route.ts";
import { timestamp, timestampOrNull } from "../../http/schemas.ts";
import {
  creditText,
  levelText,
  METRICS,
  MILLIONTHS,
  PERIODS,
  type ServiceLevel,
} from "../../service-levels/service-levels.ts";
import type { StatusSnapshot } from "../../status/availability.ts";
import {
  CACHE_ONE_MINUTE,
  type CachedDocument,
  cachedDocument,
  ETAG_DOC,
  NOT_MODIFIED,
  respondWithDocument,
} from "../cached-document.ts";
import { siteHeaders } from "../site/site-frame.tsx";
import {
  publishedLevels,
  type PublishedLevels,
  serviceLevelsPage,
  SLA_PATH,
} from "./service-levels-page.tsx";

const ServiceLevels = z
  .object({
    object: z.literal("service_levels"),
    updated_at: z.string().meta({ description: "When the figures were read." }),
    data: z
      .array(
        z.object({
          id: z.string(),
          object: z.literal("service_level"),
          text: z.string().meta({ description: "The level as a sentence." }),
          credit: z.string().meta({ description: "What a breach is worth, as a sentence." }),
          model: z.string().meta({ description: "The id of a model, or `*` for each." }),
          metric: z
            .enum(METRICS)
            .meta({ description: "What is measured: see `/docs/service-levels`." }),
          target: z.number().meta({
            description: "A share from 0 to 1 for `availability`, else milliseconds.",
          }),
          period: z.enum(PERIODS).meta({ description: "The window, in UTC." }),
          credit_percent: z.int().meta({ description: "Of what an account paid for the calls." }),
          cap_usd: z.string().meta({ description: "The most per account and month." }),
          starts_at: z.string().meta({ description: "The start of its first window." }),
          ended_at: z.string().nullable().meta({
            description: "When it was turned off: the window that had begun is still covered.",
          }),
        }),
      )
      .meta({ description: "Empty if the operator promises nothing." }),
    models: z
      .array(
        z.object({
          id: z.string(),
          availability: z.number().nullable().meta({
            description: "The share of requests that its providers completed, from 0 to 1.",
          }),
          first_token_p95_ms: z.int().nullable().meta({
            description: "95% of the streams began within this time; `null` without streams.",
          }),
          first_token_p99_ms: z.int().nullable().meta({
            description: "99% of the streams began within this time; `null` without streams.",
          }),
        }),
      )
      .meta({ description: "Measured in the last 90 days, for all accounts." }),
  })
  .meta({ id: "ServiceLevels" });

const EXAMPLE: z.infer<typeof ServiceLevels> = {
  object: "service_levels",
  updated_at: "2026-11-28T12:00:00.000Z",
  data: [
    {
      id: "slv_01kah5t3mq7d2c9w4e6r8t0yax",
      object: "service_level",
      text: "Availability of openai/gpt-5.4-mini per day is at least 99.9%.",
      credit: "10% of what an account paid for the model in the day, at most $50.00 a month",
      model: "openai/gpt-5.4-mini",
      metric: "availability",
      target: 0.999,
      period: "day",
      credit_percent: 10,
      cap_usd: "50",
      starts_at: "2026-11-01T00:00:00.000Z",
      ended_at: null,
    },
  ],
  models: [
    {
      id: "openai/gpt-5.4-mini",
      availability: 0.9992,
      first_token_p95_ms: 910,
      first_token_p99_ms: 1_840,
    },
  ],
};

export interface ServiceLevelRouteDeps {
  readonly readStatus: (now: number) => Promise<StatusSnapshot>;
  readonly readLevels: () => Promise<readonly ServiceLevel[]>;
}

interface Documents {
  readonly html: CachedDocument;
  readonly json: CachedDocument;
}

export function serviceLevelRoutes(deps: ServiceLevelRouteDeps): readonly Route[] {
  let cached: { readonly snapshot: StatusSnapshot; readonly documents: Documents } | undefined;
  const documentsAt = async (now: number): Promise<Documents> => {
    const snapshot = await deps.readStatus(now);
    if (cached?.snapshot !== snapshot) {
      const documents = documentsOf(publishedLevels(snapshot, await deps.readLevels()));
      cached = { snapshot, documents };
    }
    return cached.documents;
  };
  return [
    publicRoute({
      method: "GET",
      path: SLA_PATH,
      id: "getServiceLevelsPage",
      tag: "Discovery",
      dialect: "page",
      hidden: true,
      summary: "Show the service levels",
      responses: { 200: { description: "The page.", contentType: "text/html" } },
      faults: [],
      run: async ({ headers, now }) => respondWithDocument((await documentsAt(now)).html, headers),
    }),
    publicRoute({
      method: "GET",
      path: "/v1/service-levels",
      id: "listServiceLevels",
      tag: "Operations",
      dialect: "openai",
      summary: "List service levels and what was measured",
      responses: {
        200: {
          description: "The service levels that are in force.",
          schema: ServiceLevels,
          example: EXAMPLE,
          headers: ETAG_DOC,
        },
        304: NOT_MODIFIED,
      },
      faults: [],
      run: async ({ headers, now }) => respondWithDocument((await documentsAt(now)).json, headers),
    }),
  ];
}

function documentsOf(published: PublishedLevels): Documents {
  const { "content-type": htmlType = "", ...headers } = siteHeaders();
  return {
    html: cachedDocument(serviceLevelsPage(published), htmlType, {
      ...headers,
      ...CACHE_ONE_MINUTE,
    }),
    json: cachedDocument(JSON.stringify(toJson(published)), "application/json", CACHE_ONE_MINUTE),
  };
}

function toJson({ at, levels, models }: PublishedLevels): z.infer<typeof ServiceLevels> {
  return {
    object: "service_levels",
    updated_at: timestamp(at),
    data: levels.map((level) => ({
      id: level.id,
      object: "service_level",
      text: levelText(level),
      credit: creditText(level),
      model: level.model,
      metric: level.metric,
      target: level.metric === "availability" ? level.target / MILLIONTHS : level.target,
      period: level.period,
      credit_percent: level.creditPercent,
      cap_usd: usdText(level.cap),
      starts_at: timestamp(level.startsAt),
      ended_at: timestampOrNull(level.endedAt),
    })),
    models: models.map(({ id, uptime, firstTokenP95Ms, firstTokenP99Ms }) => ({
      id,
      availability: uptime === undefined ? null : Math.round(uptime * 10_000) / 10_000,
      first_token_p95_ms: firstTokenP95Ms ?? null,
      first_token_p99_ms: firstTokenP99Ms ?? null,
    })),
  };
}
