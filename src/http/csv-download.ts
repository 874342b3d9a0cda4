// The responses with which a page exports its list.

/** Lists are exported up to this many entries, the newest first. */
export const EXPORTED_MAX = 5_000;

export function csvDownload(csv: string, fileName: string): Response {
  return download(csv, fileName, "text/csv; charset=utf-8");
}

/** Newline-delimited JSON: a record on each line. */
export function jsonLinesDownload(records: readonly unknown[], fileName: string): Response {
  const lines = records.map((record) => `${JSON.stringify(record)}\n`);
  return download(lines.join(""), fileName, "application/x-ndjson");
}

export function jsonDownload(record: unknown, fileName: string): Response {
  return download(`${JSON.stringify(record)}\n`, fileName, "application/json");
}

function download(body: string, fileName: string, contentType: string): Response {
  return new Response(body, {
    headers: {
      "content-type": contentType,
      "content-disposition": `attachment; filename="${fileName}"`,
      "cache-control": "no-store",
    },
  });
}
