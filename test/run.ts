// `npm test [part-of-path …]`: runs the static checks and the test files, with a PostgreSQL server. At the end it prints the
// output of failed batches, the skipped tests with their reasons, and the totals. `npm run test:full` also runs what
// test/support/full.ts leaves out.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CHECKS, runCheck, formatCheck } from "./check.ts";
import { prepareBrowser } from "./support/browser/chromium.ts";
import { type CpuSeconds, cpuSecondsOf } from "./support/process-cpu.ts";
import { buildProgram } from "./support/program.ts";
import { TEST_SEED } from "./support/random.ts";
import { SKIP_PREFIX } from "./support/skip.ts";

const ROOT = path.dirname(import.meta.dir);
/** More than the cores that most machines have: many tests wait for timers and other processes. */
const SHARDS = 6;
/** As in bin/bun.js: only a test that hangs takes this long. */
const TEST_TIMEOUT_MS = 240_000;
/** Of test code. Files share a process, because loading and compiling the server takes most of the time of a short file. */
const BATCH_BYTES = 400_000;
/**
 * In processes of a minute, optimized code saves less CPU time than its compilation takes, unless it runs very often. The benchmarks,
 * `fuzz` and `soak` have the defaults.
 */
const RUNTIME_SETTINGS = {
  BUN_JSC_useFTLJIT: "0",
  BUN_JSC_thresholdForOptimizeAfterWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeAfterLongWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeSoon: "10000",
  // As bin/postern.js: between sweeps of freed memory, which are otherwise every 100 ms.
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "2000",
  // Most of the heap of such a process are modules, which each collection marks again: it collects after so many new bytes, and not
  // also when it is idle.
  BUN_JSC_gcMaxHeapSize: "128000000",
  BUN_GC_TIMER_DISABLE: "1",
};
/** Of transpiled source files: each process loads hundreds, and transpiling them takes a third of that CPU time. */
const TRANSPILER_CACHE = path.join(ROOT, "node_modules", ".cache", "bun-transpiler");
/** Files of LONG_FILES that share a process: each process loads the gateway, and the files of pages share a browser. */
const LONG_FILES_PER_BATCH = 3;
/** Batches of long files begin in this order, so that no shard starts a long one at the end: those above ten seconds. */
const LONG_FILES: readonly string[] = [
  "browser/console-pages",
  "browser/tasks",
  "browser/first-use",
  "browser/public-pages",
  "browser/operator-pages",
  "claims/claim-browser",
  "clients/coding-agents",
  "commands/serve",
  "service-levels/service-levels",
  "service-levels/credit-bounds",
  "chaos/chaos",
  "inference/lifecycle/multiple-processes",
  "inference/lifecycle/media-kills",
  "inference/lifecycle/gateway-search-charges",
  "inference/lifecycle/gateway-tool-charges",
  "inference/lifecycle/rolling-bursts",
  "inference/lifecycle/collected-replies",
  "inference/lifecycle/killed-raises",
  "inference/streaming/ended-entrances",
  "fuzz/money/money",
  "batches/killed-batches",
  "batches/lost-batches",
  "batches/provider-batches",
  "translation/recordings/recordings",
  "translation/replay/replay",
  "inference/upstream/provider-failures",
  "responses/background",
  "email/emails",
  "billing/mpp/tempo-faults",
  "commands/drain-deadline",
  "commands/admin-accounts",
  "ledger/histories/histories",
  "commands/workers",
  "responses/stored-responses",
  "inference/lifecycle/hold-lifetime",
  "http/slow-clients",
  "inference/metering/abandoned-calls",
  "responses/background-stream",
  "inference/upstream/corrupted-replies",
  "commands/move",
  "billing/top-up/top-up-worker",
  "commands/rotate-secret",
  "billing/mpp/mpp-faults",
  "store/upgrade",
  "inference/lifecycle/store-outage",
  "inference/upstream/provider-timeouts",
  "deploy/proxies",
  "deploy/chart-pods",
  "deploy/pages",
].map((name) => `test/${name}.test.ts`);
/** Time for the pipes to close after a batch exits: a leaked child process can hold them open. */
const PIPE_CLOSE_MS = 2_000;
const SLOWEST_SHOWN = 20;
/** Each test has a limit of its own. This one is for a run that hangs. */
const RUN_TIMEOUT_MS = 60 * 60_000;

