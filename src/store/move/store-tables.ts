// The tables of a store with their columns and primary keys, and pages of their rows as text.

import {
  type Column,
  columnName,
  integer,
  type Reader,
  type Row,
  text,
  type Value,
} from "../db.ts";

/** Records of migrations and moves belong to one store and are not copied. */
const NOT_COPIED = new Set(["migration", "move_progress"]);

export interface Table {
  readonly name: string;
  readonly columns: readonly Column[];
  /** The primary key. */
  readonly key: readonly Column[];
}

/**
 * The values of a row in the order of the columns. Integers are text, because Bun rounds large ones of SQLite, and binary
 * values are hexadecimal text.
 */
export type TextRow = readonly (string | null)[];

export interface RowPage {
  readonly rows: readonly TextRow[];
  /** The key of the last row. */
  readonly last: TextRow | undefined;
}

/** Reads the tables of a SQLite store. A PostgreSQL store of the same version has the same ones. */
export async function readTables(sqlite: Reader): Promise<readonly Table[]> {
  const names = await sqlite.all(
    "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name",
  );
  const tables: Table[] = [];
  for (const name of names.map((row) => text(row, "name"))) {
    if (NOT_COPIED.has(name)) continue;
    const rows = await sqlite.all(
      "select name, lower(type) as type, pk from pragma_table_info(?) order by cid",
      [name],
    );
    const keyed = rows
      .filter((row) => integer(row, "pk") > 0)
      .toSorted((a, b) => integer(a, "pk") - integer(b, "pk"));
    if (keyed.length === 0) throw new Error(`the table ${name} has no primary key`);
    tables.push({ name, columns: rows.map(toColumn), key: keyed.map(toColumn) });
  }
  return tables;
}

function toColumn(row: Row): Column {
  const type = text(row, "type");
  if (type !== "text" && type !== "bigint" && type !== "bytea")
    throw new Error(`unexpected column type ${type}`);
  return `${text(row, "name")}:${type}`;
}

/** Reads the rows after a key, in the order of the store's own index. */
export async function readPage(
  reader: Reader,
  table: Table,
  after: TextRow | undefined,
  limit: number,
): Promise<RowPage> {
  // An alias with the name of its column would make `order by` sort by the text.
  const cells = table.columns
    .map((column, index) => `${asText(reader.kind, column)} as c${index}`)
    .join(", ");
  const key = table.key.map(columnName).join(", ");
  const bound = table.key.map((column) => `cast(? as ${typeOf(column)})`).join(", ");
  const where = after === undefined ? "" : `where (${key}) > (${bound})`;
  const found = await reader.all(
    `select ${cells} from ${table.name} ${where} order by ${key} limit ${limit}`,
    after ?? [],
  );
  const rows = found.map((row) => table.columns.map((_, index) => cellOf(row, `c${index}`)));
  const last = rows.at(-1);
  const keyIndexes = table.key.map((column) => table.columns.indexOf(column));
  return { rows, last: last && keyIndexes.map((index) => last[index] ?? null) };
}

export async function countRows(reader: Reader, { name }: Table): Promise<number> {
  const row = await reader.get(`select count(*) as count from ${name}`);
  return row === undefined ? 0 : integer(row, "count");
}

function asText(kind: Reader["kind"], column: Column): string {
  const name = columnName(column);
  if (typeOf(column) === "text") return name;
  if (typeOf(column) !== "bytea") return `cast(${name} as text)`;
  // SQLite's `hex` returns an empty text for null.
  return kind === "postgres"
    ? `encode(${name}, 'hex')`
    : `case when ${name} is not null then lower(hex(${name})) end`;
}

/** The values to insert. */
export function rowValues({ columns }: Table, row: TextRow): readonly Value[] {
  return row.map((cell, index) =>
    cell !== null && columns[index]?.endsWith(":bytea") === true ? Buffer.from(cell, "hex") : cell,
  );
}

function cellOf(row: Row, name: string): string | null {
  const value = row[name];
  if (value !== null && typeof value !== "string") throw new Error(`cell ${name} is not text`);
  return value;
}

function typeOf(column: Column): string {
  return column.slice(column.lastIndexOf(":") + 1);
}
