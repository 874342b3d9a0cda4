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
  expectError,
  textAt,
} from "./api-client.ts";

const CHECKSUM_CHARACTERS = 6;

describe.each(STORE_KINDS)("the specification's authentication, on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let metadata: string;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    metadata = `resource_metadata="${gateway.url}/.well-known/oauth-protected-resource"`;
  });
  afterAll(() => gateway.stop());

  const read = (headers: Readonly<Record<string, string>>): Promise<ApiResponse> =>
    call(gateway, "GET /v1/account", { headers });

  /** A well-formed key that was never made here. */
  const unknownKey = (): string => account.key.slice(0, 7) + "A".repeat(49);

  test("1. every model, account, key, usage, provider-key and claim endpoint needs a gateway API key", async () => {
    const keyed = gateway.server.routes.filter(({ auth }) => auth === "key");
    const paths = keyed.map(({ method, path }) => `${method} ${path}`);
    for (const line of [
      "POST /v1/chat/completions",
      "POST /v1/responses",
      "POST /v1/messages",
      "GET /v1/account",
      "POST /v1/keys",
      "GET /v1/keys",
      "PATCH /v1/keys/{id}",
      "DELETE /v1/keys/{id}",
      "GET /v1/usage",
      "POST /v1/provider-keys",
      "POST /agent/identity/claim",
      "POST /oauth2/token",
    ])
      expect(paths).toContain(line);
    for (const route of keyed) {
      const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
      const sent = route.method === "GET" ? {} : { body: {} };
      const answer = await call(gateway, `${route.method} ${path}`, sent);
      expectStatus(route.id, 401, answer);
      expect(answer.headers.get("www-authenticate")).toBe(`Bearer ${metadata}`);
    }
  });

  test("2. POST /v1/accounts and GET /v1/models need no authentication", async () => {
    expect((await call(gateway, "POST /v1/accounts", { body: {} })).status).toBe(201);
    expect((await call(gateway, "GET /v1/models")).status).toBe(200);
  });

  test("endpoints that need no authentication do not look at a key, even a bad one", async () => {
    for (const line of [
      "POST /v1/accounts",
      "GET /v1/models",
      "GET /openapi.yaml",
      "GET /healthz",
    ]) {
      const sent = line.startsWith("POST") ? { body: {} } : {};
      const { status } = await call(gateway, line, { ...sent, key: "nonsense" });
      expect([200, 201]).toContain(status);
    }
  });

  test("3. the first key comes from POST /v1/accounts; more keys come from POST /v1/keys", async () => {
    const minted = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
    expect((await read({ authorization: `Bearer ${account.key}` })).status).toBe(200);
    expect((await read({ authorization: `Bearer ${textAt(minted.body, "api_key")}` })).status).toBe(
      200,
    );
  });

  describe("4. WWW-Authenticate is of scheme Bearer and points to the protected-resource metadata", () => {
    test("without a key it names no error", async () => {
      const answer = await read({});
      expect(answer.headers.get("www-authenticate")).toBe(`Bearer ${metadata}`);
    });

    test("with a key that is bad it says invalid_token", async () => {
      const answer = await read({ authorization: `Bearer ${unknownKey()}` });
      expect(answer.headers.get("www-authenticate")).toBe(
        `Bearer error="invalid_token", ${metadata}`,
      );
    });

    test("a bad x-api-key is challenged the same way", async () => {
      const answer = await read({ "x-api-key": unknownKey() });
      expect(answer.headers.get("www-authenticate")).toBe(
        `Bearer error="invalid_token", ${metadata}`,
      );
    });

    test("what it points to says which resource this is", async () => {
      const challenge = (await read({})).headers.get("www-authenticate") ?? "";
      const url = /resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? "";
      const metadataAnswer = await fetch(url);
      expect(await metadataAnswer.json()).toMatchObject({
        resource: gateway.url,
        bearer_methods_supported: ["header"],
      });
    });

    test("no other status carries a challenge", async () => {
      const answers = [
        await read({ authorization: `Bearer ${account.key}` }),
        await call(gateway, "GET /v1/nothing"),
        await call(gateway, "POST /v1/accounts", { body: { x: 1 } }),
      ];
      for (const { headers } of answers) expect(headers.get("www-authenticate")).toBeNull();
    });
  });

  test("5. the claim endpoint and the token endpoint are authenticated with the agent's bearer key", async () => {
    const start = await call(gateway, "POST /agent/identity/claim", { body: { email: "a@b.org" } });
    expect(start.status).toBe(401);
    expect(valueAt(start.body, "error")).toBe("invalid_client");
    const poll = await call(gateway, "POST /oauth2/token", {
      raw: "grant_type=urn:postern:agent-auth:grant-type:claim",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect(poll.status).toBe(401);
    expect(valueAt(poll.body, "error")).toBe("invalid_client");
    expect(poll.headers.get("cache-control")).toBe("no-store");
  });

  describe("8. a key that is missing, invalid or revoked yields 401", () => {
    test("missing", async () => {
      const answer = await read({});
      expectError(answer, { status: 401, code: "invalid_api_key" });
      expect(valueAt(answer.body, "error.type")).toBe("authentication_error");
    });

    const INVALID: readonly (readonly [string, (key: string) => string])[] = [
      ["unknown", (key) => key.slice(0, 7) + "A".repeat(49)],
      ["mistyped: its checksum is wrong", (key) => flip(key, 20)],
      ["with a wrong checksum", (key) => flip(key, key.length - 1)],
      ["cut short", (key) => key.slice(0, -1)],
      ["with something after it", (key) => `${key}A`],
      ["of another gateway", (key) => key.replace(/^pst/, "abc")],
      ["of another provider", () => ["sk", "proj", "a".repeat(40)].join("-")],
      ["in capitals", (key) => key.toUpperCase()],
      ["as long as headers go", (key) => key + "A".repeat(7_000)],
      ["in quotes", (key) => `"${key}"`],
      ["SQL", () => "'or'1'='1"],
    ];
    test.each(INVALID)("invalid: %s", async (_what, spoil) => {
      const bad = spoil(account.key);
      for (const headers of [{ authorization: `Bearer ${bad}` }, { "x-api-key": bad }]) {
        const answer = await read(headers);
        expectError(answer, { status: 401, code: "invalid_api_key" });
        expect(answer.text).not.toContain(bad);
      }
    });

    test("invalid: a header that is no bearer token, or an empty one", async () => {
      for (const authorization of [
        "Bearer",
        "Bearer ",
        account.key,
        `Basic ${btoa(`${account.key}:`)}`,
        `Token ${account.key}`,
        `Bearer ${account.key} again`,
        `Bearer=${account.key}`,
      ]) {
        const answer = await read({ authorization });
        expectError(answer, { status: 401, code: "invalid_api_key" });
        expect(answer.headers.get("www-authenticate")).toStartWith("Bearer ");
      }
    });

    test("revoked", async () => {
      const { body } = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
      await call(gateway, `DELETE /v1/keys/${textAt(body, "id")}`, { key: account.key });
      expectError(await read({ authorization: `Bearer ${textAt(body, "api_key")}` }), {
        status: 401,
        code: "invalid_api_key",
      });
    });

    test("a wrong, a missing and a revoked key are told the same way to go on", async () => {
      for (const headers of [{}, { authorization: `Bearer ${unknownKey()}` }]) {
        const { body } = await read(headers);
        expect(valueAt(body, "error.next.0")).toMatchObject({
          method: "POST",
          url: "/v1/accounts",
          body: {},
        });
      }
    });

    test("the key is checked before anything else is said: no body, id or field is told about to a stranger", async () => {
      const lines = ["POST /v1/keys", "PATCH /v1/keys/x", "DELETE /v1/keys/x"];
      for (const line of lines)
        expect((await call(gateway, line, { raw: "{{{", key: "bad" })).status).toBe(401);
      expect((await call(gateway, "GET /v1/keys?limit=nonsense")).status).toBe(401);
    });
  });

  describe("the ways to send a key", () => {
    test("authorization: Bearer, in any case and with more than one space", async () => {
      for (const scheme of ["Bearer ", "bearer ", "BEARER ", "Bearer   "])
        expect((await read({ authorization: scheme + account.key })).status).toBe(200);
    });

    test("x-api-key, as Anthropic's SDK sends it", async () => {
      expect((await read({ "x-api-key": account.key })).status).toBe(200);
    });

    test("both, where they are the same key", async () => {
      const both = { authorization: `Bearer ${account.key}`, "x-api-key": account.key };
      expect((await read(both)).status).toBe(200);
    });

    test("two different keys are a 400: nobody should guess which one is meant", async () => {
      const other = await registerAccount(gateway);
      const answer = await read({
        authorization: `Bearer ${account.key}`,
        "x-api-key": other.key,
      });
      expectError(answer, { status: 400, code: "invalid_request", param: "x-api-key" });
      expectStatus("readAccount", 400, answer);
    });

    test("two keys in one header's name are a 400, as in two", async () => {
      const answer = await read({ "x-api-key": `${account.key}, ${unknownKey()}` });
      expectError(answer, { status: 400, code: "invalid_request", param: "x-api-key" });
    });

    test("an empty x-api-key, which an unset variable makes, is no key beside a bearer key, and none alone", async () => {
      const bearer = { authorization: `Bearer ${account.key}`, "x-api-key": "" };
      expect((await read(bearer)).status).toBe(200);
      const plain = { authorization: "Bearer ", "x-api-key": account.key };
      expect((await read(plain)).status).toBe(200);
      const none = await read({ "x-api-key": "" });
      expect(none.status).toBe(401);
      expect(none.headers.get("www-authenticate")).toBe(`Bearer ${metadata}`);
    });

    test("a key in the query, in the body or in a cookie is no key", async () => {
      expect((await call(gateway, `GET /v1/account?api_key=${account.key}`)).status).toBe(401);
      expect((await read({ cookie: `api_key=${account.key}` })).status).toBe(401);
      const inBody = await call(gateway, "POST /v1/keys", { body: { api_key: account.key } });
      expect(inBody.status).toBe(401);
    });
  });

  test("no answer and no line of the log holds a key that was sent, good or bad", async () => {
    const bad = unknownKey();
    await read({ authorization: `Bearer ${bad}` });
    await chat(gateway, account.key, { model: "no/such" });
    await call(gateway, `GET /v1/keys/${account.key}`, { key: bad });
    await call(gateway, `GET /v1/models/${account.key}`);
    await call(gateway, `GET /v1/keys?${account.key}=1`, { key: account.key });
    await call(gateway, "POST /v1/keys", { key: account.key, body: { [account.key]: 1 } });
    await chat(gateway, account.key, { model: account.key });
    const logged = gateway.logLines.join("\n");
    expect(logged.includes(account.key.slice(7, -CHECKSUM_CHARACTERS))).toBe(false);
    expect(logged.includes("-rt-[secret]")).toBe(true);
  });

  test("what a key may see is kept out of caches, which know nothing of an x-api-key", async () => {
    for (const headers of [
      { "x-api-key": account.key },
      { authorization: `Bearer ${account.key}` },
    ])
      for (const path of [
        "account",
        "keys",
        "usage",
        "billing/invoices",
        "provider-keys",
        "audit",
      ]) {
        const answer = await call(gateway, `GET /v1/${path}`, { headers });
        expect(answer.status).toBe(200);
        expect(answer.headers.get("cache-control")).toBe("no-store");
      }
    const models = await call(gateway, "GET /v1/models", { key: account.key });
    expect(models.headers.get("cache-control")).toBe("public, max-age=300");
  });

  test("every 401 is harmless and kept out of caches", async () => {
    const answer = await read({ authorization: "Bearer x" });
    expectNoInternals(answer);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });
});

function flip(key: string, index: number): string {
  const other = key.charAt(index) === "a" ? "b" : "a";
  return key.slice(0, index) + other + key.slice(index + 1);
}
