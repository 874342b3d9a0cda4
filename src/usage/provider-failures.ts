// Which attempts failed because of the provider. A call that another provider completed has failed attempts too, and a failed
// call may have been the caller's own mistake, so neither can be read from its outcome.

import { HOUR_MS } from "../base/time.ts";
import type { UsageRecord } from "./usage.ts";

/** Failed attempts of a model in the hour that starts at `at`. */
export type FailureCount = readonly [at: number, provider: string, model: string, count: number];

const REFUSED: ReadonlySet<number> = new Set([401, 402, 403, 408, 429]);

/** Undefined for errors in the caller's request and calls that the caller aborted: they say nothing about the provider. */
export function providerResult(status: number): "success" | "failure" | undefined {
  if (status < 300) return "success";
  return status >= 500 || REFUSED.has(status) ? "failure" : undefined;
}

/** Attempts with callers' own provider keys are not counted: their limits are not the gateway's. */
export function countFailures(records: readonly UsageRecord[]): readonly FailureCount[] {
  const counts = new Map<string, FailureCount>();
  for (const record of records) {
    const { attempts, outcome, byok, provider, model } = record;
    const at = record.createdAt - (record.createdAt % HOUR_MS);
    for (const attempt of attempts)
      if (attempt.byok !== true && providerResult(attempt.status) === "failure")
        addFailure(counts, at, attempt);
    const isUpstreamFailure = outcome === "upstream_error" || outcome === "upstream_timeout";
    // The reply began and did not end.
    if (isUpstreamFailure && !byok && (attempts.at(-1)?.status ?? 200) < 300)
      addFailure(counts, at, { provider, model });
  }
  return [...counts.values()];
}

function addFailure(
  counts: Map<string, FailureCount>,
  at: number,
  { provider, model }: { readonly provider: string; readonly model: string },
): void {
  const id = `${at} ${provider} ${model}`;
  counts.set(id, [at, provider, model, (counts.get(id)?.[3] ?? 0) + 1]);
}
