// A process that can crash before or after a commit, or lose the reply of one.

import type { BufferedDb } from "../../../src/ledger/commit/hold-buffer.ts";
import {
  createLedger,
  type Ledger,
  type LedgerDeps,
  startEpoch,
} from "../../../src/ledger/ledger.ts";
import type { Db } from "../../../src/store/db.ts";
import { insertUsage } from "../../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";

/** The fault injected into one process's commits in a round. */
type CommitFault = "none" | "reply lost" | "crash before commit" | "crash after commit";

export interface FaultyProcess {
  readonly name: string;
  epoch: number;
  fault: CommitFault;
  /** Resolves when the last transaction of a crashing process has committed or rolled back. */
  readonly died: PromiseWithResolvers<void>;
  ledger: Ledger<UsageRecord>;
}

export async function startFaultyProcess(
  db: Db | BufferedDb,
  name: string,
  now: number,
): Promise<FaultyProcess> {
  const epoch = await startEpoch(db, name, now);
  const died = Promise.withResolvers<void>();
  const currentFault = (): CommitFault => process.fault;
  const write: Db["write"] = (work) =>
    writeWithFault((one) => db.write(one), work, currentFault(), died);
  const holdBuffer: LedgerDeps<UsageRecord>["holdBuffer"] =
    "writeBatch" in db
      ? {
          writeBatch: (work) =>
            writeWithFault((one: typeof work) => db.writeBatch(one), work, currentFault(), died),
          tryHoldSync: (...args) =>
            currentFault() === "none" ? db.tryHoldSync(...args) : undefined,
        }
      : undefined;
  const ledger = createLedger<UsageRecord>({
    db: { ...db, write },
    holdBuffer,
    process: name,
    epoch,
    writeRecords: insertUsage,
  });
  const process: FaultyProcess = { name, epoch, fault: "none", died, ledger };
  return process;
}

async function writeWithFault<Args extends readonly unknown[], T>(
  write: (work: (...args: Args) => Promise<T>) => Promise<T>,
  work: (...args: Args) => Promise<T>,
  fault: CommitFault,
  died: PromiseWithResolvers<void>,
): Promise<T> {
  switch (fault) {
    case "none":
      return write(work);
    case "reply lost":
      await write(work);
      return write(work);
    case "crash after commit":
      await write(work);
      died.resolve();
      return new Promise(() => {});
    case "crash before commit":
      await write(async (...args) => {
        await work(...args);
        throw new Error("killed");
      }).catch(() => {});
      died.resolve();
      return new Promise(() => {});
  }
}
