// The routes of the status page: HTML, JSON and a feed of incidents. Each is written once for a snapshot.

import { z } from "zod";
import { publicRoute, type ResponseDoc, type Route } from "../../http/route.ts";
import { type Figures, openIncidents, type StatusSnapshot } from "../../status/availability.ts";
import { INCIDENT_IMPACTS, INCIDENT_STATES } from "../../status/incidents.ts";
import {
  CACHE_ONE_MINUTE,
  type CachedDocument,
  cachedDocument,
  ETAG_DOC,
  NOT_MODIFIED,
  respondWithDocument,
} from "../cached-document.ts";
import { PRODUCT_NAME } from "../discovery-settings.ts";
import { siteHeaders } from "../site/site-frame.tsx";
import { FEED_PATH, STATE_LABELS } from "./status-labels.ts";
import { statusPage } from "./status-page.tsx";

const PAGE = {
  method: "GET",
  tag: "Discovery",
  dialect: "page",
  hidden: true,
  faults: [],
} as const;

const Share = z.number().nullable().meta({
  description:
    "The share of requests that the provider completed, from 0 to 1; `null` with fewer than five.",
});
const Milliseconds = z.int().nullable();
const FIGURES = {
  uptime: Share,
  latency_ms: Milliseconds.meta({ description: "Median time to the end of a reply." }),
  first_token_ms: Milliseconds.meta({ description: "Median time to the first token of a stream." }),
};

const Status = z
  .object({
    object: z.literal("status"),
    state: z
      .enum(["operational", "incident", "maintenance"])
      .meta({ description: "`incident` or `maintenance` while the operator has an open one." }),
    updated_at: z.string().meta({ description: "When the figures were read." }),
    incidents: z
      .array(
        z.object({
          id: z.string(),
          title: z.string().meta({ description: "What happened, in a few words." }),
          impact: z.enum(INCIDENT_IMPACTS).meta({
            description:
              "`degraded`: some calls fail or are slow. `outage`: calls fail. `maintenance`: planned.",
          }),
          state: z.enum(INCIDENT_STATES).meta({ description: "The state of the newest update." }),
          updates: z
            .array(
              z.object({
                at: z.string().meta({ description: "When the operator wrote it." }),
                state: z.enum(INCIDENT_STATES),
                message: z.string().meta({ description: "What the operator wrote." }),
              }),
            )
            .meta({ description: "Newest first." }),
        }),
      )
      .meta({ description: "Incidents of the last 90 days, also resolved ones, newest first." }),
    providers: z
      .array(
        z.object({
          id: z.string(),
          name: z.string(),
          state: z
            .enum(["operational", "degraded", "down"])
            .nullable()
            .meta({ description: "Of yesterday and today, in UTC; `null` with too few calls." }),
          ...FIGURES,
          days: z
            .array(
              z.object({ day: z.string().meta({ description: "The day in UTC." }), ...FIGURES }),
            )
            .meta({ description: "The last 90 days, oldest first." }),
          models: z
            .array(z.object({ id: z.string(), ...FIGURES }))
            .meta({ description: "The figures of each model over 90 days." }),
        }),
      )
      .meta({ description: "Providers with enough calls on the gateway's own accounts." }),
  })
  .meta({ id: "Status" });

const EXAMPLE: z.infer<typeof Status> = {
  object: "status",
  state: "operational",
  updated_at: "2026-11-28T12:00:00.000Z",
  incidents: [],
  providers: [
    {
      id: "openai",
      name: "OpenAI",
      state: "operational",
      uptime: 0.9992,
      latency_ms: 1_840,
      first_token_ms: 420,
      days: [{ day: "2026-11-28", uptime: 1, latency_ms: 1_790, first_token_ms: 410 }],
      models: [
        { id: "openai/gpt-5.4-mini", uptime: 0.9992, latency_ms: 1_840, first_token_ms: 420 },
      ],
    },
  ],
};

interface StatusDocuments {
  readonly html: CachedDocument;
  readonly json: CachedDocument;
  readonly feed: CachedDocument;
}

export interface StatusPageDeps {
  readonly readStatus: (now: number) => Promise<StatusSnapshot>;
  readonly baseUrl: string;
}

