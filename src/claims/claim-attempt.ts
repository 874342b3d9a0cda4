// A claim attempt as a state machine. Its state is computed when it is read, so nothing has to run when a window
// closes; what each event does in each state is the one table below.

import { MINUTE_MS } from "../base/time.ts";

/** Specification, Limits: `expires_in` and `interval`. */
export const CLAIM_TTL_MS = 15 * MINUTE_MS;
export const POLL_INTERVAL_MS = 5_000;
export const WRONG_CODES_MAX = 5;

export const CLAIM_STATES = [
  "initiated",
  "claimed",
  "declined",
  "overtaken",
  "locked",
  "superseded",
  "expired",
] as const;
export type ClaimState = (typeof CLAIM_STATES)[number];

export interface ClaimAttempt {
  readonly id: string;
  readonly accountId: string;
  /** The key that asked. */
  readonly keyId: string;
  readonly email: string;
  /** What emails are compared by. */
  readonly emailFolded: string;
  readonly codeHash: string;
  /** The network that the start came from. */
  readonly network: string;
  /** Started when the account already had an owner. */
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
  readonly claimedRole: "owner" | "developer" | null;
  readonly bonus: bigint;
  /** Somebody else took the account while this attempt asked for its first owner. */
  readonly isClaimedByOther: boolean;
}

/** What was done stands: an attempt that was claimed in time stays claimed after its window has closed. */
export function claimStateOf(attempt: ClaimAttempt, now: number): ClaimState {
  if (attempt.claimedAt !== null) return "claimed";
  if (attempt.declinedAt !== null) return "declined";
  if (attempt.isClaimedByOther) return "overtaken";
  if (attempt.wrongCodes >= WRONG_CODES_MAX) return "locked";
  if (attempt.supersededAt !== null) return "superseded";
  return attempt.expiresAt <= now ? "expired" : "initiated";
}

interface StateTransitions {
  /** The agent asks how it stands: what it is answered. */
  readonly poll: "pending" | "claimed" | "denied" | "expired";
  /** The human opens the page: what it shows. */
  readonly open: "review" | ClaimState;
  /** The human confirms with the right code. `repeat` is for whoever did it before; others are refused. */
  readonly confirm: "claim" | "repeat" | "refuse";
  /** The human confirms with a wrong code. */
  readonly mistype: "count" | "refuse";
  readonly decline: "decline" | "repeat" | "refuse";
  /** The agent starts another attempt. */
  readonly restart: "supersede" | "leave";
}

export const TRANSITIONS: Readonly<Record<ClaimState, StateTransitions>> = {
  initiated: {
    poll: "pending",
    open: "review",
    confirm: "claim",
    mistype: "count",
    decline: "decline",
    restart: "supersede",
  },
  claimed: {
    poll: "claimed",
    open: "claimed",
    confirm: "repeat",
    mistype: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  declined: {
    poll: "denied",
    open: "declined",
    confirm: "refuse",
    mistype: "refuse",
    decline: "repeat",
    restart: "leave",
  },
  overtaken: {
    poll: "denied",
    open: "overtaken",
    confirm: "refuse",
    mistype: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  locked: {
    poll: "expired",
    open: "locked",
    confirm: "refuse",
    mistype: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  superseded: {
    poll: "expired",
    open: "superseded",
    confirm: "refuse",
    mistype: "refuse",
    decline: "refuse",
    restart: "leave",
  },
  expired: {
    poll: "expired",
    open: "expired",
    confirm: "refuse",
    mistype: "refuse",
    decline: "refuse",
    restart: "supersede",
  },
};

/** RFC 8628 §3.5: whoever polls too soon waits five seconds longer from then on. */
export const SLOW_DOWN_MS = 5_000;
/** A poll that set out on time may arrive a little early after the one before it. */
const POLL_JITTER_MS = 500;

export function isPollingTooFast(attempt: ClaimAttempt, now: number): boolean {
  return attempt.polledAt !== null && now - attempt.polledAt < attempt.intervalMs - POLL_JITTER_MS;
}
