// Opens the port. One of the few files that know the runtime: the rest of the house sees a Request and gives a Response.

import type { Peer } from "./request-handler.ts";

/** Silence on a connection after which it is closed. */
const IDLE_SECONDS = 60;

export interface Listener {
  readonly port: number;
  /** Takes no new connections; resolves when the open ones are done, or closes them when forced. */
  readonly stop: (force: boolean) => Promise<void>;
  readonly openRequests: () => number;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Another silence than a minute's. */
  readonly idleSeconds?: number;
}

export function listen(
  options: ListenOptions,
  handle: (request: Request, peer: Peer) => Promise<Response>,
): Listener {
  const { idleSeconds = IDLE_SECONDS } = options;
  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    idleTimeout: idleSeconds,
    // Each route has its own limit, and says so in its own form: what is not read takes no memory.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Otherwise a second gateway would share the port in silence, and the two would answer by turns.
    reusePort: false,
    fetch: async (request, server) => {
      let isIdleTimeoutDisabled = false;
      const response = await handle(request, {
        address: () => server.requestIP(request)?.address ?? "",
        disableIdleTimeout: () => {
          isIdleTimeoutDisabled = true;
          server.timeout(request, 0);
        },
      });
      // From here on every write counts as a sign of life; a reader that takes nothing is left.
      if (isIdleTimeoutDisabled) server.timeout(request, idleSeconds);
      return response;
    },
    error: () => new Response(null, { status: 500 }),
  });
  return {
    port: server.port ?? options.port,
    stop: (force) => server.stop(force),
    openRequests: () => server.pendingRequests,
  };
}
