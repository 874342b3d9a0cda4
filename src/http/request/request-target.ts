// What a request is aimed at: its path and its query, as they came.

import { invalid } from "../../base/fault.ts";
import { uniqueFields } from "./body.ts";

const TARGET_MAX_CHARACTERS = 8_192;

// HTTP/1.0 needs no host, and a load balancer's probe sends none: the address is then the bare path.
export function splitTarget(url: string): readonly [path: string, query: string] {
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
  const mark = url.indexOf("?", start);
  if (start === -1) return ["/", ""];
  return mark === -1 ? [url.slice(start), ""] : [url.slice(start, mark), url.slice(mark + 1)];
}

// A NUL would reach the store, which cannot keep one. Two hosts are RFC 9112 §3.2's own reason for a 400.
export function validateTarget(request: Request, path: string, query: string): void {
  if (request.url.length > TARGET_MAX_CHARACTERS)
    throw invalid(undefined, "The request target is too long.");
  if (path.includes("%00") || query.includes("%00"))
    throw invalid(undefined, "The request target holds a NUL character.");
  if (request.headers.get("host")?.includes(",") === true)
    throw invalid("host", "Send one host header.");
}

export function parseQuery(query: string): Record<string, string> {
  return uniqueFields(
    new URLSearchParams(query),
    (name) => `The query parameter ${name} is repeated.`,
  );
}
