// GET /v1/models: the catalog with prices, for anybody. The list is big and asked for often, so each model's JSON is made
// once and joined; it is made again when the catalog changes, or a price by its hour.

import { createHash } from "node:crypto";
import { z } from "zod";
import { openRoute } from "../http/route.ts";
import type { Route } from "../http/route.ts";
import { findModel, modelNotFound } from "./catalog.ts";
import type { Catalog, Model } from "./catalog.ts";
import { type EndpointRouteParts, endpointsRoute } from "./routes-endpoints.ts";
import { anthropicModel, modelRecord, ShownModel, ShownModelList } from "./record.ts";
import { modelsNamed } from "./same-model.ts";

export type ModelRoutesParts = EndpointRouteParts;

/** Every price of a list changes on a full half hour, if it changes by the clock. */
const SLOT_MS = 1_800_000;
const CACHE_SECONDS = 300;
const ANTHROPIC_PAGE = 20;
const ANTHROPIC_PAGE_MAX = 1000;

const ANTHROPIC_VERSION = {
  "anthropic-version": "With any value, the answer has the form of Anthropic's API.",
};
const CACHED = { etag: "Send it as `if-none-match`: 304 says that nothing changed." };

const ListQuery = z.strictObject({
  provider: z
    .string()
    .optional()
    .meta({ description: "Only models of this provider.", example: "anthropic" }),
  available: z
    .enum(["true", "false"])
    .optional()
    .meta({ description: "Only models that can, or cannot, be called now." }),
  q: z
    .string()
    .max(100)
    .optional()
    .meta({ description: "Only models whose id or name contains this.", example: "sonnet" }),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(ANTHROPIC_PAGE_MAX)
    .optional()
    .meta({ description: "With `anthropic-version` only." }),
  after_id: z.string().optional().meta({ description: "With `anthropic-version` only." }),
  before_id: z.string().optional().meta({ description: "With `anthropic-version` only." }),
});
type ListQuery = z.infer<typeof ListQuery>;

interface Entry {
  readonly model: Model;
  readonly available: boolean;
  readonly search: string;
  readonly json: string;
}

interface Snapshot {
  readonly key: string;
  readonly catalog: Catalog;
  readonly entries: readonly Entry[];
  readonly whole: { readonly text: string; readonly etag: string };
}

/** The routes of the catalog. */
export function modelRoutes(parts: ModelRoutesParts): Route[] {
  const { catalog, available } = parts;
  let snapshot: Snapshot | undefined;
  const at = (now: number): Snapshot => {
    const current = catalog.current();
    const key = `${Math.floor(now / SLOT_MS)} ${switchedOn(current, available)}`;
    if (snapshot === undefined || snapshot.catalog !== current || snapshot.key !== key)
      snapshot = snapshotOf(current, key, available, now);
    return snapshot;
  };
  // The longer path first: an id may hold slashes, and would take it for one.
  return [listRoute(at), endpointsRoute(parts), oneRoute(at)];
}

function listRoute(at: (now: number) => Snapshot): Route {
  return openRoute<undefined, ListQuery>({
    method: "GET",
    path: "/v1/models",
    id: "listModels",
    requestHeaders: ANTHROPIC_VERSION,
    summary: "List models and prices",
    description:
      "Every model with a price, in OpenAI's list shape; in Anthropic's where the request has an `anthropic-version` header.",
    tag: "Models",
    dialect: "openai",
    query: ListQuery,
    answers: {
      200: { description: "The models.", schema: ShownModelList, headers: CACHED },
      304: { description: "Nothing changed since the `etag` that was sent.", headers: CACHED },
    },
    faults: ["invalid_request"],
    run: ({ query, headers, now }) => {
      const current = at(now);
      const isWhole = Object.values(query).every((value) => value === undefined);
      const anthropic = headers.has("anthropic-version");
      if (isWhole && !anthropic) return answer(headers, current.whole.text, current.whole.etag);
      const entries = current.entries.filter((entry) => fits(entry, query));
      const text = anthropic ? anthropicList(entries, query) : openaiList(entries);
      return answer(headers, text, etagOf(text));
    },
  });
}

