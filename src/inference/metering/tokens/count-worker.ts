// The thread that counts tokens. It loads a tokenizer for the first text that needs it. A long free count is interrupted by the
// others, so that no caller keeps charges, or the counts of other callers, waiting.

import { parentPort } from "node:worker_threads";
import { memoize } from "../../../base/memoize.ts";

export type Encoding = "o200k_base" | "cl100k_base";

export interface CountRequest {
  readonly id: number;
  readonly text: string;
  readonly encoding: Encoding;
  /** Waits for all that are not free. */
  readonly isFree: boolean;
}

export interface CountResult {
  readonly id: number;
  readonly tokens: number;
}

interface Job extends Pick<CountRequest, "id" | "text" | "isFree"> {
  readonly count: (piece: string) => number;
  start: number;
  tokens: number;
}

const paid: Job[] = [];
const free: Job[] = [];
let isRunning = false;

parentPort?.on("message", async ({ encoding, ...request }: CountRequest) => {
  const count = await loadTokenizer(encoding);
  enqueue({ ...request, count, start: 0, tokens: 0 });
  if (!isRunning) await runJobs();
});

function enqueue(job: Job): void {
  (job.isFree ? free : paid).push(job);
}

async function runJobs(): Promise<void> {
  isRunning = true;
  for (let job = nextJob(); job !== undefined; job = nextJob()) {
    countSlice(job);
    const { id, text, start, tokens } = job;
    if (start < text.length) enqueue(job);
    else parentPort?.postMessage({ id, tokens } satisfies CountResult);
    // Messages arrive in between.
    await new Promise((resolve) => setImmediate(resolve));
  }
  isRunning = false;
}

function nextJob(): Job | undefined {
  return paid.shift() ?? free.shift();
}

const loadTokenizer = memoize(async (encoding: Encoding) => {
  const tokenizer =
    encoding === "o200k_base"
      ? await import("gpt-tokenizer/encoding/o200k_base")
      : await import("gpt-tokenizer/encoding/cl100k_base");
  // By default it keeps 100,000 pieces of the texts.
  tokenizer.setMergeCacheSize(0);
  return (text: string) => tokenizer.countTokens(text, PLAIN_TEXT);
});

/** A model's output may spell a special token. */
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

/** The time that the tokenizer takes grows with the square of a run without a space, such as base64. */
const PIECE_MAX_CHARS = 512;

/** About 20 ms. */
const SLICE_CHARS = 65_536;

function countSlice(job: Job): void {
  const { text, count } = job;
  const sliceEnd = Math.min(job.start + SLICE_CHARS, text.length);
  while (job.start < sliceEnd) {
    const end = pieceEnd(text, job.start);
    job.tokens += count(text.slice(job.start, end));
    // A cut within a run can only add a token. The count must not exceed the provider's.
    if (end < text.length && text[end] !== " ") job.tokens -= 1;
    job.start = end;
  }
}

/** Before the last single space: tokens begin with their space. */
function pieceEnd(text: string, start: number): number {
  const end = start + PIECE_MAX_CHARS;
  if (end >= text.length) return text.length;
  for (let at = end; at > start + PIECE_MAX_CHARS / 2; at--)
    if (text[at] === " " && isWordCharacter(text.charCodeAt(at + 1)) && text[at - 1] !== " ")
      return at;
  return isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end;
}

function isWordCharacter(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90);
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc_00 && code <= 0xdf_ff;
}
