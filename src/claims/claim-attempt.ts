// The state machine of a claim attempt. The state is computed on read, so no job has to expire attempts. TRANSITIONS
// says what each event does in each state.

import type { Role } from "../accounts/members.ts";
import { MINUTE_MS } from "../base/time.ts";

/** Also the `expires_in` of the claim response. */
export const CLAIM_TTL_MS = 15 * MINUTE_MS;
export const POLL_INTERVAL_MS = 5_000;
export const WRONG_CODES_MAX = 5;

export const CLAIM_STATES = [
  "initiated",
  "claimed",
  "declined",
  "claimed_by_other",
  "locked",
  "superseded",
  "expired",
] as const;
export type ClaimState = (typeof CLAIM_STATES)[number];

export interface ClaimAttempt {
  readonly id: string;
  readonly accountId: string;
  /** Anyone with a key of the account can choose it; null if it has none. */
  readonly accountName: string | null;
  /** The API key that started the attempt. */
  readonly keyId: string;
  readonly email: string;
  /** The form in which emails are compared. */
  readonly emailFolded: string;
  readonly codeHash: string;
  /** The network of the client that started the attempt. */
  readonly network: string;
  /** True if the account already had an owner when the attempt was started. */
  readonly invitation: boolean;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly wrongCodes: number;
  readonly intervalMs: number;
  readonly polledAt: number | null;
  readonly supersededAt: number | null;
  readonly declinedAt: number | null;
  readonly claimedAt: number | null;
  readonly claimedBy: string | null;
  readonly claimedRole: Role | null;
  readonly bonus: bigint;
  /** Another email claimed the account after this attempt was started for its first owner. */
  readonly isClaimedByOther: boolean;
}

/** The order is the precedence: an attempt that was claimed in time stays claimed after it expires. */
export function claimStateOf(attempt: ClaimAttempt, now: number): ClaimState {
  if (attempt.claimedAt !== null) return "claimed";
  if (attempt.declinedAt !== null) return "declined";
  if (attempt.isClaimedByOther) return "claimed_by_other";
  if (attempt.wrongCodes >= WRONG_CODES_MAX) return "locked";
  if (attempt.supersededAt !== null) return "superseded";
  return attempt.expiresAt <= now ? "expired" : "initiated";
}

interface StateTransitions {
  /** What a poll by the agent returns. */
  readonly poll: "pending" | "claimed" | "denied" | "expired";
  /** What the page shows when the human opens it. */
  readonly open: "review" | ClaimState;
  /** The human confirms with the right code. `repeat` returns the first result to the person who claimed. */
  readonly confirm: "claim" | "repeat" | "refuse";
  /** The human confirms with a wrong code. */
  readonly wrong_code: "count" | "refuse";
  readonly decline: "decline" | "repeat" | "refuse";
  /** The agent starts another attempt. */
  readonly restart: "supersede" | "leave";
}

export const TRANSITIONS: Readonly<Record<ClaimState, StateTransitions>> = {
  initiated: {
    poll: "pending",
    open: "review",
    confirm: "claim",
    wrong_code: "count",
    decline: "decline",
    restart: "supersede",
  },
  claimed: {
    poll: "claimed",
    open: "claimed",
    confirm: "repeat",
    wrong_code: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  declined: {
    poll: "denied",
    open: "declined",
    confirm: "refuse",
    wrong_code: "refuse",
    decline: "repeat",
    restart: "leave",
  },
  claimed_by_other: {
    poll: "denied",
    open: "claimed_by_other",
    confirm: "refuse",
    wrong_code: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  locked: {
    poll: "expired",
    open: "locked",
    confirm: "refuse",
    wrong_code: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  superseded: {
    poll: "expired",
    open: "superseded",
    confirm: "refuse",
    wrong_code: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  expired: {
    poll: "expired",
    open: "expired",
    confirm: "refuse",
    wrong_code: "refuse",
    decline: "refuse",
    restart: "supersede",
  },
};

/** RFC 8628 §3.5: `slow_down` adds five seconds to the interval of all later polls. */
export const SLOW_DOWN_MS = 5_000;
/** Network latency varies, so a poll that was sent on time may arrive slightly early. */
const POLL_JITTER_MS = 500;

export function isPollingTooFast(attempt: ClaimAttempt, now: number): boolean {
  return attempt.polledAt !== null && now - attempt.polledAt < attempt.intervalMs - POLL_JITTER_MS;
}
