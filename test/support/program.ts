// The program that tests start as a process of its own: the bundle of the npm package, which `npm test` builds once and which
// starts in half the time of the source files; the source files in a test file that runs alone.

import path from "node:path";

const ROOT = path.resolve(import.meta.dir, "../..");
const folder = process.env["POSTERN_TEST_PROGRAM"] ?? ROOT;

/** What Bun runs. */
export const MAIN = path.join(folder, folder === ROOT ? "src/main.ts" : "lib/main.js");
/** What Bun runs in any folder: as the launcher does, which has tests of its own and takes 80 ms of CPU time. */
export const PROGRAM = [`--tsconfig-override=${path.join(ROOT, "tsconfig.json")}`, MAIN];

/** Writes the bundle of the npm package to a folder. */
export async function bundleProgram(target: string): Promise<void> {
  await Bun.build({
    entrypoints: [path.join(ROOT, "src/main.ts")],
    target: "bun",
    splitting: true,
    outdir: path.join(target, "lib"),
  });
}