/** Bun's output for a passing file. Other lines, such as a random seed, are printed. */
const ROUTINE_OUTPUT =
  /^\s*$|^cpu [\d.]+ [\d.]+$|^\((?:pass|skip)\) |^skipped: |^bun test v|^(?:test|packages)\/\S+:$|^ *\d+ (?:pass|skip|fail|expect\(\) calls?)$|^Ran \d+ tests? /;

const CPU_LINE = /^cpu ([\d.]+) ([\d.]+)$/m;

interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/** Test files that share a process. */
interface Batch {
  readonly name: string;
  readonly files: readonly string[];
}

interface FileResult extends TestCounts {
  readonly file: string;
  readonly seconds: number;
  readonly cpu: CpuSeconds;
  readonly skipReasons: readonly string[];
}

interface BatchResult {
  readonly name: string;
  readonly files: readonly FileResult[];
  readonly seconds: number;
  readonly output: string;
}

interface RunningBatch {
  readonly child: ChildProcess;
  readonly output: string[];
}

const total: TestCounts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
const skips: string[] = [];
const fileTimes: FileResult[] = [];
const startedAt = performance.now();
const isFull = process.argv.includes("--full") || process.env["POSTERN_TEST_FULL"] === "1";
const filters = process.argv.slice(2).filter((argument) => argument !== "--full");
const runningBatches = new Map<string, RunningBatch>();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => abortRun(signal));
setTimeout(() => abortRun(`timeout of ${RUN_TIMEOUT_MS / 60_000} minutes`), RUN_TIMEOUT_MS).unref();

console.log(`seed ${TEST_SEED}`);
// The tests leave CPU time idle, which the checks use.
const checks = runChecks();
const programFolder = mkdtempSync(path.join(tmpdir(), "postern-program-"));
process.on("exit", () => rmSync(programFolder, { recursive: true, force: true }));
const [postgres, , program] = await Promise.all([
  startPostgres(),
  prepareBrowser(),
  buildProgram(programFolder),
]);
await Promise.all([runBatches(createBatches(), postgres?.url), checks]);
await postgres?.stop();
for (const failure of failures) console.log(`\n${failure}`);
if (skips.length > 0) console.log(`\nSkipped tests:\n${skips.toSorted().join("\n")}`);
console.log(
  `\nSlowest files, with the CPU time of the test and of its child processes:\n${slowestFiles()}`,
);
const cpu = cpuSecondsOf("self");
console.log(
  `\n${((performance.now() - startedAt) / 1_000).toFixed(1)} s in total, ${(cpu.own + cpu.children).toFixed(0)} s of CPU time`,
);
if (total.failed > 0)
  console.log(`POSTERN_TEST_SEED=${TEST_SEED} repeats the random choices of this run.`);
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

/** Alternates long files, which mostly wait, with batches of the other files, which compute. */
function createBatches(): readonly Batch[] {
  const files = ["test", "packages"].flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.test\.tsx?$/.test(file))
      .map((file) => path.join(folder, file))
      .toSorted(),
  );
  const missing = LONG_FILES.filter((file) => !files.includes(file));
  if (missing.length > 0)
    throw new Error(`LONG_FILES names files that do not exist: ${missing.join(" ")}`);
  if (new Set(LONG_FILES).size < LONG_FILES.length)
    throw new Error("LONG_FILES names a file twice, which would run twice");
  const isChosen = (file: string): boolean =>
    filters.length === 0 || filters.some((part) => file.includes(part));
  const long = groupBy(LONG_FILES.filter(isChosen), LONG_FILES_PER_BATCH);
  const others = groupBySize(files.filter((file) => isChosen(file) && !LONG_FILES.includes(file)));
  const turns = Math.max(long.length, others.length);
  return Array.from({ length: turns }, (_, turn) => [long[turn] ?? [], others[turn] ?? []])
    .flat()
    .filter((members) => members.length > 0)
    .map((members) => ({ name: nameOf(members), files: members }));
}

