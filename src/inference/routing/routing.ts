// Finds the candidates for a call, in the order to try them. A model id goes to its own provider only. `models` and
// `provider` in the request, or a model name without a provider, allow more.

import { WIRE_TRAITS } from "@postern/wires";
import { Fault, invalid } from "../../base/fault.ts";
import type { Caller } from "../../http/route.ts";
import { type Catalog, findModel, type Model, type ResolvedModel } from "../../models/catalog.ts";
import { modelNotFound, shutDownMessage } from "../../models/model-not-found.ts";
import { cardAt } from "../../models/price-card.ts";
import { blendedPrice, modelsNamed, sameModels } from "../../models/same-model.ts";
import type { Credential } from "../providers/credentials.ts";
import { PROVIDERS, type RelayedWire } from "../providers/providers.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { usesGatewayTools } from "../request/tool-bounds.ts";
import {
  type Candidate,
  type CandidateDeps,
  type CandidateQuery,
  type Candidates,
  candidatesForModel,
  localModel,
  noProviderConfigured,
} from "./candidates.ts";
import { type CircuitBreaker, circuitName } from "./circuit-breaker.ts";
import {
  createProviderStatistics,
  type ProviderStatistics,
  type RecentHealth,
} from "./provider-statistics.ts";
import { readPreferences, type RoutingPreferences, type SortKey } from "./routing-preferences.ts";
import { conversationHash, createStickyRouting, type StickyRouting } from "./sticky-routing.ts";

export interface RoutingDeps extends CandidateDeps {
  readonly catalog: { readonly current: () => Catalog };
  readonly routing: RoutingState;
  readonly now: () => number;
}

/** More candidates would only delay the caller's error and increase the hold. */
const MAX_CANDIDATES = 12;

const DEFAULT_PREFERENCES: RoutingPreferences = {
  models: [],
  order: undefined,
  only: undefined,
  ignore: [],
  sort: undefined,
  allowFallbacks: true,
  maxPrice: {},
};

export function createRoutingState(breaker: CircuitBreaker): RoutingState {
  return {
    statistics: createProviderStatistics(),
    sticky: createStickyRouting(),
    isDown: (provider, account, upstreamName, { now, accountId }) =>
      breaker.isOpen(circuitName(provider, account, upstreamName), now, accountId),
  };
}

/** Recent health of a model at its provider, on the gateway's own keys. */
export function providerHealth(
  { statistics, isDown }: RoutingState,
  { provider, id, name }: Model,
  { credentials, now }: { readonly credentials: readonly Credential[]; readonly now: number },
): RecentHealth & { readonly status: "up" | "degraded" | "down" } {
  const health = statistics.health(provider, id, now);
  const isDownForAll =
    credentials.length > 0 &&
    credentials.every(({ label }) => isDown(provider, label, name, { now }));
  const status = isDownForAll ? "down" : health.isDegraded ? "degraded" : "up";
  return { ...health, status };
}

/** The candidates for a call; synchronous in the usual case of a single provider with cached keys. */
export function findCandidates(
  request: ParsedRequest,
  wire: RelayedWire,
  caller: Caller,
  deps: RoutingDeps,
): Candidates | Promise<Candidates> {
  const query = { wire, caller, catalog: deps.catalog.current() };
  const preferences = WIRE_TRAITS[wire].isReplaceable
    ? readPreferences(request.json, (id) => isProvider(id, query.catalog))
    : undefined;
  if (preferences === undefined) {
    const resolved = findModel(query.catalog, request.model) ?? localModel(request.model, deps);
    if (resolved !== undefined) return candidatesForModel(resolved, query, deps);
  }
  return searchCandidates(request, { query, deps, preferences });
}

interface RoutingSearch {
  readonly query: CandidateQuery;
  readonly deps: RoutingDeps;
  readonly preferences: RoutingPreferences | undefined;
}

async function searchCandidates(
  request: ParsedRequest,
  search: RoutingSearch,
): Promise<Candidates> {
  const { models = [] } = search.preferences ?? {};
  const paramById = new Map([[request.model, "model"]]);
  for (const [index, id] of models.entries())
    if (!paramById.has(id)) paramById.set(id, `models[${index}]`);
  const faults: Fault[] = [];
  const candidates: Candidate[] = [];
  for (const [id, path] of paramById) {
    const endpoints = await endpointsFor(request, { id, path }, search, faults);
    candidates.push(...endpoints.flat());
  }
  const [first, ...rest] = candidates.slice(0, MAX_CANDIDATES);
  if (first === undefined) throw faults[0] ?? modelNotFound(search.query.catalog, request.model);
  return [first, ...rest];
}

