// `npm test`: the checks and every test file against real stores, three batches at a time. Whatever fails is printed in
// full, and the last line counts all of it.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CHECKS, runCheck, formatCheck } from "./check.ts";
import { prepareBrowser } from "./support/browser/chromium.ts";

const ROOT = path.dirname(import.meta.dir);
const SHARDS = 3;
const TEST_TIMEOUT_MS = 60_000;
const BATCH_TIMEOUT_MS = 480_000;
/** A folder with more is cut in equal parts, so that no shard waits for one batch at the end. */
const BATCH_FILES_MAX = 10;
/** How long the pipes of a batch that has ended may stay open, held by a process that it left behind. */
const PIPE_CLOSE_MS = 2_000;
/** Nothing may keep this run from its last line: a machine that waits for it learns nothing. */
const RUN_TIMEOUT_MS = 30 * 60_000;

/** What Bun says of a file in which all is well; anything else, such as a seed or a skipped test, is shown. */
const ROUTINE_OUTPUT =
  /^\s*$|^\(pass\) |^bun test v|^test\/\S+:$|^ *\d+ (pass|fail|expect\(\) calls?)$|^Ran \d+ tests? /;

interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/** Test files that share a process: most of what a short one costs is to load the house, which is done once for all. */
interface Batch {
  readonly name: string;
  readonly files: readonly string[];
  readonly weight: number;
}

interface FileResult extends TestCounts {
  readonly file: string;
  readonly seconds: number;
}

interface BatchResult {
  readonly name: string;
  readonly files: readonly FileResult[];
  readonly seconds: number;
  readonly output: string;
}

const total: TestCounts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
const startedAt = performance.now();
const filters = process.argv.slice(2);
const runningBatches = new Map<string, ChildProcess>();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => abortRun(signal));
setTimeout(() => abortRun(`${RUN_TIMEOUT_MS / 60_000} minutes are over`), RUN_TIMEOUT_MS).unref();

const [postgres] = await Promise.all([startPostgres(), prepareBrowser()]);
// Tests wait for much, and the checks fill those gaps.
await Promise.all([runBatches(createBatches(), postgres?.url), runChecks()]);
postgres?.stop();
for (const failure of failures) console.log(`\n${failure}`);
console.log(`\n${((performance.now() - startedAt) / 1_000).toFixed(1)} s in all`);
const skipped = total.skipped === 0 ? "" : `, ${total.skipped} skipped`;
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
process.exit(total.failed === 0 ? 0 : 1);

async function runChecks(): Promise<void> {
  if (filters.length > 0) return;
  for (const result of await Promise.all(CHECKS.map(runCheck))) {
    console.log(formatCheck(result).split("\n", 1)[0]);
    addCounts({ passed: Number(result.passed), failed: Number(!result.passed), skipped: 0 });
    if (!result.passed) failures.push(formatCheck(result));
  }
}

/** Heavy batches go first, so that no shard is left with one at the end; the size of its files stands for its time. */
function createBatches(): readonly Batch[] {
  const files = readdirSync(path.join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.test\.tsx?$/.test(file))
    .map((file) => path.join("test", file))
    .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)));
  const byName = Map.groupBy(files, (file) => (isSlow(file) ? file : path.dirname(file)));
  return [...byName]
    .flatMap(([name, members]) =>
      splitFiles(members.toSorted()).map((part, index) => ({
        name: index === 0 ? name : `${name}, part ${index + 1}`,
        files: part,
        weight: weightOf(part),
      })),
    )
    .toSorted((left, right) => right.weight - left.weight);
}

function splitFiles(files: readonly string[]): readonly (readonly string[])[] {
  const parts = Math.ceil(files.length / BATCH_FILES_MAX);
  const size = Math.ceil(files.length / parts);
  return Array.from({ length: parts }, (_, part) => files.slice(part * size, (part + 1) * size));
}

function isSlow(file: string): boolean {
  return /ledger|histor|crash|kill|browser|process|hostile|background|slow|commands/.test(file);
}

function weightOf(files: readonly string[]): number {
  const bytes = files.map((file) => statSync(path.join(ROOT, file)).size);
  return bytes.reduce((sum, one) => sum + one, files.some(isSlow) ? 1_000_000 : 0);
}

async function runBatches(
  waiting: readonly Batch[],
  databaseUrl: string | undefined,
): Promise<void> {
  const queue = [...waiting];
  const shard = async (name: number): Promise<void> => {
    const started = performance.now();
    let files = 0;
    for (let batch = queue.shift(); batch !== undefined; batch = queue.shift()) {
      report(await runBatch(batch, databaseUrl));
      files += batch.files.length;
    }
    console.log(
      `shard ${name}: ${files} files in ${((performance.now() - started) / 1_000).toFixed(1)} s`,
    );
  };
  await Promise.all(Array.from({ length: SHARDS }, (_, index) => shard(index + 1)));
}

