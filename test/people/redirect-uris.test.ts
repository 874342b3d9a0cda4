// Redirects to another site. Every URI that the gateway redirects to, or that another service redirects to, comes from its
// settings. One that differs in any way is refused, and nothing is written.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type DevIdentity, startDevIdentity } from "../../src/people/dev-identity.ts";
import type { Db } from "../../src/store/db.ts";
import { type FakeStripe, startFakeStripe } from "../support/fakes/stripe.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { CLIENT, type FakeIssuer, startFakeIssuer } from "./fake-oidc-issuer.ts";

const FOREIGN = "https://evil.example";
/** A proxy or a caller may send any of these. */
const FOREIGN_HOSTS: Readonly<Record<string, string>> = {
  host: "evil.example",
  "x-forwarded-host": "evil.example",
  "x-forwarded-proto": "https",
  forwarded: "host=evil.example;proto=https",
  "x-original-url": FOREIGN,
};

describe("the identity provider of development", () => {
  const BASE = "http://127.0.0.1:4321";
  let identity: DevIdentity;
  beforeAll(async () => {
    identity = await startDevIdentity({ baseUrl: BASE, port: 0, print: () => {} });
  });
  afterAll(() => identity.close());

  async function authorize(redirectUri: string): Promise<Response> {
    const { issuer, clientId } = identity.settings;
    const query = new URLSearchParams({
      client_id: clientId,
      response_type: "code",
      scope: "openid email",
      redirect_uri: redirectUri,
      state: "s".repeat(43),
      code_challenge: "c".repeat(43),
      code_challenge_method: "S256",
    });
    return await fetch(`${issuer}/auth?${query.toString()}`, { redirect: "manual" });
  }

  test.each([`${BASE}/signin/callback`, `${BASE}/operator/signin/callback`])(
    "begins a sign-in that returns to %s",
    async (redirectUri) => {
      const { status, headers } = await authorize(redirectUri);
      expect(status).toBe(303);
      expect(headers.get("location")).toContain("/interaction/");
    },
  );

  test.each([
    ["another host", `${FOREIGN}/signin/callback`],
    ["another port", "http://127.0.0.1:4322/signin/callback"],
    ["another name of this host", "http://localhost:4321/signin/callback"],
    ["another scheme", "https://127.0.0.1:4321/signin/callback"],
    ["a slash at the end", `${BASE}/signin/callback/`],
    ["a longer path", `${BASE}/signin/callback/more`],
    ["a shorter path", `${BASE}/signin`],
    ["a path in capitals", `${BASE}/Signin/Callback`],
    ["an encoded path", `${BASE}/signin%2Fcallback`],
    ["a path with dots", `${BASE}/x/../signin/callback`],
    ["a query", `${BASE}/signin/callback?next=1`],
    ["an empty query", `${BASE}/signin/callback?`],
    ["a fragment", `${BASE}/signin/callback#x`],
    ["a user", "http://user@127.0.0.1:4321/signin/callback"],
    ["a space at the end", `${BASE}/signin/callback `],
    ["two URIs", `${BASE}/signin/callback ${FOREIGN}`],
    ["nothing", ""],
  ])("refuses a redirect URI with %s, without a redirect or a cookie", async (_, redirectUri) => {
    const { status, headers } = await authorize(redirectUri);
    expect([status, headers.get("location")]).toEqual([400, null]);
    expect(headers.getSetCookie().filter((cookie) => cookie.includes("interaction"))).toEqual([]);
  });

  test("redirects nowhere after a sign-out", async () => {
    const query = new URLSearchParams({ post_logout_redirect_uri: FOREIGN });
    const { issuer } = identity.settings;
    const response = await fetch(`${issuer}/session/end?${query.toString()}`, {
      redirect: "manual",
    });
    expect([response.status, response.headers.get("location")]).toEqual([404, null]);
  });
});

