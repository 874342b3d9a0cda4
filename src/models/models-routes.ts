// GET /v1/models and /v1/models/{id}: the catalog with prices. Needs no API key. The list is large and read often, so the
// JSON of every model is cached until the catalog, the available providers, a time-dependent price or the measured figures
// change.

import { createHash } from "node:crypto";
import { z } from "zod";
import type { DataRules } from "../base/data-rules.ts";
import { invalid } from "../base/fault.ts";
import { shortName } from "../base/text/suggest.ts";
import { MINUTE_MS } from "../base/time.ts";
import { matchesEtag } from "../http/etag.ts";
import { type KeyPolicy, matchesGlob } from "../http/key-policy.ts";
import type { KeySources } from "../http/request/api-key-header.ts";
import { publicRoute } from "../http/route.ts";
import type { Dialect, Route } from "../http/route.ts";
import { CLAUDE_ALIAS, findModel, withoutClaudeAlias } from "./catalog.ts";
import type { Catalog, Model } from "./catalog.ts";
import { codexModels } from "./codex-models.ts";
import { brokenRule, dataPolicyOf } from "./data-policy.ts";
import { type EndpointRouteDeps, endpointsRoute } from "./endpoints-route.ts";
import {
  googleList,
  googleModelsRoutes,
  isGoogleClient,
  queryOf,
  readGoogleQuery,
  toGoogleModel,
} from "./google-models-routes.ts";
import type { MeasuredModels } from "./measured.ts";
import { modelNotFound } from "./model-not-found.ts";
import {
  MODEL_EXAMPLE,
  toAnthropicModel,
  toModelRecord,
  ModelRecord,
  ModelResponse,
  ModelListResponse,
} from "./model-record.ts";
import { modelsNamed } from "./same-model.ts";

export interface ModelRoutesDeps extends EndpointRouteDeps {
  /** What the request's API key may call; undefined without a valid key. */
  readonly callerAccess: (
    sources: KeySources,
    dialect: Dialect,
    now: number,
  ) => Promise<CallerAccess | undefined>;
}

export interface CallerAccess {
  /** Providers that the key has provider keys for. */
  readonly ownProviders: ReadonlySet<string>;
  readonly policy: Pick<KeyPolicy, "models" | "providers"> | undefined;
  /** The rules of the key and of its workspace. */
  readonly dataRules: readonly DataRules[];
}

/** Every price of a list changes on a full half hour, if it changes by the clock. */
const PRICE_SLOT_MS = 30 * MINUTE_MS;
const CACHE_SECONDS = 300;
const ANTHROPIC_PAGE = 20;
const ANTHROPIC_PAGE_MAX = 1000;

const ANTHROPIC_VERSION = {
  "anthropic-version":
    "If present, with any value, the response has the format of Anthropic's API.",
};
const CACHED = {
  etag: "Send it as `if-none-match` to get a 304 if nothing has changed.",
};

// Clients of both APIs send query parameters of their own, such as `beta=true`.
const ListQuery = z.object({
  provider: z
    .string()
    .optional()
    .meta({ description: "Only models of this provider.", example: "anthropic" }),
  all: z.enum(["true", "false"]).optional().meta({
    description: "`true`: also models that the gateway and the API key have no account for.",
  }),
  available: z.enum(["true", "false"]).optional().meta({
    description: "Only models that the gateway has (`true`) or lacks (`false`) an account for.",
  }),
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
    .meta({ description: "Models per page. By default all, or 20 with `anthropic-version`." }),
  cursor: z
    .string()
    .max(200)
    .optional()
    .meta({ description: "`next_cursor` of the previous page." }),
  fields: z.string().max(200).optional().meta({
    description: "Only these fields of each model, separated by commas, and `id`.",
    example: "id,pricing",
  }),
  after_id: z.string().optional().meta({ description: "With `anthropic-version` only." }),
  before_id: z.string().optional().meta({ description: "With `anthropic-version` only." }),
  client_version: z.string().max(100).optional().meta({
    description:
      "Codex sends its version, and gets the models in its own format, without those of OpenAI, which it knows.",
    example: "0.171.0",
  }),
});
type ListQuery = z.infer<typeof ListQuery>;

interface CatalogEntry {
  readonly model: Model;
  readonly available: boolean;
  readonly search: string;
  readonly json: string;
}

