// The credit leases of a process, as `credit-leases.ts` keeps them in memory, and what can be read from one.

import type { Nano } from "../base/money/money.ts";
import type { Db } from "../store/db.ts";
import { type KeyActivity, leaseSize } from "./busy-keys.ts";
import type { LedgerOperation, LedgerOutcome } from "./commit/batch.ts";
import type { LeaseView } from "./credit-lease-rules.ts";
import type { LeaseTarget } from "./credit-lease.ts";
import { hasChanged, type HoldRequest } from "./decide.ts";
import type { OwnHolds } from "./own-holds.ts";
import type { KeyRateLimit } from "./rate-limit-rules.ts";
import { CONFIRMED_MS } from "./recall-leases.ts";

export interface Lease {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly rateLimit: KeyRateLimit | undefined;
  readonly openCallsMax: number | undefined;
  readonly activity: KeyActivity;
  state: "taking" | "open" | "closed" | "lost";
  /** The row, as of the last batch. */
  view: LeaseView | undefined;
  /** Calls that may still start within the rate limit. */
  arrivals: number;
  /** Those that settlements in the queue ask for. */
  requestedArrivals: number;
  openAmount: Nano;
  openCalls: number;
  confirmedAt: Moment;
  usedAt: number;
  filledAt: number;
  isReturning: boolean;
}

export interface LeasedCall {
  lease: Lease;
  share: Nano;
  readonly lifetimeMs: number;
  /** On the monotonic clock. A call that was forgotten does not keep its credits. */
  expiresAt: number;
  requestedArrivals: number;
}

/** The monotonic clock may stop while a machine is suspended, and the other one may jump. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export type LeaseOperation = Extract<
  LedgerOperation<never>,
  { kind: "take_lease" | "fill_lease" | "raise_lease" | "return_lease" }
>;

export interface CreditLeaseDeps {
  readonly db: Db;
  readonly process: string;
  readonly epoch: number;
  readonly now: () => number;
  readonly ownHolds: Pick<OwnHolds<never>, "addOpen" | "removeOpen" | "extend">;
  readonly submit: (operation: LeaseOperation) => Promise<LedgerOutcome>;
  /** A key with so many holds in a second gets a lease. */
  readonly busyHolds?: number | undefined;
}

/** Functions of `credit-leases.ts` change it. */
export interface LeaseBook {
  readonly deps: CreditLeaseDeps;
  /** By id. */
  readonly leases: Map<string, Lease>;
  /** Those on which holds are decided, by key. */
  readonly current: Map<string, Lease>;
  readonly calls: Map<string, LeasedCall>;
  readonly activity: Map<string, KeyActivity>;
  readonly ownHolds: Map<string, { readonly request: HoldRequest; readonly activity: KeyActivity }>;
  /** Accounts that get no lease until then. */
  readonly pausedUntil: Map<string, number>;
  readonly recalls: Map<string, Promise<boolean>>;
  readonly searchedAt: Map<string, number>;
  taken: number;
  isPolling: boolean;
}

/** Taken before the rows of a batch are read. */
export function moment(book: LeaseBook): Moment {
  return { monotonic: performance.now(), wall: book.deps.now() };
}

/** Whether the lease may decide holds of such a call. */
export function canDecide(lease: Lease, request: HoldRequest, at: Moment): boolean {
  const { view, rateLimit } = lease;
  if (view === undefined || lease.state !== "open" || !isFresh(lease, at)) return false;
  const { key } = view;
  return (
    isLeasable(request) &&
    lease.accountId === request.accountId &&
    (key.expiresAt === null || key.expiresAt > request.now) &&
    !hasChanged(key, request.restrictions) &&
    request.rateLimit?.intervalMs === rateLimit?.intervalMs &&
    request.rateLimit?.burst === rateLimit?.burst &&
    request.openCallsMax === lease.openCallsMax
  );
}

/** Replies tell what is left of the key's own rate limit, and limits of sessions are rows of their own. */
export function isLeasable({ needsRow, session, amount, rateLimit }: HoldRequest): boolean {
  return needsRow !== true && session === undefined && amount > 0n && rateLimit?.isTold !== true;
}

export function isFresh({ confirmedAt }: Lease, { monotonic, wall }: Moment): boolean {
  const wallMs = wall - confirmedAt.wall;
  return monotonic - confirmedAt.monotonic < CONFIRMED_MS && wallMs >= 0 && wallMs < CONFIRMED_MS;
}

export function freeOf({ view, openAmount }: Lease): Nano {
  return (view?.amount ?? 0n) - openAmount;
}

export function isReturnDue({ openCalls, openAmount, view }: Lease): boolean {
  return openCalls === 0 || (view !== undefined && view.amount > openAmount);
}

export function targetOf(
  { activity, rateLimit, openCallsMax }: Lease,
  arrivals: number,
): LeaseTarget {
  return { ...leaseSize(activity), arrivals, rateLimit, openCallsMax };
}
