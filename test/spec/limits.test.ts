import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../src/base/time.ts";
import { requiresKey } from "../../src/http/route.ts";
import { releaseAfter } from "../inference/support/harness.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  chat,
  createFakeClock,
  expectError,
} from "./api-client.ts";

/** 20 minutes before the next hour and 14:20 hours before midnight UTC. */
const START = Date.UTC(2026, 10, 18, 9, 40);

function retryAfter({ headers }: ApiResponse): number {
  return Number(headers.get("retry-after"));
}

describe.each(STORE_KINDS)("limits on %s", (store) => {
  test("an agent-created account has 50000 starting credits", async () => {
    const gateway = await startGateway({ store });
    const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
    expect(valueAt(body, "balance")).toMatchObject({ credits: 50_000, usd: 0.05 });
    await gateway.stop();
  });

  describe("accounts from one network", () => {
    const clock = createFakeClock(START);
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({
        store,
        now: clock.now,
        env: { POSTERN_ACCOUNTS_PER_HOUR: "3", POSTERN_TRUSTED_PROXIES: "127.0.0.1, 10.0.0.0/8" },
      });
    });
    afterAll(() => gateway.stop());

    const from = (forwarded: string): Promise<ApiResponse> =>
      call(gateway, "POST /v1/accounts", { body: {}, headers: { "x-forwarded-for": forwarded } });
    const statuses = async (addresses: readonly string[]): Promise<readonly number[]> => {
      const found: number[] = [];
      for (const address of addresses) found.push((await from(address)).status);
      return found;
    };

    test("are limited per IPv4 address and hour", async () => {
      expect(await statuses(Array.from({ length: 3 }, () => "192.0.2.1"))).toEqual([201, 201, 201]);
      const refused = await from("192.0.2.1");
      expectStatus("createAccount", 429, refused);
      expectError(refused, { status: 429, code: "rate_limited" });
      expect(retryAfter(refused)).toBe(20 * 60);
      clock.advance(20 * MINUTE_MS - 1);
      expect((await from("192.0.2.1")).status).toBe(429);
      clock.advance(1);
      expect((await from("192.0.2.1")).status).toBe(201);
      clock.advance(-20 * MINUTE_MS);
    });

    test("are limited per IPv4 /24 to four times as many", async () => {
      const hosts = Array.from({ length: 13 }, (_, host) => `198.51.100.${host + 1}`);
      expect(await statuses(hosts)).toEqual([...Array.from({ length: 12 }, () => 201), 429]);
      expect(await statuses(["198.51.101.1"])).toEqual([201]);
    });

    test("are limited per IPv6 /64, in any notation", async () => {
      expect(
        await statuses([
          "2001:db8:0:1::1",
          "2001:db8::1:0:0:0:2",
          "2001:0DB8:0000:0001:ffff::3",
          "2001:db8:0:1::4",
        ]),
      ).toEqual([201, 201, 201, 429]);
      expect(await statuses(["2001:db8:0:2::1"])).toEqual([201]);
    });

    test("are limited per IPv6 /48 to four times as many", async () => {
      const subnets = Array.from({ length: 13 }, (_, subnet) => `2001:db8:9:${subnet}::1`);
      expect(await statuses(subnets)).toEqual([...Array.from({ length: 12 }, () => 201), 429]);
      expect(await statuses(["2001:db8:a::1"])).toEqual([201]);
    });

    test("count IPv4-mapped IPv6 addresses as IPv4", async () => {
      expect(
        await statuses(["::ffff:203.0.113.9", "::ffff:cb00:7109", "203.0.113.9", "203.0.113.9"]),
      ).toEqual([201, 201, 201, 429]);
    });

    test("ignore ports in x-forwarded-for", async () => {
      expect(
        await statuses([
          "203.0.113.77:4711",
          "203.0.113.77:4712",
          "203.0.113.77",
          "203.0.113.77:1",
        ]),
      ).toEqual([201, 201, 201, 429]);
      expect(
        await statuses([
          "[2001:db8:77::1]:443",
          "[2001:db8:77::2]",
          "2001:db8:77::3",
          "2001:db8:77::4",
        ]),
      ).toEqual([201, 201, 201, 429]);
    });

    test("count by the last untrusted hop of x-forwarded-for", async () => {
      expect(
        await statuses(
          Array.from({ length: 4 }, (_, place) => `6.6.6.${place}, 203.0.113.140, 10.0.0.7`),
        ),
      ).toEqual([201, 201, 201, 429]);
    });

    test("count by the proxy if x-forwarded-for is invalid", async () => {
      const nonsense = ["unknown", "", "1.2.3", "<script>", ", ,", "999.1.1.1"];
      const found = await statuses(nonsense);
      expect(found.filter((status) => status === 201).length).toBe(3);
      expect(found.at(-1)).toBe(429);
    });

    test("are limited under concurrency", async () => {
      const responses = await Promise.all(Array.from({ length: 12 }, () => from("192.0.2.200")));
      const got = responses.map(({ status }) => status);
      expect(got.filter((status) => status === 201).length).toBe(3);
      expect(got.filter((status) => status === 429).length).toBe(9);
    });

    test("count a repeated Idempotency-Key once", async () => {
      const headers = {
        "x-forwarded-for": "192.0.2.210",
        "idempotency-key": "5f1c0b7a9d3e4826b0c4d8e1f2a36795",
      };
      for (let times = 0; times < 6; times++)
        expect((await call(gateway, "POST /v1/accounts", { body: {}, headers })).status).toBe(201);
    });

    test("do not limit calls with a key", async () => {
      const { body } = await from("192.0.2.220");
      const headers = { "x-forwarded-for": "192.0.2.1" };
      const read = await call(gateway, "GET /v1/account", {
        key: String(valueAt(body, "api_key")),
        headers,
      });
      expect(read.status).toBe(200);
    });
  });

  test("x-forwarded-for is ignored without a trusted proxy", async () => {
    const gateway = await startGateway({ store, env: { POSTERN_ACCOUNTS_PER_HOUR: "2" } });
    const found: number[] = [];
    for (const address of ["192.0.2.1", "192.0.2.2", "192.0.2.3"]) {
      const headers = { "x-forwarded-for": address };
      found.push((await call(gateway, "POST /v1/accounts", { body: {}, headers })).status);
    }
    expect(found).toEqual([201, 201, 429]);
    await gateway.stop();
  });

  test("the daily grant budget limits starting credit until midnight UTC", async () => {
    const clock = createFakeClock(START);
    const gateway = await startGateway({
      store,
      now: clock.now,
      env: { POSTERN_GRANT_USD_PER_DAY: "0.20", POSTERN_TRUSTED_PROXIES: "127.0.0.1" },
    });
    const from = async (network: number): Promise<unknown> => {
      const response = await call(gateway, "POST /v1/accounts", {
        body: {},
        headers: { "x-forwarded-for": `${network}.0.0.1` },
      });
      expect(response.status).toBe(201);
      return valueAt(response.body, "balance.credits");
    };
    const found = await Promise.all(Array.from({ length: 8 }, (_, index) => from(index + 11)));
    expect(found.filter((credits) => credits === 50_000).length).toBe(4);
    expect(await from(100)).toBe(0);
    clock.advance(14 * HOUR_MS + 20 * MINUTE_MS);
    expect(await from(100)).toBe(50_000);
    await gateway.stop();
  });

  describe("requests per key", () => {
    const clock = createFakeClock(START);
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({
        store,
        now: clock.now,
        env: { POSTERN_REQUESTS_PER_MINUTE: "60" },
      });
    });
    afterAll(() => gateway.stop());

    const ask = (account: TestAccount): Promise<ApiResponse> =>
      call(gateway, "GET /v1/account", { key: account.key });

    test("allow a burst of ten seconds' worth, then return 429 with retry-after", async () => {
      const account = await registerAccount(gateway);
      const found = await Promise.all(Array.from({ length: 14 }, () => ask(account)));
      expect(found.filter(({ status }) => status === 200).length).toBe(10);
      const refused = await ask(account);
      expectStatus("getAccount", 429, refused);
      expectError(refused, { status: 429, code: "rate_limited" });
      expect(retryAfter(refused)).toBe(1);
      expect(refused.headers.get("ratelimit-policy")).toBe('"minute";q=60;w=60, "burst";q=10;w=10');
      expect(refused.headers.get("ratelimit")).toBe('"burst";r=0;t=10');
      clock.advance(retryAfter(refused) * SECOND_MS);
      expect((await ask(account)).status).toBe(200);
      expect((await ask(account)).status).toBe(429);
    });

    test("apply to every endpoint with an API key", async () => {
      const account = await registerAccount(gateway);
      for (let calls = 0; calls < 30; calls++) await ask(account);
      for (const route of gateway.server.routes) {
        if (!requiresKey(route) || route.kind === "model") continue;
        const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
        const sent = route.method === "GET" ? {} : { body: {} };
        const response = await call(gateway, `${route.method} ${path}`, {
          key: account.key,
          ...sent,
        });
        expectStatus(route.id, 429, response);
        expect(retryAfter(response)).toBeGreaterThanOrEqual(1);
      }
    });

    test("apply to model calls", async () => {
      const account = await registerAccount(gateway);
      const found: ApiResponse[] = [];
      for (let calls = 0; calls < 14; calls++) found.push(await chat(gateway, account.key));
      const refused = found.filter(({ status }) => status === 429);
      expect(refused.length).toBeGreaterThan(0);
      expect(found.slice(0, 10).every(({ status }) => status === 200)).toBe(true);
      for (const response of refused) expect(retryAfter(response)).toBeGreaterThanOrEqual(1);
    });

    test("are separate per key", async () => {
      const [hasty, calm] = [await registerAccount(gateway), await registerAccount(gateway)];
      for (let calls = 0; calls < 12; calls++) await ask(hasty);
      expect((await ask(hasty)).status).toBe(429);
      expect((await ask(calm)).status).toBe(200);
    });

    test("do not apply to endpoints without a key", async () => {
      for (let calls = 0; calls < 40; calls++)
        expect((await call(gateway, "GET /healthz")).status).toBe(200);
    });
  });

  test("concurrent model calls of a key are limited with 429 and retry-after", async () => {
    const gateway = await startGateway({ store, env: { POSTERN_OPEN_CALLS_PER_KEY: "2" } });
    const account = await registerAccount(gateway);
    const slow = { messages: [{ role: "user", content: "[[sim: wait=open]] hello" }] };
    const calls = Array.from({ length: 5 }, () => chat(gateway, account.key, slow));
    const found = await releaseAfter(gateway, "open", { calls, responses: 3 });
    const got = found.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(got).toEqual([200, 200, 429, 429, 429]);
    for (const response of found)
      if (response.status === 429) expect(retryAfter(response)).toBeGreaterThanOrEqual(1);
    expect((await chat(gateway, account.key)).status).toBe(200);
    await gateway.stop();
  });
});
