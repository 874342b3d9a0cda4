// `doctor --fix`: what can be fixed without a decision of the operator. Each fix is one line of the output.

import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { upgradeStore } from "../../server/upgrade-store.ts";
import type { StoreSettings } from "../../store/open.ts";
import { errorMessage } from "../with-store.ts";

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const OTHERS = 0o077;
const PRIVATE_FILES = ["postern.db", "postern.db-wal", "postern.db-shm", "secret"];

/** Returns what was fixed, and what could not be. */
export async function fixStore(
  settings: StoreSettings,
  now: () => number,
): Promise<readonly string[]> {
  const folder = settings.databaseUrl === undefined ? fixFolder(settings.dataDir) : [];
  try {
    return [...folder, ...(await applyMigrations(settings, now))];
  } catch (error) {
    return [...folder, `not fixed: ${errorMessage(error)}`];
  }
}

function fixFolder(folder: string): readonly string[] {
  const fixed: string[] = [];
  if (!existsSync(folder)) {
    // Opening the store then says why.
    if (!succeeds(() => mkdirSync(folder, { recursive: true, mode: FOLDER_MODE }))) return [];
    fixed.push(`fixed: created the data folder ${folder}`);
  }
  // Windows has no such modes.
  if (process.platform === "win32") return fixed;
  for (const [name, mode] of [
    ["", FOLDER_MODE] as const,
    ...PRIVATE_FILES.map((file) => [file, FILE_MODE] as const),
  ]) {
    const file = path.resolve(folder, name);
    if (!existsSync(file) || (statSync(file).mode & OTHERS) === 0) continue;
    fixed.push(
      succeeds(() => chmodSync(file, mode))
        ? `fixed: made ${file} readable only by its owner`
        : `not fixed: ${file} is readable by others; run the command as its owner`,
    );
  }
  return fixed;
}

function succeeds(change: () => void): boolean {
  try {
    change();
    return true;
  } catch {
    return false;
  }
}

async function applyMigrations(
  settings: StoreSettings,
  now: () => number,
): Promise<readonly string[]> {
  const lines: string[] = [];
  await upgradeStore(settings, {
    now,
    onBackup: (file) => lines.push(`fixed: backed up the store to ${file}`),
    onApplied: (name, ms) => lines.push(`fixed: applied ${name} in ${ms} ms`),
  });
  return lines;
}
