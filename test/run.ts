// `npm test`: the checks, then every test file against real stores, two files at a time. Whatever fails is printed in
// full, and the last line counts all of it.

import { spawn } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { CHECKS, runCheck, showCheck } from "./check.ts";

const ROOT = path.dirname(import.meta.dir);
const SHARDS = 2;
const TEST_TIMEOUT_MS = 60_000;
const FILE_TIMEOUT_MS = 280_000;

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

const [postgres] = await Promise.all([startPostgres(), runChecks()]);
await runFiles(testFiles(), postgres?.url);
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
  return /ledger|histor|crash|kill|browser/.test(file) ? bytes + 1_000_000 : bytes;
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
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...plainEnvironment(),
        ...(databaseUrl === undefined ? {} : { POSTERN_TEST_DATABASE_URL: databaseUrl }),
      },
    },
  );
  const timer = setTimeout(() => child.kill("SIGKILL"), FILE_TIMEOUT_MS);
  const pieces: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => pieces.push(chunk));
  const code = await new Promise<number | null>((resolve) => {
    child.on("close", resolve);
  });
  clearTimeout(timer);
  const output = pieces.join("").trim();
  return {
    file,
    output,
    seconds: (performance.now() - started) / 1_000,
    ...tallyOf(output, code),
  };
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
