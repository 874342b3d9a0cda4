// Applies a batch of holds and settlements in one transaction: lock the rows, decide in memory, write the outcome.

import { minNano } from "../../base/money/money.ts";
import type { Tx } from "../../store/db.ts";
import { collectCrossings, type ScheduleTopUps } from "../balance-thresholds.ts";
import { releaseShare } from "../batch-holds.ts";
import { crossedBudgetThresholds } from "../budget-rules.ts";
import {
  type BatchCharges,
  insertCallTransfers,
  readChargedCall,
  sumByHour,
} from "../call-charges.ts";
import type {
  FillLeaseRequest,
  LeaseOutcome,
  ReturnLeaseRequest,
  TakeLeaseRequest,
} from "../credit-lease-rules.ts";
import {
  decideHold,
  decideRaise,
  decideSettle,
  type HoldOutcome,
  type HoldRequest,
  type OpenHold,
  type RaiseOutcome,
  type RaiseRequest,
  type SettleOutcome,
  type SettleRequest,
} from "../decide.ts";
import { crossedKeyAlerts } from "../key-alerts.ts";
import { insertHolds, updateHoldAmounts, updateKeySpends, updateWallets } from "../ledger-rows.ts";
import { type AccountSession, sessionKey, writeSessions } from "../session-rows.ts";
import { emitBalanceEvents, emitBudgetEvents, emitKeyAlerts } from "../threshold-events.ts";
import {
  applyFillLease,
  applyReturnLease,
  applyTakeLease,
  hasChangedRow,
  NO_LEASES,
  settleLease,
  viewLeases,
} from "./apply-leases.ts";
import {
  addBufferedHold,
  type AppliedBatch,
  type HoldBuffer,
  type BufferedRows,
  newHold,
} from "./hold-buffer.ts";
import { lockRows, type LockedRows } from "./lock-rows.ts";
import { emptyWrites, markTouched, type PendingWrites } from "./pending-writes.ts";

export type LedgerOperation<UsageRecord> =
  | { readonly kind: "hold"; readonly request: HoldRequest }
  | { readonly kind: "raise"; readonly request: RaiseRequest }
  | { readonly kind: "settle"; readonly request: SettleRequest<UsageRecord> }
  | { readonly kind: "take_lease"; readonly request: TakeLeaseRequest }
  | { readonly kind: "fill_lease"; readonly request: FillLeaseRequest }
  /** `amount` is that of the lease, with what a call on it needs. */
  | { readonly kind: "raise_lease"; readonly request: RaiseRequest }
  | { readonly kind: "return_lease"; readonly request: ReturnLeaseRequest };

export type LedgerOutcome = HoldOutcome | RaiseOutcome | SettleOutcome | LeaseOutcome;

/** Writes usage records with what their calls were charged, in the transaction of the charges. */
export type WriteRecords<UsageRecord> = (
  tx: Tx,
  records: readonly UsageRecord[],
  charges: BatchCharges,
) => Promise<void>;

export interface BatchContext<UsageRecord> {
  readonly process: string;
  readonly epoch: number;
  readonly writeRecords: WriteRecords<UsageRecord>;
  readonly isWrittenAtOnce?: ((record: UsageRecord) => boolean) | undefined;
  readonly scheduleTopUps?: ScheduleTopUps | undefined;
}

