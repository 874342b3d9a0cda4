// A client on a plain socket, which can disconnect at any moment.

import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import type { TestAccount, Gateway } from "../../support/gateway.ts";
import {
  type Api,
  bodyOf,
  type Json,
  countOpenHolds,
  PATHS,
  simStats,
  waitUntil,
} from "./harness.ts";

export interface SocketClient {
  /** Everything received so far, including headers and chunk sizes. */
  readonly text: () => string;
  readonly bytes: () => number;
  readonly disconnect: () => void;
  /** Ends only the sending side. */
  readonly halfClose: () => void;
  /** Sends bytes after the request, such as a pipelined one. */
  readonly send: (bytes: string) => void;
  readonly pause: () => void;
  readonly resume: () => void;
  readonly closed: Promise<void>;
  /** Resolves when this text was received; rejects if the connection closes before. */
  readonly waitForText: (words: string) => Promise<void>;
}

export function openSocketClient(
  target: Pick<Gateway, "url">,
  account: TestAccount,
  /** Or the path of an API that has the model in it. */
  api: Api | `/${string}`,
  body: Json,
): SocketClient {
  const { hostname, port } = new URL(target.url);
  const socket: Socket = connect(Number(port), hostname);
  const sent = JSON.stringify(body);
  const headers = Object.entries({
    host: "gateway",
    ...account.headers,
    "content-length": String(Buffer.byteLength(sent)),
  });
  let text = "";
  let bytes = 0;
  let changed = Promise.withResolvers<void>();
  let isClosed = false;
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const closed = new Promise<void>((resolve) =>
    socket.on("close", () => {
      isClosed = true;
      notify();
      resolve();
    }),
  );
  socket.on("error", () => {});
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (text.length < 1_000_000) text += chunk.toString("latin1");
    notify();
  });
  socket.write(
    `POST ${isPath(api) ? api : PATHS[api]} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${sent}`,
  );
  return {
    text: () => text,
    bytes: () => bytes,
    disconnect: () => socket.destroy(),
    halfClose: () => void socket.end(),
    send: (bytes) => void socket.write(bytes),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    closed,
    waitForText: async (words) => {
      while (!text.includes(words)) {
        if (isClosed)
          throw new Error(`the connection closed before "${words}": ${text.slice(0, 500)}`);
        await changed.promise;
      }
    },
  };
}

function isPath(api: Api | `/${string}`): api is `/${string}` {
  return api.startsWith("/");
}

/** Disconnects, and waits until the gateway has seen it: it answers a later request only after that. */
export async function disconnectSeen(
  client: SocketClient,
  target: Pick<Gateway, "url">,
): Promise<void> {
  client.disconnect();
  await (await fetch(`${target.url}/healthz`)).text();
}

export interface SoakResult {
  readonly clients: number;
  readonly seconds: number;
  /** Milliseconds from the last disconnect until no stream is open upstream and nothing is held. */
  readonly cleanupMs: number;
  /** Memory after each tenth of the clients, in MiB. */
  readonly memoryMiB: readonly number[];
  readonly sockets: readonly number[];
}

/** Runs clients that disconnect in the middle of their stream. */
export async function disconnectManyClients(
  gateway: Gateway,
  account: TestAccount,
  options: {
    readonly clients: number;
    readonly concurrency: number;
    readonly onProgress?: (done: number) => void;
  },
): Promise<SoakResult> {
  const { clients, concurrency, onProgress } = options;
  const body = bodyOf("chat", "[[sim: tokens=200 chunks=200 pace=20]] on and on", { stream: true });
  const started = performance.now();
  const memoryMiB: number[] = [];
  const sockets: number[] = [];
  let next = 0;
  let done = 0;
  const runClients = async (): Promise<void> => {
    while (next++ < clients) {
      const client = openSocketClient(gateway, account, "chat", body);
      await client.waitForText('"content":');
      client.disconnect();
      await client.closed;
      if (++done % Math.ceil(clients / 10) !== 0) continue;
      memoryMiB.push(Math.round(process.memoryUsage.rss() / 1_048_576));
      sockets.push(countOpenFiles());
      onProgress?.(done);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, runClients));
  const seconds = (performance.now() - started) / 1_000;
  const last = performance.now();
  await waitUntil(
    () => simStats(gateway),
    (stats) => stats.open_streams === 0,
  );
  await waitUntil(
    () => countOpenHolds(gateway.server.db),
    (count) => count === 0,
  );
  return { clients, seconds, cleanupMs: performance.now() - last, memoryMiB, sockets };
}

/** Open file descriptors; 0 if the system does not list them. */
export function countOpenFiles(): number {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return 0;
  }
}
