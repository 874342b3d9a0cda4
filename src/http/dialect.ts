// Chooses the error envelope for a path that may have no route.

import type { Dialect } from "./route.ts";

/** Paths without pages: errors are JSON whatever `accept` says. */
const API_PATHS = /^\/(?:v1|agent|oauth2|\.well-known)(?:\/|$)/;

export function dialectOf(path: string, headers: Headers): Dialect {
  if (!API_PATHS.test(path) && /\btext\/html\b/i.test(headers.get("accept") ?? "")) return "page";
  if (path.startsWith("/v1/messages")) return "messages";
  if (path.startsWith("/oauth2/") || path.startsWith("/agent/")) return "oauth";
  if (path === "/mcp") return "jsonrpc";
  return "openai";
}
