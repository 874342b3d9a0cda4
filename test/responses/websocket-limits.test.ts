// How many WebSockets an account and a network have, and the memory that they keep between responses.

import { afterAll, describe, expect, test } from "bun:test";
import { connectionsFor } from "../../src/responses/websocket/web-sockets.ts";
import type { Json } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { TestAccount } from "../support/gateway.ts";
import { call, fundedAccount, openGateway } from "./harness.ts";
import { handshake, openSocket, type TestSocket } from "./websocket-client.ts";

const MIB = 1_048_576;
const GIB = 1_024 * MIB;

const gateway = await openGateway({ env: { POSTERN_TRUSTED_PROXIES: "127.0.0.1" } });
afterAll(() => gateway.stop());

type Headers = Readonly<Record<string, string>>;

async function keyOf(account: TestAccount): Promise<Headers> {
  const { json } = await call(gateway, account, "POST /v1/keys", { body: {} });
  return { authorization: `Bearer ${String(json["api_key"])}` };
}

const openMany = (count: number, headers: Headers): Promise<readonly TestSocket[]> =>
  Promise.all(Array.from({ length: count }, () => openSocket(gateway, headers)));

async function keptBytes(): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^postern_request_body_bytes (\d+)/m.exec(text)?.[1]);
}

describe("WebSockets on /v1/responses", () => {
  test("are limited for an account with many keys and networks", async () => {
    const account = await fundedAccount(gateway);
    const keys = await Promise.all(Array.from({ length: 3 }, () => keyOf(account)));
    const from = (index: number): Headers => ({
      ...keys[index],
      "x-forwarded-for": `198.51.${index}.1`,
    });
    const sockets = [...(await openMany(32, from(0))), ...(await openMany(32, from(1)))];
    const beyond = await handshake(gateway, from(2));
    expect([beyond.status, beyond.body]).toEqual([
      429,
      expect.stringContaining("This account has 64 open WebSockets"),
    ]);
    for (const socket of sockets) socket.close();
    await eventually(async () => (await handshake(gateway, from(2))).status === 101);
  });

  test("are limited for the /48 around many /64s", async () => {
    const accounts = await Promise.all(Array.from({ length: 5 }, () => fundedAccount(gateway)));
    const from = (index: number): Headers => ({
      ...accounts[index]?.headers,
      "x-forwarded-for": `2001:db8:7:${index}::1`,
    });
    const sockets = (
      await Promise.all([0, 1, 2, 3].map((index) => openMany(32, from(index))))
    ).flat();
    const beyond = await handshake(gateway, from(4));
    expect([beyond.status, beyond.body]).toEqual([
      429,
      expect.stringContaining("Your wider network has 128 open WebSockets"),
    ]);
    const other = await handshake(gateway, { ...from(4), "x-forwarded-for": "2001:db8:8::1" });
    expect(other.status).toBe(101);
    for (const socket of sockets) socket.close();
  });

  test.each([
    [64 * GIB, 2_000],
    [16 * GIB, 512],
    [2 * GIB, 64],
    [MIB, 1],
  ])("are so few in %d bytes of memory that their messages fit: %d", (memory, count) =>
    expect(connectionsFor(memory)).toBe(count),
  );

  test("count what they keep between responses, and no more than a key may have in memory", async () => {
    const { headers } = await fundedAccount(gateway);
    const input = "x".repeat(7 * MIB);
    const keep: Json = { model: "sim/echo", input, generate: false, store: false };
    const before = await keptBytes();
    const sockets = await openMany(19, headers);
    const events: Json[] = [];
    for (const socket of sockets) events.push(await socket.create(keep));
    const kept = events.filter(({ type }) => type === "response.completed");
    expect(kept.length).toBe(18);
    expect(events.at(-1)).toMatchObject({ type: "error", status: 429 });
    expect((await keptBytes()) - before).toBeGreaterThan(18 * 7 * MIB);
    for (const socket of sockets) socket.close();
    await eventually(async () => (await keptBytes()) <= before);
  });

  test("refuse a message above 8 MiB", async () => {
    const { headers } = await fundedAccount(gateway);
    const socket = await openSocket(gateway, headers);
    socket.send({ type: "response.create", model: "sim/echo", input: "x".repeat(8 * MIB) });
    expect((await socket.closed).code).toBe(1_009);
  });
});
