// The program that tests start as a process of its own: the bundle of the npm package, which `npm test` builds once and which
// starts in half the time of the source files; the source files in a test file that runs alone.

import { cpSync, symlinkSync } from "node:fs";
import path from "node:path";

const ROOT = path.resolve(import.meta.dir, "../..");
const folder = process.env["POSTERN_TEST_PROGRAM"] ?? ROOT;

/** What Bun runs. */
export const MAIN = path.join(folder, folder === ROOT ? "src/main.ts" : "lib/main.js");
/** What Node runs: the `postern` command. */
export const LAUNCHER = path.join(folder, "bin", "postern.js");

/** Writes what the npm package has to a folder. */
export async function bundleProgram(target: string): Promise<void> {
  await Bun.build({
    entrypoints: [path.join(ROOT, "src/main.ts")],
    target: "bun",
    splitting: true,
    outdir: path.join(target, "lib"),
  });
  for (const name of ["bin/bun.js", "bin/postern.js", "package.json", "tsconfig.json"])
    cpSync(path.join(ROOT, name), path.join(target, name));
  // The launcher looks for Bun there.
  symlinkSync(path.join(ROOT, "node_modules"), path.join(target, "node_modules"));
}
