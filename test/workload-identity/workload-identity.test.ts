// Tokens of an OpenID Connect issuer as bearers of a key, on both stores: an issuer of this test, which also signs what it must
// not, and a real provider.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import * as fc from "fast-check";
import * as jose from "jose";
import { Provider } from "oidc-provider";
import { toCredentialSettings } from "../../src/keys/key-credential.ts";
import { call, textAt, valueAt } from "../spec/api-client.ts";
import { testOn } from "../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const CHAT = { model: "sim/echo", max_tokens: 8, messages: [{ role: "user", content: "Hi" }] };
const SUBJECT = "repo:acme/app:ref:refs/heads/main";

interface TestIssuer {
  readonly url: string;
  readonly requests: string[];
  /** What the discovery document says; its own URL by default. */
  named: string | undefined;
  jwksUrl: string | undefined;
  keys: readonly jose.JWK[];
  status: number;
  readonly stop: () => Promise<void>;
}

function startIssuer(): TestIssuer {
  const requests: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => {
      const { pathname } = new URL(url);
      requests.push(pathname);
      const body =
        pathname === "/jwks"
          ? { keys: issuer.keys }
          : {
              issuer: issuer.named ?? issuer.url,
              jwks_uri: issuer.jwksUrl ?? `${issuer.url}/jwks`,
            };
      return Response.json(body, { status: issuer.status });
    },
  });
  const issuer: TestIssuer = {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    named: undefined,
    jwksUrl: undefined,
    keys: [],
    status: 200,
    stop: () => server.stop(true),
  };
  return issuer;
}

async function newKeyPair(alg = "RS256", kid = "one") {
  const { privateKey, publicKey } = await jose.generateKeyPair(alg, { extractable: true });
  return { privateKey, jwk: { ...(await jose.exportJWK(publicKey)), kid, alg } };
}

