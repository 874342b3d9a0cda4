// The open WebSockets on /v1/responses: how many a key, an account and a network have, how long they live, and their end at a
// shutdown.

import { Fault } from "../../base/fault.ts";
import { HOUR_MS, SECOND_MS } from "../../base/time.ts";
import type { RateLimiter } from "../../http/guards/rate-limiter.ts";
import type { Peer } from "../../http/request-context.ts";
import { findApiKey } from "../../http/request/api-key-header.ts";
import type { BodyQuota } from "../../http/request/body-quota.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import type { AuthenticatedKey } from "../../http/route.ts";
import { MESSAGE_MAX_BYTES, type WebSocketHandlers } from "../../http/web-socket.ts";
import type { CreateFrame } from "./frames.ts";
import { createConnection, type ResponseConnection } from "./websocket-connection.ts";

/** An incomplete message takes up to 8 MiB, so a key keeps at most 256 MiB of them. */
const PER_KEY_MAX = 32;
const PER_ACCOUNT_MAX = 64;
const PER_NETWORK_MAX = 64;
const PER_WIDER_NETWORK_MAX = 128;
const CONNECTIONS_MAX = 2_000;
/** The part of the memory that incomplete messages of all connections can take. */
const MEMORY_SHARE = 0.25;
const RETRY_SECONDS = 5;
/** OpenAI's limit. */
const LIFETIME_MS = HOUR_MS;

interface HandshakeInput {
  readonly keyId: string;
  readonly accountId: string;
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
  /** Undefined if the key no longer works. */
  readonly findKeyById: (keyId: string, now: number) => Promise<AuthenticatedKey | undefined>;
  readonly baseUrl: string;
  readonly now: () => number;
  readonly bodyQuota: BodyQuota;
  /** The request rate of a key, in which each message counts; undefined for no limit. */
  readonly rateLimiter: () => RateLimiter | undefined;
  /** The memory of the machine or container. */
  readonly memoryBytes: number;
  /** Overridden by tests. */
  readonly lifetimeMs?: number | undefined;
}

export function createResponseWebSockets(deps: ResponseWebSocketsDeps): ResponseWebSockets {
  const { lifetimeMs = LIFETIME_MS } = deps;
  const connectionsMax = connectionsFor(deps.memoryBytes);
  const open = new Set<ResponseConnection>();
  const counts = new Map<string, number>();
  const add = (owner: string, by: number): void => {
    const count = (counts.get(owner) ?? 0) + by;
    if (count === 0) counts.delete(owner);
    else counts.set(owner, count);
  };
  return {
    accept: (input) => {
      const owners = ownersOf(input);
      rejectOverLimit(open.size >= connectionsMax, counts, owners);
      const quotaCaller = { id: input.keyId, groupId: input.accountId, kind: "key" } as const;
      const connection = createConnection({
        call: (frame, signal) => call(deps, input, frame, signal),
        now: deps.now,
        requestId: input.requestId,
        onClosed: () => {
          clearTimeout(timer);
          open.delete(connection);
          for (const { id } of owners) add(id, -1);
        },
        keepBytes: (bytes) => deps.bodyQuota.acquire(quotaCaller, bytes),
        countMessage: () => countMessage(deps, input.keyId),
        releaseBytes: (bytes) => deps.bodyQuota.release(quotaCaller, bytes),
      });
      const timer = setTimeout(() => connection.close("lifetime"), lifetimeMs);
      timer.unref();
      open.add(connection);
      for (const { id } of owners) add(id, 1);
      return connection.handlers;
    },
    startDraining: () => {
      for (const connection of open) connection.close("restart");
    },
  };
}

function countMessage({ rateLimiter, now }: ResponseWebSocketsDeps, keyId: string): void {
  const waitMs = rateLimiter()?.take(keyId, now()) ?? 0;
  if (waitMs > 0)
    throw new Fault("rate_limited", "key above its request rate", {
      retryAfterSeconds: waitMs / SECOND_MS,
    });
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
  "signature-input",
  "signature",
  "signature-agent",
  "content-digest",
] as const;
const BETA_FLAG = /^responses_websockets=/;

async function call(
  { handle, findKeyById, baseUrl, now }: ResponseWebSocketsDeps,
  { headers: handshake, clientIp, keyId }: HandshakeInput,
  { body, headers: ofMessage }: Pick<CreateFrame, "body" | "headers">,
  signal: AbortSignal,
): Promise<Response> {
  const headers = new Headers(handshake);
  for (const name of HANDSHAKE_HEADERS) headers.delete(name);
  for (const [name, value] of Object.entries(ofMessage)) headers.set(name, value);
  headers.set("content-type", "application/json");
  const flags = (headers.get("openai-beta") ?? "").split(",").map((flag) => flag.trim());
  const kept = flags.filter((flag) => flag !== "" && !BETA_FLAG.test(flag));
  if (kept.length === 0) headers.delete("openai-beta");
  else headers.set("openai-beta", kept.join(", "));
  // A signature is of one request: the messages have the key that the handshake was signed for.
  const isSigned =
    handshake.has("signature-input") && findApiKey({ headers }, "openai") === undefined;
  const sessionKey = isSigned ? await findKeyById(keyId, now()) : undefined;
  const peer: Peer = { address: () => clientIp, disableIdleTimeout: () => {}, sessionKey };
  return await handle(
    new Request(`${baseUrl}/v1/responses`, { method: "POST", headers, body, signal }),
    peer,
  );
}

export function connectionsFor(memoryBytes: number): number {
  const fitting = Math.floor((memoryBytes * MEMORY_SHARE) / MESSAGE_MAX_BYTES);
  return Math.max(1, Math.min(CONNECTIONS_MAX, fitting));
}

interface Owner {
  readonly id: string;
  readonly name: string;
  readonly max: number;
}

function ownersOf({ keyId, accountId, clientIp }: HandshakeInput): readonly Owner[] {
  const [network, widerNetwork] = networksOf(clientIp);
  return [
    { id: `key ${keyId}`, name: "This key", max: PER_KEY_MAX },
    { id: `account ${accountId}`, name: "This account", max: PER_ACCOUNT_MAX },
    { id: `network ${network}`, name: "Your network", max: PER_NETWORK_MAX },
    { id: `network ${widerNetwork}`, name: "Your wider network", max: PER_WIDER_NETWORK_MAX },
  ];
}

function rejectOverLimit(
  isFull: boolean,
  counts: ReadonlyMap<string, number>,
  owners: readonly Owner[],
): void {
  const over = owners.find(({ id, max }) => (counts.get(id) ?? 0) >= max);
  if (over === undefined && !isFull) return;
  const what =
    over === undefined
      ? "The gateway has as many open WebSockets as its memory allows. Send"
      : `${over.name} has ${over.max} open WebSockets, which is the limit. Close some, or send`;
  throw new Fault("rate_limited", "too many WebSockets", {
    message: `${what} POST requests over HTTP.`,
    retryAfterSeconds: RETRY_SECONDS,
  });
}
