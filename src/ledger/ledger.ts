// The only module that moves money. It owns the tables wallet, spender, hold, swept_hold, transfer and process.
// Transfers are append-only; a wallet is the sum of its transfers, and `held <= promo + paid` is true at every commit.

import { Fault } from "../base/fault.ts";
import { MAX_NANO, type Nano } from "../base/money/money.ts";
import { formatUsdExact } from "../base/text/format.ts";
import {
  type Db,
  setShortLockTimeout,
  isDuplicate,
  type Durability,
  type Reader,
  type Tx,
  integer,
} from "../store/db.ts";
import type { ScheduleTopUps } from "./balance-thresholds.ts";
import { createAccountQueues } from "./commit/account-queues.ts";
import {
  applyBatch,
  type BatchContext,
  type LedgerOperation,
  type LedgerOutcome,
  type WriteRecords,
} from "./commit/batch.ts";
import {
  createGroupCommit,
  type Deferral,
  type GroupCommit,
  sleep,
} from "./commit/group-commit.ts";
import type { BufferedDb } from "./commit/hold-buffer.ts";
import type { CreditLeases } from "./credit-leases.ts";
import type {
  HoldOutcome,
  HoldRequest,
  RaiseOutcome,
  SettleOutcome,
  SettleRequest,
  Wallet,
} from "./decide.ts";
import type { CreditLeaseDeps } from "./held-leases.ts";
import { readHoldOwners, readProcesses } from "./hold-owners.ts";
import { type LedgerOperations, startLeases, withLeases } from "./leased-ledger.ts";
import {
  type Bucket,
  bucketAccount,
  insertTransfers,
  SYSTEM_ACCOUNTS,
  toWallet,
} from "./ledger-rows.ts";
import type { OwnHolds } from "./own-holds.ts";
import { moveDebt } from "./payments/payments.ts";

export interface Ledger<UsageRecord> extends LedgerOperations<UsageRecord> {
  /** Settlements whose callers no longer wait, and that are not committed yet. */
  readonly deferredSettlements: () => readonly SettleRequest<UsageRecord>[];
  /** The number of operations that wait for their commit. */
  readonly queueDepth: () => number;
  /** Resolves when every operation is committed or rejected. */
  readonly idle: () => Promise<void>;
}

export interface LedgerDeps<UsageRecord> {
  readonly db: Db;
  /** Buffers new holds in memory; without it, every hold is inserted immediately. */
  readonly holdBuffer?: Pick<BufferedDb, "writeBatch" | "tryHoldSync"> | undefined;
  readonly ownHolds?:
    | Pick<OwnHolds<UsageRecord>, "addOpen" | "removeOpen" | "extend" | "addSettlement">
    | undefined;
  /** What the commit of a settlement survives; "disk" by default. */
  readonly commit?: Durability;
  readonly process: string;
  readonly epoch: number;
  readonly writeRecords: WriteRecords<UsageRecord>;
  /** Whether `writeRecords` sends all statements for such a record at once, so that the commit can follow them. */
  readonly isWrittenAtOnce?: (record: UsageRecord) => boolean;
  readonly deferral?: SettlementDeferral<UsageRecord> | undefined;
  readonly scheduleTopUps?: ScheduleTopUps;
  /** Set where holds of busy keys may be decided in memory, on leases: only on PostgreSQL. */
  readonly leases?: Pick<CreditLeaseDeps, "now" | "busyHolds"> | undefined;
}

/** Settlements that cannot be committed soon, because the store is unavailable or the rows are locked. */
export interface SettlementDeferral<UsageRecord> {
  readonly afterMs: number;
  /** The record of a call that costs nothing because its caller did not get the reply. */
  readonly unservedRecord: (record: UsageRecord) => UsageRecord;
  readonly onSettled: (request: SettleRequest<UsageRecord>, outcome: SettleOutcome) => void;
  /** Called when a settlement is abandoned: its call is not charged. */
  readonly onLost: (request: SettleRequest<UsageRecord>, cause: unknown) => void;
}

/** How long a caller waits for an unavailable store; connections without traffic are closed after a minute. */
export const STORE_WAIT_MS = 10_000;

