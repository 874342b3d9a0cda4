// Large bodies that are not answered yet, of one caller and of all: memory is bounded, and who waits is told so.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createBodyQuota } from "../../src/http/request/body-quota.ts";
import { type TestAccount, type Gateway, registerAccount } from "../support/gateway.ts";
import { startShortTimeoutGateway } from "./short-timeout-gateway.ts";
import { openRawConnection } from "./raw-client.ts";

const MIB = 1_048_576;
const BODY_BYTES = 3 * MIB;
const WITHIN_MS = 10_000;

let gateway: Gateway;
let accounts: readonly TestAccount[];

beforeAll(async () => {
  gateway = await startShortTimeoutGateway(
    {},
    {
      bodyQuota: createBodyQuota({ perCallerBytes: 4 * MIB, totalBytes: 7 * MIB }),
      bodyTimeouts: { smallBodyMs: WITHIN_MS, largeBodyMs: WITHIN_MS },
    },
  );
  accounts = await Promise.all([1, 2, 3].map(() => registerAccount(gateway)));
});
afterAll(() => gateway.stop());

/** Sends so much of a body of 3 MiB, by its length or in chunks. */
async function send(account: TestAccount | undefined, bytes: number, chunked = false) {
  const line = await openRawConnection(gateway);
  const size = chunked ? "transfer-encoding: chunked" : `content-length: ${BODY_BYTES}`;
  line.socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account?.key ?? ""}\r\ncontent-type: application/json\r\n${size}\r\n\r\n`,
  );
  const part = "x".repeat(bytes);
  line.socket.write(chunked ? `${bytes.toString(16)}\r\n${part}\r\n` : part);
  return line;
}

const responseOf = async (line: Awaited<ReturnType<typeof openRawConnection>>): Promise<string> =>
  (await line.until(/HTTP\/1.1 \d+[^]*\r\n\r\n[^]+/, WITHIN_MS)).text;

describe("large bodies", () => {
  test("are counted as they come: the caller's own share first, then all of them, and given back", async () => {
    const [one, two, three] = accounts;
    const first = await send(one, BODY_BYTES - 1);
    await Bun.sleep(300);
    const refused = await responseOf(await send(one, BODY_BYTES - 1));
    expect(refused).toContain("HTTP/1.1 429");
    expect(refused).toContain("rate_limited");
    expect(refused.toLowerCase()).toContain("retry-after: 1");

    const second = await send(two, BODY_BYTES - 1, true);
    await Bun.sleep(300);
    const full = await responseOf(await send(three, BODY_BYTES - 1));
    expect(full).toContain("HTTP/1.1 503");
    expect(full).toContain("overloaded");

    first.socket.destroy();
    second.socket.destroy();
    await Bun.sleep(300);
    // It is no JSON, and that is said only when it was read whole.
    for (const account of [one, two, three])
      expect(await responseOf(await send(account, BODY_BYTES))).toContain("HTTP/1.1 400");
  }, 40_000);

  test("that are only announced take nothing", async () => {
    const [one] = accounts;
    const silent = await Promise.all([1, 2, 3, 4].map(() => send(one, 1)));
    await Bun.sleep(200);
    expect(await responseOf(await send(one, BODY_BYTES))).toContain("HTTP/1.1 400");
    for (const line of silent) line.socket.destroy();
  }, 40_000);
});