function oneRoute(at: (now: number) => Snapshot): Route {
  return openRoute<{ id: string }>({
    method: "GET",
    path: "/v1/models/{id+}",
    id: "getModel",
    requestHeaders: ANTHROPIC_VERSION,
    summary: "Read one model and its price",
    tag: "Models",
    dialect: "openai",
    params: z.object({
      id: z.string().meta({
        description:
          "The model's id, slashes and all, an alias of it, or its name without a provider.",
        example: "sim/echo",
      }),
    }),
    answers: {
      200: { description: "The model.", schema: ShownModel, headers: CACHED },
      304: { description: "Nothing changed since the `etag` that was sent.", headers: CACHED },
    },
    faults: ["model_not_found"],
    run: ({ params, headers, now }) => {
      const current = at(now);
      const [named] = modelsNamed(current.catalog, params.id, now);
      const asked = findModel(current.catalog, params.id)?.model ?? named;
      const entry = current.entries.find(({ model }) => model === asked);
      if (entry === undefined) throw modelNotFound(current.catalog, params.id);
      const text = headers.has("anthropic-version")
        ? JSON.stringify(anthropicModel(entry.model))
        : entry.json;
      return answer(headers, text, etagOf(text));
    },
  });
}

function snapshotOf(
  catalog: Catalog,
  key: string,
  available: (providerId: string) => boolean,
  now: number,
): Snapshot {
  const entries = catalog.models.map((model) => {
    const isAvailable = available(model.provider);
    return {
      model,
      available: isAvailable,
      search: `${model.id} ${model.title}`.toLowerCase(),
      json: JSON.stringify(modelRecord(model, isAvailable, now)),
    };
  });
  const text = openaiList(entries);
  return { key, catalog, entries, whole: { text, etag: etagOf(text) } };
}

function switchedOn(catalog: Catalog, available: (providerId: string) => boolean): string {
  const providers = new Set(catalog.models.map((model) => model.provider));
  return [...providers].filter((provider) => available(provider)).join(",");
}

function fits(entry: Entry, query: ListQuery): boolean {
  if (query.provider !== undefined && entry.model.provider !== query.provider) return false;
  if (query.available !== undefined && entry.available !== (query.available === "true"))
    return false;
  return query.q === undefined || entry.search.includes(query.q.toLowerCase());
}

function openaiList(entries: readonly Entry[]): string {
  return `{"object":"list","data":[${entries.map((entry) => entry.json).join(",")}],"has_more":false,"next_cursor":null}`;
}

function anthropicList(entries: readonly Entry[], query: ListQuery): string {
  const limit = query.limit ?? ANTHROPIC_PAGE;
  const after =
    query.after_id === undefined
      ? 0
      : entries.findIndex(({ model }) => model.id === query.after_id) + 1;
  const end =
    query.before_id === undefined
      ? entries.length
      : Math.max(
          0,
          entries.findIndex(({ model }) => model.id === query.before_id),
        );
  const window = entries.slice(after, end);
  const isBackward = query.before_id !== undefined && query.after_id === undefined;
  const page = isBackward ? window.slice(-limit) : window.slice(0, limit);
  const data = page.map(({ model }) => anthropicModel(model));
  return JSON.stringify({
    data,
    has_more: window.length > page.length,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  });
}

function answer(headers: Headers, text: string, etag: string): Response {
  const common = {
    etag,
    "cache-control": `public, max-age=${CACHE_SECONDS}`,
    vary: "anthropic-version",
  };
  const known = new Set(
    (headers.get("if-none-match") ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, "")),
  );
  if (known.has(etag) || known.has("*"))
    return new Response(null, { status: 304, headers: common });
  return new Response(text, { headers: { ...common, "content-type": "application/json" } });
}

function etagOf(text: string): string {
  return `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`;
}
