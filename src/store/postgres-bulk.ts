// PostgreSQL's bulk statements: one array parameter for each column or key column.

import { type Column, columnName, type Key, type Values } from "./db.ts";
import { arrayText, columnText } from "./postgres-arrays.ts";
import { cachePerColumns } from "./statements.ts";

type KeyStatement = (table: string, key: string, columns: string) => string;

export const lockStatement: KeyStatement = (table, key, columns) =>
  `select ${columns} from ${table} where ${keyCondition(key)} order by ${lastColumn(key)} for update`;

export const readStatement: KeyStatement = (table, key, columns) =>
  `select ${columns} from ${table} where ${keyCondition(key)}`;

/** Returns nothing if `columns` is empty. */
export const deleteStatement: KeyStatement = (table, key, columns) =>
  `delete from ${table} where ${keyCondition(key)}${columns && ` returning ${columns}`}`;

// Planned like one on the id alone. PostgreSQL searches the primary key, because write transactions disable sequential scans.
function keyCondition(key: string): string {
  return key
    .split(", ")
    .map((column, index) => `${column} = any($${index + 1}::text[])`)
    .join(" and ");
}

function lastColumn(key: string): string {
  return key.slice(key.lastIndexOf(" ") + 1);
}

export function keyParameters(keys: readonly Key[]): string[] {
  const accountIds = new Set<string>();
  const ids: string[] = [];
  for (const key of keys) {
    if (typeof key !== "string") accountIds.add(key[0]);
    ids.push(typeof key === "string" ? key : key[1]);
  }
  const parameter = arrayText(ids);
  return accountIds.size === 0 ? [parameter] : [arrayText([...accountIds]), parameter];
}

export const insertStatement = cachePerColumns(
  (table, columns) =>
    `insert into ${table} (${columns.map(columnName).join(", ")}) select * from ${unnest(columns)}`,
);

export const updateStatement = cachePerColumns((table, columns, keyColumns) => {
  const names = columns.map(columnName);
  const sets = names.slice(keyColumns).map((name) => `${name} = fresh.${name}`);
  const keys = names.slice(0, keyColumns).map((name) => `${table}.${name} = fresh.${name}`);
  return `update ${table} set ${sets.join(", ")} from ${unnest(columns)} as fresh(${names.join(", ")}) where ${keys.join(" and ")}`;
});

function unnest(columns: readonly Column[]): string {
  return `unnest(${columns.map((column, index) => `$${index + 1}::${column.slice(column.lastIndexOf(":") + 1)}[]`).join(", ")})`;
}

export function columnParameters(columns: readonly Column[], rows: readonly Values[]): string[] {
  return columns.map((_, index) => columnText(rows, index));
}
