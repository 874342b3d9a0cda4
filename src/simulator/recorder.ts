// What the simulator saw, for tests to look at: the last requests as they came, and what became of the streams.

import type { Counts } from "./reply.ts";

const SECRET_HEADERS = new Set([
  "authorization",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
  "cookie",
  "proxy-authorization",
  "x-amz-security-token",
]);
const MAX_KEPT_BYTES = 67_108_864;
const MAX_KEPT_ABORTS = 1_000;
const SHOWN_END = 4;

export type Headers = readonly (readonly [string, string])[];

interface Seen {
  readonly id: string;
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

interface Abort {
  readonly id: string;
  readonly path: string;
  readonly model: string;
  readonly opened_at: number;
  readonly aborted_at: number;
  readonly bytes: number;
}

/** One reply on its way. It ends once. */
export interface Sending {
  readonly sent: (bytes: number) => void;
  readonly completed: () => void;
  readonly aborted: () => void;
  readonly cut: () => void;
  /** The wait before a reply is over, and counts as nothing by itself. */
  readonly waited: () => void;
}

export interface Recorder {
  readonly see: (seen: Seen) => void;
  readonly open: (about: {
    readonly id: string;
    readonly path: string;
    readonly model: string;
  }) => Sending;
  readonly count: (counts: Counts) => void;
  readonly requests: (limit: number) => unknown;
  readonly stats: () => unknown;
  readonly reset: () => void;
}

export function createRecorder(keep: number, now: () => number): Recorder {
  let seen: Seen[] = [];
  let keptBytes = 0;
  let aborts: Abort[] = [];
  let open = 0;
  let numbers = zeroes();

  return {
    see(request) {
      numbers.requests += 1;
      if (keep === 0) return;
      seen.push(request);
      keptBytes += request.body.length;
      while (seen.length > keep || (keptBytes > MAX_KEPT_BYTES && seen.length > 1))
        keptBytes -= seen.shift()?.body.length ?? 0;
    },
    open(about) {
      const openedAt = now();
      let bytes = 0;
      let over = false;
      open += 1;
      const end = (how?: "completed_streams" | "aborted_streams" | "cut_streams"): boolean => {
        if (over) return false;
        over = true;
        open -= 1;
        if (how !== undefined) numbers[how] += 1;
        return true;
      };
      return {
        sent: (more) => void (bytes += more),
        completed: () => void end("completed_streams"),
        cut: () => void end("cut_streams"),
        waited: () => void end(),
        aborted: () => {
          if (!end("aborted_streams")) return;
          aborts.push({ ...about, opened_at: openedAt, aborted_at: now(), bytes });
          if (aborts.length > MAX_KEPT_ABORTS) aborts.shift();
        },
      };
    },
    count(counts) {
      numbers.input_tokens += counts.input;
      numbers.cache_read_tokens += counts.read;
      numbers.cache_write_tokens += counts.write5m + counts.write1h;
      numbers.output_tokens += counts.output;
      numbers.reasoning_tokens += counts.reasoning;
    },
    requests: (limit) => ({ object: "list", data: seen.slice(-limit).toReversed().map(shown) }),
    stats: () => ({ ...numbers, open_streams: open, aborts }),
    reset() {
      seen = [];
      keptBytes = 0;
      aborts = [];
      numbers = zeroes();
    },
  };
}

function zeroes() {
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

function shown(request: Seen): unknown {
  const { body, headers, path, ...rest } = request;
  return {
    ...rest,
    path: path.replace(/([?&]key=)[^&]*/g, (_, before: string) => `${before}[secret]`),
    headers: Object.fromEntries(
      headers.map(([name, value]) => [name, SECRET_HEADERS.has(name) ? hidden(value) : value]),
    ),
    body_bytes: body.length,
    ...bodyText(body),
  };
}

/** The end of a secret tells which of several it was, and no more. */
function hidden(value: string): string {
  return value.length > SHOWN_END * 3 ? `[secret …${value.slice(-SHOWN_END)}]` : "[secret]";
}

/** The body as text where it is valid UTF-8, so that the text is the bytes; else base64. */
function bodyText(body: Uint8Array): Readonly<Record<string, string>> {
  try {
    return { body: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body) };
  } catch {
    let binary = "";
    for (const byte of body) binary += String.fromCharCode(byte);
    return { body_base64: btoa(binary) };
  }
}
