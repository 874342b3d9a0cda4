// The interface of both stores. A `Db` reads; a `Tx` writes and exists only inside `db.write`, so a write outside a
// transaction does not compile. SQL is portable: `?` marks a parameter, times are epoch milliseconds.

export type Value = string | number | bigint | Uint8Array | null;
export type Row = Readonly<Record<string, unknown>>;

/** A column with its type, for bulk statements: `id:text`, `amount:bigint`. */
export type Column = `${string}:text` | `${string}:bigint` | `${string}:bytea`;

export interface Reader {
  readonly kind: "sqlite" | "postgres";
  /** True for a PostgreSQL whose tables of accounts are distributed over nodes, see `distribution.ts`. */
  readonly isDistributed?: boolean;
  all(sql: string, params?: readonly Value[]): Promise<readonly Row[]>;
  get(sql: string, params?: readonly Value[]): Promise<Row | undefined>;
}

export interface Tx extends Reader {
  /** Returns the number of rows written. */
  run(sql: string, params?: readonly Value[]): Promise<number>;
  insertMany(table: string, columns: readonly Column[], rows: readonly Values[]): Promise<void>;
  /** The first column, or the first two, are the key; sets the other columns of each row. */
  updateMany(
    table: string,
    columns: readonly Column[],
    rows: readonly Values[],
    keyColumns?: 1 | 2,
  ): Promise<void>;
  /** Returns `columns` of the deleted rows, in any order; nothing without `columns`. */
  deleteMany: ReadRows;
  /** Reads and locks the rows with these keys, in the order of their last key column, until the transaction ends. */
  lockMany: ReadRows;
  /** Reads the rows with these keys without locking them. */
  readMany: ReadRows;
  /** PostgreSQL only: sends the commit behind the statements so far, whose replies nothing waits for. No statement may follow. */
  sendCommit?(): void;
  /** Runs `work` after the commit, before the write resolves. It must not throw. */
  afterCommit(work: (reader: Reader) => Promise<void> | void): void;
}

export type AccountKey = readonly [accountId: string, id: string];
export type Key = string | AccountKey;

/**
 * `key` is one column, or the account and a column that is unique over all accounts: `account_id, id`. With the account,
 * rows are in any order, and a row may match the account of another key. Reads all columns, or only `columns`, separated
 * by commas.
 */
export type ReadRows = <KeyColumns extends string>(
  table: string,
  key: KeyColumns,
  keys: readonly (KeyColumns extends `${string}, ${string}` ? AccountKey : string)[],
  columns?: string,
) => Promise<readonly Row[]>;

export type Values = readonly Value[];

/**
 * What a commit survives. "disk" is synced and survives a power failure; "os_cache" survives only the end of the
 * process. A later "disk" commit also makes earlier ones durable.
 */
export type Durability = "disk" | "os_cache";

/** Called with the bytes of the copy so far, and of the store. */
export type BackupProgress = (bytes: number, totalBytes: number) => void;

export interface Db extends Reader {
  /**
   * Runs `work` in one transaction. It may run more than once, so it must have no effects besides `tx`. A failed
   * statement aborts the transaction even if `work` catches the error.
   */
  write<T>(work: (tx: Tx) => Promise<T>, durability?: Durability): Promise<T>;
  /** Runs reads that all see the same state of the store. `work` may run more than once. */
  snapshot<T>(work: (reader: Reader) => Promise<T>): Promise<T>;
  /** Copies a SQLite store, while it is in use, to a new file. What `onProgress` throws ends the copy and deletes the file. */
  backup(file: string, onProgress?: BackupProgress): Promise<void>;
  /** SQLite only: changes when another connection has written to the store. */
  readonly dataVersion?: () => number;
  /** SQLite only: true if the file or its log was replaced or deleted, so that writes are lost. */
  readonly isFileReplaced?: () => boolean;
  /** PostgreSQL only: how many of the connections are in use, and how much work waits for one. */
  readonly pool?: () => { readonly max: number; readonly busy: number; readonly waiting: number };
  close(): Promise<void>;
}

