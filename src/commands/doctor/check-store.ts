// `doctor` on the store: reachable, its schema of this version, writable, with free disk space.

import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
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

const STORE_EFFECT = "postern serve does not start, or answers every request with 503.";
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
    return [{ status: "fail", check: "store", message: errorMessage(error), effect: STORE_EFFECT }];
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
        effect: STORE_EFFECT,
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
        effect: "postern admin refuses to run until they are applied.",
        hint: "Run postern migrate; postern serve does the same at start.",
      },
    ];
  await probeHoldWrite(db, now);
  const secretProblem = await findSecretProblem(db, masterSecretOf(config));
  return [
    ...(secretProblem === undefined
      ? []
      : [
          {
            status: "fail",
            check: "secret",
            message: secretProblem,
            effect:
              "postern serve does not start: with another secret every API key would be invalid.",
          } as const,
        ]),
    ...(await checkPrivileges(db)),
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

/** Serving needs rights on the tables, and an upgrade the right to change the schema. */
async function checkPrivileges(db: Db): Promise<readonly Finding[]> {
  if (db.kind === "sqlite") return [];
  const row = await db.get(
    `select current_user as name, current_schema() as schema,
       has_schema_privilege(current_user, current_schema(), 'CREATE') as creates,
       (select tableowner = current_user or pg_has_role(current_user, tableowner, 'USAGE') from pg_tables
        where schemaname = current_schema() and tablename = 'wallet') as owns`,
  );
  if (row?.["creates"] === true && row["owns"] === true) return [];
  const { name, schema } = { name: String(row?.["name"]), schema: String(row?.["schema"]) };
  return [
    {
      status: "warn",
      check: "store",
      message: `the role ${name} cannot change the schema ${schema}`,
      effect: "This version serves; the next upgrade with a migration does not start.",
      hint: `Run postern migrate with the owner of the tables, or: grant create on schema ${schema} to ${name}; and make it the owner of the tables.`,
    },
  ];
}

async function checkDurability(db: Db): Promise<readonly Finding[]> {
  const risks = await findDurabilityRisks(db);
  const effect = "A crash or a failover can lose charges of calls that were served.";
  return risks.map(({ message, hint }) => ({
    status: "warn",
    check: "durability",
    message,
    effect,
    hint,
  }));
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
    const effect = "Agents that paid may not get their credits.";
    findings.push({ status: "warn", check: method, message, effect, hint });
  }
  return findings;
}

async function checkTopUps(db: Db, now: number): Promise<readonly Finding[]> {
  const message = await findRefusedTopUps(db, now);
  const effect = "Accounts with auto top-up run out of credits and get 402.";
  return message === undefined ? [] : [{ status: "fail", check: "payments", message, effect }];
}

function checkNewFolder(dataDir: string): Finding {
  const parent = nearestExistingFolder(path.resolve(dataDir));
  try {
    if (!statSync(parent).isDirectory()) throw new Error("not a folder");
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
      effect: STORE_EFFECT,
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
      effect: "When the disk is full, the gateway refuses every call.",
      hint: "Free disk space.",
    },
  ];
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}
