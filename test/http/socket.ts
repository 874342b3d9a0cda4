// A client below HTTP: it writes the bytes that it is told to, at the pace that it is told to, and keeps what comes.

import { connect, type Socket } from "node:net";
import type { Gateway } from "../support/gateway.ts";

export interface Heard {
  /** Everything that came, as Latin-1. */
  readonly text: string;
  readonly closed: boolean;
  readonly ms: number;
}

export interface Line {
  readonly socket: Socket;
  readonly heard: () => Heard;
  /** Resolves when the other side has closed, or when it has waited long enough. */
  readonly over: (withinMs: number) => Promise<Heard>;
  /** Resolves as soon as so much has come, or closed, or waited. */
  readonly until: (pattern: RegExp, withinMs: number) => Promise<Heard>;
}

export async function openLine(at: Pick<Gateway, "url">): Promise<Line> {
  const { hostname, port } = new URL(at.url);
  const started = performance.now();
  const pieces: string[] = [];
  let closed = false;
  const socket = connect(Number(port), hostname);
  socket.setNoDelay(true);
  socket.on("data", (chunk) => pieces.push(chunk.toString("latin1")));
  socket.on("error", () => {});
  socket.on("close", () => {
    closed = true;
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  const heard = (): Heard => ({ text: pieces.join(""), closed, ms: performance.now() - started });
  const wait = async (isEnough: () => boolean, withinMs: number): Promise<Heard> => {
    const end = performance.now() + withinMs;
    while (!isEnough() && performance.now() < end) await pause(5);
    return heard();
  };
  return {
    socket,
    heard,
    over: (withinMs) => wait(() => closed, withinMs),
    until: (pattern, withinMs) => wait(() => closed || pattern.test(heard().text), withinMs),
  };
}

export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Sends bytes as they are and reads every answer that comes; the connection is closed after it. */
export async function exchange(
  at: Pick<Gateway, "url">,
  bytes: string | Uint8Array,
  withinMs = 1_000,
): Promise<{ readonly answers: readonly RawAnswer[]; readonly closed: boolean }> {
  const line = await openLine(at);
  line.socket.write(bytes);
  // A last request that is plain and asks for the end tells that nothing more comes before it.
  await line.until(/\r\n\r\n/, withinMs);
  const after = line.heard();
  await pause(after.closed ? 0 : 15);
  const { text, closed } = line.heard();
  line.socket.destroy();
  return { answers: answersIn(text), closed };
}

export function answersIn(text: string): readonly RawAnswer[] {
  const answers: RawAnswer[] = [];
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

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
