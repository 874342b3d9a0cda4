// Starting credit is shared between networks: none can use up the day's budget of everybody else.

import { afterEach, describe, expect, test } from "bun:test";
import { isGrantBudgetUsedUp, NETWORK_SHARES } from "../../src/accounts/creation-limits.ts";
import { fundingSteps } from "../../src/base/purchase-steps.ts";
import { DAY_MS, HOUR_MS, SECOND_MS } from "../../src/base/time.ts";
import {
  type ApiResponse,
  call,
  createFakeClock,
  expectError,
  listAt,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

/** Twenty minutes before the hour. */
const START = Date.UTC(2026, 10, 18, 9, 40);
const WARNING = "used up a part of the day's starting credit";

test("no network gets the whole budget, and a wider one never less than a narrower one", () => {
  for (const shares of Object.values(NETWORK_SHARES))
    for (const [index, { bits, percentPerHour, percentPerDay }] of shares.entries()) {
      const narrower = shares[index - 1];
      expect(percentPerDay).toBeLessThan(50);
      expect(percentPerHour).toBeLessThanOrEqual(percentPerDay);
      if (narrower === undefined) continue;
      expect(bits).toBeLessThan(narrower.bits);
      expect(percentPerHour).toBeGreaterThanOrEqual(narrower.percentPerHour);
      expect(percentPerDay).toBeGreaterThanOrEqual(narrower.percentPerDay);
    }
});

test("a new account without credit gets a next step for each way to fund it", () => {
  const urls = (acceptsX402: boolean, isSignInDisabled: boolean): readonly string[] =>
    fundingSteps(
      { hasPage: true, acceptsX402, acceptsMpp: false, minUsd: 1 },
      { isSignInDisabled },
    ).map(({ url }) => url);
  const [invoice, x402, claim] = [
    "/v1/billing/invoice",
    "/v1/billing/invoice/{id}/x402",
    "/agent/identity/claim",
  ];
  expect(urls(true, false)).toEqual([invoice, x402, claim]);
  expect(urls(false, true)).toEqual([invoice]);
});

describe.each(STORE_KINDS)("starting credit, on %s", (store) => {
  const clock = createFakeClock(START);
  let gateway: Gateway | undefined;
  let startedAt = START;
  afterEach(async () => {
    await gateway?.stop();
    gateway = undefined;
    clock.advance(startedAt - clock.now());
  });

  async function start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    startedAt = clock.now();
    gateway = await startGateway({
      store,
      now: clock.now,
      env: {
        POSTERN_GRANT_USD_PER_DAY: "5",
        POSTERN_ACCOUNTS_PER_HOUR: "20",
        POSTERN_TRUSTED_PROXIES: "127.0.0.1",
        ...env,
      },
    });
  }

  function from(
    address: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ApiResponse> {
    if (gateway === undefined) throw new Error("no gateway");
    return call(gateway, "POST /v1/accounts", {
      body: {},
      headers: { "x-forwarded-for": address, ...headers },
    });
  }

  /** Creates accounts from these addresses at the same time and returns how many got starting credit. */
  async function countFunded(addresses: readonly string[]): Promise<number> {
    const responses = await Promise.all(addresses.map((address) => from(address)));
    for (const { status } of responses) expect([201, 429]).toContain(status);
    return responses.filter(({ body }) => valueAt(body, "balance.credits") === 50_000).length;
  }

  const times = (count: number, address: (index: number) => string): readonly string[] =>
    Array.from({ length: count }, (_, index) => address(index));
  const secondsToMidnight = (DAY_MS - (START % DAY_MS)) / SECOND_MS;

  function warnings(): readonly (readonly [unknown, unknown])[] {
    return (gateway?.logLines ?? [])
      .filter((line) => line.includes(WARNING))
      .map((line) => {
        const entry = JSON.parse(line) as Record<string, unknown>;
        return [entry["level"], entry["percent"]];
      });
  }

  test("100 requests from five /64s do not use up the day's budget", async () => {
    await start();
    const attack = times(100, (index) => `2001:db8:${index % 5}:1::${index + 1}`);
    expect(await countFunded(attack)).toBeLessThanOrEqual(20);
    const others = times(20, (index) => `${index + 11}.0.0.1`);
    expect(await countFunded(others)).toBe(20);
  });

  describe("a network over its share", () => {
    // All in one gateway, so the networks do not overlap.
    const cases: readonly (readonly [string, number, (index: number) => string, string])[] = [
      ["an IPv4 address", 5, () => "203.0.113.7", "203.0.113.8"],
      ["an IPv4 /24", 10, (index) => `198.51.100.${index}`, "198.51.101.1"],
      ["an IPv4 /16", 20, (index) => `192.0.${index}.1`, "192.1.0.1"],
      ["an IPv6 /64", 5, (index) => `2001:db8:1:1::${index + 1}`, "2001:db8:1:101::1"],
      ["an IPv6 /56", 5, (index) => `2001:db9:1:1${index + 10}::1`, "2001:db9:1:201::1"],
      ["an IPv6 /48", 10, (index) => `2001:dba:1:${index + 1}00::1`, "2001:dba:2::1"],
      ["an IPv6 /32", 20, (index) => `2001:dbb:${index + 1}::1`, "2001:dbc::1"],
    ];
    test("gets 429 until the next hour, and its neighbours notice nothing", async () => {
      await start({ POSTERN_ACCOUNTS_PER_HOUR: "0" });
      for (const [name, share, address, neighbour] of cases) {
        const funded = await countFunded(times(share + 5, address));
        const refused = await from(address(0));
        expectError(refused, { status: 429, code: "rate_limited" });
        expectStatus("createAccount", 429, refused);
        const retryAfter = Number(refused.headers.get("retry-after"));
        const spared = valueAt((await from(neighbour)).body, "balance.credits");
        expect([name, funded, retryAfter, spared]).toEqual([name, share, 20 * 60, 50_000]);
      }
    });

    test("gets its next share in the next hour, but not more than its share of the day", async () => {
      await start();
      const burst = times(8, () => "203.0.113.7");
      const found: number[] = [];
      for (let hour = 0; hour < 3; hour++) {
        found.push(await countFunded(burst));
        clock.advance(HOUR_MS);
      }
      expect(found).toEqual([5, 5, 0]);
      const refused = await from("203.0.113.7");
      expect(refused.headers.get("retry-after")).toBe(
        String(secondsToMidnight - (3 * HOUR_MS) / SECOND_MS),
      );
      clock.advance(DAY_MS - (clock.now() % DAY_MS));
      expect(await countFunded(burst)).toBe(5);
    });

    test("a refused request uses nothing up", async () => {
      await start({ POSTERN_ACCOUNTS_PER_HOUR: "0" });
      await countFunded(times(40, () => "203.0.113.7"));
      expect(await countFunded(times(9, (index) => `203.0.113.${index + 20}`))).toBe(5);
    });
  });

  describe("once the day's budget is used up", () => {
    const spread = (index: number): string => `${index + 11}.0.0.1`;

    test("accounts are created with a balance of 0 and the next steps, until midnight UTC", async () => {
      await start({ POSTERN_GRANT_USD_PER_DAY: "0.25" });
      const isUsedUp = (): Promise<boolean> => {
        if (gateway === undefined) throw new Error("no gateway");
        const { grantPerDay } = gateway.config.limits;
        return isGrantBudgetUsedUp(gateway.server.db, grantPerDay, clock.now());
      };
      expect(await isUsedUp()).toBe(false);
      expect(await countFunded(times(9, spread))).toBe(5);
      expect(await isUsedUp()).toBe(true);
      const created = await from("198.51.100.1");
      expectStatus("createAccount", 201, created);
      expect(Object.keys(created.body).toSorted()).toEqual([
        "account",
        "api_key",
        "balance",
        "claim",
        "next",
      ]);
      expect(valueAt(created.body, "balance")).toEqual({ credits: 0, usd: 0, held_credits: 0 });
      expect(listAt(created.body, "next").map(({ url }) => url)).toEqual([
        "/v1/billing/invoice",
        "/agent/identity/claim",
      ]);
      clock.advance(DAY_MS - (START % DAY_MS));
      expect(valueAt((await from("198.51.100.1")).body, "balance.credits")).toBe(50_000);
    });

    test("its key works, and the next steps can be followed", async () => {
      await start({ POSTERN_GRANT_USD_PER_DAY: "0.01" });
      if (gateway === undefined) throw new Error("no gateway");
      const created = await from("198.51.100.1");
      const key = textAt(created.body, "api_key");
      const read = await call(gateway, "GET /v1/account", { key });
      expect(valueAt(read.body, "balance.credits")).toBe(0);
      const [buy, claim] = listAt(created.body, "next");
      const invoice = await call(gateway, `POST ${String(buy?.["url"])}`, {
        key,
        body: buy?.["body"],
      });
      expect(invoice.status).toBe(201);
      const started = await call(gateway, `POST ${String(claim?.["url"])}`, {
        key,
        body: { email: "ada@example.org" },
      });
      expect(started.status).toBeLessThan(300);
    });

    test("the limit of accounts per network still applies", async () => {
      await start({ POSTERN_GRANT_USD_PER_DAY: "0.01", POSTERN_ACCOUNTS_PER_HOUR: "3" });
      const found: number[] = [];
      for (const address of times(4, () => "198.51.100.1"))
        found.push((await from(address)).status);
      expect(found).toEqual([201, 201, 201, 429]);
    });

    test("POSTERN_GRANT_EXHAUSTED=refuse refuses until midnight UTC instead", async () => {
      await start({ POSTERN_GRANT_USD_PER_DAY: "0.25", POSTERN_GRANT_EXHAUSTED: "refuse" });
      expect(await countFunded(times(9, spread))).toBe(5);
      const refused = await from("198.51.100.1");
      expectError(refused, { status: 429, code: "rate_limited" });
      expect(refused.headers.get("retry-after")).toBe(String(secondsToMidnight));
    });

    test("without a budget nothing is counted", async () => {
      await start({ POSTERN_GRANT_USD_PER_DAY: "0", POSTERN_ACCOUNTS_PER_HOUR: "0" });
      expect(await countFunded(times(30, () => "198.51.100.1"))).toBe(30);
    });
  });

  test("logs one warning each at 50, 80 and 100% of the budget, once a day", async () => {
    await start({ POSTERN_GRANT_USD_PER_DAY: "0.5" });
    const seen: number[] = [];
    for (let index = 0; index < 12; index++) {
      await from(`${index + 11}.0.0.1`);
      seen.push(warnings().length);
    }
    expect(seen).toEqual([0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3]);
    expect(warnings()).toEqual([
      ["warn", 50],
      ["warn", 80],
      ["warn", 100],
    ]);
    clock.advance(DAY_MS);
    await countFunded(times(12, (index) => `${index + 11}.0.0.1`));
    expect(warnings()).toHaveLength(6);
  });

  describe("the Idempotency-Key of a request without an API key", () => {
    const headers = { "idempotency-key": "5f1c0b7a9d3e4826b0c4d8e1f2a36795" };

    test("of two hosts of one /64 gives each an account and a key of its own", async () => {
      await start();
      const first = await from("2001:db8:7:7::1", headers);
      const second = await from("2001:db8:7:7::2", headers);
      expect([first.status, second.status]).toEqual([201, 201]);
      expect(second.headers.get("idempotent-replayed")).toBeNull();
      expect(textAt(second.body, "api_key")).not.toBe(textAt(first.body, "api_key"));
    });

    test("of one host is replayed, however its address is written", async () => {
      await start();
      const first = await from("2001:db8:7:7::1", headers);
      const repeated = await from("2001:0DB8:7:7:0:0:0:0001", headers);
      expect(repeated.headers.get("idempotent-replayed")).toBe("true");
      expect(repeated.body).toEqual(first.body);
    });
  });
});
