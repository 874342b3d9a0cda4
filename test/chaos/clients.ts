// The clients of a chaos run: calls through providers that fail in many ways, and clients that behave badly. A call may fail
// while a gateway or the store is down, but it must end.

import { connect } from "node:net";
import type { Random } from "../fuzz/random.ts";

interface ClientTarget {
  readonly url: string;
  readonly key: string;
}

/** Resolves with the request id if the client received the whole reply. */
type Client = (target: ClientTarget, random: Random) => Promise<string | undefined>;

const PROVIDER_FAULTS = [
  "status=500",
  "status=429 retry-after=1",
  "drop",
  "html",
  "error-body",
  "cut=2",
  "garble=2",
  "fail=2",
  "hang=2 hang-ms=300",
  "flood=256",
  "no-end",
  "slow=2",
  "slice=3",
  "usage=none",
  "usage=huge",
  "usage=negative",
] as const;
const CHAT_PATH = "/v1/chat/completions";
const TRICKLE_BYTES = 40;

/** By the behavior of the client or of its provider. */
export const CLIENTS: Readonly<Record<string, Client>> = {
  json: (target) => call(target, "hello", false),
  stream: (target) => call(target, "[[sim: tokens=20]] hello", true),
  "provider fault": (target, random) =>
    call(target, `[[sim: tokens=8 ${random.pick(PROVIDER_FAULTS)}]]`, random.chance(0.5)),
  vanishes: async (target, random) => {
    const leaving = AbortSignal.timeout(20 + random.integer(200));
    await call(target, "[[sim: tokens=100 pace=10]]", true, leaving).catch(() => {});
    return undefined;
  },
  trickles: async (target) => {
    const request = rawRequest(target, "close");
    const parts = request.match(new RegExp(`[^]{1,${TRICKLE_BYTES}}`, "g")) ?? [];
    return requestIdOf(await exchange(target, parts, { endsInput: false, replies: 1 }));
  },
  "half-closes": async (target) =>
    requestIdOf(
      await exchange(target, [rawRequest(target, "close")], { endsInput: true, replies: 1 }),
    ),
  pipelines: async (target) => {
    const both = rawRequest(target, "keep-alive") + rawRequest(target, "close");
    return requestIdOf(await exchange(target, [both], { endsInput: false, replies: 2 }));
  },
};

function bodyOf(content: string, stream: boolean): string {
  return JSON.stringify({
    model: "sim/echo",
    max_tokens: 100,
    stream,
    messages: [{ role: "user", content }],
  });
}

async function call(
  { url, key }: ClientTarget,
  content: string,
  stream: boolean,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const response = await fetch(url + CHAT_PATH, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: bodyOf(content, stream),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  const isWhole = stream ? text.endsWith("data: [DONE]\n\n") : text.endsWith("}");
  return response.status === 200 && isWhole && !text.includes('"error"')
    ? (response.headers.get("x-request-id") ?? undefined)
    : undefined;
}

function rawRequest({ key }: ClientTarget, connection: string): string {
  const body = bodyOf("hello", false);
  return [
    `POST ${CHAT_PATH} HTTP/1.1`,
    "Host: gateway.example",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    `Connection: ${connection}`,
    "",
    body,
  ].join("\r\n");
}

interface ExchangeOptions {
  readonly endsInput: boolean;
  readonly replies: number;
}

/** Sends the parts one by one, and resolves with all that came back when the connection ends. */
function exchange(
  { url }: ClientTarget,
  parts: readonly string[],
  { endsInput, replies }: ExchangeOptions,
): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let received = "";
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    socket.setNoDelay(true);
    const send = (index: number): void => {
      const part = parts[index];
      if (part !== undefined) socket.write(part, () => setImmediate(() => send(index + 1)));
      else if (endsInput) socket.end();
    };
    socket.on("connect", () => send(0));
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      const whole = received.split("HTTP/1.1 ").length - 1;
      if (whole === replies && received.endsWith("}")) socket.end();
    });
    socket.on("error", (error) => {
      if ("code" in error && error.code === "ECONNREFUSED") reject(error);
    });
    socket.on("end", () => socket.end());
    socket.on("close", () => resolve(received));
  });
}

function requestIdOf(received: string): string | undefined {
  const last = received.slice(received.lastIndexOf("HTTP/1.1 "));
  const isWhole = last.startsWith("HTTP/1.1 200") && last.endsWith("}");
  return isWhole ? /^x-request-id: (\S+)/im.exec(last)?.[1] : undefined;
}
