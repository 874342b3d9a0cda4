// `npm run check`: the static checks and the architecture test.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";

const ROOT = path.dirname(import.meta.dir);

export interface Check {
  readonly name: string;
  readonly command: readonly string[];
}

export interface CheckResult {
  readonly name: string;
  readonly passed: boolean;
  readonly output: string;
  readonly seconds: number;
}

const FORMATTED_FOLDERS = ["src", "packages", "test", "bench", "bin", "examples"].filter((folder) =>
  existsSync(path.join(ROOT, folder)),
);

export const CHECKS: readonly Check[] = [
  // One checker: several would infer the same types in parallel, on the cores that the tests need.
  // Later runs check only files that changed and their importers.
  {
    name: "types (tsc)",
    command:
      "node node_modules/typescript/bin/tsc --checkers 1 --incremental --tsBuildInfoFile node_modules/.cache/tsc.tsbuildinfo".split(
        " ",
      ),
  },
  { name: "lint (oxlint)", command: ["node", "node_modules/oxlint/bin/oxlint"] },
  {
    name: "format (oxfmt)",
    command: ["node", "node_modules/oxfmt/bin/oxfmt", "--check", ...FORMATTED_FOLDERS],
  },
  { name: "dead code (knip)", command: ["node", "node_modules/knip/bin/knip.js", "--no-progress"] },
];

/** The compiler and the linter are short-lived: Go collects their garbage only when they use this much memory. */
const GO_MEMORY = { GOGC: "off", GOMEMLIMIT: "3GiB" };

export function runCheck(check: Check): Promise<CheckResult> {
  const [program = "", ...args] = check.command;
  const started = performance.now();
  const env = { ...GO_MEMORY, ...process.env };
  const child = spawn(program, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => output.push(chunk));
  return new Promise((resolve) => {
    const finish = (passed: boolean): void =>
      resolve({
        name: check.name,
        passed,
        output: output.join("").trim(),
        seconds: (performance.now() - started) / 1_000,
      });
    child.on("error", (error) => {
      output.push(error.message);
      finish(false);
    });
    child.on("close", (code) => finish(code === 0));
  });
}

export function formatCheck({ name, passed, output, seconds }: CheckResult): string {
  const head = `${passed ? "ok  " : "FAIL"}  ${name}  ${seconds.toFixed(1)} s`;
  return passed ? head : `${head}\n${output}\n`;
}

if (import.meta.main) {
  const architecture: Check = {
    name: "architecture (test/architecture)",
    // All checks run at once, so a test that reads every file may wait long for a core.
    command: [process.execPath, "test", "--timeout=240000", "test/architecture"],
  };
  const results = await Promise.all([...CHECKS, architecture].map(runCheck));
  for (const result of results) console.log(formatCheck(result));
  process.exit(results.every(({ passed }) => passed) ? 0 : 1);
}
