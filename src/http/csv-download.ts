// The response with which a page exports its list.

/** Lists are exported up to this many entries, the newest first. */
export const EXPORTED_MAX = 5_000;

export function csvDownload(csv: string, fileName: string): Response {
  return new Response(csv, {
    headers: {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": `attachment; filename="${fileName}"`,
      "cache-control": "no-store",
    },
  });
}
