// A gateway process as the world sees it: it may die before or after a commit, or lose the answer to one.

import { createLedger, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import type { Db } from "../../src/store/db.ts";
import { type UsageRecord, writeUsage } from "../../src/usage/usage.ts";

/** How the store treats one process in this round. */
export type Weather = "fine" | "reply lost" | "crash before commit" | "crash after commit";

export interface Process {
  readonly name: string;
  epoch: number;
  weather: Weather;
  /** Resolves when what a crashing process did last is done, or undone. */
  readonly died: PromiseWithResolvers<void>;
  ledger: Ledger<UsageRecord>;
}

export async function newProcess(db: Db, name: string, now: number): Promise<Process> {
  const epoch = await startEpoch(db, name, now);
  const died = Promise.withResolvers<void>();
  const stormy = underWeather(db, died, () => process.weather);
  const ledger = createLedger<UsageRecord>({
    db: stormy,
    process: name,
    epoch,
    writeRecords: writeUsage,
  });
  const process: Process = { name, epoch, weather: "fine", died, ledger };
  return process;
}

function underWeather(db: Db, died: PromiseWithResolvers<void>, weather: () => Weather): Db {
  const write: Db["write"] = async (work) => {
    switch (weather()) {
      case "fine":
        return db.write(work);
      case "reply lost":
        await db.write(work);
        return db.write(work);
      case "crash after commit":
        await db.write(work);
        died.resolve();
        return new Promise(() => {});
      case "crash before commit":
        await db
          .write(async (tx) => {
            await work(tx);
            throw new Error("killed");
          })
          .catch(() => {});
        died.resolve();
        return new Promise(() => {});
    }
  };
  return { ...db, write };
}
