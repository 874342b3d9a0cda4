// What `doctor` says about the store: reachable, its schema of this version, writable, with room to grow.

import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import path from "node:path";
import { countOpenX402Payments } from "../../billing/x402/x402-payment-rows.ts";
import type { Config } from "../../config/config.ts";
import { openStore } from "../../store/open.ts";
import { heartbeat } from "../../ledger/ledger.ts";
import type { Db } from "../../store/db.ts";
import { missingMigrations } from "../../store/migrate.ts";
import type { Finding } from "./finding.ts";
import { errorMessage } from "../with-store.ts";

const FREE_SPACE_MIN_BYTES = 1_073_741_824;
/** No process bears this name, so that a heartbeat in its name takes the writer's whole way and changes nothing. */
const PROBE_PROCESS_NAME = "doctor";

export async function checkStore(config: Config, now: number): Promise<readonly Finding[]> {
  const isSqlite = config.store.databaseUrl === undefined;
  const { dataDir } = config.store;
  if (isSqlite && !existsSync(path.join(dataDir, "postern.db"))) return [checkNewFolder(dataDir)];
  let db: Db;
  try {
    db = await openStore(config.store, false);
  } catch (error) {
    return [{ status: "fail", check: "store", message: errorMessage(error) }];
  }
  const where = isSqlite ? `SQLite in ${dataDir}` : "PostgreSQL";
  try {
    const findings = await checkSchema(db, where, now);
    const isSound = findings.every(({ status }) => status === "ok");
    return [
      ...findings,
      ...(isSound && config.x402 === undefined ? await checkOpenX402Payments(db) : []),
      ...(isSqlite ? checkFreeSpace(dataDir) : []),
    ];
  } catch (error) {
    return [
      {
        status: "fail",
        check: "store",
        message: `${where} cannot be used: ${errorMessage(error)}`,
        hint: "The gateway needs to read and to write there, with tables of its own version.",
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
      { status: "ok", check: "store", message: `${where} answers` },
      {
        status: "warn",
        check: "store",
        message: `its schema is older than this version: ${missing.join(", ")} not applied`,
        hint: "Run postern migrate; postern serve does the same when it starts.",
      },
    ];
  await heartbeat(db, PROBE_PROCESS_NAME, 0, now);
  return [
    {
      status: "ok",
      check: "store",
      message: `${where} answers and takes writes; its schema is this version's`,
    },
  ];
}

// Where x402 is off, nobody asks the facilitator and the chain what became of a payment.
async function checkOpenX402Payments(db: Db): Promise<readonly Finding[]> {
  const open = await countOpenX402Payments(db);
  if (open === 0) return [];
  return [
    {
      status: "warn",
      check: "x402",
      message: `x402 is off while payments by wallets are on their way (${open}): nobody asks what became of them`,
      hint: "Set X402_PAY_TO and its like as they were until they are ended; postern admin payments lists what stays unclear.",
    },
  ];
}

function checkNewFolder(dataDir: string): Finding {
  const parent = nearestExistingFolder(path.resolve(dataDir));
  try {
    accessSync(parent, constants.W_OK);
    return {
      status: "note",
      check: "store",
      message: `SQLite in ${dataDir}, which is made on the first start`,
    };
  } catch {
    return {
      status: "fail",
      check: "store",
      message: `SQLite in ${dataDir} cannot be made: ${parent} is not writable`,
      hint: "Set POSTERN_DATA_DIR to a folder that Postern may write to.",
    };
  }
}

function nearestExistingFolder(folder: string): string {
  return existsSync(folder) || folder === path.dirname(folder)
    ? folder
    : nearestExistingFolder(path.dirname(folder));
}

function checkFreeSpace(dataDir: string): readonly Finding[] {
  const { bavail, bsize } = statfsSync(dataDir);
  const free = bavail * bsize;
  if (free >= FREE_SPACE_MIN_BYTES) return [];
  return [
    {
      status: "warn",
      check: "store",
      message: `only ${Math.floor(free / 1_048_576)} MiB are free beside it`,
      hint: "Make room: when the disk is full, the gateway refuses every call.",
    },
  ];
}
