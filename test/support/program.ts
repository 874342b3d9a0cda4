// The program that tests start as a process of its own: an executable with bytecode, which `npm test` builds once and which
// starts with a third of the CPU time of the source files; the source files in a test file that runs alone.

import path from "node:path";

const ROOT = path.resolve(import.meta.dir, "../..");
const executable = process.env["POSTERN_TEST_PROGRAM"];

/** The command line that runs `postern` in any folder. */
export const PROGRAM: readonly [command: string, ...args: string[]] =
  executable === undefined
    ? [
        process.execPath,
        `--tsconfig-override=${path.join(ROOT, "tsconfig.json")}`,
        path.join(ROOT, "src/main.ts"),
      ]
    : [executable];

/** As the launcher does, which has tests of its own. */
export const PROGRAM_SETTINGS = { BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" };

/** Writes the executable to a folder, and returns its path. */
export async function buildProgram(folder: string): Promise<string> {
  const outfile = path.join(folder, "postern");
  const entries = ["src/main.ts", "src/inference/metering/tokens/count-worker.ts"];
  await Bun.build({
    entrypoints: entries.map((entry) => path.join(ROOT, entry)),
    root: ROOT,
    target: "bun",
    format: "esm",
    bytecode: true,
    compile: { outfile },
  });
  return outfile;
}
