// Operator sign-in: disabled by default, separate from customer sign-in, and only for configured addresses.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { MINUTE_MS } from "../../src/base/time.ts";
import { readConfig } from "../../src/config/config.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { createOperatorSessions } from "../../src/operator/sign-in/operator-sessions.ts";
import { recordPerson } from "../../src/people/people.ts";
import { createSessions } from "../../src/people/sessions.ts";
import {
  CLIENT,
  type FakeIssuer,
  type IssuerOverrides,
  startFakeIssuer,
} from "../people/fake-oidc-issuer.ts";
import { startGateway } from "../support/gateway.ts";
import { describeEachStore, openStore } from "../support/stores/stores.ts";
import {
  OPERATOR_EMAIL,
  type OperatorHarness,
  fetchPage,
  startOperatorHarness,
  signInOperator,
  type PageResponse,
  readAudit,
} from "./harness.ts";

const PATHS = [
  "/operator",
  "/operator/report",
  "/operator/payments",
  "/operator/audit",
  "/operator/accounts/acct_01kah5t3mq7d2c9w4e6r8t0yax",
];

describe("without POSTERN_OPERATORS", () => {
  test("returns 404 for every operator path", async () => {
    const gateway = await startGateway();
    for (const path of [
      ...PATHS,
      "/operator/signin",
      "/operator/signin/begin",
      "/operator/signout",
    ])
      for (const method of ["GET", "POST"]) {
        const { status } = await fetch(gateway.url + path, { method, redirect: "manual" });
        expect(`${method} ${path} ${status}`).toBe(`${method} ${path} 404`);
      }
    await gateway.stop();
  });

  test("invalid settings are rejected", () => {
    const configErrors = (env: Record<string, string>): readonly string[] => {
      const read = readConfig({ env, hostName: "test", providers: [] });
      return read.ok ? [] : read.errors;
    };
    const production = {
      POSTERN_BASE_URL: "https://gateway.example.com",
      POSTERN_SECRET: "x".repeat(40),
    };
    expect(configErrors({ POSTERN_OPERATORS: "ada" })).toEqual([
      "POSTERN_OPERATORS must be email addresses separated by commas",
    ]);
    expect(configErrors({ ...production, POSTERN_OPERATORS: OPERATOR_EMAIL })).toEqual([
      "OIDC_ISSUER must be set if POSTERN_OPERATORS is: operators sign in with it",
    ]);
    expect(configErrors({ POSTERN_OPERATORS: ` ${OPERATOR_EMAIL} , ` })).toEqual([]);
  });
});

test("without an identity provider, the sign-in page says which setting is missing", async () => {
  const harness = await startOperatorHarness("sqlite");
  expect((await fetchPage(harness, "/operator/signin")).text).toContain("OIDC_ISSUER");
  expect((await fetchPage(harness, "/operator/signin/begin")).status).toBe(503);
  expect((await fetchPage(harness, "/operator/signin/callback?code=x&state=y")).status).toBe(503);
  await harness.gateway.stop();
});

test("operator addresses ignore the case of ASCII letters only", async () => {
  const { db, close } = await openStore("sqlite");
  const read = readConfig({
    env: { POSTERN_OPERATORS: "Kim@Example.com, ivan@bücher.example" },
    hostName: "test",
    providers: [],
  });
  if (!read.ok) throw new Error(read.errors.join("; "));
  const { operators, baseUrl } = read.config;
  const { isOperator } = createOperatorSessions({
    db,
    master: secret("a master secret that only these tests know"),
    baseUrl,
    operators,
  });
  for (const email of ["kim@example.com", "KIM@EXAMPLE.COM", "Ivan@xn--bcher-kva.example"])
    expect({ email, is: isOperator(email) }).toEqual({ email, is: true });
  // U+212A (Kelvin sign) and U+0130 (I with dot) lowercase to ASCII letters in Unicode.
  const imitations = ["example.com/.evil.com", "example%2ecom", "exa\u00admple.com"].map(
    (domain) => `ada@${domain}`,
  );
  for (const email of [
    "\u212aim@example.com",
    "\u0130van@bücher.example",
    "kim",
    "",
    ...imitations,
  ])
    expect({ email, is: isOperator(email) }).toEqual({ email, is: false });
  await close();
});

