// The memory quota of request bodies in flight: per caller, per group of callers and in total.

import { afterAll, describe, expect, test } from "bun:test";
import { createBodyQuota } from "../../src/http/request/body-quota.ts";
import { call, valueAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { type TestAccount, registerAccount } from "../support/gateway.ts";
import { openRawConnection, type RawConnection } from "./raw-client.ts";
import { startShortTimeoutGateway } from "./short-timeout-gateway.ts";

const MIB = 1_048_576;
const BODY_BYTES = 3 * MIB;
const BODY_TIMEOUT_MS = 60_000;

const bodyQuota = createBodyQuota({
  perCallerBytes: 4 * MIB,
  perGroupBytes: 5 * MIB,
  totalBytes: 7 * MIB,
});
const gateway = await startShortTimeoutGateway(
  {},
  {
    bodyQuota,
    bodyTimeouts: {
      smallBodyMs: BODY_TIMEOUT_MS,
      largeBodyMs: BODY_TIMEOUT_MS,
      anonymousBodyMs: BODY_TIMEOUT_MS,
    },
  },
);
const accounts = await Promise.all([1, 2, 3].map(() => registerAccount(gateway)));
afterAll(() => gateway.stop());

interface SendOptions {
  readonly isChunked?: boolean;
  readonly headers?: string;
}

/** Sends the first bytes of a body of 3 MiB. */
async function sendPart(
  account: TestAccount | undefined,
  bytes: number,
  { isChunked = false, headers = "" }: SendOptions = {},
): Promise<RawConnection> {
  const connection = await openRawConnection(gateway);
  const framing = isChunked ? "transfer-encoding: chunked" : `content-length: ${BODY_BYTES}`;
  connection.socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account?.key ?? ""}\r\ncontent-type: application/json\r\n${headers}${framing}\r\n\r\n`,
  );
  const part = "x".repeat(bytes);
  connection.socket.write(isChunked ? `${bytes.toString(16)}\r\n${part}\r\n` : part);
  return connection;
}

async function responseTo(connection: RawConnection): Promise<string> {
  const { text } = await connection.until(/HTTP\/1.1 [2-5]\d\d[^]*\r\n\r\n[^]+/);
  connection.socket.destroy();
  return text;
}

describe("large bodies", () => {
  test("are limited per caller first, then in total, and release their bytes when they end", async () => {
    const [one, two, three] = accounts;
    const first = await sendPart(one, BODY_BYTES - 1);
    await eventually(() => bodyQuota.totalBytes() === BODY_BYTES - 1);
    const overCallerLimit = await responseTo(await sendPart(one, BODY_BYTES - 1));
    expect(overCallerLimit).toContain("HTTP/1.1 429");
    expect(overCallerLimit).toContain("rate_limited");
    expect(overCallerLimit.toLowerCase()).toContain("retry-after: 1");

    const second = await sendPart(two, BODY_BYTES - 1, { isChunked: true });
    await eventually(() => bodyQuota.totalBytes() === 2 * (BODY_BYTES - 1));
    const overTotalLimit = await responseTo(await sendPart(three, BODY_BYTES - 1));
    expect(overTotalLimit).toContain("HTTP/1.1 503");
    expect(overTotalLimit).toContain("overloaded");

    first.socket.destroy();
    second.socket.destroy();
    await eventually(() => bodyQuota.totalBytes() === 0);
    // A 400 for invalid JSON shows that the whole body was read.
    for (const account of [one, two, three])
      expect(await responseTo(await sendPart(account, BODY_BYTES))).toContain("HTTP/1.1 400");
  });

  test("do not count while only their length is announced", async () => {
    const [one] = accounts;
    const announced = await Promise.all(
      [1, 2, 3, 4].map(() => sendPart(one, 1, { headers: "expect: 100-continue\r\n" })),
    );
    for (const connection of announced)
      expect((await connection.until(/100 Continue/)).isClosed).toBe(false);
    expect(await responseTo(await sendPart(one, BODY_BYTES))).toContain("HTTP/1.1 400");
    for (const connection of announced) connection.socket.destroy();
  });
});

const SMALL_BYTES = 900_000;
const TINY_BYTES = 60_000;

describe("bodies below 1 MiB", () => {
  async function stall(
    path: string,
    key: string | undefined,
    announcedBytes: number,
  ): Promise<RawConnection> {
    const connection = await openRawConnection(gateway);
    const authorization = key === undefined ? "" : `authorization: Bearer ${key}\r\n`;
    connection.socket.write(
      `POST ${path} HTTP/1.1\r\nhost: x\r\n${authorization}content-type: application/json\r\ncontent-length: ${announcedBytes}\r\n\r\n${"x".repeat(announcedBytes - 1)}`,
    );
    return connection;
  }

  async function stallMany(
    path: string,
    key: string | undefined,
    { count, bytes }: { readonly count: number; readonly bytes: number },
  ): Promise<readonly RawConnection[]> {
    return await Promise.all(Array.from({ length: count }, () => stall(path, key, bytes)));
  }

  const close = async (connections: readonly RawConnection[]): Promise<void> => {
    for (const { socket } of connections) socket.destroy();
    await eventually(() => bodyQuota.totalBytes() === 0);
  };

  /** A 400 for invalid JSON shows that the whole body was read. */
  async function expectBodyRead(account: TestAccount | undefined): Promise<void> {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${account?.key ?? ""}`,
        "content-type": "application/json",
      },
      body: "x".repeat(SMALL_BYTES),
    });
    expect(response.status).toBe(400);
  }

  test("stalled on one key are refused above its limit, while another key is served", async () => {
    const [one, two] = accounts;
    const chat = "/v1/chat/completions";
    const stalled = await stallMany(chat, one?.key, { count: 4, bytes: SMALL_BYTES });
    await eventually(() => bodyQuota.totalBytes() === 4 * (SMALL_BYTES - 1));
    const refused = await responseTo(await stall(chat, one?.key, SMALL_BYTES));
    expect(refused).toContain("HTTP/1.1 429");
    expect(refused).toContain("The request bodies in flight of this API key");
    expect(refused.toLowerCase()).toContain("retry-after: 1");
    await expectBodyRead(two);
    await close(stalled);
    await expectBodyRead(one);
  });

  test("are refused above the limit of the account, whatever its keys are", async () => {
    const [one, two] = accounts;
    const { body } = await call(gateway, "POST /v1/keys", {
      key: one?.key ?? "",
      body: { name: "second" },
    });
    const secondKey = String(valueAt(body, "api_key"));
    const chat = "/v1/chat/completions";
    const stalled = [
      ...(await stallMany(chat, one?.key, { count: 4, bytes: SMALL_BYTES })),
      await stall(chat, secondKey, SMALL_BYTES),
    ];
    await eventually(() => bodyQuota.totalBytes() === 5 * (SMALL_BYTES - 1));
    const refused = await responseTo(await stall(chat, secondKey, SMALL_BYTES));
    expect(refused).toContain("HTTP/1.1 429");
    expect(refused).toContain("The request bodies in flight of this account");
    await expectBodyRead(two);
    await close(stalled);
  });

  test("without a key are refused above the limit of their network, while a key is served", async () => {
    const count = Math.floor((4 * MIB) / TINY_BYTES);
    const stalled = await stallMany("/v1/accounts", undefined, { count, bytes: TINY_BYTES });
    await eventually(() => bodyQuota.totalBytes() === count * TINY_BYTES);
    const refused = await responseTo(await stall("/v1/accounts", undefined, TINY_BYTES));
    expect(refused).toContain("HTTP/1.1 429");
    expect(refused).toContain("The request bodies in flight of your network");
    for (const path of ["/signout", "/mcp", "/v1/auth/keys"])
      expect(await responseTo(await stall(path, undefined, TINY_BYTES))).toContain("HTTP/1.1 429");
    await expectBodyRead(accounts[0]);
    await close(stalled);
  });
});