describe("the gateway", () => {
  let issuer: FakeIssuer;
  let stripe: FakeStripe;
  let gateway: Gateway;
  beforeAll(async () => {
    issuer = await startFakeIssuer();
    stripe = startFakeStripe();
    gateway = await startGateway({
      env: {
        ...stripe.env,
        OIDC_ISSUER: issuer.issuer,
        OIDC_CLIENT_ID: CLIENT.id,
        OIDC_CLIENT_SECRET: CLIENT.secret,
        POSTERN_OPERATORS: "human@example.com",
      },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await issuer.close();
    await stripe.stop();
  });

  function get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return fetch(gateway.url + path, { redirect: "manual", headers });
  }

  /** A sign-in up to the callback: its query, and the cookie that belongs to it. */
  async function begin(path: string): Promise<{ readonly query: string; readonly cookie: string }> {
    const begun = await get(path);
    const cookie = begun.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    const there = await fetch(begun.headers.get("location") ?? "", { redirect: "manual" });
    return { query: new URL(there.headers.get("location") ?? "").search, cookie };
  }

  const SIGN_INS = [
    ["/signin", "/signin/callback"],
    ["/operator/signin/begin", "/operator/signin/callback"],
  ] as const;

  test.each(SIGN_INS)(
    "sends its own callback from %s, whatever the headers say",
    async (path, callback) => {
      const begun = await get(path, FOREIGN_HOSTS);
      const { origin, searchParams } = new URL(begun.headers.get("location") ?? "");
      expect(origin).toBe(issuer.issuer);
      expect(searchParams.get("redirect_uri")).toBe(gateway.url + callback);
    },
  );

  test.each(SIGN_INS)("takes no redirect URI from the query of %s", async (path, callback) => {
    const begun = await get(`${path}?redirect_uri=${encodeURIComponent(FOREIGN)}`);
    const location = begun.headers.get("location");
    if (location === null) return expect(begun.status).toBe(400);
    expect(new URL(location).searchParams.getAll("redirect_uri")).toEqual([gateway.url + callback]);
  });

  test.each(SIGN_INS)(
    "accepts the code of %s at its exact callback alone",
    async (path, callback) => {
      const { query, cookie } = await begin(path);
      const other = callback.startsWith("/operator")
        ? "/signin/callback"
        : "/operator/signin/callback";
      const wrong = [`${callback}/`, `${callback}/more`, callback.toUpperCase()];
      const before = await rowCounts(gateway.server.db);
      for (const near of [
        ...wrong,
        callback.replace("/callback", "//callback"),
        callback.replace("/callback", "%2Fcallback"),
        other,
      ]) {
        const response = await get(near + query, { cookie });
        expect(response.status).toBeGreaterThanOrEqual(400);
        expect(response.headers.get("location")).toBeNull();
        const sessions = response.headers
          .getSetCookie()
          .filter((set) => /^postern(_operator)?=\w/.test(set));
        expect(sessions).toEqual([]);
      }
      expect(issuer.redeemedCodes).toBe(0);
      expect(await rowCounts(gateway.server.db)).toEqual(before);
    },
  );

  test.each(SIGN_INS)(
    "returns from %s to its own origin, whatever the link said",
    async (path, callback) => {
      for (const target of [FOREIGN, "//evil.example", "/\\evil.example", "/.//evil.example"]) {
        const { query, cookie } = await begin(`${path}?return_to=${encodeURIComponent(target)}`);
        const response = await get(callback + query, { cookie, ...FOREIGN_HOSTS });
        const location = new URL(response.headers.get("location") ?? "", gateway.url);
        expect([target, location.origin]).toEqual([target, gateway.url]);
        expect(location.pathname).not.toContain("evil");
      }
      issuer.redeemedCodes = 0;
    },
  );

  test("an MCP client registers and gets codes at the endpoints of /mcp alone", async () => {
    const metadata: unknown = await (await get("/.well-known/oauth-authorization-server")).json();
    expect(metadata).not.toHaveProperty("authorization_endpoint");
    expect(metadata).not.toHaveProperty("registration_endpoint");
    const before = await rowCounts(gateway.server.db);
    const query = `response_type=code&client_id=x&redirect_uri=${encodeURIComponent(FOREIGN)}`;
    for (const path of ["/authorize", "/oauth/authorize", "/oauth2/authorize"]) {
      const response = await get(`${path}?${query}`);
      expect([path, response.status, response.headers.get("location")]).toEqual([path, 404, null]);
    }
    for (const path of ["/register", "/oauth/register"]) {
      const body = JSON.stringify({ redirect_uris: [FOREIGN] });
      const response = await fetch(gateway.url + path, { method: "POST", body });
      expect([path, response.status]).toEqual([path, 404]);
    }
    expect(await rowCounts(gateway.server.db)).toEqual(before);
  });

  test.each(["return_url", "success_url", "cancel_url", "redirect_uri", "return_to"])(
    "an invoice with %s is a 400, and nothing is written",
    async (field) => {
      const { headers } = await registerAccount(gateway);
      const before = await rowCounts(gateway.server.db);
      const response = await fetch(`${gateway.url}/v1/billing/invoice`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify({ amount_usd: 5, [field]: FOREIGN }),
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: field } });
      expect(await rowCounts(gateway.server.db)).toEqual(before);
    },
  );

  test("Stripe returns to the page of the invoice, whatever headers and query say", async () => {
    const { headers } = await registerAccount(gateway);
    const created = await fetch(`${gateway.url}/v1/billing/invoice`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ amount_usd: 5 }),
    });
    const { pay_url: payUrl } = (await created.json()) as { readonly pay_url: string };
    const { pathname } = new URL(payUrl);
    expect(payUrl).toStartWith(`${gateway.url}/`);
    const query = `success_url=${encodeURIComponent(FOREIGN)}&return_url=${encodeURIComponent(FOREIGN)}`;
    const paying = await fetch(`${gateway.url}${pathname}?${query}`, {
      method: "POST",
      redirect: "manual",
      headers: { "x-forwarded-host": "evil.example", origin: gateway.url },
      body: new URLSearchParams({ success_url: FOREIGN, return_url: FOREIGN }),
    });
    expect(paying.status).toBe(303);
    const session = stripe.sessionAt(paying.headers.get("location"));
    expect(session.returnUrls).toEqual([`${payUrl}?done=1`, `${payUrl}?failed=1`]);
  });
});

/** The number of rows of every table. */
async function rowCounts(db: Db): Promise<Readonly<Record<string, unknown>>> {
  const tables = await db.all("select name from sqlite_master where type = 'table'");
  const counts: Record<string, unknown> = {};
  for (const { name } of tables)
    counts[String(name)] = (await db.get(`select count(*) as rows from "${String(name)}"`))?.[
      "rows"
    ];
  // Counters of requests are written for refused ones as well.
  delete counts["rate_counter"];
  return counts;
}
