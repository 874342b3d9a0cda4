// A restricted key, one with a limit, a policy or a list of scopes, reaches itself and the keys that it created, through
// every API, and gives its keys no scope that it does not have, now or later.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { LISTABLE_SCOPES } from "../../src/http/scopes.ts";
import { createUser, makeOwner, type TestUser, visitPage } from "../billing/console-user.ts";
import { postModern } from "../mcp/raw-mcp.ts";
import {
  type ApiResponse,
  call,
  chat,
  expectError,
  type Json,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import { casesOn } from "../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

interface TestKey {
  readonly id: string;
  readonly key: string;
}

/** Each alone restricts a key, and leaves it `keys:write`. */
const RESTRICTIONS: readonly Json[] = [
  { limit_usd: 5 },
  { allowed_models: ["sim/*"] },
  { allowed_providers: ["sim"] },
  { max_price_per_million_usd: 1_000 },
  { requests_per_minute: 600 },
  { tokens_per_minute: 100_000 },
  { max_concurrent_calls: 5 },
  { scopes: ["models:write", "keys:write", "provider_keys:write"] },
];
const HARMFUL_CHANGES: readonly Json[] = [
  { limit_usd: 0 },
  { expires_at: new Date(Date.now() + 60_000).toISOString() },
  { scopes: ["usage:read"] },
  { allowed_models: ["none/*"] },
  { requests_per_minute: 1 },
  { name: "x" },
];

describe.each(STORE_KINDS)("a restricted key on %s", (store) => {
  let gateway: Gateway;
  let owner: TestUser;
  let account: TestAccount;
  let firstId: string;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    owner = await createUser(gateway, `olga-${store}`);
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    account = await registerAccount(gateway);
    const { body } = await call(gateway, "GET /v1/account", { key: account.key });
    firstId = textAt(body, "key.id");
  });

  const create = (key: string, body: Json): Promise<ApiResponse> =>
    call(gateway, "POST /v1/keys", { key, body });
  const createKey = async (body: Json, key = account.key): Promise<TestKey> => {
    const created = await create(key, body);
    expect([body, created.status]).toEqual([body, 201]);
    return { id: textAt(created.body, "id"), key: textAt(created.body, "api_key") };
  };
  const change = (key: string, id: string, body: Json): Promise<ApiResponse> =>
    call(gateway, `PATCH /v1/keys/${id}`, { key, body });
  const revoke = (key: string, id: string): Promise<ApiResponse> =>
    call(gateway, `DELETE /v1/keys/${id}`, { key });
  const callTool = (key: string, name: string, args: Json): Promise<ApiResponse> =>
    postModern(gateway, { method: "tools/call", params: { name, arguments: args }, key });

  for (const isClaimed of [true, false])
    test.each(casesOn(store, RESTRICTIONS))(
      `%j changes and revokes no key of others, ${isClaimed ? "with" : "without"} an owner`,
      async (restriction) => {
        const restricted = await createKey(restriction);
        const sibling = await createKey({});
        if (isClaimed) await makeOwner(gateway, account.id, owner);
        for (const id of [firstId, sibling.id]) {
          for (const body of HARMFUL_CHANGES) {
            const refused = await change(restricted.key, id, body);
            expectError(refused, { status: 403, code: "forbidden", param: "id" });
            expect(valueAt(refused.body, "error.required_scope")).toBe("keys:manage");
          }
          const refused = await revoke(restricted.key, id);
          expectError(refused, { status: 403, code: "forbidden", param: "id" });
          const { text } = await callTool(restricted.key, "revoke_key", { id });
          expect(text).toContain("keys:manage");
        }
        for (const { key } of [account, sibling])
          expect((await chat(gateway, key)).status).toBe(200);
      },
    );

  test.each(casesOn(store, RESTRICTIONS))(
    "%j changes and revokes itself and its own keys",
    async (restriction) => {
      const restricted = await createKey(restriction);
      const hasRate = Object.keys(restriction).some((field) => /per_minute|concurrent/.test(field));
      const limit = "limit_usd" in restriction ? { limit_usd: 1 } : {};
      if (!hasRate) {
        const child = await createKey(limit, restricted.key);
        expect((await change(restricted.key, child.id, { limit_usd: 0 })).status).toBe(200);
        expect((await revoke(restricted.key, child.id)).status).toBe(200);
      }
      expect((await change(restricted.key, restricted.id, { name: "mine" })).status).toBe(200);
      expect((await revoke(restricted.key, restricted.id)).status).toBe(200);
    },
  );

  test.each(casesOn(store, ["requests_per_minute", "tokens_per_minute", "max_concurrent_calls"]))(
    "a key with %s alone creates no keys, which would have the rate again",
    async (rate) => {
      const restricted = await createKey({ [rate]: 10 });
      expectError(await create(restricted.key, {}), {
        status: 403,
        code: "forbidden",
        param: "requests_per_minute",
      });
    },
  );

  test("`keys:manage` cannot be listed, and a key without restrictions has it", async () => {
    for (const key of [account.key, (await createKey({})).key]) {
      const listed = await create(key, { scopes: ["keys:write", "keys:manage"] });
      expectError(listed, { status: 400, code: "invalid_request", param: "scopes.1" });
    }
    await makeOwner(gateway, account.id, owner);
    const [one, two] = [await createKey({}), await createKey({})];
    expect((await change(one.key, two.id, { limit_usd: 1 })).status).toBe(200);
    expect((await revoke(one.key, two.id)).status).toBe(200);
  });

  test("a list of all scopes that can be listed does not act as the owner", async () => {
    const listed = await createKey({ scopes: LISTABLE_SCOPES });
    expectError(await change(listed.key, firstId, { limit_usd: 0 }), {
      status: 403,
      code: "forbidden",
      param: "id",
    });
  });

  test("a key with scopes deletes only its own provider keys", async () => {
    const restricted = await createKey({ scopes: ["provider_keys:write"] });
    const add = (key: string): Promise<ApiResponse> =>
      call(gateway, "POST /v1/provider-keys", {
        key,
        body: { provider: "sim", api_key: "sim-key-of-the-caller-0123" },
      });
    const others = textAt((await add(account.key)).body, "id");
    const own = textAt((await add(restricted.key)).body, "id");
    const remove = (id: string): Promise<ApiResponse> =>
      call(gateway, `DELETE /v1/provider-keys/${id}`, { key: restricted.key });
    expectError(await remove(others), { status: 403, code: "forbidden", param: "id" });
    expect((await remove(own)).status).toBe(200);
  });

  test("a limited key gives no scope that wakes up when the limit is removed", async () => {
    const limited = await createKey({ limit_usd: 2 });
    for (const scopes of [null, ["models:write", "audit:read"], ["webhooks:write"]])
      expectError(await create(limited.key, { limit_usd: 0.5, scopes }), {
        status: 403,
        code: "forbidden",
        param: "scopes",
      });
    const child = await create(limited.key, { limit_usd: 0.5 });
    expect(child.status).toBe(201);
    const childId = textAt(child.body, "id");
    const childKey = textAt(child.body, "api_key");
    await makeOwner(gateway, account.id, owner);
    const form = { do: "change", limit_usd: "" };
    const page = await visitPage(gateway, `/console/${account.id}/keys/${childId}`, owner, form);
    expect(page.status).toBe(303);
    for (const line of ["GET /v1/audit", "GET /v1/webhooks", "POST /v1/billing/invoice"])
      expect([line, (await call(gateway, line, { key: childKey })).status]).toEqual([line, 403]);
    expect((await revoke(childKey, firstId)).status).toBe(403);
  });

  test("a limited key adds no sleeping scope to itself or its keys", async () => {
    const limited = await createKey({ limit_usd: 2, scopes: ["models:write", "keys:write"] });
    const child = await createKey({ limit_usd: 0.5 }, limited.key);
    for (const id of [limited.id, child.id])
      for (const scopes of [null, ["models:write", "keys:write", "audit:read"]])
        expectError(await change(limited.key, id, { scopes }), {
          status: 403,
          code: "forbidden",
          param: "scopes",
        });
  });
});
