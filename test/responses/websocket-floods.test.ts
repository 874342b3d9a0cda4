// Messages that cost a client little and the gateway much: the connection is closed, and others are served meanwhile.

import { afterEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { expectSettledLedger, simStats } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { call, fundedAccount, openGateway } from "./harness.ts";
import { openSocket } from "./websocket-client.ts";

const MODEL = "sim/echo";
const FLOOD_BYTES = 7_000_000;
/** All that a flooded connection may send: some errors and the close frame. */
const REPLY_MAX_BYTES = 16_384;

const OPCODES = { text: 0x81, binary: 0x82, ping: 0x89, begin: 0x01, continue: 0x80 } as const;

/** A frame of a client (RFC 6455 §5.2), with a mask of zeros. */
function frame(opcode: number, payload: string): Uint8Array {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(payload.length);
  const head = payload.length < 126 ? [0x80 | payload.length] : [0x80 | 126, ...length];
  return Buffer.concat([Buffer.from([opcode, ...head, 0, 0, 0, 0]), Buffer.from(payload)]);
}

let gateway: Gateway;
afterEach(() => gateway.stop());

interface RawSocket {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  readonly received: () => Uint8Array;
}

async function openRawSocket({ headers }: TestAccount): Promise<RawSocket> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.write(
    `GET /v1/responses HTTP/1.1\r\nHost: ${hostname}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: ${headers["authorization"]}\r\n\r\n`,
  );
  await new Promise((resolve) => socket.once("data", resolve));
  const chunks: Uint8Array[] = [];
  socket.on("data", (chunk: Uint8Array) => chunks.push(chunk));
  // The gateway closes the connection while the flood is being written.
  socket.on("error", () => {});
  const closed = new Promise((resolve) => socket.once("close", resolve));
  return { socket, closed, received: () => Buffer.concat(chunks) };
}

function flood(one: Uint8Array): Uint8Array {
  const all = Buffer.alloc(Math.floor(FLOOD_BYTES / one.length) * one.length);
  for (let at = 0; at < all.length; at += one.length) all.set(one, at);
  return all;
}

/** The code of a close frame at the end. */
function closeCode(received: Uint8Array): number | undefined {
  const at = Buffer.from(received).lastIndexOf(0x88);
  return at === -1 ? undefined : Buffer.from(received).readUInt16BE(at + 2);
}

async function keptBytes(): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^postern_request_body_bytes (\d+)/m.exec(text)?.[1]);
}

describe("a flood of", () => {
  const fragments = Buffer.concat([frame(OPCODES.begin, "{"), frame(OPCODES.continue, "x")]);
  test.each([
    ["messages of one byte", frame(OPCODES.text, "x")],
    ["binary messages of one byte", frame(OPCODES.binary, "x")],
    ["messages in fragments", fragments],
    ["messages of an unknown type", frame(OPCODES.text, '{"type":"a"}')],
    ["calls without a model", frame(OPCODES.text, '{"type":"response.create"}')],
    ["messages without effect", frame(OPCODES.text, '{"type":"response.processed"}')],
    ["pings", frame(OPCODES.ping, "x")],
  ])("%s closes the connection with 1008 after a few errors", async (_what, one) => {
    gateway = await openGateway({ env: { POSTERN_REQUESTS_PER_MINUTE: "600" } });
    const account = await fundedAccount(gateway);
    const { socket, closed, received } = await openRawSocket(account);
    socket.write(flood(one));
    await closed;
    expect(received().length).toBeLessThan(REPLY_MAX_BYTES);
    expect(closeCode(received())).toBe(1008);
    // The key's other connections and others' requests are served.
    const other = await fundedAccount(gateway);
    expect((await call(gateway, other, "GET /v1/keys")).status).toBe(200);
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    await eventually(async () => (await keptBytes()) === 0);
  });

  test("waiting messages closes the connection with 1008, and ends the response in progress", async () => {
    gateway = await openGateway({});
    const socket = await openSocket(gateway, (await fundedAccount(gateway)).headers);
    const create = { type: "response.create", model: MODEL, input: "[[sim: chunks=500 pace=50]]" };
    for (let sent = 0; sent < 10; sent++) socket.send(create);
    expect((await socket.closed).code).toBe(1008);
    expect(socket.events.at(-1)).toMatchObject({ type: "error", status: 429 });
    await eventually(async () => (await simStats(gateway)).open_streams === 0);
    await eventually(async () => (await keptBytes()) === 0);
    await expectSettledLedger(gateway.server.db);
  });
});

test("acknowledgements that are long are rejected also without a request rate", async () => {
  gateway = await openGateway({ env: { POSTERN_REQUESTS_PER_MINUTE: "0" } });
  const { socket, closed, received } = await openRawSocket(await fundedAccount(gateway));
  const long = JSON.stringify({ type: "response.processed", response_id: "r".repeat(60_000) });
  socket.write(flood(frame(OPCODES.text, long)));
  await closed;
  expect(closeCode(received())).toBe(1008);
  await eventually(async () => (await keptBytes()) === 0);
});

describe("rejected messages", () => {
  test("do not close the connection if a response comes in between", async () => {
    gateway = await openGateway({});
    const socket = await openSocket(gateway, (await fundedAccount(gateway)).headers);
    for (let round = 0; round < 3; round++) {
      for (let rejected = 0; rejected < 4; rejected++)
        expect((await socket.create({ model: "sim/unknown", input: "hi" }))["status"]).toBe(404);
      const final = await socket.create({ model: MODEL, input: "hi", store: false });
      expect(final["type"]).toBe("response.completed");
    }
    for (let rejected = 0; rejected < 5; rejected++) socket.send("x");
    expect((await socket.closed).code).toBe(1008);
  });
});

describe("messages", () => {
  test("count in the request rate of their key", async () => {
    gateway = await openGateway({ env: { POSTERN_REQUESTS_PER_MINUTE: "60" } });
    const account = await fundedAccount(gateway);
    const socket = await openSocket(gateway, account.headers);
    const warmUp = { model: MODEL, input: "hi", generate: false };
    const events = [];
    // The burst is ten; the handshake is one of them. More arrive while the burst refills.
    for (let sent = 0; sent < 20 && events.at(-1)?.["type"] !== "error"; sent++)
      events.push(await socket.create(warmUp));
    expect(events.length).toBeGreaterThan(8);
    expect(events.at(-1)).toMatchObject({
      type: "error",
      status: 429,
      error: { code: "rate_limited" },
      headers: { "retry-after": expect.any(String) },
    });
    expect((await call(gateway, account, "GET /v1/keys")).status).toBe(429);
    socket.close();
  });

  test("that the client does not read count in the memory of its key", async () => {
    gateway = await openGateway({});
    const account = await fundedAccount(gateway);
    const { socket, closed } = await openRawSocket(account);
    socket.pause();
    // One event of 20 MB at the end: far more than the sockets hold.
    const input = "[[sim: kb=20000 chunks=2]]";
    const body = JSON.stringify({ type: "response.create", model: MODEL, input, store: false });
    socket.write(frame(OPCODES.text, body));
    await eventually(async () => (await keptBytes()) > 4_000_000);
    socket.destroy();
    await closed;
    await eventually(async () => (await keptBytes()) === 0);
    await expectSettledLedger(gateway.server.db);
  });
});