describeEachStore((kind) => {
  describe(`operator sign-in on ${kind}`, () => {
    let issuer: FakeIssuer;
    let harness: OperatorHarness;

    beforeAll(async () => {
      issuer = await startFakeIssuer();
      harness = await startOperatorHarness(kind, {
        OIDC_ISSUER: issuer.issuer,
        OIDC_CLIENT_ID: CLIENT.id,
        OIDC_CLIENT_SECRET: CLIENT.secret,
      });
    });
    beforeEach(() => {
      // Resets the rate limit.
      harness.clock.now += 3 * MINUTE_MS;
      issuer.overrides = {};
    });
    afterAll(async () => {
      await harness.gateway.stop();
      await issuer.close();
    });

    const cookiesOf = (response: PageResponse): readonly string[] =>
      response.headers.getSetCookie();
    const pairOf = (cookies: readonly string[], name: string): string =>
      cookies.find((cookie) => cookie.startsWith(`${name}=`))?.split(";")[0] ?? "";

    /** Signs in through the issuer, with overrides of its response. */
    const signIn = async (
      overrides: IssuerOverrides,
      returnTo = "/operator",
    ): Promise<PageResponse> => {
      issuer.overrides = overrides;
      const query = new URLSearchParams({ return_to: returnTo });
      const begun = await fetchPage(harness, `/operator/signin/begin?${query.toString()}`);
      const there = await fetch(begun.location ?? "", { redirect: "manual" });
      const back = new URL(there.headers.get("location") ?? "");
      expect(back.pathname).toBe("/operator/signin/callback");
      const cookie = pairOf(cookiesOf(begun), "postern_operator_signin");
      return await fetchPage(harness, back.pathname + back.search, { cookie });
    };
    const as = (email: string): IssuerOverrides => ({ claims: { email } });

    test("sets an operator cookie with a lifetime of eight hours", async () => {
      const response = await signIn(as("Ada@Operator.Example"), "/operator/report?from=2026-01-01");
      expect([response.status, response.location]).toEqual([
        303,
        "/operator/report?from=2026-01-01",
      ]);
      const set =
        cookiesOf(response).find((cookie) => cookie.startsWith("postern_operator=")) ?? "";
      expect(set).toContain("Path=/operator;");
      expect(set).toContain("Max-Age=28800;");
      expect(set).toContain("HttpOnly");
      expect(set).toContain("SameSite=Lax");
      const cookie = pairOf(cookiesOf(response), "postern_operator");
      const page = await fetchPage(harness, "/operator", { cookie });
      expect(page.status).toBe(200);
      expect(page.text).toContain(OPERATOR_EMAIL);
      expect(page.headers.get("cache-control")).toBe("no-store");
      expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(
        (await readAudit(harness.gateway.server.db, "operator.signed_in")).at(-1),
      ).toMatchObject({
        account_id: null,
        actor: `operator ${OPERATOR_EMAIL}`,
        network: "127.0.0.0/24",
      });
    });

    test("requests a new login with PKCE, state, nonce and the operator callback", async () => {
      await signIn(as(OPERATOR_EMAIL));
      expect(issuer.lastAuthorization.get("redirect_uri")).toBe(
        `${harness.gateway.url}/operator/signin/callback`,
      );
      expect(issuer.lastAuthorization.get("prompt")).not.toBeNull();
      for (const name of ["state", "nonce", "code_challenge"])
        expect(issuer.lastAuthorization.get(name)?.length).toBeGreaterThan(20);
    });

    test("rejects and records everyone else", async () => {
      const stranger = await signIn(as("mallory@example.com"));
      expect(stranger.status).toBe(403);
      expect(stranger.text).toContain("mallory@example.com is not an operator");
      expect(pairOf(cookiesOf(stranger), "postern_operator")).toBe("");
      expect((await readAudit(harness.gateway.server.db, "operator.refused")).at(-1)).toMatchObject(
        {
          account_id: null,
          actor: "person mallory@example.com",
          network: "127.0.0.0/24",
        },
      );
      harness.clock.now += 1;
      const unverified = await signIn({ claims: { email: OPERATOR_EMAIL, email_verified: false } });
      expect(unverified.status).toBe(403);
      expect((await readAudit(harness.gateway.server.db, "operator.refused")).at(-1)).toMatchObject(
        {
          actor: "person unknown",
        },
      );
      for (const overrides of [
        { ...as(OPERATOR_EMAIL), signedBy: "foreign key" },
        { ...as(OPERATOR_EMAIL), signedBy: "none" },
        { claims: { email: OPERATOR_EMAIL, nonce: "another" } },
        { claims: { email: OPERATOR_EMAIL, aud: "another" } },
      ] as const satisfies readonly IssuerOverrides[])
        expect((await signIn(overrides)).status).toBe(400);
      expect((await signIn({ error: "access_denied" })).status).toBe(403);
    });

    test("rejects addresses that only resemble an operator's", async () => {
      for (const email of [
        `${OPERATOR_EMAIL}.evil.example`,
        `x${OPERATOR_EMAIL}`,
        "ada@operator.exampleｅ",
      ])
        expect((await signIn(as(email))).status).toBe(403);
    });

    test("rejects a callback from another browser, a repeated one, and one of the customer sign-in", async () => {
      issuer.overrides = as(OPERATOR_EMAIL);
      const begun = await fetchPage(harness, "/operator/signin/begin");
      const there = await fetch(begun.location ?? "", { redirect: "manual" });
      const back = new URL(there.headers.get("location") ?? "");
      const target = back.pathname + back.search;
      const cookie = pairOf(cookiesOf(begun), "postern_operator_signin");
      expect((await fetchPage(harness, target)).status).toBe(400);
      expect((await fetchPage(harness, target, { cookie })).status).toBe(303);
      expect((await fetchPage(harness, target, { cookie })).status).toBe(400);
      const customerStart = await fetchPage(harness, "/signin");
      const other = await fetch(customerStart.location ?? "", { redirect: "manual" });
      const { search } = new URL(other.headers.get("location") ?? "");
      const theirs = pairOf(cookiesOf(customerStart), "postern_signin");
      const renamed = theirs.replace("postern_signin", "postern_operator_signin");
      const crossed = await fetchPage(harness, `/operator/signin/callback${search}`, {
        cookie: renamed,
      });
      expect(crossed.status).toBe(400);
    });

    test("redirects only to operator pages", async () => {
      for (const [returnTo, target] of [
        ["https://evil.example/operator", "/operator"],
        ["//evil.example/operator/", "/operator"],
        ["/operator/../console", "/operator"],
        ["/console", "/operator"],
        ["/operatorx", "/operator"],
        ["/operator/signin", "/operator"],
        ["/operator/audit", "/operator/audit"],
      ] as const) {
        harness.clock.now += MINUTE_MS;
        expect(`${returnTo} ${(await signIn(as(OPERATOR_EMAIL), returnTo)).location}`).toBe(
          `${returnTo} ${target}`,
        );
      }
    });

    test("limits attempts per network", async () => {
      const statuses: number[] = [];
      for (let attempt = 0; attempt < 25; attempt++)
        statuses.push((await fetchPage(harness, "/operator/signin/begin")).status);
      expect(statuses.slice(0, 20).every((status) => status === 303)).toBe(true);
      expect(statuses.at(-1)).toBe(429);
      const callback = await fetchPage(harness, "/operator/signin/callback?code=x&state=y");
      expect(callback.status).toBe(429);
      expect(Number(callback.headers.get("retry-after"))).toBeGreaterThan(0);
    });
  });

  describe(`operator session on ${kind}`, () => {
    let harness: OperatorHarness;
    beforeAll(async () => {
      harness = await startOperatorHarness(kind);
    });
    afterAll(() => harness.gateway.stop());

    const isIn = async (cookie: string): Promise<boolean> =>
      (await fetchPage(harness, "/operator", { cookie })).status === 200;

    test("is required on every page", async () => {
      for (const path of PATHS) {
        const response = await fetchPage(harness, path);
        expect([response.status, response.location]).toEqual([
          303,
          `/operator/signin?${new URLSearchParams({ return_to: path }).toString()}`,
        ]);
      }
    });

    test("that has ended makes a form fail with a message on the sign-in page", async () => {
      const [accountPath = ""] = PATHS.slice(-1);
      const posted = await fetchPage(harness, accountPath, undefined, { form: { do: "freeze" } });
      const back = new URLSearchParams({ return_to: accountPath, form: "lost" }).toString();
      expect([posted.status, posted.location]).toEqual([303, `/operator/signin?${back}`]);
      const signInPage = await fetchPage(harness, posted.location ?? "");
      expect(signInPage.text).toContain("Nothing was changed.");
      expect((await fetchPage(harness, "/operator/signin")).text).not.toContain(
        "Nothing was changed.",
      );
      const out = await fetchPage(harness, "/operator/signout", undefined, { form: {} });
      expect([out.status, out.location]).toEqual([303, "/operator/signin"]);
    });

    test("cannot be a customer session, even in the operator cookie", async () => {
      const { db } = harness.gateway.server;
      const { secret, store } = harness.gateway.config;
      const master = loadMasterSecret({ secret }, store.dataDir);
      const sessions = createSessions({ db, master, baseUrl: harness.gateway.url });
      const set = await db.write(async (tx) => {
        const identity = {
          issuer: "https://id.test",
          subject: "ada",
          email: OPERATOR_EMAIL,
          name: null,
        };
        const { id: personId } = await recordPerson(tx, identity, harness.clock.now);
        const request = {
          personId,
          network: "test",
          browser: "",
          cookies: null,
          now: harness.clock.now,
        };
        return await sessions.begin(tx, request);
      });
      const cookie = set.split(";")[0] ?? "";
      expect((await fetchPage(harness, "/console", { cookie })).status).toBe(200);
      expect(await isIn(cookie)).toBe(false);
      expect(await isIn(cookie.replace("postern_session", "postern_operator"))).toBe(false);
    });

    test("is not valid on customer pages", async () => {
      const { cookie } = await signInOperator(harness);
      expect(await isIn(cookie)).toBe(true);
      for (const name of ["postern_operator", "postern_session"]) {
        const renamed = cookie.replace("postern_operator", name);
        expect((await fetchPage(harness, "/console", { cookie: renamed })).status).toBe(303);
      }
    });

    test("ends after 30 minutes without use, and after eight hours in any case", async () => {
      const idle = await signInOperator(harness);
      harness.clock.now += 29 * MINUTE_MS;
      expect(await isIn(idle.cookie)).toBe(true);
      harness.clock.now += 29 * MINUTE_MS;
      expect(await isIn(idle.cookie)).toBe(true);
      harness.clock.now += 30 * MINUTE_MS;
      expect(await isIn(idle.cookie)).toBe(false);
      const busy = await signInOperator(harness);
      for (let minutes = 0; minutes < 460; minutes += 20) {
        harness.clock.now += 20 * MINUTE_MS;
        expect(await isIn(busy.cookie)).toBe(true);
      }
      harness.clock.now += 20 * MINUTE_MS;
      expect(await isIn(busy.cookie)).toBe(false);
    });

    test("ends as soon as the address is no longer an operator's", async () => {
      const { cookie } = await signInOperator(harness, "former@operator.example");
      expect(await isIn(cookie)).toBe(false);
    });

    test("ends with a sign-out from the page's own form, which is recorded", async () => {
      const { cookie, csrf } = await signInOperator(harness);
      const out = "/operator/signout";
      const forged = await fetchPage(harness, out, { cookie }, { form: { csrf: "guessed" } });
      expect(forged.status).toBe(403);
      const foreign = { form: { csrf }, headers: { "sec-fetch-site": "cross-site" } };
      expect((await fetchPage(harness, out, { cookie }, foreign)).status).toBe(403);
      expect(await isIn(cookie)).toBe(true);
      const response = await fetchPage(harness, out, { cookie }, { form: { csrf } });
      expect([response.status, response.location]).toEqual([303, "/operator/signin"]);
      expect(response.headers.getSetCookie()[0]).toStartWith(
        "postern_operator=; Path=/operator; Max-Age=0",
      );
      expect(await isIn(cookie)).toBe(false);
      expect((await readAudit(harness.gateway.server.db, "operator.signed_out")).length).toBe(1);
    });

    test("cannot be derived from the store, which holds only fingerprints", async () => {
      const { cookie } = await signInOperator(harness);
      const rows = await harness.gateway.server.db.all("select * from operator_session");
      const token = cookie.split("=")[1] ?? "none";
      expect(rows.flatMap((row) => Object.values(row)).join(" ")).not.toContain(token);
      for (const row of rows)
        expect(await isIn(`postern_operator=${String(row["hash"])}`)).toBe(false);
    });
  });
});
