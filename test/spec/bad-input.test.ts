// Invalid input at all endpoints except model calls: an error in the format of the API, and nothing is written.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { type Route, requiresSession } from "../../src/http/route.ts";
import { anyCharacter } from "../support/any-character.ts";
import { casesOn, runs, testOn } from "../support/full.ts";
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
  expectNoInternals,
  expectError,
  listAt,
  type ApiRequest,
  textAt,
} from "./api-client.ts";
import { type ApiDescription, readApiDescription } from "./openapi-conformance.ts";

const SMALL_LIMIT = 65_536;
const RUNS = runs(40);

describe.each(STORE_KINDS)("invalid input on %s", (store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let account: TestAccount;
  let keyId: string;
  let description: ApiDescription;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    const list = await call(gateway, "GET /v1/keys", { key: account.key });
    keyId = textAt(list.body, "data.0.id");
    description = await readApiDescription(gateway);
  });
  afterAll(async () => {
    expect(gateway.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    await gateway.stop();
  });

  /** Routes with a small JSON body. */
  const writes = (): readonly Route[] =>
    gateway.server.routes.filter(
      ({ method, body, bodyType, bodyLimitBytes, kind }) =>
        method !== "GET" &&
        body !== undefined &&
        bodyType !== "form" &&
        (bodyLimitBytes ?? SMALL_LIMIT) <= SMALL_LIMIT &&
        /^(?:public|key|model)/.test(kind),
    );
  const send = (route: Route, sent: ApiRequest): Promise<ApiResponse> =>
    call(gateway, `${route.method} ${route.path.replace(/\{\w+\}/, keyId)}`, {
      key: account.key,
      ...sent,
    });

  const MALFORMED: readonly (readonly [string, BodyInit])[] = [
    ["an unclosed object", "{"],
    ["a word", "hello"],
    ["single quotes", "{'name':'x'}"],
    ["a trailing comma", '{"name":"x",}'],
    ["two objects", "{}{}"],
    ["a comment", "{/* */}"],
    ["NaN", '{"limit_usd":NaN}'],
    ["a number with a leading zero", '{"limit_usd":01}'],
    ["a raw line feed in a string", '{"name":"a\nb"}'],
    ["a raw NUL", "\u0000"],
    ["a form", "name=x"],
    ["an invalid escape", String.raw`{"name":"\x41"}`],
    ["60,000 open brackets", "[".repeat(60_000)],
    ["12,000 open braces", '{"a":'.repeat(12_000)],
    ["65 nesting levels", "[".repeat(65) + "]".repeat(65)],
    ["invalid UTF-8", Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
    ["UTF-16", Uint8Array.from([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00])],
    ["a truncated UTF-8 character", Uint8Array.from([0x7b, 0x7d, 0xe2, 0x82])],
    ["an overlong slash", Uint8Array.from([0x22, 0xc0, 0xaf, 0x22])],
  ];
  test.each(casesOn(store, MALFORMED))("malformed body (%s) is a 400", async (_name, raw) => {
    for (const route of writes()) {
      const response = await send(route, { raw, headers: { "content-type": "application/json" } });
      expectStatus(route.id, 400, response);
      expectNoInternals(response);
      description.expectDocumented(route.method, route.path, response);
    }
  });

  testOnce("a body that is not an object is a 400", async () => {
    for (const route of writes())
      for (const body of [[], "text", 7, true, null, [[{}]]]) {
        const response = await send(route, { body });
        expectStatus(route.id, 400, response);
        description.expectDocumented(route.method, route.path, response);
      }
  });

  test("an invalid or missing amount is a 400 that names the field", async () => {
    for (const [line, field, wrong] of [
      ["POST /v1/keys", "limit_usd", [true, [1], {}]],
      ["PATCH /v1/account/budgets", "daily_usd", [true, [1], {}]],
      ["PATCH /v1/account/balance-alert", "low_usd", [undefined, null, true]],
      ["POST /v1/billing/invoice", "amount_usd", [undefined, null, true]],
    ] as const)
      for (const value of wrong) {
        const response = await call(gateway, line, { key: account.key, body: { [field]: value } });
        expectError(response, { status: 400, code: "invalid_request", param: field });
        expect([line, value, textAt(response.body, "error.message")]).toEqual([
          line,
          value,
          expect.stringMatching(new RegExp(`^\`${field}\` must be a US dollar amount, such as`)),
        ]);
      }
  });

  test("an unknown field is a 400, also with names such as __proto__", async () => {
    for (const route of writes())
      for (const raw of [
        '{"unknown_field":1}',
        '{"__proto__":{"name":"x"}}',
        '{"constructor":{"prototype":{"name":"x"}}}',
        '{"toString":1}',
        '{"":1}',
        '{"\\u0000":1}',
      ]) {
        const response = await send(route, { raw });
        expect([route.id, raw, response.status]).toEqual([route.id, raw, 400]);
        expectNoInternals(response);
      }
    expect(({} as { name?: string }).name).toBeUndefined();
  });

  testOnce("a body above the limit is a 413, with content-length and chunked", async () => {
    const large = JSON.stringify({ name: "n".repeat(SMALL_LIMIT) });
    for (const route of gateway.server.routes) {
      if (route.method === "GET" || requiresSession(route)) continue;
      const limit = route.bodyLimitBytes ?? SMALL_LIMIT;
      if (limit > SMALL_LIMIT) continue;
      for (const raw of [large, new Blob([large]).stream()]) {
        const response = await send(route, { raw });
        expectStatus(route.id, 413, response);
        if (route.dialect !== "page")
          description.expectDocumented(route.method, route.path, response);
      }
    }
  });

  testOnce("a body at the limit is accepted", async () => {
    const nameLength = SMALL_LIMIT - '{"name":""}'.length;
    const response = await call(gateway, "POST /v1/keys", {
      key: account.key,
      raw: JSON.stringify({ name: "n".repeat(nameLength) }),
    });
    expectError(response, { status: 400, code: "invalid_request", param: "name" });
  });

  testOnce("an unsupported content type is a 415 that names the supported one", async () => {
    for (const route of writes())
      for (const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "json",
        "",
        "application/json, text/plain",
      ]) {
        const response = await send(route, { raw: "{}", headers: { "content-type": type } });
        // fetch() sets a content type if none is sent.
        expectStatus(route.id, 415, response);
        expect(response.text).toContain("application/json");
        description.expectDocumented(route.method, route.path, response);
      }
  });

  testOnce("content types with parameters, capitals and +json are accepted", async () => {
    for (const type of [
      "application/json",
      "APPLICATION/JSON; charset=UTF-8",
      "application/merge-patch+json",
    ]) {
      const response = await call(gateway, `PATCH /v1/keys/${keyId}`, {
        key: account.key,
        raw: '{"name":"typed"}',
        headers: { "content-type": type },
      });
      expect([type, response.status]).toEqual([type, 200]);
    }
  });

  testOnce("a compressed body is a 415", async () => {
    const response = await call(gateway, "POST /v1/keys", {
      key: account.key,
      raw: Bun.gzipSync(Buffer.from("{}")),
      headers: { "content-encoding": "gzip" },
    });
    expectError(response, {
      status: 415,
      code: "unsupported_media_type",
      param: "content-encoding",
    });
    expectStatus("createKey", 415, response);
  });

  testOnce("a byte-order mark and surrounding whitespace are ignored", async () => {
    for (const raw of ["\ufeff{}", " \r\n\t{} \n"]) {
      const response = await call(gateway, `PATCH /v1/keys/${keyId}`, { key: account.key, raw });
      expect(response.status).toBe(200);
    }
  });

  testOnce("the last of duplicate members is validated and used", async () => {
    const response = await call(gateway, `PATCH /v1/keys/${keyId}`, {
      key: account.key,
      raw: '{"name":7,"name":"last"}',
    });
    expect(response.body["name"]).toBe("last");
  });

  test("a key with a wrong checksum is rejected without a database lookup", async () => {
    const broken = await startGateway({ store });
    const owner = await registerAccount(broken);
    await broken.server.db.write((tx) => tx.run("alter table api_key rename to gone"));
    const last = owner.key.endsWith("0") ? "1" : "0";
    const mistyped = await call(broken, "GET /v1/account", { key: owner.key.slice(0, -1) + last });
    expect(mistyped.status).toBe(401);
    // A key with a valid checksum is looked up in the dropped table.
    expect((await call(broken, "GET /v1/account", { key: owner.key })).status).toBe(500);
    await broken.server.db.write((tx) => tx.run("alter table gone rename to api_key"));
    await broken.stop();
  });

  describe("random input to every endpoint", () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: anyCharacter }),
      fc.constantFrom("day", "2027-01-01T00:00:00Z", "a@example.org", "1.5", "\ud800", "\u0000"),
    );
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 3 },
        text,
        fc.double(),
        fc.integer(),
        fc.constantFrom(null, true, false, -0, 1e21, 2 ** 53),
        fc.array(tie("any"), { maxLength: 3 }),
        fc.dictionary(fc.string(), tie("any"), { maxKeys: 3 }),
      ),
    })).any;
    const body = fc.oneof(
      value,
      fc.record(
        {
          name: value,
          email: value,
          expires_at: value,
          limit_usd: value,
          limit_window: value,
          provider: value,
          api_key: value,
        },
        { requiredKeys: [] },
      ),
    );

    test("bodies: no 500, and every error conforms to /openapi.yaml", async () => {
      for (const route of writes())
        await fc.assert(
          fc.asyncProperty(body, async (sent) => {
            const response = await send(route, { body: sent });
            expectNoInternals(response);
            description.expectDocumented(route.method, route.path, response);
            // An empty body is valid here: a second rotation ends the secret before the first.
            if (route.id === "rotateKey" && response.status === 200)
              account = { ...account, key: textAt(response.body, "api_key") };
          }),
          { numRuns: RUNS },
        );
    });

    test("queries: no 500", async () => {
      const name = fc.oneof(
        fc.constantFrom("limit", "cursor", "from", "to", "model", "key_id", "group_by"),
        fc.string(),
      );
      const query = fc.array(fc.tuple(name, text), { maxLength: 4 });
      for (const line of [
        "/v1/keys",
        "/v1/usage",
        "/v1/usage/summary",
        "/v1/provider-keys",
        "/v1/models",
      ])
        await fc.assert(
          fc.asyncProperty(query, async (pairs) => {
            const wellFormed = pairs.map(([key, value]) => [
              key.toWellFormed(),
              value.toWellFormed(),
            ]);
            const response = await call(
              gateway,
              `GET ${line}?${new URLSearchParams(wellFormed).toString()}`,
              { key: account.key },
            );
            expectNoInternals(response);
            description.expectDocumented("GET", line, response);
          }),
          { numRuns: RUNS },
        );
    });

    test("path parameters: no 500", async () => {
      for (const [method, line, template] of [
        ["GET", "/v1/keys/", "/v1/keys/{id}"],
        ["DELETE", "/v1/keys/", "/v1/keys/{id}"],
        ["GET", "/v1/usage/", "/v1/usage/{id}"],
        ["DELETE", "/v1/provider-keys/", "/v1/provider-keys/{id}"],
      ] as const)
        await fc.assert(
          fc.asyncProperty(fc.string({ unit: anyCharacter, minLength: 1 }), async (id) => {
            const encoded = encodeURIComponent(id.toWellFormed());
            fc.pre(
              encoded !== "." && encoded !== ".." && `${line}${encoded}` !== "/v1/usage/summary",
            );
            const response = await call(gateway, `${method} ${line}${encoded}`, {
              key: account.key,
            });
            expectNoInternals(response);
            description.expectDocumented(method, template, response);
          }),
          { numRuns: RUNS },
        );
    });
  });

  test("nothing was written by the invalid requests", async () => {
    const { body } = await call(gateway, "GET /v1/keys?limit=100", { key: account.key });
    const own = listAt(body, "data").find(({ id }) => id === keyId);
    expect(own).toBeDefined();
    expect(valueAt(own, "revoked_at")).toBeNull();
  });
});
