// Forward-only migrations. Every statement is idempotent and runs in its own transaction, so a crash in the middle and
// several processes that start at once end in the same schema.

import { allowLongStatements, type Db, isUnavailable, type Tx } from "./db.ts";
import core from "./migrations/0001-core.sql" with { type: "text" };
import people from "./migrations/0002-people.sql" with { type: "text" };
import providerKeys from "./migrations/0003-provider-keys.sql" with { type: "text" };
import events from "./migrations/0004-events.sql" with { type: "text" };
import responses from "./migrations/0005-responses.sql" with { type: "text" };
import consoleTables from "./migrations/0006-console.sql" with { type: "text" };
import billing from "./migrations/0007-billing.sql" with { type: "text" };
import topUp from "./migrations/0008-top-up.sql" with { type: "text" };
import budgets from "./migrations/0009-budgets.sql" with { type: "text" };
import operator from "./migrations/0010-operator.sql" with { type: "text" };
import x402 from "./migrations/0011-x402.sql" with { type: "text" };
import writeOffs from "./migrations/0012-write-offs.sql" with { type: "text" };
import keyScopes from "./migrations/0013-key-scopes.sql" with { type: "text" };
import usageRollup from "./migrations/0014-usage-rollup.sql" with { type: "text" };
import keyPolicy from "./migrations/0015-key-policy.sql" with { type: "text" };
import responseStorage from "./migrations/0016-response-storage.sql" with { type: "text" };
import usageArchive from "./migrations/0017-usage-archive.sql" with { type: "text" };
import secretRotation from "./migrations/0018-secret-rotation.sql" with { type: "text" };
import workspaceNames from "./migrations/0019-workspace-names.sql" with { type: "text" };
import responseInProgress from "./migrations/0020-response-in-progress.sql" with { type: "text" };
import solvedChallenges from "./migrations/0021-solved-challenges.sql" with { type: "text" };
import emails from "./migrations/0022-emails.sql" with { type: "text" };
import invitationRoles from "./migrations/0023-invitation-roles.sql" with { type: "text" };
import accountClosing from "./migrations/0024-account-closing.sql" with { type: "text" };
import openCircuits from "./migrations/0025-open-circuits.sql" with { type: "text" };
import agentPaymentMethod from "./migrations/0026-agent-payment-method.sql" with { type: "text" };
import providerKeyUsers from "./migrations/0027-provider-key-users.sql" with { type: "text" };
import providerHours from "./migrations/0028-provider-hours.sql" with { type: "text" };
import rowOrderPostgres from "./migrations/0029-row-order-postgres.sql" with { type: "text" };
import rowOrderSqlite from "./migrations/0029-row-order-sqlite.sql" with { type: "text" };
import verifiedAgents from "./migrations/0030-verified-agents.sql" with { type: "text" };
import personTimeZone from "./migrations/0031-person-time-zone.sql" with { type: "text" };
import ledgerCheckpoint from "./migrations/0032-ledger-checkpoint.sql" with { type: "text" };
import chargeHours from "./migrations/0033-charge-hours.sql" with { type: "text" };
import binaryResponses from "./migrations/0034-binary-responses.sql" with { type: "text" };
import callCharges from "./migrations/0035-call-charges.sql" with { type: "text" };
import largeRowsSqlite from "./migrations/0036-large-rows-sqlite.sql" with { type: "text" };
import usageSegmentsSqlite from "./migrations/0037-usage-segments-sqlite.sql" with { type: "text" };
import idempotencyOwner from "./migrations/0038-idempotency-owner.sql" with { type: "text" };

/** Rebuilds tables: the statements of a store run in one transaction, because half of them cannot be repeated. */
interface Rebuild {
  readonly sqlite: string;
  readonly postgres: string;
}

const MIGRATIONS: readonly (readonly [name: string, sql: string | Rebuild])[] = [
  ["0001-core", core],
  ["0002-people", people],
  ["0003-provider-keys", providerKeys],
  ["0004-events", events],
  ["0005-responses", responses],
  ["0006-console", consoleTables],
  ["0007-billing", billing],
  ["0008-top-up", topUp],
  ["0009-budgets", budgets],
  ["0010-operator", operator],
  ["0011-x402", x402],
  ["0012-write-offs", writeOffs],
  ["0013-key-scopes", keyScopes],
  ["0014-usage-rollup", usageRollup],
  ["0015-key-policy", keyPolicy],
  ["0016-response-storage", responseStorage],
  ["0017-usage-archive", usageArchive],
  ["0018-secret-rotation", secretRotation],
  ["0019-workspace-names", workspaceNames],
  ["0020-response-in-progress", responseInProgress],
  ["0021-solved-challenges", solvedChallenges],
  ["0022-emails", emails],
  ["0023-invitation-roles", invitationRoles],
  ["0024-account-closing", accountClosing],
  ["0025-open-circuits", openCircuits],
  ["0026-agent-payment-method", agentPaymentMethod],
  ["0027-provider-key-users", providerKeyUsers],
  ["0028-provider-hours", providerHours],
  ["0029-row-order", { sqlite: rowOrderSqlite, postgres: rowOrderPostgres }],
  ["0030-verified-agents", verifiedAgents],
  ["0031-person-time-zone", personTimeZone],
  ["0032-ledger-checkpoint", ledgerCheckpoint],
  ["0033-charge-hours", chargeHours],
  ["0034-binary-responses", binaryResponses],
  ["0035-call-charges", callCharges],
  ["0036-large-rows", { sqlite: largeRowsSqlite, postgres: "" }],
  ["0037-usage-segments", { sqlite: usageSegmentsSqlite, postgres: "" }],
  ["0038-idempotency-owner", idempotencyOwner],
];
/** Names that older versions recorded, and their names today. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["0001-house", "0001-core"],
  ["0012-loose-ends", "0012-write-offs"],
]);
const ATTEMPTS_MAX = 20;
/** Low, because the supervisor of the process retries anyway. */
const UNAVAILABLE_ATTEMPTS_MAX = 3;
const RETRY_MS = 50;

