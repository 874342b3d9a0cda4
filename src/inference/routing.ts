// Where a call may go, in the order of trying. A model that is asked for by its id goes to its own provider, and nowhere
// else: `models` and `provider` in the request, or a name without a provider, open more ways.

import { Fault, invalid } from "../base/fault.ts";
import {
  type Catalog,
  type Found,
  findModel,
  type Model,
  modelNotFound,
} from "../models/catalog.ts";
import { cardAt } from "../models/card.ts";
import { modelsNamed, sameModels } from "../models/same-model.ts";
import type { Ask } from "./ask.ts";
import { type Breaker, circuitOf } from "./breaker.ts";
import {
  type Asking,
  type Candidate,
  candidatesAt,
  type CandidateParts,
  type Candidates,
  localModel,
  noneConfigured,
} from "./candidates.ts";
import { PROVIDERS, type RelayedWire } from "./providers.ts";
import { type Endpoint, inOrder, type Routing } from "./routing-order.ts";
import { type Preferences, readPreferences } from "./routing-preferences.ts";
import { createStatistics, type Health } from "./routing-statistics.ts";
import { conversationOf, createSticky } from "./routing-sticky.ts";

export interface RoutingParts extends CandidateParts {
  readonly catalog: { readonly current: () => Catalog };
  readonly routing: Routing;
  readonly now: () => number;
}

/** More would only make the caller wait, and the hold larger. */
const CANDIDATES_MAX = 12;

/** The label of the gateway's own accounts. */
const GATEWAY = "gateway";

const ANY_PROVIDER: Preferences = {
  models: [],
  order: undefined,
  only: undefined,
  ignore: [],
  sort: undefined,
  allowFallbacks: true,
  maxPrice: {},
};

export function createRouting(breaker: Breaker): Routing {
  return {
    statistics: createStatistics(),
    sticky: createSticky(),
    isDownAt: (provider, account, upstreamName, { now, by }) =>
      breaker.isOpen(circuitOf(provider, account, upstreamName), now, by),
  };
}

/** How a model at its provider is doing, on the gateway's own account. */
export function healthOf(
  { statistics, isDownAt }: Routing,
  { provider, id, name }: Model,
  now: number,
): Health & { readonly status: "up" | "degraded" | "down" } {
  const health = statistics.health(provider, id, now);
  const status = isDownAt(provider, GATEWAY, name, { now })
    ? "down"
    : health.isDegraded
      ? "degraded"
      : "up";
  return { ...health, status };
}

/** The candidates for a call: at once for most, whose model has one place and whose account's keys are known. */
export function candidatesOf(
  ask: Ask,
  wire: RelayedWire,
  accountId: string,
  parts: RoutingParts,
): Candidates | Promise<Candidates> {
  const asking = { wire, accountId, catalog: parts.catalog.current() };
  const preferences =
    wire === "embeddings"
      ? undefined
      : readPreferences(ask.json, (id) => isProvider(id, asking.catalog));
  if (preferences === undefined) {
    const found = findModel(asking.catalog, ask.model) ?? localModel(ask.model, parts);
    if (found !== undefined) return candidatesAt(found, asking, parts);
  }
  return routed(ask, { asking, parts, preferences });
}

interface Search {
  readonly asking: Asking;
  readonly parts: RoutingParts;
  readonly preferences: Preferences | undefined;
}

async function routed(ask: Ask, search: Search): Promise<Candidates> {
  const { models = [] } = search.preferences ?? {};
  const asked = new Map([[ask.model, "model"]]);
  for (const [place, id] of models.entries()) if (!asked.has(id)) asked.set(id, `models[${place}]`);
  const faults: Fault[] = [];
  const candidates: Candidate[] = [];
  for (const [id, path] of asked) {
    const endpoints = await endpointsFor(ask, { id, path }, search, faults);
    candidates.push(...endpoints.flat());
  }
  const [first, ...rest] = candidates.slice(0, CANDIDATES_MAX);
  if (first === undefined) throw faults[0] ?? modelNotFound(search.asking.catalog, ask.model);
  return [first, ...rest];
}

