// The headers of a provider's reply that the caller gets. Any other could reveal the gateway's account.

import type { UpstreamResponse } from "@postern/http-client";
import { memoize } from "../../base/memoize.ts";

const RETURNED_HEADERS =
  /^(retry-after|retry-after-ms|x-should-retry|openai-processing-ms|openai-model|x-ratelimit-[a-z0-9-]+|anthropic-ratelimit-[a-z0-9-]+|anthropic-fast-[a-z0-9-]+)$/;

/** Replies repeat the same few names. */
const isReturned = memoize((name: string) => RETURNED_HEADERS.test(name));

export function returnedHeaders(
  headers: UpstreamResponse["headers"],
  now: number,
): Record<string, string> {
  const returned: Record<string, string> = {};
  // Iterates over the names alone: an entry would allocate an array, and few headers are returned.
  for (const name of headers.keys()) {
    if (!isReturned(name)) continue;
    const value = headers.get(name) ?? "";
    const text = name === "retry-after" ? retryAfterText(value, now) : value;
    if (text !== undefined) returned[name] = text;
  }
  return returned;
}

const SECONDS = /^\d{1,9}(?:\.\d{1,9})?$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .{1,40} GMT$/;

/** `retry-after` as whole seconds, at least 1; undefined if it is neither seconds nor a date. */
function retryAfterText(value: string, now: number): string | undefined {
  const seconds = SECONDS.test(value)
    ? Number(value)
    : HTTP_DATE.test(value)
      ? (Date.parse(value) - now) / 1_000
      : NaN;
  return Number.isNaN(seconds) ? undefined : String(Math.max(1, Math.ceil(seconds)));
}
