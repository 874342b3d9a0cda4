// Releases the holds of other processes that have restarted or are dead. No clock of the sweeping process decides: a
// running process releases its own holds (`reconcile.ts`). Swept holds are kept for a while, so that a late settlement
// still charges, once.

import { DAY_MS } from "../base/time.ts";
import { isOfOneNode, readAllAccounts } from "../store/all-accounts.ts";
import {
  type AccountKey,
  type Db,
  integer,
  setShortLockTimeout,
  isLocked,
  type Reader,
  type Row,
  text,
  type Tx,
  type Value,
} from "../store/db.ts";
import { type HoldOwner, readHoldOwners, readProcesses } from "./hold-owners.ts";
import {
  toAccountKeySpends,
  toOpenHold,
  toWallet,
  updateKeySpends,
  updateWallets,
} from "./ledger-rows.ts";
import { restoreProcesses } from "./ledger.ts";
import { createDeadProcessDetector, type DeadProcess, type OtherWork } from "./liveness.ts";
import { readSessions, sessionKey, writeSessions } from "./session-rows.ts";

const SWEEP_BATCH = 500;
const SWEPT_RETENTION_MS = 7 * DAY_MS;

export interface SweeperDeps {
  readonly db: Db;
  /** The name of this process. */
  readonly process: string;
  readonly now: () => number;
  readonly otherWork?: OtherWork;
  /** For tests. */
  readonly monotonicNow?: () => number;
}

/** Returns a function for a job: each call updates the dead-process detector and sweeps. */
export function createSweeper(deps: SweeperDeps): () => Promise<number> {
  const { db, process, now, otherWork, monotonicNow = () => performance.now() } = deps;
  const findDeadProcesses = createDeadProcessDetector(process, monotonicNow, otherWork);
  return async () => {
    const deadProcesses = await findDeadProcesses(db);
    const swept = await sweepHolds(db, now(), deadProcesses);
    if (deadProcesses.length > 0 && otherWork !== undefined)
      await db.write(async (tx) =>
        otherWork.release(tx, await lockDeadProcesses(tx, deadProcesses)),
      );
    return swept;
  };
}

/** Releases holds that will not be settled; returns how many. */
export async function sweepHolds(
  db: Db,
  now: number,
  deadProcesses: readonly DeadProcess[] = [],
): Promise<number> {
  const swept = await sweepAll(db, { now, deadProcesses });
  try {
    await db.write(async (tx) => {
      await restoreProcesses(tx);
      await tx.run("delete from swept_hold where swept_at < ?", [now - SWEPT_RETENTION_MS]);
    });
  } catch (error) {
    if (!waitsForNextRun(db, error)) throw error;
  }
  return swept;
}

interface SweepScope {
  readonly now: number;
  readonly deadProcesses: readonly DeadProcess[];
  /** Absent for all accounts. */
  readonly accountId?: string | undefined;
}

async function sweepAll(db: Db, sweep: SweepScope): Promise<number> {
  if (db.isDistributed === true) return sweepPerAccount(db, sweep);
  let swept = 0;
  try {
    for (;;) {
      const batch = await db.write((tx) => sweepBatch(tx, sweep));
      swept += batch.swept;
      if (batch.found < SWEEP_BATCH) return swept;
    }
  } catch (error) {
    if (!isLocked(error)) throw error;
    return swept + (await sweepPerAccount(db, sweep));
  }
}

async function sweepPerAccount(db: Db, sweep: SweepScope): Promise<number> {
  let swept = 0;
  const deadRows = await findDeadHolds(db, sweep);
  for (const accountId of new Set(deadRows.map(accountOf)))
    try {
      for (let found = SWEEP_BATCH; found >= SWEEP_BATCH;) {
        const batch = await db.write(async (tx) => {
          await setShortLockTimeout(tx);
          return sweepBatch(tx, { ...sweep, accountId });
        });
        swept += batch.swept;
        found = batch.found;
      }
    } catch (error) {
      if (!waitsForNextRun(db, error)) throw error;
    }
  return swept;
}

const SELECT_HOLDS = "select id, account_id, key_id from hold where";

async function findDeadHolds(
  reader: Reader,
  { deadProcesses, accountId }: Omit<SweepScope, "now">,
): Promise<readonly Row[]> {
  const owners = await readDeadOwners(reader, { deadProcesses, accountId });
  if (owners.length === 0) return [];
  const isOfOwner = `(${owners.map(() => "(process = ? and epoch = ?)").join(" or ")})`;
  const inOrder = `order by id limit ${SWEEP_BATCH}`;
  const values = owners.flatMap(({ process, epoch }) => [process, epoch]);
  return accountId === undefined
    ? readAllAccounts(reader, "hold", `${SELECT_HOLDS} ${isOfOwner} ${inOrder}`, values)
    : reader.all(`${SELECT_HOLDS} account_id = ? and ${isOfOwner} ${inOrder}`, [
        accountId,
        ...values,
      ]);
}

