// A TCP or TLS server for tests that runs a script for every connection and reads requests as bytes.

import { createServer as createPlainServer, type Server as NetServer, type Socket } from "node:net";
import { createServer as createSecureServer } from "node:tls";
import type { Certificate } from "../../../test/support/certificate-authority.ts";
import { startDeadline } from "../src/shared-deadlines.ts";

export interface ReceivedRequest {
  /** The request line and the headers, as Latin-1. */
  readonly head: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A connection, on the server's side. */
export interface ServerConnection {
  readonly number: number;
  readonly socket: Socket;
  /** The next complete request; undefined if the connection closes first. */
  readonly request: () => Promise<ReceivedRequest | undefined>;
  readonly send: (...parts: readonly (string | Uint8Array)[]) => void;
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
  /** Serves TLS with this certificate. */
  readonly certificate?: Certificate;
}

const closers: (() => Promise<unknown>)[] = [];

/** Runs the script for every connection. */
export async function startServer(
  script: (connection: ServerConnection) => unknown,
  { host = "127.0.0.1", certificate }: ServerOptions = {},
): Promise<ScriptedServer> {
  const connections: ServerConnection[] = [];
  const requests: ReceivedRequest[] = [];
  const accept = (socket: Socket): void => {
    const connection = serverConnection(socket, connections.length, requests);
    connections.push(connection);
    void script(connection);
  };
  const server: NetServer =
    certificate === undefined ? createPlainServer(accept) : createSecureServer(certificate, accept);
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
    url: `http${certificate === undefined ? "" : "s"}://${name}:${port}`,
    port,
    connections,
    requests,
    openConnectionCount: () => connections.filter(({ isOpen }) => isOpen()).length,
  };
}

export async function stopServers(): Promise<void> {
  await Promise.all(closers.splice(0).map((stop) => stop()));
}

/** A script that replies to every request. */
export function respondToAll(reply: (received: ReceivedRequest) => string | Uint8Array) {
  return async ({ request, send }: ServerConnection): Promise<void> => {
    for (let received = await request(); received !== undefined; received = await request())
      send(reply(received));
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

/**
 * Moves `performance.now` forward until src/shared-deadlines.ts has run all deadlines of that time. The clock stands still
 * meanwhile: on a busy machine, the wait would run later deadlines too.
 */
export async function advanceClock(ms: number): Promise<void> {
  const now = performance.now.bind(performance);
  const at = now() + ms;
  performance.now = () => at;
  try {
    // Deadlines run in the order of their start, so this one is the last.
    await new Promise<void>((resolve) => startDeadline(0, resolve));
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
  const waiting: ((received: ReceivedRequest | undefined) => void)[] = [];
  let isOpen = true;
  socket.on("error", () => {});
  socket.on("close", () => {
    isOpen = false;
    for (const resolve of waiting.splice(0)) resolve(undefined);
  });
  const read = createRequestReader((received) => {
    all.push(received);
    const first = waiting.shift();
    if (first === undefined) ready.push(received);
    else first(received);
  });
  socket.on("data", read);
  return {
    number,
    socket,
    isOpen: () => isOpen,
    request: () => {
      const received = ready.shift();
      if (received !== undefined) return Promise.resolve(received);
      if (!isOpen) return Promise.resolve(undefined);
      return new Promise((resolve) => waiting.push(resolve));
    },
    send: (...parts) => {
      for (const part of parts)
        socket.write(typeof part === "string" ? Buffer.from(part, "latin1") : part);
    },
  };
}

function createRequestReader(
  onRequest: (received: ReceivedRequest) => void,
): (chunk: Buffer) => void {
  let parts: Buffer[] = [];
  let size = 0;
  let head: { readonly text: string; readonly bodyAt: number; readonly end: number } | undefined;
  return (chunk) => {
    parts.push(chunk);
    size += chunk.length;
    for (;;) {
      if (head === undefined || size >= head.end) parts = [Buffer.concat(parts)];
      const [bytes = Buffer.alloc(0)] = parts;
      head ??= headIn(bytes);
      if (head === undefined || size < head.end) return;
      const { text, bodyAt, end } = head;
      const complete = parts.length === 1 ? bytes : Buffer.concat(parts);
      onRequest({ ...parseHead(text), head: text, body: complete.subarray(bodyAt, end) });
      parts = [complete.subarray(end)];
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
