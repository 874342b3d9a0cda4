// Which processes have gone silent: those whose sign of life has not changed for a while, on the clock of the process
// that looks. A time that one process wrote is never compared with the clock of another, which may be minutes off; and
// while the store cannot be reached nobody can give a sign of life, so looks that lie too far apart prove nothing.

import { type Reader, text, integer } from "../store/db.ts";

const DEAD_AFTER_MS = 30_000;
/** After a longer pause between two looks the watch begins anew. */
const CHECK_GAP_MAX_MS = 25_000;
const DEAD_MAX = 100;

/** A process, and the last sign of life that it gave. */
export interface DeadProcess {
  readonly name: string;
  readonly epoch: number;
  readonly seenAt: number;
}

interface WatchedProcess extends DeadProcess {
  /** When this sign of life was first seen. */
  readonly firstSeenAt: number;
}

/** Answers the processes that hold something and are silent, but never the one that looks. */
export type FindDeadProcesses = (reader: Reader) => Promise<readonly DeadProcess[]>;

/** `steady` is a clock that runs evenly, and that nobody sets. */
export function createDeadProcessDetector(
  own: string,
  monotonicNow: () => number,
): FindDeadProcesses {
  let watched: ReadonlyMap<string, WatchedProcess> = new Map();
  let checkedAt = 0;
  return async (reader) => {
    const startedAt = monotonicNow();
    const rows = await reader.all(
      `select name, epoch, seen_at from process where name <> ? and name in (select process from hold) order by name`,
      [own],
    );
    const previous = startedAt - checkedAt > CHECK_GAP_MAX_MS ? undefined : watched;
    checkedAt = monotonicNow();
    const seen = rows.map((row): WatchedProcess => {
      const [name, epoch, seenAt] = [
        text(row, "name"),
        integer(row, "epoch"),
        integer(row, "seen_at"),
      ];
      const known = previous?.get(name);
      const isSame = known?.epoch === epoch && known.seenAt === seenAt;
      return { name, epoch, seenAt, firstSeenAt: isSame ? known.firstSeenAt : checkedAt };
    });
    watched = new Map(seen.map((one) => [one.name, one]));
    return seen
      .filter(({ firstSeenAt }) => startedAt - firstSeenAt >= DEAD_AFTER_MS)
      .slice(0, DEAD_MAX);
  };
}
