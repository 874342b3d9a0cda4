// /v1/account/budgets over HTTP, on both stores, with a fake clock.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  postCall,
  STREAMED_APIS,
  USD,
} from "../inference/support/harness.ts";
import { type RawProvider, startRawProvider } from "../inference/support/raw-provider.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  createFakeClock,
  expectError,
  type Json,
  listAt,
} from "../spec/api-client.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const NOON = Date.UTC(2026, 10, 29, 12);
const MIDNIGHT = "2026-11-30T00:00:00.000Z";
const MONTH_END = "2026-12-01T00:00:00.000Z";
const OWN = "sk-own-0123456789abcdefghij";
/** Holds and costs about $0.0005. */
const CALL = "[[sim: tokens=200]] x";

for (const store of STORE_KINDS) {
  describe(`budgets, on ${store}`, () => {
    const clock = createFakeClock(NOON);
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({ store, now: clock.now });
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const funded = async (): Promise<TestAccount> => {
      const account = await registerAccount(gateway);
      await grantCredits(gateway, account, USD);
      return account;
    };
    const read = ({ key }: TestAccount): Promise<ApiResponse> =>
      call(gateway, "GET /v1/account/budgets", { key });
    // Entries of one millisecond are listed in any order.
    const change = ({ key }: TestAccount, body: Json): Promise<ApiResponse> => {
      clock.advance(1);
      return call(gateway, "PATCH /v1/account/budgets", { key, body });
    };
    const claim = async ({ id }: TestAccount): Promise<void> =>
      gateway.server.db.write((tx) =>
        claimWorkspace(tx, { accountId: id, personId: `usr_${id}`, via: "test", now: clock.now() }),
      );
    const eventsOf = async ({ key }: TestAccount): Promise<readonly Json[]> =>
      listAt(
        (await call(gateway, "GET /v1/events?type=budget.reached&limit=100", { key })).body,
        "data",
      );
    const spendAll = async (account: TestAccount): Promise<Response> => {
      for (let tries = 0; tries < 20; tries++) {
        const response = await postCall(gateway, account, "chat", bodyOf("chat", CALL));
        if (response.status !== 200) return response;
        await response.text();
      }
      throw new Error("the budget was not reached");
    };

    describe("GET /v1/account/budgets", () => {
      test("shows spend and window ends without a budget", async () => {
        const account = await funded();
        const response = await read(account);
        expectStatus("getBudgets", 200, response);
        const window = { limit_usd: null, used_usd: 0, held_usd: 0, remaining_usd: null };
        expect(response.body).toEqual({
          object: "budgets",
          daily: { ...window, resets_at: MIDNIGHT },
          monthly: { ...window, resets_at: MONTH_END },
        });
        await postCall(gateway, account, "chat", bodyOf("chat", CALL));
        const { body } = await read(account);
        expect(Number(valueAt(body, "daily.used_usd"))).toBeGreaterThan(0.0003);
        expect(valueAt(body, "daily.used_usd")).toBe(valueAt(body, "monthly.used_usd"));
      });

      test("two API keys in one request are a 400", async () => {
        const [account, other] = [await funded(), await funded()];
        const response = await call(gateway, "GET /v1/account/budgets", {
          key: account.key,
          headers: { "x-api-key": other.key },
        });
        expectError(response, { status: 400, code: "invalid_request", param: "x-api-key" });
        expectStatus("getBudgets", 400, response);
      });

      test("GET /v1/account includes the same budgets", async () => {
        const account = await funded();
        await change(account, { daily_usd: "0.25" });
        const whole = await call(gateway, "GET /v1/account", { key: account.key });
        expect(valueAt(whole.body, "budgets")).toEqual((await read(account)).body);
        expect(valueAt(whole.body, "budgets.daily.remaining_usd")).toBe(0.25);
      });
    });

    describe("PATCH /v1/account/budgets", () => {
      test("sets given budgets, keeps absent ones and removes null", async () => {
        const account = await funded();
        const first = await change(account, { daily_usd: 5, monthly_usd: "100.000000001" });
        expectStatus("changeBudgets", 200, first);
        expect([
          valueAt(first.body, "daily.limit_usd"),
          valueAt(first.body, "monthly.limit_usd"),
        ]).toEqual([5, 100.000000001]);
        const second = await change(account, { daily_usd: null });
        expect([
          valueAt(second.body, "daily.limit_usd"),
          valueAt(second.body, "monthly.limit_usd"),
        ]).toEqual([null, 100.000000001]);
        expect((await change(account, {})).body).toEqual(second.body);
        expect((await read(account)).body).toEqual(second.body);
      });

      test("rejects invalid amounts with a 400 that names the field", async () => {
        const account = await funded();
        const invalidAmounts: readonly unknown[] = [
          -1,
          "-0.01",
          "1e3",
          "",
          " ",
          "five",
          "0x10",
          "1.0000000001",
          0.00000000001,
          9_000_000.5,
          1e300,
          "9000001",
          true,
          [],
          {},
        ];
        for (const field of ["daily_usd", "monthly_usd"])
          for (const value of invalidAmounts) {
            const response = await change(account, { [field]: value });
            expectError(response, { status: 400, code: "invalid_request", param: field });
          }
        expectError(await change(account, { weekly_usd: 1 }), {
          status: 400,
          code: "invalid_request",
        });
        expect(valueAt((await read(account)).body, "daily.limit_usd")).toBeNull();
        expect((await change(account, { daily_usd: 9_000_000, monthly_usd: 0 })).status).toBe(200);
      });

      test("rejects keys of a claimed account with 403", async () => {
        const account = await funded();
        expect((await change(account, { daily_usd: 5 })).status).toBe(200);
        await claim(account);
        const rejected = await change(account, { daily_usd: 500 });
        expectStatus("changeBudgets", 403, rejected);
        expectError(rejected, { status: 403, code: "forbidden" });
        expect(valueAt(rejected.body, "error.message")).toContain("owner");
        expect(valueAt((await read(account)).body, "daily.limit_usd")).toBe(5);
      });

      test("accepts an idempotency key", async () => {
        const account = await funded();
        const sent = {
          key: account.key,
          body: { daily_usd: 7 },
          headers: { "idempotency-key": "set-the-budget-once-0001" },
        };
        const first = await call(gateway, "PATCH /v1/account/budgets", sent);
        await change(account, { daily_usd: 8 });
        const again = await call(gateway, "PATCH /v1/account/budgets", sent);
        expect(again.status).toBe(first.status);
        expect(again.body["object"]).toBe("budgets");
      });

      test("adds an audit entry if it changed something", async () => {
        const account = await funded();
        await change(account, { daily_usd: 5 });
        await change(account, { daily_usd: "5.00" });
        await change(account, { daily_usd: null, monthly_usd: "0.5" });
        const { body } = await call(gateway, "GET /v1/audit?action=budget.changed", {
          key: account.key,
        });
        expect(listAt(body, "data").map((entry) => entry["detail"])).toEqual([
          { daily_usd: null, monthly_usd: "0.5" },
          { daily_usd: "5" },
        ]);
      });

      test("does not affect other accounts", async () => {
        const [mine, theirs] = [await funded(), await funded()];
        await change(mine, { daily_usd: 0 });
        expect(valueAt((await read(theirs)).body, "daily.limit_usd")).toBeNull();
        expect((await postCall(gateway, theirs, "chat", bodyOf("chat", CALL))).status).toBe(200);
      });
    });

    describe("a call that exceeds the budget", () => {
      for (const api of [...STREAMED_APIS, "embeddings"] as const)
        test(`is a 403 on ${api}, in the error format of the API, with window, reset time and retry-after`, async () => {
          const account = await funded();
          await change(account, { daily_usd: 0, monthly_usd: 3 });
          const response = await postCall(gateway, account, api, bodyOf(api, "hello"));
          expect(response.status).toBe(403);
          expect(response.headers.get("retry-after")).toBe(String((12 * HOUR_MS) / 1_000));
          const body = await response.json();
          expectEnvelope(api, body);
          const error = errorOf(body);
          expect(error).toMatchObject({
            code: "workspace_budget_reached",
            budget_window: "day",
            budget_usd: 0,
            available_credits: 0,
            budget_resets_at: MIDNIGHT,
            next: [{ method: "GET", url: "/v1/account/budgets" }],
          });
          expect(String(error["message"])).toContain("daily budget of $0.00");
          expect(String(error["message"])).toContain("PATCH /v1/account/budgets");
        });

      test("is rejected before a provider is called, without a charge or hold", async () => {
        const account = await funded();
        await change(account, { monthly_usd: 0 });
        const response = await postCall(
          gateway,
          account,
          "chat",
          bodyOf("chat", CALL, { stream: true }),
        );
        expect(errorOf(await response.json())).toMatchObject({
          code: "workspace_budget_reached",
          budget_window: "month",
          budget_resets_at: MONTH_END,
        });
        const { body } = await read(account);
        expect([valueAt(body, "monthly.used_usd"), valueAt(body, "monthly.held_usd")]).toEqual([
          0, 0,
        ]);
      });

      test("refers to the owner of a claimed account", async () => {
        const account = await funded();
        await change(account, { daily_usd: 0 });
        await claim(account);
        const response = await postCall(gateway, account, "messages", bodyOf("messages", "hi"));
        const { message } = errorOf(await response.json());
        expect(String(message)).toContain("ask the workspace's owner");
        expect(String(message)).not.toContain("PATCH");
      });

      test("is rejected for every key of the account until the window resets", async () => {
        const account = await funded();
        await change(account, { daily_usd: 0.002 });
        const rejected = await spendAll(account);
        expect([rejected.status, errorOf(await rejected.json())["code"]]).toEqual([
          403,
          "workspace_budget_reached",
        ]);
        const created = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
        const other = {
          ...account,
          headers: {
            ...account.headers,
            authorization: `Bearer ${String(created.body["api_key"])}`,
          },
        };
        expect((await postCall(gateway, other, "chat", bodyOf("chat", CALL))).status).toBe(403);
        const before = (await read(account)).body;
        expect(Number(valueAt(before, "daily.used_usd"))).toBeLessThanOrEqual(0.002);
        clock.advance(DAY_MS);
        expect((await postCall(gateway, other, "chat", bodyOf("chat", CALL))).status).toBe(200);
        clock.advance(-DAY_MS);
      });

      test("is lowered to what the budget allows if it has no output limit", async () => {
        const account = await funded();
        const { max_tokens: _maxTokens, ...unlimited } = bodyOf("chat", "[[sim: tokens=4000]] x");
        await change(account, { daily_usd: 0.002 });
        const response = await postCall(gateway, account, "chat", unlimited);
        expect(response.status).toBe(200);
        await response.text();
        const { body } = await read(account);
        expect(Number(valueAt(body, "daily.used_usd"))).toBeGreaterThan(0.001);
        expect(Number(valueAt(body, "daily.used_usd"))).toBeLessThanOrEqual(0.002);
      });
    });

    describe("budget.reached", () => {
      const chat = async (account: TestAccount): Promise<number> => {
        clock.advance(1);
        const response = await postCall(gateway, account, "chat", bodyOf("chat", CALL));
        await response.text();
        return response.status;
      };
      /** What one call costs, in nano-USD, of an account that has made no other. */
      const costOf = async (account: TestAccount): Promise<number> => {
        expect(await chat(account)).toBe(200);
        return Math.round(Number(valueAt((await read(account)).body, "daily.used_usd")) * 1e9);
      };
      const usd = (nano: number): string => (nano / 1e9).toFixed(9);

      test("is emitted at 50, 80 and 100 percent, once per window", async () => {
        const account = await funded();
        const cost = await costOf(account);
        await change(account, { daily_usd: usd(5 * cost) });
        const emitted = async (): Promise<readonly unknown[]> =>
          (await eventsOf(account)).map((event) => event["data"]).toReversed();
        const data = (percent: number, used: number, limit = 5, resets_at = MIDNIGHT) => ({
          window: "day",
          percent,
          used_usd: Number(usd(used * cost)),
          limit_usd: Number(usd(limit * cost)),
          resets_at,
        });
        expect([await chat(account), await emitted()]).toEqual([200, []]);
        expect([await chat(account), await emitted()]).toEqual([200, [data(50, 3)]]);
        expect([await chat(account), await emitted()]).toEqual([200, [data(50, 3), data(80, 4)]]);
        expect([await chat(account), (await emitted()).length]).toEqual([403, 2]);
        await change(account, { daily_usd: usd(4 * cost) });
        expect((await emitted()).slice(2)).toEqual([data(100, 4, 4)]);
        clock.advance(DAY_MS);
        for (let count = 0; count < 2; count++) expect(await chat(account)).toBe(200);
        clock.advance(-DAY_MS);
        expect((await emitted()).slice(3)).toEqual([data(50, 2, 4, MONTH_END)]);
      });

      test("is queued for subscribed webhooks in the transaction of the charge", async () => {
        const account = await funded();
        const made = await call(gateway, "POST /v1/webhooks", {
          key: account.key,
          body: { url: "http://127.0.0.1:9/none", events: ["budget.reached"] },
        });
        const cost = await costOf(account);
        await change(account, { monthly_usd: usd(3 * cost) });
        expect(await chat(account)).toBe(200);
        const rows = await gateway.server.db.all(
          "select event.data from webhook_delivery join event on event.id = webhook_delivery.event_id where webhook_id = ?",
          [String(made.body["id"])],
        );
        expect(rows.map((row) => JSON.parse(String(row["data"])))).toEqual([
          {
            window: "month",
            percent: 50,
            used_usd: Number(usd(2 * cost)),
            limit_usd: Number(usd(3 * cost)),
            resets_at: MONTH_END,
          },
        ]);
      });

      test("is emitted immediately if a budget is set below the spend, and again after it is raised", async () => {
        const account = await funded();
        const cost = await costOf(account);
        await change(account, { daily_usd: usd(Math.round(1.5 * cost)) });
        expect((await eventsOf(account)).map((event) => valueAt(event, "data.percent"))).toEqual([
          50,
        ]);
        await change(account, { daily_usd: usd(4 * cost) });
        expect(await chat(account)).toBe(200);
        expect((await eventsOf(account)).map((event) => valueAt(event, "data.percent"))).toEqual([
          50, 50,
        ]);
      });
    });
  });
}

