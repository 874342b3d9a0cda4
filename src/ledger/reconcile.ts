// Compares this process's holds in the store with its open calls. A hold without a call belongs to a settlement that the
// store lost, or to one that could not be written: it is settled again, or released as after a crash. Times are measured
// on the monotonic clock, because the wall clock may jump.

import { MINUTE_MS } from "../base/time.ts";
import { readAllAccounts } from "../store/all-accounts.ts";
import { type Db, integer, isUnavailable, type Row, text } from "../store/db.ts";
import type { LeaseShare } from "./credit-lease.ts";
import type { SettleRequest } from "./decide.ts";
import type { Ledger } from "./ledger.ts";
import type { OwnHolds } from "./own-holds.ts";
import { releaseUnlocked } from "./sweep.ts";

/** Consecutive runs without a call before a hold is settled: the reply to a hold's commit may be in flight. */
const RUNS_WITHOUT_CALL = 3;
/** A settlement is kept at least for this time, and at most for twice as long. */
const SETTLEMENTS_KEPT_MS = 5 * MINUTE_MS;
const PAGE = 500;
const HOLDS_PER_SHARD_MAX = 50_000;

export interface HoldReconciliation {
  readonly settledAgain: number;
  readonly released: number;
}

export interface ReconcileDeps<UsageRecord> {
  readonly db: Db;
  readonly ledger: Pick<Ledger<UsageRecord>, "settle">;
  readonly ownHolds: Pick<
    OwnHolds<UsageRecord>,
    "isOpen" | "takeExtension" | "findSettlement" | "forgetOlder" | "takeLeased" | "addLeased"
  >;
  readonly process: string;
  readonly epoch: number;
  readonly now: () => number;
  /** For tests. */
  readonly monotonicNow?: () => number;
}

interface ObservedHold {
  readonly firstSeenAt: number;
  readonly runsWithoutCall: number;
}

/** Returns a function for a job that runs every half a minute. */
export function createHoldReconciler<UsageRecord>(
  deps: ReconcileDeps<UsageRecord>,
): () => Promise<HoldReconciliation> {
  const { db, ownHolds, now, monotonicNow = () => performance.now() } = deps;
  let observed: ReadonlyMap<string, ObservedHold> = new Map();
  let forgotAt = monotonicNow();
  return async () => {
    const startedAt = monotonicNow();
    if (startedAt - forgotAt > SETTLEMENTS_KEPT_MS) {
      ownHolds.forgetOlder();
      forgotAt = startedAt;
    }
    const previous = observed;
    const rows = await findHolds(deps);
    observed = new Map(
      rows.map((row) => {
        const id = text(row, "id");
        const { firstSeenAt = startedAt, runsWithoutCall = 0 } = previous.get(id) ?? {};
        const livesFrom = ownHolds.takeExtension(id) ? startedAt : firstSeenAt;
        return [
          id,
          {
            firstSeenAt: livesFrom,
            runsWithoutCall: ownHolds.isOpen(id) ? 0 : runsWithoutCall + 1,
          },
        ];
      }),
    );
    const hasNoCall = (row: Row): boolean =>
      (observed.get(text(row, "id"))?.runsWithoutCall ?? 0) >= RUNS_WITHOUT_CALL;
    // This process has observed the hold for its whole lifetime, which is longer than any call takes.
    const isExpired = (row: Row): boolean =>
      startedAt - (observed.get(text(row, "id"))?.firstSeenAt ?? startedAt) >
      integer(row, "lifetime_ms");
    const { settledAgain, unknown } = await settleAgain(deps, rows.filter(hasNoCall));
    const settledLeased = await settleLostLeased(deps);
    const expired = rows.filter((row) => !hasNoCall(row) && isExpired(row));
    return {
      settledAgain: settledAgain + settledLeased,
      released: await releaseUnlocked(db, now(), [...unknown, ...expired]),
    };
  };
}

/** Settles calls on leases again whose usage records the store has lost. Those that it cannot read are read again in the next run. */
async function settleLostLeased<UsageRecord>({
  db,
  ledger,
  ownHolds,
}: ReconcileDeps<UsageRecord>): Promise<number> {
  const found: SettleRequest<UsageRecord>[] = [];
  for (const page of pagesOf(db, ownHolds.takeLeased())) {
    const keys = page.map(({ accountId, id }) => [accountId, id] as const);
    try {
      const rows = await db.write((tx) =>
        tx.readMany("usage_record", "account_id, id", keys, "id"),
      );
      const recorded = new Set(rows.map((row) => text(row, "id")));
      found.push(...page.filter(({ id }) => !recorded.has(id)));
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      ownHolds.addLeased(page);
    }
  }
  // Its share may be that of another call by now, so it is charged to free credits.
  const outcomes = await Promise.all(
    found.map((request) => ledger.settle({ ...request, lease: NO_SHARE, refuseUncovered: false })),
  );
  return outcomes.filter(({ status }) => status === "settled").length;
}

/** On a distributed store of one account each: a node that is down must not delay the others. */
function pagesOf<UsageRecord>(
  { isDistributed }: Db,
  requests: readonly SettleRequest<UsageRecord>[],
): readonly (readonly SettleRequest<UsageRecord>[])[] {
  const settlements = [...new Map(requests.map((request) => [request.id, request])).values()];
  const groups =
    isDistributed === true
      ? [...Map.groupBy(settlements, ({ accountId }) => accountId).values()]
      : [settlements];
  return groups.flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / PAGE) }, (_, page) =>
      group.slice(page * PAGE, (page + 1) * PAGE),
    ),
  );
}

const NO_SHARE: LeaseShare = { leaseId: "", share: 0n };

/** Returns the holds whose settlement is not known too. */
async function settleAgain<UsageRecord>(
  { ledger, ownHolds }: ReconcileDeps<UsageRecord>,
  holds: readonly Row[],
): Promise<{ readonly settledAgain: number; readonly unknown: readonly Row[] }> {
  const settlements = holds.map((row) => ownHolds.findSettlement(text(row, "id")));
  // The callers have their replies.
  const outcomes = await Promise.all(
    settlements.flatMap((request) =>
      request === undefined ? [] : [ledger.settle({ ...request, refuseUncovered: false })],
    ),
  );
  return {
    settledAgain: outcomes.filter(({ status }) => status === "settled").length,
    unknown: holds.filter((_, index) => settlements[index] === undefined),
  };
}

async function findHolds<UsageRecord>({
  db,
  process,
  epoch,
}: ReconcileDeps<UsageRecord>): Promise<readonly Row[]> {
  const found: Row[] = [];
  // Pages of several nodes have no common order.
  const limit = db.isDistributed === true ? HOLDS_PER_SHARD_MAX : PAGE;
  for (let after = ""; ;) {
    const page = await readAllAccounts(
      db,
      "hold",
      `select id, account_id, key_id, expires_at - created_at as lifetime_ms from hold
       where id > ? and process = ? and epoch = ? order by id limit ${limit}`,
      [after, process, epoch],
    );
    found.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < limit || db.isDistributed === true) return found;
    after = text(last, "id");
  }
}
