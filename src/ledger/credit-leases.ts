// The credit leases of this process. A lease is a row in `hold` for many calls of a key, and the holds of these calls are
// decided here, in memory. That is done only while the row was confirmed within half a second, by a batch of the ledger or by
// a poll, so no call starts on a lease half a second after it was recalled.

import { maxNano, minNano, type Nano } from "../base/money/money.ts";
import { type KeyActivity, newActivity, noteHold } from "./busy-keys.ts";
import type { LedgerOperation } from "./commit/batch.ts";
import type { LeaseView } from "./credit-lease-rules.ts";
import { LEASE_STATE, type LeaseShare } from "./credit-lease.ts";
import {
  firstPart,
  type HoldOutcome,
  type HoldRequest,
  type RaiseOutcome,
  type RaiseRequest,
} from "./decide.ts";
import {
  canDecide,
  type CreditLeaseDeps,
  freeOf,
  isFresh,
  isLeasable,
  isReturnDue,
  type Lease,
  type LeaseBook,
  type LeasedCall,
  type LeaseOperation,
  moment,
  type Moment,
  targetOf,
} from "./held-leases.ts";
import { readLeaseStates, recallLeases } from "./recall-leases.ts";

/** Calls that a lease counts in advance towards the rate limit. */
const ARRIVALS_MAX = 16;
const POLL_MS = 100;
/** After so long without a call, a lease is returned. */
const IDLE_MS = 1_000;
/** After a recall, an account gets no lease for so long: others need its credits. */
const PAUSE_MS = 5_000;
/** How long an account is not searched again. */
const RECALL_PAUSE_MS = 100;
/** A lease whose credits are short is not filled for each hold. */
const FILL_PAUSE_MS = 50;
const KEYS_MAX = 10_000;

export interface CreditLeases {
  /** Taken before the rows of a batch are read. */
  readonly moment: () => Moment;
  /** Decides a hold; undefined if the ledger must. */
  readonly tryHold: (request: HoldRequest) => HoldOutcome | undefined;
  /** Counts a hold with a row of its own. The next ones of a busy key are decided on a lease. */
  readonly addOwnHold: (request: HoldRequest, amount: Nano) => void;
  /** Its call has ended. */
  readonly removeOwnHold: (callId: string) => void;
  /** What a call has of a lease, for its settlement. */
  readonly shareOf: (callId: string) => LeaseShare | undefined;
  /** Ends a call without a charge. */
  readonly release: (callId: string) => void;
  /** The lifetime of a call begins anew. */
  readonly extend: (callId: string) => void;
  /** Undefined for a call that has no share of a lease. */
  readonly raise: (request: RaiseRequest) => Promise<RaiseOutcome> | undefined;
  /** After the commit of a batch: the leases as it left them, undefined for those without a row. */
  readonly applyBatch: (
    operations: readonly LedgerOperation<unknown>[],
    leases: ReadonlyMap<string, LeaseView | undefined>,
    readAt: Moment,
  ) => void;
  readonly closeAll: () => void;
  /** For a hold that was refused: closes the leases of the account, so that it may fit now. False if that was tried just before. */
  readonly recall: (accountId: string) => Promise<boolean>;
}

export function createCreditLeases(deps: CreditLeaseDeps): CreditLeases {
  const book: LeaseBook = {
    deps,
    leases: new Map(),
    current: new Map(),
    calls: new Map(),
    activity: new Map(),
    ownHolds: new Map(),
    pausedUntil: new Map(),
    recalls: new Map(),
    searchedAt: new Map(),
    taken: 0,
    isPolling: false,
  };
  return {
    moment: () => moment(book),
    tryHold: (request) => tryHold(book, request),
    addOwnHold: (request, amount) => addOwnHold(book, request, amount),
    removeOwnHold: (callId) => removeOwnHold(book, callId),
    shareOf: (callId) => shareOf(book, callId),
    release: (callId) => release(book, callId),
    extend: (callId) => extend(book, callId),
    raise: (request) => raise(book, request),
    applyBatch: (...batch) => applyBatch(book, ...batch),
    closeAll: () => closeAll(book),
    recall: (accountId) => recallFor(book, accountId),
  };
}

