// The operator's way in: off unless it is switched on, apart from the customers', and never for anybody else.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/secret.ts";
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
  test("there is nothing at /operator, whatever is asked for and however", async () => {
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

  test("settings that make no sense stop the start", () => {
    const mistakes = (env: Record<string, string>): readonly string[] => {
      const read = readConfig({ env, hostName: "test", providers: [] });
      return read.ok ? [] : read.errors;
    };
    const address = {
      POSTERN_BASE_URL: "https://gateway.example.com",
      POSTERN_SECRET: "x".repeat(40),
    };
    expect(mistakes({ POSTERN_OPERATORS: "ada" })).toEqual([
      "POSTERN_OPERATORS must be email addresses separated by commas",
    ]);
    expect(mistakes({ ...address, POSTERN_OPERATORS: OPERATOR_EMAIL })).toEqual([
      "OIDC_ISSUER must be set if POSTERN_OPERATORS is: operators sign in with it",
    ]);
    expect(mistakes({ POSTERN_OPERATORS: ` ${OPERATOR_EMAIL} , ` })).toEqual([]);
  });
});

test("without an identity provider the door says what is missing, and nobody comes in", async () => {
  const desk = await startOperatorHarness("sqlite");
  expect((await fetchPage(desk, "/operator/signin")).text).toContain("OIDC_ISSUER");
  expect((await fetchPage(desk, "/operator/signin/begin")).status).toBe(503);
  expect((await fetchPage(desk, "/operator/signin/callback?code=x&state=y")).status).toBe(503);
  await desk.gateway.stop();
});