export function createLedger<UsageRecord>({
  db,
  holdBuffer,
  ownHolds,
  commit: durability = "disk",
  process,
  epoch,
  writeRecords,
  isWrittenAtOnce,
  deferral,
  scheduleTopUps,
  leases: leaseOptions,
}: LedgerDeps<UsageRecord>): Ledger<UsageRecord> {
  const context = { process, epoch, writeRecords, isWrittenAtOnce, scheduleTopUps };
  const commit = createCommit({ db, holdBuffer, commit: durability }, context, () => leases);
  const deferred = new Map<string, SettleRequest<UsageRecord>>();
  const createQueue = (): GroupCommit<LedgerOperation<UsageRecord>, LedgerOutcome> =>
    createGroupCommit(ownHolds === undefined ? commit : trackHolds(commit, ownHolds), undefined, {
      // With a hold buffer the store is SQLite in this process, so the reply of a commit cannot be lost.
      compensationFor: (operation) =>
        holdBuffer === undefined ? compensationFor(operation) : undefined,
      lockKeyOf: accountOf,
      pauseAfterCommit: holdBuffer === undefined ? sleep : undefined,
      deferral: deferral && deferralOf(deferral, ownHolds, deferred),
    });
  const group =
    db.isDistributed === true ? createAccountQueues(createQueue, accountOf) : createQueue();
  const ledger: Ledger<UsageRecord> = {
    // Not `async`: every call passes here twice, and each promise has a cost.
    hold: (request) => {
      if (isNegative(request))
        return Promise.reject(new Error(`hold ${request.id} has a negative amount`));
      // The outcome has the kind of its operation.
      return group.submit({ kind: "hold", request }, "new") as Promise<HoldOutcome>;
    },
    // While commits fail, only a queued operation can find out whether the store works again.
    tryHoldSync: (request) => {
      if (isNegative(request) || group.isFailing()) return undefined;
      const outcome = holdBuffer?.tryHoldSync(request, context);
      if (outcome?.status === "held") ownHolds?.addOpen(request.id);
      return outcome;
    },
    // The outcome has the kind of its operation.
    raise: (request) => group.submit({ kind: "raise", request }, "new") as Promise<RaiseOutcome>,
    settle: (request) => {
      if (request.cost < 0n || request.cost > MAX_NANO)
        return Promise.reject(
          new Error(`settle ${request.id} has an invalid cost: ${request.cost}`),
        );
      ownHolds?.removeOpen(request.id);
      // SQLite loses no commits.
      if (holdBuffer === undefined) ownHolds?.addSettlement(request);
      // The outcome has the kind of its operation.
      return group.submit({ kind: "settle", request }, "owed") as Promise<SettleOutcome>;
    },
    deferredSettlements: () => [...deferred.values()],
    extendHold: (id) => ownHolds?.extend(id),
    returnLeases: () => {},
    queueDepth: group.queueDepth,
    isFailing: group.isFailing,
    idle: group.idle,
  };
  const leases = startLeases({ db, process, epoch, ownHolds, leases: leaseOptions }, (operation) =>
    group.submit(operation, "new"),
  );
  return leases === undefined ? ledger : { ...ledger, ...withLeases(ledger, leases) };
}

function accountOf({ request }: LedgerOperation<unknown>): string {
  return request.accountId;
}

function createCommit<UsageRecord>(
  {
    db,
    holdBuffer,
    commit: ofSettlements,
  }: Pick<LedgerDeps<UsageRecord>, "db" | "holdBuffer"> & { readonly commit: Durability },
  context: BatchContext<UsageRecord>,
  leasesOf: () => CreditLeases | undefined,
): Commit<UsageRecord> {
  return async (operations, hasShortLockTimeout) => {
    const durability = durabilityOf(operations, ofSettlements);
    if (holdBuffer !== undefined)
      return (
        await holdBuffer.writeBatch(
          (tx, buffer) => applyBatch(tx, operations, context, buffer),
          durability,
        )
      ).outcomes;
    const leases = leasesOf();
    const readAt = leases?.moment();
    const batch = await db.write(async (tx) => {
      if (hasShortLockTimeout) await setShortLockTimeout(tx);
      return applyBatch(tx, operations, context);
    }, durability);
    if (readAt !== undefined) leases?.applyBatch(operations, batch.leases, readAt);
    return batch.outcomes;
  };
}

type Commit<UsageRecord> = (
  operations: readonly LedgerOperation<UsageRecord>[],
  hasShortLockTimeout: boolean,
) => Promise<readonly LedgerOutcome[]>;

/** Remembers the holds that a batch opened, and the settlements that it could not write. */
function trackHolds<UsageRecord>(
  commit: Commit<UsageRecord>,
  { addOpen, addSettlement }: NonNullable<LedgerDeps<UsageRecord>["ownHolds"]>,
): Commit<UsageRecord> {
  return async (operations, hasShortLockTimeout) => {
    try {
      const outcomes = await commit(operations, hasShortLockTimeout);
      operations.forEach(({ request }, index) => {
        if (outcomes[index]?.status === "held") addOpen(request.id);
      });
      return outcomes;
    } catch (error) {
      for (const { kind, request } of operations) if (kind === "settle") addSettlement(request);
      throw error;
    }
  };
}

