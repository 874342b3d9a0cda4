// /v1/account/budgets through real HTTP, on both stores, on a clock that moves only when it is told to.

import { afterAll, beforeAll, describe, expect, test, setDefaultTimeout } from "bun:test";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { claimWorkspace } from "../../src/accounts/members.ts";
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

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const NOON = Date.UTC(2026, 10, 29, 12);
const MIDNIGHT = "2026-11-30T00:00:00.000Z";
const MONTH_END = "2026-12-01T00:00:00.000Z";
const OWN = "sk-own-0123456789abcdefghij";
/** It holds and costs about 0.0005 USD. */
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
    // What happens in the same millisecond is listed in any order.
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
        const answer = await postCall(gateway, account, "chat", bodyOf("chat", CALL));
        if (answer.status !== 200) return answer;
        await answer.text();
      }
      throw new Error("the budget was never reached");
    };

    describe("GET /v1/account/budgets", () => {
      test("an account without any shows what it spent, and when each window ends", async () => {
        const account = await funded();
        const answer = await read(account);
        expectStatus("readBudgets", 200, answer);
        const window = { limit_usd: null, used_usd: 0, held_usd: 0, remaining_usd: null };
        expect(answer.body).toEqual({
          object: "budgets",
          daily: { ...window, resets_at: MIDNIGHT },
          monthly: { ...window, resets_at: MONTH_END },
        });
        await postCall(gateway, account, "chat", bodyOf("chat", CALL));
        const { body } = await read(account);
        expect(Number(valueAt(body, "daily.used_usd"))).toBeGreaterThan(0.0003);
        expect(valueAt(body, "daily.used_usd")).toBe(valueAt(body, "monthly.used_usd"));
      });

      test("two keys at once are a 400: nobody should guess whose budgets are meant", async () => {
        const [account, other] = [await funded(), await funded()];
        const answer = await call(gateway, "GET /v1/account/budgets", {
          key: account.key,
          headers: { "x-api-key": other.key },
        });
        expectError(answer, { status: 400, code: "invalid_request", param: "x-api-key" });
        expectStatus("readBudgets", 400, answer);
      });

      test("GET /v1/account says the same", async () => {
        const account = await funded();
        await change(account, { daily_usd: "0.25" });
        const whole = await call(gateway, "GET /v1/account", { key: account.key });
        expect(valueAt(whole.body, "budgets")).toEqual((await read(account)).body);
        expect(valueAt(whole.body, "budgets.daily.remaining_usd")).toBe(0.25);
      });
    });

    describe("PATCH /v1/account/budgets", () => {
      test("sets what is named, keeps what is not, and takes away what is null", async () => {
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

      test("anything but an amount of dollars is a 400 that names the field", async () => {
        const account = await funded();
        const wrong: readonly unknown[] = [
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
          for (const value of wrong) {
            const answer = await change(account, { [field]: value });
            expectError(answer, { status: 400, code: "invalid_request", param: field });
          }
        expectError(await change(account, { weekly_usd: 1 }), {
          status: 400,
          code: "invalid_request",
        });
        expect(valueAt((await read(account)).body, "daily.limit_usd")).toBeNull();
        expect((await change(account, { daily_usd: 9_000_000, monthly_usd: 0 })).status).toBe(200);
      });

      test("is for a key until the account has an owner; then a key reads only: 403", async () => {
        const account = await funded();
        expect((await change(account, { daily_usd: 5 })).status).toBe(200);
        await claim(account);
        const refused = await change(account, { daily_usd: 500 });
        expectStatus("changeBudgets", 403, refused);
        expectError(refused, { status: 403, code: "forbidden" });
        expect(valueAt(refused.body, "error.message")).toContain("owner");
        expect(valueAt((await read(account)).body, "daily.limit_usd")).toBe(5);
      });

      test("is repeated with the same idempotency key without being done twice", async () => {
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

      test("is written in the audit log, where it changed something", async () => {
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

      test("another account's budgets are another's", async () => {
        const [mine, theirs] = [await funded(), await funded()];
        await change(mine, { daily_usd: 0 });
        expect(valueAt((await read(theirs)).body, "daily.limit_usd")).toBeNull();
        expect((await postCall(gateway, theirs, "chat", bodyOf("chat", CALL))).status).toBe(200);
      });
    });

    describe("a call that does not fit into the budget", () => {
      for (const api of [...STREAMED_APIS, "embeddings"] as const)
        test(`is a 403 on ${api}, in its own envelope, with the window, its end and retry-after`, async () => {
          const account = await funded();
          await change(account, { daily_usd: 0, monthly_usd: 3 });
          const answer = await postCall(gateway, account, api, bodyOf(api, "hello"));
          expect(answer.status).toBe(403);
          expect(answer.headers.get("retry-after")).toBe(String((12 * HOUR_MS) / 1_000));
          const body = await answer.json();
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

      test("is refused before a provider is asked, also as a stream, and nothing is charged or held", async () => {
        const account = await funded();
        await change(account, { monthly_usd: 0 });
        const answer = await postCall(
          gateway,
          account,
          "chat",
          bodyOf("chat", CALL, { stream: true }),
        );
        expect(errorOf(await answer.json())).toMatchObject({
          code: "workspace_budget_reached",
          budget_window: "month",
          budget_resets_at: MONTH_END,
        });
        const { body } = await read(account);
        expect([valueAt(body, "monthly.used_usd"), valueAt(body, "monthly.held_usd")]).toEqual([
          0, 0,
        ]);
      });

      test("tells whoever has an owner to ask the owner", async () => {
        const account = await funded();
        await change(account, { daily_usd: 0 });
        await claim(account);
        const answer = await postCall(gateway, account, "messages", bodyOf("messages", "hi"));
        const { message } = errorOf(await answer.json());
        expect(String(message)).toContain("ask the workspace's owner");
        expect(String(message)).not.toContain("PATCH");
      });

      test("is stopped for every key of the account, goes on after the window, and while credits remain", async () => {
        const account = await funded();
        await change(account, { daily_usd: 0.002 });
        const refused = await spendAll(account);
        expect([refused.status, errorOf(await refused.json())["code"]]).toEqual([
          403,
          "workspace_budget_reached",
        ]);
        const minted = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
        const other = {
          ...account,
          headers: {
            ...account.headers,
            authorization: `Bearer ${String(minted.body["api_key"])}`,
          },
        };
        expect((await postCall(gateway, other, "chat", bodyOf("chat", CALL))).status).toBe(403);
        const before = (await read(account)).body;
        expect(Number(valueAt(before, "daily.used_usd"))).toBeLessThanOrEqual(0.002);
        clock.advance(DAY_MS);
        expect((await postCall(gateway, other, "chat", bodyOf("chat", CALL))).status).toBe(200);
        clock.advance(-DAY_MS);
      });

      test("an output limit that was left open is lowered to what the budget leaves", async () => {
        const account = await funded();
        const { max_tokens: _open, ...open } = bodyOf("chat", "[[sim: tokens=4000]] x");
        await change(account, { daily_usd: 0.002 });
        const answer = await postCall(gateway, account, "chat", open);
        expect(answer.status).toBe(200);
        await answer.text();
        const { body } = await read(account);
        expect(Number(valueAt(body, "daily.used_usd"))).toBeGreaterThan(0.001);
        expect(Number(valueAt(body, "daily.used_usd"))).toBeLessThanOrEqual(0.002);
      });
    });

    describe("budget.reached", () => {
      const chat = async (account: TestAccount): Promise<number> => {
        clock.advance(1);
        const answer = await postCall(gateway, account, "chat", bodyOf("chat", CALL));
        await answer.text();
        return answer.status;
      };
      /** What one call costs, in nano-USD, of an account that has made no other. */
      const costOf = async (account: TestAccount): Promise<number> => {
        expect(await chat(account)).toBe(200);
        return Math.round(Number(valueAt((await read(account)).body, "daily.used_usd")) * 1e9);
      };
      const usd = (nano: number): string => (nano / 1e9).toFixed(9);

      test("is raised at 50, 80 and 100 percent, once each in a window, and again in the next", async () => {
        const account = await funded();
        const cost = await costOf(account);
        await change(account, { daily_usd: usd(5 * cost) });
        const told = async (): Promise<readonly unknown[]> =>
          (await eventsOf(account)).map((event) => event["data"]).toReversed();
        const data = (percent: number, used: number, limit = 5, resets_at = MIDNIGHT) => ({
          window: "day",
          percent,
          used_usd: Number(usd(used * cost)),
          limit_usd: Number(usd(limit * cost)),
          resets_at,
        });
        expect([await chat(account), await told()]).toEqual([200, []]);
        expect([await chat(account), await told()]).toEqual([200, [data(50, 3)]]);
        expect([await chat(account), await told()]).toEqual([200, [data(50, 3), data(80, 4)]]);
        expect([await chat(account), (await told()).length]).toEqual([403, 2]);
        await change(account, { daily_usd: usd(4 * cost) });
        expect((await told()).slice(2)).toEqual([data(100, 4, 4)]);
        clock.advance(DAY_MS);
        for (let count = 0; count < 2; count++) expect(await chat(account)).toBe(200);
        clock.advance(-DAY_MS);
        expect((await told()).slice(3)).toEqual([data(50, 2, 4, MONTH_END)]);
      });

      test("goes to a webhook that wants it, written in the transaction of the charge", async () => {
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

      test("a budget that is set below what was spent tells at once; a greater one arms it again", async () => {
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

describe("a budget and the caller's own provider key", () => {
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
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "sk-house-0123456789abcdef" },
    });
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
    await provider.stop();
  });

  test("a call on it costs no credits, so no budget stops it", async () => {
    const account = await registerAccount(gateway);
    await call(gateway, "PATCH /v1/account/budgets", {
      key: account.key,
      body: { daily_usd: 0, monthly_usd: 0 },
    });
    const ask = () =>
      postCall(gateway, account, "chat", bodyOf("chat", "hello", { model: "openai/gpt-5-mini" }));
    expect((await ask()).status).toBe(403);
    const made = await call(gateway, "POST /v1/provider-keys", {
      key: account.key,
      body: { provider: "openai", api_key: OWN },
    });
    expect(made.status).toBe(201);
    const answer = await ask();
    expect([answer.status, answer.headers.get("x-postern-byok")]).toEqual([200, "true"]);
  });
});
