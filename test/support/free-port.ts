// Ports for processes that must know theirs before they start, or keep it when they start again.

import { createServer, type Server } from "node:net";

/** Below the ports that Linux, macOS and Windows give to outgoing connections and to servers on port 0. */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_000;

/** The first of `count` consecutive ports without a listener, at random: test files run in parallel. */
export async function freePort(count = 1): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT - count));
    const attempts = await Promise.allSettled(
      Array.from({ length: count }, (_, index) => listenOn(port + index)),
    );
    const servers = attempts.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    for (const server of servers) await new Promise((resolve) => server.close(resolve));
    if (servers.length === count) return port;
  }
}

function listenOn(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}
