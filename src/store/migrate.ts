// The schema of the store and its forward-only migrations. Version 1 is one file of tables per store; each later change is a
// migration. Each runs in one transaction, so a crash in the middle leaves the store as it was.

import { allowLongStatements, type Db, type Tx } from "./db.ts";
import tablesPostgres from "./schema/schema-postgres.sql" with { type: "text" };
import tablesSqlite from "./schema/schema-sqlite.sql" with { type: "text" };

/** Statements end with `;` at the end of a line. */
export interface Migration {
  readonly name: string;
  readonly sqlite: string;
  readonly postgres: string;
}

const FIRST: Migration = { name: "0001-schema", sqlite: tablesSqlite, postgres: tablesPostgres };
export const MIGRATIONS: readonly Migration[] = [FIRST];
const ATTEMPTS_MAX = 5;

/** Applies the missing migrations and returns their names. */
export async function migrate(
  db: Db,
  now: number,
  migrations = MIGRATIONS,
): Promise<readonly string[]> {
  const names: string[] = [];
  for (const migration of await missingOf(db, migrations)) {
    await createMigrationTable(db);
    const isApplied = await db
      .write((tx) => applyOnce(tx, migration, now))
      .catch((error: unknown) => {
        throw migration === FIRST && isAlreadyExists(error) ? notEmptyError(error) : error;
      });
    if (isApplied) names.push(migration.name);
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
  const inserted = await tx.run(
    "insert into migration (name, applied_at) values (?, ?) on conflict (name) do nothing",
    [migration.name, now],
  );
  if (inserted === 0) return false;
  for (const statement of statementsOf(migration[tx.kind])) await tx.run(statement);
  return true;
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

/** An entry among the migrations of a store whose move from another store is not finished. */
export const UNFINISHED_MOVE = "unfinished-move";

// A newer version may have changed the meaning of columns, so an older one must not read or write them.
function assertKnownMigrations(
  applied: ReadonlySet<string>,
  migrations: readonly Migration[],
): void {
  if (applied.has(UNFINISHED_MOVE))
    throw new Error(
      "the store is the target of an unfinished move: run the same postern move again to finish it",
    );
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = [...applied].toSorted().findLast((name) => !known.has(name));
  if (unknown === undefined) return;
  if (!applied.has(FIRST.name))
    throw new Error(
      `the store was made by a development version of Postern (${unknown}), and there is no migration from it: set POSTERN_DATA_DIR to a new folder or DATABASE_URL to a new database, or run the version that made it`,
    );
  throw new Error(
    `the store was migrated by a newer Postern (${unknown}): run that version or a newer one`,
  );
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