/** With a `buffer`, new holds are not inserted but returned in `bufferChanges`. */
export async function applyBatch<UsageRecord>(
  tx: Tx,
  operations: readonly LedgerOperation<UsageRecord>[],
  context: BatchContext<UsageRecord>,
  buffer?: HoldBuffer,
): Promise<AppliedBatch> {
  const state = await lockRows(tx, operations, buffer);
  const writes = emptyWrites<UsageRecord>();
  const applied = operations.map((operation) => applyOperation(operation, state, writes, context));
  const hasRepetition = applied.some(({ status }) => status === "already");
  const writing = writeAll(tx, writes, context, buffer !== undefined);
  const canFollow = tx.sendCommit !== undefined && !hasRepetition;
  if (canFollow && hasNoLaterWrites(writes, context)) await commitBehind(tx, writing);
  await writing;
  const outcomes = hasRepetition ? await addEarlierOverruns(tx, operations, applied) : applied;
  const { newHolds: added, raisedBuffered: raised, settledBuffered: settled } = writes;
  const settledFlushed = [...writes.deletedHolds, ...writes.deletedSweptHolds.map(([, id]) => id)];
  const { wallets, keySpends, sessions } = state;
  const bufferChanges = { added, raised, settled, settledFlushed, wallets, keySpends, sessions };
  const leases = writes.leases.size === 0 ? NO_LEASES : viewLeases(operations, state, writes);
  return { outcomes, bufferChanges, leases };
}

function applyOperation<UsageRecord>(
  { kind, request }: LedgerOperation<UsageRecord>,
  rows: LockedRows,
  writes: PendingWrites<UsageRecord>,
  context: BatchContext<UsageRecord>,
): LedgerOutcome {
  switch (kind) {
    case "hold":
      return applyHold(request, rows, writes, context);
    case "raise":
      return applyRaise(request, rows, writes);
    case "settle":
      return applySettle(request, rows, writes);
    case "take_lease":
      return applyTakeLease(request, rows, writes, context);
    case "fill_lease":
      return applyFillLease(request, rows, writes);
    case "raise_lease":
      writes.leases.set(request.id, writes.leases.get(request.id) ?? 0);
      return applyRaise(request, rows, writes);
    case "return_lease":
      return applyReturnLease(request, rows, writes);
  }
}

/** The reply to an earlier settlement may have been lost. Its overrun is read again, because an uncovered call must not be served. */
function addEarlierOverruns<UsageRecord>(
  tx: Tx,
  operations: readonly LedgerOperation<UsageRecord>[],
  outcomes: readonly LedgerOutcome[],
): Promise<readonly LedgerOutcome[]> {
  return Promise.all(
    operations.map(async ({ kind, request }, index) => {
      const outcome = outcomes[index];
      if (outcome === undefined) throw new Error("an operation has no outcome");
      if (kind !== "settle" || outcome.status !== "already") return outcome;
      const row = await tx.get("select * from usage_record where account_id = ? and id = ?", [
        request.accountId,
        request.id,
      ]);
      const charge = row && readChargedCall(row)?.charge;
      if (charge === undefined) return outcome;
      const overrun = request.cost - charge.promo - charge.paid;
      return overrun > 0n ? { ...outcome, overrun } : outcome;
    }),
  );
}

function applyHold<UsageRecord>(
  request: HoldRequest,
  rows: LockedRows,
  writes: PendingWrites<UsageRecord>,
  context: BatchContext<UsageRecord>,
): HoldOutcome {
  // The batch may repeat one whose commit succeeded but whose reply was lost.
  const existing = rows.holds.get(request.id) ?? rows.swept.get(request.id);
  if (existing !== undefined && !hasSameOwner(existing, request))
    throw new Error(`hold ${request.id} belongs to another account or key`);
  if (existing !== undefined) return repeatedHold(request, existing);
  const wallet = rows.wallets.get(request.accountId);
  const keySpend = rows.keySpends.get(request.keyId);
  const session = sessionOf(rows, request.accountId, request.session?.id);
  const key = rows.keys.get(request.keyId);
  const outcome = decideHold(request, { wallet, keySpend, key, session: session?.session });
  if (outcome.status !== "held" || wallet === undefined || keySpend === undefined) return outcome;
  const hold = newHold(request, outcome.amount, context);
  rows.holds.set(hold.id, hold);
  writes.newHolds.set(hold.id, hold);
  if (rows.buffer !== undefined)
    addBufferedHold({ wallet, keySpend, session: session?.session }, hold.amount, 1);
  else markTouched(writes, request, { wallet, keySpend, session });
  return outcome;
}

