// PostgreSQL's array literals: the parameters of bulk statements.

import { assertExactValues, type Value, type Values } from "./db.ts";

/** One column of the rows. */
export function columnText(rows: readonly Values[], column: number): string {
  return arrayText(rows.map((row) => row[column] ?? null));
}

/** Throws for values that the store would change. */
export function arrayText(values: Values): string {
  const plain: (string | number | null)[] = [];
  for (const value of values) {
    if (value instanceof Uint8Array) return escapedArrayText(values);
    const exact = typeof value === "bigint" ? Number(value) : value;
    if (typeof exact === "number" && !Number.isSafeInteger(exact)) return escapedArrayText(values);
    plain.push(exact);
  }
  // Takes a sixth of the time of the loop below, and differs from PostgreSQL only in the brackets and in some escapes.
  const json = JSON.stringify(plain);
  if (json.includes("\\") && values.some(hasOtherEscapes)) return escapedArrayText(values);
  return `{${json.slice(1, -1)}}`;
}

const ESCAPED_ONLY_IN_JSON = /[\p{Cc}\p{Cs}]/u;

function hasOtherEscapes(value: Value): boolean {
  return typeof value === "string" && ESCAPED_ONLY_IN_JSON.test(value);
}

function escapedArrayText(values: Values): string {
  return `{${assertExactValues(values).map(elementText).join(",")}}`;
}

/** Every text is quoted, so that no value can end it. */
function elementText(value: Value): string {
  if (value === null) return "NULL";
  if (value instanceof Uint8Array) return `"\\\\x${Buffer.from(value).toString("hex")}"`;
  if (typeof value !== "string") return String(value);
  return `"${value.replaceAll(/["\\]/g, "\\$&")}"`;
}
