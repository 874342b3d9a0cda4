import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { requiresKey } from "../../src/http/route.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  chat,
  expectNoInternals,
  listAt,
  textAt,
} from "./api-client.ts";

const FORM = { "content-type": "application/x-www-form-urlencoded" };

describe.each(STORE_KINDS)("errors on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  /** An account with a fifth of its starting credits. */
  async function registerAndSpend(): Promise<TestAccount> {
    const unfunded = await registerAccount(gateway);
    const messages = [{ role: "user", content: "[[sim: tokens=10000]] hello" }];
    for (let times = 0; times < 2; times++)
      await chat(gateway, unfunded.key, { messages, max_tokens: 10_000 });
    return unfunded;
  }

  test.each([
    ["an unknown field", { body: { unknown: 1 } }, 400],
    ["an unsupported content type", { raw: "x", headers: { "content-type": "text/plain" } }, 415],
  ] as const)("%s suggests the page of the endpoint", async (_name, request, status) => {
    const { key } = await registerAccount(gateway);
    const response = await call(gateway, "POST /v1/keys", { key, ...request });
    expect(response.status).toBe(status);
    expect(listAt(response.body, "error.next")).toEqual([
      { method: "GET", url: "/docs/api/create-key.md", why: expect.any(String) },
    ]);
    expect((await call(gateway, "GET /docs/api/create-key.md")).status).toBe(200);
  });

  test("400 for an unknown query parameter suggests the right one", async () => {
    const { key } = await registerAccount(gateway);
    const { body } = await call(gateway, "GET /v1/usage/summary?by=day", { key });
    expect(body["error"]).toMatchObject({
      message: "Unknown query parameter `by`. Did you mean `group_by`?",
      param: "by",
    });
  });

  test("401 for a missing, invalid or revoked key suggests another key", async () => {
    const { status, body } = await call(gateway, "GET /v1/account", { key: "bad" });
    expect(status).toBe(401);
    expect(textAt(body, "error.message")).toMatch(/Use another key, or create an account/);
    expect(valueAt(body, "error.next")).toEqual([
      { method: "POST", url: "/v1/accounts", body: {}, why: expect.any(String) },
    ]);
  });

  test("402 for an empty balance suggests buying credits", async () => {
    const unfunded = await registerAndSpend();
    const { status, body } = await chat(gateway, unfunded.key, {
      max_tokens: 16_000,
      postern: { hold: "full" },
    });
    expect({ status, code: valueAt(body, "error.code") }).toEqual({
      status: 402,
      code: "insufficient_credits",
    });
    expect(listAt(body, "error.next")[0]).toMatchObject({
      method: "POST",
      url: "/v1/billing/invoice",
    });
    expect(listAt(body, "error.next")[1]).toMatchObject({
      method: "POST",
      url: "/agent/identity/claim",
    });
    expect(Number(valueAt(body, "error.affordable_max_tokens"))).toBeGreaterThan(0);
  });

  test("402 names an affordable max_tokens that works", async () => {
    const unfunded = await registerAndSpend();
    const refused = await chat(gateway, unfunded.key, {
      max_tokens: 16_000,
      postern: { hold: "full" },
    });
    const affordable = Number(valueAt(refused.body, "error.affordable_max_tokens"));
    expect((await chat(gateway, unfunded.key, { max_tokens: affordable })).status).toBe(200);
  });

  test("404 for an unknown model suggests GET /v1/models", async () => {
    const { status, body } = await chat(gateway, account.key, { model: "openai/no-such" });
    expect({
      status,
      code: valueAt(body, "error.code"),
      param: valueAt(body, "error.param"),
    }).toEqual({
      status: 404,
      code: "model_not_found",
      param: "model",
    });
    expect(listAt(body, "error.next")[0]).toMatchObject({ method: "GET", url: "/v1/models" });
  });

  test("503 provider_not_configured for a provider without an account", async () => {
    const models = listAt((await call(gateway, "GET /v1/models?available=false")).body, "data");
    const off = models.find(({ available }) => available === false);
    const { status, body, headers } = await chat(gateway, account.key, { model: off?.["id"] });
    expect({ status, code: valueAt(body, "error.code") }).toEqual({
      status: 503,
      code: "provider_not_configured",
    });
    expect(headers.get("retry-after")).toBeNull();
    expect(headers.get("x-should-retry")).toBe("false");
    expect(textAt(body, "error.message")).toMatch(/other model|another model|not set up|no key/i);
  });

  test("503 provider_not_configured for a claim without an identity provider", async () => {
    const env = { POSTERN_BASE_URL: "https://gateway.example", POSTERN_SECRET: "s".repeat(40) };
    const gatewayWithoutSignIn = await startGateway({ env, providers: ["sim"] });
    try {
      const { key } = await registerAccount(gatewayWithoutSignIn);
      const body = { email: "human@example.com" };
      const refused = await call(gatewayWithoutSignIn, "POST /agent/identity/claim", { key, body });
      expect(refused.status).toBe(503);
      expect(refused.body).toEqual({
        error: "provider_not_configured",
        error_description: expect.stringMatching(/OIDC_ISSUER.*; retrying does not help/),
        code: "provider_not_configured",
        request_id: expect.any(String),
      });
      expect(refused.headers.get("retry-after")).toBeNull();
      expect((await call(gatewayWithoutSignIn, "GET /v1/account", { key })).status).toBe(200);
      // The claim is not documented either.
      const unfunded = await chat(gatewayWithoutSignIn, key, { max_tokens: 16_000, n: 8 });
      // It has no payment method either.
      expect(listAt(unfunded.body, "error.next").map((step) => textAt(step, "url"))).toEqual([
        "/v1/account",
      ]);
      const manifest = await (await fetch(`${gatewayWithoutSignIn.url}/auth.md`)).text();
      expect(manifest).toContain("/v1/accounts");
      expect(manifest).not.toMatch(/identity.claim|take the account over|oauth2.token/);
      const server = await call(
        gatewayWithoutSignIn,
        "GET /.well-known/oauth-authorization-server",
      );
      expect(valueAt(server.body, "agent_auth.claim_uri")).toBeUndefined();
      expect(valueAt(server.body, "token_endpoint")).toBeUndefined();
    } finally {
      await gatewayWithoutSignIn.stop();
    }
  });

  describe("the error format", () => {
    test("under /v1 is OpenAI's, with code, request_id and next", async () => {
      const response = await call(gateway, "GET /v1/account");
      expect(Object.keys(response.body)).toEqual(["error"]);
      expect(Object.keys(valueAt(response.body, "error") as object).toSorted()).toEqual([
        "code",
        "message",
        "next",
        "param",
        "request_id",
        "type",
      ]);
      expect(response.headers.get("content-type")).toBe("application/json");
    });

    test("on /v1/messages is Anthropic's", async () => {
      for (const line of [
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "GET /v1/messages",
      ]) {
        const sent = line.startsWith("POST") ? { body: {} } : {};
        const response = await call(gateway, line, sent);
        expect(response.body).toMatchObject({
          type: "error",
          error: { type: expect.any(String), message: expect.any(String) },
          request_id: response.headers.get("x-request-id"),
        });
      }
      const { body } = await call(gateway, "POST /v1/messages", { body: {} });
      expect(valueAt(body, "error.type")).toBe("authentication_error");
    });

    test("on /oauth2/token and the claim endpoint is RFC 6749's", async () => {
      const lines = [
        await call(gateway, "POST /oauth2/token", { raw: "grant_type=x", headers: FORM }),
        await call(gateway, "POST /oauth2/token", {
          raw: "grant_type=x",
          headers: FORM,
          key: account.key,
        }),
        await call(gateway, "POST /agent/identity/claim", { body: {}, key: account.key }),
        await call(gateway, "GET /oauth2/token"),
        await call(gateway, "GET /agent/nothing"),
      ];
      for (const { body, headers, status } of lines) {
        expect([400, 401, 404, 405]).toContain(status);
        expect(typeof body["error"]).toBe("string");
        expect(textAt(body, "error_description")).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
        expect(headers.get("cache-control")).toBe("no-store");
        expect(headers.get("pragma")).toBe("no-cache");
      }
    });

    test("on pages is HTML", async () => {
      const response = await call(gateway, "POST /docs", { body: {} });
      expect(response.status).toBe(405);
      expectNoInternals(response);
    });

    test("of an unknown path is that of its prefix", async () => {
      const forms: readonly (readonly [string, string])[] = [
        ["/v1/nothing", "error.code"],
        ["/v1/messages/nothing", "error.type"],
        ["/nothing", "error.code"],
        ["/oauth2/nothing", "error"],
        ["/v1", "error.code"],
        ["/v1/account/", "error.code"],
        ["/V1/account", "error.code"],
      ];
      for (const [target, member] of forms) {
        const response = await call(gateway, `GET ${target}`);
        expect([target, response.status, typeof valueAt(response.body, member)]).toEqual([
          target,
          404,
          "string",
        ]);
      }
      const { body } = await call(gateway, "GET /v1/nothing");
      expect(valueAt(body, "error.next.0")).toMatchObject({ method: "GET", url: "/llms.txt" });
    });

    test("of an unsupported provider endpoint suggests an alternative", async () => {
      const cases: readonly (readonly [string, RegExp, string | undefined])[] = [
        ["POST /v1/uploads", /in the request that needs it/, "/docs/api/create-response.md"],
        [
          "POST /v1/images/variations",
          /POST \/v1\/images\/generations/,
          "/docs/api/create-images.md",
        ],
        ["POST /v1/ranking", /Use POST \/v1\/rerank/, "/docs/api/rerank-documents.md"],
        ["POST /v1/audio/voices", /input_modalities/, "/v1/models"],
        ["POST /v1/conversations", /previous_response_id/, "/docs/api/create-response.md"],
        ["POST /v1/complete", /as a message/, "/docs/api/create-message.md"],
        ["POST /v1/evals", /Call the provider directly/, undefined],
      ];
      for (const [line, instead, url] of cases) {
        const { body, status, headers } = await call(gateway, line, { key: account.key });
        const isMessages = line.includes(" /v1/messages");
        expect([line, status, valueAt(body, "error.code"), headers.get("allow")]).toEqual([
          line,
          404,
          "not_found",
          null,
        ]);
        expect(valueAt(body, "type")).toBe(isMessages ? "error" : undefined);
        expect(textAt(body, "error.message")).toStartWith("This gateway does not support /v1/");
        expect(textAt(body, "error.message")).toMatch(instead);
        const next = valueAt(body, "error.next.0.url");
        expect(next).toBe(url ?? "/llms.txt");
        // The suggested endpoint exists.
        const suggested = await call(gateway, `GET ${String(next)}`);
        expect([next, suggested.status]).toEqual([next, 200]);
      }
      const near = await call(gateway, "GET /v1/filesystem");
      expect(textAt(near.body, "error.message")).toContain("Nothing exists at this URL");
      const stored = await call(gateway, "POST /v1/responses/resp_1", {
        key: account.key,
        body: {},
      });
      expect([stored.status, stored.headers.get("allow")]).toEqual([405, "GET, DELETE, HEAD"]);
    });

    test("of an unsupported method is a 405 with the supported ones in allow", async () => {
      const { routes } = gateway.server;
      // Only SCIM has PUT.
      const others = routes.filter(({ path }) => !path.startsWith("/scim/"));
      const paths = [...new Set(others.map(({ path }) => path))];
      for (const path of paths) {
        const target = path.replaceAll(/\{\w+\+?\}/g, "some-id");
        const response = await call(gateway, `PUT ${target}`, { body: {} });
        expect([target, response.status]).toEqual([target, 405]);
        const allow = (response.headers.get("allow") ?? "").split(", ");
        const own = gateway.server.routes.filter((route) => route.path === path);
        for (const { method } of own) expect(allow).toContain(method);
        expect(allow.includes("HEAD")).toBe(allow.includes("GET"));
      }
    });
  });

  describe("request ids", () => {
    test("are unique in the x-request-id header of every response", async () => {
      const responses = await Promise.all(
        [
          "GET /healthz",
          "GET /v1/models",
          "GET /",
          "GET /docs",
          "GET /openapi.yaml",
          "GET /nothing",
          "PUT /v1/account",
          "OPTIONS /v1/account",
          "HEAD /v1/models",
        ].map((line) => call(gateway, line)),
      );
      responses.push(
        await call(gateway, "GET /v1/account", { key: account.key }),
        await chat(gateway, account.key),
        await chat(gateway, account.key, { stream: true }),
        await call(gateway, "POST /v1/accounts", { raw: "{" }),
      );
      const ids = responses.map(({ headers }) => headers.get("x-request-id") ?? "");
      for (const id of ids) expect(id).toMatch(/^req_[0-9a-z]{26}$/);
      expect(new Set(ids).size).toBe(ids.length);
    });

    test("are not taken from the client", async () => {
      const { headers } = await call(gateway, "GET /v1/models", {
        headers: { "x-request-id": "mine" },
      });
      expect(headers.get("x-request-id")).not.toBe("mine");
    });

    test("are also in the body of errors", async () => {
      const { body, headers } = await call(gateway, "GET /v1/account");
      expect(valueAt(body, "error.request_id")).toBe(headers.get("x-request-id"));
    });
  });

  describe("500 with a broken store", () => {
    let broken: Gateway;
    let owner: TestAccount;
    /** Not used before, because model calls use cached keys. */
    let unseen: string;
    beforeAll(async () => {
      broken = await startGateway({ store });
      owner = await registerAccount(broken);
      unseen = (await registerAccount(broken)).key;
    });
    afterAll(async () => {
      for (const table of hidden)
        await broken.server.db.write((tx) =>
          tx.run(`alter table gone_${table} rename to ${table}`),
        );
      await broken.stop();
    });

    const hidden: string[] = [];
    async function hide(...tables: readonly string[]): Promise<void> {
      for (const table of tables)
        await broken.server.db.write((tx) =>
          tx.run(`alter table ${table} rename to gone_${table}`),
        );
      hidden.push(...tables);
    }

    const USE_THE_STORE = [
      ["createAccount", "POST /v1/accounts", {}],
      ["getAccount", "GET /v1/account", undefined],
      ["createKey", "POST /v1/keys", {}],
      ["listKeys", "GET /v1/keys", undefined],
      ["getKey", "GET /v1/keys/key_x", undefined],
      ["changeKey", "PATCH /v1/keys/key_x", {}],
      ["revokeKey", "DELETE /v1/keys/key_x", undefined],
      ["listUsage", "GET /v1/usage", undefined],
      ["getUsage", "GET /v1/usage/req_x", undefined],
      ["summarizeUsage", "GET /v1/usage/summary", undefined],
    ] as const;

    test("is returned in the error format of every endpoint, with a request id and without internals", async () => {
      await hide("spender", "usage_record", "wallet", "account");
      for (const [id, line, body] of USE_THE_STORE) {
        const response: ApiResponse = await call(broken, line, {
          key: owner.key,
          ...(body === undefined ? {} : { body }),
        });
        expectStatus(id, 500, response);
        expect(valueAt(response.body, "error.code")).toBe("internal");
        expect(response.text).not.toMatch(/table|sql|column|relation|\.ts|select|insert/i);
        const id_ = response.headers.get("x-request-id") ?? "none";
        const line_ = broken.logLines.find((logged) => logged.includes(id_)) ?? "";
        expect(line_).toContain('"level":"error"');
      }
    });

    test("is returned for account creation, and no account is created", async () => {
      expectStatus("createAccount", 500, await call(broken, "POST /v1/accounts", { body: {} }));
    });

    test("is returned by every endpoint with an API key if all tables are gone", async () => {
      const keyed = broken.server.routes.filter(requiresKey);
      await hide("api_key");
      for (const route of keyed) {
        const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
        const sent = route.method === "GET" ? {} : { body: {} };
        const response = await call(broken, `${route.method} ${path}`, { key: unseen, ...sent });
        expectStatus(route.id, 500, response);
        expect(response.text).not.toMatch(/table|sql|column|relation|\.ts|select|insert/i);
      }
    });

    test("does not affect /healthz", async () => {
      expect((await call(broken, "GET /healthz")).status).toBe(200);
    });
  });
});

describe("503 during shutdown", () => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway();
    account = await registerAccount(gateway);
    gateway.server.startDraining();
  });
  afterAll(() => gateway.stop());

  test("is returned with retry-after in the error format of every endpoint", async () => {
    for (const route of gateway.server.routes) {
      const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
      const sent = route.method === "GET" ? {} : { body: {} };
      const response = await call(gateway, `${route.method} ${path}`, {
        key: account.key,
        ...sent,
      });
      if (route.tag === "Operations") continue;
      expectStatus(route.id, 503, response);
      expect(response.headers.get("retry-after")).toBe("2");
      if (route.dialect === "openai" || route.dialect === "messages")
        expect(valueAt(response.body, "error.code")).toBe("overloaded");
      if (route.dialect === "oauth") expect(response.body["error"]).toBe("temporarily_unavailable");
    }
  });

  test("is returned by /readyz as draining, while /healthz and /metrics work", async () => {
    const ready = await call(gateway, "GET /readyz");
    expectStatus("checkReadiness", 503, ready);
    expect(ready.body).toEqual({ status: "draining" });
    expect((await call(gateway, "GET /healthz")).status).toBe(200);
    expect((await call(gateway, "GET /metrics")).status).toBe(200);
  });
});