/** Applies the missing migrations and returns their names. */
export async function migrate(db: Db, now: number): Promise<readonly string[]> {
  await runWithRetry(
    db,
    "create table if not exists migration (name text primary key, applied_at bigint not null)",
  );
  const applied = await appliedMigrations(db);
  assertKnownMigrations(applied);
  const missing = MIGRATIONS.filter(([name]) => !applied.has(name));
  for (const [name, sql] of missing) {
    if (typeof sql !== "string") {
      await db.write((tx) => rebuildTables(tx, name, { sql: sql[db.kind], now }));
      continue;
    }
    for (const statement of statementsOf(sql))
      await runWithRetry(db, toDialect(statement, db.kind));
    await db.write((tx) => recordMigration(tx, name, now));
  }
  return missing.map(([name]) => name);
}

async function recordMigration(tx: Tx, name: string, now: number): Promise<void> {
  await tx.run(
    "insert into migration (name, applied_at) values (?, ?) on conflict (name) do nothing",
    [name, now],
  );
}

async function rebuildTables(
  tx: Tx,
  name: string,
  { sql, now }: { readonly sql: string; readonly now: number },
): Promise<void> {
  await allowLongStatements(tx);
  // Another process may have applied it meanwhile.
  const applied = await tx.get("select name from migration where name = ?", [name]);
  if (applied === undefined) for (const statement of statementsOf(sql)) await tx.run(statement);
  await recordMigration(tx, name, now);
}

/**
 * Names of the migrations that are not applied yet. Throws if the store is unreachable or was migrated by a newer
 * version.
 */
export async function missingMigrations(db: Db): Promise<readonly string[]> {
  const applied = await appliedMigrations(db).catch((error: unknown) => {
    if (isMissingTable(error)) return new Set<string>();
    throw error;
  });
  assertKnownMigrations(applied);
  return MIGRATIONS.map(([name]) => name).filter((name) => !applied.has(name));
}

async function appliedMigrations(db: Db): Promise<ReadonlySet<string>> {
  const rows = await db.all("select name from migration");
  return new Set(rows.map((row) => String(row["name"])).map((name) => RENAMED.get(name) ?? name));
}

/** An entry among the migrations of a store whose move from another store is not finished. */
export const UNFINISHED_MOVE = "unfinished-move";

// A newer version may have changed the meaning of columns, so an older one must not read or write them.
function assertKnownMigrations(applied: ReadonlySet<string>): void {
  if (applied.has(UNFINISHED_MOVE))
    throw new Error(
      "the store is the target of an unfinished move: run the same postern move again to finish it",
    );
  const known = new Set(MIGRATIONS.map(([name]) => name));
  const unknown = [...applied].find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new Error(
      `the store was migrated by a newer Postern (${unknown}): run that version or a newer one`,
    );
}

// `without rowid` stores SQLite rows in the tree of the primary key: one page to write per row instead of two. Tables to
// which many accounts append are an exception (0029). So are tables with large values (0036): to compare a key with that of a
// row, SQLite reads the whole row from this tree.
function toDialect(statement: string, kind: Db["kind"]): string {
  return kind === "sqlite" && statement.startsWith("create table")
    ? `${statement} without rowid`
    : statement;
}

function statementsOf(sql: string): readonly string[] {
  return sql
    .split(/;\s*(?:\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
}

// PostgreSQL's `if not exists` may still fail when two processes create the same thing at the same instant.
async function runWithRetry(db: Db, statement: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await db.write(async (tx) => {
        await allowLongStatements(tx);
        await tx.run(statement);
      });
      return;
    } catch (error) {
      if (isAlreadyExists(error)) return;
      const attemptsMax = isUnavailable(error) ? UNAVAILABLE_ATTEMPTS_MAX : ATTEMPTS_MAX;
      if (attempt >= attemptsMax || db.kind === "sqlite") throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt));
    }
  }
}

// By PostgreSQL's error code, because its messages are localized, and by SQLite's message.
function isMissingTable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    ("errno" in error && error.errno === "42P01") || /no such table: migration/.test(error.message)
  );
}

function isAlreadyExists(error: unknown): boolean {
  return error instanceof Error && /duplicate column name|already exists/i.test(error.message);
}
