// A client of the WebSocket on /v1/responses that keeps every event.

import { request } from "node:http";
import type { Json } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";

export interface TestSocket {
  readonly events: readonly Json[];
  readonly send: (message: Json | string) => void;
  /** Sends `response.create` and returns the event that ends it. */
  readonly create: (body: Json) => Promise<Json>;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  readonly close: () => void;
}

const FINAL_TYPES = [
  "response.completed",
  "response.incomplete",
  "response.failed",
  "error",
] as const;

function isFinal({ type }: Json): boolean {
  return FINAL_TYPES.some((one) => one === type);
}

export async function openSocket(
  gateway: { readonly url: string },
  headers: Readonly<Record<string, string>>,
): Promise<TestSocket> {
  const url = `${gateway.url.replace("http", "ws")}/v1/responses`;
  // Bun's client takes headers; the type of the standard does not have them.
  const socket = new WebSocket(url, { headers } as unknown as string);
  const events: Json[] = [];
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  socket.addEventListener("message", ({ data }) => events.push(JSON.parse(String(data)) as Json));
  socket.addEventListener("close", ({ code, reason }) => closed.resolve({ code, reason }));
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error("the WebSocket was not opened")));
  });
  const send = (message: Json | string): void =>
    socket.send(typeof message === "string" ? message : JSON.stringify(message));
  return {
    events,
    send,
    create: async (body) => {
      const before = events.filter(isFinal).length;
      send({ type: "response.create", ...body });
      await eventually(() => events.filter(isFinal).length > before);
      return events.filter(isFinal)[before] ?? {};
    },
    closed: closed.promise,
    close: () => socket.close(),
  };
}

/** The response to a handshake that is refused. */
export async function handshake(
  gateway: { readonly url: string },
  headers: Readonly<Record<string, string>>,
  path = "/v1/responses",
): Promise<{ status: number | undefined; headers: Json; body: string }> {
  const { promise, resolve, reject } =
    Promise.withResolvers<Awaited<ReturnType<typeof handshake>>>();
  const sent = request(gateway.url + path, {
    headers: {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
      ...headers,
    },
  });
  sent.on("upgrade", ({ statusCode, headers: received }, socket) => {
    socket.destroy();
    resolve({ status: statusCode, headers: received, body: "" });
  });
  sent.on("response", (response) => {
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => (body += chunk));
    response.on("end", () =>
      resolve({ status: response.statusCode, headers: response.headers, body }),
    );
  });
  sent.on("error", reject);
  sent.end();
  return promise;
}
