// What a key may reach: its scopes, and what its spending limit takes from them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Route, requiresKey } from "../../src/http/route.ts";
import { grantedScopes, LIMITED_KEY_SCOPES, LISTABLE_SCOPES } from "../../src/http/scopes.ts";
import { createUser, makeOwner, type TestUser } from "../billing/console-user.ts";
import {
  type ApiResponse,
  call,
  chat,
  expectError,
  type Json,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

describe.each(STORE_KINDS)("scopes of keys on %s", (store) => {
  let gateway: Gateway;
  let owner: TestUser;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    owner = await createUser(gateway, "olga");
  });
  afterAll(() => gateway.stop());

  const createKey = async (
    account: TestAccount,
    body: Json,
  ): Promise<{ id: string; key: string }> => {
    const created = await call(gateway, "POST /v1/keys", { key: account.key, body });
    expect(created.status).toBe(201);
    return { id: textAt(created.body, "id"), key: textAt(created.body, "api_key") };
  };
  const ownId = async ({ key }: TestAccount): Promise<string> =>
    textAt((await call(gateway, "GET /v1/account", { key })).body, "key.id");
  const refuses = (response: ApiResponse, scope: string): void => {
    expectError(response, { status: 403, code: "forbidden" });
    expect(valueAt(response.body, "error.required_scope")).toBe(scope);
    expect(textAt(response.body, "error.message")).toContain(`\`${scope}\``);
    expect(valueAt(response.body, "error.next.0.method")).toBe("GET");
    expect(response.headers.get("www-authenticate")).toContain('error="insufficient_scope"');
  };

  for (const isClaimed of [true, false])
    test(`a key limited to $0.01 takes nothing over, ${isClaimed ? "with" : "without"} an owner`, async () => {
      const account = await registerAccount(gateway);
      const firstId = await ownId(account);
      const limited = await createKey(account, { limit_usd: 0.01 });
      const other = await createKey(account, { limit_usd: 0.02 });
      if (isClaimed) await makeOwner(gateway, account.id, owner);
      const { key } = limited;
      const attempt = (line: string, body?: Json): Promise<ApiResponse> =>
        call(gateway, line, body === undefined ? { key } : { key, body });

      refuses(await attempt("GET /v1/audit"), "audit:read");
      refuses(await attempt("GET /v1/events"), "webhooks:read");
      refuses(await attempt("POST /v1/webhooks", { url: "https://x.test" }), "webhooks:write");
      refuses(await attempt("POST /v1/billing/invoice", { amount_usd: 10 }), "billing:write");
      refuses(await attempt("PATCH /v1/account/budgets", { daily_usd: 0 }), "billing:write");
      const claim = await attempt("POST /agent/identity/claim", { email: "eve@example.com" });
      expectStatus("startClaim", 403, claim);
      expect(claim.text).toContain("`claim:write`");
      for (const id of [firstId, other.id]) {
        for (const body of [{ limit_usd: 0 }, { name: "x" }, { scopes: ["usage:read"] }])
          expectError(await attempt(`PATCH /v1/keys/${id}`, body), {
            status: 403,
            code: "forbidden",
            param: "id",
          });
        const revoked = await attempt(`DELETE /v1/keys/${id}`);
        expectStatus("revokeKey", 403, revoked);
      }
      const raised = await attempt(`PATCH /v1/keys/${limited.id}`, { limit_usd: 1 });
      expectError(raised, { status: 403, code: "forbidden", param: "limit_usd" });
      const unlimited = await attempt("POST /v1/keys", {});
      expectError(unlimited, { status: 403, code: "forbidden", param: "limit_usd" });
      const wider = await attempt("POST /v1/keys", { limit_usd: 0.001, scopes: ["models:write"] });
      expect(wider.status).toBe(201);
      const child = { key: textAt(wider.body, "api_key"), id: textAt(wider.body, "id") };
      refuses(await call(gateway, "GET /v1/keys", { key: child.key }), "keys:read");
      expect((await attempt(`PATCH /v1/keys/${child.id}`, { limit_usd: 0 })).status).toBe(200);
      expect((await attempt(`DELETE /v1/keys/${child.id}`)).status).toBe(200);
      expect((await chat(gateway, account.key)).status).toBe(200);
    });

  test("a provider key of a limited key serves that key alone, and it deletes no other", async () => {
    const account = await registerAccount(gateway);
    const limited = await createKey(account, { limit_usd: 0.01 });
    const add = (key: string, more: Json = {}): Promise<ApiResponse> =>
      call(gateway, "POST /v1/provider-keys", {
        key,
        body: { provider: "sim", api_key: "sim-key-of-the-caller-0123", ...more },
      });
    const byok = async (key: string): Promise<string | null> =>
      (await chat(gateway, key)).headers.get("x-postern-byok");
    const own = await add(limited.key);
    expect(own.body).toMatchObject({ api_key_ids: [limited.id] });
    expect(await byok(limited.key)).toBe("true");
    expect(await byok(account.key)).not.toBe("true");
    const shared = await add(account.key, { api_key_ids: null });
    expect(shared.body).toMatchObject({ api_key_ids: null });
    expect(await byok(account.key)).toBe("true");
    const path = "/v1/provider-keys/";
    const refused = await call(gateway, `DELETE ${path}${textAt(shared.body, "id")}`, {
      key: limited.key,
    });
    expectStatus("deleteProviderKey", 403, refused);
    const removed = await call(gateway, `DELETE ${path}${textAt(own.body, "id")}`, {
      key: limited.key,
    });
    expect(removed.status).toBe(200);
  });

  test("the first key of an account without an owner keeps every scope under a limit", async () => {
    const account = await registerAccount(gateway);
    const id = await ownId(account);
    const { key } = account;
    await call(gateway, `PATCH /v1/keys/${id}`, { key, body: { limit_usd: 1 } });
    expect((await call(gateway, "GET /v1/audit", { key })).status).toBe(200);
    const raised = await call(gateway, `PATCH /v1/keys/${id}`, { key, body: { limit_usd: null } });
    expect(raised.status).toBe(200);
  });

  test("every endpoint that takes a key refuses one without its scope", async () => {
    const account = await registerAccount(gateway);
    const { key } = await createKey(account, { scopes: ["audit:read"] });
    const reader = await createKey(account, { scopes: ["usage:read"] });
    for (const route of keyRoutes(gateway)) {
      if (route.scope === undefined) continue;
      const sent = route.scope === "audit:read" ? reader.key : key;
      const response = await call(gateway, `${route.method} ${pathOf(route)}`, {
        key: sent,
        ...(route.method === "GET" ? {} : { body: {} }),
      });
      expectStatus(route.id, 403, response);
      expect(response.text).toContain(`\`${route.scope}\``);
    }
  });

  test("every scope opens the endpoints that need it and no others", async () => {
    const account = await registerAccount(gateway);
    for (const scope of LISTABLE_SCOPES) {
      const { key } = await createKey(account, { scopes: [scope] });
      for (const route of keyRoutes(gateway)) {
        if (route.method !== "GET" || route.scope === undefined) continue;
        const { text } = await call(gateway, `GET ${pathOf(route)}`, { key });
        const isOpen = route.scope === scope || route.scope === scope.replace(/:write$/, ":read");
        expect(`${scope} ${route.id} ${!text.includes("required_scope")}`).toBe(
          `${scope} ${route.id} ${isOpen}`,
        );
      }
    }
  });

  test("a key cannot create or keep scopes that it does not have", async () => {
    const account = await registerAccount(gateway);
    const scopes = ["keys:write", "models:write"];
    const { id, key } = await createKey(account, { scopes });
    const post = (body: Json): Promise<ApiResponse> =>
      call(gateway, "POST /v1/keys", { key, body });
    const inherited = await post({});
    expect(inherited.body).toMatchObject({ scopes, created_by: id });
    expect((await post({ scopes: ["models:read"] })).status).toBe(201);
    for (const wider of [null, ["audit:read"], ["models:write", "usage:read"]])
      expectError(await post({ scopes: wider }), {
        status: 403,
        code: "forbidden",
        param: "scopes",
      });
    const patch = (body: Json): Promise<ApiResponse> =>
      call(gateway, `PATCH /v1/keys/${id}`, { key, body });
    expectError(await patch({ scopes: null }), { status: 403, code: "forbidden", param: "scopes" });
    expect((await patch({ scopes: ["keys:write"] })).body).toMatchObject({
      scopes: ["keys:write"],
    });
    refuses(await call(gateway, "GET /v1/responses/none", { key }), "models:read");
    for (const bad of [[], ["models"], "models:write"])
      expectError(await post({ scopes: bad }), { status: 400, code: "invalid_request" });
  });

  test("a limit takes a scope away that the key was given", async () => {
    const account = await registerAccount(gateway);
    const { key } = await createKey(account, {
      limit_usd: 0.01,
      scopes: ["audit:read", "usage:read"],
    });
    refuses(await call(gateway, "GET /v1/audit", { key }), "audit:read");
    expect((await call(gateway, "GET /v1/account", { key })).status).toBe(200);
  });
});

