// The specification of the service, line by line, in its order: each group is a section of it, each test a row or a sentence.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CLIENT, startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import { createHttpBrowser } from "../support/browser/http-browser.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiResponse,
  call,
  chat,
  createFakeClock,
  type Json,
  listAt,
  textAt,
  valueAt,
} from "./api-client.ts";

const GRANT = "urn:postern:agent-auth:grant-type:claim";
const FORM = { "content-type": "application/x-www-form-urlencoded" };
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const HUMAN = "human@example.com";

describe.each(STORE_KINDS)("the specification on %s", (store) => {
  const clock = createFakeClock();
  let issuer: Awaited<ReturnType<typeof startFakeIssuer>>;
  let gateway: Gateway;
  beforeAll(async () => {
    issuer = await startFakeIssuer();
    const env = {
      OIDC_ISSUER: issuer.issuer,
      OIDC_CLIENT_ID: CLIENT.id,
      OIDC_CLIENT_SECRET: CLIENT.secret,
      POSTERN_DOCS_URL: "https://docs.example/manual",
    };
    gateway = await startGateway({ store, env, providers: ["sim", "openai"], now: clock.now });
  });
  afterAll(async () => {
    await gateway.stop();
    await issuer.close();
  });

  const register = async (): Promise<string> => (await registerAccount(gateway)).key;
  const get = (path: string, key: string): Promise<ApiResponse> =>
    call(gateway, `GET ${path}`, { key });
  const creditsOf = async (key: string): Promise<number> =>
    Number(valueAt((await get("/v1/account", key)).body, "balance.credits"));
  const startClaim = (key: string, email = HUMAN): Promise<ApiResponse> =>
    call(gateway, "POST /agent/identity/claim", { key, body: { email } });
  const poll = (key: string, grant = GRANT): Promise<ApiResponse> =>
    call(gateway, "POST /oauth2/token", { key, headers: FORM, raw: `grant_type=${grant}` });
  /** A person opens the link, signs in with this verified email, and confirms. Returns the last page. */
  const confirm = async (started: ApiResponse, email = HUMAN): Promise<string> => {
    issuer.overrides = { claims: { email, sub: email } };
    const browser = createHttpBrowser();
    await browser.visit(textAt(started.body, "claim_attempt.verification_uri_complete"));
    const review = await browser.visit(`${gateway.url}/signin?return_to=%2Fclaim`);
    if (!review.text.includes('name="decision"')) return review.text;
    return (await browser.submit(review, { decision: "confirm" })).text;
  };
  const claim = async (key: string, email = HUMAN): Promise<string> =>
    await confirm(await startClaim(key, email), email);
  const changeAttempt = (id: string, change: string): Promise<unknown> =>
    gateway.server.db.write((tx) =>
      tx.run(`update claim_attempt set ${change} where id = ?`, [id]),
    );
  const routeOf = (line: string) =>
    gateway.server.routes.find(({ method, path }) => `${method} ${path}` === line);

  describe("What the service does", () => {
    test("clients send Chat Completions, Responses and Messages", async () => {
      const key = await register();
      const messages = [{ role: "user", content: "hello" }];
      const bodies = {
        "/v1/chat/completions": { messages, max_tokens: 20 },
        "/v1/responses": { input: "hello", max_output_tokens: 20 },
        "/v1/messages": { messages, max_tokens: 20 },
      };
      for (const [path, fields] of Object.entries(bodies)) {
        const body = { model: "sim/echo", ...fields };
        const reply = await call(gateway, `POST ${path}`, { key, body });
        expect([path, reply.status]).toEqual([path, 200]);
        expect(reply.text).toContain("You said: hello");
      }
    });

    test("a purchase of 10 USD adds 10 USD to the balance and charges a fee of 0.50 USD, 10.50 USD before tax", async () => {
      const key = await register();
      const body = { amount_usd: 10 };
      const invoice = await call(gateway, "POST /v1/billing/invoice", { key, body });
      expect(invoice.body).toMatchObject({
        amount_usd: 10,
        credits: 10_000_000,
        fee_usd: 0.5,
        total_usd: 10.5,
      });
    });

    test("an agent registers without authentication and gets an account, a key and a balance", async () => {
      const { status, body } = await call(gateway, "POST /v1/accounts", { body: {} });
      expect(status).toBe(201);
      expect(body).toMatchObject({
        account: { id: expect.stringMatching(/^acct_/) },
        api_key: expect.any(String),
        balance: { credits: 50_000 },
      });
    });

    test.each([
      "/llms.txt",
      "/openapi.yaml",
      "/auth.md",
      "/.well-known/auth.md",
      "/.well-known/oauth-protected-resource",
    ])("the discovery address %s", async (path) => {
      expect((await call(gateway, `GET ${path}`)).status).toBe(200);
    });

    test("human docs are at the operator's address", async () => {
      expect((await call(gateway, "GET /llms.txt")).text).toContain("https://docs.example/manual");
    });

    test("the token endpoint supports only the claim grant", async () => {
      const key = await register();
      for (const grant of [
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "client_credentials",
      ]) {
        const refused = await poll(key, grant);
        expect([grant, refused.status, refused.body["error"]]).toEqual([
          grant,
          400,
          "unsupported_grant_type",
        ]);
      }
    });

    test.each(["/oauth2/revoke", "/oauth2/introspect", "/agent/identity"])(
      "there is no endpoint %s",
      async (path) => {
        expect((await call(gateway, `POST ${path}`, { body: {} })).status).toBe(404);
      },
    );
  });

  describe("Resources and their fields", () => {
    test("Account: id begins with acct_, email is optional, created_at is a timestamp", async () => {
      const without = await call(gateway, "POST /v1/accounts", { body: {} });
      const body = { email: HUMAN };
      const withEmail = await call(gateway, "POST /v1/accounts", { body });
      for (const { body: created } of [without, withEmail]) {
        expect(textAt(created, "account.id")).toStartWith("acct_");
        expect(textAt(created, "account.created_at")).toMatch(TIMESTAMP);
      }
      expect(textAt(withEmail.body, "account.email")).toBe(HUMAN);
    });

    test("Balance: 50000 credits equal 0.05 USD", async () => {
      const { body } = await get("/v1/account", await register());
      expect(body["balance"]).toMatchObject({ credits: 50_000, usd: 0.05 });
    });

    test("Gateway API key: a prefix, then rt-, then a secret; returned once; only a hash is stored", async () => {
      const key = await register();
      expect(key).toMatch(/^[a-z]+-rt-\w+$/);
      const listed = await get("/v1/keys", key);
      expect(listed.text).not.toContain(key);
      const secret = key.split("-rt-")[1] ?? "";
      const rows = await gateway.server.db.all("select * from api_key", []);
      const stored = JSON.stringify(rows, (_name, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      );
      expect(stored).not.toContain(secret);
    });

    test("Gateway API key: can be listed, renamed, revoked", async () => {
      const key = await register();
      const created = await call(gateway, "POST /v1/keys", { key, body: { name: "first" } });
      const id = textAt(created.body, "id");
      const body = { name: "second" };
      expect((await call(gateway, `PATCH /v1/keys/${id}`, { key, body })).body).toMatchObject(body);
      const ids = listAt((await get("/v1/keys", key)).body, "data").map((one) => one["id"]);
      expect(ids).toContain(id);
      expect((await call(gateway, `DELETE /v1/keys/${id}`, { key })).status).toBe(200);
    });

    test("Claim attempt: each field", async () => {
      const { body } = await startClaim(await register());
      const code = textAt(body, "claim_attempt.user_code");
      const page = textAt(body, "claim_attempt.verification_uri");
      const complete = new URL(textAt(body, "claim_attempt.verification_uri_complete"));
      expect(body).toMatchObject({
        claim_attempt_id: expect.stringMatching(/^claim_/),
        status: "initiated",
        expires_at: expect.stringMatching(TIMESTAMP),
        claim_attempt: {
          user_code: expect.stringMatching(/^\d{6}$/),
          expires_in: 900,
          interval: 5,
          verification_uri: `${gateway.url}/claim`,
        },
      });
      expect(complete.origin + complete.pathname).toBe(page);
      expect(complete.searchParams.get("token")).toMatch(/^\w{40,}$/);
      expect(complete.searchParams.get("user_code")).toBe(code);
    });

    test("Workspace: owned by the claimer on the first claim; the roles owner and developer", async () => {
      const key = await register();
      await claim(key, "first@example.com");
      await claim(key, "second@example.com");
      expect(valueAt((await get("/v1/account", key)).body, "members")).toMatchObject([
        { email: "first@example.com", role: "owner" },
        { email: "second@example.com", role: "developer" },
      ]);
    });
  });

  describe("States and transitions", () => {
    test("(none) → account exists, agent-created, unclaimed", async () => {
      const { body } = await get("/v1/account", await register());
      expect(body["account"]).toMatchObject({ origin: "agent", claimed_at: null });
    });

    test("agent-created account → claim attempt initiated, which expires after 900 seconds", async () => {
      const { body } = await startClaim(await register());
      expect(body["status"]).toBe("initiated");
      const lifetime = Date.parse(textAt(body, "expires_at")) - clock.now();
      expect(lifetime).toBe(900_000);
    });

    test("initiated → initiated while the human has not finished: authorization_pending", async () => {
      const key = await register();
      await startClaim(key);
      expect((await poll(key)).body["error"]).toBe("authorization_pending");
      clock.advance(5_000);
      expect((await poll(key)).body["error"]).toBe("authorization_pending");
    });

    test("initiated → claimed: a workspace owned by the claimer, keys and balance intact, 1 USD once per human", async () => {
      const email = `once-${store}@example.com`;
      const key = await register();
      expect(await claim(key, email)).toContain("The account is yours");
      const polled = await poll(key);
      expect([polled.status, polled.body["status"]]).toEqual([200, "claimed"]);
      expect(textAt(polled.body, "account.id")).toStartWith("acct_");
      expect(await creditsOf(key)).toBe(1_050_000);
      expect((await chat(gateway, key)).status).toBe(200);
      const second = await register();
      await claim(second, email);
      expect(await creditsOf(second)).toBe(50_000);
    });

    test("initiated → expired: expired_token; a new claim starts again", async () => {
      const key = await register();
      const { body } = await startClaim(key);
      await changeAttempt(textAt(body, "claim_attempt_id"), "expires_at = 1");
      expect((await poll(key)).body["error"]).toBe("expired_token");
      expect((await startClaim(key)).status).toBe(200);
      expect((await poll(key)).body["error"]).toBe("authorization_pending");
    });

    test("→ denied if someone else has claimed the account: access_denied", async () => {
      const key = await register();
      const late = await startClaim(key, "late@example.com");
      await claim(key, "earlier@example.com");
      const raw = new URLSearchParams({
        grant_type: GRANT,
        claim_attempt_id: textAt(late.body, "claim_attempt_id"),
      }).toString();
      const polled = await call(gateway, "POST /oauth2/token", { key, headers: FORM, raw });
      expect(polled.body["error"]).toBe("access_denied");
    });

    test("claimed account → unchanged: the other person joins as developer, the agent's key keeps working", async () => {
      const key = await register();
      await claim(key, "owner@example.com");
      const before = await creditsOf(key);
      expect(await claim(key, "other@example.com")).toContain("You have joined the workspace");
      expect((await poll(key)).body["status"]).toBe("claimed");
      expect(await creditsOf(key)).toBe(before);
      expect((await chat(gateway, key)).status).toBe(200);
    });

    test("key active → revoked: 401", async () => {
      const key = await register();
      const created = await call(gateway, "POST /v1/keys", { key, body: {} });
      await call(gateway, `DELETE /v1/keys/${textAt(created.body, "id")}`, { key });
      const revoked = textAt(created.body, "api_key");
      expect((await get("/v1/account", revoked)).status).toBe(401);
    });

    test("nothing is merged: a second account is an additional workspace", async () => {
      const email = "twice@example.com";
      const [first, second] = [await register(), await register()];
      await claim(first, email);
      await claim(second, email);
      const idOf = async (key: string): Promise<string> =>
        textAt((await get("/v1/account", key)).body, "account.id");
      expect(await idOf(first)).not.toBe(await idOf(second));
      issuer.overrides = { claims: { email, sub: email } };
      const console = await createHttpBrowser().visit(`${gateway.url}/signin?return_to=%2Fconsole`);
      expect(console.text).toContain(await idOf(first));
      expect(console.text).toContain(await idOf(second));
    });
  });

  describe("Endpoints", () => {
    test.each([
      ["POST /v1/accounts", "none"],
      ["GET /v1/models", "none"],
      ["POST /v1/chat/completions", "bearer"],
      ["POST /v1/responses", "bearer"],
      ["POST /v1/messages", "bearer"],
      ["GET /v1/account", "bearer"],
      ["POST /v1/keys", "bearer"],
      ["GET /v1/keys", "bearer"],
      ["PATCH /v1/keys/{id}", "bearer"],
      ["DELETE /v1/keys/{id}", "bearer"],
      ["GET /v1/usage", "bearer"],
      ["POST /v1/billing/invoice", "bearer"],
      ["POST /v1/provider-keys", "bearer"],
      ["POST /agent/identity/claim", "bearer"],
      ["POST /oauth2/token", "bearer"],
    ] as const)("%s with auth %s", async (line, auth) => {
      expect(routeOf(line)).toBeDefined();
      const path = line.replace("{id}", "key_none");
      const sent = path.startsWith("GET") || path.startsWith("DELETE") ? {} : { body: {} };
      const { status } = await call(gateway, path, sent);
      expect(status === 401).toBe(auth === "bearer");
    });

    test("POST /v1/chat/completions: the reply text is at choices[0].message.content", async () => {
      const { body } = await chat(gateway, await register());
      expect(textAt(body, "choices.0.message.content")).toContain("You said: hello");
    });

    test("POST /agent/identity/claim answers 200, and the code can be shown separately", async () => {
      const started = await startClaim(await register());
      expect(started.status).toBe(200);
      expect(textAt(started.body, "claim_attempt.user_code")).toHaveLength(6);
    });

    test("POST /v1/provider-keys adds the caller's own key", async () => {
      const key = await register();
      const body = { provider: "openai", api_key: "sk-of-the-caller" };
      const added = await call(gateway, "POST /v1/provider-keys", { key, body });
      expect(added.status).toBe(201);
      expect(added.text).not.toContain("sk-of-the-caller");
    });
  });

  describe("Authentication", () => {
    test("1, 3. a key is sent as a bearer token; more keys come from POST /v1/keys", async () => {
      const created = await call(gateway, "POST /v1/keys", { key: await register(), body: {} });
      expect(created.status).toBe(201);
      expect((await get("/v1/account", textAt(created.body, "api_key"))).status).toBe(200);
    });

    test("2. POST /v1/accounts and GET /v1/models need none", async () => {
      expect((await call(gateway, "POST /v1/accounts")).status).toBe(201);
      expect((await call(gateway, "GET /v1/models?limit=1")).status).toBe(200);
    });

    test("4. a 401 names the protected-resource metadata", async () => {
      const { headers } = await call(gateway, "GET /v1/account");
      expect(headers.get("www-authenticate")).toBe(
        `Bearer resource_metadata="${gateway.url}/.well-known/oauth-protected-resource"`,
      );
    });

    test("5. the claim and token endpoints take the agent's key", async () => {
      for (const line of ["POST /agent/identity/claim", "POST /oauth2/token"])
        expect([line, (await call(gateway, line, { body: {} })).status]).toEqual([line, 401]);
    });

    test("6. only the supplied email claims, and a code alone does not", async () => {
      const key = await register();
      const started = await startClaim(key, "named@example.com");
      expect(await confirm(started, "thief@example.com")).toContain("This is for another account");
      expect((await poll(key)).body["error"]).toBe("authorization_pending");
    });

    test("7. an agent needs no browser to register and make its first call", async () => {
      expect((await chat(gateway, await register())).status).toBe(200);
    });

    test("8. a key that is missing, invalid or revoked yields 401", async () => {
      for (const headers of [{}, { authorization: "Bearer pst-rt-nothing" }])
        expect((await call(gateway, "GET /v1/account", { headers })).status).toBe(401);
    });
  });

  describe("Errors", () => {
    test("402: the balance is empty; top up via billing", async () => {
      const key = await register();
      const empty = await chat(gateway, key, { max_tokens: 16_000, n: 8 });
      expect(empty.status).toBe(402);
      expect(valueAt(empty.body, "error.next.0.url")).toBe("/v1/billing/invoice");
    });

    test("404 on a model call: the model id is unknown; use an id from GET /v1/models", async () => {
      const unknown = await chat(gateway, await register(), { model: "sim/unknown" });
      expect(unknown.status).toBe(404);
      expect(valueAt(unknown.body, "error.next.0.url")).toBe("/v1/models");
    });

    test("503 with code provider_not_configured; retrying does not help", async () => {
      const models = listAt((await call(gateway, "GET /v1/models?available=false")).body, "data");
      const off = models.find(({ available }) => available === false);
      const refused = await chat(gateway, await register(), { model: off?.["id"] });
      expect([refused.status, valueAt(refused.body, "error.code")]).toEqual([
        503,
        "provider_not_configured",
      ]);
      expect(refused.headers.get("x-should-retry")).toBe("false");
    });
  });

  describe("Limits", () => {
    test("no usage markup: a call costs its tokens at the listed prices", async () => {
      const key = await register();
      const { headers } = await chat(gateway, key);
      const id = headers.get("x-request-id") ?? "";
      const record = (await get(`/v1/usage/${id}`, key)).body;
      const sum = listAt(record, "price").reduce(
        (total, { count, usd }) => total + Number(count) * Number(usd),
        0,
      );
      expect(Number(record["cost_usd"])).toBeCloseTo(sum, 8);
      expect(sum).toBeGreaterThan(0);
    });
  });

  describe("Versioning", () => {
    test("claim and token endpoints carry no version prefix; the others live under /v1", async () => {
      const spec = Bun.YAML.parse((await call(gateway, "GET /openapi.yaml")).text) as Json;
      const paths = Object.keys(valueAt(spec, "paths") as Json);
      for (const path of [
        "/agent/identity/claim",
        "/oauth2/token",
        "/v1/usage",
        "/v1/provider-keys",
      ])
        expect(paths).toContain(path);
    });
  });
});
