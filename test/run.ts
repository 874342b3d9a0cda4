// `npm test`: the checks and every test file against real stores, two files at a time. Whatever fails is printed in
// full, and the last line counts all of it.

import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { CHECKS, runCheck, showCheck } from "./check.ts";
import { prepareBrowser } from "./support/browser.ts";

const ROOT = path.dirname(import.meta.dir);
const SHARDS = 2;
const TEST_TIMEOUT_MS = 60_000;
const FILE_TIMEOUT_MS = 240_000;
/** How long the pipes of a file that has ended may stay open, held by a process that it left behind. */
const STRAGGLER_MS = 2_000;
/** Nothing may keep this run from its last line: a machine that waits for it learns nothing. */
const RUN_TIMEOUT_MS = 30 * 60_000;

/** What Bun says of a file in which all is well; anything else, such as a seed or a skipped test, is shown. */
const ROUTINE =
  /^\s*$|^\(pass\) |^bun test v|^test\/\S+:$|^ *\d+ (pass|fail|expect\(\) calls?)$|^Ran \d+ tests? /;

interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

interface FileResult extends Tally {
  readonly file: string;
  readonly seconds: number;
  readonly output: string;
}

const total: Tally = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
const began = performance.now();
const wanted = process.argv.slice(2);
const running = new Map<string, ChildProcess>();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => giveUp(signal));
setTimeout(() => giveUp(`${RUN_TIMEOUT_MS / 60_000} minutes are over`), RUN_TIMEOUT_MS).unref();

const [postgres] = await Promise.all([startPostgres(), prepareBrowser()]);
// Tests wait for much, and the checks fill those gaps.
await Promise.all([runFiles(testFiles(), postgres?.url), runChecks()]);
postgres?.stop();
for (const failure of failures) console.log(`\n${failure}`);
console.log(`\n${((performance.now() - began) / 1_000).toFixed(1)} s in all`);
const skipped = total.skipped === 0 ? "" : `, ${total.skipped} skipped`;
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
process.exit(total.failed === 0 ? 0 : 1);

async function runChecks(): Promise<void> {
  if (wanted.length > 0) return;
  for (const result of await Promise.all(CHECKS.map(runCheck))) {
    console.log(showCheck(result).split("\n", 1)[0]);
    count({ passed: Number(result.passed), failed: Number(!result.passed), skipped: 0 });
    if (!result.passed) failures.push(showCheck(result));
  }
}

/** Long files go first, so that no shard is left with one at the end; a file's size stands for its time. */
function testFiles(): readonly string[] {
  return readdirSync(path.join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.test\.tsx?$/.test(file))
    .map((file) => path.join("test", file))
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
    .map((file) => ({ file, bytes: statSync(path.join(ROOT, file)).size }))
    .toSorted((left, right) => weight(right) - weight(left))
    .map(({ file }) => file);
}

function weight({ file, bytes }: { readonly file: string; readonly bytes: number }): number {
  return /ledger|histor|crash|kill|browser|processes|hostile|background|slow/.test(file)
    ? bytes + 1_000_000
    : bytes;
}

async function runFiles(files: readonly string[], databaseUrl: string | undefined): Promise<void> {
  const queue = [...files];
  const shard = async (name: number): Promise<void> => {
    const started = performance.now();
    let files = 0;
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      report(await runFile(file, databaseUrl));
      files++;
    }
    console.log(
      `shard ${name}: ${files} files in ${((performance.now() - started) / 1_000).toFixed(1)} s`,
    );
  };
  await Promise.all(Array.from({ length: SHARDS }, (_, place) => shard(place + 1)));
}

function report(result: FileResult): void {
  const { passed, failed, skipped, file, seconds, output } = result;
  count(result);
  const counts = `${passed} passed${failed === 0 ? "" : `, ${failed} failed`}${skipped === 0 ? "" : `, ${skipped} skipped`}`;
  console.log(`${failed === 0 ? "ok  " : "FAIL"}  ${file}  ${counts}  ${seconds.toFixed(1)} s`);
  if (failed > 0) failures.push(`--- ${file}\n${output.replaceAll(/^\(pass\) .*\n/gm, "")}`);
  else
    for (const line of output.split("\n")) if (!ROUTINE.test(line)) console.log(`        ${line}`);
}

function count(tally: Tally): void {
  total.passed += tally.passed;
  total.failed += tally.failed;
  total.skipped += tally.skipped;
}

async function runFile(file: string, databaseUrl: string | undefined): Promise<FileResult> {
  const started = performance.now();
  const child = spawn(
    process.execPath,
    ["--no-env-file", "test", `--timeout=${TEST_TIMEOUT_MS}`, `./${file}`],
    {
      cwd: ROOT,
      // A group of its own, so that whatever a file starts can be ended with it.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...plainEnvironment(),
        ...(databaseUrl === undefined ? {} : { POSTERN_TEST_DATABASE_URL: databaseUrl }),
      },
    },
  );
  running.set(file, child);
  const pieces: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => pieces.push(chunk));
  const timer = setTimeout(() => {
    pieces.push(`\n${file} was ended after ${FILE_TIMEOUT_MS / 1_000} seconds.\n`);
    endGroup(child);
  }, FILE_TIMEOUT_MS);
  const code = await new Promise<number | null>((resolve) => {
    child.on("close", resolve);
    child.on("exit", (status) => {
      endGroup(child);
      setTimeout(() => resolve(status), STRAGGLER_MS);
    });
  });
  clearTimeout(timer);
  running.delete(file);
  const output = pieces.join("").trim();
  return {
    file,
    output,
    seconds: (performance.now() - started) / 1_000,
    ...tallyOf(output, code),
  };
}

function endGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // Nobody of the group is left.
  }
}

function giveUp(why: string): never {
  for (const [file, child] of running) {
    failures.push(`--- ${file} was still running.`);
    count({ passed: 0, failed: 1, skipped: 0 });
    endGroup(child);
  }
  for (const failure of failures) console.log(`\n${failure}`);
  console.log(`\nended early: ${why}\n${total.passed} passed, ${total.failed} failed`);
  process.exit(1);
}

// Bun's own summary: ` 12 pass`, ` 1 fail`, ` 2 skip`, ` 1 todo`. A file that ends badly without a failed test, or that
// ran no test at all, is itself a failure.
function tallyOf(output: string, code: number | null): Tally {
  const number = (word: string): number =>
    Number(new RegExp(`^\\s*(\\d+) ${word}s?$`, "m").exec(output)?.[1] ?? 0);
  const tally = {
    passed: number("pass"),
    failed: Math.max(number("fail"), number("error")),
    skipped: number("skip") + number("todo"),
  };
  const ranNothing = tally.passed + tally.failed + tally.skipped === 0;
  return tally.failed === 0 && (code !== 0 || ranNothing) ? { ...tally, failed: 1 } : tally;
}

/** The tests must not depend on the settings of whoever runs them. */
function plainEnvironment(): Record<string, string | undefined> {
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
    [path.join(ROOT, "test", "support", "postgres-server.mjs"), "log_min_messages=panic"],
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
    count({ passed: 0, failed: 1, skipped: 0 });
    failures.push("--- PostgreSQL did not start, so nothing was tested on it.");
    return undefined;
  }
  return { url, stop: () => server.stdin.end() };
}