describe("budgets and provider keys", () => {
  let provider: RawProvider;
  let gateway: Gateway;
  beforeAll(async () => {
    provider = await startRawProvider((request) =>
      request.path.endsWith("/models")
        ? { body: '{"object":"list","data":[]}' }
        : {
            body: JSON.stringify({
              id: "x",
              object: "chat.completion",
              model: "gpt-5-mini",
              choices: [
                {
                  index: 0,
                  message: { role: "assistant", content: "fine" },
                  finish_reason: "stop",
                },
              ],
              usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
            }),
          },
    );
    gateway = await startGateway({
      providers: [],
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "sk-gateway-0123456789abcdef" },
    });
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
    await provider.stop();
  });

  test("a call with the caller's provider key is not limited by a budget", async () => {
    const account = await registerAccount(gateway);
    await call(gateway, "PATCH /v1/account/budgets", {
      key: account.key,
      body: { daily_usd: 0, monthly_usd: 0 },
    });
    const chat = () =>
      postCall(gateway, account, "chat", bodyOf("chat", "hello", { model: "openai/gpt-5-mini" }));
    expect((await chat()).status).toBe(403);
    const made = await call(gateway, "POST /v1/provider-keys", {
      key: account.key,
      body: { provider: "openai", api_key: OWN },
    });
    expect(made.status).toBe(201);
    const response = await chat();
    expect([response.status, response.headers.get("x-postern-byok")]).toEqual([200, "true"]);
  });
});