/** What a hold that rolls may grow to is not stored. A raise takes what is affordable then. */
function repeatedHold(
  { amount: limit, upfront, onShortage }: HoldRequest,
  { amount }: OpenHold,
): HoldOutcome {
  const isPart = upfront !== undefined || (onShortage !== undefined && amount < limit);
  return isPart ? { status: "held", amount, limit } : { status: "held", amount };
}

function applyRaise<UsageRecord>(
  request: RaiseRequest,
  rows: LockedRows,
  writes: PendingWrites<UsageRecord>,
): RaiseOutcome {
  const found = rows.holds.get(request.id);
  const wallet = rows.wallets.get(request.accountId);
  const keySpend = rows.keySpends.get(request.keyId);
  const key = rows.keys.get(request.keyId);
  if (found === undefined) return { status: "lost" };
  if (wallet === undefined || keySpend === undefined || key === undefined)
    throw new Error(`hold ${request.id} has no wallet or no key`);
  if (!hasSameOwner(found, request))
    throw new Error(`hold ${request.id} belongs to another account or key`);
  const session = sessionOf(rows, request.accountId, found.sessionId);
  // A copy, because a batch that is not committed must not change a buffered hold.
  const hold = { ...found };
  const touched = { wallet, keySpend, session: session?.session };
  const outcome = decideRaise(request, hold, { ...touched, key });
  const added = hold.amount - found.amount;
  if (added === 0n) return outcome;
  rows.holds.set(hold.id, hold);
  // A hold of the same batch.
  const placed = writes.newHolds.get(hold.id);
  if (placed !== undefined) writes.newHolds.set(hold.id, { ...placed, amount: hold.amount });
  const isBuffered = rows.buffer?.holds.has(hold.id) === true;
  if (isBuffered) writes.raisedBuffered.set(hold.id, hold);
  else if (placed === undefined) writes.raisedHolds.set(hold.id, hold);
  if (isBuffered || (placed !== undefined && rows.buffer !== undefined))
    addBufferedHold(touched, added, 0);
  else markTouched(writes, request, { wallet, keySpend, session });
  return outcome;
}

function applySettle<UsageRecord>(
  request: SettleRequest<UsageRecord>,
  rows: LockedRows,
  writes: PendingWrites<UsageRecord>,
): SettleOutcome {
  const { hold, existing } = findHold(request, rows, writes);
  const wallet = rows.wallets.get(request.accountId);
  const keySpend = rows.keySpends.get(request.keyId);
  if (existing === undefined) return { status: "already" };
  if (wallet === undefined || keySpend === undefined || !hasSameOwner(existing, request))
    throw new Error(`hold ${request.id} belongs to another account or key`);
  const key = rows.keys.get(request.keyId);
  const session = sessionOf(rows, request.accountId, existing.sessionId);
  const share = hold && request.lease && minNano(request.lease.share, hold.amount);
  const before = wallet.promo + wallet.paid;
  const budgetBefore = wallet.budget === undefined ? undefined : { ...wallet.budget };
  const spentBefore = keySpend.spent;
  const takeShareBack = releaseBatchShare(request, rows, writes, { wallet, keySpend });
  const charge = decideSettle(request, {
    hold: share === undefined ? hold : { amount: share },
    wallet,
    keySpend,
    key,
    session: session?.session,
  });
  // Its caller gets no reply, so the item is run again.
  if (charge.isUncovered === true) takeShareBack();
  const spends = { keyId: request.keyId, before: spentBefore, after: keySpend.spent };
  writes.keyAlerts.push(...crossedKeyAlerts(key, { ...spends, now: charge.at }));
  collectCrossings(writes.balanceCrossings, request, before, wallet);
  if (wallet.budget !== undefined) {
    const { accountId } = request;
    const crossings = crossedBudgetThresholds(budgetBefore, wallet.budget, {
      accountId,
      now: charge.at,
    });
    writes.budgetCrossings.push(...crossings);
  }
  if (request.lease !== undefined)
    settleLease(request.lease, { id: request.id, hold, now: charge.at }, rows, writes);
  else if (hold === undefined) {
    rows.swept.delete(request.id);
    writes.deletedSweptHolds.push([request.accountId, request.id]);
  } else {
    releaseHold(hold, rows, writes, { wallet, keySpend, session: session?.session });
  }
  if (request.record === undefined) {
    writes.chargedCalls.push({ id: request.id, accountId: request.accountId, charge });
  } else {
    writes.records.push(request.record);
    writes.recordCharges.push(charge);
  }
  markTouched(writes, request, { wallet, keySpend, session });
  const charged = charge.promo + charge.paid;
  return { status: "settled", charged, overrun: request.cost - charged, late: hold === undefined };
}