/** The processes with holds that have started again since, or are dead: without a newer heartbeat than the detector saw. */
async function readDeadOwners(
  reader: Reader,
  { deadProcesses, accountId }: Omit<SweepScope, "now">,
): Promise<readonly HoldOwner[]> {
  const owners = await readHoldOwners(reader, accountId);
  const processes = await readProcesses(
    reader,
    owners.map(({ process }) => process),
  );
  const byName = new Map(processes.map((process) => [process.name, process]));
  return owners.filter((owner) => {
    const found = byName.get(owner.process);
    if (found === undefined) return false;
    const isDead = deadProcesses.some(
      ({ name, epoch, seenAt }) =>
        name === found.name && epoch === found.epoch && seenAt === found.seenAt,
    );
    return isDead || found.epoch > owner.epoch;
  });
}

async function lockDeadProcesses(
  tx: Tx,
  candidates: readonly DeadProcess[],
): Promise<readonly DeadProcess[]> {
  if (candidates.length === 0) return [];
  const rows = await tx.lockMany(
    "process",
    "name",
    candidates.map(({ name }) => name),
  );
  return candidates.filter(({ name, epoch, seenAt }) =>
    rows.some(
      (row) =>
        text(row, "name") === name &&
        integer(row, "epoch") === epoch &&
        integer(row, "seen_at") === seenAt,
    ),
  );
}

/** `swept` is less than `found` if settlements, or another process's sweep, released some of the holds first. */
async function sweepBatch(tx: Tx, sweep: SweepScope): Promise<{ found: number; swept: number }> {
  const { now } = sweep;
  // Under the lock, a heartbeat has either been seen or waits for the end of the sweep.
  const deadProcesses = await lockDeadProcesses(tx, sweep.deadProcesses);
  const deadRows = await findDeadHolds(tx, { ...sweep, deadProcesses });
  if (deadRows.length === 0) return { found: 0, swept: 0 };
  return { found: deadRows.length, swept: await releaseHolds(tx, now, deadRows) };
}

/** Like `releaseHolds`, in a transaction of its own; locked rows wait for the next run. */
export async function releaseUnlocked(db: Db, now: number, rows: readonly Row[]): Promise<number> {
  const batches = db.isDistributed === true ? Map.groupBy(rows, accountOf).values() : [rows];
  let released = 0;
  for (const batch of batches)
    try {
      if (batch.length > 0) released += await db.write((tx) => releaseHolds(tx, now, batch));
    } catch (error) {
      if (!waitsForNextRun(db, error)) throw error;
    }
  return released;
}

/** Rows of an account that are locked, or on a node that is down, must not block those of others. */
function waitsForNextRun(db: Db, error: unknown): boolean {
  return isLocked(error) || isOfOneNode(db, error);
}

function accountOf(row: Row): string {
  return text(row, "account_id");
}

/** Releases the holds of these rows that still exist; returns how many. On a distributed store, they are of one account. */
export async function releaseHolds(tx: Tx, now: number, rows: readonly Row[]): Promise<number> {
  const accountIds = new Set(rows.map(accountOf));
  const wallets = new Map(
    (await tx.lockMany("wallet", "account_id", [...accountIds])).map((row) => [
      text(row, "account_id"),
      toWallet(row),
    ]),
  );
  const keySpends = toAccountKeySpends(
    await tx.lockMany("spender", "account_id, key_id", accountKeys(rows, "key_id")),
  );
  // Read again under the locks, because some may have been settled since.
  const holds = (await tx.lockMany("hold", "account_id, id", accountKeys(rows, "id"))).map(
    toOpenHold,
  );
  const sessions = await readSessions(tx, holds);
  for (const hold of holds) {
    const wallet = wallets.get(hold.accountId);
    const keySpend = keySpends.get(hold.keyId)?.keySpend;
    if (wallet === undefined || keySpend === undefined)
      throw new Error(`hold ${hold.id} has no wallet or no key`);
    wallet.held -= hold.amount;
    const { sessionId } = hold;
    const session = sessionId && sessions.get(sessionKey(hold.accountId, sessionId))?.session;
    if (session) session.held -= hold.amount;
    keySpend.held -= hold.amount;
    keySpend.openCalls -= hold.calls ?? 1;
  }
  await updateWallets(tx, wallets);
  await updateKeySpends(tx, keySpends.values());
  await writeSessions(tx, sessions.values());
  await tx.deleteMany(
    "hold",
    "account_id, id",
    holds.map(({ accountId, id }) => [accountId, id] as const),
  );
  await tx.insertMany(
    "swept_hold",
    [
      "id:text",
      "account_id:text",
      "key_id:text",
      "amount:bigint",
      "swept_at:bigint",
      "reason:text",
      "session_id:text",
    ],
    holds.map((hold): Value[] => [
      hold.id,
      hold.accountId,
      hold.keyId,
      hold.amount,
      now,
      "process gone or deadline passed",
      hold.sessionId ?? null,
    ]),
  );
  return holds.length;
}

function accountKeys(rows: readonly Row[], column: string): readonly AccountKey[] {
  const accountOf = new Map(rows.map((row) => [text(row, column), text(row, "account_id")]));
  return Array.from(accountOf, ([id, accountId]) => [accountId, id] as const);
}
