// Which processes serve a store. A clock of another machine may be off, so a process runs if its heartbeat changes while it is
// watched, and not if its heartbeat looks recent.

import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { integer, type Reader, text, textOrNull } from "../store/db.ts";

/** Heartbeats are five seconds apart, and one may be late. */
const WATCH_MS = 12 * SECOND_MS;
const POLL_MS = 250;
/** An older heartbeat is that of a process that was killed. Clocks are not further apart. */
const HEARTBEAT_AGE_MAX_MS = HOUR_MS;

export interface WatchOptions {
  readonly now: number;
  /** Only the process with this name; all by default. */
  readonly name?: string;
  /** Shorter for tests. */
  readonly watchMs?: number | undefined;
}

/** The names of running processes. Returns at once if all have stopped, else after a heartbeat or twelve seconds. */
export async function findRunningProcesses(
  reader: Reader,
  options: WatchOptions,
): Promise<readonly string[]> {
  const deadline = performance.now() + (options.watchMs ?? WATCH_MS);
  const before = await readHeartbeats(reader, options);
  if (before.size === 0) return [];
  while (performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const heartbeats = await readHeartbeats(reader, options);
    const running = [...heartbeats]
      .filter(([name, heartbeat]) => before.get(name) !== heartbeat)
      .map(([name]) => name);
    if (running.length > 0 || heartbeats.size === 0) return running;
  }
  return [];
}

async function readHeartbeats(
  reader: Reader,
  { now, name }: WatchOptions,
): Promise<ReadonlyMap<string, string>> {
  const rows = await reader.all(
    `select name, epoch, seen_at from process where stopped_at is null and seen_at between ? and ?
     ${name === undefined ? "" : "and name = ?"} order by name`,
    [now - HEARTBEAT_AGE_MAX_MS, now + HEARTBEAT_AGE_MAX_MS, ...(name === undefined ? [] : [name])],
  );
  return new Map(
    rows.map((row) => [text(row, "name"), `${integer(row, "epoch")} ${integer(row, "seen_at")}`]),
  );
}

/** Heartbeats are written every few seconds. */
const PROCESS_SILENCE_MAX_MS = MINUTE_MS;

/** Among several processes on one PostgreSQL, only the first running one by name runs the jobs of the whole store. */
export async function isFirstProcess(reader: Reader, name: string, now: number): Promise<boolean> {
  const row = await reader.get(
    "select min(name) as name from process where seen_at > ? and stopped_at is null",
    [now - PROCESS_SILENCE_MAX_MS],
  );
  const first = row === undefined ? null : textOrNull(row, "name");
  return first === null || first >= name;
}
