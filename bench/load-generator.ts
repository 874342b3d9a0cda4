// A load generator on plain sockets, cheap enough not to distort the measurements. It checks the status of every response.

export interface LoadOptions {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  readonly seconds: number;
  /** Ends the load earlier, after so many requests. */
  readonly calls?: number;
  /** Each request is that of one of these keys, at random. */
  readonly keys?: readonly string[];
}

export interface LoadResult {
  readonly requests: number;
  readonly failures: number;
  /** The status line of the first failed response. */
  readonly firstFailure: string | undefined;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

interface Connection {
  startedAt: number;
  text: string;
}

const HEAD_END = "\r\n\r\n";
const SUCCESS = "HTTP/1.1 200";

/** Repeats a request on every connection for the given time. */
export async function generateLoad(options: LoadOptions): Promise<LoadResult> {
  const { hostname, port } = new URL(options.url);
  const requests = (options.keys ?? [undefined]).map((key) => {
    const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return requestBytes(
      { ...options, headers: { ...options.headers, ...authorization } },
      hostname,
    );
  });
  let sent = 0;
  const nextRequest = (): Uint8Array => {
    sent += 1;
    return requests[Math.floor(Math.random() * requests.length)] ?? new Uint8Array();
  };
  const latencies: number[] = [];
  let failures = 0;
  let firstFailure: string | undefined;
  let open = options.connections;
  const done = Promise.withResolvers<void>();
  const startedAt = performance.now();
  const until = startedAt + options.seconds * 1_000;
  for (let index = 0; index < options.connections; index++) {
    await Bun.connect<Connection>({
      hostname,
      port: Number(port),
      socket: {
        open: (socket) => {
          socket.data = { startedAt: performance.now(), text: "" };
          socket.write(nextRequest());
        },
        data: (socket, chunk) => {
          socket.data.text += chunk.toString("latin1");
          if (!isComplete(socket.data.text)) return;
          const now = performance.now();
          if (socket.data.text.startsWith(SUCCESS)) latencies.push(now - socket.data.startedAt);
          else {
            failures += 1;
            firstFailure ??= socket.data.text.slice(0, socket.data.text.indexOf("\r\n"));
          }
          if (now >= until || sent >= (options.calls ?? Infinity)) {
            socket.end();
            return;
          }
          socket.data.text = "";
          socket.data.startedAt = now;
          socket.write(nextRequest());
        },
        close: () => {
          open -= 1;
          if (open === 0) done.resolve();
        },
        error: () => {
          failures += 1;
        },
      },
    });
  }
  await done.promise;
  const seconds = (performance.now() - startedAt) / 1_000;
  latencies.sort((left, right) => left - right);
  return {
    requests: latencies.length,
    failures,
    firstFailure,
    perSecond: latencies.length / seconds,
    p50Ms: latencies[Math.floor(latencies.length * 0.5)] ?? Number.NaN,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN,
  };
}

export interface StreamsOptions extends Omit<LoadOptions, "seconds" | "calls" | "keys"> {
  readonly timeoutSeconds: number;
  /** Between two streams; without it, all open as fast as possible. */
  readonly intervalMs?: number;
}

export interface StreamsResult {
  readonly completed: number;
  readonly failures: number;
  readonly events: number;
  /** Time to the first token of each stream, in ascending order. */
  readonly firstTokensMs: readonly number[];
  readonly firstTokenP50Ms: number;
  readonly firstTokenP99Ms: number;
  readonly seconds: number;
}

/** Opens the streams without waiting for the end of others, and reads each to its end. */
export async function openStreams(options: StreamsOptions): Promise<StreamsResult> {
  const { hostname, port } = new URL(options.url);
  const bytes = requestBytes(options, hostname);
  const firsts: number[] = [];
  let completed = 0;
  let failures = 0;
  let events = 0;
  let open = options.connections;
  const done = Promise.withResolvers<void>();
  const startedAt = performance.now();
  const timer = setTimeout(done.resolve, options.timeoutSeconds * 1_000);
  const closed = (): void => {
    open -= 1;
    if (open === 0) done.resolve();
  };
  for (let index = 0; index < options.connections; index++) {
    // The load is defined by this interval.
    const waitMs = startedAt + index * (options.intervalMs ?? 0) - performance.now();
    if (waitMs > 0) await Bun.sleep(waitMs);
    await Bun.connect<Connection & { first: boolean; ended: boolean }>({
      hostname,
      port: Number(port),
      socket: {
        open: (socket) => {
          socket.data = { startedAt: performance.now(), text: "", first: false, ended: false };
          socket.write(bytes);
        },
        data: (socket, chunk) => {
          const text = socket.data.text + chunk.toString("latin1");
          // A refused call is not streamed, so its end would not be recognized.
          if (!socket.data.first && text.startsWith("HTTP/1.1 ") && !text.startsWith(SUCCESS)) {
            socket.end();
            return;
          }
          if (!socket.data.first && text.includes("data: ")) {
            socket.data.first = true;
            firsts.push(performance.now() - socket.data.startedAt);
          }
          events += countOf(text, "\ndata: ") - countOf(socket.data.text, "\ndata: ");
          socket.data.text = text.slice(-16);
          if (!socket.data.ended && text.endsWith("\r\n0\r\n\r\n")) {
            socket.data.ended = true;
            completed += 1;
            socket.end();
          }
        },
        close: closed,
        error: () => {
          failures += 1;
        },
      },
    });
  }
  await done.promise;
  clearTimeout(timer);
  const all = { completed, failures: failures + options.connections - completed, events };
  return { ...all, ...firstTokenStats(firsts), seconds: (performance.now() - startedAt) / 1_000 };
}

/** Opens one stream after another, so that streams do not wait for each other. */
export async function openSequentially(
  times: number,
  options: StreamsOptions,
): Promise<StreamsResult> {
  const results: StreamsResult[] = [];
  for (let time = 0; time < times; time++) results.push(await openStreams(options));
  const sum = (name: "completed" | "failures" | "events" | "seconds"): number =>
    results.reduce((total, result) => total + result[name], 0);
  return {
    completed: sum("completed"),
    failures: sum("failures"),
    events: sum("events"),
    seconds: sum("seconds"),
    ...firstTokenStats(results.flatMap(({ firstTokensMs }) => firstTokensMs)),
  };
}

function firstTokenStats(
  ms: readonly number[],
): Pick<StreamsResult, "firstTokensMs" | "firstTokenP50Ms" | "firstTokenP99Ms"> {
  const sorted = ms.toSorted((left, right) => left - right);
  const percentile = (share: number): number =>
    sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return {
    firstTokensMs: sorted,
    firstTokenP50Ms: percentile(0.5),
    firstTokenP99Ms: percentile(0.99),
  };
}

function requestBytes(
  options: Pick<LoadOptions, "path" | "headers" | "body">,
  host: string,
): Uint8Array {
  const headers = {
    host,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(options.body)),
    ...options.headers,
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return new TextEncoder().encode(
    `POST ${options.path} HTTP/1.1\r\n${head.join("")}\r\n${options.body}`,
  );
}

function isComplete(text: string): boolean {
  const end = text.indexOf(HEAD_END);
  if (end === -1) return false;
  const length = /content-length: (\d+)/i.exec(text.slice(0, end));
  if (length !== null) return text.length >= end + HEAD_END.length + Number(length[1]);
  return text.endsWith("\r\n0\r\n\r\n");
}

function countOf(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length))
    count += 1;
  return count;
}
