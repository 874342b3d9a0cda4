// The other end of a connection, as bytes: what it does with each connection is told as a script, and no more than that
// happens.

import { createServer as createPlainServer, type Server as NetServer, type Socket } from "node:net";
import { createServer as createSecureServer } from "node:tls";
import type { Certificate } from "../support/certificate-authority.ts";

export interface ReceivedRequest {
  /** The request line and the headers, as Latin-1. */
  readonly head: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** One connection, as its server sees it. */
export interface ServerConnection {
  readonly number: number;
  readonly socket: Socket;
  /** The next whole request; undefined where the connection closes first. */
  readonly request: () => Promise<ReceivedRequest | undefined>;
  readonly send: (...pieces: readonly (string | Uint8Array)[]) => void;
  readonly isOpen: () => boolean;
}

export interface ScriptedServer {
  readonly url: string;
  readonly port: number;
  readonly connections: readonly ServerConnection[];
  readonly requests: readonly ReceivedRequest[];
  readonly openConnectionCount: () => number;
}

export interface ServerOptions {
  readonly host?: string;
  readonly certified?: Certificate;
}

const closers: (() => Promise<unknown>)[] = [];

/** Runs the script for every connection. */
export async function startServer(
  script: (line: ServerConnection) => unknown,
  { host = "127.0.0.1", certified }: ServerOptions = {},
): Promise<ScriptedServer> {
  const connections: ServerConnection[] = [];
  const requests: ReceivedRequest[] = [];
  const accept = (socket: Socket): void => {
    const line = serverConnection(socket, connections.length, requests);
    connections.push(line);
    void script(line);
  };
  const server: NetServer =
    certified === undefined ? createPlainServer(accept) : createSecureServer(certified, accept);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  closers.push(() => {
    for (const { socket } of connections) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http${certified === undefined ? "" : "s"}://${name}:${port}`,
    port,
    connections,
    requests,
    openConnectionCount: () => connections.filter(({ isOpen }) => isOpen()).length,
  };
}

export async function stopServers(): Promise<void> {
  await Promise.all(closers.splice(0).map((stop) => stop()));
}

/** Answers every request on every connection. */
export function respondToAll(reply: (asked: ReceivedRequest) => string | Uint8Array) {
  return async ({ request, send }: ServerConnection): Promise<void> => {
    for (let asked = await request(); asked !== undefined; asked = await request())
      send(reply(asked));
  };
}

export function okReply(body: string | Uint8Array, headers = ""): Buffer {
  const bytes = Buffer.from(body);
  const head = `HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n${headers}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bytes]);
}

export function chunk(body: string | Uint8Array): Buffer {
  const bytes = Buffer.from(body);
  const size = Buffer.from(`${bytes.length.toString(16)}\r\n`);
  return Buffer.concat([size, bytes, Buffer.from("\r\n")]);
}

export const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
export const LAST_CHUNK = "0\r\n\r\n";

/** Waits until it is so; false where it did not become so in time. */
export async function waitUntil(condition: () => boolean, withinMs = 1_000): Promise<boolean> {
  const end = performance.now() + withinMs;
  while (!condition() && performance.now() < end) await Bun.sleep(2);
  return condition();
}

/** Lets so much time pass for whatever has a deadline, which looks at the clock four times a second. */
export async function advanceClock(ms: number): Promise<void> {
  const now = performance.now.bind(performance);
  performance.now = () => now() + ms;
  try {
    await Bun.sleep(300);
  } finally {
    performance.now = now;
  }
}

function serverConnection(
  socket: Socket,
  number: number,
  all: ReceivedRequest[],
): ServerConnection {
  const ready: ReceivedRequest[] = [];
  const waiting: ((asked: ReceivedRequest | undefined) => void)[] = [];
  let isOpen = true;
  socket.on("error", () => {});
  socket.on("close", () => {
    isOpen = false;
    for (const resolve of waiting.splice(0)) resolve(undefined);
  });
  const read = createRequestReader((asked) => {
    all.push(asked);
    const first = waiting.shift();
    if (first === undefined) ready.push(asked);
    else first(asked);
  });
  socket.on("data", read);
  return {
    number,
    socket,
    isOpen: () => isOpen,
    request: () => {
      const asked = ready.shift();
      if (asked !== undefined) return Promise.resolve(asked);
      if (!isOpen) return Promise.resolve(undefined);
      return new Promise((resolve) => waiting.push(resolve));
    },
    send: (...pieces) => {
      for (const piece of pieces)
        socket.write(typeof piece === "string" ? Buffer.from(piece, "latin1") : piece);
    },
  };
}

function createRequestReader(found: (asked: ReceivedRequest) => void): (chunk: Buffer) => void {
  let pieces: Buffer[] = [];
  let size = 0;
  let head: { readonly text: string; readonly bodyAt: number; readonly end: number } | undefined;
  return (chunk) => {
    pieces.push(chunk);
    size += chunk.length;
    for (;;) {
      if (head === undefined || size >= head.end) pieces = [Buffer.concat(pieces)];
      const [bytes = Buffer.alloc(0)] = pieces;
      head ??= headIn(bytes);
      if (head === undefined || size < head.end) return;
      const { text, bodyAt, end } = head;
      const whole = pieces.length === 1 ? bytes : Buffer.concat(pieces);
      found({ ...parseHead(text), head: text, body: whole.subarray(bodyAt, end) });
      pieces = [whole.subarray(end)];
      size -= end;
      head = undefined;
      if (size === 0) return;
    }
  };
}

function headIn(bytes: Buffer) {
  const at = bytes.indexOf("\r\n\r\n");
  if (at === -1) return undefined;
  const text = bytes.toString("latin1", 0, at);
  const length = Number(/^content-length: *(\d+)$/im.exec(text)?.[1] ?? 0);
  return { text, bodyAt: at + 4, end: at + 4 + length };
}

function parseHead(text: string): Pick<ReceivedRequest, "path" | "headers"> {
  const [first = "", ...lines] = text.split("\r\n");
  const headers = lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { path: first.split(" ")[1] ?? "", headers: Object.fromEntries(headers) };
}
