// Compares this process's holds in the store with its open calls. A hold without a call belongs to a settlement that the
// store lost, or to one that could not be written: it is settled again, or released as after a crash.

import { MINUTE_MS } from "../base/time.ts";
import { type Db, isLocked, type Row, text } from "../store/db.ts";
import type { Ledger } from "./ledger.ts";
import type { OwnHolds } from "./own-holds.ts";
import { releaseHolds } from "./sweep.ts";

/** A younger hold may still wait for the reply to its commit. */
const AGE_MIN_MS = MINUTE_MS;
/** A settlement is kept at least for this time, and at most for twice as long. */
const SETTLEMENTS_KEPT_MS = 5 * MINUTE_MS;
const PAGE = 500;

export interface HoldReconciliation {
  readonly settledAgain: number;
  readonly released: number;
}

export interface ReconcileDeps<UsageRecord> {
  readonly db: Db;
  readonly ledger: Pick<Ledger<UsageRecord>, "settle">;
  readonly ownHolds: Pick<OwnHolds<UsageRecord>, "isOpen" | "findSettlement" | "forgetOlder">;
  readonly process: string;
  readonly epoch: number;
  readonly now: () => number;
}

/** Returns a function for a job. It acts on a hold only if two runs in a row found it without a call. */
export function createHoldReconciler<UsageRecord>(
  deps: ReconcileDeps<UsageRecord>,
): () => Promise<HoldReconciliation> {
  const { ownHolds, now } = deps;
  let suspects: ReadonlySet<string> = new Set();
  let forgotAt = now();
  return async () => {
    if (Math.abs(now() - forgotAt) > SETTLEMENTS_KEPT_MS) {
      ownHolds.forgetOlder();
      forgotAt = now();
    }
    const orphans = (await findOldHolds(deps)).filter((row) => !ownHolds.isOpen(text(row, "id")));
    const confirmed = orphans.filter((row) => suspects.has(text(row, "id")));
    suspects = new Set(orphans.map((row) => text(row, "id")));
    if (confirmed.length === 0) return { settledAgain: 0, released: 0 };
    return settleOrRelease(deps, confirmed);
  };
}

async function settleOrRelease<UsageRecord>(
  { db, ledger, ownHolds, now }: ReconcileDeps<UsageRecord>,
  holds: readonly Row[],
): Promise<HoldReconciliation> {
  const known = holds.flatMap((row) => ownHolds.findSettlement(text(row, "id")) ?? []);
  const unknown = holds.filter((row) => ownHolds.findSettlement(text(row, "id")) === undefined);
  // The callers have their replies.
  const outcomes = await Promise.all(
    known.map((request) => ledger.settle({ ...request, refuseUncovered: false })),
  );
  return {
    settledAgain: outcomes.filter(({ status }) => status === "settled").length,
    released: unknown.length === 0 ? 0 : await releaseUnlocked(db, now(), unknown),
  };
}

async function releaseUnlocked(db: Db, now: number, holds: readonly Row[]): Promise<number> {
  try {
    return await db.write((tx) => releaseHolds(tx, now, holds));
  } catch (error) {
    // The next run tries again.
    if (isLocked(error)) return 0;
    throw error;
  }
}

async function findOldHolds<UsageRecord>({
  db,
  process,
  epoch,
  now,
}: ReconcileDeps<UsageRecord>): Promise<readonly Row[]> {
  const found: Row[] = [];
  for (let after = ""; ;) {
    const page = await db.all(
      `select id, account_id, key_id from hold where id > ? and process = ? and epoch = ? and created_at < ?
       order by id limit ${PAGE}`,
      [after, process, epoch, now() - AGE_MIN_MS],
    );
    found.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return found;
    after = text(last, "id");
  }
}
