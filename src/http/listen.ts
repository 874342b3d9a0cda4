// Opens the port. One of the few files that know the runtime: the rest of the house sees a Request and gives a Response.

import type { Peer } from "./serve.ts";

/** Silence on a connection after which it is closed; model calls lift it and keep their own time. */
const IDLE_SECONDS = 60;
const BODY_MAX_BYTES = 33 * 1_048_576;

export interface Listener {
  readonly port: number;
  /** Takes no new connections; resolves when the open ones are done, or closes them when forced. */
  readonly stop: (force: boolean) => Promise<void>;
  readonly openRequests: () => number;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
}

export function listen(
  options: ListenOptions,
  handle: (request: Request, peer: Peer) => Promise<Response>,
): Listener {
  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: BODY_MAX_BYTES,
    development: false,
    // Otherwise a second gateway would share the port in silence, and the two would answer by turns.
    reusePort: false,
    fetch: (request, server) =>
      handle(request, {
        address: () => server.requestIP(request)?.address ?? "",
        keepOpen: () => server.timeout(request, 0),
      }),
    error: () => new Response(null, { status: 500 }),
  });
  return {
    port: server.port ?? options.port,
    stop: (force) => server.stop(force),
    openRequests: () => server.pendingRequests,
  };
}