function report({ name, files, seconds, output }: BatchResult): void {
  for (const { file, seconds: own, ...tally } of files) {
    const { passed, failed, skipped } = tally;
    addCounts(tally);
    const counts = `${passed} passed${failed === 0 ? "" : `, ${failed} failed`}${skipped === 0 ? "" : `, ${skipped} skipped`}`;
    console.log(`${failed === 0 ? "ok  " : "FAIL"}  ${file}  ${counts}  ${own.toFixed(1)} s`);
  }
  if (files.length > 1)
    console.log(`      ${name}: ${files.length} files in ${seconds.toFixed(1)} s`);
  if (files.some(({ failed }) => failed > 0))
    failures.push(`--- ${name}\n${output.replaceAll(/^\(pass\) .*\n/gm, "")}`);
  else
    for (const line of output.split("\n"))
      if (!ROUTINE_OUTPUT.test(line)) console.log(`        ${line}`);
}

function addCounts(counts: TestCounts): void {
  total.passed += counts.passed;
  total.failed += counts.failed;
  total.skipped += counts.skipped;
}

async function runBatch(batch: Batch, databaseUrl: string | undefined): Promise<BatchResult> {
  const started = performance.now();
  const folder = mkdtempSync(path.join(tmpdir(), "postern-report-"));
  const reportFile = path.join(folder, "report.xml");
  const child = spawn(
    process.execPath,
    [
      "--no-env-file",
      "test",
      `--timeout=${TEST_TIMEOUT_MS}`,
      "--reporter=junit",
      `--reporter-outfile=${reportFile}`,
      ...batch.files.map((file) => `./${file}`),
    ],
    {
      cwd: ROOT,
      // A group of its own, so that whatever a file starts can be ended with it.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...cleanEnvironment(),
        ...(databaseUrl === undefined ? {} : { POSTERN_TEST_DATABASE_URL: databaseUrl }),
      },
    },
  );
  runningBatches.set(batch.name, child);
  const pieces: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => pieces.push(chunk));
  const timer = setTimeout(() => {
    pieces.push(`\n${batch.name} was ended after ${BATCH_TIMEOUT_MS / 1_000} seconds.\n`);
    killProcessGroup(child);
  }, BATCH_TIMEOUT_MS);
  const code = await new Promise<number | null>((resolve) => {
    child.on("close", resolve);
    child.on("exit", (status) => {
      killProcessGroup(child);
      setTimeout(() => resolve(status), PIPE_CLOSE_MS);
    });
  });
  clearTimeout(timer);
  runningBatches.delete(batch.name);
  const junitXml = existsSync(reportFile) ? readFileSync(reportFile, "utf8") : "";
  rmSync(folder, { recursive: true, force: true });
  return {
    name: batch.name,
    files: readJunitReport(batch, junitXml, code),
    output: pieces.join("").trim(),
    seconds: (performance.now() - started) / 1_000,
  };
}

function killProcessGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // Nobody of the group is left.
  }
}

function abortRun(reason: string): never {
  for (const [name, child] of runningBatches) {
    failures.push(`--- ${name} was still running.`);
    addCounts({ passed: 0, failed: 1, skipped: 0 });
    killProcessGroup(child);
  }
  for (const failure of failures) console.log(`\n${failure}`);
  console.log(`\nended early: ${reason}\n${total.passed} passed, ${total.failed} failed`);
  process.exit(1);
}

// Bun's own report in the form of JUnit. A file that ran no test at all is itself a failure, and so is a batch that ends
// badly without a failed test.
function readJunitReport(batch: Batch, report: string, code: number | null): readonly FileResult[] {
  const results = batch.files.map((file): FileResult => {
    const attributes = new RegExp(`<testsuite name="${file}" ([^>]*)>`).exec(report)?.[1] ?? "";
    const number = (name: string): number =>
      Number(new RegExp(`\\b${name}="([\\d.]+)"`).exec(attributes)?.[1] ?? 0);
    const [tests, failed, skipped] = [number("tests"), number("failures"), number("skipped")];
    return {
      file,
      passed: tests - failed - skipped,
      failed: tests === 0 ? 1 : failed,
      skipped,
      seconds: number("time"),
    };
  });
  const [first, ...others] = results;
  const isReported = code === 0 || results.some(({ failed }) => failed > 0);
  return first === undefined || isReported
    ? results
    : [{ ...first, failed: first.failed + 1 }, ...others];
}

/** The tests must not depend on the settings of whoever runs them. */
function cleanEnvironment(): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^(POSTERN_(?!RECORDINGS$|SPECS$)|DATABASE_URL$|OIDC_|STRIPE_|OTEL_)|_(API_KEY|BASE_URL)$/.test(
          name,
        ),
    ),
  );
}

async function startPostgres(): Promise<
  { readonly url: string; readonly stop: () => void } | undefined
> {
  const server = spawn(
    "node",
    [path.join(ROOT, "test", "support", "stores", "postgres-server.mjs"), "log_min_messages=panic"],
    {
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  const url = await new Promise<string | undefined>((resolve) => {
    server.stdout.setEncoding("utf8").once("data", (line: string) => resolve(line.trim()));
    server.on("error", () => resolve(undefined));
    server.on("exit", () => resolve(undefined));
  });
  if (url === undefined) {
    addCounts({ passed: 0, failed: 1, skipped: 0 });
    failures.push("--- PostgreSQL did not start, so nothing was tested on it.");
    return undefined;
  }
  return { url, stop: () => server.stdin.end() };
}
