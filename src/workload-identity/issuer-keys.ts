// The public keys of OpenID Connect issuers, found by their discovery documents.

import type { JSONWebKeySet } from "jose";
import { z } from "zod";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import {
  createPublishedKeys,
  getPublicJson,
  type PublishedKeys,
} from "../base/network/published-keys.ts";

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

export function createIssuerKeys(options: IssuerKeysOptions): IssuerKeys {
  // In the order of their creation: the oldest is dropped for a new one.
  const issuers = new Map<string, PublishedKeys<JSONWebKeySet>>();
  const keysOf = (issuer: string): PublishedKeys<JSONWebKeySet> => {
    const known = issuers.get(issuer);
    if (known !== undefined) return known;
    const [oldest] = issuers.keys();
    if (issuers.size >= ISSUERS_MAX && oldest !== undefined) issuers.delete(oldest);
    const created = createPublishedKeys(() => readKeys(issuer, options));
    issuers.set(issuer, created);
    return created;
  };
  return {
    find: async (issuer, keyId, now) => {
      const hasKey = ({ keys }: JSONWebKeySet): boolean =>
        keyId === undefined || keys.some(({ kid }) => kid === keyId);
      const found = await keysOf(issuer)(hasKey, now);
      if (found === undefined) throw new Error("the keys of the issuer could not be read");
      return found;
    },
  };
}

async function readKeys(issuer: string, options: IssuerKeysOptions): Promise<JSONWebKeySet> {
  const document = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const discovery = Discovery.parse(await fetchJson(document, options));
  if (discovery.issuer !== issuer) throw new Error("the document is of another issuer");
  return KeySet.parse(await fetchJson(discovery.jwks_uri, options));
}

async function fetchJson(url: string, options: IssuerKeysOptions): Promise<unknown> {
  const endpoint = parseEndpoint(url, options.allowLoopback);
  if (typeof endpoint === "string") throw new Error(`the URL ${endpoint}`);
  return await getPublicJson(endpoint, "application/json", options.resolve);
}