describe.each(STORE_KINDS)("a token of an issuer on %s", (store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let account: TestAccount;
  let issuer: TestIssuer;
  let pair: Awaited<ReturnType<typeof newKeyPair>>;
  let clock = Date.now();

  beforeAll(async () => {
    gateway = await startGateway({ store, now: () => clock });
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    clock += 3_600_000;
    account = await registerAccount(gateway);
    issuer = startIssuer();
    pair = await newKeyPair();
    issuer.keys = [pair.jwk];
  });
  afterEach(() => issuer.stop());

  const seconds = () => Math.floor(clock / 1_000);
  const createKey = (credential: object, settings: object = {}) =>
    call(gateway, "POST /v1/keys", {
      key: account.key,
      body: {
        name: "ci",
        limit_usd: 0.01,
        ...settings,
        credential: { type: "oidc", issuer: issuer.url, ...credential },
      },
    });
  async function keyFor(credential: object = {}, settings: object = {}) {
    const created = await createKey({ subject: SUBJECT, ...credential }, settings);
    expect([created.status, valueAt(created.body, "api_key")]).toEqual([201, null]);
    return {
      id: textAt(created.body, "id"),
      audience: textAt(created.body, "credential.audience"),
    };
  }
  const tokenOf = (
    audience: string,
    claims: Readonly<Record<string, unknown>> = {},
    header: object = {},
    key: Parameters<jose.SignJWT["sign"]>[0] = pair.privateKey,
  ) =>
    new jose.SignJWT({
      iss: issuer.url,
      sub: SUBJECT,
      aud: audience,
      iat: seconds(),
      nbf: seconds(),
      exp: seconds() + 300,
      ...claims,
    })
      .setProtectedHeader({ alg: "RS256", kid: "one", typ: "JWT", ...header })
      .sign(key);
  const self = (token: string) => call(gateway, "GET /v1/keys/self", { key: token });

  test("is a bearer of the key, with its limit, at every API", async () => {
    const { id, audience } = await keyFor();
    expect(audience).toBe(`${gateway.url}/v1/keys/${id}`);
    const token = await tokenOf(audience);
    expect(valueAt((await self(token)).body, "id")).toBe(id);
    // The name by which the key was found, and is cached now, is no secret.
    expect((await self(`audience:${audience}`)).status).toBe(401);
    const chat = await call(gateway, "POST /v1/chat/completions", { key: token, body: CHAT });
    const messages = await call(gateway, "POST /v1/messages", { key: token, body: CHAT });
    const tool = await call(gateway, "POST /mcp", {
      key: token,
      headers: { accept: "application/json, text/event-stream" },
      body: {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "get_balance", arguments: {} },
      },
    });
    expect([chat.status, messages.status, tool.status]).toEqual([200, 200, 200]);
    const dear = await call(gateway, "POST /v1/chat/completions", {
      key: token,
      headers: { "x-postern-hold": "full" },
      body: { ...CHAT, max_tokens: 100_000 },
    });
    expect(dear.status).toBe(403);
    expect(issuer.requests).toEqual(["/.well-known/openid-configuration", "/jwks"]);
    const listed = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
    expect(valueAt(listed.body, "spent_usd")).toBeGreaterThan(0);
  });

  test("makes nothing that outlives it: no key, no secret, no claim", async () => {
    const { id, audience } = await keyFor();
    const token = await tokenOf(audience);
    const act = (route: `${"GET" | "POST" | "PATCH" | "DELETE"} /${string}`, body?: unknown) =>
      call(gateway, route, { key: token, ...(body === undefined ? {} : { body }) });
    const tries = [
      await act("POST /v1/keys", { limit_usd: 0.001 }),
      await act(`POST /v1/keys/${id}/rotate`, {}),
      await act("POST /v1/keys/self/rotate", {}),
      await act(`PATCH /v1/keys/${id}`, { expires_at: null }),
      await act("POST /agent/identity/claim", { email: "attacker@example.com" }),
    ];
    expect(tries.map(({ status }) => status)).toEqual(tries.map(() => 403));
    const free = await keyFor({}, { limit_usd: null });
    const freeToken = await tokenOf(free.audience);
    for (const route of ["POST /v1/keys", "POST /agent/identity/claim"] as const)
      expect((await call(gateway, route, { key: freeToken, body: {} })).status).toBe(403);
    expect((await call(gateway, "GET /v1/keys", { key: freeToken })).status).toBe(200);
    const listed = await createKey({ subject: "repo:acme/app:x" }, { scopes: ["keys:write"] });
    expect([listed.status, valueAt(listed.body, "error.param")]).toEqual([400, "scopes"]);
    // Its own account, which is paid by none of its credits.
    expect((await call(gateway, "POST /v1/accounts", { key: token, body: {} })).status).toBe(201);
  });

  test("ends with the key, and with its own time", async () => {
    const { id, audience } = await keyFor();
    const token = await tokenOf(audience);
    expect((await self(token)).status).toBe(200);
    clock += 361_000;
    const late = await self(token);
    expect([late.status, JSON.stringify(late.body)]).toEqual([
      401,
      expect.stringContaining("has expired"),
    ]);
    const fresh = await tokenOf(audience);
    expect((await self(fresh)).status).toBe(200);
    await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key });
    expect((await self(fresh)).status).toBe(401);
    const rotated = await call(gateway, `POST /v1/keys/${id}/rotate`, {
      key: account.key,
      body: {},
    });
    expect(rotated.status).toBe(409);
  });

  testOnce(
    "is refused with another audience, issuer, subject, claim, time or lifetime",
    async () => {
      const { audience } = await keyFor({ claims: { environment: "production" } });
      const other = await keyFor({ subject: "repo:other/app:*" });
      const environment = { environment: "production" };
      const now = seconds();
      const refusals: readonly (readonly [Record<string, unknown>, string])[] = [
        [{ ...environment, aud: "https://elsewhere.example" }, "`aud`"],
        [{ ...environment, aud: [audience, "https://elsewhere.example"] }, "`aud`"],
        [{ ...environment, aud: `${gateway.url}/v1/keys/key_unknown` }, "`aud`"],
        [{ ...environment, aud: undefined }, "`aud`"],
        [{ ...environment, aud: other.audience }, "does not match the `subject`"],
        [{ ...environment, iss: "https://issuer.example" }, "`iss`"],
        [
          { ...environment, sub: "repo:acme/app:ref:refs/heads/other" },
          "does not match the `subject`",
        ],
        [{ ...environment, sub: SUBJECT.toUpperCase() }, "does not match the `subject`"],
        [{ ...environment, sub: undefined }, "missing"],
        [{}, "`environment`"],
        [{ environment: "staging" }, "`environment`"],
        [{ environment: ["production"] }, "`environment`"],
        [{ ...environment, exp: now - 61 }, "has expired"],
        [{ ...environment, nbf: now + 120 }, "`nbf`"],
        [{ ...environment, iat: now + 120, exp: now + 300 }, "issued in the future"],
        [{ ...environment, exp: now + 86_401 }, "more than a day"],
        [{ ...environment, exp: undefined }, "`exp`"],
        [{ ...environment, iat: undefined }, "`iat`"],
      ];
      for (const [claims, reason] of refusals) {
        const { status, body } = await self(await tokenOf(audience, claims));
        expect([reason, status, JSON.stringify(body)]).toEqual([
          reason,
          401,
          expect.stringContaining(reason),
        ]);
      }
      expect((await self(await tokenOf(audience, environment))).status).toBe(200);
    },
  );

  testOnce(
    "is refused if the algorithm is confused or the signature is of another key",
    async () => {
      const { audience } = await keyFor();
      const other = await newKeyPair();
      const publicText = new TextEncoder().encode(
        await jose.exportSPKI((await jose.importJWK(pair.jwk, "RS256")) as CryptoKey),
      );
      const ec = await newKeyPair("ES256", "ec");
      issuer.keys = [
        pair.jwk,
        ec.jwk,
        { kty: "oct", kid: "oct", k: "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" },
      ];
      const good = await tokenOf(audience);
      const [head = "", body = "", signature = ""] = good.split(".");
      const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
      const forged = [
        await tokenOf(audience, {}, {}, other.privateKey),
        await tokenOf(audience, {}, { alg: "HS256" }, publicText),
        await tokenOf(
          audience,
          {},
          { alg: "HS256", kid: "oct" },
          Buffer.from("secretsecretsecretsecretsecret"),
        ),
        await tokenOf(audience, {}, { alg: "ES256", kid: "one" }, ec.privateKey),
        await tokenOf(audience, {}, { kid: "unknown" }),
        await tokenOf(audience, {}, { jwk: other.jwk, kid: undefined }, other.privateKey),
        `${encode({ alg: "none" })}.${body}.`,
        `${encode({ alg: "none", kid: "one" })}.${body}.${signature}`,
        `${head}.${encode({ ...jose.decodeJwt(good), sub: "repo:evil/app" })}.${signature}`,
        `${head}.${body}`,
        `${good}.x`,
        `eyJ.eyJ.x`,
      ];
      for (const token of forged) expect([token, (await self(token)).status]).toEqual([token, 401]);
      expect((await self(good)).status).toBe(200);
      expect(
        (await self(await tokenOf(audience, {}, { alg: "ES256", kid: "ec" }, ec.privateKey)))
          .status,
      ).toBe(200);
    },
  );

  testOnce(
    "an issuer that names another one, redirects or fails authenticates nothing",
    async () => {
      const { audience } = await keyFor();
      issuer.named = "https://issuer.example";
      const token = await tokenOf(audience);
      expect((await self(token)).status).toBe(401);
      const tried = issuer.requests.length;
      for (let each = 0; each < 5; each++) expect((await self(token)).status).toBe(401);
      expect(issuer.requests).toHaveLength(tried);
      clock += 61_000;
      issuer.named = undefined;
      for (const jwksUrl of [
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "http://10.0.0.1/jwks",
      ]) {
        issuer.jwksUrl = jwksUrl;
        expect((await self(token)).status).toBe(401);
        clock += 61_000;
      }
      issuer.jwksUrl = undefined;
      expect((await self(await tokenOf(audience))).status).toBe(200);
    },
  );

  test("a new key of the issuer is read at once, and its failure tolerated for a day", async () => {
    const { audience } = await keyFor();
    expect((await self(await tokenOf(audience))).status).toBe(200);
    clock += 61_000;
    const next = await newKeyPair("RS256", "two");
    issuer.keys = [pair.jwk, next.jwk];
    expect((await self(await tokenOf(audience, {}, { kid: "two" }, next.privateKey))).status).toBe(
      200,
    );
    issuer.status = 500;
    clock += 12 * 3_600_000;
    expect((await self(await tokenOf(audience))).status).toBe(200);
    clock += 13 * 3_600_000;
    expect((await self(await tokenOf(audience))).status).toBe(401);
  });

  test("a key that the issuer withdrew verifies nothing after an hour", async () => {
    const { audience } = await keyFor();
    const tokenNow = () => tokenOf(audience);
    expect((await self(await tokenNow())).status).toBe(200);
    const stolen = pair.privateKey;
    issuer.keys = [(await newKeyPair()).jwk].map((jwk) => ({ ...jwk, kid: "two" }));
    clock += 59 * 60_000;
    expect((await self(await tokenNow())).status).toBe(200);
    clock += 2 * 60_000;
    expect((await self(await tokenOf(audience, {}, {}, stolen))).status).toBe(401);
    expect((await self(await tokenOf(audience, {}, { kid: undefined }, stolen))).status).toBe(401);
  });

  test("an issuer that no key names gets no request", async () => {
    const elsewhere = startIssuer();
    elsewhere.keys = [pair.jwk];
    const { audience } = await keyFor();
    const token = await tokenOf(audience, { iss: elsewhere.url });
    expect((await self(token)).status).toBe(401);
    expect(elsewhere.requests).toEqual([]);
    await elsewhere.stop();
  });

  test("rules that others could meet are refused", async () => {
    for (const subject of [
      "*",
      "repo:*",
      "repo:acme*",
      "re*",
      "repo:*:main",
      "repo:acme/*x",
      ":*",
    ]) {
      const reply = await createKey({ subject });
      expect([subject, reply.status]).toEqual([subject, 400]);
    }
    for (const credential of [
      {
        subject: "repo:acme/app:*",
        claims: Object.fromEntries("abcdef".split("").map((name) => [name, "1"])),
      },
      { subject: "a\u0000b" },
      { issuer: "no url", subject: SUBJECT },
    ])
      expect((await createKey(credential)).status).toBe(400);
    const first = await call(gateway, "POST /v1/accounts", {
      body: { credential: { type: "oidc", issuer: issuer.url, subject: SUBJECT } },
    });
    expect(first.status).toBe(400);
  });

  testOnce("a real provider's access token calls a model", async () => {
    const server = createHttpServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    // Safe because a listening TCP server has such an address.
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const signing = await newKeyPair();
    const provider = new Provider(url, {
      jwks: { keys: [{ ...(await jose.exportJWK(signing.privateKey)), kid: "one", alg: "RS256" }] },
      clients: [
        {
          client_id: "ci:job",
          client_secret: "not a secret of the gateway",
          grant_types: ["client_credentials"],
          redirect_uris: [],
          response_types: [],
        },
      ],
      features: {
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_context, resource) => ({
            scope: "",
            audience: resource,
            accessTokenFormat: "jwt",
            jwt: { sign: { alg: "RS256" } },
          }),
        },
      },
    });
    server.on("request", provider.callback());
    clock = Date.now();
    const { audience } = await keyFor({ issuer: url, subject: "ci:job" });
    const reply = await fetch(`${url}/token`, {
      method: "POST",
      headers: { authorization: `Basic ${btoa("ci%3Ajob:not+a+secret+of+the+gateway")}` },
      body: new URLSearchParams({ grant_type: "client_credentials", resource: audience }),
    });
    const { access_token: token } = (await reply.json()) as { access_token: string };
    const chat = await call(gateway, "POST /v1/chat/completions", { key: token, body: CHAT });
    expect(chat.status).toBe(200);
    server.closeAllConnections();
    server.close();
  });
});

test("a subject matches itself, or what begins with all before its asterisk", () => {
  const part = fc.stringMatching(/^[a-zA-Z0-9_.-]{1,8}$/);
  fc.assert(
    fc.property(part, part, (first, second) => {
      const credential = {
        type: "oidc",
        issuer: "https://issuer.example",
        subject: `${first}:${second}:*`,
      } as const;
      expect(toCredentialSettings(credential)).toMatchObject({ subject: `${first}:${second}:*` });
      for (const subject of [`${first}:*`, `${first}:${second}*`, `${first}*`])
        expect(() => toCredentialSettings({ ...credential, subject })).toThrow();
    }),
  );
});

test("examples/workload-identity.ts calls a model with a token of its own issuer", async () => {
  const gateway = await startGateway();
  const { key } = await registerAccount(gateway);
  const example = path.join(import.meta.dir, "../../examples/workload-identity.ts");
  const run = Bun.spawn([process.execPath, example, gateway.url, "sim/echo"], {
    env: { ...process.env, POSTERN_API_KEY: key },
    stderr: "pipe",
  });
  const output = await new Response(run.stdout).text();
  expect([await run.exited, output]).toEqual([0, expect.stringContaining("the job has no secret")]);
  await gateway.stop();
});
