// The memory quota of large request bodies in flight, per caller and in total.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type BodyQuota, createBodyQuota } from "../../src/http/request/body-quota.ts";
import { eventually } from "../support/eventually.ts";
import { type TestAccount, type Gateway, registerAccount } from "../support/gateway.ts";
import { startShortTimeoutGateway } from "./short-timeout-gateway.ts";
import { openRawConnection, type RawConnection } from "./raw-client.ts";

const MIB = 1_048_576;
const BODY_BYTES = 3 * MIB;
const BODY_TIMEOUT_MS = 10_000;

let gateway: Gateway;
let accounts: readonly TestAccount[];
let usedBytes = 0;

beforeAll(async () => {
  const quota = createBodyQuota({ perCallerBytes: 4 * MIB, totalBytes: 7 * MIB });
  const bodyQuota: BodyQuota = {
    acquire: (caller, bytes) => {
      quota.acquire(caller, bytes);
      usedBytes += bytes;
    },
    release: (caller, bytes) => {
      quota.release(caller, bytes);
      usedBytes -= bytes;
    },
  };
  gateway = await startShortTimeoutGateway(
    {},
    {
      bodyQuota,
      bodyTimeouts: { smallBodyMs: BODY_TIMEOUT_MS, largeBodyMs: BODY_TIMEOUT_MS },
    },
  );
  accounts = await Promise.all([1, 2, 3].map(() => registerAccount(gateway)));
});
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
    await eventually(() => usedBytes === BODY_BYTES - 1);
    const overCallerLimit = await responseTo(await sendPart(one, BODY_BYTES - 1));
    expect(overCallerLimit).toContain("HTTP/1.1 429");
    expect(overCallerLimit).toContain("rate_limited");
    expect(overCallerLimit.toLowerCase()).toContain("retry-after: 1");

    const second = await sendPart(two, BODY_BYTES - 1, { isChunked: true });
    await eventually(() => usedBytes === 2 * (BODY_BYTES - 1));
    const overTotalLimit = await responseTo(await sendPart(three, BODY_BYTES - 1));
    expect(overTotalLimit).toContain("HTTP/1.1 503");
    expect(overTotalLimit).toContain("overloaded");

    first.socket.destroy();
    second.socket.destroy();
    await eventually(() => usedBytes === 0);
    // A 400 for invalid JSON shows that the whole body was read.
    for (const account of [one, two, three])
      expect(await responseTo(await sendPart(account, BODY_BYTES))).toContain("HTTP/1.1 400");
  }, 40_000);

  test("do not count while only their length is announced", async () => {
    const [one] = accounts;
    const announced = await Promise.all(
      [1, 2, 3, 4].map(() => sendPart(one, 1, { headers: "expect: 100-continue\r\n" })),
    );
    for (const connection of announced)
      expect((await connection.until(/100 Continue/)).isClosed).toBe(false);
    expect(await responseTo(await sendPart(one, BODY_BYTES))).toContain("HTTP/1.1 400");
    for (const connection of announced) connection.socket.destroy();
  }, 40_000);
});
