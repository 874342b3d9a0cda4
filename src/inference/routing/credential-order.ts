// Orders the gateway's keys at one provider for a call. An account's calls go to the same key, so that they find their prompts in
// the provider's cache, and the accounts are spread by the keys' weights. A key that the provider has just refused goes last.

import { createHash } from "node:crypto";
import { memoize } from "../../base/memoize.ts";
import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import type { Credential } from "../providers/credentials.ts";
import type { Candidate, CandidateDeps } from "./candidates.ts";
import { circuitName } from "./circuit-breaker.ts";

/** A key that is not accepted, or whose account has no credit, is tried again by one call a minute. */
const REFUSED_MS = MINUTE_MS;
const REFUSED: ReadonlySet<number> = new Set([401, 402]);
const RATE_LIMITED = 429;
const RATE_LIMITED_MS = 10 * SECOND_MS;
const RATE_LIMITED_MAX_MS = MINUTE_MS;
const REFUSALS_MAX = 10_000;
const POSITIONS_MAX = 10_000;

interface Refusal {
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
  readonly now: number;
}

export interface CredentialOrder {
  readonly orderCredentials: CandidateDeps["orderCredentials"];
  /** Records the refusal of a paying account's attempt. Those of other callers are ignored, because they cost the caller nothing. */
  readonly recordRefusal: (candidate: Candidate, refusal: Refusal) => void;
}

export interface CredentialOrderDeps {
  readonly isOpen: (circuit: string, now: number, accountId: string) => boolean;
  readonly now: () => number;
}

export function createCredentialOrder({ isOpen, now }: CredentialOrderDeps): CredentialOrder {
  const refusedUntil = new Map<string, number>();
  const isRefused = (name: string, at: number): boolean => (refusedUntil.get(name) ?? 0) > at;
  const isLast = (candidate: Candidate, accountId: string, at: number): boolean => {
    const circuit = circuitOf(candidate);
    return (
      isRefused(keyName(candidate.credential), at) ||
      isRefused(circuit, at) ||
      isOpen(circuit, at, accountId)
    );
  };
  return {
    orderCredentials: (candidates, accountId) => {
      const at = now();
      return candidates
        .map((candidate) => ({
          candidate,
          isLast: isLast(candidate, accountId, at),
          rank: rankOf(candidate.credential, accountId),
        }))
        .sort((one, other) => Number(one.isLast) - Number(other.isLast) || one.rank - other.rank)
        .map(({ candidate }) => candidate);
    },
    recordRefusal: (candidate, { status, retryAfterSeconds, now: at }) => {
      const name =
        status === RATE_LIMITED
          ? circuitOf(candidate)
          : REFUSED.has(status)
            ? keyName(candidate.credential)
            : undefined;
      if (name === undefined) return;
      const waitMs = retryAfterSeconds === undefined ? RATE_LIMITED_MS : retryAfterSeconds * 1_000;
      const ms = status === RATE_LIMITED ? Math.min(waitMs, RATE_LIMITED_MAX_MS) : REFUSED_MS;
      if (refusedUntil.size >= REFUSALS_MAX) refusedUntil.clear();
      refusedUntil.set(name, at + ms);
    },
  };
}

// Providers limit the rate of each model apart.
function circuitOf({ credential, upstreamName }: Candidate): string {
  return circuitName(credential.provider.id, credential.label, upstreamName);
}

function keyName({ provider, label }: Credential): string {
  return `${provider.id} ${label}`;
}

/** Weighted rendezvous hashing: adding or removing a key moves only the accounts that it gets or had. */
function rankOf(credential: Credential, accountId: string): number {
  const { weight = 1 } = credential;
  return -Math.log(positionOf(`${keyName(credential)} ${accountId}`)) / weight;
}

/** Uniform between 0 and 1, both excluded. */
const positionOf = memoize(
  (text: string) => (createHash("sha256").update(text).digest().readUInt32BE() + 0.5) / 2 ** 32,
  POSITIONS_MAX,
);
