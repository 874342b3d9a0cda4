// A whole claim over real ports: an agent with an OAuth library, the development identity provider and a human with a
// browser. Then the same with a configured external identity provider.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import * as oauth from "oauth4webapi";
import { secret } from "../../src/base/crypto/secret.ts";
import { listen, type Listener } from "../../src/http/listen.ts";
import { type DevIdentity, startDevIdentity } from "../../src/people/dev-identity.ts";
import { CLIENT, startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import {
  createHttpBrowser,
  type HttpBrowser,
  type HttpPage,
} from "../support/browser/http-browser.ts";
import { openStore } from "../support/stores/stores.ts";
import { createHarness, GRANT, readJson, type StartResponse, type Harness } from "./harness.ts";

let listener: Listener;
let devIdentity: DevIdentity | undefined;
let printedLines: string[];
let base: string;

const store = await openStore("sqlite");
const fake = await startFakeIssuer();
afterAll(async () => {
  await fake.close();
  await store.close();
});
beforeEach(() => {
  printedLines = [];
  let harness: Harness | undefined;
  listener = listen({ host: "127.0.0.1", port: 0 }, (request, peer) => {
    harness ??= createHarness(store.db, { baseUrl: base, clock: Date.now, identity: identity() });
    return harness.handle(request, peer.address());
  });
  base = `http://127.0.0.1:${listener.port}`;
});
afterEach(async () => {
  await listener.stop(true);
  await devIdentity?.close();
  devIdentity = undefined;
});

function identity() {
  return (
    devIdentity?.settings ?? {
      issuer: fake.issuer,
      clientId: CLIENT.id,
      clientSecret: secret(CLIENT.secret),
      allowedTenants: [],
    }
  );
}

async function startDevIdentityProvider(): Promise<void> {
  devIdentity = await startDevIdentity({
    baseUrl: base,
    port: 0,
    print: (line) => printedLines.push(line),
  });
}

async function createAccount(): Promise<{ key: string; id: string }> {
  const response = await fetch(`${base}/v1/accounts`, { method: "POST" });
  const { api_key: key, account } = await readJson<{ api_key: string; account: { id: string } }>(
    response,
  );
  return { key, id: account.id };
}

async function startClaim(key: string, email: string): Promise<StartResponse> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${base}/agent/identity/claim`, {
    method: "POST",
    headers,
    body: JSON.stringify({ email }),
  });
  return await readJson<StartResponse>(response);
}

/** Polls with a generic OAuth library, which throws its own errors. */
async function poll(key: string, grant = GRANT): Promise<Record<string, unknown>> {
  const server = { issuer: base, token_endpoint: `${base}/oauth2/token` };
  const client = { client_id: "an agent" };
  const bearer: oauth.ClientAuth = (_server, _client, _body, headers) => {
    headers.set("authorization", `Bearer ${key}`);
  };
  const response = await oauth.genericTokenEndpointRequest(
    server,
    client,
    bearer,
    grant,
    {},
    {
      [oauth.allowInsecureRequests]: true,
    },
  );
  if (response.status === 200) return await readJson<Record<string, unknown>>(response);
  await oauth.processGenericTokenEndpointResponse(server, client, response);
  throw new Error("the library accepted an error response");
}

async function rejection(work: Promise<unknown>): Promise<unknown> {
  try {
    return await work;
  } catch (error) {
    return error;
  }
}

async function signInAtDev(browser: HttpBrowser, page: HttpPage, email: string): Promise<HttpPage> {
  const asked = await browser.submit(page, { email });
  const code = printedLines.at(-1)?.slice(-6) ?? "";
  return browser.submit(asked, { code });
}

function titleOf(page: HttpPage): string {
  return /<h1>(.*?)<\/h1>/s.exec(page.text)?.[1] ?? page.text.slice(0, 200);
}

describe("with the development identity provider", () => {
  test("claims an account, from registration to the poll that returns claimed", async () => {
    await startDevIdentityProvider();
    const email = "you@example.com";
    const { key, id } = await createAccount();
    const start = await startClaim(key, email);
    const pending = await rejection(poll(key));
    expect(pending).toBeInstanceOf(oauth.ResponseBodyError);
    expect(pending).toMatchObject({ error: "authorization_pending", status: 400 });
    expect(await rejection(poll(key))).toMatchObject({ error: "slow_down", status: 400 });

    const browser = createHttpBrowser();
    const landing = await browser.visit(start.claim_attempt.verification_uri_complete);
    expect(titleOf(landing)).toBe("An agent needs your decision");
    expect(landing.url.search).toBe("");
    const login = await browser.visit(`${base}/signin?return_to=%2Fclaim`);
    expect(titleOf(login)).toBe("Sign in to Postern");
    const review = await signInAtDev(browser, login, email);
    expect(titleOf(review)).toBe("An agent wants to hand you its account");
    expect(printedLines).toEqual([
      expect.stringMatching(/^ {2}Sign-in code for you@example\.com: \d{6}$/),
    ]);
    const done = await browser.submit(review, { decision: "confirm" });
    expect(titleOf(done)).toBe("The account is yours");

    expect(await poll(key)).toMatchObject({ status: "claimed", account: { id } });
    expect(await poll(key)).toMatchObject({ status: "claimed" });
  });

  test("switches from the wrong account to the right one", async () => {
    await startDevIdentityProvider();
    const { key } = await createAccount();
    const start = await startClaim(key, "right@example.com");
    const browser = createHttpBrowser();
    const login = await browser.visit(`${base}/signin?return_to=%2Fsessions`);
    await signInAtDev(browser, login, "wrong@example.com");
    const wrong = await browser.visit(start.claim_attempt.verification_uri_complete);
    expect([wrong.status, titleOf(wrong)]).toEqual([403, "This is for another account"]);
    const other = await browser.visit(`${base}/signin?switch=1&return_to=%2Fclaim`);
    expect(titleOf(other)).toBe("Sign in to Postern");
    const review = await signInAtDev(browser, other, "Right@Example.com");
    expect(titleOf(review)).toBe("An agent wants to hand you its account");
    const declined = await browser.submit(review, { decision: "decline" });
    expect(titleOf(declined)).toBe("You declined");
    expect(await rejection(poll(key))).toMatchObject({ error: "access_denied", status: 400 });
  });

  test("ends a sign-in after five wrong codes", async () => {
    await startDevIdentityProvider();
    const browser = createHttpBrowser();
    let page = await browser.visit(`${base}/signin`);
    page = await browser.submit(page, { email: "you@example.com" });
    const wrong = printedLines[0]?.endsWith("000000") === true ? "111111" : "000000";
    for (let time = 0; time < 4; time++) {
      page = await browser.submit(page, { code: wrong });
      expect(page.text).toContain("Wrong code");
    }
    page = await browser.submit(page, { code: wrong });
    expect([page.status, titleOf(page)]).toEqual([403, "You are not signed in"]);
  });

  test("requires PKCE", async () => {
    await startDevIdentityProvider();
    const query = new URLSearchParams({
      client_id: "postern",
      response_type: "code",
      scope: "openid",
      redirect_uri: `${base}/signin/callback`,
    });
    const response = await fetch(`${devIdentity?.settings.issuer}/auth?${query.toString()}`, {
      redirect: "manual",
    });
    expect(response.headers.get("location")).toContain("error=invalid_request");
    expect(response.headers.get("location")).toContain("PKCE");
  });

  test.each(["https://gateway.example.com", "http://10.0.0.1:8787", "http://127.0.0.1.evil.test"])(
    "refuses to start with the base URL %s",
    async (baseUrl) => {
      const started = startDevIdentity({ baseUrl, port: 0, print: () => {} });
      expect(started).rejects.toThrow("OIDC_ISSUER");
    },
  );
});

describe("with an external identity provider", () => {
  test("claims an account", async () => {
    const { key } = await createAccount();
    const email = "outside@example.com";
    fake.overrides = { claims: { email, sub: "outside" } };
    const start = await startClaim(key, email);
    const browser = createHttpBrowser();
    await browser.visit(start.claim_attempt.verification_uri_complete);
    const review = await browser.visit(`${base}/signin?return_to=%2Fclaim`);
    const done = await browser.submit(review, { decision: "confirm" });
    expect(titleOf(done)).toBe("The account is yours");
    expect(await poll(key)).toMatchObject({ status: "claimed" });
  });
});

describe("an OAuth library reads the errors", () => {
  test("of an invalid key, with its challenge", async () => {
    const error = await rejection(poll("pst-rt-nonsense"));
    expect(error).toBeInstanceOf(oauth.WWWAuthenticateChallengeError);
    expect(error).toMatchObject({
      status: 401,
      cause: [
        {
          scheme: "bearer",
          parameters: {
            error: "invalid_token",
            resource_metadata: `${base}/.well-known/oauth-protected-resource`,
          },
        },
      ],
    });
  });

  test("of an unknown grant type and of a missing attempt", async () => {
    const { key } = await createAccount();
    expect(await rejection(poll(key, "urn:x:y"))).toMatchObject({
      error: "unsupported_grant_type",
      status: 400,
    });
    expect(await rejection(poll(key))).toMatchObject({ error: "invalid_request", status: 400 });
  });
});
