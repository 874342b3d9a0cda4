// A pooler like PgBouncer in transaction mode, without its support of prepared statements: all clients share one server
// connection, which a client has for the length of a transaction.

import { connect, createServer, type Socket } from "node:net";

interface PooledClient {
  readonly socket: Socket;
  readonly waiting: Buffer[];
  /** Replies that are still to come. */
  pending: number;
}

/** Returns the URL of the pooler, and stops it when the test process ends. */
export async function startTransactionPooler(databaseUrl: string): Promise<string> {
  const { hostname, port } = new URL(databaseUrl);
  const state: { shared?: Socket; owner?: PooledClient } = {};
  const queue: PooledClient[] = [];
  const next = (): void => {
    if (state.owner !== undefined) return;
    const client = queue.shift();
    if (client === undefined) return;
    state.owner = client;
    for (const frame of client.waiting.splice(0)) sendFrame(client, frame);
  };
  const sendFrame = (client: PooledClient, frame: Buffer): void => {
    if (isType(frame, "Q") || isType(frame, "S")) client.pending += 1;
    state.shared?.write(frame);
  };
  const share = (upstream: Socket): void => {
    state.shared = upstream;
    onFrames(upstream, (frame) => {
      const { owner } = state;
      owner?.socket.write(frame);
      if (owner === undefined || !isType(frame, "Z")) return;
      owner.pending -= 1;
      if (owner.pending > 0 || frame[5] !== "I".charCodeAt(0)) return;
      delete state.owner;
      next();
    });
  };
  const attach = (socket: Socket): void => {
    const client: PooledClient = { socket, waiting: [], pending: 0 };
    onFrames(socket, (frame) => {
      if (isType(frame, "X")) return;
      if (state.owner === client) return sendFrame(client, frame);
      client.waiting.push(frame);
      if (!queue.includes(client)) queue.push(client);
      next();
    });
  };
  const server = createServer((socket) => {
    socket.on("error", () => {});
    const upstream = connect(Number(port), hostname);
    upstream.on("error", () => {});
    socket.on("data", (bytes) => upstream.write(bytes));
    // Each client authenticates at the server itself; then its own connection is not needed.
    onFrames(upstream, (frame) => {
      socket.write(frame);
      if (!isType(frame, "Z")) return;
      socket.removeAllListeners("data");
      upstream.removeAllListeners("data");
      if (state.shared === undefined) share(upstream);
      else upstream.destroy();
      attach(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the pooler has no port");
  const url = new URL(databaseUrl);
  url.port = String(address.port);
  return url.href;
}

function isType(frame: Buffer, type: string): boolean {
  return frame[0] === type.charCodeAt(0);
}

/** Calls back with each message: a type byte, a length, and the content. */
function onFrames(socket: Socket, onFrame: (frame: Buffer) => void): void {
  let buffer: Buffer = Buffer.alloc(0);
  socket.on("data", (bytes: Buffer) => {
    buffer = Buffer.concat([buffer, bytes]);
    while (buffer.length >= 5 && buffer.length >= buffer.readInt32BE(1) + 1) {
      const end = buffer.readInt32BE(1) + 1;
      const frame = buffer.subarray(0, end);
      buffer = buffer.subarray(end);
      onFrame(frame);
    }
  });
}
