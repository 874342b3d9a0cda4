// The rate limit of rejected model calls, which no hold counts.

import { afterAll, describe, expect, test } from "bun:test";
import { SECOND_MS } from "../../src/base/time.ts";
import { rateLimiterFor } from "../../src/http/guards/rate-limiter.ts";
import { bodyOf, grantCredits, type Json, PATHS, USD } from "../inference/support/harness.ts";
import { type ApiResponse, call, createFakeClock, expectError } from "../spec/api-client.ts";
import { type TestAccount, registerAccount, startGateway } from "../support/gateway.ts";
import { openRawConnection } from "./raw-client.ts";

const PER_MINUTE = 60;
const BURST = 10;

const clock = createFakeClock();
const gateway = await startGateway({
  now: clock.now,
  env: { POSTERN_REQUESTS_PER_MINUTE: String(PER_MINUTE) },
});
afterAll(() => gateway.stop());

const accountWithoutCredits = async (): Promise<TestAccount> => {
  const account = await registerAccount(gateway);
  await gateway.server.db.write((tx) =>
    tx.run("update wallet set promo = 0 where account_id = ?", [account.id]),
  );
  return account;
};
const callModel = (account: TestAccount, body: Json = bodyOf("chat", "hi")): Promise<ApiResponse> =>
  call(gateway, `POST ${PATHS.chat}`, { key: account.key, body });
/** Sends calls one by one and counts their statuses. */
async function countStatuses(times: number, sendCall: () => Promise<ApiResponse>): Promise<Json> {
  const counts: Record<string, number> = {};
  for (let time = 0; time < times; time++) {
    const { status } = await sendCall();
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

describe("rejected model calls", () => {
  for (const [description, status, body] of [
    ["without credits", 402, bodyOf("chat", "hi")],
    ["of an unknown model", 404, bodyOf("chat", "hi", { model: "sim/nope" })],
    ["with an invalid body", 400, { model: 7 }],
  ] as const)
    test(`${description} are limited to ten seconds' worth per key`, async () => {
      const account = await accountWithoutCredits();
      const counts = await countStatuses(30, () => callModel(account, body));
      expect(counts).toEqual({ [status]: BURST, 429: 30 - BURST });
      const limited = await callModel(account, body);
      expectError(limited, { status: 429, code: "rate_limited" });
      expect(limited.headers.get("retry-after")).toBe("1");
      clock.advance(SECOND_MS);
      expect(await countStatuses(3, () => callModel(account, body))).toEqual({
        [status]: 1,
        429: 2,
      });
      const other = await accountWithoutCredits();
      expect((await callModel(other, body)).status).toBe(status);
    });

  test("above the limit extend the wait by their number, up to a minute", async () => {
    const account = await accountWithoutCredits();
    const counts = await Promise.all(Array.from({ length: 40 }, () => callModel(account)));
    expect(counts.every(({ status }) => status === 402 || status === 429)).toBe(true);
    const passed = counts.filter(({ status }) => status === 402).length;
    expect(passed).toBeGreaterThanOrEqual(BURST);
    clock.advance((passed - BURST) * SECOND_MS);
    expect((await callModel(account)).status).toBe(429);
    clock.advance(SECOND_MS);
    expect((await callModel(account)).status).toBe(402);
    await Promise.all(Array.from({ length: 200 }, () => callModel(account)));
    clock.advance(61 * SECOND_MS);
    expect((await callModel(account)).status).toBe(402);
  });

  test("are limited before the body is read", async () => {
    const account = await accountWithoutCredits();
    await countStatuses(BURST, () => callModel(account));
    const connection = await openRawConnection(gateway);
    connection.socket.write(
      `POST ${PATHS.chat} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\n` +
        `content-type: application/json\r\ncontent-length: 33000000\r\n\r\n{`,
    );
    expect((await connection.until(/\r\n\r\n/)).text).toStartWith("HTTP/1.1 429");
    connection.socket.destroy();
  });

  test("share no limit with accepted calls and other requests", async () => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    expect(await countStatuses(BURST, () => callModel(account))).toEqual({ 200: BURST });
    const read = (): Promise<ApiResponse> => call(gateway, "GET /v1/account", { key: account.key });
    expect(await countStatuses(BURST, read)).toEqual({ 200: BURST });
    clock.advance(BURST * SECOND_MS);
    expect(await countStatuses(BURST, () => callModel(account))).toEqual({ 200: BURST });
  });

  test("do not limit calls after a purchase", async () => {
    const account = await accountWithoutCredits();
    expect(await countStatuses(BURST - 1, () => callModel(account))).toEqual({ 402: BURST - 1 });
    await grantCredits(gateway, account, USD);
    expect(await countStatuses(BURST, () => callModel(account))).toEqual({ 200: BURST });
  });
});

test("ignores counts from before the clock stepped back", () => {
  const limiter = rateLimiterFor(PER_MINUTE);
  const now = clock.now();
  for (let time = 0; time < 12; time++) limiter?.take("k", now);
  expect(limiter?.take("k", now)).toBeGreaterThan(0);
  const before = now - 3_600 * SECOND_MS;
  expect([limiter?.waitMs("k", before), limiter?.take("k", before)]).toEqual([0, 0]);
});

test("has no limiter for a limit of 0", () => {
  expect(rateLimiterFor(0)).toBeUndefined();
});
