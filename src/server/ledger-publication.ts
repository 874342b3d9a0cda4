// Publishes the ledger's roots once a day is complete. It runs in a process of its own where there is one, because reading
// SQLite would hold the event loop.

import type { Log } from "../base/log.ts";
import { HOUR_MS } from "../base/time.ts";
import { findDueDay, publishDueDays, type PublishDeps } from "../ledger-proofs/publish-day.ts";
import { isFirstProcess } from "../ledger/running-processes.ts";
import type { RunCommand } from "./ledger-verification.ts";

interface PublicationDeps extends PublishDeps {
  readonly log: Log;
  readonly now: () => number;
  readonly processName: string;
  readonly runCommand: RunCommand | undefined;
}

/** Returns the job. */
export function createLedgerPublication(deps: PublicationDeps): () => Promise<void> {
  const { db, log, now, processName, runCommand } = deps;
  let retryAt = 0;
  let isRunning = false;
  const publish = async (at: number): Promise<void> => {
    // A first day without accounts has no record and stays due.
    retryAt = at + HOUR_MS;
    if (runCommand === undefined) await publishDueDays(deps, at);
    else await runCommand(["admin", "publish-ledger"]);
    if ((await findDueDay(db, at)) === undefined) log.info("published the roots of the ledger");
  };
  return async () => {
    const at = now();
    if (isRunning || Math.abs(retryAt - at) < HOUR_MS) return;
    if ((await findDueDay(db, at)) === undefined) return;
    if (!(await isFirstProcess(db, processName, at))) return;
    isRunning = true;
    // Not awaited: shutdown waits for running jobs, and this one may take a minute.
    void publish(at)
      .catch((cause: unknown) => {
        log.error("the roots of the ledger could not be published", { cause });
      })
      .finally(() => {
        isRunning = false;
      });
  };
}
