// A proxy between a client and the gateway that records each exchange, over HTTP and WebSocket.

import type { Server, ServerWebSocket } from "bun";
import type { Json } from "../translation/support/harness.ts";

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
  /** Of a WebSocket message: 101, or the status of an error event that followed it. */
  status: number;
  /** The body of a rejection. */
  error?: string;
}

export interface RecordingProxy {
  readonly url: string;
  readonly exchanges: Exchange[];
  readonly stop: () => Promise<void>;
}

interface Tunnel {
  readonly path: string;
  readonly headers: Headers;
  readonly upstream: WebSocket;
  /** Sent by the client before the connection to the gateway was open. */
  readonly waiting: string[];
  last?: Exchange;
}

/** Headers of one connection, which are not forwarded. */
const CONNECTION_HEADER =
  /^(?:connection|upgrade|host|content-length|accept-encoding|sec-websocket-.*)$/;

export function startRecordingProxy(target: string): RecordingProxy {
  const exchanges: Exchange[] = [];
  const server = Bun.serve<Tunnel>({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: (request, self) => accept(request, self, target, exchanges),
    websocket: {
      open: (socket) => connect(socket, exchanges),
      message: ({ data }, message) => {
        const text = String(message);
        const { path, headers } = data;
        data.last = { method: "WS", path, headers, body: text, status: 101 };
        exchanges.push(data.last);
        if (data.upstream.readyState === WebSocket.OPEN) data.upstream.send(text);
        else data.waiting.push(text);
      },
      close: ({ data }) => data.upstream.close(),
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    exchanges,
    stop: () => server.stop(true),
  };
}

async function accept(
  request: Request,
  server: Server<Tunnel>,
  target: string,
  exchanges: Exchange[],
): Promise<Response | undefined> {
  const { pathname, search } = new URL(request.url);
  const path = pathname + search;
  const headers = new Headers(
    [...request.headers].filter(([name]) => !CONNECTION_HEADER.test(name)),
  );
  // The proxy would decompress the reply and keep its header.
  headers.set("accept-encoding", "identity");
  if (request.headers.get("upgrade") !== "websocket")
    return forward(request, { path, headers }, target, exchanges);
  // Bun's client takes headers; the type of the standard does not have them.
  const options = { headers: Object.fromEntries(headers) } as unknown as string;
  const upstream = new WebSocket(target.replace("http", "ws") + path, options);
  const data = { path, headers: request.headers, upstream, waiting: [] };
  return server.upgrade(request, { data })
    ? undefined
    : new Response("no upgrade", { status: 400 });
}

async function forward(
  request: Request,
  { path, headers }: { readonly path: string; readonly headers: Headers },
  target: string,
  exchanges: Exchange[],
): Promise<Response> {
  const { method } = request;
  const body = await request.text();
  const exchange: Exchange = { method, path, headers: request.headers, body, status: 0 };
  exchanges.push(exchange);
  const response = await fetch(target + path, {
    method,
    headers,
    signal: request.signal,
    redirect: "manual",
    ...(body === "" ? {} : { body }),
  });
  exchange.status = response.status;
  if (response.status >= 400) exchange.error = await response.clone().text();
  return response;
}

function connect(socket: ServerWebSocket<Tunnel>, exchanges: Exchange[]): void {
  const { data } = socket;
  const { upstream, waiting, path, headers } = data;
  upstream.onopen = () => {
    for (const text of waiting.splice(0)) upstream.send(text);
  };
  upstream.onmessage = ({ data: message }) => {
    const text = String(message);
    const event = JSON.parse(text) as Json;
    if (event["type"] === "error" && data.last !== undefined) {
      data.last.status = Number(event["status"]);
      data.last.error = text;
    }
    socket.send(text);
  };
  upstream.onclose = () => socket.close();
  upstream.onerror = () => {
    exchanges.push({ method: "WS", path, headers, body: "", status: 502 });
    socket.close();
  };
}