/** The hold of a settlement, and whose it is or was; the latter is undefined if the call is settled already. */
function findHold<UsageRecord>(
  request: SettleRequest<UsageRecord>,
  rows: LockedRows,
  { leases }: PendingWrites<UsageRecord>,
): {
  readonly hold: OpenHold | undefined;
  readonly existing: Pick<OpenHold, "accountId" | "keyId" | "sessionId"> | undefined;
} {
  const { id, lease, batch } = request;
  if (batch?.hasNoCall === true) return holdOfItem(batch.holdId, request, rows);
  if (lease === undefined) {
    const hold = rows.holds.get(id);
    return { hold, existing: hold ?? rows.swept.get(id) };
  }
  leases.set(lease.leaseId, leases.get(lease.leaseId) ?? 0);
  const hold = rows.holds.get(lease.leaseId);
  return { hold, existing: rows.settledCalls.has(id) ? undefined : (hold ?? request) };
}

/** An item that its provider ran is covered by its share alone, and was no open call of its key. */
function holdOfItem<UsageRecord>(
  batchHoldId: string,
  { id, accountId, keyId }: SettleRequest<UsageRecord>,
  { holds }: LockedRows,
): ReturnType<typeof findHold> {
  const existing = holds.get(batchHoldId);
  const hold = existing && { id, accountId, keyId, amount: 0n, calls: 0 };
  return { hold, existing };
}

/** The returned function undoes it. */
function releaseBatchShare<UsageRecord>(
  { batch }: SettleRequest<UsageRecord>,
  rows: LockedRows,
  writes: PendingWrites<UsageRecord>,
  touched: Pick<BufferedRows, "wallet" | "keySpend">,
): () => void {
  const hold = batch && rows.holds.get(batch.holdId);
  if (batch === undefined || hold === undefined) return () => {};
  const change = (share: bigint): bigint => {
    const changed = { ...(rows.holds.get(batch.holdId) ?? hold) };
    const released = releaseShare(changed, share, touched);
    rows.holds.set(changed.id, changed);
    writes.raisedHolds.set(changed.id, changed);
    return released;
  };
  const released = change(batch.share);
  return () => void change(-released);
}

function releaseHold<UsageRecord>(
  hold: OpenHold,
  rows: LockedRows,
  writes: PendingWrites<UsageRecord>,
  touched: BufferedRows,
): void {
  rows.holds.delete(hold.id);
  writes.raisedHolds.delete(hold.id);
  writes.raisedBuffered.delete(hold.id);
  // A hold of the same batch was never written, so there is nothing to delete.
  const isNew = writes.newHolds.delete(hold.id);
  const isBuffered = rows.buffer?.holds.has(hold.id) === true;
  if (isBuffered) writes.settledBuffered.push(hold.id);
  else if (!isNew) writes.deletedHolds.push(hold.id);
  if (rows.buffer !== undefined && (isNew || isBuffered))
    addBufferedHold(touched, -hold.amount, -1);
}

