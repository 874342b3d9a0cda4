// The operations of a batch on credit leases, and the part of a settlement that concerns one.

import { minNano } from "../../base/money/money.ts";
import {
  addGrant,
  type FillLeaseRequest,
  isWorthTaking,
  leaseGrant,
  type LeaseOutcome,
  type LeaseView,
  leaseView,
  returnLease,
  type ReturnLeaseRequest,
  type TakeLeaseRequest,
} from "../credit-lease-rules.ts";
import { LEASE_STATE, type LeaseShare } from "../credit-lease.ts";
import type { FoundRows, OpenHold } from "../decide.ts";
import type { NewHold } from "../ledger-rows.ts";
import type { LockedRows } from "./lock-rows.ts";
import { markTouched, type RowWrites } from "./pending-writes.ts";

export const NO_LEASES: ReadonlyMap<string, LeaseView | undefined> = new Map();

/** The leases of the batch as it leaves them; undefined for those without a row. */
export function viewLeases(
  operations: readonly { readonly request: { readonly now: number } }[],
  rows: LockedRows,
  { leases }: RowWrites,
): ReadonlyMap<string, LeaseView | undefined> {
  const now = Math.max(...operations.map(({ request }) => request.now));
  return new Map(
    [...leases].map(([id, arrivals]) => {
      const lease = rows.holds.get(id);
      const found = lease && foundRows(lease, rows);
      return [id, lease && found && leaseView(lease, arrivals, found, now)];
    }),
  );
}

function foundRows(
  { accountId, keyId }: { readonly accountId: string; readonly keyId: string },
  rows: LockedRows,
): FoundRows | undefined {
  const wallet = rows.wallets.get(accountId);
  const keySpend = rows.keySpends.get(keyId);
  const key = rows.keys.get(keyId);
  if (wallet === undefined || keySpend === undefined || key?.accountId !== accountId)
    return undefined;
  return { wallet, keySpend, key };
}

export function applyTakeLease(
  request: TakeLeaseRequest,
  rows: LockedRows,
  writes: RowWrites,
  { process, epoch }: Pick<NewHold, "process" | "epoch">,
): LeaseOutcome {
  const { id, accountId, keyId, target, now, expiresAt } = request;
  writes.leases.set(id, 0);
  // The batch may repeat one whose commit succeeded but whose reply was lost.
  if (rows.holds.has(id)) return { status: "leased" };
  if (rows.swept.has(id)) return { status: "not_leased" };
  const found = foundRows(request, rows);
  if (found === undefined) return { status: "not_leased" };
  const none = { id, accountId, keyId, amount: 0n, calls: 0, lease: LEASE_STATE.open };
  const grant = leaseGrant(none, target, found, now);
  if (!isWorthTaking(grant, request)) return { status: "not_leased" };
  const lease = addGrant(none, grant, found, request);
  rows.holds.set(id, lease);
  writes.newHolds.set(id, { ...lease, process, epoch, createdAt: now, expiresAt });
  writes.leases.set(id, grant.arrivals);
  markTouched(writes, request, { ...found, session: undefined });
  return { status: "leased" };
}

export function applyFillLease(
  request: FillLeaseRequest,
  rows: LockedRows,
  writes: RowWrites,
): LeaseOutcome {
  const lease = rows.holds.get(request.id);
  const isFilled = lease !== undefined && fillLease(lease, request, rows, writes);
  if (!isFilled) writes.leases.set(request.id, writes.leases.get(request.id) ?? 0);
  return { status: isFilled ? "leased" : "not_leased" };
}

/** Returns whether the lease is open. */
function fillLease(
  lease: OpenHold,
  { target, now }: Pick<FillLeaseRequest, "target" | "now">,
  rows: LockedRows,
  writes: RowWrites,
): boolean {
  const found = lease.lease === LEASE_STATE.open ? foundRows(lease, rows) : undefined;
  if (found === undefined) return false;
  const grant = leaseGrant(lease, target, found, now);
  writes.leases.set(lease.id, (writes.leases.get(lease.id) ?? 0) + grant.arrivals);
  changeLease(addGrant(lease, grant, found, { target, now }), rows, writes);
  markTouched(writes, lease, { ...found, session: undefined });
  return true;
}

export function applyReturnLease(
  request: ReturnLeaseRequest,
  rows: LockedRows,
  writes: RowWrites,
): LeaseOutcome {
  const { id, accountId } = request;
  writes.leases.set(id, 0);
  const lease = rows.holds.get(id);
  const found = foundRows(request, rows);
  if (lease === undefined || found === undefined) return { status: "returned" };
  const kept = returnLease(lease, request, found);
  if (request.keep.calls === 0) {
    rows.holds.delete(id);
    writes.raisedHolds.delete(id);
    if (!writes.newHolds.delete(id)) writes.endedLeases.push([accountId, id]);
  } else changeLease(kept, rows, writes);
  markTouched(writes, request, { ...found, session: undefined });
  return { status: "returned" };
}

function changeLease(lease: OpenHold, rows: LockedRows, writes: RowWrites): void {
  const before = rows.holds.get(lease.id);
  // What the same batch has raised is not what the row has.
  const isStored = !writes.leasesBefore.has(lease.id) && !writes.raisedHolds.has(lease.id);
  if (before !== undefined && isStored) writes.leasesBefore.set(lease.id, before);
  rows.holds.set(lease.id, lease);
  // A lease of the same batch.
  const placed = writes.newHolds.get(lease.id);
  if (placed === undefined) writes.raisedHolds.set(lease.id, lease);
  else writes.newHolds.set(lease.id, { ...placed, ...lease });
}

export function hasChangedRow(
  { id, amount, calls, lease }: OpenHold,
  { leasesBefore }: RowWrites,
): boolean {
  const before = leasesBefore.get(id);
  return (
    before === undefined ||
    before.amount !== amount ||
    before.calls !== calls ||
    before.lease !== lease
  );
}

/** Takes the share of a settled call from its lease, and fills the lease again. */
export function settleLease(
  { share, target }: LeaseShare,
  { id, hold, now }: { id: string; hold: OpenHold | undefined; now: number },
  rows: LockedRows,
  writes: RowWrites,
): void {
  rows.settledCalls.add(id);
  if (hold === undefined) return;
  const calls = Math.max((hold.calls ?? 0) - 1, 0);
  const rest = { ...hold, amount: hold.amount - minNano(share, hold.amount), calls };
  const isFilled = target !== undefined && fillLease(rest, { target, now }, rows, writes);
  if (!isFilled) changeLease(rest, rows, writes);
}
