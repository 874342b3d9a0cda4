// A provider on a plain socket that sends exactly the given bytes in the given chunks: also what no HTTP server library
// would send, such as half a reply.

import { createServer, type Server, type Socket } from "node:net";

export interface RawRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface RawReply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
  /** Where to split the body into chunks; one chunk by default. */
  readonly cuts?: readonly number[];
  /** Awaited before each chunk but the first, and before the ending. */
  readonly beforeNext?: (sentChunks: number) => Promise<unknown> | undefined;
  /** Sends this `content-length` instead of chunked encoding. */
  readonly length?: number;
  /** After the last chunk: the reply ends, the connection is closed, or nothing more is sent. */
  readonly ending?: "end" | "cut" | "silence";
}

export interface RawProvider {
  readonly url: string;
  readonly requests: RawRequest[];
  readonly openSockets: () => number;
  readonly stop: () => Promise<void>;
}

const encoder = new TextEncoder();

export async function startRawProvider(
  replyTo: (request: RawRequest) => RawReply | Promise<RawReply> | undefined,
): Promise<RawProvider> {
  const requests: RawRequest[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    let pending: Buffer = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      pending = Buffer.concat([pending, chunk]);
      const request = requestIn(pending);
      if (request === undefined) return;
      pending = Buffer.alloc(0);
      requests.push(request);
      const reply = replyTo(request);
      if (reply instanceof Promise) void reply.then((late) => send(socket, late));
      else if (reply !== undefined) void send(socket, reply);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    openSockets: () => sockets.size,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function requestIn(bytes: Buffer): RawRequest | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const [first = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(":")).toLowerCase(),
      line.slice(line.indexOf(":") + 1).trim(),
    ]),
  );
  const length = Number(headers["content-length"] ?? 0);
  if (bytes.length < end + 4 + length) return undefined;
  return {
    path: first.split(" ")[1] ?? "",
    headers,
    body: bytes.subarray(end + 4, end + 4 + length).toString("utf8"),
  };
}

async function send(socket: Socket, reply: RawReply): Promise<void> {
  const body = typeof reply.body === "string" ? encoder.encode(reply.body) : reply.body;
  const framing =
    reply.length === undefined ? "transfer-encoding: chunked" : `content-length: ${reply.length}`;
  const headers = { "content-type": "application/json", ...reply.headers };
  const head = Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
  socket.write(`HTTP/1.1 ${reply.status ?? 200} Status\r\n${head}${framing}\r\n\r\n`);
  let sentChunks = 0;
  for (const piece of pieces(body, reply.cuts ?? [])) {
    if (socket.destroyed) return;
    if (reply.length === undefined)
      socket.write(
        Buffer.concat([
          encoder.encode(`${piece.length.toString(16)}\r\n`),
          piece,
          encoder.encode("\r\n"),
        ]),
      );
    else socket.write(piece);
    await reply.beforeNext?.(++sentChunks);
  }
  if (reply.ending === "silence") return;
  if (reply.ending === "cut") socket.destroy();
  else if (reply.length === undefined) socket.write("0\r\n\r\n");
}

function* pieces(body: Uint8Array, slices: readonly number[]): Generator<Uint8Array> {
  let from = 0;
  for (const until of [...slices, body.length]) {
    if (until > from && until <= body.length) {
      yield body.subarray(from, until);
      from = until;
    }
  }
}

/** Random places to split at. */
export function randomCuts(length: number, random: () => number): number[] {
  const cuts: number[] = [];
  const most = Math.min(40, 1 + Math.floor(length / 20));
  for (let count = 0; count < most; count++) cuts.push(1 + Math.floor(random() * length));
  return [...new Set(cuts)].sort((left, right) => left - right);
}

/** Pseudorandom numbers from 0 to 1, the same in every run. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
