// Blocks web pages of other hosts in development: a gateway on localhost has no limits and calls providers with the
// developer's own keys, and any site open in their browser could reach it.

import { Fault } from "../../base/fault.ts";
import { isLoopbackHost } from "../../base/network/public-address.ts";

/** Whether a page of another host sent the request. Only browsers send `origin`. */
export function isForeignOrigin(headers: Headers): boolean {
  const origin = headers.get("origin");
  if (origin === null) return false;
  return !URL.canParse(origin) || !isLoopbackHost(new URL(origin).hostname);
}

export function requireLocalOrigin(headers: Headers): void {
  if (!isForeignOrigin(headers)) return;
  throw new Fault("forbidden", "foreign origin in development", {
    message:
      "In development mode, only pages on this machine can create accounts. Call without an `origin` header, or set POSTERN_BASE_URL to the gateway's public URL, which turns development mode off.",
    param: "origin",
  });
}

/** Without these headers, browsers block other pages from sending the call and reading the response. */
export function removeCorsHeaders(headers: Headers): void {
  const corsNames = [...headers.keys()].filter((name) => name.startsWith("access-control-"));
  for (const name of corsNames) headers.delete(name);
}
