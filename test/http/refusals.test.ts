// Model calls that are refused: no hold counts them, so the process does, and it says so before a body is read.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { guardFor } from "../../src/http/rate.ts";
import { type Answered, call, createClock, expectRefusal, SECOND_MS } from "../spec/caller.ts";
import { type Account, type Gateway, register, startGateway } from "../support/gateway.ts";
import { bodyOf, fund, type Json, PATHS, USD } from "../inference/world.ts";
import { openLine } from "./socket.ts";

const PER_MINUTE = 60;
const BURST = 10;

const clock = createClock();
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    now: clock.now,
    env: { POSTERN_REQUESTS_PER_MINUTE: String(PER_MINUTE) },
  });
});
afterAll(() => gateway.stop());

const poor = async (): Promise<Account> => {
  const account = await register(gateway);
  await gateway.house.db.write((tx) =>
    tx.run("update wallet set promo = 0 where account_id = ?", [account.id]),
  );
  return account;
};
const ask = (account: Account, body: Json = bodyOf("chat", "hi")): Promise<Answered> =>
  call(gateway, `POST ${PATHS.chat}`, { key: account.key, body });
/** One after the other; answers how often each status came. */
async function statusesOf(times: number, asking: () => Promise<Answered>): Promise<Json> {
  const counts: Record<string, number> = {};
  for (let time = 0; time < times; time++) {
    const { status } = await asking();
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

describe("model calls that are refused", () => {
  for (const [why, status, body] of [
    ["that nothing pays for", 402, bodyOf("chat", "hi")],
    ["of an unknown model", 404, bodyOf("chat", "hi", { model: "sim/nope" })],
    ["of a wrong body", 400, { model: 7 }],
  ] as const)
    test(`calls ${why} are counted: after ten seconds' worth it is 429 with retry-after`, async () => {
      const account = await poor();
      const counts = await statusesOf(30, () => ask(account, body));
      expect(counts).toEqual({ [status]: BURST, 429: 30 - BURST });
      const refused = await ask(account, body);
      expectRefusal(refused, { status: 429, code: "rate_limited" });
      expect(refused.headers.get("retry-after")).toBe("1");
      clock.pass(SECOND_MS);
      expect(await statusesOf(3, () => ask(account, body))).toEqual({ [status]: 1, 429: 2 });
      const other = await poor();
      expect((await ask(other, body)).status).toBe(status);
    });

  test("many that come at the same time are waited out one by one, and nobody waits for more than a minute", async () => {
    const account = await poor();
    const counts = await Promise.all(Array.from({ length: 40 }, () => ask(account)));
    expect(counts.every(({ status }) => status === 402 || status === 429)).toBe(true);
    const passed = counts.filter(({ status }) => status === 402).length;
    expect(passed).toBeGreaterThanOrEqual(BURST);
    clock.pass((passed - BURST) * SECOND_MS);
    expect((await ask(account)).status).toBe(429);
    clock.pass(SECOND_MS);
    expect((await ask(account)).status).toBe(402);
    await Promise.all(Array.from({ length: 200 }, () => ask(account)));
    clock.pass(61 * SECOND_MS);
    expect((await ask(account)).status).toBe(402);
  });

  test("the refusal comes before the body does", async () => {
    const account = await poor();
    await statusesOf(BURST, () => ask(account));
    const line = await openLine(gateway);
    line.socket.write(
      `POST ${PATHS.chat} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\n` +
        `content-type: application/json\r\ncontent-length: 33000000\r\n\r\n{`,
    );
    expect((await line.until(/\r\n\r\n/, 3_000)).text).toStartWith("HTTP/1.1 429");
    line.socket.destroy();
  });

  test("calls that succeed are counted by their hold alone, and other requests by their own count", async () => {
    const account = await register(gateway);
    await fund(gateway, account, USD);
    expect(await statusesOf(BURST, () => ask(account))).toEqual({ 200: BURST });
    const read = (): Promise<Answered> => call(gateway, "GET /v1/account", { key: account.key });
    expect(await statusesOf(BURST, read)).toEqual({ 200: BURST });
    clock.pass(BURST * SECOND_MS);
    expect(await statusesOf(BURST, () => ask(account))).toEqual({ 200: BURST });
  });

  test("a key that is let in again after a purchase is not refused for what it asked before", async () => {
    const account = await poor();
    expect(await statusesOf(BURST - 1, () => ask(account))).toEqual({ 402: BURST - 1 });
    await fund(gateway, account, USD);
    expect(await statusesOf(BURST, () => ask(account))).toEqual({ 200: BURST });
  });
});

test("what was counted by a clock that was set back since keeps nobody out", () => {
  const guard = guardFor(PER_MINUTE);
  const now = clock.now();
  for (let time = 0; time < 12; time++) guard?.take("k", now);
  expect(guard?.take("k", now)).toBeGreaterThan(0);
  const before = now - 3_600 * SECOND_MS;
  expect([guard?.wait("k", before), guard?.take("k", before)]).toEqual([0, 0]);
});

test("where there is no limit nothing is counted", () => {
  expect(guardFor(0)).toBeUndefined();
});
