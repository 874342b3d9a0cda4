// Where a call may go, in the order of trying. A model that is asked for by its id goes to its own provider, and nowhere
// else: `models` and `provider` in the request, or a name without a provider, open more ways.

import { Fault, invalid } from "../../base/fault.ts";
import {
  type Catalog,
  type ResolvedModel,
  findModel,
  type Model,
  modelNotFound,
} from "../../models/catalog.ts";
import { cardAt } from "../../models/price-card.ts";
import { modelsNamed, sameModels } from "../../models/same-model.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { type CircuitBreaker, circuitName } from "./circuit-breaker.ts";
import {
  type CandidateQuery,
  type Candidate,
  candidatesForModel,
  type CandidateDeps,
  type Candidates,
  localModel,
  noProviderConfigured,
} from "./candidates.ts";
import { PROVIDERS, type RelayedWire } from "../providers/providers.ts";
import { type Endpoint, orderEndpoints, type RoutingState } from "./provider-order.ts";
import { type RoutingPreferences, readPreferences } from "./routing-preferences.ts";
import { createProviderStatistics, type ProviderHealth } from "./provider-statistics.ts";
import { conversationHash, createStickyRouting } from "./sticky-routing.ts";

export interface RoutingDeps extends CandidateDeps {
  readonly catalog: { readonly current: () => Catalog };
  readonly routing: RoutingState;
  readonly now: () => number;
}

/** More would only make the caller wait, and the hold larger. */
const MAX_CANDIDATES = 12;

/** The label of the gateway's own accounts. */
const GATEWAY_LABEL = "gateway";

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

/** How a model at its provider is doing, on the gateway's own account. */
export function providerHealth(
  { statistics, isDown }: RoutingState,
  { provider, id, name }: Model,
  now: number,
): ProviderHealth & { readonly status: "up" | "degraded" | "down" } {
  const health = statistics.health(provider, id, now);
  const status = isDown(provider, GATEWAY_LABEL, name, { now })
    ? "down"
    : health.isDegraded
      ? "degraded"
      : "up";
  return { ...health, status };
}

/** The candidates for a call: at once for most, whose model has one place and whose account's keys are known. */
export function findCandidates(
  request: ParsedRequest,
  wire: RelayedWire,
  accountId: string,
  deps: RoutingDeps,
): Candidates | Promise<Candidates> {
  const query = { wire, accountId, catalog: deps.catalog.current() };
  const preferences =
    wire === "embeddings"
      ? undefined
      : readPreferences(request.json, (id) => isProvider(id, query.catalog));
  if (preferences === undefined) {
    const found = findModel(query.catalog, request.model) ?? localModel(request.model, deps);
    if (found !== undefined) return candidatesForModel(found, query, deps);
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
): Promise<readonly Endpoint[]> {
  const { deps, query } = search;
  const now = deps.now();
  const { found: models, preferences } = modelsMatching(id, path, search, now);
  const allowed = models.filter((one) => isAllowed(one, preferences, now));
  if (allowed.length === 0) faults.push(noProviderLeftFault(id, models, preferences));
  const failed: Fault[] = [];
  const results = await Promise.all(
    allowed.map(async (one) => {
      try {
        return await candidatesForModel(one, query, deps);
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        failed.push(error);
        return undefined;
      }
    }),
  );
  const endpoints = results.filter((one) => one !== undefined);
  const areAllUnconfigured = failed.every(({ code }) => code === "provider_not_configured");
  if (areAllUnconfigured && failed.length === allowed.length && failed.length > 1)
    faults.push(
      noProviderConfigured(
        allowed.map(({ model }) => model),
        deps.accountAt,
      ),
    );
  else faults.push(...failed);
  if (endpoints.length < 2) return endpoints;
  const conversation = conversationHash(request, query.accountId);
  const ordered = orderEndpoints(endpoints, preferences, {
    now,
    accountId: query.accountId,
    stream: request.stream,
    routing: deps.routing,
    lastProvider: deps.routing.sticky.providerOf(conversation, id, now),
  });
  return ordered.map((endpoint) => withStickyKey(endpoint, { conversation, requestedModel: id }));
}

function withStickyKey(
  [first, ...rest]: Endpoint,
  stickyKey: NonNullable<Candidate["stickyKey"]>,
): Endpoint {
  return [{ ...first, stickyKey }, ...rest.map((one) => ({ ...one, stickyKey }))];
}

// The models of all providers that may be meant, before anything is left out.
function modelsMatching(
  id: string,
  path: string,
  { query: { catalog }, deps, preferences = DEFAULT_PREFERENCES }: RoutingSearch,
  now: number,
): { readonly found: readonly ResolvedModel[]; readonly preferences: RoutingPreferences } {
  const named = findModel(catalog, id) ?? localModel(id, deps);
  if (named === undefined) {
    const found = id.includes("/") ? [] : modelsNamed(catalog, id, now).map(toModelMatch);
    if (found.length === 0) throw modelNotFound(catalog, id, path);
    return { found, preferences };
  }
  if (!allowsOtherProviders(preferences)) return { found: [named], preferences };
  const [, ...others] = sameModels(catalog, named.model, now);
  return { found: [named, ...others.map(toModelMatch)], preferences };
}

function toModelMatch(model: ResolvedModel["model"]): ResolvedModel {
  return { model, upstreamName: model.name };
}

// A limit on the price alone, or a ban on falling back, does not send a call anywhere else.
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

// Without fall-backs an order is the whole list.
function isExclusiveOrder({ order, allowFallbacks }: RoutingPreferences): boolean {
  return order !== undefined && allowFallbacks === false;
}

function noProviderLeftFault(
  id: string,
  found: readonly ResolvedModel[],
  preferences: RoutingPreferences,
): Fault {
  const providers = found.map(({ model }) => model.provider).join(", ");
  const { maxPrice, only, ignore } = preferences;
  const isPrice = maxPrice.prompt !== undefined || maxPrice.completion !== undefined;
  const fields = [
    ...(isExclusiveOrder(preferences) ? ["order"] : []),
    ...(only === undefined ? [] : ["only"]),
    ...(ignore.length === 0 ? [] : ["ignore"]),
    ...(isPrice ? ["max_price"] : []),
  ].map((field) => `provider.${field}`);
  return invalid(
    fields.length === 1 ? fields[0] : "provider",
    `${fields.join(" and ")} leaves no provider for ${id}, which can be had from ${providers}. GET /v1/models/${id}/endpoints lists them with their prices.`,
  );
}

function isProvider(id: string, catalog: Catalog): boolean {
  return [...PROVIDERS, ...catalog.providers].some((provider) => provider.id === id);
}
