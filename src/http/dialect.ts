// Chooses the error envelope for a path that may have no route.

import type { ErrorDialect } from "./route.ts";

/** Paths without pages: errors are JSON whatever `accept` says. */
const API_PATHS = /^\/(?:v[12]|agent|oauth2?|scim|managed|\.well-known)(?:\/|$)/;

/** Google's paths, most of which have no route: `/v1beta/models/<model>:embedText`. */
const GOOGLE_PATHS = /^\/v1\/(?:models\/.+:\w+$|projects\/)|^\/v1(?:alpha|beta1?)\//;

/** Amazon Bedrock's paths, which have no route either: `/model/<model>/converse-stream`. */
const BEDROCK_PATHS = /\/model\/[^/]+\/(?:converse|invoke|count-tokens)/;

/** Calls with a wrong base URL, such as `/v1/v1/messages`. */
function isAnthropicCall(path: string, headers: Headers): boolean {
  return /\/messages?(?:\/count_tokens)?\/?$/.test(path) || headers.has("anthropic-version");
}

export function dialectOf(path: string, headers: Headers): ErrorDialect {
  if (!API_PATHS.test(path) && /\btext\/html\b/i.test(headers.get("accept") ?? "")) return "page";
  if (GOOGLE_PATHS.test(path)) return "google";
  if (BEDROCK_PATHS.test(path)) return "aws";
  if (path.startsWith("/v1/messages") || isAnthropicCall(path, headers)) return "messages";
  if (/^\/oauth2?\/|^\/mcp\/(?:register|token)$/.test(path) || path.startsWith("/agent/"))
    return "oauth";
  if (path === "/mcp") return "jsonrpc";
  if (path.startsWith("/scim/")) return "scim";
  return "openai";
}
