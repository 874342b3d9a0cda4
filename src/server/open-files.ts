// The open files of this process and their limit, as Linux reports them.

import { readdirSync, readFileSync, statSync } from "node:fs";
import type { OpenFiles } from "../http/guards/descriptors.ts";

/** Undefined where the system does not report them. The runtime has raised the soft limit to the hard one. */
export function findOpenFiles(): OpenFiles | undefined {
  try {
    const limits = readFileSync("/proc/self/limits", "utf8");
    const max = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? "unlimited");
    if (!Number.isSafeInteger(max) || countFiles() === 0) return undefined;
    return {
      max,
      count: () => {
        try {
          return countFiles();
        } catch {
          // Without a free descriptor the folder cannot be listed.
          return max;
        }
      },
    };
  } catch {
    return undefined;
  }
}

// Since 6.2, Linux reports the number as the size of the folder. Listing a thousand files takes almost a millisecond.
function countFiles(): number {
  return statSync("/proc/self/fd").size || readdirSync("/proc/self/fd").length;
}
