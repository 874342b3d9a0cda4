// A gateway process as the world sees it: it may die before or after a commit, or lose the answer to one.

import {
  createLedger,
  type Ledger,
  type LedgerParts,
  startEpoch,
} from "../../src/ledger/ledger.ts";
import type { HoldingDb } from "../../src/ledger/young-holds.ts";
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

export async function newProcess(db: Db | HoldingDb, name: string, now: number): Promise<Process> {
  const epoch = await startEpoch(db, name, now);
  const died = Promise.withResolvers<void>();
  const weather = (): Weather => process.weather;
  const write: Db["write"] = (work) => underWeather((one) => db.write(one), work, weather(), died);
  const holding: LedgerParts<UsageRecord>["holding"] =
    "writeBatch" in db
      ? {
          writeBatch: (work) =>
            underWeather((one: typeof work) => db.writeBatch(one), work, weather(), died),
          holdNow: (...given) => (weather() === "fine" ? db.holdNow(...given) : undefined),
        }
      : undefined;
  const ledger = createLedger<UsageRecord>({
    db: { ...db, write },
    holding,
    process: name,
    epoch,
    writeRecords: writeUsage,
  });
  const process: Process = { name, epoch, weather: "fine", died, ledger };
  return process;
}

async function underWeather<Given extends readonly unknown[], T>(
  write: (work: (...given: Given) => Promise<T>) => Promise<T>,
  work: (...given: Given) => Promise<T>,
  weather: Weather,
  died: PromiseWithResolvers<void>,
): Promise<T> {
  switch (weather) {
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