test("letter case of ASCII alone is forgiven in an operator's address", async () => {
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
  // The sign of the kelvin, and a capital i with a dot: Unicode's small letters of both are those of ASCII, or begin so.
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
  describe(`signing in as an operator on ${kind}`, () => {
    let issuer: FakeIssuer;
    let desk: OperatorHarness;

    beforeAll(async () => {
      issuer = await startFakeIssuer();
      desk = await startOperatorHarness(kind, {
        OIDC_ISSUER: issuer.issuer,
        OIDC_CLIENT_ID: CLIENT.id,
        OIDC_CLIENT_SECRET: CLIENT.secret,
      });
    });
    beforeEach(() => {
      // The guard of attempts is a minute's.
      desk.clock.now += 3 * MINUTE_MS;
      issuer.overrides = {};
    });
    afterAll(async () => {
      await desk.gateway.stop();
      await issuer.close();
    });

    const cookiesOf = (seen: PageResponse): readonly string[] => seen.headers.getSetCookie();
    const pairOf = (cookies: readonly string[], name: string): string =>
      cookies.find((one) => one.startsWith(`${name}=`))?.split(";")[0] ?? "";

    /** To the provider and back, as whoever it is told to vouch for. */
    const signIn = async (lies: IssuerOverrides, returnTo = "/operator"): Promise<PageResponse> => {
      issuer.overrides = lies;
      const query = new URLSearchParams({ return_to: returnTo });
      const begun = await fetchPage(desk, `/operator/signin/begin?${query.toString()}`);
      const there = await fetch(begun.location ?? "", { redirect: "manual" });
      const back = new URL(there.headers.get("location") ?? "");
      expect(back.pathname).toBe("/operator/signin/callback");
      const cookie = pairOf(cookiesOf(begun), "postern_operator_signin");
      return await fetchPage(desk, back.pathname + back.search, { cookie });
    };
    const as = (email: string): IssuerOverrides => ({ claims: { email } });

    test("an operator comes in, with a cookie of their own that lives for eight hours at most", async () => {
      const seen = await signIn(as("Ada@Operator.Example"), "/operator/report?from=2026-01-01");
      expect([seen.status, seen.location]).toEqual([303, "/operator/report?from=2026-01-01"]);
      const set = cookiesOf(seen).find((one) => one.startsWith("postern_operator=")) ?? "";
      expect(set).toContain("Path=/operator;");
      expect(set).toContain("Max-Age=28800;");
      expect(set).toContain("HttpOnly");
      expect(set).toContain("SameSite=Lax");
      const cookie = pairOf(cookiesOf(seen), "postern_operator");
      const page = await fetchPage(desk, "/operator", { cookie });
      expect(page.status).toBe(200);
      expect(page.text).toContain(OPERATOR_EMAIL);
      expect(page.headers.get("cache-control")).toBe("no-store");
      expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
      expect((await readAudit(desk.gateway.server.db, "operator.signed_in")).at(-1)).toMatchObject({
        account_id: null,
        actor: `operator ${OPERATOR_EMAIL}`,
        network: "127.0.0.0/24",
      });
    });

    test("the provider is asked to let them choose, with PKCE, state and nonce, and a callback of its own", async () => {
      await signIn(as(OPERATOR_EMAIL));
      expect(issuer.lastAuthorization.get("redirect_uri")).toBe(
        `${desk.gateway.url}/operator/signin/callback`,
      );
      expect(issuer.lastAuthorization.get("prompt")).not.toBeNull();
      for (const name of ["state", "nonce", "code_challenge"])
        expect(issuer.lastAuthorization.get(name)?.length).toBeGreaterThan(20);
    });

    test("everybody else is refused, and written down", async () => {
      const stranger = await signIn(as("mallory@example.com"));
      expect(stranger.status).toBe(403);
      expect(stranger.text).toContain("mallory@example.com is not an operator");
      expect(pairOf(cookiesOf(stranger), "postern_operator")).toBe("");
      expect((await readAudit(desk.gateway.server.db, "operator.refused")).at(-1)).toMatchObject({
        account_id: null,
        actor: "person mallory@example.com",
        network: "127.0.0.0/24",
      });
      desk.clock.now += 1;
      const unverified = await signIn({ claims: { email: OPERATOR_EMAIL, email_verified: false } });
      expect(unverified.status).toBe(403);
      expect((await readAudit(desk.gateway.server.db, "operator.refused")).at(-1)).toMatchObject({
        actor: "person unknown",
      });
      for (const lies of [
        { ...as(OPERATOR_EMAIL), signedBy: "a stranger" },
        { ...as(OPERATOR_EMAIL), signedBy: "nobody" },
        { claims: { email: OPERATOR_EMAIL, nonce: "another" } },
        { claims: { email: OPERATOR_EMAIL, aud: "another" } },
      ] as const satisfies readonly IssuerOverrides[])
        expect((await signIn(lies)).status).toBe(400);
      expect((await signIn({ error: "access_denied" })).status).toBe(403);
    });

    test("an address that only looks like an operator's is nobody's", async () => {
      for (const email of [
        `${OPERATOR_EMAIL}.evil.example`,
        `x${OPERATOR_EMAIL}`,
        "ada@operator.exampleｅ",
      ])
        expect((await signIn(as(email))).status).toBe(403);
    });

    test("a callback without its browser, used twice, or begun at the customers' door is refused", async () => {
      issuer.overrides = as(OPERATOR_EMAIL);
      const begun = await fetchPage(desk, "/operator/signin/begin");
      const there = await fetch(begun.location ?? "", { redirect: "manual" });
      const back = new URL(there.headers.get("location") ?? "");
      const target = back.pathname + back.search;
      const cookie = pairOf(cookiesOf(begun), "postern_operator_signin");
      expect((await fetchPage(desk, target)).status).toBe(400);
      expect((await fetchPage(desk, target, { cookie })).status).toBe(303);
      expect((await fetchPage(desk, target, { cookie })).status).toBe(400);
      const customers = await fetchPage(desk, "/signin");
      const other = await fetch(customers.location ?? "", { redirect: "manual" });
      const { search } = new URL(other.headers.get("location") ?? "");
      const theirs = pairOf(cookiesOf(customers), "postern_signin");
      const renamed = theirs.replace("postern_signin", "postern_operator_signin");
      const crossed = await fetchPage(desk, `/operator/signin/callback${search}`, {
        cookie: renamed,
      });
      expect(crossed.status).toBe(400);
    });

    test("nobody is led away from the operator's pages", async () => {
      for (const [returnTo, leads] of [
        ["https://evil.example/operator", "/operator"],
        ["//evil.example/operator/", "/operator"],
        ["/operator/../console", "/operator"],
        ["/console", "/operator"],
        ["/operatorx", "/operator"],
        ["/operator/signin", "/operator"],
        ["/operator/audit", "/operator/audit"],
      ] as const) {
        desk.clock.now += MINUTE_MS;
        expect(`${returnTo} ${(await signIn(as(OPERATOR_EMAIL), returnTo)).location}`).toBe(
          `${returnTo} ${leads}`,
        );
      }
    });

    test("attempts from one network are bounded", async () => {
      const statuses: number[] = [];
      for (let attempt = 0; attempt < 25; attempt++)
        statuses.push((await fetchPage(desk, "/operator/signin/begin")).status);
      expect(statuses.slice(0, 20).every((status) => status === 303)).toBe(true);
      expect(statuses.at(-1)).toBe(429);
      const callback = await fetchPage(desk, "/operator/signin/callback?code=x&state=y");
      expect(callback.status).toBe(429);
      expect(Number(callback.headers.get("retry-after"))).toBeGreaterThan(0);
    });
  });

  describe(`an operator's session on ${kind}`, () => {
    let desk: OperatorHarness;
    beforeAll(async () => {
      desk = await startOperatorHarness(kind);
    });
    afterAll(() => desk.gateway.stop());

    const isIn = async (cookie: string): Promise<boolean> =>
      (await fetchPage(desk, "/operator", { cookie })).status === 200;

    test("strangers are sent to sign in, on every page, and posts do nothing", async () => {
      for (const path of PATHS) {
        const seen = await fetchPage(desk, path);
        expect([seen.status, seen.location]).toEqual([
          303,
          `/operator/signin?${new URLSearchParams({ return_to: path }).toString()}`,
        ]);
      }
    });

    test("a form that comes after the session has ended changes nothing, and its human is told so", async () => {
      const [file = ""] = PATHS.slice(-1);
      const posted = await fetchPage(desk, file, undefined, { form: { do: "freeze" } });
      const back = new URLSearchParams({ return_to: file, form: "lost" }).toString();
      expect([posted.status, posted.location]).toEqual([303, `/operator/signin?${back}`]);
      const door = await fetchPage(desk, posted.location ?? "");
      expect(door.text).toContain("Nothing was changed.");
      expect((await fetchPage(desk, "/operator/signin")).text).not.toContain(
        "Nothing was changed.",
      );
      const out = await fetchPage(desk, "/operator/signout", undefined, { form: {} });
      expect([out.status, out.location]).toEqual([303, "/operator/signin"]);
    });

    test("a customer's session is none, under whichever name", async () => {
      const { db } = desk.gateway.server;
      const { secret, store } = desk.gateway.config;
      const master = loadMasterSecret(secret, store.dataDir);
      const sessions = createSessions({ db, master, baseUrl: desk.gateway.url });
      const set = await db.write(async (tx) => {
        const identity = {
          issuer: "https://id.test",
          subject: "ada",
          email: OPERATOR_EMAIL,
          name: null,
        };
        const { id: personId } = await recordPerson(tx, identity, desk.clock.now);
        const about = {
          personId,
          network: "test",
          browser: "",
          cookies: null,
          now: desk.clock.now,
        };
        return await sessions.begin(tx, about);
      });
      const cookie = set.split(";")[0] ?? "";
      expect((await fetchPage(desk, "/console", { cookie })).status).toBe(200);
      expect(await isIn(cookie)).toBe(false);
      expect(await isIn(cookie.replace("postern_session", "postern_operator"))).toBe(false);
    });

    test("and an operator's session opens no customer's page", async () => {
      const { cookie } = await signInOperator(desk);
      expect(await isIn(cookie)).toBe(true);
      for (const name of ["postern_operator", "postern_session"]) {
        const renamed = cookie.replace("postern_operator", name);
        expect((await fetchPage(desk, "/console", { cookie: renamed })).status).toBe(303);
      }
    });

    test("ends after half an hour without use, and after eight hours in any case", async () => {
      const idle = await signInOperator(desk);
      desk.clock.now += 29 * MINUTE_MS;
      expect(await isIn(idle.cookie)).toBe(true);
      desk.clock.now += 29 * MINUTE_MS;
      expect(await isIn(idle.cookie)).toBe(true);
      desk.clock.now += 30 * MINUTE_MS;
      expect(await isIn(idle.cookie)).toBe(false);
      const busy = await signInOperator(desk);
      for (let minutes = 0; minutes < 460; minutes += 20) {
        desk.clock.now += 20 * MINUTE_MS;
        expect(await isIn(busy.cookie)).toBe(true);
      }
      desk.clock.now += 20 * MINUTE_MS;
      expect(await isIn(busy.cookie)).toBe(false);
    });

    test("ends at once for an address that is no operator's any more", async () => {
      const { cookie } = await signInOperator(desk, "former@operator.example");
      expect(await isIn(cookie)).toBe(false);
    });

    test("ends with signing out, for which the page's own form is needed, and that is written down", async () => {
      const { cookie, csrf } = await signInOperator(desk);
      const out = "/operator/signout";
      const forged = await fetchPage(desk, out, { cookie }, { form: { csrf: "guessed" } });
      expect(forged.status).toBe(403);
      const foreign = { form: { csrf }, headers: { "sec-fetch-site": "cross-site" } };
      expect((await fetchPage(desk, out, { cookie }, foreign)).status).toBe(403);
      expect(await isIn(cookie)).toBe(true);
      const seen = await fetchPage(desk, out, { cookie }, { form: { csrf } });
      expect([seen.status, seen.location]).toEqual([303, "/operator/signin"]);
      expect(seen.headers.getSetCookie()[0]).toStartWith(
        "postern_operator=; Path=/operator; Max-Age=0",
      );
      expect(await isIn(cookie)).toBe(false);
      expect((await readAudit(desk.gateway.server.db, "operator.signed_out")).length).toBe(1);
    });

    test("a copy of the store opens none: it holds fingerprints only", async () => {
      const { cookie } = await signInOperator(desk);
      const rows = await desk.gateway.server.db.all("select * from operator_session");
      const token = cookie.split("=")[1] ?? "none";
      expect(rows.flatMap((row) => Object.values(row)).join(" ")).not.toContain(token);
      for (const row of rows)
        expect(await isIn(`postern_operator=${String(row["hash"])}`)).toBe(false);
    });
  });
});
