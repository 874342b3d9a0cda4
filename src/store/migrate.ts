// The schema of the store and its forward-only migrations. Version 1 is the file of tables; each later change is a migration. Each
// runs in one transaction, so a crash in the middle leaves the store as it was.

import { allowLongStatements, type Db, type Tx } from "./db.ts";
import schema from "./schema/schema.sql" with { type: "text" };

/** Statements end with `;` at the end of a line. */
export interface Migration {
  readonly name: string;
  readonly sqlite: string;
  readonly postgres: string;
}

const FIRST: Migration = {
  name: "0001-schema",
  sqlite: schema,
  postgres: schema.replaceAll(") without rowid;", ");"),
};
export const MIGRATIONS: readonly Migration[] = [FIRST];
const ATTEMPTS_MAX = 5;

export interface MigrateOptions {
  readonly migrations?: readonly Migration[];
  readonly onApplied?: (name: string, ms: number) => void;
}

/** Applies the missing migrations and returns their names. */
export async function migrate(
  db: Db,
  now: number,
  { migrations = MIGRATIONS, onApplied }: MigrateOptions = {},
): Promise<readonly string[]> {
  const names: string[] = [];
  for (const migration of await missingOf(db, migrations)) {
    const startedAt = performance.now();
    await createMigrationTable(db);
    const isApplied = await db
      .write((tx) => applyOnce(tx, migration, now))
      .catch((error: unknown) => {
        throw migration === FIRST && isAlreadyExists(error) ? notEmptyError(error) : error;
      });
    if (!isApplied) continue;
    names.push(migration.name);
    onApplied?.(migration.name, Math.round(performance.now() - startedAt));
  }
  return names;
}

function notEmptyError(cause: unknown): Error {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new Error(
    `the database has tables of another program (${message}): set DATABASE_URL to an empty database, or POSTERN_DATA_DIR to a new folder`,
    { cause },
  );
}

// The inserted row is the lock: of several processes that start at once, the others wait here until the first commits.
async function applyOnce(tx: Tx, migration: Migration, now: number): Promise<boolean> {
  await allowLongStatements(tx);
  if (!(await recordMigration(tx, migration.name, now))) return false;
  for (const statement of statementsOf(migration[tx.kind])) await tx.run(statement);
  return true;
}

async function recordMigration(tx: Tx, name: string, now: number): Promise<boolean> {
  const inserted = await tx.run(
    "insert into migration (name, applied_at) values (?, ?) on conflict (name) do nothing",
    [name, now],
  );
  return inserted === 1;
}

// PostgreSQL's `if not exists` fails when two processes create the same table at the same instant.
async function createMigrationTable(db: Db): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await db.write((tx) =>
        tx.run(
          "create table if not exists migration (name text primary key, applied_at bigint not null)",
        ),
      );
      return;
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX || !isAlreadyExists(error)) throw error;
    }
  }
}

/**
 * Names of the migrations that are not applied yet. Throws if the store is unreachable, or was made by a version whose
 * schema this one does not know.
 */
export async function missingMigrations(
  db: Db,
  migrations = MIGRATIONS,
): Promise<readonly string[]> {
  return (await missingOf(db, migrations)).map(({ name }) => name);
}

async function missingOf(db: Db, migrations: readonly Migration[]): Promise<readonly Migration[]> {
  const applied = await appliedMigrations(db);
  assertKnownMigrations(applied, migrations);
  return migrations.filter(({ name }) => !applied.has(name));
}

async function appliedMigrations(db: Db): Promise<ReadonlySet<string>> {
  try {
    const rows = await db.all("select name from migration");
    return new Set(rows.map((row) => String(row["name"])));
  } catch (error) {
    if (isMissingTable(error)) return new Set();
    throw error;
  }
}

/** Whether no version has created its tables yet. */
export async function isNewStore(db: Db): Promise<boolean> {
  return (await appliedMigrations(db)).size === 0;
}

/** Why this version must not use the store, such as after another one migrated it meanwhile. */
export async function findSchemaProblem(db: Db): Promise<string | undefined> {
  return problemOf(await appliedMigrations(db), MIGRATIONS);
}

/** An entry among the migrations of a store whose move from another store is not finished. */
export const UNFINISHED_MOVE = "unfinished-move";
/** The entry of a store that was moved to another one. */
const MOVED = "moved";

/** Marks a store that was copied to another one, so that no process starts on it: its balances would be spent twice. */
export async function markAsMoved(db: Db, now: number): Promise<void> {
  await db.write((tx) => recordMigration(tx, MOVED, now));
}

export async function clearMovedMark(db: Db): Promise<void> {
  await db.write((tx) => tx.run("delete from migration where name = ?", [MOVED]));
}

function assertKnownMigrations(
  applied: ReadonlySet<string>,
  migrations: readonly Migration[],
): void {
  const problem = problemOf(applied, migrations);
  if (problem !== undefined) throw new Error(problem);
}

// A newer version may have changed the meaning of columns, so an older one must not read or write them.
function problemOf(
  applied: ReadonlySet<string>,
  migrations: readonly Migration[],
): string | undefined {
  if (applied.has(UNFINISHED_MOVE))
    return "the store is the target of an unfinished move: run the same postern move again to finish it";
  if (applied.has(MOVED))
    return "the store was moved to another one with postern move, and its balances would be spent twice: start the gateway on the target, or use this store again with postern serve --force";
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = [...applied].toSorted().findLast((name) => !known.has(name));
  if (unknown === undefined) return undefined;
  return applied.has(FIRST.name)
    ? `the store was migrated by a newer Postern (${unknown}): run that version or a newer one`
    : `the store was made by a development version of Postern (${unknown}), and there is no migration from it: set POSTERN_DATA_DIR to a new folder or DATABASE_URL to a new database, or run the version that made it`;
}

function statementsOf(sql: string): readonly string[] {
  return sql
    .replaceAll(/\s*--.*$/gm, "")
    .split(/;\s*(?:\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
}

// By PostgreSQL's error code, because its messages are localized, and by SQLite's message.
function isMissingTable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    ("errno" in error && error.errno === "42P01") || /no such table: migration/.test(error.message)
  );
}

// A duplicate table, or in PostgreSQL a duplicate entry of its own catalog.
function isAlreadyExists(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = "errno" in error ? error.errno : undefined;
  return code === "42P07" || code === "23505" || /^table \w+ already exists$/.test(error.message);
}