/** Decides a hold; undefined if the ledger must. */
function tryHold(book: LeaseBook, request: HoldRequest): HoldOutcome | undefined {
  const lease = book.current.get(request.keyId);
  if (lease?.view === undefined || book.calls.has(request.id)) return undefined;
  const { view } = lease;
  const amount = firstPart(request);
  const free = view.amount - lease.openAmount;
  if (!canDecide(lease, request, moment(book))) return undefined;
  const isShort =
    amount > free ||
    lease.openCalls >= view.calls ||
    (request.rateLimit !== undefined && lease.arrivals < 1);
  if (isShort || request.amount > free + view.spare) return undefined;
  addCall(book, lease, request, amount);
  const held = { status: "held", amount, leaseId: lease.id } as const;
  const hold = request.upfront === undefined ? held : { ...held, limit: request.amount };
  return view.isPaying ? { ...hold, isPaying: true } : hold;
}

function addCall(book: LeaseBook, lease: Lease, request: HoldRequest, share: Nano): void {
  const at = performance.now();
  const lifetimeMs = request.expiresAt - request.now;
  const call = { lease, share, lifetimeMs, expiresAt: at + lifetimeMs, requestedArrivals: 0 };
  book.calls.set(request.id, call);
  lease.openAmount += share;
  lease.openCalls += 1;
  if (request.rateLimit !== undefined) lease.arrivals -= 1;
  lease.usedAt = at;
  noteHold(lease.activity, { amount: share, at, busyHolds: book.deps.busyHolds });
}

/** Counts a hold with a row of its own. A busy key gets a lease for the next ones, or a larger one. */
function addOwnHold(book: LeaseBook, request: HoldRequest, amount: Nano): void {
  if (!isLeasable(request)) return;
  const activity = activityOf(book, request.keyId);
  noteHold(activity, { amount, at: performance.now(), busyHolds: book.deps.busyHolds });
  book.ownHolds.set(request.id, { request, activity });
  const lease = book.current.get(request.keyId);
  if (lease === undefined) takeIfBusy(book, request, activity);
  else if (canDecide(lease, request, moment(book))) fill(book, lease);
}

/** Its call has ended. The lease for the next ones is taken in the batch of its settlement, unless there is one. */
function removeOwnHold(book: LeaseBook, callId: string): void {
  const hold = book.ownHolds.get(callId);
  if (hold === undefined) return;
  const { request, activity } = hold;
  book.ownHolds.delete(callId);
  activity.open -= 1;
  if (!book.current.has(request.keyId)) takeIfBusy(book, request, activity);
}

function takeIfBusy(book: LeaseBook, request: HoldRequest, activity: KeyActivity): void {
  const at = performance.now();
  if (activity.busyUntil <= at) return;
  if ((book.pausedUntil.get(request.accountId) ?? 0) <= at) take(book, request, activity);
}

/** A lease that is too small grows before the first of its calls is settled. */
function fill(book: LeaseBook, lease: Lease): void {
  const at = performance.now();
  if (at - lease.filledAt < FILL_PAUSE_MS) return;
  lease.filledAt = at;
  const { id, accountId, keyId } = lease;
  const target = targetOf(lease, ARRIVALS_MAX - lease.arrivals - lease.requestedArrivals);
  const request = { id, accountId, keyId, target, now: book.deps.now() };
  // The hold that was too large is already placed.
  book.deps.submit({ kind: "fill_lease", request }).catch(() => {});
}

function take(book: LeaseBook, request: HoldRequest, activity: KeyActivity): void {
  const { process, epoch, now } = book.deps;
  const { accountId, keyId, rateLimit, openCallsMax, expiresAt, now: heldAt } = request;
  book.taken += 1;
  const at = moment(book);
  const lease: Lease = {
    id: `lease_${process}_${epoch}_${book.taken}`,
    accountId,
    keyId,
    rateLimit,
    openCallsMax,
    activity,
    state: "taking",
    view: undefined,
    arrivals: 0,
    requestedArrivals: 0,
    openAmount: 0n,
    openCalls: 0,
    confirmedAt: at,
    usedAt: at.monotonic,
    filledAt: -Infinity,
    isReturning: false,
  };
  book.leases.set(lease.id, lease);
  book.current.set(keyId, lease);
  const target = targetOf(lease, ARRIVALS_MAX);
  const { perCall } = activity;
  const taken = { id: lease.id, accountId, keyId, perCall, target, now: now() };
  submit(book, lease, {
    kind: "take_lease",
    request: { ...taken, expiresAt: now() + expiresAt - heldAt },
  });
  startPoll(book);
}

