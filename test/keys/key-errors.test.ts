// Errors about keys: who can help, and that the next step works for the key that was refused.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createUser, makeOwner } from "../billing/console-user.ts";
import {
  type ApiResponse,
  call,
  chat,
  expectError,
  type Json,
  listAt,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

describe.each(STORE_KINDS)("errors about keys on %s", (store) => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ store });
  });
  afterAll(() => gateway.stop());

  const createKey = async (key: string, body: Json): Promise<{ id: string; key: string }> => {
    const created = await call(gateway, "POST /v1/keys", { key, body });
    expect(created.status).toBe(201);
    return { id: textAt(created.body, "id"), key: textAt(created.body, "api_key") };
  };
  const ownId = async (key: string): Promise<string> =>
    textAt((await call(gateway, "GET /v1/keys/self", { key })).body, "id");
  /** Sends the steps that need no person, with the key that was refused. */
  const followNext = async (refused: ApiResponse, key: string): Promise<readonly string[]> => {
    const steps = listAt(refused.body, "error.next");
    expect(steps.length).toBeGreaterThan(0);
    for (const { method, url, body } of steps) {
      if (String(url).startsWith("/console/")) continue;
      const email = { email: "human@example.com" };
      const isClaim = url === "/agent/identity/claim";
      const sent = body === undefined ? {} : { body: isClaim ? email : body };
      const reply = await call(gateway, `${String(method)} ${String(url)}`, { key, ...sent });
      expect([url, reply.status, reply.text.slice(0, 200)]).toEqual([
        url,
        200,
        reply.text.slice(0, 200),
      ]);
    }
    return steps.map(({ url }) => String(url));
  };
  const LONG = { max_tokens: 16_000 };

  test("a key over its limit learns what it can afford, which then works", async () => {
    const root = (await registerAccount(gateway)).key;
    const capped = await createKey(root, { limit_usd: 0.001 });
    const refused = await chat(gateway, capped.key, LONG);
    expectError(refused, { status: 403, code: "key_limit_reached" });
    expect(refused.body["error"]).toMatchObject({
      available_credits: 1000,
      limit_raised_by: "key",
      limit_raised_by_key: await ownId(root),
    });
    expect(await followNext(refused, capped.key)).toEqual(["/v1/keys/self"]);
    expect(refused.text).not.toContain("limit_usd");
    const max_tokens = Number(valueAt(refused.body, "error.affordable_max_tokens"));
    expect(max_tokens).toBeGreaterThan(0);
    expectError(await chat(gateway, capped.key, { max_tokens: max_tokens + 20 }), {
      status: 403,
      code: "key_limit_reached",
    });
    expect((await chat(gateway, capped.key, { max_tokens })).status).toBe(200);
    const raiser = textAt(refused.body, "error.limit_raised_by_key");
    expect(raiser).toBe(await ownId(root));
    const raised = await call(gateway, `PATCH /v1/keys/${capped.id}`, {
      key: root,
      body: { limit_usd: 1 },
    });
    expect(raised.status).toBe(200);
  });

  test("the error of the only key of an unclaimed account offers the claim, and not to raise its own limit", async () => {
    const { key } = await registerAccount(gateway);
    await call(gateway, `PATCH /v1/keys/${await ownId(key)}`, { key, body: { limit_usd: 0 } });
    const refused = await chat(gateway, key);
    expectError(refused, { status: 403, code: "key_limit_reached" });
    expect(valueAt(refused.body, "error.limit_raised_by")).toBe("none");
    expect(refused.text).not.toContain("PATCH");
    expect(await followNext(refused, key)).toEqual(["/v1/keys/self", "/agent/identity/claim"]);
  });

  test("a capped key without a live parent is not told of a claim that it may not start", async () => {
    const root = (await registerAccount(gateway)).key;
    const { key } = await createKey(root, { limit_usd: 0 });
    await call(gateway, `DELETE /v1/keys/${await ownId(root)}`, { key: root });
    const refused = await chat(gateway, key);
    expect(valueAt(refused.body, "error.limit_raised_by")).toBe("none");
    expect(await followNext(refused, key)).toEqual(["/v1/keys/self"]);
  });

  test("in a claimed account the owner can raise the limit", async () => {
    const account = await registerAccount(gateway);
    const { key } = await createKey(account.key, { limit_usd: 0 });
    await makeOwner(gateway, account.id, await createUser(gateway, "owner"));
    const refused = await chat(gateway, key);
    expect(valueAt(refused.body, "error.limit_raised_by")).toBe("owner");
    expect(textAt(refused.body, "error.message")).toContain("owner of the workspace");
    expect(await followNext(refused, key)).toEqual([
      "/v1/keys/self",
      `/console/${account.id}/keys`,
    ]);
  });

  test("a key without any scope for it reads its own limit, scopes and policy", async () => {
    const root = (await registerAccount(gateway)).key;
    const settings = { limit_usd: 1, scopes: ["models:write"], allowed_models: ["sim/*"] };
    const { id, key } = await createKey(root, settings);
    const own = await call(gateway, "GET /v1/keys/self", { key });
    expectStatus("getOwnKey", 200, own);
    expectStatus("getOwnKey", 400, await call(gateway, "GET /v1/keys/self?x=1", { key }));
    expect(own.body).toMatchObject({ id, spent_usd: 0, ...settings });
  });

  test("a missing scope points to an owner only if there is one", async () => {
    const account = await registerAccount(gateway);
    const { key } = await createKey(account.key, { scopes: ["models:write"] });
    const unclaimed = await call(gateway, "GET /v1/usage", { key });
    expectError(unclaimed, { status: 403, code: "forbidden" });
    expect(unclaimed.text).not.toContain("/console/");
    expect(textAt(unclaimed.body, "error.message")).toContain("No person owns it yet");
    expect(await followNext(unclaimed, key)).toEqual(["/v1/keys/self"]);
    await makeOwner(gateway, account.id, await createUser(gateway, "later"));
    const claimed = await call(gateway, "GET /v1/usage", { key });
    expect(textAt(claimed.body, "error.message")).toContain("ask the owner of the account");
    expect(await followNext(claimed, key)).toEqual([
      "/v1/keys/self",
      `/console/${account.id}/keys`,
    ]);
  });

  test("a revoked or expired key is told to ask its human, not to register", async () => {
    const account = await registerAccount(gateway);
    const { id, key } = await createKey(account.key, {});
    const keeper = await createKey(account.key, {});
    await makeOwner(gateway, account.id, await createUser(gateway, "revoker"));
    await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key });
    for (const line of ["GET /v1/account", "POST /v1/chat/completions"]) {
      const refused = await call(gateway, line, { key, ...(line[0] === "P" ? { body: {} } : {}) });
      expectError(refused, { status: 401, code: "invalid_api_key" });
      expect(textAt(refused.body, "error.message")).toMatch(
        /revoked at .* by the owner or a key of its account\. Ask your human/,
      );
      expect(refused.text).not.toContain("/v1/accounts");
      expect(await followNext(refused, keeper.key)).toEqual(["/docs/keys.md"]);
    }
  });

  test("a good key in the wrong form or header is told so", async () => {
    const { key } = await registerAccount(gateway);
    for (const [headers, message] of [
      [{ authorization: key }, "sent without `Bearer`"],
      [{ authorization: `Token ${key}` }, "sent without `Bearer`"],
      [{ "api-key": key }, "in the header `api-key`"],
      [{ "x-goog-api-key": key }, "in the header `x-goog-api-key`"],
    ] as const) {
      const refused = await call(gateway, "GET /v1/account", { headers });
      expectError(refused, { status: 401, code: "invalid_api_key" });
      expect(textAt(refused.body, "error.message")).toContain(message);
      expect(refused.text).not.toContain(key);
      expect(await followNext(refused, key)).toEqual(["/docs/keys.md"]);
    }
    expect((await call(gateway, "GET /v1/account", { key })).status).toBe(200);
  });
});
