// Public keys that another server publishes, read again when they are old or lack a key. The requests connect only to public
// addresses, follow no redirect, and are limited in time and size.

import { parseJson } from "../json.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../time.ts";
import type { PublicEndpoint, ResolveHost } from "./public-endpoint.ts";
import { getPublicUrl } from "./public-url.ts";

const TIMEOUT_MS = 5_000;
const BYTES_MAX = 262_144;
const FRESH_MS = HOUR_MS;
/** An unknown key, or a failure, causes at most one request in this time. */
export const REFETCH_MS = MINUTE_MS;
/** While the keys cannot be read, the last ones count for this long. */
const STALE_MAX_MS = DAY_MS;

/** Undefined if the keys cannot be read. They are read again if `hasKey` is false for those in memory. */
export type PublishedKeys<K> = (
  hasKey: (keys: K) => boolean,
  now: number,
) => Promise<K | undefined>;

export function createPublishedKeys<K>(readKeys: () => Promise<K>): PublishedKeys<K> {
  let cached: { readonly keys: K; readonly fetchedAt: number } | undefined;
  let triedAt = Number.NEGATIVE_INFINITY;
  let inFlight: Promise<void> | undefined;

  async function refresh(now: number): Promise<void> {
    triedAt = now;
    cached = { keys: await readKeys(), fetchedAt: now };
  }

  return async (hasKey, now) => {
    const isFresh = cached !== undefined && Math.abs(now - cached.fetchedAt) < FRESH_MS;
    const isKnown = isFresh && cached !== undefined && hasKey(cached.keys);
    if (!isKnown && Math.abs(now - triedAt) >= REFETCH_MS)
      inFlight ??= refresh(now).finally(() => {
        inFlight = undefined;
      });
    await inFlight?.catch(() => undefined);
    return cached === undefined || now - cached.fetchedAt > STALE_MAX_MS ? undefined : cached.keys;
  };
}

export async function getPublicJson(
  endpoint: PublicEndpoint,
  accept: string,
  resolve: ResolveHost,
): Promise<unknown> {
  const { status, body } = await getPublicUrl({
    endpoint,
    accept,
    bytesMax: BYTES_MAX,
    resolve,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (status !== 200) throw new Error(`status ${status}`);
  if (body === undefined) throw new Error("the reply is too large");
  return parseJson(body.toString("utf8"));
}
