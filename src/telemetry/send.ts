// One export, and what the collector says to it.

import { readBoundedText } from "../base/bounded-body.ts";
import type { Secret } from "../base/secret.ts";

export interface Destination {
  readonly url: string;
  readonly headers: Readonly<Record<string, Secret>>;
}

export type Sent =
  | { readonly kind: "taken"; readonly rejected: number }
  /** `later`: the same may be taken then. */
  | { readonly kind: "later" | "never"; readonly why: string; readonly waitMs?: number };

export const PAUSE_MAX_MS = 60_000;
const ANSWER_MAX_BYTES = 65_536;
/** By OTLP's own list, these alone are worth another try. */
const TRANSIENT: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export async function send(
  { url, headers }: Destination,
  body: string,
  withinMs: number,
): Promise<Sent> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        ...Object.fromEntries(Object.entries(headers).map(([name, its]) => [name, its.reveal()])),
        "content-type": "application/json",
      },
      body,
      redirect: "error",
      signal: AbortSignal.timeout(withinMs),
    });
    const text = await readBoundedText(response.body, ANSWER_MAX_BYTES);
    if (response.ok) return { kind: "taken", rejected: rejectedIn(text) };
    const waitSeconds = Number(response.headers.get("retry-after"));
    return {
      kind: TRANSIENT.has(response.status) ? "later" : "never",
      why: `status ${response.status}`,
      ...(waitSeconds > 0 ? { waitMs: Math.min(PAUSE_MAX_MS, waitSeconds * 1_000) } : {}),
    };
  } catch (error) {
    return { kind: "later", why: error instanceof Error ? error.message : String(error) };
  }
}

/** How many spans the collector says that it did not take. */
function rejectedIn(text: string): number {
  return Number(/"rejectedSpans"\s*:\s*"?(\d{1,15})/.exec(text)?.[1] ?? 0);
}
