// A simulator behind a gate: while the gate is closed, calls wait, so that they are certain to be concurrent.

import { createSimulator } from "@postern/simulator";

export interface GatedSimulator {
  readonly url: string;
  /** The number of waiting calls. */
  readonly waiting: () => number;
  readonly open: () => void;
  readonly close: () => void;
  readonly stop: () => Promise<void>;
}

export function startGatedSimulator(): GatedSimulator {
  const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
  let waiting = 0;
  let gate = Promise.withResolvers<void>();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      // The body is read at once; only the response waits.
      const body = request.method === "POST" ? await request.bytes() : undefined;
      waiting += 1;
      await gate.promise;
      waiting -= 1;
      return simulator.fetch(
        new Request(request.url, {
          method: request.method,
          headers: request.headers,
          signal: request.signal,
          ...(body === undefined ? {} : { body }),
        }),
      );
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    waiting: () => waiting,
    open: () => gate.resolve(),
    close: () => {
      gate = Promise.withResolvers();
    },
    stop: () => server.stop(true),
  };
}