async function endpointsFor(
  ask: Ask,
  { id, path }: { readonly id: string; readonly path: string },
  search: Search,
  faults: Fault[],
): Promise<readonly Endpoint[]> {
  const { parts, asking } = search;
  const now = parts.now();
  const { found, preferences } = waysTo(id, path, search, now);
  const wanted = found.filter((one) => isWanted(one, preferences, now));
  if (wanted.length === 0) faults.push(noneLeft(id, found, preferences));
  const failed: Fault[] = [];
  const tried = await Promise.all(
    wanted.map(async (one) => {
      try {
        return await candidatesAt(one, asking, parts);
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        failed.push(error);
        return undefined;
      }
    }),
  );
  const endpoints = tried.filter((one) => one !== undefined);
  const isNowhere = failed.every(({ code }) => code === "provider_not_configured");
  if (isNowhere && failed.length === wanted.length && failed.length > 1)
    faults.push(
      noneConfigured(
        wanted.map(({ model }) => model),
        parts.providerOf,
      ),
    );
  else faults.push(...failed);
  if (endpoints.length < 2) return endpoints;
  const conversation = conversationOf(ask, asking.accountId);
  const ordered = inOrder(endpoints, preferences, {
    now,
    by: asking.accountId,
    stream: ask.stream,
    routing: parts.routing,
    last: parts.routing.sticky.providerOf(conversation, id, now),
  });
  return ordered.map((endpoint) => withTurn(endpoint, { conversation, asked: id }));
}

function withTurn([first, ...rest]: Endpoint, turn: NonNullable<Candidate["turn"]>): Endpoint {
  return [{ ...first, turn }, ...rest.map((one) => ({ ...one, turn }))];
}

// The models of all providers that may be meant, before anything is left out.
function waysTo(
  id: string,
  path: string,
  { asking: { catalog }, parts, preferences = ANY_PROVIDER }: Search,
  now: number,
): { readonly found: readonly Found[]; readonly preferences: Preferences } {
  const named = findModel(catalog, id) ?? localModel(id, parts);
  if (named === undefined) {
    const found = id.includes("/") ? [] : modelsNamed(catalog, id, now).map(toFound);
    if (found.length === 0) throw modelNotFound(catalog, id, path);
    return { found, preferences };
  }
  if (!isOpened(preferences)) return { found: [named], preferences };
  const [, ...others] = sameModels(catalog, named.model, now);
  return { found: [named, ...others.map(toFound)], preferences };
}

function toFound(model: Found["model"]): Found {
  return { model, upstreamName: model.name };
}

// A limit on the price alone, or a ban on falling back, does not send a call anywhere else.
function isOpened({ order, only, ignore, sort, allowFallbacks }: Preferences): boolean {
  return (
    order !== undefined ||
    only !== undefined ||
    ignore.length > 0 ||
    sort !== undefined ||
    allowFallbacks === true
  );
}

function isWanted({ model }: Found, preferences: Preferences, now: number): boolean {
  const { only, ignore, maxPrice } = preferences;
  if (only !== undefined && !only.includes(model.provider)) return false;
  if (isClosedOrder(preferences) && preferences.order?.includes(model.provider) === false)
    return false;
  if (ignore.includes(model.provider)) return false;
  const rates = cardAt(model.prices, now)?.base;
  return (
    (maxPrice.prompt === undefined || (rates?.input ?? 0n) <= maxPrice.prompt) &&
    (maxPrice.completion === undefined || (rates?.output ?? 0n) <= maxPrice.completion)
  );
}

// Without fall-backs an order is the whole list.
function isClosedOrder({ order, allowFallbacks }: Preferences): boolean {
  return order !== undefined && allowFallbacks === false;
}

function noneLeft(id: string, found: readonly Found[], preferences: Preferences): Fault {
  const providers = found.map(({ model }) => model.provider).join(", ");
  const { maxPrice, only, ignore } = preferences;
  const isPrice = maxPrice.prompt !== undefined || maxPrice.completion !== undefined;
  const said = [
    ...(isClosedOrder(preferences) ? ["order"] : []),
    ...(only === undefined ? [] : ["only"]),
    ...(ignore.length === 0 ? [] : ["ignore"]),
    ...(isPrice ? ["max_price"] : []),
  ].map((field) => `provider.${field}`);
  return invalid(
    said.length === 1 ? said[0] : "provider",
    `${said.join(" and ")} leaves no provider for ${id}, which can be had from ${providers}. GET /v1/models/${id}/endpoints lists them with their prices.`,
  );
}

function isProvider(id: string, catalog: Catalog): boolean {
  return [...PROVIDERS, ...catalog.providers].some((provider) => provider.id === id);
}
