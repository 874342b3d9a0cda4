// Sends generated requests to a gateway and checks what must hold for each of them, and for the gateway afterwards.

import { verifyLedger } from "../../src/verification/verify.ts";
import { countOpenHolds, waitUntil } from "../inference/support/harness.ts";
import { countOpenFiles } from "../inference/support/socket-client.ts";
import { randomFor } from "./random.ts";
import { rawBytesFor } from "./raw-bytes.ts";
import { exchangeRaw, type ParserPair, startParserPair } from "./raw-exchange.ts";
import { type FuzzRequest, requestAt } from "./requests.ts";
import { startTarget, type StartedTarget } from "./target.ts";

export interface FuzzOptions {
  readonly seed: number;
  /** Every tenth is raw bytes. */
  readonly requests: number;
  /** The first index. */
  readonly from?: number;
  readonly store?: "sqlite" | "postgres";
  /** Without it, the heap is not measured: that takes a full garbage collection. */
  readonly onProgress?: (done: number, heapMiB: number) => void;
}

export interface FuzzResult {
  readonly failures: readonly string[];
  /** Responses by status; `aborted` are requests that the fuzzer hung up on. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly heapMiB: readonly number[];
  readonly openFiles: readonly [before: number, after: number];
}

interface Run {
  readonly target: StartedTarget;
  readonly parsers: ParserPair;
  readonly seed: number;
  readonly failures: string[];
  readonly statuses: Map<string, number>;
}

const CONCURRENCY = 16;
const RAW_EVERY = 10;
const RESPONSE_TIMEOUT_MS = 30_000;
const SETTLED_TIMEOUT_MS = 60_000;
const FAILURES_MAX = 20;
const SHOWN_CHARACTERS = 600;
const PROGRESS_PARTS = 10;
/** Growth in the second half of a long run. The store's own caches and the pools of connections stay below it. */
const HEAP_GROWTH_MAX_MIB = 64;
const HEAP_CHECKED_REQUESTS = 20_000;
/** Kept-alive connections of the fuzzer and of the gateway to the simulator, both ends of each. */
const OPEN_FILES_GROWTH_MAX = 20 * CONCURRENCY;
/** Errors of a provider, which simulator directives cause, and of an open circuit. */
const PROVIDER_STATUSES: ReadonlySet<number> = new Set([502, 503, 504, 529]);

export async function runFuzz(options: FuzzOptions): Promise<FuzzResult> {
  const { seed, requests, from = 0, store = "sqlite", onProgress } = options;
  const target = await startTarget(store);
  const parsers = await startParserPair();
  const run: Run = { target, parsers, seed, failures: [], statuses: new Map() };
  const filesBefore = countOpenFiles();
  const heapMiB: number[] = [];
  let next = from;
  let done = 0;
  const worker = async (): Promise<void> => {
    while (next < from + requests && run.failures.length < FAILURES_MAX) {
      const index = next++;
      await (index % RAW_EVERY === RAW_EVERY - 1 ? sendRawAt(run, index) : sendAt(run, index));
      done += 1;
      if (onProgress === undefined || done % Math.ceil(requests / PROGRESS_PARTS) !== 0) continue;
      heapMiB.push(heapNow());
      onProgress(done, heapMiB.at(-1) ?? 0);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  await checkSettled(run);
  await parsers.stop();
  const openFiles = [filesBefore, countOpenFiles()] as const;
  checkResources(run, requests, heapMiB, openFiles);
  await target.stop();
  return {
    failures: run.failures,
    statuses: Object.fromEntries(
      [...run.statuses].toSorted(([left], [right]) => left.localeCompare(right)),
    ),
    heapMiB,
    openFiles,
  };
}

async function sendAt(run: Run, index: number): Promise<void> {
  const { target } = run;
  const request = requestAt(target, run.seed, index);
  const timeout = AbortSignal.timeout(request.abortAfterMs ?? RESPONSE_TIMEOUT_MS);
  try {
    const response = await fetch(target.gateway.url + request.target, {
      method: request.method,
      headers: request.headers,
      redirect: "manual",
      signal: timeout,
      ...(request.body === undefined ? {} : { body: request.body }),
    });
    const text = await response.text();
    count(run, String(response.status));
    target.remember(text);
    const problem = problemOf(response, text);
    if (problem !== undefined) fail(run, index, `${problem}: ${summary(request)} -> ${text}`);
    if (response.status === 401)
      await target.replaceKey((request.headers["authorization"] ?? "").slice("Bearer ".length));
  } catch (error) {
    count(run, request.abortAfterMs === undefined ? "error" : "aborted");
    if (request.abortAfterMs === undefined && !isExpectedError(request, error))
      fail(run, index, `${String(error)}: ${summary(request)}`);
  }
}

/** A stream that breaks at the provider breaks for the caller as well. */
function isExpectedError(request: FuzzRequest, error: unknown): boolean {
  return /\[\[sim/.test(request.body ?? "") && !String(error).includes("timed out");
}

function problemOf(response: Response, text: string): string | undefined {
  const { status } = response;
  const isRelayed = PROVIDER_STATUSES.has(status) || text.includes(`"provider_status":${status}`);
  if (status >= 500 && !isRelayed) return `status ${status}`;
  if (response.headers.get("x-request-id") === null) return "no x-request-id";
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("application/json") && text !== "" && !isParsable(text))
    return "a JSON response that is not JSON";
  return undefined;
}

async function sendRawAt(run: Run, index: number): Promise<void> {
  const bytes = rawBytesFor(randomFor(run.seed, index));
  const port = Number(new URL(run.target.gateway.url).port);
  const { responses, isClosed } = await exchangeRaw(port, bytes);
  for (const { status } of responses) {
    count(run, `raw ${status}`);
    // Bun's answer to another HTTP version.
    if (status >= 500 && status !== 505)
      fail(run, index, `status ${status}: ${JSON.stringify(bytes)}`);
  }
  // Once more, because a process without CPU time sees its timeout before the end of the connection.
  if (!isClosed && !(await exchangeRaw(port, bytes)).isClosed)
    fail(run, index, `the connection stays open: ${JSON.stringify(bytes)}`);
  const difference = await run.parsers.compare(bytes);
  if (difference !== undefined) fail(run, index, `${difference}: ${JSON.stringify(bytes)}`);
}

async function checkSettled({ target, failures }: Run): Promise<void> {
  const { db } = target.gateway.server;
  await target.gateway.server.idle();
  try {
    await waitUntil(
      () => countOpenHolds(db),
      (open) => open === 0,
      SETTLED_TIMEOUT_MS,
    );
  } catch (error) {
    failures.push(`open holds: ${String(error)}`);
  }
  const { problems } = await verifyLedger(db);
  failures.push(...problems.map((problem) => `ledger: ${problem}`));
  const negative = await db.all(
    "select account_id from wallet where promo < 0 or paid < 0 or held < 0",
    [],
  );
  failures.push(...negative.map((row) => `negative balance: ${String(row["account_id"])}`));
  for (const line of target.gateway.logLines)
    if (
      line.includes('"level":"error"') &&
      !/"code":"(upstream_|overloaded|provider_not_configured)/.test(line)
    )
      failures.push(`logged: ${line.slice(0, SHOWN_CHARACTERS)}`);
}

function checkResources(
  { failures }: Run,
  requests: number,
  heapMiB: readonly number[],
  [before, after]: readonly [number, number],
): void {
  if (after - before > OPEN_FILES_GROWTH_MAX)
    failures.push(`open files grew from ${before} to ${after}`);
  const half = heapMiB[Math.floor(heapMiB.length / 2)] ?? 0;
  const growth = (heapMiB.at(-1) ?? 0) - half;
  if (requests >= HEAP_CHECKED_REQUESTS && growth > HEAP_GROWTH_MAX_MIB)
    failures.push(`the heap grew by ${growth} MiB in the second half: ${heapMiB.join(" ")}`);
}

function count({ statuses }: Run, status: string): void {
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
}

/** One line that repeats the request. */
function fail({ failures, seed }: Run, index: number, problem: string): void {
  failures.push(
    `npm run fuzz -- 1 ${seed} ${index}  # ${problem.replaceAll(/\s+/g, " ").slice(0, 2 * SHOWN_CHARACTERS)}`,
  );
}

function summary({ method, target, headers, body = "" }: FuzzRequest): string {
  return `${method} ${target} ${JSON.stringify(headers)} ${body.slice(0, SHOWN_CHARACTERS)}`;
}

function isParsable(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function heapNow(): number {
  Bun.gc(true);
  return Math.round(process.memoryUsage().heapUsed / 1_048_576);
}
