import { afterAll, beforeAll, describe, expect, test } from "bun:test";
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

describe.each(STORE_KINDS)("the specification's errors, on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  /** An account with a fifth of its starting credit left. */
  async function registerAndSpend(): Promise<TestAccount> {
    const poor = await registerAccount(gateway);
    const messages = [{ role: "user", content: "[[sim: tokens=10000]] hello" }];
    for (let times = 0; times < 2; times++)
      await chat(gateway, poor.key, { messages, max_tokens: 10_000 });
    return poor;
  }

  test("401: key missing, invalid or revoked. Drop the key; create or obtain a new one", async () => {
    const { status, body } = await call(gateway, "GET /v1/account", { key: "bad" });
    expect(status).toBe(401);
    expect(textAt(body, "error.message")).toMatch(/Use another key, or create an account/);
    expect(valueAt(body, "error.next")).toEqual([
      { method: "POST", url: "/v1/accounts", body: {}, why: expect.any(String) },
    ]);
  });

  test("402: balance empty. Top up credits via billing", async () => {
    const poor = await registerAndSpend();
    const { status, body } = await chat(gateway, poor.key, { max_tokens: 16_000 });
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

  test("402 can be acted on: the same call with affordable_max_tokens goes through", async () => {
    const poor = await registerAndSpend();
    const refused = await chat(gateway, poor.key, { max_tokens: 16_000 });
    const affordable = Number(valueAt(refused.body, "error.affordable_max_tokens"));
    expect((await chat(gateway, poor.key, { max_tokens: affordable })).status).toBe(200);
  });

  test("404 on a model call: model id unknown. Use an id from GET /v1/models", async () => {
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

  test("503 with code provider_not_configured: retrying the same request does not help", async () => {
    const models = listAt((await call(gateway, "GET /v1/models?available=false")).body, "data");
    const off = models.find(({ available }) => available === false);
    const { status, body, headers } = await chat(gateway, account.key, { model: off?.["id"] });
    expect({ status, code: valueAt(body, "error.code") }).toEqual({
      status: 503,
      code: "provider_not_configured",
    });
    expect(headers.get("retry-after")).toBeNull();
    expect(textAt(body, "error.message")).toMatch(/other model|another model|not set up|no key/i);
  });

  test("503 with code provider_not_configured, too, for a claim where nobody signs humans in", async () => {
    const env = { POSTERN_BASE_URL: "https://gateway.example", POSTERN_SECRET: "s".repeat(40) };
    const mute = await startGateway({ env, providers: ["sim"] });
    try {
      const { key } = await registerAccount(mute);
      const body = { email: "human@example.com" };
      const refused = await call(mute, "POST /agent/identity/claim", { key, body });
      expect(refused.status).toBe(503);
      expect(refused.body).toEqual({
        error: "provider_not_configured",
        error_description: expect.stringMatching(/OIDC_ISSUER; trying again does not help/),
      });
      expect(refused.headers.get("retry-after")).toBeNull();
      expect((await call(mute, "GET /v1/account", { key })).status).toBe(200);
      // Nor is it offered.
      const poor = await chat(mute, key, { max_tokens: 16_000, n: 8 });
      expect(listAt(poor.body, "error.next").map((step) => textAt(step, "url"))).toEqual([
        "/v1/billing/invoice",
      ]);
      const manifest = await (await fetch(`${mute.url}/auth.md`)).text();
      expect(manifest).toContain("/v1/accounts");
      expect(manifest).not.toMatch(/identity.claim|take the account over|oauth2.token/);
      const server = await call(mute, "GET /.well-known/oauth-authorization-server");
      expect(valueAt(server.body, "agent_auth.claim_uri")).toBeUndefined();
      expect(valueAt(server.body, "token_endpoint")).toBeUndefined();
    } finally {
      await mute.stop();
    }
  });

  describe("the envelope belongs to the API that was called", () => {
    test("under /v1, OpenAI's: error with message, type, code, param, request_id, and next", async () => {
      const answer = await call(gateway, "GET /v1/account");
      expect(Object.keys(answer.body)).toEqual(["error"]);
      expect(Object.keys(valueAt(answer.body, "error") as object).toSorted()).toEqual([
        "code",
        "message",
        "next",
        "param",
        "request_id",
        "type",
      ]);
      expect(answer.headers.get("content-type")).toBe("application/json");
    });

    test("on /v1/messages, Anthropic's: type error, error with type and message, request_id", async () => {
      for (const line of [
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "GET /v1/messages",
      ]) {
        const sent = line.startsWith("POST") ? { body: {} } : {};
        const answer = await call(gateway, line, sent);
        expect(answer.body).toMatchObject({
          type: "error",
          error: { type: expect.any(String), message: expect.any(String) },
          request_id: answer.headers.get("x-request-id"),
        });
      }
      const { body } = await call(gateway, "POST /v1/messages", { body: {} });
      expect(valueAt(body, "error.type")).toBe("authentication_error");
    });

    test("on /oauth2/token and the claim start, RFC 6749's: error and error_description, flat", async () => {
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

    test("on pages, a page", async () => {
      const answer = await call(gateway, "POST /docs", { body: {} });
      expect(answer.status).toBe(405);
      expectNoInternals(answer);
    });

    test("a path that is nowhere is a 404 in the form of its neighbours", async () => {
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
        const answer = await call(gateway, `GET ${target}`);
        expect([target, answer.status, typeof valueAt(answer.body, member)]).toEqual([
          target,
          404,
          "string",
        ]);
      }
      const { body } = await call(gateway, "GET /v1/nothing");
      expect(valueAt(body, "error.next.0")).toMatchObject({ method: "GET", url: "/openapi.yaml" });
    });

    test("an endpoint of a provider's API that is not offered is a 404 that says so, and what to use instead", async () => {
      const cases: readonly (readonly [string, RegExp, string | undefined])[] = [
        ["POST /v1/responses/compact", /summarize the earlier turns/, "/v1/responses"],
        ["POST /v1/responses/input_tokens", /count_tokens/, "/v1/messages/count_tokens"],
        ["POST /v1/messages/batches", /requests one by one/, "/v1/messages"],
        ["GET /v1/messages/batches/msgbatch_1/results", /no batches/, "/v1/messages"],
        ["GET /v1/batches", /no batches/, "/v1/chat/completions"],
        ["GET /v1/files/file-1/content", /in the request that needs it/, "/v1/responses"],
        ["POST /v1/uploads", /in the request that needs it/, "/v1/responses"],
        ["POST /v1/images/generations", /output_modalities/, "/v1/models"],
        ["POST /v1/audio/transcriptions", /input_modalities/, "/v1/models"],
        ["POST /v1/conversations", /previous_response_id/, "/v1/responses"],
        ["POST /v1/completions", /as a message/, "/v1/chat/completions"],
        ["POST /v1/complete", /as a message/, "/v1/messages"],
        ["POST /v1/moderations", /Call the provider directly/, undefined],
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
        expect(next).toBe(url ?? "/openapi.yaml");
        // What it points to is there.
        const known = gateway.server.routes.some(({ path }) => path === next);
        expect([next, known]).toEqual([next, true]);
      }
      const near = await call(gateway, "GET /v1/filesystem");
      expect(textAt(near.body, "error.message")).toContain("Nothing exists at this URL");
      const stored = await call(gateway, "POST /v1/responses/resp_1", {
        key: account.key,
        body: {},
      });
      expect([stored.status, stored.headers.get("allow")]).toEqual([405, "GET, DELETE, HEAD"]);
    });

    test("a method that a path does not take is a 405 with an allow header that is true", async () => {
      const paths = [...new Set(gateway.server.routes.map(({ path }) => path))];
      for (const path of paths) {
        const target = path.replaceAll(/\{\w+\+?\}/g, "some-id");
        const answer = await call(gateway, `PUT ${target}`, { body: {} });
        expect([target, answer.status]).toEqual([target, 405]);
        const allow = (answer.headers.get("allow") ?? "").split(", ");
        const own = gateway.server.routes.filter((route) => route.path === path);
        for (const { method } of own) expect(allow).toContain(method);
        expect(allow.includes("HEAD")).toBe(allow.includes("GET"));
      }
    });
  });

  describe("request ids", () => {
    test("every answer carries x-request-id, good or bad, and no two are the same", async () => {
      const answers = await Promise.all(
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
      answers.push(
        await call(gateway, "GET /v1/account", { key: account.key }),
        await chat(gateway, account.key),
        await chat(gateway, account.key, { stream: true }),
        await call(gateway, "POST /v1/accounts", { raw: "{" }),
      );
      const ids = answers.map(({ headers }) => headers.get("x-request-id") ?? "");
      for (const id of ids) expect(id).toMatch(/^req_[0-9a-z]{26}$/);
      expect(new Set(ids).size).toBe(ids.length);
    });

    test("a client's own x-request-id is not taken over", async () => {
      const { headers } = await call(gateway, "GET /v1/models", {
        headers: { "x-request-id": "mine" },
      });
      expect(headers.get("x-request-id")).not.toBe("mine");
    });

    test("an error says its request id in the body too", async () => {
      const { body, headers } = await call(gateway, "GET /v1/account");
      expect(valueAt(body, "error.request_id")).toBe(headers.get("x-request-id"));
    });
  });

  describe("500, where the store is broken", () => {
    let broken: Gateway;
    let owner: TestAccount;
    /** A model call may take a key that was found seconds ago, so this one is never looked for before. */
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
      ["readAccount", "GET /v1/account", undefined],
      ["mintKey", "POST /v1/keys", {}],
      ["listKeys", "GET /v1/keys", undefined],
      ["getKey", "GET /v1/keys/key_x", undefined],
      ["changeKey", "PATCH /v1/keys/key_x", {}],
      ["revokeKey", "DELETE /v1/keys/key_x", undefined],
      ["listUsage", "GET /v1/usage", undefined],
      ["getUsage", "GET /v1/usage/req_x", undefined],
      ["summarizeUsage", "GET /v1/usage/summary", undefined],
    ] as const;

    test("every endpoint that needs it says so in its own envelope, with a request id, and nothing of what broke", async () => {
      await hide("spender", "usage_record", "wallet", "account");
      for (const [id, line, body] of USE_THE_STORE) {
        const answer: ApiResponse = await call(broken, line, {
          key: owner.key,
          ...(body === undefined ? {} : { body }),
        });
        expectStatus(id, 500, answer);
        expect(valueAt(answer.body, "error.code")).toBe("internal");
        expect(answer.text).not.toMatch(/table|sql|column|relation|\.ts|select|insert/i);
        const id_ = answer.headers.get("x-request-id") ?? "none";
        const line_ = broken.logLines.find((logged) => logged.includes(id_)) ?? "";
        expect(line_).toContain('"level":"error"');
      }
    });

    test("an account that cannot be opened is a 500, and none was opened", async () => {
      expectStatus("createAccount", 500, await call(broken, "POST /v1/accounts", { body: {} }));
    });

    test("with every table gone, every endpoint that takes a key says the same", async () => {
      const keyed = broken.server.routes.filter(({ auth }) => auth === "key");
      await hide("api_key");
      for (const route of keyed) {
        const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
        const sent = route.method === "GET" ? {} : { body: {} };
        const answer = await call(broken, `${route.method} ${path}`, { key: unseen, ...sent });
        expectStatus(route.id, 500, answer);
        expect(answer.text).not.toMatch(/table|sql|column|relation|\.ts|select|insert/i);
      }
    });

    test("/healthz still says that the process lives", async () => {
      expect((await call(broken, "GET /healthz")).status).toBe(200);
    });
  });
});

describe("503, where the process shuts down", () => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway();
    account = await registerAccount(gateway);
    gateway.server.startDraining();
  });
  afterAll(() => gateway.stop());

  test("every endpoint but the operator's refuses new work: overloaded, with retry-after, in its own envelope", async () => {
    for (const route of gateway.server.routes) {
      const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
      const sent = route.method === "GET" ? {} : { body: {} };
      const answer = await call(gateway, `${route.method} ${path}`, { key: account.key, ...sent });
      if (route.tag === "Operations") continue;
      expectStatus(route.id, 503, answer);
      expect(answer.headers.get("retry-after")).toBe("2");
      if (route.dialect === "openai" || route.dialect === "messages")
        expect(valueAt(answer.body, "error.code")).toBe("overloaded");
      if (route.dialect === "oauth") expect(answer.body["error"]).toBe("temporarily_unavailable");
    }
  });

  test("/readyz says draining with 503, so that work is sent elsewhere; /healthz and /metrics go on", async () => {
    const ready = await call(gateway, "GET /readyz");
    expectStatus("isReady", 503, ready);
    expect(ready.body).toEqual({ status: "draining" });
    expect((await call(gateway, "GET /healthz")).status).toBe(200);
    expect((await call(gateway, "GET /metrics")).status).toBe(200);
  });
});
