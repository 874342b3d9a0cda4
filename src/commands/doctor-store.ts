// What `doctor` says about the store: reachable, its schema of this version, writable, with room to grow.

import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import path from "node:path";
import { countOpenX402 } from "../billing/x402-rows.ts";
import type { Config } from "../config.ts";
import { openStore } from "../store/open.ts";
import { heartbeat } from "../ledger/ledger.ts";
import type { Db } from "../store/db.ts";
import { missingMigrations } from "../store/migrate.ts";
import type { Finding } from "./doctor.ts";
import { describeFailure } from "./with-store.ts";

const ROOM_LEAST_BYTES = 1_073_741_824;
/** No process bears this name, so that a heartbeat in its name takes the writer's whole way and changes nothing. */
const NOBODY = "doctor";

export async function checkStore(config: Config, now: number): Promise<readonly Finding[]> {
  const isSqlite = config.store.databaseUrl === undefined;
  const { dataDir } = config.store;
  if (isSqlite && !existsSync(path.join(dataDir, "postern.db"))) return [newFolder(dataDir)];
  let db: Db;
  try {
    db = await openStore(config.store, false);
  } catch (error) {
    return [{ verdict: "fail", about: "store", says: describeFailure(error) }];
  }
  const where = isSqlite ? `SQLite in ${dataDir}` : "PostgreSQL";
  try {
    const findings = await checkSchema(db, where, now);
    const isSound = findings.every(({ verdict }) => verdict === "ok");
    return [
      ...findings,
      ...(isSound && config.x402 === undefined ? await leftByX402(db) : []),
      ...(isSqlite ? roomIn(dataDir) : []),
    ];
  } catch (error) {
    return [
      {
        verdict: "fail",
        about: "store",
        says: `${where} cannot be used: ${describeFailure(error)}`,
        mend: "The gateway needs to read and to write there, with tables of its own version.",
      },
    ];
  } finally {
    await db.close();
  }
}

async function checkSchema(db: Db, where: string, now: number): Promise<readonly Finding[]> {
  await db.get("select 1 as one");
  const missing = await missingMigrations(db);
  if (missing.length > 0)
    return [
      { verdict: "ok", about: "store", says: `${where} answers` },
      {
        verdict: "warn",
        about: "store",
        says: `its schema is older than this version: ${missing.join(", ")} not applied`,
        mend: "Run postern migrate; postern serve does the same when it starts.",
      },
    ];
  await heartbeat(db, NOBODY, 0, now);
  return [
    {
      verdict: "ok",
      about: "store",
      says: `${where} answers and takes writes; its schema is this version's`,
    },
  ];
}

// Where x402 is off, nobody asks the facilitator and the chain what became of a payment.
async function leftByX402(db: Db): Promise<readonly Finding[]> {
  const open = await countOpenX402(db);
  if (open === 0) return [];
  return [
    {
      verdict: "warn",
      about: "x402",
      says: `x402 is off while payments by wallets are on their way (${open}): nobody asks what became of them`,
      mend: "Set X402_PAY_TO and its like as they were until they are ended; postern admin payments lists what stays unclear.",
    },
  ];
}

function newFolder(dataDir: string): Finding {
  const parent = nearestFolder(path.resolve(dataDir));
  try {
    accessSync(parent, constants.W_OK);
    return {
      verdict: "note",
      about: "store",
      says: `SQLite in ${dataDir}, which is made on the first start`,
    };
  } catch {
    return {
      verdict: "fail",
      about: "store",
      says: `SQLite in ${dataDir} cannot be made: ${parent} is not writable`,
      mend: "Set POSTERN_DATA_DIR to a folder that Postern may write to.",
    };
  }
}

function nearestFolder(folder: string): string {
  return existsSync(folder) || folder === path.dirname(folder)
    ? folder
    : nearestFolder(path.dirname(folder));
}

function roomIn(dataDir: string): readonly Finding[] {
  const { bavail, bsize } = statfsSync(dataDir);
  const free = bavail * bsize;
  if (free >= ROOM_LEAST_BYTES) return [];
  return [
    {
      verdict: "warn",
      about: "store",
      says: `only ${Math.floor(free / 1_048_576)} MiB are free beside it`,
      mend: "Make room: when the disk is full, the gateway refuses every call.",
    },
  ];
}
