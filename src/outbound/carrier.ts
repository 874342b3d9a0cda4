// Carries requests to providers and their replies back, on connections that are kept for the next. Why this is not the
// runtime's `fetch` is told in docs/decisions/0015-own-http-client.md.

import { deadline } from "../base/deadline.ts";
import { remembered } from "../base/remembered.ts";
import { abortSignalOf, type StopSignal } from "../base/stop.ts";
import {
  type Connection,
  CONNECTION_EVENTS,
  createConnection,
  type Exchange,
  type Fate,
  hangUp,
  onOver,
  sendOn,
  terminate,
} from "./connection.ts";
import { type Reply, replyOfResponse, unpacked } from "./reply.ts";
import { type Dial, dial as dialByRuntime, type Place } from "./socket.ts";

export interface Outgoing {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: StopSignal;
}

/** Sends a POST and resolves when the headers of its reply are there; rejects where there is none. */
export type Carry = (outgoing: Outgoing) => Promise<Reply>;

export interface Carrier {
  readonly carry: Carry;
  /** Closes the connections that nobody uses. */
  readonly close: () => void;
}

const CONNECT_MS = 10_000;
/** Shorter than the minute after which most servers close a silent connection. */
const IDLE_MS = 50_000;
const IDLE_MAX = 512;
const CLOSED_JUST_THEN_MS = 1_000;

interface Idle {
  readonly connection: Connection;
  readonly stop: () => void;
}

export function createCarrier(dial: Dial = dialByRuntime): Carrier {
  const idle = new Map<string, Idle[]>();
  const fate = keepingIn(idle);

  function take(origin: string): Connection | undefined {
    const kept = idle.get(origin)?.pop();
    kept?.stop();
    return kept?.connection;
  }

  async function open({ origin, place }: Target, signal: StopSignal): Promise<Connection> {
    const { connected, giveUp } = dial(place, CONNECTION_EVENTS, (socket) =>
      createConnection(socket, origin, fate),
    );
    const givenUp = Promise.withResolvers<never>();
    const stop = deadline(CONNECT_MS, () => {
      givenUp.reject(new Error(`no connection within ${CONNECT_MS / 1_000} seconds`));
      giveUp();
    });
    const left = (): void => {
      givenUp.reject(new Error("aborted"));
      giveUp();
    };
    signal.addEventListener("abort", left);
    try {
      return await Promise.race([connected, givenUp.promise]);
    } finally {
      stop();
      signal.removeEventListener("abort", left);
    }
  }

  async function carry(outgoing: Outgoing): Promise<Reply> {
    const { signal } = outgoing;
    if (signal.aborted) throw new Error("aborted");
    const target = targetOf(outgoing.url);
    const request = requestBytes(target, outgoing);
    const kept = take(target.origin);
    if (kept !== undefined) {
      const sentAt = performance.now();
      const exchange = sendOn(kept, request);
      try {
        return unpacked(await heeded(exchange, signal));
      } catch (error) {
        // A kept connection may have been closed at its other end just then: that says nothing about the provider. One
        // that is closed later may have been heard.
        const isLate = performance.now() - sentAt > CLOSED_JUST_THEN_MS;
        if (isLate || exchange.answered || signal.aborted) throw error;
      }
    }
    const connection = await open(target, signal);
    return unpacked(await heeded(sendOn(connection, request), signal));
  }

  return {
    carry,
    close: () => {
      const all = [...idle.values()].flat();
      for (const { connection } of all) terminate(connection);
    },
  };
}

/** Keeps what is free, so that the next call to the same place finds it. */
function keepingIn(idle: Map<string, Idle[]>): Fate {
  return {
    free: (connection) => {
      const { origin } = connection;
      const all = idle.get(origin) ?? [];
      if (all.length >= IDLE_MAX) return terminate(connection);
      idle.set(origin, all);
      all.push({ connection, stop: deadline(IDLE_MS, () => terminate(connection)) });
    },
    gone: (connection) => {
      const { origin } = connection;
      const all = idle.get(origin);
      const at = all?.findIndex((one) => one.connection === connection) ?? -1;
      if (all === undefined || at === -1) return;
      all.splice(at, 1)[0]?.stop();
      if (all.length === 0) idle.delete(origin);
    },
  };
}

/** The runtime's own client, which finds its way through a proxy that the environment names. */
export const carryByFetch: Carry = async ({ url, headers, body, signal }) =>
  replyOfResponse(
    await fetch(url, {
      method: "POST",
      headers,
      body,
      signal: abortSignalOf(signal),
      redirect: "manual",
      // The runtime's own limit of five minutes is the caller's to set.
      timeout: false,
    }),
  );

// The signal ends the exchange, its body included, and is let go when that is over.
function heeded(exchange: Exchange, signal: StopSignal): Promise<Reply> {
  const stop = (): void => hangUp(exchange);
  signal.addEventListener("abort", stop);
  onOver(exchange, () => signal.removeEventListener("abort", stop));
  if (signal.aborted) stop();
  return exchange.replied.promise;
}

interface Target {
  readonly origin: string;
  readonly place: Place;
  readonly host: string;
  readonly path: string;
}

/** The addresses of calls are few, and taking one apart is not for nothing. */
const targetOf = remembered((url: string): Target => {
  const { protocol, hostname, host, port, pathname, search, origin } = new URL(url);
  const secure = protocol === "https:";
  if (!secure && protocol !== "http:") throw new Error(`no address of HTTP: ${protocol}`);
  const place = {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: port === "" ? (secure ? 443 : 80) : Number(port),
    secure,
  };
  return { origin, place, host, path: pathname + search };
});

const NAME = /^[!#$%&'*+\-.^_`|~\w]+$/;
const NOT_IN_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Headers that say where a request goes and where it ends: they are said here, and once. */
const OURS = new Set(["host", "content-length", "transfer-encoding", "connection", "expect"]);

function requestBytes({ host, path }: Target, { headers, body }: Outgoing): Uint8Array {
  const bodyBytes = Buffer.byteLength(body);
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\n${linesOf(headers)}content-length: ${bodyBytes}\r\n\r\n`;
  const bytes = Buffer.allocUnsafe(head.length + bodyBytes);
  bytes.write(head, 0, "latin1");
  bytes.write(body, head.length, "utf8");
  return bytes;
}

const knownLines = new WeakMap<Outgoing["headers"], string>();

// Headers that are frozen are the same for many calls, and are looked at once.
function linesOf(headers: Outgoing["headers"]): string {
  const known = knownLines.get(headers);
  if (known !== undefined) return known;
  let lines = "";
  for (const name in headers) {
    const value = headers[name] ?? "";
    if (!NAME.test(name) || NOT_IN_A_VALUE.test(value) || OURS.has(name.toLowerCase()))
      throw new Error(`the header ${JSON.stringify(name)} cannot be sent`);
    lines += `${name}: ${value}\r\n`;
  }
  if (Object.isFrozen(headers)) knownLines.set(headers, lines);
  return lines;
}