async function endpointsFor(
  request: ParsedRequest,
  { id, path }: { readonly id: string; readonly path: string },
  search: RoutingSearch,
  faults: Fault[],
): Promise<readonly EndpointCandidates[]> {
  const { deps, query } = search;
  const now = deps.now();
  const { models, preferences } = modelsMatching(id, path, search, now);
  const allowed = models.filter((model) => isAllowed(model, preferences, now));
  if (allowed.length === 0) faults.push(noProviderLeftFault(id, models, preferences));
  const failed: Fault[] = [];
  const results = await Promise.all(
    allowed.map(async (model) => {
      try {
        return await candidatesForModel(model, query, deps);
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        failed.push(error);
        return undefined;
      }
    }),
  );
  const endpoints = results.filter((endpoint) => endpoint !== undefined);
  const areAllUnconfigured = failed.every(({ code }) => code === "provider_not_configured");
  if (areAllUnconfigured && failed.length === allowed.length && failed.length > 0)
    faults.push(
      noProviderConfigured(
        allowed.map(({ model }) => model),
        deps.accountAt,
        shutDownMessage(query.catalog, id),
      ),
    );
  else faults.push(...failed);
  if (endpoints.length < 2) return endpoints;
  const conversation = conversationHash(request, query.caller.accountId);
  const ordered = orderEndpoints(endpoints, preferences, {
    now,
    accountId: query.caller.accountId,
    stream: request.stream,
    routing: deps.routing,
    lastProvider: deps.routing.sticky.providerOf(conversation, id, now),
    lacksTools: (model) => usesGatewayTools(request, model),
  });
  return ordered.map((endpoint) => withStickyKey(endpoint, { conversation, requestedModel: id }));
}

function withStickyKey(
  [first, ...rest]: EndpointCandidates,
  stickyKey: NonNullable<Candidate["stickyKey"]>,
): EndpointCandidates {
  return [{ ...first, stickyKey }, ...rest.map((candidate) => ({ ...candidate, stickyKey }))];
}

// The models, at all providers, that `id` may refer to, before the preferences exclude any.
function modelsMatching(
  id: string,
  path: string,
  {
    query: { catalog },
    deps,
    preferences = DEFAULT_PREFERENCES,
  }: Pick<RoutingSearch, "deps" | "preferences"> & {
    readonly query: Pick<CandidateQuery, "catalog">;
  },
  now: number,
): { readonly models: readonly ResolvedModel[]; readonly preferences: RoutingPreferences } {
  const named = findModel(catalog, id) ?? localModel(id, deps);
  const variant = named === undefined ? variantOf(id) : undefined;
  if (variant !== undefined) {
    if (variant.sort === undefined) throw unsupportedVariantFault(catalog, variant, path);
    const sorted = { ...preferences, sort: preferences.sort ?? variant.sort };
    return modelsMatching(variant.id, path, { query: { catalog }, deps, preferences: sorted }, now);
  }
  if (named === undefined) {
    const models = id.includes("/") ? [] : modelsNamed(catalog, id, now).map(toResolvedModel);
    if (models.length === 0) throw modelNotFound(catalog, id, path);
    return { models, preferences };
  }
  if (!allowsOtherProviders(preferences)) return { models: [named], preferences };
  const [, ...others] = sameModels(catalog, named.model, now);
  return { models: [named, ...others.map(toResolvedModel)], preferences };
}

/** OpenRouter's suffixes of model ids: those that sort the providers, and those that this gateway does not have. */
const VARIANT_SORTS: ReadonlyMap<string, SortKey | undefined> = new Map([
  ["nitro", "throughput"],
  ["floor", "price"],
  ["online", undefined],
  ["batch", undefined],
  ["free", undefined],
]);

interface ModelVariant {
  /** Without the suffix. */
  readonly id: string;
  readonly suffix: string;
  readonly sort: SortKey | undefined;
}

function variantOf(id: string): ModelVariant | undefined {
  const colon = id.lastIndexOf(":");
  const suffix = id.slice(colon + 1);
  return colon < 1 || !VARIANT_SORTS.has(suffix)
    ? undefined
    : { id: id.slice(0, colon), suffix, sort: VARIANT_SORTS.get(suffix) };
}

function unsupportedVariantFault(
  catalog: Catalog,
  { id, suffix }: ModelVariant,
  path: string,
): Fault {
  if (findModel(catalog, id) === undefined) return modelNotFound(catalog, id, path);
  return new Fault("model_not_found", `no variant ${suffix} of ${id}`, {
    message: `This gateway has no \`:${suffix}\` variants of models. Use "${id}".`,
    param: path,
    next: [
      { method: "GET", url: `/v1/models/${id}`, why: "Read the price and abilities of the model." },
    ],
  });
}

function toResolvedModel(model: Model): ResolvedModel {
  return { model, upstreamName: model.name };
}

// `max_price` and `allow_fallbacks: false` only restrict a call; they do not allow other providers.
function allowsOtherProviders({
  order,
  only,
  ignore,
  sort,
  allowFallbacks,
}: RoutingPreferences): boolean {
  return (
    order !== undefined ||
    only !== undefined ||
    ignore.length > 0 ||
    sort !== undefined ||
    allowFallbacks === true
  );
}

