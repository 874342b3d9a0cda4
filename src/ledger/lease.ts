// The lease of a process on its holds. Another process releases them only if the heartbeat has not changed for 30 s, so
// for 25 s from each heartbeat they are this process's own. A process that was suspended for longer must ask the store
// before it serves a call on its hold: the credits may have been spent by others.

import { type Db, isUnavailable } from "../store/db.ts";
import type { OpenHold } from "./decide.ts";
import { heartbeat, STORE_WAIT_MS } from "./ledger.ts";

/** Shorter than the silence after which a process counts as dead. */
const LEASE_MS = 25_000;
const RETRY_MS = 1_000;

/** `unavailable`: the store did not answer in time. */
export type HoldState = "held" | "lost" | "unavailable";

export interface Lease {
  /** Changes when the lease was interrupted; 0 while it is expired. */
  readonly term: () => number;
  /** Writes a heartbeat; false if another process took the name. */
  readonly renew: () => Promise<boolean>;
  /** Whether the store still has the hold, under a renewed lease. */
  readonly confirmHold: (hold: Pick<OpenHold, "id" | "accountId">) => Promise<HoldState>;
}

export interface LeaseDeps {
  readonly db: Db;
  readonly process: string;
  readonly epoch: number;
  readonly now: () => number;
  /** How long the store is asked about a hold while it is unavailable. */
  readonly storeWaitMs?: number | undefined;
  /** For tests. */
  readonly monotonicNow?: () => number;
}

export function createLease(deps: LeaseDeps): Lease {
  const { db, process, epoch, now, storeWaitMs = STORE_WAIT_MS } = deps;
  const { monotonicNow = () => performance.now() } = deps;
  // The holds of SQLite's only process cannot be released by another one.
  const isShared = db.kind === "postgres";
  let currentTerm = 1;
  let endsAt = monotonicNow() + LEASE_MS;
  // The monotonic clock stops while a machine is suspended.
  let endsAtWallTime = now() + LEASE_MS;
  const isExpired = (): boolean => monotonicNow() >= endsAt || now() >= endsAtWallTime;
  let renewal: Promise<boolean> | undefined;
  const renew = async (): Promise<boolean> => {
    const startedAt = monotonicNow();
    const startedAtWallTime = now();
    if (!(await heartbeat(db, process, epoch, startedAtWallTime))) return false;
    // The heartbeat may have been committed only now.
    if (isExpired()) currentTerm += 1;
    endsAt = startedAt + LEASE_MS;
    endsAtWallTime = startedAtWallTime + LEASE_MS;
    return true;
  };
  const renewOnce = (): Promise<boolean> => {
    renewal ??= renew().finally(() => {
      renewal = undefined;
    });
    return renewal;
  };
  const findHold: (
    hold: Pick<OpenHold, "id" | "accountId">,
  ) => Promise<HoldState | undefined> = async ({ id, accountId }) => {
    if (!(await renewOnce())) return "lost";
    const row = await db.get(
      "select id from hold where id = ? and account_id = ? and process = ? and epoch = ?",
      [id, accountId, process, epoch],
    );
    // The lease may have expired while the store was asked.
    if (isExpired()) return undefined;
    return row === undefined ? "lost" : "held";
  };
  return {
    term: () => (isShared && isExpired() ? 0 : currentTerm),
    renew: renewOnce,
    confirmHold: async (hold) => {
      if (!isShared) return "held";
      const timedOut = Promise.withResolvers<"unavailable">();
      const timer = setTimeout(() => timedOut.resolve("unavailable"), storeWaitMs);
      try {
        for (;;) {
          const asked = findHold(hold).catch((error: unknown) => {
            if (!isUnavailable(error)) throw error;
            return undefined;
          });
          const state = await Promise.race([asked, timedOut.promise]);
          if (state !== undefined) return state;
          const pause = new Promise<undefined>((resolve) => setTimeout(resolve, RETRY_MS));
          if ((await Promise.race([pause, timedOut.promise])) !== undefined) return "unavailable";
        }
      } finally {
        clearTimeout(timer);
      }
    },
  };
}