/** Undefined for an operation without a session, and for a hold whose session was deleted. */
function sessionOf(
  { sessions }: LockedRows,
  accountId: string,
  id: string | undefined,
): AccountSession | undefined {
  if (id === undefined) return undefined;
  const session = sessions.get(sessionKey(accountId, id));
  return session && { accountId, id, session };
}

function hasSameOwner(
  hold: Pick<OpenHold, "accountId" | "keyId">,
  request: { accountId: string; keyId: string },
): boolean {
  return hold.accountId === request.accountId && hold.keyId === request.keyId;
}

/** Whether `writeAll` sends all of its statements at once, and waits for no reply in between. */
function hasNoLaterWrites<UsageRecord>(
  { records, balanceCrossings, budgetCrossings, keyAlerts }: PendingWrites<UsageRecord>,
  { isWrittenAtOnce = () => false }: BatchContext<UsageRecord>,
): boolean {
  const events = balanceCrossings.length + budgetCrossings.length + keyAlerts.length;
  return events === 0 && records.every(isWrittenAtOnce);
}

/** Sends the commit before the replies to the writes: waiting for them would be another round trip. */
async function commitBehind(tx: Tx, writing: Promise<void>): Promise<void> {
  if (tx.sendCommit === undefined) return;
  let isSent = true;
  writing.catch(() => {
    isSent = false;
  });
  // A value that cannot be sent has rejected its write by then, and the server does not know of it.
  await new Promise((resolve) => setImmediate(resolve));
  if (isSent) tx.sendCommit();
}

async function writeAll<UsageRecord>(
  tx: Tx,
  writes: PendingWrites<UsageRecord>,
  context: BatchContext<UsageRecord>,
  buffersHolds: boolean,
): Promise<void> {
  const work: Promise<unknown>[] = [];
  if (writes.touchedWallets.size > 0)
    work.push(
      updateWallets(tx, writes.touchedWallets),
      updateKeySpends(tx, writes.touchedKeySpends.values()),
    );
  if (writes.touchedSessions.size > 0)
    work.push(writeSessions(tx, writes.touchedSessions.values()));
  if (writes.newHolds.size > 0 && !buffersHolds)
    work.push(insertHolds(tx, [...writes.newHolds.values()]));
  const changed = [...writes.raisedHolds.values()].filter((hold) => hasChangedRow(hold, writes));
  if (changed.length > 0) work.push(updateHoldAmounts(tx, changed));
  if (writes.endedLeases.length > 0)
    work.push(tx.deleteMany("hold", "account_id, id", writes.endedLeases));
  if (writes.deletedSweptHolds.length > 0)
    work.push(tx.deleteMany("swept_hold", "account_id, id", writes.deletedSweptHolds));
  const { records, recordCharges, chargedCalls } = writes;
  if (chargedCalls.length > 0) work.push(insertCallTransfers(tx, chargedCalls));
  const hours = sumByHour([...recordCharges, ...chargedCalls.map(({ charge }) => charge)]);
  if (records.length > 0 || hours.length > 0) {
    const accountId = onlyKeyOf(writes.touchedWallets);
    work.push(context.writeRecords(tx, records, { accountId, calls: recordCharges, hours }));
  }
  const { balanceCrossings, budgetCrossings, keyAlerts } = writes;
  if (balanceCrossings.length > 0) {
    work.push(emitBalanceEvents(tx, balanceCrossings));
    if (context.scheduleTopUps !== undefined)
      work.push(context.scheduleTopUps(tx, balanceCrossings));
  }
  if (budgetCrossings.length > 0) work.push(emitBudgetEvents(tx, budgetCrossings));
  if (keyAlerts.length > 0) work.push(emitKeyAlerts(tx, keyAlerts));
  await Promise.all(work);
}

/** Empty if there are several. */
function onlyKeyOf(map: ReadonlyMap<string, unknown>): string {
  const [key = ""] = map.keys();
  return map.size === 1 ? key : "";
}