describe("the scopes of the routes", () => {
  test("every scope is needed by an endpoint, and writing never needs a scope to read", async () => {
    const gateway = await startGateway();
    const all = keyRoutes(gateway);
    await gateway.stop();
    const routes = all.filter(({ scope }) => scope !== undefined);
    // What each key may read of itself, and settings that are the same for all.
    expect(all.filter(({ scope }) => scope === undefined).map(({ id }) => id)).toEqual([
      "getOpenRouterKey",
      "getOwnKey",
      "getManagedSettings",
    ]);
    expect(new Set(routes.map(({ scope }) => scope))).toEqual(new Set(LISTABLE_SCOPES));
    const readsToWrite = routes.filter(
      ({ id, method, scope }) =>
        method !== "GET" &&
        id !== "pollClaim" &&
        scope !== "account:close" &&
        !scope?.endsWith(":write"),
    );
    expect(readsToWrite.map(({ id }) => id)).toEqual([]);
    const limited = grantedScopes(null, true);
    const writes = routes.filter(
      ({ method, scope }) => method !== "GET" && scope !== undefined && limited.has(scope),
    );
    // Calls, stored responses whose id it knows, and what it created itself: a new endpoint must not reach beyond these.
    expect(
      writes
        .map(({ id }) => id)
        .toSorted()
        .join(" "),
    ).toBe(
      "addProviderKey batchEmbedContents cancelBatch cancelMessageBatch cancelResponse changeKey changeProviderKey compactResponse " +
        "countContentTokens countInputTokens countTokens createBatch createChatCompletion createCompletion createDecision createEmbeddings createImages " +
        "createKey createMessage createMessageBatch createModeration createQuote createResponse createSpeech createTranscription " +
        "createTranslation deleteFile deleteMessageBatch deleteProviderKey deleteResponse editImages embedContent generateContent pollClaim " +
        "rerankDocuments rerankDocumentsV2 revokeKey rotateKey stopAgentSession streamGenerateContent uploadFile",
    );
    expect(
      LIMITED_KEY_SCOPES.filter((scope) => /^(webhooks|audit)|claim:write/.test(scope)),
    ).toEqual([]);
  });
});

function keyRoutes({ server }: Gateway): readonly Route[] {
  return server.routes.filter(requiresKey);
}

function pathOf({ path }: Route): string {
  return path.replaceAll(/\{\w+\+?\}/g, "none");
}
