// The chain of a takeover by a key limited to $0.01 in a claimed account: each step that once worked is refused, and what
// remains cannot spend more than the limit.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  createUser,
  makeDeveloper,
  makeOwner,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import { call, chat, expectError, type Json, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

describe.each(STORE_KINDS)("a key limited to 0.01 USD on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let owner: TestUser;
  let attacker: TestUser;
  let limited: { readonly id: string; readonly key: string };
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    owner = await createUser(gateway, "olga");
    attacker = await createUser(gateway, "mallory");
    const { body } = await call(gateway, "POST /v1/keys", {
      key: account.key,
      body: { limit_usd: 0.01 },
    });
    limited = { id: textAt(body, "id"), key: textAt(body, "api_key") };
    await makeOwner(gateway, account.id, owner);
  });
  afterAll(() => gateway.stop());

  test("cannot read, redirect, stop, widen or invite", async () => {
    const rootId = textAt(
      (await call(gateway, "GET /v1/account", { key: account.key })).body,
      "key.id",
    );
    const steps: readonly (readonly [string, Json?])[] = [
      ["GET /v1/audit"],
      ["GET /v1/events"],
      ["POST /v1/webhooks", { url: "https://attacker.example/hook", events: ["*"] }],
      ["POST /v1/billing/invoice", { amount_usd: 10 }],
      [`PATCH /v1/keys/${rootId}`, { limit_usd: 0 }],
      [`DELETE /v1/keys/${rootId}`],
      [`PATCH /v1/keys/${limited.id}`, { limit_usd: null }],
      [`PATCH /v1/keys/${limited.id}`, { limit_usd: 5 }],
      [`PATCH /v1/keys/${limited.id}`, { limit_usd: 0.01, limit_window: "day" }],
      ["POST /v1/keys", {}],
      ["POST /v1/keys", { limit_usd: 0.02 }],
      ["POST /agent/identity/claim", { email: "mallory@example.com" }],
    ];
    for (const [line, body] of steps) {
      const response = await call(gateway, line, { key: limited.key, ...(body && { body }) });
      expect([line, response.status]).toEqual([line, 403]);
    }
  });

  test("adds provider keys for its own calls only, and so does a key without a limit", async () => {
    for (const key of [limited.key, account.key]) {
      const { body, status } = await call(gateway, "POST /v1/provider-keys", {
        key,
        body: { provider: "sim", api_key: "sk-attacker-0123456789abcdef" },
      });
      expect(status).toBe(201);
      const own = await call(gateway, "GET /v1/account", { key });
      expect(valueAt(body, "api_key_ids")).toEqual([textAt(own.body, "key.id")]);
    }
  });

  test("a developer raises nothing, and creates no key without an allowance", async () => {
    await makeDeveloper(gateway, account.id, attacker);
    const keys = `/console/${account.id}/keys`;
    for (const [path, form] of [
      [keys, { do: "mint" }],
      [keys, { do: "mint", limit_usd: "0.001" }],
      [`${keys}/${limited.id}`, { do: "change", limit_usd: "" }],
      [`${keys}/${limited.id}`, { do: "change", limit_usd: "100" }],
      [`${keys}/${limited.id}`, { do: "change", last_day: "2090-01-01" }],
      [`${keys}/${limited.id}`, { do: "change", access: "all" }],
      [`${keys}/${limited.id}`, { do: "revoke" }],
    ] as const)
      expect([form, (await visitPage(gateway, path, attacker, form)).status]).toEqual([form, 403]);
    const members = `/console/${account.id}/members`;
    for (const form of [
      { do: "invite", email: "friend@example.com" },
      { do: "change", person: attacker.personId, role: "admin" },
      { do: "change", person: attacker.personId, role: "developer", allowance_usd: "100" },
      { do: "remove", person: owner.personId },
      { do: "hand_over", person: attacker.personId },
    ])
      expect([form, (await visitPage(gateway, members, attacker, form)).status]).toEqual([
        form,
        403,
      ]);
    const removal = { do: "remove", person: attacker.personId };
    expect((await visitPage(gateway, members, owner, removal)).status).toBe(303);
    expect((await visitPage(gateway, keys, attacker)).status).toBe(404);
  });

  test("spends no more than its limit, whatever keys it splits the limit into", async () => {
    const { body } = await call(gateway, "POST /v1/keys", {
      key: limited.key,
      body: { limit_usd: 0.004 },
    });
    const rest = await call(gateway, "POST /v1/keys", {
      key: limited.key,
      body: { limit_usd: 0.007 },
    });
    expectError(rest, { status: 403, code: "forbidden" });
    expect((await chat(gateway, textAt(body, "api_key"))).status).toBe(200);
    const { body: listed } = await call(gateway, `GET /v1/keys/${limited.id}`, {
      key: limited.key,
    });
    expect(valueAt(listed, "limit_usd")).toBe(0.006);
  });
});