function deferralOf<UsageRecord>(
  { afterMs, unservedRecord, onSettled, onLost }: SettlementDeferral<UsageRecord>,
  ownHolds: LedgerDeps<UsageRecord>["ownHolds"],
  deferred: Map<string, SettleRequest<UsageRecord>>,
): Deferral<LedgerOperation<UsageRecord>, LedgerOutcome> {
  return {
    afterMs,
    outcome: { status: "deferred" },
    operationFor: (operation) => {
      const { kind, request } = operation;
      if (kind !== "settle" || request.refuseUncovered !== true) return operation;
      const { refuseUncovered: _, batch: __, record, ...rest } = request;
      const free = { ...rest, cost: 0n };
      const unserved = record === undefined ? free : { ...free, record: unservedRecord(record) };
      ownHolds?.addSettlement(unserved);
      return { kind, request: unserved };
    },
    onDeferred: ({ kind, request }) => {
      if (kind === "settle") deferred.set(request.id, request);
    },
    onCommitted: ({ kind, request }, outcome) => {
      deferred.delete(request.id);
      // The outcome has the kind of its operation.
      if (kind === "settle") onSettled(request, outcome as SettleOutcome);
    },
    onLost: ({ kind, request }, cause) => {
      deferred.delete(request.id);
      if (kind === "settle") onLost(request, cause);
    },
  };
}

function compensationFor<UsageRecord>({
  kind,
  request,
}: LedgerOperation<UsageRecord>): LedgerOperation<UsageRecord> | undefined {
  if (kind === "take_lease") {
    const { id, accountId, keyId, now } = request;
    const returned = { id, accountId, keyId, keep: { amount: 0n, calls: 0 }, unusedArrivals: 0 };
    return { kind: "return_lease", request: { ...returned, rateLimit: undefined, now } };
  }
  if (kind !== "hold") return undefined;
  const { id, accountId, keyId, now, session } = request;
  const sessionId = session?.id;
  return { kind: "settle", request: { id, accountId, keyId, cost: 0n, now, sessionId } };
}

function isNegative({ amount, minimum = 0n }: HoldRequest): boolean {
  return amount < 0n || minimum < 0n;
}

// A power failure also ends the calls of lost holds, before a caller got their outcome: the effect is the same as a
// release at the next start.
function durabilityOf(
  operations: readonly { readonly kind: string }[],
  ofSettlements: Durability,
): Durability {
  return operations.some(({ kind }) => kind === "settle") ? ofSettlements : "os_cache";
}

export async function openWallet(tx: Tx, accountId: string): Promise<void> {
  await tx.run("insert into wallet (account_id, promo, paid, held) values (?, 0, 0, 0)", [
    accountId,
  ]);
}

