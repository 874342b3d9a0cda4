// The path of a file that is imported as an asset.

import path from "node:path";

/** The bundle of the npm package names its assets relative to its own folder, and runs in any. */
export function importedFile(file: string): string {
  return path.resolve(import.meta.dirname, file);
}
