// `npm run mutate [part-of-name …]`: applies each mutation of `mutations.ts` alone, in a copy of the tree, and runs the tests
// that must fail. Exits with 1 if they pass, or if a mutation no longer matches the code.

import { spawn } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { mutate, type Mutation, MUTATIONS } from "./mutations.ts";

const ROOT = path.dirname(path.dirname(import.meta.dir));
const TEST_TIMEOUT_MS = 120_000;
const RUN_TIMEOUT_MS = 15 * 60_000;
/** Not needed by the tests, or replaced by a link. */
const WORKSPACE_SCOPE = "@postern";
const NOT_COPIED: ReadonlySet<string> = new Set([".git", "node_modules"]);

interface TestRun {
  readonly passed: boolean;
  /** Whether a test failed, and not only the import of a file. */
  readonly hasFailedTest: boolean;
  readonly output: string;
}

const filters = process.argv.slice(2);
const chosen = MUTATIONS.filter(
  ({ name, file }) =>
    filters.length === 0 || filters.some((part) => `${file} ${name}`.includes(part)),
);
if (chosen.length === 0) {
  console.log(`No mutation has ${filters.join(" or ")} in its file or name.`);
  process.exit(1);
}

const copy = copyTree();
const postgres = await startPostgres();
const problems: string[] = [];
const baseline = new Map<string, TestRun>();
try {
  for (const mutation of chosen) await tryMutation(mutation);
} finally {
  postgres.stop();
  rmSync(copy, { recursive: true, force: true });
}
console.log(`\n${chosen.length - problems.length} of ${chosen.length} mutations were killed.`);
for (const problem of problems) console.log(problem);
process.exit(problems.length === 0 ? 0 : 1);

async function tryMutation(mutation: Mutation): Promise<void> {
  const { name, file, tests } = mutation;
  const startedAt = performance.now();
  const finish = (result: string, problem?: string): void => {
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
    console.log(`${result.padEnd(9)} ${file}: ${name} (${seconds} s)`);
    if (problem !== undefined) problems.push(`${result} ${file}: ${name}. ${problem}`);
  };
  const target = path.join(copy, file);
  const original = readFileSync(target, "utf8");
  const mutated = mutate(original, mutation);
  if (mutated === undefined)
    return finish("stale", "Its search text does not occur exactly once: adapt test/mutation.");
  const key = tests.join(" ");
  const before = baseline.get(key) ?? (await runTests(tests));
  baseline.set(key, before);
  if (!before.passed)
    return finish("invalid", `The tests fail without it: ${key}\n${before.output}`);
  writeFileSync(target, mutated);
  const after = await runTests(tests);
  writeFileSync(target, original);
  if (after.passed) return finish("survived", `These tests must fail: ${key}`);
  if (!after.hasFailedTest) return finish("invalid", `No test ran:\n${after.output}`);
  finish("killed");
}

function copyTree(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-mutation-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  cpSync(ROOT, folder, {
    recursive: true,
    filter: (source) => !NOT_COPIED.has(path.relative(ROOT, source)),
  });
  linkModules(folder);
  return folder;
}

/** The packages of this repository are those of the copy, the others the installed ones. */
function linkModules(folder: string): void {
  const modules = path.join(folder, "node_modules");
  mkdirSync(path.join(modules, WORKSPACE_SCOPE), { recursive: true });
  for (const name of readdirSync(path.join(ROOT, "node_modules")))
    if (name !== WORKSPACE_SCOPE)
      symlinkSync(path.join(ROOT, "node_modules", name), path.join(modules, name));
  for (const name of readdirSync(path.join(ROOT, "packages")))
    symlinkSync(path.join(folder, "packages", name), path.join(modules, WORKSPACE_SCOPE, name));
}

async function runTests(tests: readonly string[]): Promise<TestRun> {
  const child = spawn(
    process.execPath,
    [
      "--no-env-file",
      "test",
      `--timeout=${TEST_TIMEOUT_MS}`,
      "--bail=1",
      ...tests.map((file) => `./${file}`),
    ],
    {
      cwd: copy,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, POSTERN_TEST_DATABASE_URL: postgres.url, POSTERN_TEST_FULL: "1" },
    },
  );
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => output.push(chunk));
  const timer = setTimeout(() => child.kill("SIGKILL"), RUN_TIMEOUT_MS);
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  const text = output.join("").trim();
  return {
    passed: code === 0,
    hasFailedTest: /^\(fail\) /m.test(text),
    output: text.slice(-2_000),
  };
}

async function startPostgres(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const script = path.join(ROOT, "test", "support", "stores", "postgres-server.mjs");
  const server = spawn("node", [script, "log_min_messages=panic"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const url = await new Promise<string>((resolve, reject) => {
    server.stdout.setEncoding("utf8").once("data", (line: string) => resolve(line.trim()));
    server.on("exit", () => reject(new Error("PostgreSQL did not start")));
  });
  return { url, stop: () => server.stdin.end() };
}
