// Splits and checks the request target: path and query, undecoded.

import { invalid } from "../../base/fault.ts";
import { uniqueFields } from "./body.ts";

const TARGET_MAX_CHARACTERS = 8_192;

// HTTP/1.0 health checks send no host; `url` is then only the path.
export function splitTarget(url: string): readonly [path: string, query: string] {
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("//") + 2);
  const mark = url.indexOf("?", start);
  if (start === -1) return ["/", ""];
  return mark === -1 ? [url.slice(start), ""] : [url.slice(start, mark), url.slice(mark + 1)];
}

// PostgreSQL cannot store a NUL. RFC 9112 §3.2 requires a 400 for repeated `host` headers.
export function validateTarget(request: Request, path: string, query: string): void {
  if (request.url.length > TARGET_MAX_CHARACTERS)
    throw invalid(undefined, `The URL must have at most ${TARGET_MAX_CHARACTERS} characters.`);
  if (path.includes("%00") || query.includes("%00"))
    throw invalid(undefined, "The URL must not contain a NUL character.");
  if (request.headers.get("host")?.includes(",") === true)
    throw invalid("host", "Send the `host` header once.");
}

export function parseQuery(query: string): Record<string, string> {
  return uniqueFields(
    new URLSearchParams(query),
    (name) => `The query parameter \`${name}\` is repeated. Send it once.`,
  );
}
