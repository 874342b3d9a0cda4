// The document of all tables: their columns with the comments of the schema file, their owners and readers, and what is deleted.

import { ERASURES, KEPT_TABLES } from "../../../src/account-data/erasure.ts";
import { filesUnder } from "./source-files.ts";
import { accessByTable, ERASURE_FILE, TABLE_OWNERS } from "./table-law.ts";

interface SchemaTable {
  readonly name: string;
  readonly meaning: string;
  /** When its rows are deleted; undefined for never. */
  readonly deleted: string | undefined;
  readonly columns: readonly (readonly [name: string, definition: string, meaning: string])[];
  /** The primary key and unique constraints of several columns. */
  readonly keys: readonly string[];
}

const TABLE =
  /^-- (?<meaning>[^\n]+)\n(?:-- Deleted: (?<deleted>[^\n]+)\n)?create table (?<name>\w+) \(\n(?<body>[\s\S]*?)\n\)/gm;
const COLUMN =
  /^ {2}(?<name>\w+) (?<definition>(?:text|bigint|bytea)\b.*?),?(?: -- (?<meaning>.*))?$/;
/** Histograms of latencies have numbered columns. */
const BUCKET = /^(?<name>latency|first_token)_(?<number>\d+)$/;

/** The tables of the schema file. */
export function readSchema(sql = schemaFile()): readonly SchemaTable[] {
  return [...sql.matchAll(TABLE)].map(({ groups = {} }) => {
    const lines = (groups["body"] ?? "").split("\n");
    return {
      name: groups["name"] ?? "",
      meaning: groups["meaning"] ?? "",
      deleted: groups["deleted"],
      columns: lines.flatMap((line) => {
        const { name = "", definition = "", meaning = "" } = COLUMN.exec(line)?.groups ?? {};
        return name === "" ? [] : [[name, definition, meaning] as const];
      }),
      keys: lines.filter((line) => /^ {2}(?:primary key|unique) \(/.test(line)).map(trimmed),
    };
  });
}

function schemaFile(): string {
  const [file] = filesUnder("src/store/schema", /schema\.sql$/);
  if (file === undefined) throw new Error("there is no schema.sql");
  return file.text;
}

function trimmed(line: string): string {
  return line.trim().replace(/,$/, "");
}

export function storageSchema(): string {
  const source = filesUnder("src").filter(({ path }) => path !== ERASURE_FILE);
  const readers = accessByTable(source, "reads");
  const tables = new Map(readSchema().map((table) => [table.name, table]));
  return Object.entries(TABLE_OWNERS)
    .filter(([, names]) => names.some((name) => tables.has(name)))
    .flatMap(([owner, names]) => [
      `## ${owner}`,
      ...names.flatMap((name) => {
        const table = tables.get(name);
        return table === undefined
          ? []
          : describeTable(table, owner, readers.get(name) ?? new Set());
      }),
    ])
    .join("\n\n");
}

function describeTable(
  { name, meaning, deleted, columns, keys }: SchemaTable,
  owner: string,
  readers: ReadonlySet<string>,
): readonly string[] {
  const others = [...readers].filter((folder) => folder !== owner).toSorted();
  return [
    `### ${name}`,
    meaning,
    [
      `- Read by: ${others.length === 0 ? "no other folder" : others.join(", ")}.`,
      `- Deleted: ${deleted ?? "never"}.`,
      `- Of a closed account: ${erasureOf(name)}.`,
      ...keys.map((key) => `- ${key.charAt(0).toUpperCase()}${key.slice(1)}.`),
    ].join("\n"),
    [
      "| Column | Type | Meaning |",
      "| --- | --- | --- |",
      ...columns.flatMap(([column, definition, text]) => {
        const bucket = BUCKET.exec(column)?.groups;
        if (bucket === undefined) return `| \`${column}\` | ${definition} | ${text} |`;
        return bucket["number"] === "0"
          ? `| \`${bucket["name"] ?? ""}_0\` … \`_14\` | ${definition} | number of calls in each bucket of the histogram |`
          : [];
      }),
    ].join("\n"),
  ];
}

/** What happens to the rows when personal data is erased, 14 days after the account was closed. */
function erasureOf(table: string): string {
  const erasure = ERASURES.find((one) => one.table === table);
  if (erasure === undefined) return `kept (${KEPT_TABLES[table] ?? "no data of accounts"})`;
  if (erasure.set === undefined)
    return erasure.rows.includes(" and ") ? "rows with personal data deleted" : "deleted";
  const columns = erasure.set
    .split(/, (?=\w+ = )/)
    .map((part) => `\`${part.split(" = ")[0] ?? ""}\``);
  return `kept, without ${columns.join(", ")}`;
}
