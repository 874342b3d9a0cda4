// The headers of a request to a provider: its credential, and the few of the caller's own that are forwarded.

import { invalid } from "../../base/fault.ts";
import { memoize } from "../../base/memoize.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";

const FORWARDED_HEADERS = [
  "anthropic-beta",
  "anthropic-version",
  "openai-beta",
  "x-grok-conv-id",
  "accept-language",
] as const;

/** What no header value may contain (RFC 9110 §5.5); the runtime accepts a DEL. */
const INVALID_HEADER_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;

/** Anthropic requires a version; this is sent where the caller named none. */
const ANTHROPIC_VERSION = "2023-06-01";

/** Rejects a header that could not be forwarded: the caller's mistake must not count as a failure of the provider. */
export function validateForwardedHeaders(headers: Headers): void {
  for (const name of FORWARDED_HEADERS) {
    const value = headers.get(name);
    if (value !== null && INVALID_HEADER_CHARACTER.test(value))
      throw invalid(name, `The header \`${name}\` contains a control character. Remove it.`);
  }
}

/** Most callers send none of the forwarded headers. */
export function requestHeaders(
  credential: Credential,
  wire: UpstreamWire,
  callerHeaders: Headers,
): Readonly<Record<string, string>> {
  const base = cachedHeaders(credential, wire);
  let headers: Record<string, string> | undefined;
  for (const name of FORWARDED_HEADERS) {
    const value = callerHeaders.get(name);
    if (value === null) continue;
    headers ??= { ...base };
    headers[name] = value;
  }
  return headers ?? base;
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
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "postern",
    "accept-encoding": "identity",
    ...provider.headers,
  };
  const isMessages = wire === "messages" || wire === "count_tokens";
  if (isMessages) headers["anthropic-version"] = ANTHROPIC_VERSION;
  if (apiKey === undefined) return headers;
  // A provider of several wires takes the key on each as that API's own clients send it.
  if (isMessages && provider.auth === "bearer" && provider.cloudAuth === undefined)
    headers["x-api-key"] = apiKey.reveal();
  else if (wire === "gemini" && provider.auth === "bearer")
    headers["x-goog-api-key"] = apiKey.reveal();
  else if (provider.auth === "bearer") headers["authorization"] = `Bearer ${apiKey.reveal()}`;
  else headers[provider.auth] = apiKey.reveal();
  return headers;
}
