// What a client's disconnect means for the provider: whether closing the connection ends the bill, and how long the
// provider's usage is waited for.

import type { Candidate } from "../routing/candidates.ts";

/** True where the provider stops counting, or bills the caller and not the gateway. */
export function abortStopsBilling({ credential }: Pick<Candidate, "credential">): boolean {
  return credential.provider.stopsBillingOnAbort || credential.byok;
}

export const DRAIN_MAX_MS = 120_000;
const REASONING_DRAIN_MS = 500;

/**
 * How long a stream is read on after its client has left: to its end where closing it would not end the bill; for a moment
 * where the model reasons, since only the provider's usage tells how many tokens that took.
 */
export function drainMsFor({ credential, model }: Candidate): number {
  if (!abortStopsBilling({ credential })) return DRAIN_MAX_MS;
  return !credential.byok && model.supported.includes("reasoning") ? REASONING_DRAIN_MS : 0;
}
