// The headers of a caller's request that are forwarded to the provider. No other header leaves the gateway.

import { invalid } from "../../base/fault.ts";

export type ForwardedHeaders = Readonly<Record<string, string>>;

/** One object for all callers that send none, so that it can be compared by identity. */
export const NO_FORWARDED_HEADERS: ForwardedHeaders = {};

export const FORWARDED_HEADERS = [
  "anthropic-beta",
  "anthropic-version",
  "openai-beta",
  // Codex: the tools are an item of the input, and not the field `tools`.
  "x-openai-internal-codex-responses-lite",
  "x-grok-conv-id",
  "accept-language",
] as const;

/** Characters that are invalid in a header value (RFC 9110 §5.5). The runtime accepts a DEL, so it is checked here. */
const INVALID_HEADER_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;

/** Anthropic asks gateways to forward all of its headers: its clients add new ones. */
export const ANTHROPIC_PREFIX = "anthropic-";
/** Names of workspaces, organizations and credentials belong to the caller's own account at the provider. */
export const OWN_ACCOUNT_HEADER = /^anthropic-.*(?:ids?|key|token|workspace|organization|profile)$/;

/** Other APIs' clients send at most the two headers above, so only calls of the Messages API list all of theirs. */
export function readForwardedHeaders(headers: Headers, isMessages: boolean): ForwardedHeaders {
  let forwarded: Record<string, string> | undefined;
  if (isMessages)
    for (const [name, value] of headers) {
      if (!name.startsWith(ANTHROPIC_PREFIX)) continue;
      forwarded ??= {};
      forwarded[name] = checkedValue(name, value);
    }
  for (const name of FORWARDED_HEADERS) {
    const value = headers.get(name);
    if (value === null) continue;
    forwarded ??= {};
    forwarded[name] = checkedValue(name, value);
  }
  return forwarded ?? NO_FORWARDED_HEADERS;
}

function checkedValue(name: string, value: string): string {
  // Sending it would fail, and count as a failure of the provider.
  if (INVALID_HEADER_CHARACTER.test(value))
    throw invalid(name, `The header \`${name}\` contains a control character. Remove it.`);
  return value;
}

/** Without the headers that only make sense with the caller's own provider account. */
export function forSharedAccount(headers: ForwardedHeaders): ForwardedHeaders {
  return Object.keys(headers).some((name) => OWN_ACCOUNT_HEADER.test(name))
    ? Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN_ACCOUNT_HEADER.test(name)))
    : headers;
}

const BETA = "anthropic-beta";

/** Adds a beta of Anthropic's API to those that the caller requested. */
export function withBeta(headers: ForwardedHeaders, beta: string | undefined): ForwardedHeaders {
  if (beta === undefined) return headers;
  const asked = headers[BETA];
  return { ...headers, [BETA]: asked === undefined ? beta : `${asked},${beta}` };
}
