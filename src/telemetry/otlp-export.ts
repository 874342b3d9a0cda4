// Exports spans to an OTLP collector and classifies its response.

import type { Secret } from "../base/crypto/secret.ts";
import { readBoundedText } from "../base/streams/bounded-body.ts";
import { MINUTE_MS } from "../base/time.ts";

export interface OtlpEndpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, Secret>>;
}

export type ExportResult =
  | { readonly kind: "accepted"; readonly rejectedSpans: number }
  | {
      readonly kind: "retryable" | "rejected";
      readonly reason: string;
      readonly retryAfterMs?: number;
    };

export const BACKOFF_MAX_MS = MINUTE_MS;
const RESPONSE_MAX_BYTES = 65_536;
/** The retryable statuses of the OTLP specification. */
const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export async function exportSpans(
  { url, headers }: OtlpEndpoint,
  body: string,
  timeoutMs: number,
): Promise<ExportResult> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        ...Object.fromEntries(
          Object.entries(headers).map(([name, value]) => [name, value.reveal()]),
        ),
        "content-type": "application/json",
      },
      body,
      redirect: "error",
      signal: AbortSignal.timeout(timeoutMs),
    });
    const text = await readBoundedText(response.body, RESPONSE_MAX_BYTES);
    if (response.ok) return { kind: "accepted", rejectedSpans: rejectedSpanCount(text) };
    const waitSeconds = Number(response.headers.get("retry-after"));
    return {
      kind: RETRYABLE_STATUSES.has(response.status) ? "retryable" : "rejected",
      reason: `status ${response.status}`,
      ...(waitSeconds > 0 ? { retryAfterMs: Math.min(BACKOFF_MAX_MS, waitSeconds * 1_000) } : {}),
    };
  } catch (error) {
    return { kind: "retryable", reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Spans rejected by the collector, from OTLP's `partialSuccess`. */
function rejectedSpanCount(text: string): number {
  return Number(/"rejectedSpans"\s*:\s*"?(\d{1,15})/.exec(text)?.[1] ?? 0);
}
