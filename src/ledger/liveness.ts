// Detects dead processes: those whose heartbeat has not changed for a while, measured on this process's monotonic
// clock. Timestamps are never compared with another process's clock, which may be minutes off. While the store is
// unreachable no process can write a heartbeat, so checks that are too far apart prove nothing.

import type { Reader, Tx } from "../store/db.ts";
import { readHoldOwners, readProcesses, type RegisteredProcess } from "./hold-owners.ts";

const DEAD_AFTER_MS = 30_000;
/** After a longer gap between two checks, the observation starts over. */
const CHECK_GAP_MAX_MS = 25_000;
const DEAD_MAX = 100;

export type DeadProcess = RegisteredProcess;

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
    const busy = new Set(await otherWork?.findProcesses(reader));
    for (const { process } of await readHoldOwners(reader)) busy.add(process);
    busy.delete(ownName);
    const processes = await readProcesses(reader, busy);
    const previous = startedAt - checkedAt > CHECK_GAP_MAX_MS ? undefined : watched;
    checkedAt = monotonicNow();
    const current = processes.map(({ name, epoch, seenAt }): WatchedProcess => {
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
