// The open files of this process and their limit, as Linux reports them.

import { readdirSync, readFileSync } from "node:fs";
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
          // Without a free descriptor the folder cannot be read.
          return max;
        }
      },
    };
  } catch {
    return undefined;
  }
}

function countFiles(): number {
  return readdirSync("/proc/self/fd").length;
}
