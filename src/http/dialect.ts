// The form of an error for an address at which there may be no route.

import type { Dialect } from "./route.ts";

/** Where the pages are, a browser is shown a page, also for an address that is none of theirs. */
const PAGES = /^\/(?:console|operator|claim|pay|sessions|signin|signout)(?:\/|$)/;

export function dialectOf(path: string, headers: Headers): Dialect {
  if (PAGES.test(path) && /\btext\/html\b/i.test(headers.get("accept") ?? "")) return "page";
  if (path.startsWith("/v1/messages")) return "messages";
  if (path.startsWith("/oauth2/") || path.startsWith("/agent/")) return "oauth";
  return "openai";
}
