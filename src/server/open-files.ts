// The open files of this process and their limit, as Linux reports them.

import { readdirSync, readFileSync } from "node:fs";
import type { OpenFiles } from "../http/guards/descriptors.ts";

/** Undefined where the system does not report them. The runtime has raised the soft limit to the hard one. */
export function findOpenFiles(): OpenFiles | undefined {
  try {
    const limits = readFileSync("/proc/self/limits", "utf8");
    const max = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? "unlimited");
    const count = (): number => readdirSync("/proc/self/fd").length;
    return Number.isSafeInteger(max) && count() > 0 ? { max, count } : undefined;
  } catch {
    return undefined;
  }
}