export async function getWallet(db: Reader, accountId: string): Promise<Wallet> {
  const row = await db.get("select promo, paid, held, owed from wallet where account_id = ?", [
    accountId,
  ]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toWallet(row);
}

/** The open calls of a key, or of all keys of the account. */
export async function countOpenCalls(
  db: Reader,
  accountId: string,
  keyId: string | undefined,
): Promise<number> {
  const row = await db.get(
    `select cast(coalesce(sum(open_calls), 0) as bigint) as calls from spender where account_id = ?${keyId === undefined ? "" : " and key_id = ?"}`,
    keyId === undefined ? [accountId] : [accountId, keyId],
  );
  return row === undefined ? 0 : integer(row, "calls");
}

export interface Deposit {
  /** The id of the transfer, which makes the deposit idempotent. */
  readonly id: string;
  readonly accountId: string;
  readonly bucket: Bucket;
  readonly from: string;
  readonly amount: Nano;
  readonly kind: string;
  readonly ref: string;
  readonly now: number;
  readonly memo?: string;
}

/** Moves money into a wallet, which pays the account's debt; returns false if the transfer exists already. */
export async function deposit(tx: Tx, request: Deposit): Promise<boolean> {
  if (request.amount <= 0n) throw new Error("the amount of a deposit must be positive");
  const [row] = await tx.lockMany("wallet", "account_id", [request.accountId]);
  if (row === undefined)
    throw new Fault("not_found", `no wallet of ${request.accountId}`, {
      message: "The account does not exist.",
    });
  const existing = await tx.get("select id from transfer where account_id = ? and id = ?", [
    request.accountId,
    request.id,
  ]);
  if (existing !== undefined) return false;
  const wallet = toWallet(row);
  if (wallet.promo + wallet.paid + request.amount > MAX_NANO) {
    throw new Fault("invalid_request", `deposit of ${request.amount} exceeds the limit`, {
      message: `A balance cannot exceed ${formatUsdExact(MAX_NANO)}.`,
    });
  }
  const { id, accountId, from, amount, kind, ref, now, memo } = request;
  const to = bucketAccount(accountId, request.bucket);
  await insertTransfers(tx, [
    {
      id,
      accountId,
      from,
      to,
      amount,
      kind,
      ref,
      at: now,
      ...(memo === undefined ? {} : { memo }),
    },
  ]);
  await tx.run(`update wallet set ${request.bucket} = ? where account_id = ?`, [
    wallet[request.bucket] + amount,
    accountId,
  ]);
  // The balance does not fall below what it was, so no threshold is crossed.
  if (wallet.owed !== undefined) await moveDebt(tx, { id: `debt.${id}`, accountId, now });
  return true;
}

export interface Grant {
  readonly id: string;
  readonly accountId: string;
  readonly amount: Nano;
  readonly now: number;
  readonly reason: string;
}

/** Adds promotional credit, which is spent first and not refundable. */
export function grant(tx: Tx, request: Grant): Promise<boolean> {
  const { id, accountId, amount, now, reason } = request;
  return deposit(tx, {
    id,
    accountId,
    bucket: "promo",
    from: SYSTEM_ACCOUNTS.promoExpense,
    amount,
    kind: "grant",
    ref: reason,
    now,
    memo: reason,
  });
}

/**
 * Registers the processes of holds again that the store has lost, for example by a restored backup. Whether they are
 * dead is decided by their heartbeats, as for all others.
 */
export async function restoreProcesses(tx: Tx): Promise<void> {
  const epochs = new Map<string, number>();
  for (const { process, epoch } of await readHoldOwners(tx))
    epochs.set(process, Math.max(epoch, epochs.get(process) ?? epoch));
  for (const { name, epoch } of await readProcesses(tx, epochs.keys()))
    if (epoch >= (epochs.get(name) ?? epoch)) epochs.delete(name);
  for (const [name, epoch] of [...epochs].toSorted(([one], [other]) => (one < other ? -1 : 1)))
    await tx.run(
      `insert into process (name, epoch, started_at, seen_at) values (?, ?, 0, 0)
       on conflict (name) do update set epoch = excluded.epoch where process.epoch < excluded.epoch`,
      [name, epoch],
    );
}

/** Registers a process and returns its epoch, which is higher at every start under the same name. */
export async function startEpoch(db: Db, name: string, now: number): Promise<number> {
  for (;;) {
    try {
      return await db.write(async (tx) => {
        const [row] = await tx.lockMany("process", "name", [name]);
        // The store may have lost the row, and have holds of an earlier run.
        const held = (await readHoldOwners(tx)).filter(({ process }) => process === name);
        const used = held.map(({ epoch }) => epoch);
        // Above the time, and not one more than none: a commit of a run whose row was lost can still arrive.
        const epoch = Math.max(row === undefined ? 0 : integer(row, "epoch"), ...used, now) + 1;
        await tx.run(
          row === undefined
            ? "insert into process (epoch, started_at, seen_at, name) values (?, ?, ?, ?)"
            : "update process set epoch = ?, started_at = ?, seen_at = ?, stopped_at = null where name = ?",
          [epoch, now, now, name],
        );
        return epoch;
      });
    } catch (error) {
      if (!isDuplicate(error)) throw error;
    }
  }
}

/** Records that this process has ended its work, so that no other one has to wait for its heartbeat to become old. */
export async function endEpoch(db: Db, name: string, epoch: number, now: number): Promise<void> {
  await db.write((tx) =>
    tx.run("update process set stopped_at = ? where name = ? and epoch = ?", [now, name, epoch]),
  );
}

/**
 * Records that this process is alive; false if another one took its name. A lower epoch, or none, is that of a store
 * which lost the start of this process, such as a restored backup.
 */
export async function heartbeat(
  db: Db,
  name: string,
  epoch: number,
  now: number,
): Promise<boolean> {
  const updated = await db.write((tx) =>
    tx.run(
      `insert into process (name, epoch, started_at, seen_at) values (?, ?, ?, ?) on conflict (name)
       do update set epoch = excluded.epoch, seen_at = excluded.seen_at where process.epoch <= excluded.epoch`,
      [name, epoch, now, now],
    ),
  );
  return updated === 1;
}
