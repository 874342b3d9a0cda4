// A TCP client for tests below HTTP: writes bytes as given and collects what the server sends.

import { connect, type Socket } from "node:net";
import type { Gateway } from "../support/gateway.ts";

export interface SocketOutput {
  /** Everything received, as Latin-1. */
  readonly text: string;
  readonly isClosed: boolean;
  /** Time since the connection was opened. */
  readonly ms: number;
}

export interface RawConnection {
  readonly socket: Socket;
  readonly output: () => SocketOutput;
  /** Resolves when the bytes are handed to the kernel. */
  readonly write: (bytes: string | Uint8Array) => Promise<void>;
  /** Resolves when the server has closed the connection, or at the timeout. */
  readonly whenClosed: (timeoutMs?: number) => Promise<SocketOutput>;
  /** Resolves when the output matches, when the server has closed the connection, or at the timeout. */
  readonly until: (
    pattern: RegExp | ((text: string) => boolean),
    timeoutMs?: number,
  ) => Promise<SocketOutput>;
}

/** Only a failure takes this long. */
const TIMEOUT_MS = 180_000;

export async function openRawConnection(
  gateway: Pick<Gateway, "url">,
  localAddress?: string,
): Promise<RawConnection> {
  const { hostname, port } = new URL(gateway.url);
  const started = performance.now();
  const chunks: string[] = [];
  let isClosed = false;
  let changed = Promise.withResolvers<void>();
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const socket = connect({
    port: Number(port),
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    ...(localAddress === undefined ? {} : { localAddress }),
  });
  socket.setNoDelay(true);
  socket.on("data", (chunk) => {
    chunks.push(chunk.toString("latin1"));
    notify();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    isClosed = true;
    notify();
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  const output = (): SocketOutput => ({
    text: chunks.join(""),
    isClosed,
    ms: performance.now() - started,
  });
  const waitFor = async (isDone: () => boolean, timeoutMs: number): Promise<SocketOutput> => {
    const wait = { isTimedOut: false };
    const timer = setTimeout(() => {
      wait.isTimedOut = true;
      notify();
    }, timeoutMs);
    while (!isDone() && !wait.isTimedOut) await changed.promise;
    clearTimeout(timer);
    return output();
  };
  return {
    socket,
    output,
    write: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
    whenClosed: (timeoutMs = TIMEOUT_MS) => waitFor(() => isClosed, timeoutMs),
    until: (pattern, timeoutMs = TIMEOUT_MS) => {
      const isMatch =
        typeof pattern === "function" ? pattern : (text: string) => pattern.test(text);
      return waitFor(() => isClosed || isMatch(output().text), timeoutMs);
    },
  };
}

export interface RawResponse {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Sends bytes and reads until the first complete response. */
export async function sendRaw(
  gateway: Pick<Gateway, "url">,
  bytes: string | Uint8Array,
): Promise<RawResponse | undefined> {
  const connection = await openRawConnection(gateway);
  connection.socket.write(bytes);
  const { text } = await connection.until((received) => parseResponses(received).length > 0);
  connection.socket.destroy();
  return parseResponses(text)[0];
}

/** Sends bytes and reads until the server closes the connection. */
export async function sendRawUntilClosed(
  gateway: Pick<Gateway, "url">,
  bytes: string | Uint8Array,
): Promise<{ readonly responses: readonly RawResponse[]; readonly isClosed: boolean }> {
  const connection = await openRawConnection(gateway);
  connection.socket.write(bytes);
  const { text, isClosed } = await connection.whenClosed();
  connection.socket.destroy();
  return { responses: parseResponses(text), isClosed };
}

/** The complete responses in the output of a connection. */
export function parseResponses(text: string): readonly RawResponse[] {
  const responses: RawResponse[] = [];
  let rest = text;
  while (rest.startsWith("HTTP/1.1 ")) {
    const headEnd = rest.indexOf("\r\n\r\n");
    if (headEnd === -1) break;
    const head = rest.slice(0, headEnd);
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    const end = headEnd + 4 + length;
    if (rest.length < end) break;
    responses.push({ status: Number(head.slice(9, 12)), head, body: rest.slice(headEnd + 4, end) });
    rest = rest.slice(end);
  }
  return responses;
}