interface SnapshotKey {
  readonly key: string;
  readonly catalog: Catalog;
  readonly measured: MeasuredModels;
}

interface CatalogSnapshot extends SnapshotKey {
  readonly entries: readonly CatalogEntry[];
  /** The models that can be called on the gateway's accounts: the response to most requests. */
  readonly callable: { readonly text: string; readonly etag: string };
}

type SnapshotAt = (now: number) => Promise<CatalogSnapshot>;

/** The HTTP routes of the catalog. */
export function modelRoutes(deps: ModelRoutesDeps): Route[] {
  const { catalog, isAvailable } = deps;
  let snapshot: CatalogSnapshot | undefined;
  const snapshotAt: SnapshotAt = async (now) => {
    const measured = await deps.measured(now);
    const current = catalog.current();
    const key = `${Math.floor(now / PRICE_SLOT_MS)} ${availableProviders(current, isAvailable)}`;
    const isFresh = snapshot?.catalog === current && snapshot.measured === measured;
    if (snapshot === undefined || !isFresh || snapshot.key !== key)
      snapshot = snapshotOf({ key, catalog: current, measured }, isAvailable, now);
    return snapshot;
  };
  // The more specific path first: a model id may contain slashes and would match `/endpoints` as well.
  return [
    listRoute(snapshotAt, deps),
    endpointsRoute(deps),
    getRoute(snapshotAt),
    ...googleModelsRoutes({
      listModels: async (sources, now) =>
        callableModels(
          await snapshotAt(now),
          await deps.callerAccess(sources, "google", now),
          deps.zdrProviders,
        ),
      getModel: async (id, now) => entryOf(await snapshotAt(now), id, now).model,
    }),
  ];
}

function listRoute(snapshotAt: SnapshotAt, { callerAccess, zdrProviders }: ModelRoutesDeps): Route {
  return publicRoute<undefined, ListQuery>({
    method: "GET",
    path: "/v1/models",
    id: "listModels",
    requestHeaders: ANTHROPIC_VERSION,
    summary: "List models and prices",
    description:
      "Lists the models that can be called now, with prices: those of the gateway's accounts and, with an API key, those of the caller's own provider keys, without those that `allowed_models`, `allowed_providers` and `data_policy` of the key exclude. `all=true` lists the whole catalog, `limit` and `cursor` page through it, and `fields` shortens each model. The format is OpenAI's; with an `anthropic-version` header, it is Anthropic's. For Claude Code, which ignores other ids, models that are not Anthropic's are listed as `claude/<id>`; a call accepts both.",
    tag: "Models",
    dialect: "openai",
    credential: "optionalKey",
    query: ListQuery,
    responses: {
      200: {
        description: "The models.",
        schema: ModelListResponse,
        example: { object: "list", data: [MODEL_EXAMPLE], has_more: false, next_cursor: null },
        headers: CACHED,
      },
      304: { description: "Not modified since the response with this `etag`.", headers: CACHED },
    },
    faults: ["invalid_request"],
    run: async ({ query, headers, request, now }) => {
      const current = await snapshotAt(now);
      if (isGoogleClient(headers)) {
        const sources = { headers, query: queryOf(request) };
        const access = await callerAccess(sources, "google", now);
        const models = callableModels(current, access, zdrProviders);
        return { status: 200, body: googleList(models, readGoogleQuery(sources.query)) };
      }
      const access = (await callerAccess({ headers }, "openai", now)) ?? NO_ACCESS;
      const { ownProviders: own, policy, dataRules } = access;
      const isPlain = Object.values(query).every((value) => value === undefined);
      const anthropic = headers.has("anthropic-version");
      const isUnrestricted = (policy?.models ?? policy?.providers ?? dataRules[0]) === undefined;
      if (isPlain && !anthropic && own.size === 0 && isUnrestricted)
        return cachedResponse(headers, current.callable.text, current.callable.etag);
      const entries = current.entries
        .filter(
          (entry) =>
            isAllowed(entry.model, access, zdrProviders) && matchesQuery(entry, query, own),
        )
        .map((entry) => (own.has(entry.model.provider) ? asCallable(entry) : entry));
      const text = listText(entries, query, headers);
      return cachedResponse(headers, text, etagOf(text));
    },
  });
}