/** What a call has of a lease, for its settlement. */
function shareOf(book: LeaseBook, callId: string): LeaseShare | undefined {
  const call = book.calls.get(callId);
  if (call === undefined) return undefined;
  const { lease, share } = call;
  if (lease.state !== "open") return { leaseId: lease.id, share };
  const wanted = ARRIVALS_MAX - lease.arrivals - lease.requestedArrivals;
  const arrivals = lease.rateLimit === undefined ? 0 : Math.max(Math.min(wanted, 4), 0);
  call.requestedArrivals += arrivals;
  lease.requestedArrivals += arrivals;
  return { leaseId: lease.id, share, target: targetOf(lease, arrivals) };
}

/** Ends a call without a charge, or whose charge is written. */
function release(book: LeaseBook, callId: string): void {
  const call = book.calls.get(callId);
  if (call === undefined) return;
  const { lease, share, requestedArrivals } = call;
  book.calls.delete(callId);
  lease.openAmount -= share;
  lease.openCalls -= 1;
  lease.requestedArrivals -= requestedArrivals;
  lease.activity.open -= 1;
  lease.usedAt = performance.now();
}

/** The lifetime of a call begins anew. */
function extend(book: LeaseBook, callId: string): void {
  const call = book.calls.get(callId);
  if (call !== undefined) call.expiresAt = performance.now() + call.lifetimeMs;
}

/** Undefined for a call that has no share of a lease. */
function raise(book: LeaseBook, request: RaiseRequest): Promise<RaiseOutcome> | undefined {
  const call = book.calls.get(request.id);
  return call && raiseLeased(book, call, request);
}

async function raiseLeased(
  book: LeaseBook,
  call: LeasedCall,
  request: RaiseRequest,
): Promise<RaiseOutcome> {
  const { lease } = call;
  const missing = request.amount - call.share;
  if (missing <= 0n) return { status: "raised", amount: call.share };
  const isSpare =
    lease.state === "open" && isFresh(lease, moment(book)) && freeOf(lease) >= missing;
  // Reserved before the commit, so that a return of the lease or another call does not take it meanwhile.
  lease.openAmount += missing;
  let added = 0n;
  try {
    if (!isSpare) {
      const { id, accountId, keyId, openAmount: amount } = lease;
      const raised = { id, accountId, keyId, amount, now: request.now };
      const outcome = await book.deps.submit({ kind: "raise_lease", request: raised });
      const isSettled = book.calls.get(request.id) !== call;
      if (outcome.status === "lost" || lease.state === "lost" || isSettled)
        return { status: "lost" };
    }
    added = missing - minNano(maxNano(-freeOf(lease), 0n), missing);
    if (added === 0n) return { status: "refused" };
    call.share += added;
    return { status: "raised", amount: call.share };
  } finally {
    lease.openAmount -= missing - added;
  }
}

/** After the commit of a batch: the leases as it left them, undefined for those without a row. */
function applyBatch(
  book: LeaseBook,
  operations: readonly LedgerOperation<unknown>[],
  leases: ReadonlyMap<string, LeaseView | undefined>,
  readAt: Moment,
): void {
  for (const { kind, request } of operations)
    if (kind === "settle" && request.lease !== undefined) release(book, request.id);
  for (const [id, view] of leases) {
    const lease = book.leases.get(id);
    if (lease === undefined) continue;
    if (view === undefined) drop(book, lease);
    else update(book, lease, view, readAt);
  }
}

function update(book: LeaseBook, lease: Lease, view: LeaseView, readAt: Moment): void {
  lease.view = view;
  lease.arrivals += view.arrivals;
  if (lease.state === "taking") {
    lease.state = "open";
    book.deps.ownHolds.addOpen(lease.id);
  }
  if (lease.state !== "open") return;
  if (view.isOpen) lease.confirmedAt = readAt;
  else closeRecalled(book, lease);
}

/** For a lease whose row is gone. */
function drop(book: LeaseBook, lease: Lease): void {
  lease.state = "lost";
  lease.view = undefined;
  book.leases.delete(lease.id);
  if (book.current.get(lease.keyId) === lease) book.current.delete(lease.keyId);
  book.deps.ownHolds.removeOpen(lease.id);
}

function closeRecalled(book: LeaseBook, lease: Lease): void {
  if (book.pausedUntil.size >= KEYS_MAX) book.pausedUntil.clear();
  book.pausedUntil.set(lease.accountId, performance.now() + PAUSE_MS);
  close(book, lease);
}

