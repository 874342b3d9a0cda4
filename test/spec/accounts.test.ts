import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../src/base/time.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { valueAt, call, chat, createFakeClock, expectError, textAt } from "./api-client.ts";

const ID = /^acct_[0-9a-z]{26}$/;
const clock = createFakeClock(Date.UTC(2026, 10, 21, 9, 30));

describe.each(STORE_KINDS)("accounts on %s", (store) => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now });
  });
  afterAll(() => gateway.stop());

  describe("POST /v1/accounts", () => {
    test("creates a funded account and its first key without authentication", async () => {
      const response = await call(gateway, "POST /v1/accounts", { body: {} });
      expectStatus("createAccount", 201, response);
      expect(Object.keys(response.body).toSorted()).toEqual([
        "account",
        "api_key",
        "balance",
        "claim",
        "first_call",
      ]);
      const read = await call(gateway, "GET /v1/account", {
        key: textAt(response.body, "api_key"),
      });
      expect(read.status).toBe(200);
    });

    test("returns a first call that works, costs no more than it says, and how to start a claim", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      const key = textAt(body, "api_key");
      const first = valueAt(body, "first_call") as {
        method: string;
        url: string;
        body: object;
        cost_usd_max: string;
      };
      const reply = await call(gateway, `${first.method} ${first.url}`, { key, body: first.body });
      expect(reply.status).toBe(200);
      const cost = Number(reply.headers.get("x-postern-cost-usd"));
      expect(cost).toBeGreaterThan(0);
      expect(cost).toBeLessThanOrEqual(Number(first.cost_usd_max));
      const start = valueAt(body, "claim.start") as { method: string; url: string };
      const claim = await call(gateway, `${start.method} ${start.url}`, {
        key,
        body: { email: "someone@example.com" },
      });
      expect(claim.status).toBe(200);
    });

    test("accepts the fields of the auth.md protocol, and no other identity or credential", async () => {
      const body = { type: "anonymous", requested_credential_type: "api_key" };
      expect((await call(gateway, "POST /v1/accounts", { body })).status).toBe(201);
      for (const [param, value] of [
        ["type", "identity_assertion"],
        ["requested_credential_type", "access_token"],
      ] as const) {
        const refused = await call(gateway, "POST /v1/accounts", {
          body: { ...body, [param]: value },
        });
        expectError(refused, { status: 400, code: "invalid_request", param });
      }
    });

    test("rejects web pages of other hosts in development, which could use the developer's provider keys", async () => {
      for (const origin of ["https://evil.example", "null", "http://127.0.0.1.evil.example", ""]) {
        const response = await call(gateway, "POST /v1/accounts", { headers: { origin } });
        expectError(response, { status: 403, code: "forbidden", param: "origin" });
        expectStatus("createAccount", 403, response);
        expect(response.text).toContain("POSTERN_BASE_URL");
        expect(response.headers.get("access-control-allow-origin")).toBeNull();
      }
      for (const origin of [gateway.url, "http://localhost:5173", "http://[::1]:3000"]) {
        const response = await call(gateway, "POST /v1/accounts", { headers: { origin } });
        expect([response.status, response.headers.get("access-control-allow-origin")]).toEqual([
          201,
          "*",
        ]);
      }
    });

    test("accepts an empty object and an empty body, also without a content type", async () => {
      for (const sent of [
        { body: {} },
        { raw: "", headers: { "content-type": "application/json" } },
        {},
        { raw: "  \n" },
      ])
        expect((await call(gateway, "POST /v1/accounts", sent)).status).toBe(201);
    });

    test("returns a unique account.id that starts with acct_", async () => {
      const ids = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
          return textAt(body, "account.id");
        }),
      );
      expect(new Set(ids).size).toBe(20);
      for (const id of ids) expect(id).toMatch(ID);
    });

    test("returns a null account.email if none was sent", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "account.email")).toBeNull();
    });

    test("returns account.email as sent", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", {
        body: { email: "Ada.Lovelace+agents@example.org" },
      });
      expect(valueAt(body, "account.email")).toBe("Ada.Lovelace+agents@example.org");
      const read = await call(gateway, "GET /v1/account", { key: textAt(body, "api_key") });
      expect(valueAt(read.body, "account.email")).toBe("Ada.Lovelace+agents@example.org");
    });

    test("accepts the same unverified email for several accounts", async () => {
      const email = "twice@example.org";
      for (const times of [1, 2])
        expect({
          times,
          status: (await call(gateway, "POST /v1/accounts", { body: { email } })).status,
        }).toEqual({ times, status: 201 });
    });

    test("returns account.created_at as an RFC 3339 timestamp in UTC", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "account.created_at")).toBe("2026-11-21T09:30:00.000Z");
    });

    test("returns an unclaimed account with origin agent", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "account.origin")).toBe("agent");
      expect(valueAt(body, "account.claimed_at")).toBeNull();
    });

    test("returns an api_key of prefix, rt- and secret", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(textAt(body, "api_key")).toMatch(/^pst-rt-[0-9A-Za-z]{49}$/);
    });

    test("returns 50000 credits and $0.05", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "balance")).toEqual({ credits: 50_000, usd: 0.05, held_credits: 0 });
    });

    test("is not cached, because it contains the key", async () => {
      const response = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(response.headers.get("cache-control")).toBe("no-store");
    });

    test("creates a first key without name, limit and expiry", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      const read = await call(gateway, "GET /v1/account", { key: textAt(body, "api_key") });
      expect(valueAt(read.body, "key")).toMatchObject({
        name: null,
        limit_usd: null,
        limit_window: null,
        expires_at: null,
        revoked_at: null,
        spent_usd: 0,
      });
    });

    test("rejects an invalid email and unknown fields, and names the field", async () => {
      const wrong: readonly [unknown, string | null][] = [
        [{ email: "not an email" }, "email"],
        [{ email: "" }, "email"],
        [{ email: null }, "email"],
        [{ email: 7 }, "email"],
        [{ email: ["a@example.org"] }, "email"],
        [{ email: `${"a".repeat(250)}@example.org` }, "email"],
        [{ email: "a@example.org\u0000" }, "email"],
        [{ email: "a@example.org", admin: true }, "admin"],
        [{ Email: "a@example.org" }, "Email"],
        [[], null],
        ["text", null],
        [3, null],
        [null, null],
      ];
      for (const [body, param] of wrong)
        expectError(await call(gateway, "POST /v1/accounts", { body }), {
          status: 400,
          code: "invalid_request",
          param,
        });
      expectStatus(
        "createAccount",
        400,
        await call(gateway, "POST /v1/accounts", { body: { email: 7 } }),
      );
    });

    test("names an unknown field in the message", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: { e_mail: "a@b.org" } });
      expect(textAt(body, "error.message")).toContain("e_mail");
    });
  });

  describe("GET /v1/account", () => {
    let account: TestAccount;
    beforeAll(async () => {
      account = await registerAccount(gateway);
    });

    test("returns the account, balance, budgets, calling key and members", async () => {
      const response = await call(gateway, "GET /v1/account", { key: account.key });
      expectStatus("getAccount", 200, response);
      expect(Object.keys(response.body).toSorted()).toEqual([
        "account",
        "balance",
        "budgets",
        "closing",
        "frozen",
        "key",
        "members",
        "owed_usd",
      ]);
      expect(valueAt(response.body, "account.id")).toBe(account.id);
      expect(valueAt(response.body, "members")).toEqual([]);
    });

    test("returns only id, name, email, created_at, claimed_at, origin and settings of the account", async () => {
      const { body } = await call(gateway, "GET /v1/account", { key: account.key });
      expect(Object.keys(valueAt(body, "account") as object)).toEqual([
        "id",
        "name",
        "email",
        "created_at",
        "claimed_at",
        "origin",
        "receipts",
        "data_policy",
        "prompt_retention_days",
      ]);
    });

    test("sets and removes the name of the account", async () => {
      for (const [name, expected] of [
        [" Acme ", "Acme"],
        ["", null],
        [null, null],
      ] as const) {
        const renamed = await call(gateway, "PATCH /v1/account", {
          key: account.key,
          body: { name },
        });
        expectStatus("changeAccountSettings", 200, renamed);
        expect(valueAt(renamed.body, "name")).toBe(expected);
        const read = await call(gateway, "GET /v1/account", { key: account.key });
        expect(valueAt(read.body, "account.name")).toBe(expected);
      }
    });

    test("returns the calling key", async () => {
      const minted = await call(gateway, "POST /v1/keys", {
        key: account.key,
        body: { name: "second" },
      });
      const { body } = await call(gateway, "GET /v1/account", {
        key: textAt(minted.body, "api_key"),
      });
      expect(valueAt(body, "key.id")).toBe(valueAt(minted.body, "id"));
      expect(valueAt(body, "account.id")).toBe(account.id);
    });

    test("does not return the raw key again", async () => {
      for (const line of ["GET /v1/account", "GET /v1/keys", "GET /v1/usage"]) {
        const { text } = await call(gateway, line, { key: account.key });
        expect(text).not.toContain(account.key);
        expect(text).not.toContain(account.key.slice(14, 50));
      }
    });
  });

  describe("the balance", () => {
    test("decreases by the exact cost of a call, and usd is credits / 1e6", async () => {
      const account = await registerAccount(gateway);
      const reply = await chat(gateway, account.key);
      expect(reply.status).toBe(200);
      const cost = Number(reply.headers.get("x-postern-cost-usd"));
      expect(cost).toBeGreaterThan(0);
      const { body } = await call(gateway, "GET /v1/account", { key: account.key });
      const credits = Number(valueAt(body, "balance.credits"));
      // Credits are rounded down from nano-USD.
      expect(credits).toBe(Math.floor(50_000 - cost * 1e6 + 1e-6));
      expect(valueAt(body, "balance.usd")).toBe(credits / 1e6);
      expect(Number.isInteger(credits)).toBe(true);
    });

    test("shows the credits held by a running call until it ends", async () => {
      const account = await registerAccount(gateway);
      const before = await call(gateway, "GET /v1/account", { key: account.key });
      expect(valueAt(before.body, "balance.held_credits")).toBe(0);
      const running = chat(gateway, account.key, {
        messages: [{ role: "user", content: "[[sim: latency=1500]] hello" }],
      });
      const callState = { ended: false };
      void running.finally(() => {
        callState.ended = true;
      });
      let held = 0;
      while (!callState.ended && held === 0) {
        const during = await call(gateway, "GET /v1/account", { key: account.key });
        held = Number(valueAt(during.body, "balance.held_credits"));
      }
      await running;
      const after = await call(gateway, "GET /v1/account", { key: account.key });
      expect(valueAt(after.body, "balance.held_credits")).toBe(0);
      expect(Number(valueAt(after.body, "balance.credits"))).toBeLessThan(50_000);
      expect(held).toBeGreaterThan(0);
    });

    test("is not changed by calls of other accounts", async () => {
      const [mine, other] = [await registerAccount(gateway), await registerAccount(gateway)];
      await chat(gateway, mine.key);
      const { body } = await call(gateway, "GET /v1/account", { key: other.key });
      expect(valueAt(body, "balance.credits")).toBe(50_000);
    });
  });

  test("created_at is the time of the request", async () => {
    const account = await registerAccount(gateway);
    const first = await call(gateway, "GET /v1/account", { key: account.key });
    clock.advance(HOUR_MS);
    const later = await call(gateway, "GET /v1/account", { key: account.key });
    expect(valueAt(later.body, "account")).toEqual(valueAt(first.body, "account"));
    clock.advance(-HOUR_MS);
  });
});
