// A gateway process as the world sees it: it may die before or after a commit, or lose the answer to one.

import {
  createLedger,
  type Ledger,
  type LedgerDeps,
  startEpoch,
} from "../../../src/ledger/ledger.ts";
import type { BufferedDb } from "../../../src/ledger/commit/hold-buffer.ts";
import type { Db } from "../../../src/store/db.ts";
import { type UsageRecord, insertUsage } from "../../../src/usage/usage.ts";

/** How the store treats one process in this round. */
export type CommitFault = "fine" | "reply lost" | "crash before commit" | "crash after commit";

export interface FaultyProcess {
  readonly name: string;
  epoch: number;
  fault: CommitFault;
  /** Resolves when what a crashing process did last is done, or undone. */
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
          tryHoldSync: (...given) =>
            currentFault() === "fine" ? db.tryHoldSync(...given) : undefined,
        }
      : undefined;
  const ledger = createLedger<UsageRecord>({
    db: { ...db, write },
    holdBuffer,
    process: name,
    epoch,
    writeRecords: insertUsage,
  });
  const process: FaultyProcess = { name, epoch, fault: "fine", died, ledger };
  return process;
}

async function writeWithFault<Given extends readonly unknown[], T>(
  write: (work: (...given: Given) => Promise<T>) => Promise<T>,
  work: (...given: Given) => Promise<T>,
  fault: CommitFault,
  died: PromiseWithResolvers<void>,
): Promise<T> {
  switch (fault) {
    case "fine":
      return write(work);
    case "reply lost":
      await write(work);
      return write(work);
    case "crash after commit":
      await write(work);
      died.resolve();
      return new Promise(() => {});
    case "crash before commit":
      await write(async (...given) => {
        await work(...given);
        throw new Error("killed");
      }).catch(() => {});
      died.resolve();
      return new Promise(() => {});
  }
}
