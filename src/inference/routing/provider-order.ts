// Orders the providers of one model. The caller's `order` is followed exactly. Without it, providers that are down go last, and
// those that run the tools of the call go first, then the provider that answered this conversation before.

import { blendedPrice } from "../../models/same-model.ts";
import type { Candidate } from "./candidates.ts";
import type { ProviderStatistics } from "./provider-statistics.ts";
import type { RoutingPreferences, SortKey } from "./routing-preferences.ts";
import type { StickyRouting } from "./sticky-routing.ts";

/** One provider's accounts for a model. */
export type EndpointCandidates = readonly [Candidate, ...Candidate[]];

/** What routing learned from earlier calls. */
export interface RoutingState {
  readonly statistics: ProviderStatistics;
  readonly sticky: StickyRouting;
  readonly isDown: (
    provider: string,
    account: string,
    upstreamName: string,
    query: { readonly now: number; readonly accountId?: string },
  ) => boolean;
}

export interface OrderContext {
  readonly now: number;
  readonly accountId: string;
  readonly stream: boolean;
  readonly routing: RoutingState;
  /** The provider that answered the conversation's last turn. */
  readonly lastProvider: string | undefined;
  /** Whether the gateway would have to run tools of the call for this model. */
  readonly lacksTools: (model: Candidate["model"]) => boolean;
}

export function orderEndpoints(
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
