// Writes CSV (RFC 4180). Values that a spreadsheet would evaluate as a formula are escaped.

const ROWS_PER_SLICE = 1_000;

export type CsvColumn<T> = readonly [name: string, value: (item: T) => string | number];

/** Other requests run between two slices. */
export async function writeCsv<T>(
  columns: readonly CsvColumn<T>[],
  items: readonly T[],
): Promise<string> {
  let csv = lineOf(columns.map(([name]) => name));
  for (let from = 0; from < items.length; from += ROWS_PER_SLICE) {
    if (from > 0) await new Promise((resolve) => setImmediate(resolve));
    for (const item of items.slice(from, from + ROWS_PER_SLICE))
      csv += lineOf(columns.map(([, value]) => csvCell(value(item))));
  }
  return csv;
}

function lineOf(cells: readonly string[]): string {
  return `${cells.join(",")}\r\n`;
}

function csvCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const escaped = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(escaped) ? `"${escaped.replaceAll('"', '""')}"` : escaped;
}
