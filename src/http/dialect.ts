// The form of an error for an address at which there may be no route.

import type { Dialect } from "./route.ts";

/** Where programs call, there are no pages, whatever a program says that it takes. */
const API_PATHS = /^\/(?:v1|agent|oauth2|\.well-known)(?:\/|$)/;

/** A browser is shown a page, also for an address that leads nowhere. */
export function dialectOf(path: string, headers: Headers): Dialect {
  if (!API_PATHS.test(path) && /\btext\/html\b/i.test(headers.get("accept") ?? "")) return "page";
  if (path.startsWith("/v1/messages")) return "messages";
  if (path.startsWith("/oauth2/") || path.startsWith("/agent/")) return "oauth";
  return "openai";
}
