// A TCP proxy to PostgreSQL that can fail at a commit whose outcome the client then does not know.

import { connect, createServer, type Socket } from "node:net";

export interface FaultyProxy {
  readonly url: string;
  /** Closes the next connection that sends `commit`, before or after forwarding it; resolves when it is closed. */
  readonly cutAtCommit: (when: "before" | "after") => Promise<void>;
  /** Simulates a lost host: open connections transfer nothing and are not closed. */
  readonly silence: () => void;
  /** Delays everything that the client sends by this time. */
  readonly delay: (ms: number) => void;
  /** How often the client has sent something after a reply. */
  readonly roundTrips: () => number;
  /** Closes all connections and stops listening. */
  readonly stop: () => void;
  /** Listens again on the same port. */
  readonly restart: () => Promise<void>;
}

const COMMIT = Buffer.from("commit\0");
/** Names of prepared statements are printable, and the bytes before them are not. */
const NAME_FIRST_BYTE = 0x21;
const BIND = "B".charCodeAt(0);

/** Returns a function that finds a commit in what a connection sends, also one that was prepared by an earlier chunk. */
function createCommitFinder(): (chunk: Buffer) => boolean {
  let bound: Buffer | undefined;
  return (chunk) => {
    const at = chunk.indexOf(COMMIT);
    // `Parse` has the name of the statement before its text; `Query` has a length there.
    const isPrepared = at > 0 && chunk[at - 1] === 0;
    if (isPrepared) {
      let start = at - 1;
      while ((chunk[start - 1] ?? 0) >= NAME_FIRST_BYTE) start -= 1;
      bound = Buffer.concat([Buffer.of(0), chunk.subarray(start, at)]);
    }
    if (at >= 0 && !isPrepared) return true;
    if (bound === undefined) return false;
    // `Bind` has its type, its length and the name of a portal, which is empty, before the name of the statement.
    for (let from = chunk.indexOf(bound); from !== -1; from = chunk.indexOf(bound, from + 1))
      if (chunk[from - 5] === BIND) return true;
    return false;
  };
}
/** Time for the server to process the commit before the connection is closed. */
const REPLY_MS = 30;

export async function startFaultyProxy(url: string): Promise<FaultyProxy> {
  const target = new URL(url);
  const port = Number(target.port);
  let pendingCut: { readonly when: "before" | "after"; readonly resolve: () => void } | undefined;
  const sockets = new Set<Socket>();
  let silencedUpTo = 0;
  let openedConnections = 0;
  let delayMs = 0;
  let roundTrips = 0;
  let isReplying = true;
  const server = createServer((client) => {
    const upstream = connect(port, target.hostname);
    let dropsReplies = false;
    const hasCommit = createCommitFinder();
    const number = ++openedConnections;
    let delayedChunks = 0;
    // Later chunks wait too, so that the order is kept.
    let lastDelayed = Promise.resolve();
    const sendDelayed = (chunk: Buffer): void => {
      delayedChunks += 1;
      const waited = new Promise((resolve) => setTimeout(resolve, delayMs));
      lastDelayed = Promise.all([lastDelayed, waited]).then(() => {
        delayedChunks -= 1;
        upstream.write(chunk);
      });
    };
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
      if (number <= silencedUpTo) return;
      if (isReplying) roundTrips += 1;
      isReplying = false;
      const isCommit = hasCommit(chunk);
      if (pendingCut === undefined || !isCommit) {
        if (delayMs === 0 && delayedChunks === 0) upstream.write(chunk);
        else sendDelayed(chunk);
        return;
      }
      const { when, resolve } = pendingCut;
      pendingCut = undefined;
      dropsReplies = true;
      if (when === "after") upstream.write(chunk);
      setTimeout(() => {
        client.destroy();
        upstream.destroy();
        resolve();
      }, REPLY_MS);
    });
    upstream.on("data", (chunk: Buffer) => {
      isReplying = true;
      if (!dropsReplies && number > silencedUpTo) client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  target.port = String(typeof address === "object" && address !== null ? address.port : 0);
  return {
    url: target.href,
    cutAtCommit: (when) =>
      new Promise((resolve) => {
        pendingCut = { when, resolve };
      }),
    silence: () => {
      silencedUpTo = openedConnections;
    },
    delay: (ms) => {
      delayMs = ms;
    },
    roundTrips: () => roundTrips,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
    restart: () =>
      new Promise((resolve) => server.listen(Number(target.port), "127.0.0.1", resolve)),
  };
}
