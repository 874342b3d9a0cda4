// Detects dead processes: those whose heartbeat has not changed for a while, measured on this process's monotonic
// clock. Timestamps are never compared with another process's clock, which may be minutes off. While the store is
// unreachable no process can write a heartbeat, so checks that are too far apart prove nothing.

import { integer, type Reader, text, type Tx } from "../store/db.ts";

const DEAD_AFTER_MS = 30_000;
/** After a longer gap between two checks, the observation starts over. */
const CHECK_GAP_MAX_MS = 25_000;
const DEAD_MAX = 100;

export interface DeadProcess {
  readonly name: string;
  readonly epoch: number;
  /** Its last heartbeat. */
  readonly seenAt: number;
}

interface WatchedProcess extends DeadProcess {
  /** When this heartbeat was first observed. */
  readonly firstSeenAt: number;
}

/** Work of processes besides holds. */
export interface OtherWork {
  /** The names of the processes that have some. */
  readonly findProcesses: (reader: Reader) => Promise<readonly string[]>;
  /** Releases that of dead processes. Their rows are locked, so they cannot write a heartbeat. */
  readonly release: (tx: Tx, processes: readonly DeadProcess[]) => Promise<void>;
}

export function bothWorks(one: OtherWork, other: OtherWork): OtherWork {
  return {
    findProcesses: async (reader) => [
      ...(await one.findProcesses(reader)),
      ...(await other.findProcesses(reader)),
    ],
    release: async (tx, processes) => {
      await one.release(tx, processes);
      await other.release(tx, processes);
    },
  };
}

/** Returns dead processes that have open holds or other work; never the calling one. */
export type FindDeadProcesses = (reader: Reader) => Promise<readonly DeadProcess[]>;

export function createDeadProcessDetector(
  ownName: string,
  monotonicNow: () => number,
  otherWork?: OtherWork,
): FindDeadProcesses {
  let watched: ReadonlyMap<string, WatchedProcess> = new Map();
  let checkedAt = 0;
  return async (reader) => {
    const startedAt = monotonicNow();
    const busy = (await otherWork?.findProcesses(reader)) ?? [];
    const rows = await reader.all(
      `select name, epoch, seen_at from process where name <> ? and (name in (select process from hold)
         or name in (${["''", ...busy.map(() => "?")].join(", ")})) order by name`,
      [ownName, ...busy],
    );
    const previous = startedAt - checkedAt > CHECK_GAP_MAX_MS ? undefined : watched;
    checkedAt = monotonicNow();
    const current = rows.map((row): WatchedProcess => {
      const [name, epoch, seenAt] = [
        text(row, "name"),
        integer(row, "epoch"),
        integer(row, "seen_at"),
      ];
      const before = previous?.get(name);
      const isUnchanged = before?.epoch === epoch && before.seenAt === seenAt;
      return { name, epoch, seenAt, firstSeenAt: isUnchanged ? before.firstSeenAt : checkedAt };
    });
    watched = new Map(current.map((process) => [process.name, process]));
    return current
      .filter(({ firstSeenAt }) => startedAt - firstSeenAt >= DEAD_AFTER_MS)
      .slice(0, DEAD_MAX);
  };
}
