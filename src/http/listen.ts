// The HTTP listener. The only file of this folder, besides response-stream.ts, that uses Bun's own API.

import { createPipelineLimit } from "./guards/pipelining.ts";
import type { Peer } from "./request-context.ts";
import { MESSAGE_MAX_BYTES, SWITCHING_PROTOCOLS, type WebSocketHandlers } from "./web-socket.ts";

/** A connection without traffic is closed after this time. */
const IDLE_SECONDS = 60;
const WEB_SOCKET_IDLE_SECONDS = 120;
/**
 * A client with more unread bytes is disconnected. Senders wait while anything is unread, and the key's memory quota counts
 * it, so only the largest event of a stream (32 MiB) comes near this.
 */
const UNREAD_MAX_BYTES = 35_651_584;
const REJECTED_IDLE_SECONDS = 10;
const REJECTED_STATUSES: ReadonlySet<number> = new Set([401, 404, 405, 413, 429, 503]);

export interface Listener {
  readonly port: number;
  /** Stops accepting connections; resolves when the open ones are done, or closes them if `force`. */
  readonly stop: (force: boolean) => Promise<void>;
  readonly openRequests: () => number;
  /** From now on every response closes its connection, so that clients reconnect to another process of the port. */
  readonly closeConnections: () => void;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly idleSeconds?: number;
  /** Shares the port with other processes: the kernel spreads connections over them. */
  readonly isShared?: boolean;
}

export function listen(
  options: ListenOptions,
  handle: (request: Request, peer: Peer) => Promise<Response>,
): Listener {
  const { idleSeconds = IDLE_SECONDS, isShared = false } = options;
  let isClosing = false;
  const isPipelinedTooOften = createPipelineLimit();
  const server = Bun.serve<WebSocketHandlers>({
    hostname: options.host,
    port: options.port,
    idleTimeout: idleSeconds,
    // Routes have their own limits and error envelopes; an unread body takes no memory.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Off for a single process: a second one must fail to start.
    reusePort: isShared,
    fetch: async (request, server) => {
      if (isPipelinedTooOften(() => connectionOf(server.requestIP(request))))
        return new Response(null, { status: 429, headers: TOO_MANY_PIPELINED });
      let isIdleTimeoutDisabled = false;
      let webSocket: WebSocketHandlers | undefined;
      const response = await handle(request, {
        address: () => server.requestIP(request)?.address ?? "",
        disableIdleTimeout: () => {
          isIdleTimeoutDisabled = true;
          server.timeout(request, 0);
        },
        acceptWebSocket: (handlers) => {
          webSocket = handlers;
        },
      });
      if (webSocket !== undefined && response.status === SWITCHING_PROTOCOLS)
        return upgrade(server, request, { response, handlers: webSocket });
      // A rejected caller may have left its body unsent: its connection is kept for a shorter time.
      if (REJECTED_STATUSES.has(response.status))
        server.timeout(request, Math.min(idleSeconds, REJECTED_IDLE_SECONDS));
      // While the response is written, a client that reads nothing is disconnected.
      else if (isIdleTimeoutDisabled) server.timeout(request, idleSeconds);
      if (isClosing) response.headers.set("connection", "close");
      return response;
    },
    websocket: {
      maxPayloadLength: MESSAGE_MAX_BYTES,
      backpressureLimit: UNREAD_MAX_BYTES,
      closeOnBackpressureLimit: true,
      // Events are small, and the providers' streams are not compressed either.
      perMessageDeflate: false,
      // The server pings, so only a client that is gone or does not read is idle.
      idleTimeout: WEB_SOCKET_IDLE_SECONDS,
      open: (socket) =>
        socket.data.onOpen({
          send: (text) => void socket.send(text),
          unreadBytes: () => socket.getBufferedAmount(),
          close: (code, reason) => socket.close(code, reason),
        }),
      message: ({ data: handlers }, message) =>
        typeof message === "string" ? handlers.onMessage(message) : handlers.onBinary(),
      ping: (socket) => socket.data.onPing(),
      drain: (socket) => socket.data.onDrain(),
      close: (socket) => socket.data.onClose(),
    },
    error: () => new Response(null, { status: 500 }),
  });
  return {
    port: server.port ?? options.port,
    stop: (force) => server.stop(force),
    openRequests: () => server.pendingRequests + server.pendingWebSockets,
    closeConnections: () => {
      isClosing = true;
    },
  };
}

const TOO_MANY_PIPELINED = { connection: "close", "retry-after": "1" } as const;

function connectionOf(peer: Bun.SocketAddress | null): string {
  return `${peer?.address} ${peer?.port}`;
}

interface Handshake {
  readonly response: Response;
  readonly handlers: WebSocketHandlers;
}

function upgrade(
  server: Bun.Server<WebSocketHandlers>,
  request: Request,
  { response, handlers }: Handshake,
): Response | undefined {
  const { headers } = response;
  if (server.upgrade(request, { data: handlers, headers })) return undefined;
  // The connection was lost meanwhile.
  handlers.onClose();
  return new Response(null, { status: 400 });
}