/** Marks the error of a violated unique key, which callers may expect. */
export const DUPLICATE = Symbol("duplicate");

export function isDuplicate(error: unknown): boolean {
  return typeof error === "object" && error !== null && DUPLICATE in error;
}

/** Marks an error of the store itself, such as unreachable, full or locked: the same work may succeed later. */
export const UNAVAILABLE = Symbol("unavailable");

export function isUnavailable(error: unknown): boolean {
  return typeof error === "object" && error !== null && UNAVAILABLE in error;
}

/** Marks, together with `UNAVAILABLE`, a timeout on locked rows. Nothing was changed. */
export const LOCKED = Symbol("locked");

export function isLocked(error: unknown): boolean {
  return typeof error === "object" && error !== null && LOCKED in error;
}

/**
 * Waits until no other transaction has the lock of this name, and keeps it until this one ends: for limits over rows of all
 * accounts, which no row's lock covers. SQLite has one writer.
 */
export async function lockByName(tx: Tx, name: string): Promise<void> {
  if (tx.kind === "postgres") await tx.run("select pg_advisory_xact_lock(hashtext(?))", [name]);
}

/** For rows that were locked on an earlier attempt: enough to find out whether they still are. */
const SHORT_LOCK_TIMEOUT_MS = 100;

/** Applies to the rest of the transaction. SQLite has no row locks. */
export async function setShortLockTimeout(tx: Tx): Promise<void> {
  if (tx.kind === "postgres") await tx.run(`set local lock_timeout = ${SHORT_LOCK_TIMEOUT_MS}`);
}

/** `set local`, and not `set_config`, because only that reaches the nodes of a distributed store. */
export const ALLOW_LONG_STATEMENTS: readonly string[] = [
  "set local lock_timeout = 0",
  "set local enable_seqscan = on",
];

/**
 * For migrations and other statements on whole tables: removes the time limits of the rest of the transaction, and allows
 * sequential scans in it. Does nothing on SQLite, which has neither setting.
 */
export async function allowLongStatements(tx: Tx): Promise<void> {
  if (tx.kind === "sqlite") return;
  for (const setting of ALLOW_LONG_STATEMENTS) await tx.run(setting);
}

const INTEGER_MAX = 2n ** 63n - 1n;
const INTEGER_MIN = -INTEGER_MAX;

/**
 * Throws for values that a store would change silently: SQLite wraps integers above 64 bits and keeps fractions, and
 * PostgreSQL has no NUL in text.
 */
export function assertExactValues(values: Values): Values {
  for (const value of values) {
    const exact =
      typeof value === "number"
        ? Number.isSafeInteger(value)
        : typeof value === "bigint"
          ? value <= INTEGER_MAX && value >= INTEGER_MIN
          : value === null || value instanceof Uint8Array || !value.includes("\u0000");
    if (!exact)
      throw new Error(
        `the store cannot represent this ${typeof value} exactly: ${JSON.stringify(String(value).slice(0, 40))}`,
      );
  }
  return values;
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== "string") throw new Error(`column ${column} is not text`);
  return value;
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

/** A safe integer, such as a time or a count. */
export function integer(row: Row, column: string): number {
  const value = row[column];
  const number = typeof value === "bigint" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isSafeInteger(number))
    throw new Error(`column ${column} is not a whole number`);
  return number;
}

export function integerOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : integer(row, column);
}

export function bytesOrNull(row: Row, column: string): Uint8Array | null {
  const value = row[column];
  if (value === null || value instanceof Uint8Array) return value;
  throw new Error(`column ${column} is not binary`);
}

export function enumValue<T extends string>(row: Row, column: string, allowed: readonly T[]): T {
  const value = allowed.find((candidate) => candidate === row[column]);
  if (value === undefined) throw new Error(`column ${column} must be one of ${allowed.join(", ")}`);
  return value;
}

export function columnName(column: Column): string {
  return column.slice(0, column.lastIndexOf(":"));
}
