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
  expectError,
  textAt,
} from "./api-client.ts";

const CHECKSUM_CHARACTERS = 6;

describe.each(STORE_KINDS)("authentication on %s", (store) => {
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

  /** A well-formed key that does not exist. */
  const unknownKey = (): string => account.key.slice(0, 7) + "A".repeat(49);

  test("model, account, key, usage, provider-key and claim endpoints require an API key", async () => {
    const keyed = gateway.server.routes.filter(requiresKey);
    const paths = keyed.map(({ method, path }) => `${method} ${path}`);
    for (const line of [
      "POST /v1/chat/completions",
      "POST /v1/responses",
      "POST /v1/messages",
      "GET /v1/account",
      "POST /v1/keys",
      "GET /v1/keys",
      "PATCH /v1/keys/{id}",
      "POST /v1/keys/{id}/rotate",
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
      const response = await call(gateway, `${route.method} ${path}`, sent);
      expectStatus(route.id, 401, response);
      expect(response.headers.get("www-authenticate")).toBe(`Bearer ${metadata}`);
    }
  });

  test("POST /v1/accounts and GET /v1/models need no authentication", async () => {
    expect((await call(gateway, "POST /v1/accounts", { body: {} })).status).toBe(201);
    expect((await call(gateway, "GET /v1/models")).status).toBe(200);
  });

  test("endpoints without authentication ignore an invalid key", async () => {
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

  test("POST /v1/accounts returns the first key and POST /v1/keys further ones", async () => {
    const minted = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
    expect((await read({ authorization: `Bearer ${account.key}` })).status).toBe(200);
    expect((await read({ authorization: `Bearer ${textAt(minted.body, "api_key")}` })).status).toBe(
      200,
    );
  });

  describe("www-authenticate with the protected-resource metadata", () => {
    test("names no error without a key", async () => {
      const response = await read({});
      expect(response.headers.get("www-authenticate")).toBe(`Bearer ${metadata}`);
    });

    test("names invalid_token for an invalid key", async () => {
      const response = await read({ authorization: `Bearer ${unknownKey()}` });
      expect(response.headers.get("www-authenticate")).toBe(
        `Bearer error="invalid_token", ${metadata}`,
      );
    });

    test("is equal for an invalid x-api-key", async () => {
      const response = await read({ "x-api-key": unknownKey() });
      expect(response.headers.get("www-authenticate")).toBe(
        `Bearer error="invalid_token", ${metadata}`,
      );
    });

    test("links to metadata of this resource", async () => {
      const challenge = (await read({})).headers.get("www-authenticate") ?? "";
      const url = /resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? "";
      const metadataAnswer = await fetch(url);
      expect(await metadataAnswer.json()).toMatchObject({
        resource: gateway.url,
        bearer_methods_supported: ["header"],
      });
    });

    test("is sent only with status 401", async () => {
      const responses = [
        await read({ authorization: `Bearer ${account.key}` }),
        await call(gateway, "GET /v1/nothing"),
        await call(gateway, "POST /v1/accounts", { body: { x: 1 } }),
      ];
      for (const { headers } of responses) expect(headers.get("www-authenticate")).toBeNull();
    });
  });

  test("the claim and token endpoints require the agent's API key", async () => {
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

  describe("a 401", () => {
    test("for a missing key", async () => {
      const response = await read({});
      expectError(response, { status: 401, code: "invalid_api_key" });
      expect(valueAt(response.body, "error.type")).toBe("authentication_error");
    });

    const INVALID: readonly (readonly [string, (key: string) => string])[] = [
      ["unknown", (key) => key.slice(0, 7) + "A".repeat(49)],
      ["with a typo", (key) => flip(key, 20)],
      ["with a wrong checksum", (key) => flip(key, key.length - 1)],
      ["truncated", (key) => key.slice(0, -1)],
      ["with a suffix", (key) => `${key}A`],
      ["of another gateway", (key) => key.replace(/^pst/, "abc")],
      ["of another provider", () => ["sk", "proj", "a".repeat(40)].join("-")],
      ["in capitals", (key) => key.toUpperCase()],
      ["of 7,000 characters", (key) => key + "A".repeat(7_000)],
      ["in quotes", (key) => `"${key}"`],
      ["SQL", () => "'or'1'='1"],
    ];
    test.each(INVALID)("for an invalid key (%s)", async (_name, corrupt) => {
      const bad = corrupt(account.key);
      for (const headers of [{ authorization: `Bearer ${bad}` }, { "x-api-key": bad }]) {
        const response = await read(headers);
        expectError(response, { status: 401, code: "invalid_api_key" });
        expect(response.text).not.toContain(bad);
      }
    });

    test("for an authorization header without a bearer token", async () => {
      for (const authorization of [
        "Bearer",
        "Bearer ",
        account.key,
        `Basic ${btoa(`${account.key}:`)}`,
        `Token ${account.key}`,
        `Bearer ${account.key} again`,
        `Bearer=${account.key}`,
      ]) {
        const response = await read({ authorization });
        expectError(response, { status: 401, code: "invalid_api_key" });
        expect(response.headers.get("www-authenticate")).toStartWith("Bearer ");
      }
    });

    test("for a revoked key", async () => {
      const { body } = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
      await call(gateway, `DELETE /v1/keys/${textAt(body, "id")}`, { key: account.key });
      expectError(await read({ authorization: `Bearer ${textAt(body, "api_key")}` }), {
        status: 401,
        code: "invalid_api_key",
      });
    });

    test("suggests the same next step for missing, invalid and revoked keys", async () => {
      for (const headers of [{}, { authorization: `Bearer ${unknownKey()}` }]) {
        const { body } = await read(headers);
        expect(valueAt(body, "error.next.0")).toMatchObject({
          method: "POST",
          url: "/v1/accounts",
          body: {},
        });
      }
    });

    test("comes before any validation of body, ids and fields", async () => {
      const lines = ["POST /v1/keys", "PATCH /v1/keys/x", "DELETE /v1/keys/x"];
      for (const line of lines)
        expect((await call(gateway, line, { raw: "{{{", key: "bad" })).status).toBe(401);
      expect((await call(gateway, "GET /v1/keys?limit=nonsense")).status).toBe(401);
    });
  });

  describe("an API key", () => {
    test("can be a bearer token, with the scheme in any case", async () => {
      for (const scheme of ["Bearer ", "bearer ", "BEARER ", "Bearer   "])
        expect((await read({ authorization: scheme + account.key })).status).toBe(200);
    });

    test("can be sent as x-api-key", async () => {
      expect((await read({ "x-api-key": account.key })).status).toBe(200);
    });

    test("can be sent in both headers", async () => {
      const both = { authorization: `Bearer ${account.key}`, "x-api-key": account.key };
      expect((await read(both)).status).toBe(200);
    });

    test("must not differ between both headers", async () => {
      const other = await registerAccount(gateway);
      const response = await read({
        authorization: `Bearer ${account.key}`,
        "x-api-key": other.key,
      });
      expectError(response, { status: 400, code: "invalid_request", param: "x-api-key" });
      expectStatus("getAccount", 400, response);
    });

    test("must not be sent twice in one header", async () => {
      const response = await read({ "x-api-key": `${account.key}, ${unknownKey()}` });
      expectError(response, { status: 400, code: "invalid_request", param: "x-api-key" });
    });

    test("is not sent by an empty x-api-key", async () => {
      const bearer = { authorization: `Bearer ${account.key}`, "x-api-key": "" };
      expect((await read(bearer)).status).toBe(200);
      const plain = { authorization: "Bearer ", "x-api-key": account.key };
      expect((await read(plain)).status).toBe(200);
      const none = await read({ "x-api-key": "" });
      expect(none.status).toBe(401);
      expect(none.headers.get("www-authenticate")).toBe(`Bearer ${metadata}`);
    });

    test("is not accepted in query, body or cookie", async () => {
      expect((await call(gateway, `GET /v1/account?api_key=${account.key}`)).status).toBe(401);
      expect((await read({ cookie: `api_key=${account.key}` })).status).toBe(401);
      const inBody = await call(gateway, "POST /v1/keys", { body: { api_key: account.key } });
      expect(inBody.status).toBe(401);
    });
  });

  test("responses and logs contain no sent keys", async () => {
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

  test("responses to requests with an API key are not cached", async () => {
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
        const response = await call(gateway, `GET /v1/${path}`, { headers });
        expect(response.status).toBe(200);
        expect(response.headers.get("cache-control")).toBe("no-store");
      }
    const models = await call(gateway, "GET /v1/models", { key: account.key });
    // The list depends on the account's provider keys.
    expect(models.headers.get("cache-control")).toBe("private, no-cache");
  });

  test("every 401 is uncached and reveals no internals", async () => {
    const response = await read({ authorization: "Bearer x" });
    expectNoInternals(response);
    expect(response.headers.get("cache-control")).toBe("no-store");
  });
});

function flip(key: string, index: number): string {
  const other = key.charAt(index) === "a" ? "b" : "a";
  return key.slice(0, index) + other + key.slice(index + 1);
}