function close(book: LeaseBook, lease: Lease): void {
  lease.state = "closed";
  if (book.current.get(lease.keyId) === lease) book.current.delete(lease.keyId);
  returnUnused(book, lease);
}

function returnUnused(book: LeaseBook, lease: Lease): void {
  const { id, accountId, keyId, rateLimit } = lease;
  lease.isReturning = true;
  const keep = { amount: lease.openAmount, calls: lease.openCalls };
  const unusedArrivals = lease.arrivals;
  lease.arrivals = 0;
  const owner = { id, accountId, keyId, rateLimit, now: book.deps.now() };
  submit(book, lease, { kind: "return_lease", request: { ...owner, keep, unusedArrivals } });
}

function submit(book: LeaseBook, lease: Lease, operation: LeaseOperation): void {
  const end = (): void => {
    lease.isReturning = false;
    // A lease that was not taken; if it was, the ledger's compensation returns it.
    if (lease.state === "taking") drop(book, lease);
  };
  book.deps.submit(operation).then(end, end);
}

/** Closes all leases of this process. */
function closeAll(book: LeaseBook): void {
  for (const lease of book.leases.values()) if (lease.state === "open") close(book, lease);
}

/** True also if no lease was left: one may have been returned since the refusal. */
function recallFor(book: LeaseBook, accountId: string): Promise<boolean> {
  const running = book.recalls.get(accountId);
  if (running !== undefined) return running;
  const at = performance.now();
  if (at - (book.searchedAt.get(accountId) ?? -Infinity) < RECALL_PAUSE_MS)
    return Promise.resolve(false);
  if (book.searchedAt.size >= KEYS_MAX) book.searchedAt.clear();
  book.searchedAt.set(accountId, at);
  for (const lease of book.leases.values())
    if (lease.accountId === accountId && lease.state === "open") closeRecalled(book, lease);
  const recall = book.deps.db
    .write((tx) => recallLeases(tx, accountId))
    // The refusal of the hold is the better answer than a failed recall.
    .then(
      () => true,
      () => false,
    )
    .finally(() => book.recalls.delete(accountId));
  book.recalls.set(accountId, recall);
  return recall;
}

function startPoll(book: LeaseBook): void {
  if (book.isPolling || book.leases.size === 0) return;
  book.isPolling = true;
  const next = (): void => {
    book.isPolling = false;
    startPoll(book);
  };
  setTimeout(() => void poll(book).then(next, next), POLL_MS).unref();
}

async function poll(book: LeaseBook): Promise<void> {
  const at = moment(book);
  const stale: Lease[] = [];
  for (const lease of book.leases.values()) {
    book.deps.ownHolds.extend(lease.id);
    if (lease.state === "closed" && !lease.isReturning && isReturnDue(lease))
      returnUnused(book, lease);
    if (lease.state !== "open") continue;
    if (lease.openCalls === 0 && at.monotonic - lease.usedAt >= IDLE_MS) close(book, lease);
    else if (at.monotonic - lease.confirmedAt.monotonic >= POLL_MS) stale.push(lease);
  }
  for (const [id, call] of book.calls) if (call.expiresAt <= at.monotonic) expire(book, id, call);
  if (stale.length > 0) await confirm(book, stale, at);
}

/** A late settlement still charges, but from credits that are not held. */
function expire(book: LeaseBook, callId: string, call: LeasedCall): void {
  release(book, callId);
  const lease: Lease = { ...call.lease, id: `${call.lease.id} expired`, state: "lost" };
  book.calls.set(callId, { ...call, lease, share: 0n, expiresAt: Infinity });
}

async function confirm(book: LeaseBook, leases: readonly Lease[], readAt: Moment): Promise<void> {
  const keys = leases.map(({ accountId, id }) => [accountId, [id]] as const);
  const states = await readLeaseStates(book.deps.db, keys);
  for (const lease of leases) {
    const state = states.get(lease.id);
    if (lease.state !== "open") continue;
    if (state === undefined) drop(book, lease);
    else if (state !== LEASE_STATE.open) closeRecalled(book, lease);
    else if (readAt.monotonic > lease.confirmedAt.monotonic) lease.confirmedAt = readAt;
  }
}

function activityOf(book: LeaseBook, keyId: string): KeyActivity {
  const existing = book.activity.get(keyId);
  if (existing !== undefined) return existing;
  if (book.activity.size >= KEYS_MAX) book.activity.clear();
  const activity = newActivity();
  book.activity.set(keyId, activity);
  return activity;
}
