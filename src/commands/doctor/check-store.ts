// `doctor` on the store: reachable, its schema of this version, writable, with free disk space.

import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import path from "node:path";
import type { MasterSecret } from "../../base/crypto/encryption.ts";
import { secret } from "../../base/crypto/secret.ts";
import {
  type AgentPaymentMethod,
  countOpenAgentPayments,
} from "../../billing/payments/agent-payment-rows.ts";
import { findRefusedTopUps } from "../../billing/top-up/top-up-outcome.ts";
import type { Config } from "../../config/config.ts";
import { loadMasterSecret } from "../../config/master-secret.ts";
import { probeHoldWrite } from "../../ledger/write-probe.ts";
import { findSecretProblem } from "../../server/secret-check.ts";
import type { Db } from "../../store/db.ts";
import { findDurabilityRisks } from "../../store/durability.ts";
import { missingMigrations } from "../../store/migrate.ts";
import { openStore } from "../../store/open.ts";
import { errorMessage } from "../with-store.ts";
import type { Finding } from "./finding.ts";

const FREE_SPACE_MIN_BYTES = 1_073_741_824;
/** A commit may not fit any more. SQLite reports a full disk only at a commit, and the check writes nothing. */
const FULL_DISK_BYTES = 1_048_576;

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
    const findings = await checkSchema({ db, where, config }, now);
    const isSound = findings.every(({ status }) => status === "ok");
    return [
      ...findings,
      ...(isSound ? await checkOpenAgentPayments(db, config) : []),
      ...(isSound ? await checkTopUps(db, now) : []),
      ...(isSqlite ? checkFreeSpace(dataDir) : await checkDurability(db)),
    ];
  } catch (error) {
    return [
      {
        status: "fail",
        check: "store",
        message: `${where} cannot be used: ${errorMessage(error)}`,
        hint: "The gateway needs read and write access, with the schema of its own version.",
      },
    ];
  } finally {
    await db.close();
  }
}

async function checkSchema(
  { db, where, config }: { readonly db: Db; readonly where: string; readonly config: Config },
  now: number,
): Promise<readonly Finding[]> {
  await db.get("select 1 as one");
  const missing = await missingMigrations(db);
  if (missing.length > 0)
    return [
      { status: "ok", check: "store", message: `${where} responds` },
      {
        status: "warn",
        check: "store",
        message: `migrations not applied: ${missing.join(", ")}`,
        hint: "Run postern migrate; postern serve does the same at start.",
      },
    ];
  await probeHoldWrite(db, now);
  const secretProblem = await findSecretProblem(db, masterSecretOf(config));
  return [
    ...(secretProblem === undefined
      ? []
      : [{ status: "fail", check: "secret", message: secretProblem } as const]),
    {
      status: "ok",
      check: "store",
      message: `${where} is readable and writable, and its schema is current`,
    },
  ];
}

/** An empty secret, which no store was created with, where the next start would generate one. */
function masterSecretOf(config: Config): MasterSecret {
  const { dataDir } = config.store;
  return config.secret !== undefined || existsSync(path.join(dataDir, "secret"))
    ? loadMasterSecret(config, dataDir)
    : secret("");
}

async function checkDurability(db: Db): Promise<readonly Finding[]> {
  const risks = await findDurabilityRisks(db);
  return risks.map(({ message, hint }) => ({ status: "warn", check: "durability", message, hint }));
}

// Open payments of a method that is off are not reconciled.
async function checkOpenAgentPayments(db: Db, config: Config): Promise<readonly Finding[]> {
  const { x402, tempo, billing } = config;
  const methods: readonly (readonly [AgentPaymentMethod, settings: string, isOn: boolean])[] = [
    ["x402", "the X402 settings", x402 !== undefined],
    ["stripe", "STRIPE_NETWORK_ID", billing.stripe?.networkId !== undefined],
    ["tempo", "the TEMPO settings", tempo !== undefined],
  ];
  const findings: Finding[] = [];
  for (const [method, settings, isOn] of methods) {
    const open = isOn ? 0 : await countOpenAgentPayments(db, method);
    if (open === 0) continue;
    const message = `${method} is off while ${open} ${method} payments are open; they are not reconciled`;
    const hint = `Restore ${settings} until the payments are closed; postern admin payments lists those that stay unclear.`;
    findings.push({ status: "warn", check: method, message, hint });
  }
  return findings;
}

async function checkTopUps(db: Db, now: number): Promise<readonly Finding[]> {
  const message = await findRefusedTopUps(db, now);
  return message === undefined ? [] : [{ status: "fail", check: "payments", message }];
}

function checkNewFolder(dataDir: string): Finding {
  const parent = nearestExistingFolder(path.resolve(dataDir));
  try {
    accessSync(parent, constants.W_OK);
    return {
      status: "note",
      check: "store",
      message: `SQLite in ${dataDir}, created on the first start`,
    };
  } catch {
    return {
      status: "fail",
      check: "store",
      message: `SQLite in ${dataDir} cannot be created: ${parent} is not writable`,
      hint: "Set POSTERN_DATA_DIR to a writable folder.",
    };
  }
}

function nearestExistingFolder(folder: string): string {
  return existsSync(folder) || folder === path.dirname(folder)
    ? folder
    : nearestExistingFolder(path.dirname(folder));
}

/** Exported for tests, which cannot fill a disk. */
export function checkFreeSpace(dataDir: string, free = freeBytes(dataDir)): readonly Finding[] {
  if (free >= FREE_SPACE_MIN_BYTES) return [];
  return [
    {
      status: free < FULL_DISK_BYTES ? "fail" : "warn",
      check: "store",
      message: `only ${Math.floor(free / 1_048_576)} MiB are free on its disk`,
      hint: "Free disk space: when the disk is full, the gateway refuses every call.",
    },
  ];
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}
