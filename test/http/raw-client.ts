// A client below HTTP: it writes the bytes that it is told to, at the pace that it is told to, and keeps what comes.

import { connect, type Socket } from "node:net";
import type { Gateway } from "../support/gateway.ts";

export interface SocketOutput {
  /** Everything that came, as Latin-1. */
  readonly text: string;
  readonly isClosed: boolean;
  readonly ms: number;
}

export interface RawConnection {
  readonly socket: Socket;
  readonly output: () => SocketOutput;
  /** Resolves when the other side has closed, or when it has waited long enough. */
  readonly whenClosed: (withinMs: number) => Promise<SocketOutput>;
  /** Resolves as soon as so much has come, or closed, or waited. */
  readonly until: (pattern: RegExp, withinMs: number) => Promise<SocketOutput>;
}

export async function openRawConnection(gateway: Pick<Gateway, "url">): Promise<RawConnection> {
  const { hostname, port } = new URL(gateway.url);
  const started = performance.now();
  const chunks: string[] = [];
  let isClosed = false;
  const socket = connect(Number(port), hostname);
  socket.setNoDelay(true);
  socket.on("data", (chunk) => chunks.push(chunk.toString("latin1")));
  socket.on("error", () => {});
  socket.on("close", () => {
    isClosed = true;
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
  const wait = async (isEnough: () => boolean, withinMs: number): Promise<SocketOutput> => {
    const end = performance.now() + withinMs;
    while (!isEnough() && performance.now() < end) await sleep(5);
    return output();
  };
  return {
    socket,
    output,
    whenClosed: (withinMs) => wait(() => isClosed, withinMs),
    until: (pattern, withinMs) => wait(() => isClosed || pattern.test(output().text), withinMs),
  };
}

export interface RawResponse {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Sends bytes as they are and reads every answer that comes; the connection is closed after it. */
export async function sendRaw(
  gateway: Pick<Gateway, "url">,
  bytes: string | Uint8Array,
  withinMs = 1_000,
): Promise<{ readonly answers: readonly RawResponse[]; readonly closed: boolean }> {
  const line = await openRawConnection(gateway);
  line.socket.write(bytes);
  // A last request that is plain and asks for the end tells that nothing more comes before it.
  await line.until(/\r\n\r\n/, withinMs);
  const after = line.output();
  await sleep(after.isClosed ? 0 : 15);
  const { text, isClosed } = line.output();
  line.socket.destroy();
  return { answers: parseResponses(text), closed: isClosed };
}

export function parseResponses(text: string): readonly RawResponse[] {
  const answers: RawResponse[] = [];
  let rest = text;
  while (rest.startsWith("HTTP/1.1 ")) {
    const end = rest.indexOf("\r\n\r\n");
    if (end < 0) break;
    const head = rest.slice(0, end);
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    answers.push({
      status: Number(head.slice(9, 12)),
      head,
      body: rest.slice(end + 4, end + 4 + length),
    });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