export function statusPageRoutes({ readStatus, baseUrl }: StatusPageDeps): readonly Route[] {
  let cached:
    | { readonly snapshot: StatusSnapshot; readonly documents: StatusDocuments }
    | undefined;
  const documentsAt = async (now: number): Promise<StatusDocuments> => {
    const snapshot = await readStatus(now);
    if (cached?.snapshot !== snapshot)
      cached = { snapshot, documents: documentsOf(snapshot, baseUrl) };
    return cached.documents;
  };
  const page = (path: string, id: string, { summary, responses, pick }: PageRoute): Route =>
    publicRoute({
      ...PAGE,
      path,
      id,
      summary,
      responses,
      run: async ({ headers, now }) => respondWithDocument((await documentsAt(now))[pick], headers),
    });
  return [
    page("/status", "getStatusPage", {
      summary: "Show the status page",
      responses: { 200: { description: "The page.", contentType: "text/html" } },
      pick: "html",
    }),
    page(FEED_PATH, "getStatusFeed", {
      summary: "Get the feed of incidents",
      responses: { 200: { description: "The feed.", contentType: "application/atom+xml" } },
      pick: "feed",
    }),
    publicRoute({
      method: "GET",
      path: "/v1/status",
      id: "getStatus",
      tag: "Operations",
      summary: "Get incidents, availability and latency",
      dialect: "openai",
      responses: {
        200: {
          description: "As measured by this gateway in the last 90 days.",
          schema: Status,
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

interface PageRoute {
  readonly summary: string;
  readonly responses: Readonly<Record<number, ResponseDoc>>;
  readonly pick: keyof StatusDocuments;
}

function documentsOf(snapshot: StatusSnapshot, baseUrl: string): StatusDocuments {
  const { "content-type": htmlType = "", ...headers } = siteHeaders();
  return {
    html: cachedDocument(statusPage(snapshot), htmlType, { ...headers, ...CACHE_ONE_MINUTE }),
    json: cachedDocument(JSON.stringify(toJson(snapshot)), "application/json", CACHE_ONE_MINUTE),
    feed: cachedDocument(
      statusFeed(snapshot, baseUrl),
      "application/atom+xml; charset=utf-8",
      CACHE_ONE_MINUTE,
    ),
  };
}

function toJson(snapshot: StatusSnapshot): z.infer<typeof Status> {
  return {
    object: "status",
    state: stateOf(snapshot),
    updated_at: new Date(snapshot.at).toISOString(),
    incidents: snapshot.incidents.map(({ id, title, impact, state, updates }) => ({
      id,
      title,
      impact,
      state,
      updates: updates.map((update) => ({
        at: new Date(update.at).toISOString(),
        state: update.state,
        message: update.message,
      })),
    })),
    providers: snapshot.providers.map((provider) => ({
      id: provider.id,
      name: provider.name,
      state: provider.state ?? null,
      ...toFigures(provider),
      days: provider.days.map((day) => ({ day: day.day, ...toFigures(day) })),
      models: provider.models.map((model) => ({ id: model.id, ...toFigures(model) })),
    })),
  };
}

function stateOf(snapshot: StatusSnapshot): z.infer<typeof Status>["state"] {
  const open = openIncidents(snapshot);
  if (open.length === 0) return "operational";
  return open.every(({ impact }) => impact === "maintenance") ? "maintenance" : "incident";
}

function toFigures({ uptime, latencyMs, firstTokenMs }: Figures) {
  return {
    uptime: uptime === undefined ? null : Math.round(uptime * 10_000) / 10_000,
    latency_ms: latencyMs ?? null,
    first_token_ms: firstTokenMs ?? null,
  };
}

// The incidents as an Atom feed (RFC 4287): an entry for each update.

function statusFeed({ at, incidents }: StatusSnapshot, baseUrl: string): string {
  const updates = incidents
    .flatMap(({ id: incidentId, title, updates: ofIncident }) =>
      ofIncident.map((update) => ({ incidentId, title, ...update })),
    )
    .sort((one, other) => other.at - one.at);
  const entries = updates.map(({ id, incidentId, title, state, message, at: updated }) =>
    [
      "<entry>",
      `<id>${baseUrl}/status#${id}</id>`,
      `<title>${escapeXml(`${STATE_LABELS[state]}: ${title}`)}</title>`,
      `<updated>${new Date(updated).toISOString()}</updated>`,
      `<link href="${escapeXml(`${baseUrl}/status#${incidentId}`)}"/>`,
      `<content type="text">${escapeXml(message)}</content>`,
      "</entry>",
    ].join(""),
  );
  return [
    '<?xml version="1.0" encoding="utf-8"?>',
    '<feed xmlns="http://www.w3.org/2005/Atom">',
    `<id>${escapeXml(`${baseUrl}/status`)}</id>`,
    `<title>${PRODUCT_NAME} status</title>`,
    `<author><name>${PRODUCT_NAME}</name></author>`,
    `<updated>${new Date(updates[0]?.at ?? at).toISOString()}</updated>`,
    `<link rel="self" href="${escapeXml(baseUrl + FEED_PATH)}"/>`,
    `<link href="${escapeXml(`${baseUrl}/status`)}"/>`,
    ...entries,
    "</feed>\n",
  ].join("\n");
}

const XML_ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => XML_ENTITIES[character] ?? character);
}
