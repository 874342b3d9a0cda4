// The routes of the public model pages.

import type { TokenMeter } from "@postern/wires";
import { z } from "zod";
import { Fault } from "../../base/fault.ts";
import { usdTextOfPico } from "../../base/money/money.ts";
import { MINUTE_MS, SECOND_MS, utcDay } from "../../base/time.ts";
import { createRateLimiter } from "../../http/guards/rate-limiter.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { publicRoute, type Route } from "../../http/route.ts";
import { type Catalog, findModel, type Model } from "../../models/catalog.ts";
import { type EndpointRouteDeps, listEndpoints } from "../../models/endpoints-route.ts";
import type { MeasuredModels } from "../../models/measured.ts";
import { modelNotFound } from "../../models/model-not-found.ts";
import { type ModelRecordJson, toModelRecord } from "../../models/model-record.ts";
import type { DatedCard } from "../../models/price-card.ts";
import { prefersMarkdown } from "../accept.ts";
import { type CachedDocument, cachedDocument, respondWithDocument } from "../cached-document.ts";
import { joinParagraphs, markdownTable } from "../doc-context.ts";
import { siteHeaders } from "../site/site-frame.tsx";
import { type ModelListQuery, pricePerMillion, SORT_ORDERS } from "./model-list.ts";
import { modelMarkdown, modelPage } from "./model-page.tsx";
import { modelsPage } from "./models-page.tsx";

/** An empty field of the form is the same as none. */
const Text = z
  .string()
  .max(100)
  .optional()
  .transform((text) => (text === "" ? undefined : text));

const ListQuery = z.object({
  q: Text,
  provider: Text,
  ability: Text,
  sort: z.enum(SORT_ORDERS).optional(),
  all: z.literal("true").optional(),
  page: z.coerce.number().int().min(1).max(1_000).optional(),
});

const COMMON = { method: "GET", tag: "Discovery", dialect: "page", hidden: true } as const;
const HTML = { 200: { description: "The page.", contentType: "text/html" } };
const PAGE_HEADERS = { "cache-control": "no-cache" };

export function modelPageRoutes(deps: EndpointRouteDeps, baseUrl: string): readonly Route[] {
  const pages = createModelsPages(deps);
  return [
    publicRoute<undefined, z.infer<typeof ListQuery>>({
      ...COMMON,
      path: "/models",
      id: "getModelsPage",
      summary: "Show the list of models",
      query: ListQuery,
      responses: HTML,
      faults: ["invalid_request", "rate_limited"],
      run: async ({ query, now, headers, clientIp }) => {
        if (prefersMarkdown(headers.get("accept")))
          return markdown(listMarkdown(await pages.records(now)));
        return respondWithDocument(await pages.page(query, { clientIp, now }), headers);
      },
    }),
    publicRoute<{ id: string }>({
      ...COMMON,
      path: "/models/{id+}",
      id: "getModelPage",
      summary: "Show a model",
      params: z.object({ id: z.string() }),
      responses: HTML,
      faults: ["model_not_found"],
      run: async ({ params, now, headers }) => {
        const isFile = params.id.endsWith(".md");
        const id = isFile ? params.id.slice(0, -".md".length) : params.id;
        const catalog = deps.catalog.current();
        const model = findModel(catalog, id)?.model;
        if (model === undefined) throw modelNotFound(catalog, id);
        const record = toModelRecord(model, deps.isAvailable(model.provider), now);
        const endpoints = await listEndpoints(model.id, deps, now);
        const { providerName } = deps;
        const content = {
          model: record,
          endpoints,
          history: priceHistory(model, now),
          providerName,
        };
        if (isFile || prefersMarkdown(headers.get("accept")))
          return markdown(`${modelMarkdown(content)}\n`);
        return page(modelPage(content, baseUrl));
      },
    }),
  ];
}

function listMarkdown(records: readonly ReturnType<typeof toModelRecord>[]): string {
  const lines = records
    .filter(({ available }) => available)
    .map(({ id, name }) => `- [${name}](/models/${id}.md): \`${id}\``);
  return `# Models\n\nThe models that can be called now. \`GET /v1/models\` has their prices as JSON.\n\n${lines.join("\n")}\n`;
}

function page(html: string): Response {
  return new Response(html, { headers: { ...siteHeaders(), ...PAGE_HEADERS } });
}

function markdown(text: string): Response {
  return new Response(text, {
    headers: { "content-type": "text/markdown; charset=utf-8", vary: "accept", ...PAGE_HEADERS },
  });
}

// The price history of a model: the prices that the price lists date.

const METERS: readonly TokenMeter[] = ["input", "cache_read", "output"];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/** Where the time of day is in `2026-11-21T13:45:00.000Z`. */
const TIME_OF_DAY = [11, 16] as const;

