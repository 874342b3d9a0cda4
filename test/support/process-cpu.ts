// CPU times from Linux' table of processes. Zero on other systems.

import { existsSync, readFileSync } from "node:fs";

const TICKS_PER_SECOND = 100;
/** In `/proc/<pid>/stat`, counted from after the name: utime, stime, and both of the children that ended. */
const FIRST_FIELD = 11;

export interface CpuSeconds {
  readonly own: number;
  /** Of the children that ended and were waited for, and of theirs. */
  readonly children: number;
}

export function cpuSecondsOf(pid: number | "self"): CpuSeconds {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return { own: 0, children: 0 };
  const text = readFileSync(file, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields
    .slice(FIRST_FIELD, FIRST_FIELD + 4)
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  return { own: user + system, children: childUser + childSystem };
}
