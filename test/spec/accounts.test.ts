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

describe.each(STORE_KINDS)("the specification's accounts, on %s", (store) => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now });
  });
  afterAll(() => gateway.stop());

  describe("POST /v1/accounts", () => {
    test("needs no authentication, and creates a funded account with its first key", async () => {
      const answer = await call(gateway, "POST /v1/accounts", { body: {} });
      expectStatus("createAccount", 201, answer);
      expect(Object.keys(answer.body).toSorted()).toEqual(["account", "api_key", "balance"]);
      const read = await call(gateway, "GET /v1/account", { key: textAt(answer.body, "api_key") });
      expect(read.status).toBe(200);
    });

    test("in development no page of elsewhere opens one: it could spend the developer's provider keys", async () => {
      for (const origin of ["https://evil.example", "null", "http://127.0.0.1.evil.example", ""]) {
        const answer = await call(gateway, "POST /v1/accounts", { headers: { origin } });
        expectError(answer, { status: 403, code: "forbidden", param: "origin" });
        expectStatus("createAccount", 403, answer);
        expect(answer.text).toContain("POSTERN_BASE_URL");
        expect(answer.headers.get("access-control-allow-origin")).toBeNull();
      }
      for (const origin of [gateway.url, "http://localhost:5173", "http://[::1]:3000"]) {
        const answer = await call(gateway, "POST /v1/accounts", { headers: { origin } });
        expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([
          201,
          "*",
        ]);
      }
    });

    test("takes an empty object, an empty body, and a body without content type that is empty", async () => {
      for (const sent of [
        { body: {} },
        { raw: "", headers: { "content-type": "application/json" } },
        {},
        { raw: "  \n" },
      ])
        expect((await call(gateway, "POST /v1/accounts", sent)).status).toBe(201);
    });

    test("account.id begins with acct_, and no two are the same", async () => {
      const ids = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
          return textAt(body, "account.id");
        }),
      );
      expect(new Set(ids).size).toBe(20);
      for (const id of ids) expect(id).toMatch(ID);
    });

    test("account.email is null when no email was supplied", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "account.email")).toBeNull();
    });

    test("account.email is what the agent supplied", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", {
        body: { email: "Ada.Lovelace+agents@example.org" },
      });
      expect(valueAt(body, "account.email")).toBe("Ada.Lovelace+agents@example.org");
      const read = await call(gateway, "GET /v1/account", { key: textAt(body, "api_key") });
      expect(valueAt(read.body, "account.email")).toBe("Ada.Lovelace+agents@example.org");
    });

    test("one email may have several accounts, because it proves nothing", async () => {
      const email = "twice@example.org";
      for (const times of [1, 2])
        expect({
          times,
          status: (await call(gateway, "POST /v1/accounts", { body: { email } })).status,
        }).toEqual({ times, status: 201 });
    });

    test("account.created_at is an RFC 3339 timestamp in UTC", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "account.created_at")).toBe("2026-11-21T09:30:00.000Z");
    });

    test("the account is agent-created and unclaimed", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "account.origin")).toBe("agent");
      expect(valueAt(body, "account.claimed_at")).toBeNull();
    });

    test("api_key is a fixed gateway prefix, then rt-, then a secret part", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(textAt(body, "api_key")).toMatch(/^pst-rt-[0-9A-Za-z]{49}$/);
    });

    test("balance.credits is 50000 and balance.usd is 0.05 at account creation", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(valueAt(body, "balance")).toEqual({ credits: 50_000, usd: 0.05, held_credits: 0 });
    });

    test("the answer is kept out of caches, because it holds the key", async () => {
      const answer = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(answer.headers.get("cache-control")).toBe("no-store");
    });

    test("the first key has no name, no limit and no expiry", async () => {
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

    test("an email that is none, and a field that is unknown, are a 400 that names the field", async () => {
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

    test("an unknown field is named in the message", async () => {
      const { body } = await call(gateway, "POST /v1/accounts", { body: { e_mail: "a@b.org" } });
      expect(textAt(body, "error.message")).toContain("e_mail");
    });
  });

  describe("GET /v1/account", () => {
    let account: TestAccount;
    beforeAll(async () => {
      account = await registerAccount(gateway);
    });

    test("reads the account, its balance, its budgets, the calling key and the members", async () => {
      const answer = await call(gateway, "GET /v1/account", { key: account.key });
      expectStatus("readAccount", 200, answer);
      expect(Object.keys(answer.body).toSorted()).toEqual([
        "account",
        "balance",
        "budgets",
        "frozen",
        "key",
        "members",
        "owed_usd",
      ]);
      expect(valueAt(answer.body, "account.id")).toBe(account.id);
      expect(valueAt(answer.body, "members")).toEqual([]);
    });

    test("the account says nothing but id, email, created_at, claimed_at and origin", async () => {
      const { body } = await call(gateway, "GET /v1/account", { key: account.key });
      expect(Object.keys(valueAt(body, "account") as object)).toEqual([
        "id",
        "email",
        "created_at",
        "claimed_at",
        "origin",
      ]);
    });

    test("the key is the calling one, whichever of the account's keys that is", async () => {
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

    test("the raw key is in no answer but the first", async () => {
      for (const line of ["GET /v1/account", "GET /v1/keys", "GET /v1/usage"]) {
        const { text } = await call(gateway, line, { key: account.key });
        expect(text).not.toContain(account.key);
        expect(text).not.toContain(account.key.slice(14, 50));
      }
    });
  });

  describe("the balance", () => {
    test("falls by what a call cost, to the credit, and usd is credits / 1e6", async () => {
      const account = await registerAccount(gateway);
      const reply = await chat(gateway, account.key);
      expect(reply.status).toBe(200);
      const cost = Number(reply.headers.get("x-postern-cost-usd"));
      expect(cost).toBeGreaterThan(0);
      const { body } = await call(gateway, "GET /v1/account", { key: account.key });
      const credits = Number(valueAt(body, "balance.credits"));
      // Credits are shown rounded down: the ledger keeps nano-USD.
      expect(credits).toBe(Math.floor(50_000 - cost * 1e6 + 1e-6));
      expect(valueAt(body, "balance.usd")).toBe(credits / 1e6);
      expect(Number.isInteger(credits)).toBe(true);
    });

    test("credits that a running call holds are shown as held, and come back when it ends", async () => {
      const account = await registerAccount(gateway);
      const before = await call(gateway, "GET /v1/account", { key: account.key });
      expect(valueAt(before.body, "balance.held_credits")).toBe(0);
      const running = chat(gateway, account.key, {
        messages: [{ role: "user", content: "[[sim: latency=600]] hello" }],
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

    test("one account's calls do not touch another's balance", async () => {
      const [mine, other] = [await registerAccount(gateway), await registerAccount(gateway)];
      await chat(gateway, mine.key);
      const { body } = await call(gateway, "GET /v1/account", { key: other.key });
      expect(valueAt(body, "balance.credits")).toBe(50_000);
    });
  });

  test("an account's created_at is the time of arrival, whenever it is read", async () => {
    const account = await registerAccount(gateway);
    const first = await call(gateway, "GET /v1/account", { key: account.key });
    clock.advance(HOUR_MS);
    const later = await call(gateway, "GET /v1/account", { key: account.key });
    expect(valueAt(later.body, "account")).toEqual(valueAt(first.body, "account"));
    clock.advance(-HOUR_MS);
  });
});
