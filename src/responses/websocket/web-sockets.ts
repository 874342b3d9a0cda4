// The open WebSockets on /v1/responses: how many a key and a network have, how long they live, and their end at a shutdown.

import { Fault } from "../../base/fault.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import type { Peer } from "../../http/request-context.ts";
import type { WebSocketHandlers } from "../../http/web-socket.ts";
import { createConnection, type ResponseConnection } from "./connection.ts";

const PER_KEY_MAX = 32;
const PER_NETWORK_MAX = 64;
const CONNECTIONS_MAX = 2_000;
const RETRY_SECONDS = 5;
/** OpenAI's limit. */
const LIFETIME_MS = 3_600_000;

export interface HandshakeInput {
  readonly keyId: string;
  readonly clientIp: string;
  readonly headers: Headers;
  readonly requestId: string;
}

export interface ResponseWebSockets {
  /** Throws if the key, its network or the process has too many. */
  readonly accept: (input: HandshakeInput) => WebSocketHandlers;
  /** Closes idle connections, and the others after the response in progress. */
  readonly startDraining: () => void;
}

export interface ResponseWebSocketsDeps {
  readonly handle: (request: Request, peer: Peer) => Promise<Response>;
  readonly baseUrl: string;
  readonly now: () => number;
  /** Overridden by tests. */
  readonly lifetimeMs?: number | undefined;
}

export function createResponseWebSockets(deps: ResponseWebSocketsDeps): ResponseWebSockets {
  const { lifetimeMs = LIFETIME_MS } = deps;
  const open = new Set<ResponseConnection>();
  const counts = new Map<string, number>();
  const add = (owner: string, by: number): void => {
    const count = (counts.get(owner) ?? 0) + by;
    if (count === 0) counts.delete(owner);
    else counts.set(owner, count);
  };
  return {
    accept: (input) => {
      const [network] = networksOf(input.clientIp);
      const owners = [`key ${input.keyId}`, `network ${network}`] as const;
      rejectOverLimit(open.size, counts.get(owners[0]) ?? 0, counts.get(owners[1]) ?? 0);
      const connection = createConnection({
        call: (body, signal) => call(deps, input, { body, signal }),
        now: deps.now,
        requestId: input.requestId,
        onClosed: () => {
          clearTimeout(timer);
          open.delete(connection);
          for (const owner of owners) add(owner, -1);
        },
      });
      const timer = setTimeout(() => connection.close("lifetime"), lifetimeMs);
      timer.unref();
      open.add(connection);
      for (const owner of owners) add(owner, 1);
      return connection.handlers;
    },
    startDraining: () => {
      for (const connection of open) connection.close("restart");
    },
  };
}

/** Headers of the handshake, and those that would apply to each of its calls in the same way. */
const HANDSHAKE_HEADERS = [
  "connection",
  "upgrade",
  "sec-websocket-key",
  "sec-websocket-version",
  "sec-websocket-extensions",
  "sec-websocket-protocol",
  "content-length",
  "transfer-encoding",
  "accept-encoding",
  "idempotency-key",
  "payment-signature",
] as const;
const BETA_FLAG = /^responses_websockets=/;

function call(
  { handle, baseUrl }: ResponseWebSocketsDeps,
  { headers: handshake, clientIp }: HandshakeInput,
  { body, signal }: { readonly body: string; readonly signal: AbortSignal },
): Promise<Response> {
  const headers = new Headers(handshake);
  for (const name of HANDSHAKE_HEADERS) headers.delete(name);
  headers.set("content-type", "application/json");
  const flags = (headers.get("openai-beta") ?? "").split(",").map((flag) => flag.trim());
  const kept = flags.filter((flag) => flag !== "" && !BETA_FLAG.test(flag));
  if (kept.length === 0) headers.delete("openai-beta");
  else headers.set("openai-beta", kept.join(", "));
  const peer: Peer = { address: () => clientIp, disableIdleTimeout: () => {} };
  return handle(
    new Request(`${baseUrl}/v1/responses`, { method: "POST", headers, body, signal }),
    peer,
  );
}

function rejectOverLimit(total: number, ofKey: number, ofNetwork: number): void {
  const isOverLimit =
    ofKey >= PER_KEY_MAX || ofNetwork >= PER_NETWORK_MAX || total >= CONNECTIONS_MAX;
  if (!isOverLimit) return;
  throw new Fault("rate_limited", "too many WebSockets", {
    message: `This key has ${ofKey} open WebSockets of ${PER_KEY_MAX}, its network ${ofNetwork} of ${PER_NETWORK_MAX}. Close some, or send POST requests over HTTP.`,
    retryAfterSeconds: RETRY_SECONDS,
  });
}
