// Temporary folders, in memory if there is space: the tests do not need them to survive a reboot, and each commit of a store
// on a disk waits for the disk.

import { accessSync, constants, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const MEMORY_FOLDER = "/dev/shm";
/** Containers often have 64 MiB, which a few stores fill. */
const FREE_BYTES_MIN = 1_073_741_824;

const created = new Set<string>();
let base: string | undefined;

/** A new folder. It is deleted at the end of the process, if the test does not. */
export function scratchFolder(prefix = "test"): string {
  base ??= hasMemoryFolder() ? MEMORY_FOLDER : tmpdir();
  if (created.size === 0) process.on("exit", removeScratchFolders);
  const folder = mkdtempSync(path.join(base, `postern-${prefix}-`));
  created.add(folder);
  return folder;
}

function hasMemoryFolder(): boolean {
  try {
    accessSync(MEMORY_FOLDER, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER);
    return bavail * bsize >= FREE_BYTES_MIN;
  } catch {
    return false;
  }
}

/** In a process of tests, preload.ts calls it. */
export function removeScratchFolders(): void {
  for (const folder of created) rmSync(folder, { recursive: true, force: true });
  created.clear();
}
