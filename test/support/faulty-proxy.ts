// A wire to PostgreSQL that can be cut at the worst moment: when a commit is on its way and its answer is not yet back.

import { connect, createServer, type Socket } from "node:net";

export interface FaultyProxy {
  readonly url: string;
  /** Cuts the next connection that says `commit`, before or after the server hears of it; resolves when it is cut. */
  readonly cutAtCommit: (when: "before" | "after") => Promise<void>;
  /** From here on the server's machine is gone: no connection that is open now says anything, not even that it is closed. */
  readonly silence: () => void;
  /** Nothing comes through any more. */
  readonly stop: () => void;
  /** Again, at the same address. */
  readonly restart: () => Promise<void>;
}

const COMMIT = Buffer.from("commit\0");
const REPLY_MS = 30;

export async function startFaultyProxy(url: string): Promise<FaultyProxy> {
  const target = new URL(url);
  const port = Number(target.port);
  let pendingCut: { readonly when: "before" | "after"; readonly done: () => void } | undefined;
  const sockets = new Set<Socket>();
  let silenced = 0;
  let opened = 0;
  const server = createServer((client) => {
    const upstream = connect(port, target.hostname);
    let dropsReplies = false;
    const number = ++opened;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (chunk: Buffer) => {
      if (number <= silenced) return;
      if (pendingCut === undefined || !chunk.includes(COMMIT)) {
        upstream.write(chunk);
        return;
      }
      const { when, done } = pendingCut;
      pendingCut = undefined;
      dropsReplies = true;
      if (when === "after") upstream.write(chunk);
      setTimeout(() => {
        client.destroy();
        upstream.destroy();
        done();
      }, REPLY_MS);
    });
    upstream.on("data", (chunk: Buffer) => {
      if (!dropsReplies && number > silenced) client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  target.port = String(typeof address === "object" && address !== null ? address.port : 0);
  return {
    url: target.href,
    cutAtCommit: (when) =>
      new Promise((done) => {
        pendingCut = { when, done };
      }),
    silence: () => {
      silenced = opened;
    },
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
    restart: () => new Promise((risen) => server.listen(Number(target.port), "127.0.0.1", risen)),
  };
}
