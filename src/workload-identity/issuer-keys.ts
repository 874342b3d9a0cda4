// The public keys of an OpenID Connect issuer, found by its discovery document. Both requests connect only to public
// addresses, follow no redirect, and are limited in time and size.

import type { JSONWebKeySet } from "jose";
import { z } from "zod";
import { parseJson } from "../base/json.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import { getPublicUrl } from "../base/network/public-url.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";

const TIMEOUT_MS = 5_000;
const BYTES_MAX = 262_144;
const FRESH_MS = HOUR_MS;
/** An unknown key, or a failure, causes at most one request in this time. */
const REFETCH_MS = MINUTE_MS;
/** While the issuer cannot be read, its last keys count for this long. */
const STALE_MAX_MS = DAY_MS;
const ISSUERS_MAX = 1_000;

const Discovery = z.looseObject({ issuer: z.string(), jwks_uri: z.string() });
const KeySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).max(100) });

export interface IssuerKeysOptions {
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
}

export interface IssuerKeys {
  /** Throws if the keys cannot be read. With `keyId`, they are read again if they do not have it. */
  readonly find: (issuer: string, keyId: string | undefined, now: number) => Promise<JSONWebKeySet>;
}

interface CachedIssuer {
  triedAt: number;
  fetchedAt: number;
  keys: JSONWebKeySet | undefined;
  inFlight: Promise<void> | undefined;
}

export function createIssuerKeys(options: IssuerKeysOptions): IssuerKeys {
  // In the order of their creation: the oldest is dropped for a new one.
  const issuers = new Map<string, CachedIssuer>();
  const cachedOf = (issuer: string): CachedIssuer => {
    const known = issuers.get(issuer);
    if (known !== undefined) return known;
    const [oldest] = issuers.keys();
    if (issuers.size >= ISSUERS_MAX && oldest !== undefined) issuers.delete(oldest);
    const cached = {
      triedAt: Number.NEGATIVE_INFINITY,
      fetchedAt: Number.NEGATIVE_INFINITY,
      keys: undefined,
      inFlight: undefined,
    };
    issuers.set(issuer, cached);
    return cached;
  };
  return {
    find: async (issuer, keyId, now) => {
      const cached = cachedOf(issuer);
      const isFresh = Math.abs(now - cached.fetchedAt) < FRESH_MS;
      const isKnown = keyId === undefined || cached.keys?.keys.some(({ kid }) => kid === keyId);
      if (!(isFresh && isKnown === true) && Math.abs(now - cached.triedAt) >= REFETCH_MS)
        cached.inFlight ??= refresh(cached, issuer, now, options).finally(() => {
          cached.inFlight = undefined;
        });
      await cached.inFlight?.catch(() => undefined);
      if (cached.keys === undefined || now - cached.fetchedAt > STALE_MAX_MS)
        throw new Error("the keys of the issuer could not be read");
      return cached.keys;
    },
  };
}

async function refresh(
  cached: CachedIssuer,
  issuer: string,
  now: number,
  options: IssuerKeysOptions,
): Promise<void> {
  cached.triedAt = now;
  const document = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const discovery = Discovery.parse(await fetchJson(document, options));
  if (discovery.issuer !== issuer) throw new Error("the document is of another issuer");
  cached.keys = KeySet.parse(await fetchJson(discovery.jwks_uri, options));
  cached.fetchedAt = now;
}

async function fetchJson(
  url: string,
  { allowLoopback, resolve }: IssuerKeysOptions,
): Promise<unknown> {
  const endpoint = parseEndpoint(url, allowLoopback);
  if (typeof endpoint === "string") throw new Error(`the URL ${endpoint}`);
  const { status, body } = await getPublicUrl({
    endpoint,
    accept: "application/json",
    bytesMax: BYTES_MAX,
    resolve,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (status !== 200 || body === undefined) throw new Error(`status ${status}`);
  return parseJson(body.toString("utf8"));
}