const NO_ACCESS: CallerAccess = { ownProviders: new Set(), policy: undefined, dataRules: [] };

/** Calls of other models with this key would be refused. */
function isAllowed(
  model: Model,
  { policy, dataRules }: CallerAccess,
  zdrProviders: ReadonlySet<string>,
): boolean {
  return (
    matchesGlob(policy?.models, model.id) &&
    matchesGlob(policy?.providers, model.provider) &&
    dataRules.every((rules) => brokenRule(dataPolicyOf(model, zdrProviders), rules) === undefined)
  );
}

/** A model that the caller's provider key makes callable. */
function asCallable(entry: CatalogEntry): CatalogEntry {
  return { ...entry, json: entry.json.replace('"available":false', '"available":true') };
}

/** Claude Code drops ids that begin with neither `claude` nor `anthropic` from its picker. */
function isClaudeCode(headers: Headers): boolean {
  return /\bclaude-(cli|code)\b/i.test(headers.get("user-agent") ?? "");
}

function getRoute(snapshotAt: SnapshotAt): Route {
  return publicRoute<{ id: string }>({
    method: "GET",
    path: "/v1/models/{id+}",
    id: "getModel",
    requestHeaders: ANTHROPIC_VERSION,
    summary: "Get a model and its price",
    tag: "Models",
    dialect: "openai",
    params: z.object({
      id: z.string().meta({
        description:
          "The model id, including slashes, an alias of it, or its name without a provider.",
        example: "sim/echo",
      }),
    }),
    responses: {
      200: {
        description: "The model.",
        schema: ModelResponse,
        example: MODEL_EXAMPLE,
        headers: CACHED,
      },
      304: { description: "Not modified since the response with this `etag`.", headers: CACHED },
    },
    faults: ["model_not_found"],
    run: async ({ params, headers, now }) => {
      const current = await snapshotAt(now);
      const entry = entryOf(current, params.id, now);
      const text = headers.has("anthropic-version")
        ? JSON.stringify(toAnthropicModel(entry.model))
        : isGoogleClient(headers)
          ? JSON.stringify(toGoogleModel(entry.model))
          : entry.json;
      return cachedResponse(headers, text, etagOf(text));
    },
  });
}

function callableModels(
  { entries }: CatalogSnapshot,
  access: CallerAccess = NO_ACCESS,
  zdrProviders: ReadonlySet<string>,
): readonly Model[] {
  const { ownProviders: own } = access;
  return entries
    .filter((entry) => isAllowed(entry.model, access, zdrProviders) && matchesQuery(entry, {}, own))
    .map(({ model }) => model);
}

function entryOf({ catalog, entries }: CatalogSnapshot, id: string, now: number): CatalogEntry {
  const [modelByName] = modelsNamed(catalog, id, now);
  const requestedModel = findModel(catalog, id)?.model ?? modelByName;
  const entry = entries.find(({ model }) => model === requestedModel);
  if (entry === undefined) throw modelNotFound(catalog, id);
  return entry;
}

function snapshotOf(
  snapshotKey: SnapshotKey,
  isAvailable: (providerId: string) => boolean,
  now: number,
): CatalogSnapshot {
  const { catalog, measured } = snapshotKey;
  const entries = catalog.models.map((model) => {
    const available = isAvailable(model.provider);
    return {
      model,
      available,
      search: `${model.id} ${model.title}`.toLowerCase(),
      json: JSON.stringify(toModelRecord(model, available, now, measured(model))),
    };
  });
  const callable = entries.filter(({ available }) => available);
  const text = listOf(callable, null);
  return { ...snapshotKey, entries, callable: { text, etag: etagOf(text) } };
}

function availableProviders(
  catalog: Catalog,
  isAvailable: (providerId: string) => boolean,
): string {
  const providers = new Set(catalog.models.map((model) => model.provider));
  return [...providers].filter((provider) => isAvailable(provider)).join(",");
}

function matchesQuery(entry: CatalogEntry, query: ListQuery, own: ReadonlySet<string>): boolean {
  const isCallable = entry.available || own.has(entry.model.provider);
  if (!isCallable && query.available === undefined && query.all !== "true") return false;
  if (query.provider !== undefined && entry.model.provider !== query.provider) return false;
  if (query.available !== undefined && entry.available !== (query.available === "true"))
    return false;
  return query.q === undefined || entry.search.includes(query.q.toLowerCase());
}

