// Limits how long an export occupies the event loop. A page is read and written at once, so its number of rows depends on how
// long the previous page took. After it the export pauses for as long, so it takes at most half of the event loop's time.

import type { Reader } from "../store/db.ts";

const PAGE_TARGET_MS = 5;
/** The resolution of timers. */
const PAUSE_MIN_MS = 1;
/** Powers of two, because on PostgreSQL each number of rows is a prepared statement. */
const ROWS_MIN = 8;
const ROWS_FIRST = 32;
const ROWS_MAX = 256;

export interface ExportPace {
  /** The store as the pages must read it. */
  readonly reader: Reader;
  /** Call before records of another kind, whose rows may take longer. */
  readonly beginSection: () => void;
  /** The rows of the next page. */
  readonly rows: () => number;
  readonly beginPage: () => void;
  /** Call when the page is written; `isFull` if it had as many rows as it could. */
  readonly endPage: (isFull: boolean) => void;
  /** Lets other requests run for as long as the pages since the last pause took. */
  readonly pause: () => Promise<void>;
}

export function createExportPace(
  db: Reader,
  monotonicNow: () => number = () => performance.now(),
): ExportPace {
  let rows = ROWS_FIRST;
  let beganAt = 0;
  let heldMs = 0;
  const begin = (): void => {
    beganAt = monotonicNow();
  };
  return {
    reader: db.kind === "sqlite" ? db : callAfterReads(db, begin),
    beginSection: () => {
      rows = ROWS_FIRST;
    },
    rows: () => rows,
    beginPage: begin,
    endPage: (isFull) => {
      const pageMs = monotonicNow() - beganAt;
      heldMs += pageMs;
      if (pageMs > PAGE_TARGET_MS) rows = Math.max(ROWS_MIN, rows / 2);
      else if (isFull && pageMs < PAGE_TARGET_MS / 2) rows = Math.min(ROWS_MAX, rows * 2);
    },
    pause: async () => {
      if (heldMs < PAUSE_MIN_MS) return;
      const pauseMs = Math.ceil(heldMs);
      heldMs = 0;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    },
  };
}

/** Waiting for PostgreSQL does not occupy the event loop. */
function callAfterReads(db: Reader, onRead: () => void): Reader {
  const noteRead = <T>(result: T): T => {
    onRead();
    return result;
  };
  return {
    kind: db.kind,
    all: async (sql, params) => noteRead(await db.all(sql, params)),
    get: async (sql, params) => noteRead(await db.get(sql, params)),
  };
}
