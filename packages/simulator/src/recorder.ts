// Records for tests: the latest requests as received, and how each stream ended.

import type { TokenCounts } from "./reply/compose-reply.ts";

const SECRET_HEADERS = new Set([
  "authorization",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
  "cookie",
  "proxy-authorization",
  "x-amz-security-token",
]);
const MAX_RECORDED_BYTES = 67_108_864;
const MAX_RECORDED_ABORTS = 1_000;
const SHOWN_SUFFIX_LENGTH = 4;

export type HeaderList = readonly (readonly [string, string])[];

interface RecordedRequest {
  readonly id: string;
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array;
}

interface AbortedStream {
  readonly id: string;
  readonly path: string;
  readonly model: string;
  readonly opened_at: number;
  readonly aborted_at: number;
  readonly bytes: number;
}

/** Tracks one reply. Only the first call that ends it counts. */
export interface ReplyTracker {
  readonly sent: (bytes: number) => void;
  readonly completed: () => void;
  readonly aborted: () => void;
  readonly cut: () => void;
  /** Ends the delay before a reply, which is not counted as a stream. */
  readonly delayCompleted: () => void;
}

export interface Recorder {
  readonly recordRequest: (request: RecordedRequest) => void;
  readonly trackReply: (reply: {
    readonly id: string;
    readonly path: string;
    readonly model: string;
  }) => ReplyTracker;
  readonly addUsage: (counts: TokenCounts) => void;
  readonly recentRequests: (limit: number) => unknown;
  readonly stats: () => unknown;
  readonly reset: () => void;
}

export function createRecorder(maxRequests: number, now: () => number): Recorder {
  let recorded: RecordedRequest[] = [];
  let recordedBytes = 0;
  let aborts: AbortedStream[] = [];
  let open = 0;
  let totals = emptyTotals();

  return {
    recordRequest(request) {
      totals.requests += 1;
      if (maxRequests === 0) return;
      recorded.push(request);
      recordedBytes += request.body.length;
      while (
        recorded.length > maxRequests ||
        (recordedBytes > MAX_RECORDED_BYTES && recorded.length > 1)
      )
        recordedBytes -= recorded.shift()?.body.length ?? 0;
    },
    trackReply(reply) {
      const openedAt = now();
      let bytes = 0;
      let isEnded = false;
      open += 1;
      const end = (outcome?: "completed_streams" | "aborted_streams" | "cut_streams"): boolean => {
        if (isEnded) return false;
        isEnded = true;
        open -= 1;
        if (outcome !== undefined) totals[outcome] += 1;
        return true;
      };
      return {
        sent: (addedBytes) => void (bytes += addedBytes),
        completed: () => void end("completed_streams"),
        cut: () => void end("cut_streams"),
        delayCompleted: () => void end(),
        aborted: () => {
          if (!end("aborted_streams")) return;
          aborts.push({ ...reply, opened_at: openedAt, aborted_at: now(), bytes });
          if (aborts.length > MAX_RECORDED_ABORTS) aborts.shift();
        },
      };
    },
    addUsage(counts) {
      totals.input_tokens += counts.input;
      totals.cache_read_tokens += counts.cacheRead;
      totals.cache_write_tokens += counts.cacheWrite5m + counts.cacheWrite1h;
      totals.output_tokens += counts.output;
      totals.reasoning_tokens += counts.reasoning;
    },
    recentRequests: (limit) => ({
      object: "list",
      data: recorded.slice(-limit).toReversed().map(redactedRequest),
    }),
    stats: () => ({ ...totals, open_streams: open, aborts }),
    reset() {
      recorded = [];
      recordedBytes = 0;
      aborts = [];
      totals = emptyTotals();
    },
  };
}

function emptyTotals() {
  return {
    requests: 0,
    completed_streams: 0,
    aborted_streams: 0,
    cut_streams: 0,
    input_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
  };
}

function redactedRequest(request: RecordedRequest): unknown {
  const { body, headers, path, ...rest } = request;
  return {
    ...rest,
    path: path.replace(/([?&]key=)[^&]*/g, (_, before: string) => `${before}[secret]`),
    headers: Object.fromEntries(
      headers.map(([name, value]) => [
        name,
        SECRET_HEADERS.has(name) ? redactSecret(value) : value,
      ]),
    ),
    body_bytes: body.length,
    ...bodyText(body),
  };
}

/** Keeps the end of a secret, so that tests can tell several apart. */
function redactSecret(value: string): string {
  return value.length > SHOWN_SUFFIX_LENGTH * 3
    ? `[secret …${value.slice(-SHOWN_SUFFIX_LENGTH)}]`
    : "[secret]";
}

/** The body as text if it is valid UTF-8, else as base64. */
function bodyText(body: Uint8Array): Readonly<Record<string, string>> {
  try {
    return { body: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body) };
  } catch {
    let binary = "";
    for (const byte of body) binary += String.fromCharCode(byte);
    return { body_base64: btoa(binary) };
  }
}
