// The HTTP listener. The only file of this folder, besides response-stream.ts, that uses Bun's own API.

import type { Peer } from "./request-context.ts";

/** A connection without traffic is closed after this time. */
const IDLE_SECONDS = 60;

export interface Listener {
  readonly port: number;
  /** Stops accepting connections; resolves when the open ones are done, or closes them if `force`. */
  readonly stop: (force: boolean) => Promise<void>;
  readonly openRequests: () => number;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
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
    // Routes have their own limits and error envelopes; an unread body takes no memory.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // With it, a second process would share the port instead of failing to start.
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
      // While the response is written, a client that reads nothing is disconnected.
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
