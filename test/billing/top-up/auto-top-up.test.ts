// /v1/billing/auto-top-up: a key can read, lower and disable auto top-up, but not enable or raise it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../../support/eventually.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { type TestUser, createUser, makeOwner, visitPage } from "../console-user.ts";
import { api } from "../fixtures.ts";

const PATH = "/v1/billing/auto-top-up";

interface AutoTopUpBody {
  readonly status: string;
  readonly threshold_usd: number | null;
  readonly amount_usd: number | null;
  readonly monthly_ceiling_usd: number | null;
  readonly bought_this_month_usd: number;
  readonly last_attempt: { readonly state: string; readonly invoice_id: string } | null;
  readonly manage_url: string;
}
interface ErrorBody {
  readonly error: { readonly code: string; readonly message: string; readonly param: string };
}

for (const store of ["sqlite", "postgres"] as const)
  describe(`auto top-up on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let owner: TestUser;
    let page: string;
    beforeAll(async () => {
      gateway = await startGateway({ store });
      account = await registerAccount(gateway);
      owner = await createUser(gateway, "olga");
      await makeOwner(gateway, account.id, owner);
      page = `/console/${account.id}/billing`;
    });
    afterAll(() => gateway.stop());

    const call = <T = AutoTopUpBody>(method: string, body?: unknown, caller = account) =>
      api<T>(gateway, caller, [method, PATH], body === undefined ? {} : { body });
    const enable = (rules: Readonly<Record<string, string>> = {}) =>
      visitPage(gateway, page, owner, {
        do: "allow",
        threshold_usd: "0.01",
        amount_usd: "10",
        monthly_ceiling_usd: "50",
        ...rules,
      });
    const actions = async () => {
      const rows = await gateway.server.db.all(
        "select action, actor_type from audit where account_id = ? and (action like 'auto%' or action like 'payment%') order by id",
        [account.id],
      );
      return rows.map((row) => `${String(row["action"])} by ${String(row["actor_type"])}`);
    };

    describe(`GET ${PATH}`, () => {
      test("returns `off` and the console URL if auto top-up was never enabled", async () => {
        const { status, body } = await call("GET");
        expect(status).toBe(200);
        expect(body).toEqual({
          object: "auto_top_up",
          status: "off",
          threshold_usd: null,
          amount_usd: null,
          monthly_ceiling_usd: null,
          bought_this_month_usd: 0,
          payment_method: null,
          failures_in_a_row: 0,
          stopped_reason: null,
          stopped_at: null,
          next_try_at: null,
          last_attempt: null,
          manage_url: `${gateway.url}${page}`,
        } as unknown as AutoTopUpBody);
      });

      test("returns 401 without a key", async () => {
        expect((await fetch(gateway.url + PATH)).status).toBe(401);
      });
    });

    describe(`PATCH ${PATH}`, () => {
      test("returns 403 with the console URL if auto top-up is off", async () => {
        const { status, body } = await call<ErrorBody>("PATCH", { amount_usd: 10 });
        expect(status).toBe(403);
        expect(body.error.code).toBe("forbidden");
        expect(body.error.message).toContain(`${gateway.url}${page}`);
        expect((await call("GET")).body.status).toBe("off");
      });

      test("lowers the given amounts and keeps the others", async () => {
        await visitPage(gateway, `${page}/card`, owner, { card: "works" });
        await enable();
        const { status, body } = await call("PATCH", { monthly_ceiling_usd: 40 });
        expect(status).toBe(200);
        expect(body).toMatchObject({
          status: "on",
          threshold_usd: 0.01,
          amount_usd: 10,
          monthly_ceiling_usd: 40,
        });
        expect((await call("PATCH", { amount_usd: "5.50" })).body.amount_usd).toBe(5.5);
        expect((await call("PATCH", {})).body).toMatchObject({ amount_usd: 5.5 });
        expect((await call("GET")).body).toMatchObject({ amount_usd: 5.5, threshold_usd: 0.01 });
      });

      for (const [field, value] of [
        ["threshold_usd", 0.02],
        ["amount_usd", 5.51],
        ["monthly_ceiling_usd", "40.01"],
      ] as const)
        test(`returns 403 when raising ${field}, and names the field`, async () => {
          const before = (await call("GET")).body;
          const { status, body } = await call<ErrorBody>("PATCH", { [field]: value });
          expect([status, body.error.param]).toEqual([403, field]);
          expect((await call("GET")).body).toEqual(before);
        });

      for (const [label, input, param] of [
        ["an amount that is not a number", { amount_usd: "five" }, "amount_usd"],
        ["a fraction of a cent", { amount_usd: 1.001 }, "amount_usd"],
        ["an amount below the minimum", { amount_usd: 0.5 }, "amount_usd"],
        ["a threshold of zero", { threshold_usd: 0 }, "threshold_usd"],
        ["a negative threshold", { threshold_usd: -1 }, "threshold_usd"],
        ["a ceiling below the amount", { monthly_ceiling_usd: 5.49 }, "monthly_ceiling_usd"],
        ["a ceiling above the maximum", { monthly_ceiling_usd: 1e15 }, "monthly_ceiling_usd"],
      ] as const)
        test(`returns 400 for ${label} and names the field`, async () => {
          const { status, body } = await call<ErrorBody>("PATCH", input);
          expect([status, body.error.param]).toEqual([400, param]);
        });

      test("returns 400 for an unknown field", async () => {
        expect((await call("PATCH", { status: "on" })).status).toBe(400);
      });
    });

    describe(`DELETE ${PATH}`, () => {
      test("does not affect another account", async () => {
        const other = await registerAccount(gateway);
        expect((await call("DELETE", undefined, other)).body.status).toBe("off");
        expect((await call("GET")).body.status).toBe("on");
      });

      test("disables auto top-up, also repeatedly; only the owner can enable it again", async () => {
        for (let times = 0; times < 2; times++) {
          const { status, body } = await call("DELETE");
          expect([status, body.status]).toEqual([200, "off"]);
        }
        expect((await call("PATCH", { amount_usd: 1 })).status).toBe(403);
        await enable();
        expect((await call("GET")).body.status).toBe("on");
      });

      test("changes are audited with their actor", async () => {
        expect(await actions()).toEqual([
          "payment_method.saved by person",
          "auto_top_up.changed by person",
          "auto_top_up.changed by key",
          "auto_top_up.changed by key",
          "auto_top_up.changed by key",
          "auto_top_up.turned_off by key",
          "auto_top_up.changed by person",
        ]);
      });
    });

    test("a running gateway buys credits below the threshold", async () => {
      await enable({ threshold_usd: "1" });
      const state = await eventually(async () => {
        const { body } = await call("GET");
        return body.last_attempt?.state === "paid" && body;
      });
      expect(state.bought_this_month_usd).toBe(10);
      const id = state.last_attempt?.invoice_id ?? "";
      const { body } = await api(gateway, account, ["GET", `/v1/billing/invoice/${id}`]);
      expect(body).toMatchObject({ status: "paid", amount_usd: 10, fee_usd: 0.5 });
      const { body: response } = await api(gateway, account, ["GET", "/v1/account"]);
      expect(response).toMatchObject({ balance: { credits: 10_050_000 }, owed_usd: 0 });
    });
  });
