// The headers of a caller's request that are forwarded to the provider. No other header leaves the gateway.

import { invalid } from "../../base/fault.ts";

export type ForwardedHeaders = Readonly<Record<string, string>>;

/** One object for all callers that send none, so that it can be compared by identity. */
export const NO_FORWARDED_HEADERS: ForwardedHeaders = {};

const FORWARDED_HEADERS = [
  "anthropic-beta",
  "anthropic-version",
  "openai-beta",
  "x-grok-conv-id",
  "accept-language",
] as const;

/** Characters that are invalid in a header value (RFC 9110 §5.5). The runtime accepts a DEL, so it is checked here. */
const INVALID_HEADER_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;

export function readForwardedHeaders(headers: Headers): ForwardedHeaders {
  let forwarded: Record<string, string> | undefined;
  for (const name of FORWARDED_HEADERS) {
    const value = headers.get(name);
    if (value === null) continue;
    // Sending it would fail, and count as a failure of the provider.
    if (INVALID_HEADER_CHARACTER.test(value))
      throw invalid(name, `The header \`${name}\` contains a control character. Remove it.`);
    forwarded ??= {};
    forwarded[name] = value;
  }
  return forwarded ?? NO_FORWARDED_HEADERS;
}

const BETA = "anthropic-beta";

/** Adds a beta of Anthropic's API to those that the caller requested. */
export function withBeta(headers: ForwardedHeaders, beta: string | undefined): ForwardedHeaders {
  if (beta === undefined) return headers;
  const asked = headers[BETA];
  return { ...headers, [BETA]: asked === undefined ? beta : `${asked},${beta}` };
}