function listText(entries: readonly CatalogEntry[], query: ListQuery, headers: Headers): string {
  if (headers.has("anthropic-version")) return anthropicList(entries, query, isClaudeCode(headers));
  if (query.client_version === undefined) return openaiPage(entries, query);
  return JSON.stringify({ models: codexModels(entries.map(({ model }) => model)) });
}

function listOf(entries: readonly CatalogEntry[], next: string | null): string {
  const data = entries.map((entry) => entry.json).join(",");
  return `{"object":"list","data":[${data}],"has_more":${next !== null},"next_cursor":${JSON.stringify(next)}}`;
}

/** The cursor of a page is the id of its last model. */
function openaiPage(entries: readonly CatalogEntry[], query: ListQuery): string {
  const { cursor, limit = entries.length, fields } = query;
  const last = cursor === undefined ? -1 : entries.findIndex(({ model }) => model.id === cursor);
  if (cursor !== undefined && last === -1)
    throw invalid(
      "cursor",
      "`cursor` is not a cursor of this list. Use `next_cursor` of the previous page.",
    );
  const page = entries.slice(last + 1, last + 1 + limit);
  const hasMore = last + 1 + page.length < entries.length;
  const shown = fields === undefined ? page : withFields(page, fields);
  return listOf(shown, hasMore ? (page.at(-1)?.model.id ?? null) : null);
}

const FIELDS: ReadonlySet<string> = new Set(Object.keys(ModelRecord.shape));

function withFields(entries: readonly CatalogEntry[], text: string): readonly CatalogEntry[] {
  const fields = text.split(",").map((name) => name.trim());
  const unknown = fields.find((name) => !FIELDS.has(name));
  if (unknown !== undefined)
    throw invalid(
      "fields",
      `Unknown field \`${shortName(unknown)}\`. A model has ${[...FIELDS].join(", ")}.`,
    );
  const names = new Set(["id", ...fields]);
  return entries.map((entry) => {
    // Safe because `snapshotOf` wrote the record.
    const record = Object.entries(JSON.parse(entry.json) as object);
    const kept = Object.fromEntries(record.filter(([name]) => names.has(name)));
    return { ...entry, json: JSON.stringify(kept) };
  });
}

function anthropicList(
  entries: readonly CatalogEntry[],
  query: ListQuery,
  forClaudeCode: boolean,
): string {
  const limit = query.limit ?? ANTHROPIC_PAGE;
  const after = query.after_id === undefined ? 0 : indexOfId(entries, query.after_id) + 1;
  const end =
    query.before_id === undefined
      ? entries.length
      : Math.max(0, indexOfId(entries, query.before_id));
  const window = entries.slice(after, end);
  const isBackward = query.before_id !== undefined && query.after_id === undefined;
  const page = isBackward ? window.slice(-limit) : window.slice(0, limit);
  const data = page.map(({ model }) => {
    const record = toAnthropicModel(model);
    const needsAlias = forClaudeCode && !/^(claude|anthropic)/.test(model.id);
    return needsAlias ? { ...record, id: `${CLAUDE_ALIAS}${model.id}` } : record;
  });
  return JSON.stringify({
    data,
    has_more: window.length > page.length,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  });
}

function indexOfId(entries: readonly CatalogEntry[], id: string): number {
  const name = withoutClaudeAlias(id);
  return entries.findIndex(({ model }) => model.id === name);
}

function cachedResponse(headers: Headers, text: string, etag: string): Response {
  const common = {
    etag,
    "cache-control": hasKey(headers) ? "private, no-cache" : `public, max-age=${CACHE_SECONDS}`,
    vary: "anthropic-version, authorization, x-api-key, x-goog-api-key, x-goog-api-client, user-agent",
  };
  if (matchesEtag(etag, headers.get("if-none-match")))
    return new Response(null, { status: 304, headers: common });
  return new Response(text, { headers: { ...common, "content-type": "application/json" } });
}

function hasKey(headers: Headers): boolean {
  return headers.has("authorization") || headers.has("x-api-key");
}

function etagOf(text: string): string {
  return `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`;
}
