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

/** As the launcher does, which has tests of its own; and what test/run.ts sets for processes that run for seconds. */
export const PROGRAM_SETTINGS: Readonly<Record<string, string>> = {
  BUN_CONFIG_MAX_HTTP_REQUESTS: "65336",
  ...Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      /^(?:BUN_JSC|MIMALLOC)_/.test(name) && value !== undefined ? [[name, value]] : [],
    ),
  ),
};

/** Writes the executable to a folder, and returns its path. */
export async function buildProgram(folder: string): Promise<string> {
  const outfile = path.join(folder, "postern");
  const entries = ["src/main.ts", "src/inference/metering/tokens/count-worker.ts"];
  const { metafile } = await Bun.build({
    entrypoints: entries.map((entry) => path.join(ROOT, entry)),
    root: ROOT,
    target: "bun",
    format: "esm",
    bytecode: true,
    compile: { outfile },
    metafile: true,
  });
  await Bun.write(inputsFile(outfile), JSON.stringify(Object.keys(metafile?.inputs ?? {})));
  return outfile;
}

/** The files that the program bundles. A folder is needed if this test file runs alone. */
export async function programInputs(folder: string): Promise<readonly string[]> {
  const program = executable ?? (await buildProgram(folder));
  return (await Bun.file(inputsFile(program)).json()) as readonly string[];
}

function inputsFile(program: string): string {
  return `${program}-inputs.json`;
}
