// The rules of credit leases, without a database. A lease is a hold for many calls of a key: its process decides their holds
// within it. It reserves credits, open calls, and calls towards the rate limit, never more than half of what is left of each, so
// that other processes and other keys have the rest.

import { maxNano, minNano, type Nano } from "../base/money/money.ts";
import { LEASE_STATE, type LeaseTarget } from "./credit-lease.ts";
import {
  type FoundRows,
  isPayingWallet,
  type KeyRules,
  largestHold,
  type OpenHold,
} from "./decide.ts";
import { allowedArrivals, countArrivals } from "./rate-limit-rules.ts";

/** Takes a lease of a key. */
export interface TakeLeaseRequest {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  /** What a call of the key holds. A lease for fewer than two calls is not taken. */
  readonly perCall: Nano;
  readonly target: LeaseTarget;
  readonly now: number;
  readonly expiresAt: number;
}

/** Fills an open lease up to its target. */
export type FillLeaseRequest = Omit<TakeLeaseRequest, "perCall" | "expiresAt">;

/** Returns what the open calls of a lease do not need, and closes it. */
export interface ReturnLeaseRequest {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  /** What the open calls hold. */
  readonly keep: { readonly amount: Nano; readonly calls: number };
  readonly unusedArrivals: number;
  readonly rateLimit: LeaseTarget["rateLimit"];
  readonly now: number;
}

export type LeaseOutcome = { readonly status: "leased" | "not_leased" | "returned" };

/** A lease after a batch, for the process that decides on it. */
export interface LeaseView {
  readonly amount: Nano;
  readonly calls: number;
  /** Calls that the batch counted towards the rate limit. */
  readonly arrivals: number;
  /** What a hold could have besides. */
  readonly spare: Nano;
  readonly isPaying: boolean;
  readonly key: KeyRules;
  /** Whether holds may be decided on it. */
  readonly isOpen: boolean;
}

export interface LeaseGrant {
  readonly amount: Nano;
  readonly calls: number;
  readonly arrivals: number;
}

/** What a lease gets in order to reach its target. */
export function leaseGrant(
  { amount, calls = 0 }: Pick<OpenHold, "amount" | "calls">,
  target: LeaseTarget,
  rows: FoundRows,
  now: number,
): LeaseGrant {
  const { wallet, keySpend, key } = rows;
  const { rateLimit, openCallsMax } = target;
  if (!isUsable(rows, now)) return { amount: 0n, calls: 0, arrivals: 0 };
  const spare = largestHold(wallet, keySpend, key, now);
  const halfOfAmount = (spare + amount) / 2n - amount;
  const spareCalls = (openCallsMax ?? Infinity) - keySpend.openCalls;
  const halfOfCalls = Math.floor((spareCalls + calls) / 2) - calls;
  const spareArrivals =
    rateLimit === undefined ? Infinity : allowedArrivals(rateLimit, keySpend, now) / 2;
  return {
    amount: maxNano(minNano(target.amount - amount, halfOfAmount), 0n),
    calls: Math.max(Math.min(target.calls - calls, halfOfCalls), 0),
    arrivals: Math.max(Math.floor(Math.min(target.arrivals, spareArrivals)), 0),
  };
}

function isUsable({ wallet, key }: FoundRows, now: number): boolean {
  return (
    wallet.owed === undefined &&
    key.revokedAt === null &&
    (key.expiresAt === null || key.expiresAt > now)
  );
}

/** Adds the grant to the lease and the rows. */
export function addGrant(
  lease: OpenHold,
  grant: LeaseGrant,
  { wallet, keySpend }: FoundRows,
  { target: { rateLimit }, now }: Pick<FillLeaseRequest, "target" | "now">,
): OpenHold {
  wallet.held += grant.amount;
  keySpend.held += grant.amount;
  keySpend.openCalls += grant.calls;
  if (rateLimit !== undefined && grant.arrivals > 0)
    countArrivals(rateLimit, keySpend, { calls: grant.arrivals, now });
  return { ...lease, amount: lease.amount + grant.amount, calls: (lease.calls ?? 0) + grant.calls };
}

/** Whether a new lease is worth its writes. */
export function isWorthTaking(
  { amount, calls, arrivals }: LeaseGrant,
  { perCall, target }: TakeLeaseRequest,
): boolean {
  return (
    amount > 0n &&
    amount >= 2n * perCall &&
    calls >= 2 &&
    (target.rateLimit === undefined || arrivals >= 2)
  );
}

/** Lowers the lease to what its open calls need. */
export function returnLease(
  lease: OpenHold,
  { keep, unusedArrivals, rateLimit }: ReturnLeaseRequest,
  { wallet, keySpend }: Pick<FoundRows, "wallet" | "keySpend">,
): OpenHold {
  const { calls = 0 } = lease;
  const keptAmount = keep.calls === 0 ? 0n : minNano(lease.amount, keep.amount);
  const kept = { amount: keptAmount, calls: Math.min(calls, keep.calls) };
  wallet.held -= lease.amount - kept.amount;
  keySpend.held -= lease.amount - kept.amount;
  keySpend.openCalls -= calls - kept.calls;
  // A return is repeated if the reply to its commit was lost.
  if (rateLimit !== undefined && lease.lease !== LEASE_STATE.closed)
    keySpend.theoreticalArrivalAt -= unusedArrivals * rateLimit.intervalMs;
  return { ...lease, ...kept, lease: LEASE_STATE.closed };
}

export function leaseView(
  { amount, calls = 0, lease }: OpenHold,
  arrivals: number,
  rows: FoundRows,
  now: number,
): LeaseView {
  const { wallet, keySpend, key } = rows;
  return {
    amount,
    calls,
    arrivals,
    spare: largestHold(wallet, keySpend, key, now),
    isPaying: isPayingWallet(wallet),
    key,
    isOpen: lease === LEASE_STATE.open && isUsable(rows, now),
  };
}
