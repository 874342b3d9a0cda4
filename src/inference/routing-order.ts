// The order in which the providers of one model are tried. The caller's `order` is followed to the letter; without one, a
// provider that is down goes last, and one that answered this conversation before goes first.

import { blendedPrice } from "../models/same-model.ts";
import type { Candidate } from "./candidates.ts";
import type { Preferences, Sort } from "./routing-preferences.ts";
import type { Statistics } from "./routing-statistics.ts";
import type { Sticky } from "./routing-sticky.ts";

/** One provider's accounts for a model. */
export type Endpoint = readonly [Candidate, ...Candidate[]];

/** What is remembered of earlier calls. */
export interface Routing {
  readonly statistics: Statistics;
  readonly sticky: Sticky;
  readonly isDownAt: (
    provider: string,
    account: string,
    upstreamName: string,
    asked: { readonly now: number; readonly by?: string },
  ) => boolean;
}

export interface OrderContext {
  readonly now: number;
  /** The account that calls. */
  readonly by: string;
  readonly stream: boolean;
  readonly routing: Routing;
  /** The provider of the conversation's last turn. */
  readonly last: string | undefined;
}

export function inOrder(
  endpoints: readonly Endpoint[],
  { order, sort, allowFallbacks }: Preferences,
  context: OrderContext,
): readonly Endpoint[] {
  const sorted = sort === undefined ? endpoints : bySort(endpoints, sort, context);
  if (order !== undefined) {
    const listed = order.flatMap((id) => sorted.filter((one) => providerOf(one) === id));
    const others = sorted.filter((one) => !listed.includes(one));
    return [...new Set([...listed, ...others])];
  }
  const isDown = (one: Endpoint): boolean =>
    one.every(({ credential, upstreamName }) =>
      context.routing.isDownAt(credential.provider.id, credential.label, upstreamName, context),
    );
  const up = sorted.filter((one) => !isDown(one));
  const last = up.filter((one) => providerOf(one) === context.last);
  const tried = new Set([...last, ...up, ...sorted]);
  return allowFallbacks === false ? [...tried].slice(0, 1) : [...tried];
}

function providerOf([{ credential }]: Endpoint): string {
  return credential.provider.id;
}

// A provider of which nothing is known lately is tried first, and is known from then on.
function bySort(
  endpoints: readonly Endpoint[],
  sort: Sort,
  context: OrderContext,
): readonly Endpoint[] {
  const measured = endpoints.map((endpoint) => ({
    endpoint,
    rank: rankOf(endpoint, sort, context),
  }));
  return measured.toSorted((left, right) => left.rank - right.rank).map(({ endpoint }) => endpoint);
}

function rankOf([{ model }]: Endpoint, sort: Sort, { now, stream, routing }: OrderContext): number {
  if (sort === "price") return Number(blendedPrice(model, now) ?? 0n);
  const health = routing.statistics.health(model.provider, model.id, now);
  if (sort === "throughput") return -(health.throughput ?? Number.MAX_VALUE);
  const { latencyMs, replyMs } = health;
  return (stream ? (latencyMs ?? replyMs) : (replyMs ?? latencyMs)) ?? -1;
}