function groupBy(files: readonly string[], count: number): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(files.length / count) }, (_, index) =>
    files.slice(index * count, (index + 1) * count),
  );
}

function groupBySize(files: readonly string[]): readonly (readonly string[])[] {
  const groups: string[][] = [];
  let bytes = BATCH_BYTES;
  for (const file of files) {
    if (bytes >= BATCH_BYTES) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)?.push(file);
    bytes += statSync(path.join(ROOT, file)).size;
  }
  return groups;
}

function nameOf(files: readonly string[]): string {
  const [first = "", last = first] = [files[0], files.at(-1)];
  return first === last ? first : `${first} to ${last}`;
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
  for (const result of files) {
    const { file, seconds: fileSeconds, cpu, skipReasons, passed, failed, skipped } = result;
    addCounts(result);
    fileTimes.push(result);
    if (skipped > 0) skips.push(`  ${file} (${skipped}): ${skipReasons.join("; ")}`);
    const summary = `${passed} passed${failed === 0 ? "" : `, ${failed} failed`}${skipped === 0 ? "" : `, ${skipped} skipped`}`;
    console.log(
      `${failed === 0 ? "ok  " : "FAIL"}  ${file}  ${summary}  ${fileSeconds.toFixed(1)} s  ${formatCpu(cpu)}`,
    );
  }
  if (files.length > 1)
    console.log(`      ${name}: ${files.length} files in ${seconds.toFixed(1)} s`);
  if (files.some(({ failed }) => failed > 0))
    failures.push(`--- ${name}\n${output.replaceAll(/^\(pass\) .*\n/gm, "")}`);
  else
    for (const line of output.split("\n"))
      if (!ROUTINE_OUTPUT.test(line)) console.log(`        ${line}`);
}

function slowestFiles(): string {
  return fileTimes
    .toSorted((left, right) => right.seconds - left.seconds)
    .slice(0, SLOWEST_SHOWN)
    .map(
      ({ file, seconds, cpu }) => `${seconds.toFixed(1).padStart(7)} s  ${formatCpu(cpu)}  ${file}`,
    )
    .join("\n");
}

function formatCpu({ own, children }: CpuSeconds): string {
  return `CPU ${own.toFixed(1).padStart(5)} + ${children.toFixed(1).padStart(5)} s`;
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
      // A process group, so that its children can be killed with it.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...RUNTIME_SETTINGS,
        BUN_RUNTIME_TRANSPILER_CACHE_PATH: TRANSPILER_CACHE,
        ...cleanEnvironment(),
        POSTERN_TEST_PROGRAM: program,
        POSTERN_TEST_CPU: "1",
        POSTERN_TEST_FULL: isFull ? "1" : "0",
        ...(databaseUrl === undefined ? {} : { POSTERN_TEST_DATABASE_URL: databaseUrl }),
      },
    },
  );
  const output: string[] = [];
  runningBatches.set(batch.name, { child, output });
  const cpuAtStart = new Map<string, CpuSeconds>();
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output.push(chunk);
      // Bun prints the name of a file before it loads it.
      for (const [, file = ""] of chunk.matchAll(/^((?:test|packages)\/\S+):$/gm))
        cpuAtStart.set(file, cpuSecondsOf(child.pid ?? 0));
    });
  const code = await new Promise<number | null>((resolve) => {
    child.on("close", resolve);
    child.on("exit", (status) => {
      killProcessGroup(child);
      setTimeout(() => resolve(status), PIPE_CLOSE_MS);
    });
  });
  runningBatches.delete(batch.name);
  const junitXml = existsSync(reportFile) ? readFileSync(reportFile, "utf8") : "";
  rmSync(folder, { recursive: true, force: true });
  const text = output.join("").trim();
  return {
    name: batch.name,
    files: readJunitReport(batch, junitXml, {
      code,
      skipReasons: skipReasonsByFile(text),
      cpu: cpuByFile(cpuAtStart, text),
    }),
    output: text,
    seconds: (performance.now() - started) / 1_000,
  };
}

function killProcessGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group has exited.
  }
}

function abortRun(reason: string): never {
  for (const [name, { child, output }] of runningBatches) {
    failures.push(`--- ${name}: still running\n${output.join("").trim()}`);
    addCounts({ passed: 0, failed: 1, skipped: 0 });
    killProcessGroup(child);
  }
  for (const failure of failures) console.log(`\n${failure}`);
  console.log(`\naborted: ${reason}\n${total.passed} passed, ${total.failed} failed`);
  process.exit(1);
}

interface BatchExit {
  readonly code: number | null;
  readonly skipReasons: ReadonlyMap<string, readonly string[]>;
  readonly cpu: ReadonlyMap<string, CpuSeconds>;
}

// A file that ran no tests counts as failed, and so does a batch with a non-zero exit code but no failed test.
function readJunitReport(
  batch: Batch,
  report: string,
  { code, skipReasons, cpu }: BatchExit,
): readonly FileResult[] {
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
      cpu: cpu.get(file) ?? { own: 0, children: 0 },
      skipReasons: skipReasons.get(file) ?? ["no reason given"],
    };
  });
  const [first, ...others] = results;
  const isReported = code === 0 || results.some(({ failed }) => failed > 0);
  return first === undefined || isReported
    ? results
    : [{ ...first, failed: first.failed + 1 }, ...others];
}

/** The reasons printed by test/support/skip.ts, by the file that Bun named before them. */
function skipReasonsByFile(output: string): ReadonlyMap<string, readonly string[]> {
  const reasons = new Map<string, string[]>();
  let file = "";
  for (const line of output.split("\n")) {
    if (/^(?:test|packages)\/\S+:$/.test(line)) file = line.slice(0, -1);
    if (!line.startsWith(SKIP_PREFIX)) continue;
    reasons.set(file, [...(reasons.get(file) ?? []), line.slice(SKIP_PREFIX.length)]);
  }
  return reasons;
}

/** The differences of the process's CPU times at the starts of its files, and at its end, which preload.ts prints. */
function cpuByFile(
  atStart: ReadonlyMap<string, CpuSeconds>,
  output: string,
): ReadonlyMap<string, CpuSeconds> {
  const atEnd = CPU_LINE.exec(output);
  const starts = [...atStart.values()];
  // The first file also gets what the process needed to start.
  return new Map(
    [...atStart.keys()].map((file, index) => {
      const from = index === 0 ? undefined : starts[index];
      const to = starts[index + 1] ?? { own: Number(atEnd?.[1]), children: Number(atEnd?.[2]) };
      return [
        file,
        { own: to.own - (from?.own ?? 0), children: to.children - (from?.children ?? 0) },
      ];
    }),
  );
}

/** Without the settings of the shell, so that tests do not depend on them; with those of the tests. */
function cleanEnvironment(): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^(POSTERN_(?!RECORDINGS$|SPECS$|TEST_)|DATABASE_URL$|OIDC_|STRIPE_|OTEL_)|_(API_KEY|BASE_URL)$/.test(
          name,
        ),
    ),
  );
}

async function startPostgres(): Promise<
  { readonly url: string; readonly stop: () => Promise<void> } | undefined
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
    failures.push("--- PostgreSQL did not start: no test ran on it");
    return undefined;
  }
  const exited = new Promise<void>((resolve) => server.on("exit", () => resolve()));
  return {
    url,
    stop: async () => {
      server.stdin.end();
      await exited;
    },
  };
}
