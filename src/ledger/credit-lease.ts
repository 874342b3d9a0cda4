// What a credit lease is, for those that only name one. docs/decisions/0061-credit-leases.md has the rules.

import type { Nano } from "../base/money/money.ts";
import type { KeyRateLimit } from "./rate-limit-rules.ts";

/** What a call has of a lease, and what the lease is to be when the call is settled. */
export interface LeaseShare {
  readonly leaseId: string;
  readonly share: Nano;
  /** Absent if the lease is not filled again. */
  readonly target?: LeaseTarget | undefined;
}

/** What a lease is to reserve, as far as limits and credits allow. */
export interface LeaseTarget {
  readonly amount: Nano;
  /** Calls at a time. */
  readonly calls: number;
  /** Calls to count in advance towards the rate limit. */
  readonly arrivals: number;
  readonly rateLimit: KeyRateLimit | undefined;
  readonly openCallsMax: number | undefined;
}

export const LEASE_STATE = {
  open: 1,
  /** Another process needs its credits, or what calls may do was restricted. */
  recalled: 2,
  /** Its process decides no more holds on it. */
  closed: 3,
} as const;
export type LeaseState = (typeof LEASE_STATE)[keyof typeof LEASE_STATE];