function isAllowed(
  { model }: ResolvedModel,
  preferences: RoutingPreferences,
  now: number,
): boolean {
  const { only, ignore, maxPrice } = preferences;
  if (only !== undefined && !only.includes(model.provider)) return false;
  if (isExclusiveOrder(preferences) && preferences.order?.includes(model.provider) === false)
    return false;
  if (ignore.includes(model.provider)) return false;
  const rates = cardAt(model.prices, now)?.base;
  return (
    (maxPrice.prompt === undefined || (rates?.input ?? 0n) <= maxPrice.prompt) &&
    (maxPrice.completion === undefined || (rates?.output ?? 0n) <= maxPrice.completion)
  );
}

// With `allow_fallbacks: false`, `order` is the complete list of providers.
function isExclusiveOrder({ order, allowFallbacks }: RoutingPreferences): boolean {
  return order !== undefined && allowFallbacks === false;
}

function noProviderLeftFault(
  id: string,
  models: readonly ResolvedModel[],
  preferences: RoutingPreferences,
): Fault {
  const providers = models.map(({ model }) => model.provider).join(", ");
  const { maxPrice, only, ignore } = preferences;
  const hasMaxPrice = maxPrice.prompt !== undefined || maxPrice.completion !== undefined;
  const fields = [
    ...(isExclusiveOrder(preferences) ? ["order"] : []),
    ...(only === undefined ? [] : ["only"]),
    ...(ignore.length === 0 ? [] : ["ignore"]),
    ...(hasMaxPrice ? ["max_price"] : []),
  ].map((field) => `provider.${field}`);
  return invalid(
    fields.length === 1 ? fields[0] : "provider",
    `No provider of ${id} matches ${fields.map((field) => `\`${field}\``).join(" and ")}. It is available from ${providers}: see GET /v1/models/${id}/endpoints for their prices.`,
  );
}

function isProvider(id: string, catalog: Catalog): boolean {
  return [...PROVIDERS, ...catalog.providers].some((provider) => provider.id === id);
}

// Orders the providers of one model. The caller's `order` is followed exactly. Without it, providers that are down go last, and
// those that run the tools of the call go first, then the provider that answered this conversation before.

/** One provider's accounts for a model. */
type EndpointCandidates = readonly [Candidate, ...Candidate[]];

/** What routing learned from earlier calls. */
interface RoutingState {
  readonly statistics: ProviderStatistics;
  readonly sticky: StickyRouting;
  readonly isDown: (
    provider: string,
    account: string,
    upstreamName: string,
    query: { readonly now: number; readonly accountId?: string },
  ) => boolean;
}

interface OrderContext {
  readonly now: number;
  readonly accountId: string;
  readonly stream: boolean;
  readonly routing: RoutingState;
  /** The provider that answered the conversation's last turn. */
  readonly lastProvider: string | undefined;
  /** Whether the gateway would have to run tools of the call for this model. */
  readonly lacksTools: (model: Candidate["model"]) => boolean;
}

function orderEndpoints(
  endpoints: readonly EndpointCandidates[],
  { order, sort, allowFallbacks }: RoutingPreferences,
  context: OrderContext,
): readonly EndpointCandidates[] {
  const sorted = sort === undefined ? endpoints : sortEndpoints(endpoints, sort, context);
  if (order !== undefined) {
    const listed = order.flatMap((id) => sorted.filter((endpoint) => providerOf(endpoint) === id));
    const others = sorted.filter((endpoint) => !listed.includes(endpoint));
    return [...new Set([...listed, ...others])];
  }
  const isEndpointDown = (endpoint: EndpointCandidates): boolean =>
    endpoint.every(({ credential, upstreamName }) =>
      context.routing.isDown(credential.provider.id, credential.label, upstreamName, context),
    );
  const up = sorted.filter((endpoint) => !isEndpointDown(endpoint));
  const withTools = up.filter(([{ model }]) => !context.lacksTools(model));
  const inOrder = sort === undefined && withTools.length < up.length ? withTools : [];
  const preferred = up.filter((endpoint) => providerOf(endpoint) === context.lastProvider);
  const ordered = new Set([...inOrder, ...preferred, ...up, ...sorted]);
  return allowFallbacks === false ? [...ordered].slice(0, 1) : [...ordered];
}

function providerOf([{ credential }]: EndpointCandidates): string {
  return credential.provider.id;
}

// An endpoint without recent samples ranks first: otherwise it would never be measured.
function sortEndpoints(
  endpoints: readonly EndpointCandidates[],
  sort: SortKey,
  context: OrderContext,
): readonly EndpointCandidates[] {
  const ranked = endpoints.map((endpoint) => ({
    endpoint,
    rank: rankOf(endpoint, sort, context),
  }));
  return ranked.toSorted((left, right) => left.rank - right.rank).map(({ endpoint }) => endpoint);
}

function rankOf(
  [{ model }]: EndpointCandidates,
  sort: SortKey,
  { now, stream, routing }: OrderContext,
): number {
  if (sort === "price") return Number(blendedPrice(model, now) ?? 0n);
  const health = routing.statistics.health(model.provider, model.id, now);
  if (sort === "throughput") return -(health.throughput ?? Number.MAX_VALUE);
  const { latencyMs, replyMs } = health;
  return (stream ? (latencyMs ?? replyMs) : (replyMs ?? latencyMs)) ?? -1;
}