/** Markdown: a table of the dated prices, newest first, or a sentence if no change is known. */
function priceHistory({ prices, checked }: Pick<Model, "prices" | "checked">, now: number): string {
  const isDated = prices.some(({ fromMs }) => fromMs > 0);
  const summary = isDated
    ? "US dollars per million tokens, as the price lists date them."
    : "No change of this price is known.";
  // Stable, so that the hours of a price stay below it.
  const sorted = prices.toSorted((one, other) => other.fromMs - one.fromMs);
  return joinParagraphs([
    `${summary} Last checked on ${checked}.`,
    prices.length <= 1
      ? ""
      : markdownTable(
          [isDated ? "From" : "Hours", "Input", "Cached input", "Output"],
          sorted.map((price) => priceRow(price, isDated, now)),
        ),
  ]);
}

function priceRow(price: DatedCard, isDated: boolean, now: number): readonly string[] {
  const isOtherHours = !isDated && price.hours === undefined;
  const rates = METERS.map((meter) => {
    const rate = price.card.base[meter];
    return pricePerMillion(rate === undefined ? undefined : usdTextOfPico(rate));
  });
  return [isOtherHours ? "Other hours" : startText(price, now), ...rates];
}

function startText({ fromMs, hours }: DatedCard, now: number): string {
  const start = fromMs === 0 ? "Earliest known" : utcDay(fromMs);
  const planned = fromMs > now ? " (planned)" : "";
  if (hours === undefined) return start + planned;
  const days = hours.weekdays?.map((day) => WEEKDAYS[day] ?? "").join(", ");
  const time = `${timeText(hours.startSeconds)}–${timeText(hours.endSeconds)} UTC`;
  const when = days === undefined ? time : `${days}, ${time}`;
  return fromMs === 0 ? when : `${start}${planned}, ${when}`;
}

function timeText(seconds: number): string {
  return new Date(seconds * SECOND_MS).toISOString().slice(...TIME_OF_DAY);
}

// The pages of /models. To render one takes milliseconds, and anyone can ask for it: each is rendered once until the models
// change, and a network can ask for few that are new.

const PAGES_MAX = 200;
/** Prices and the availability of providers may change by the clock. */
const FRESH_MS = MINUTE_MS;
const NEW_PAGES_PER_MINUTE = 60;
const NEW_PAGES_BURST = 30;

interface ModelsSnapshot {
  readonly catalog: Catalog;
  readonly measured: MeasuredModels;
  readonly at: number;
  readonly records: readonly ModelRecordJson[];
  readonly pages: Map<string, CachedDocument>;
}

interface ModelsPages {
  readonly records: (now: number) => Promise<readonly ModelRecordJson[]>;
  /** Throws if the network of `clientIp` has asked for too many new pages. */
  readonly page: (
    query: ModelListQuery,
    request: { readonly clientIp: string; readonly now: number },
  ) => Promise<CachedDocument>;
}

function createModelsPages(deps: EndpointRouteDeps): ModelsPages {
  const limiter = createRateLimiter({ perMinute: NEW_PAGES_PER_MINUTE, burst: NEW_PAGES_BURST });
  let current: ModelsSnapshot | undefined;
  const snapshotAt = async (now: number): Promise<ModelsSnapshot> => {
    const measured = await deps.measured(now);
    const catalog = deps.catalog.current();
    const isFresh =
      current?.catalog === catalog &&
      current.measured === measured &&
      Math.abs(now - current.at) < FRESH_MS;
    if (current === undefined || !isFresh)
      current = {
        catalog,
        measured,
        at: now,
        records: recordsOf(deps, now, measured),
        pages: new Map(),
      };
    return current;
  };
  return {
    records: async (now) => (await snapshotAt(now)).records,
    page: async (query, { clientIp, now }) => {
      const { pages, records } = await snapshotAt(now);
      const name = JSON.stringify(query);
      const cached = pages.get(name);
      if (cached !== undefined) return cached;
      // The page that everybody opens is never refused.
      if (name !== "{}") limitNewPages(limiter.take(networksOf(clientIp)[0], now));
      const rendered = cachedDocument(
        modelsPage(records, query, deps.providerName),
        "text/html; charset=utf-8",
        {
          ...siteHeaders(),
          "cache-control": "no-cache",
        },
      );
      if (pages.size >= PAGES_MAX) pages.clear();
      pages.set(name, rendered);
      return rendered;
    },
  };
}

function recordsOf(
  { catalog, isAvailable }: EndpointRouteDeps,
  now: number,
  measured: MeasuredModels,
): readonly ModelRecordJson[] {
  return catalog
    .current()
    .models.filter(({ retired }) => !retired)
    .map((model) => toModelRecord(model, isAvailable(model.provider), now, measured(model)));
}

function limitNewPages(waitMs: number): void {
  if (waitMs > 0)
    throw new Fault("rate_limited", "too many new pages of models", {
      message: "Your network has searched the models too often. GET /v1/models lists them as JSON.",
      retryAfterSeconds: waitMs / SECOND_MS,
    });
}
