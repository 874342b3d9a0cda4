// The headers of a request to a provider: its credential, and those of the caller that are forwarded.

import { WIRE_TRAITS } from "@postern/wires";
import { memoize } from "../../base/memoize.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import {
  type ForwardedHeaders,
  forSharedAccount,
  NO_FORWARDED_HEADERS,
} from "../request/forwarded-headers.ts";

/** Anthropic requires a version; this one is sent if the caller sent none. */

export function requestHeaders(
  credential: Credential,
  wire: UpstreamWire,
  forwarded: ForwardedHeaders,
): Readonly<Record<string, string>> {
  const headers = cachedHeaders(credential, wire);
  // Most callers send none: their headers stay the cached object.
  if (forwarded === NO_FORWARDED_HEADERS) return headers;
  return { ...headers, ...(credential.byok ? forwarded : forSharedAccount(forwarded)) };
}

type HeadersForWire = (wire: UpstreamWire) => Readonly<Record<string, string>>;
const headerCache = new WeakMap<Credential, HeadersForWire>();

// Built once for each of the gateway's own accounts, and frozen: the HTTP client caches how frozen headers are encoded.
function cachedHeaders(
  credential: Credential,
  wire: UpstreamWire,
): Readonly<Record<string, string>> {
  if (credential.byok) return buildHeaders(credential, wire);
  const cached = headerCache.get(credential);
  if (cached !== undefined) return cached(wire);
  const headersFor: HeadersForWire = memoize((one) => Object.freeze(buildHeaders(credential, one)));
  headerCache.set(credential, headersFor);
  return headersFor(wire);
}

function buildHeaders(
  { provider, apiKey }: Credential,
  wire: UpstreamWire,
): Record<string, string> {
  const { headers: wireHeaders, ...traits } = WIRE_TRAITS[wire];
  const keyHeader = provider.cloudAuth === undefined ? traits.keyHeader : traits.cloudKeyHeader;
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "postern",
    "accept-encoding": "identity",
    ...provider.headers,
    ...wireHeaders,
  };
  if (apiKey === undefined) return headers;
  // A provider of several wires takes the key on each as that API's own clients send it.
  if (keyHeader !== undefined && provider.auth === "bearer") headers[keyHeader] = apiKey.reveal();
  else if (provider.auth === "bearer") headers["authorization"] = `Bearer ${apiKey.reveal()}`;
  else headers[provider.auth] = apiKey.reveal();
  return headers;
}
