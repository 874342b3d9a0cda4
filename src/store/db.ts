// What a room may ask of the store. A `Db` reads; a `Tx` writes, and exists only inside `db.write`, so a write outside
// a transaction does not compile. SQL is portable: `?` marks a parameter on every store, times are epoch milliseconds.

export type Value = string | number | bigint | null;
export type Row = Readonly<Record<string, unknown>>;

/** A column with its type, for statements over many rows: `id:text`, `amount:bigint`. */
export type Column = `${string}:text` | `${string}:bigint`;

export interface Reader {
  readonly kind: "sqlite" | "postgres";
  all(sql: string, params?: readonly Value[]): Promise<readonly Row[]>;
  get(sql: string, params?: readonly Value[]): Promise<Row | undefined>;
}

export interface Tx extends Reader {
  /** Answers how many rows were written. */
  run(sql: string, params?: readonly Value[]): Promise<number>;
  insertMany(table: string, columns: readonly Column[], rows: readonly Values[]): Promise<void>;
  /** Sets the other columns of each row that the first column finds. */
  updateMany(table: string, columns: readonly Column[], rows: readonly Values[]): Promise<void>;
  deleteMany(table: string, key: string, keys: readonly string[]): Promise<void>;
  /** The rows with these keys, locked in the order of their keys until the transaction ends. */
  lockMany(table: string, key: string, keys: readonly string[]): Promise<readonly Row[]>;
  /** The rows with these keys, as they are now. */
  readMany(table: string, key: string, keys: readonly string[]): Promise<readonly Row[]>;
}

export type Values = readonly Value[];

/**
 * What a commit outlives. The disk is waited for unless what was written is of no use to a machine that lost its power;
 * the end of the process alone loses neither. A later commit that waits for the disk takes the earlier ones with it.
 */
export type Durability = "on disk" | "while the machine runs";

export interface Db extends Reader {
  /**
   * Runs the work in one transaction. It may run more than once, so it does nothing but talk to `tx`. A statement that
   * fails spoils the transaction, also where the work swallows the error: nothing more is executed, nothing is kept.
   */
  write<T>(work: (tx: Tx) => Promise<T>, durability?: Durability): Promise<T>;
  /** Reads that all see the store as it is at one moment. The work may run more than once. */
  snapshot<T>(work: (reader: Reader) => Promise<T>): Promise<T>;
  /** Copies a SQLite store to a new file while it is in use. */
  backup(file: string): Promise<void>;
  /** Where only this process serves from the store: a number that changes when anybody else has written to it. */
  readonly dataVersion?: () => number;
  /** Where the store is a file: whether its name leads elsewhere by now, or nowhere, so that nobody will find what is written. */
  readonly isFileReplaced?: () => boolean;
  close(): Promise<void>;
}

/** Thrown when a unique key is already there: a state that the caller may expect. */
export const DUPLICATE = Symbol("duplicate");

export function isDuplicate(error: unknown): boolean {
  return typeof error === "object" && error !== null && DUPLICATE in error;
}

/** Thrown when the store itself cannot be used now: not reachable, full, locked. The same work may succeed later. */
export const UNAVAILABLE = Symbol("unavailable");

export function isUnavailable(error: unknown): boolean {
  return typeof error === "object" && error !== null && UNAVAILABLE in error;
}

/** Thrown with it where only some rows cannot be used, because somebody else keeps them locked. Nothing was changed. */
export const LOCKED = Symbol("locked");

export function isLocked(error: unknown): boolean {
  return typeof error === "object" && error !== null && LOCKED in error;
}

/** Rows that somebody else keeps locked are not waited for any longer by who was kept waiting for them before. */
const SHORT_LOCK_TIMEOUT_MS = 100;

/** Has this transaction find out at once whether rows are still locked. A SQLite store has no locked rows. */
export async function setShortLockTimeout(tx: Tx): Promise<void> {
  if (tx.kind === "postgres") await tx.run(`set local lock_timeout = ${SHORT_LOCK_TIMEOUT_MS}`);
}

const INTEGER_MAX = 2n ** 63n - 1n;

/**
 * Refuses what one of the stores would alter without a word: SQLite wraps integers above 64 bits and keeps fractions,
 * and PostgreSQL has no NUL in text.
 */
export function assertExactValues(values: Values): Values {
  for (const value of values) {
    const exact =
      typeof value === "number"
        ? Number.isSafeInteger(value)
        : typeof value === "bigint"
          ? value <= INTEGER_MAX && value >= -INTEGER_MAX
          : value === null || !value.includes("\u0000");
    if (!exact)
      throw new Error(
        `the store cannot carry this ${typeof value} exactly: ${JSON.stringify(String(value).slice(0, 40))}`,
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

/** A whole number that JavaScript carries exactly: a time, a count. */
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

/** A word of a list that is known. */
export function enumValue<T extends string>(row: Row, column: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === row[column]);
  if (found === undefined) throw new Error(`column ${column} is none of ${allowed.join(", ")}`);
  return found;
}

export function columnName(column: Column): string {
  return column.slice(0, column.lastIndexOf(":"));
}
