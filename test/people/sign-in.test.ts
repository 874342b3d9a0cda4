// Sign-in with an issuer whose responses are valid, forged or broken.

import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { addBlock, removeBlock } from "../../src/controls/blocks.ts";
import { identityFromClaims } from "../../src/people/id-token-claims.ts";
import { checkIdentity } from "../../src/people/identity-diagnostics.ts";
import { createSignIn, type IdentitySettings, safeReturnPath } from "../../src/people/sign-in.ts";
import { createBrowser, createHarness, type Page, type Harness } from "../claims/harness.ts";
import { openStore } from "../support/stores/stores.ts";
import { CLIENT, type IssuerOverrides, startFakeIssuer } from "./fake-oidc-issuer.ts";

let harness: Harness;

const store = await openStore("sqlite");
const fakeIssuer = await startFakeIssuer();
afterAll(async () => {
  await fakeIssuer.close();
  await store.close();
});
beforeEach(() => {
  fakeIssuer.overrides = {};
  harness = createHarness(store.db, { identity: settings() });
});

function settings(more: Partial<IdentitySettings> = {}): IdentitySettings {
  const { id, secret: clientSecret } = CLIENT;
  return {
    issuer: fakeIssuer.issuer,
    clientId: id,
    clientSecret: secret(clientSecret),
    allowedTenants: [],
    ...more,
  };
}

/** Follows the redirect to the provider and returns the callback URL. */
async function toProvider(
  browser: ReturnType<typeof createBrowser>,
  path: string,
): Promise<string> {
  const begun = await browser.go(path);
  expect(begun.status).toBe(303);
  const answer = await fetch(begun.headers.get("location") ?? "", { redirect: "manual" });
  return answer.headers.get("location") ?? "";
}

async function signInWith(overrides: IssuerOverrides, returnTo = "/sessions"): Promise<Page> {
  fakeIssuer.overrides = overrides;
  const browser = createBrowser(harness);
  const back = await toProvider(browser, `/signin?return_to=${encodeURIComponent(returnTo)}`);
  return browser.visit(back);
}

describe("signing in", () => {
  test("returns to the start page as the person whom the provider named", async () => {
    const page = await signInWith({});
    expect([page.status, page.path]).toEqual([200, `${harness.baseUrl}/sessions`]);
    expect(page.text).toContain("human@example.com");
    const person = await store.db.get("select * from person where issuer = ?", [fakeIssuer.issuer]);
    expect(person).toMatchObject({
      subject: "subject-1",
      email: "human@example.com",
      name: "Human",
    });
  });

  test("requests a code with a new PKCE challenge, state and nonce each time", async () => {
    const seen = [];
    for (let time = 0; time < 2; time++) {
      await toProvider(createBrowser(harness), "/signin");
      seen.push(fakeIssuer.lastAuthorization);
      expect(fakeIssuer.lastAuthorization.get("response_type")).toBe("code");
      expect(fakeIssuer.lastAuthorization.get("code_challenge_method")).toBe("S256");
      expect(fakeIssuer.lastAuthorization.get("scope")).toBe("openid email profile");
      expect(fakeIssuer.lastAuthorization.get("redirect_uri")).toBe(
        `${harness.baseUrl}/signin/callback`,
      );
    }
    for (const name of ["state", "nonce", "code_challenge"]) {
      expect(seen[0]?.get(name)?.length).toBeGreaterThanOrEqual(43);
      expect(seen[0]?.get(name)).not.toBe(seen[1]?.get(name) ?? "");
    }
  });

  test("encrypts the pending sign-in in its cookie", async () => {
    const browser = createBrowser(harness);
    const begun = await browser.go("/signin?return_to=%2Fsessions");
    const [cookie = ""] = begun.headers.getSetCookie();
    expect(cookie).toMatch(/^postern_signin=[^;]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/);
    const asked = new URL(begun.headers.get("location") ?? "").searchParams;
    for (const name of ["state", "nonce"]) expect(cookie).not.toContain(asked.get(name) ?? "");
  });

  test("takes the email from userinfo if the ID token has none", async () => {
    const page = await signInWith({
      claims: { email: undefined, email_verified: undefined },
      userinfo: { email: "far@example.com", email_verified: true },
    });
    expect(page.text).toContain("far@example.com");
  });

  test("takes the email and its verification from the same source", async () => {
    const page = await signInWith({
      claims: { email: "victim@example.com", email_verified: undefined },
      userinfo: { email: "own@example.com", email_verified: true },
    });
    expect(page.text).toContain("own@example.com");
    expect(page.text).not.toContain("victim@example.com");
  });

  test("stores the last verified email", async () => {
    await signInWith({});
    const page = await signInWith({ claims: { email: "new@example.com" } });
    expect(page.text).toContain("new@example.com");
    const people = await store.db.all("select email from person where issuer = ?", [
      fakeIssuer.issuer,
    ]);
    expect(people.map((row) => row["email"])).toEqual(["new@example.com"]);
  });

  test("refuses an address of a blocked domain, and offers another account", async () => {
    const act = { operator: "ada@operator.example", network: null, now: Date.now() };
    const block = { kind: "email_domain", value: "spam.example" } as const;
    await store.db.write((tx) => addBlock(tx, act, { ...block, reason: "abuse" }));
    const claims = { sub: "blocked", email: "a@mail.spam.example", email_verified: true };
    const refused = await signInWith({ claims });
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("accepts no email addresses of this domain");
    expect(refused.text).toContain("/signin");
    const found = "select id from person where subject = 'blocked'";
    expect(await store.db.get(found)).toBeUndefined();
    await store.db.write((tx) => removeBlock(tx, act, block));
    expect((await signInWith({ claims })).status).toBe(200);
  });

  test("lets a person choose another account", async () => {
    await toProvider(createBrowser(harness), "/signin?switch=1");
    expect(fakeIssuer.lastAuthorization.get("prompt")).toBe("login");
  });
});

describe("rejects", () => {
  const past = Math.floor(Date.now() / 1_000) - 7_200;
  test.each<[string, IssuerOverrides, number]>([
    ["an email that is not verified", { claims: { email_verified: false } }, 403],
    [
      "a verified email at a domain that only begins like another",
      { claims: { email: "ops@example.com/.evil.com" } },
      403,
    ],
    ["a verified email with a NUL", { claims: { email: "ops@example.com\u0000" } }, 403],
    ["an email without email_verified", { claims: { email_verified: undefined } }, 403],
    [
      "an email in the ID token that userinfo calls verified without naming it",
      { claims: { email_verified: undefined }, userinfo: { email_verified: true } },
      403,
    ],
    [
      "an email in userinfo that the ID token calls verified without naming it",
      { claims: { email: undefined }, userinfo: { email: "victim@example.com" } },
      403,
    ],
    [
      "an email that only userinfo names, and calls not verified",
      {
        claims: { email: undefined },
        userinfo: { email: "victim@example.com", email_verified: false },
      },
      403,
    ],
    ["email_verified as a string", { claims: { email_verified: "true" } }, 403],
    ["no email", { claims: { email: undefined } }, 403],
    ["an invalid email", { claims: { email: "a@b@c" } }, 403],
    ["another sign-in's nonce", { claims: { nonce: "replayed" } }, 400],
    ["no nonce", { claims: { nonce: undefined } }, 400],
    ["a token for another client", { claims: { aud: "another client" } }, 400],
    ["a token of another issuer", { claims: { iss: "https://evil.test" } }, 400],
    ["an expired token", { claims: { iat: past, exp: past + 300 } }, 400],
    ["a token signed with a foreign key", { signedBy: "foreign key" }, 400],
    ["an unsigned token", { signedBy: "none" }, 400],
    ["a canceled sign-in", { error: "access_denied" }, 403],
    ["a provider that fails", { error: "server_error" }, 400],
    [
      "userinfo of another subject",
      {
        claims: { email: undefined },
        userinfo: { sub: "x", email: "a@example.com", email_verified: true },
      },
      400,
    ],
  ])("%s", async (_what, overrides, status) => {
    const page = await signInWith(overrides);
    expect(page.text).toContain("/signin?return_to=%2Fsessions&amp;switch=1");
    expect([page.status, page.text.includes("You are not signed in")]).toEqual([status, true]);
    expect(page.headers.get("set-cookie")).not.toContain("postern_session");
    expect(page.headers.get("cache-control")).toBe("no-store");
  });

  test("a callback in another browser, with another state, repeated or expired", async () => {
    const browser = createBrowser(harness);
    const back = await toProvider(browser, "/signin");
    expect((await createBrowser(harness).visit(back)).status).toBe(400);

    const wrong = new URL(back);
    wrong.searchParams.set("state", "x".repeat(43));
    const spoilt = createBrowser(harness);
    for (const [name, value] of browser.cookies) spoilt.cookies.set(name, value);
    expect((await spoilt.visit(wrong.href)).status).toBe(400);

    const twin = createBrowser(harness);
    for (const [name, value] of browser.cookies) twin.cookies.set(name, value);
    expect((await browser.go(back)).status).toBe(303);
    expect((await browser.visit(back)).status).toBe(400);
    expect((await twin.visit(back)).status).toBe(400);

    const late = createBrowser(harness);
    const again = await toProvider(late, "/signin");
    harness.clock.now += 600_000;
    expect((await late.visit(again)).status).toBe(400);
  });

  test("reports an unavailable provider and retries", async () => {
    fakeIssuer.overrides = { isDown: true };
    const page = await createBrowser(harness).visit("/signin");
    expect(page.status).toBe(502);
    expect(page.text).toContain("cannot be reached");
    expect(harness.logged.join()).toContain("discovery at");
    fakeIssuer.overrides = {};
    expect((await createBrowser(harness).go("/signin")).status).toBe(303);
  });

  test("a sign-in without a configured provider", async () => {
    const page = await createBrowser(createHarness(store.db)).visit("/signin");
    expect(page.status).toBe(503);
    expect(page.text).toContain("OIDC_ISSUER");
  });
});

describe("return_to", () => {
  const base = "https://gateway.test";
  test.each([
    ["/claim", "/claim"],
    ["/keys?page=2", "/keys?page=2"],
    [undefined, "/"],
    ["", "/"],
    ["//evil.test", "/"],
    ["/\\evil.test", "/"],
    ["/.//evil.test", "/"],
    ["/%09/evil.test", "/%09/evil.test"],
    ["/\t/evil.test", "/"],
    ["/\n//evil.test", "/"],
    ["https://evil.test/", "/"],
    ["javascript:alert(1)", "/"],
    ["claim", "/"],
    [`/${"a".repeat(3_000)}`, "/"],
  ])("%p becomes %p", (path, expected) => {
    expect(safeReturnPath(path, base)).toBe(expected);
  });

  test("a crafted link stays on this origin", async () => {
    for (const path of ["//evil.test", "https://evil.test", "/\\evil.test"]) {
      const page = await signInWith({}, path);
      expect(new URL(page.path).origin).toBe(harness.baseUrl);
    }
  });
});

describe("identity claims", () => {
  const claims = { iss: "i", sub: "s", email: "a@example.com" };
  const rule = (issuer: string, allowedTenants: string[] = []) => ({ issuer, allowedTenants });
  const entra = "https://login.microsoftonline.com/8a1b/v2.0";
  const common = "https://login.microsoftonline.com/common/v2.0";

  test("Entra: requires xms_edov", () => {
    expect(() => identityFromClaims(claims, rule(entra))).toThrow();
    for (const xms_edov of [true, 1, "1"])
      expect(identityFromClaims({ ...claims, xms_edov }, rule(entra)).email).toBe("a@example.com");
    for (const xms_edov of [false, 0, "0", "", null])
      expect(() => identityFromClaims({ ...claims, xms_edov }, rule(entra))).toThrow();
  });

  test("accepts xms_edov only from Entra", () => {
    expect(() =>
      identityFromClaims({ ...claims, xms_edov: true }, rule("https://evil.test")),
    ).toThrow();
  });

  test("a subject has at most 255 characters", () => {
    const withSubject = (length: number) => () =>
      identityFromClaims(
        { ...claims, email_verified: true, sub: "s".repeat(length) },
        rule("https://id.example.com"),
      );
    expect(withSubject(255)().subject).toHaveLength(255);
    expect(withSubject(256)).toThrow("sub");
  });

  test("a shared issuer needs a list of tenants", () => {
    const proven = { ...claims, email_verified: true, tid: "8a1b" };
    expect(() => identityFromClaims(proven, rule(common))).toThrow();
    expect(() => identityFromClaims(proven, rule(common, ["other"]))).toThrow();
    expect(identityFromClaims(proven, rule(common, ["8a1b"])).subject).toBe("s");
  });

  test("a list of tenants applies to every issuer", () => {
    const google = "https://accounts.google.com";
    const proven = { ...claims, email_verified: true };
    expect(() => identityFromClaims(proven, rule(google, ["example.com"]))).toThrow();
    expect(
      identityFromClaims({ ...proven, hd: "example.com" }, rule(google, ["example.com"])).email,
    ).toBe("a@example.com");
  });
});

describe("doctor", () => {
  const levels = async (baseUrl: string, identity: IdentitySettings | undefined) =>
    (await checkIdentity({ baseUrl, identity })).map(({ level }) => level);

  test("finds no problem with a valid issuer", async () => {
    expect(await levels("https://gateway.test", settings())).toEqual(["ok", "ok", "ok"]);
  });

  test("reports missing and wrong settings", async () => {
    expect(await levels("http://127.0.0.1:8787", undefined)).toEqual(["ok"]);
    expect(await levels("https://gateway.test", undefined)).toEqual(["warning"]);
    const wrong = await checkIdentity({
      baseUrl: "http://gateway.test",
      identity: settings({ issuer: `${fakeIssuer.issuer}/other` }),
    });
    expect(wrong.filter(({ level }) => level === "error")).toHaveLength(2);
    expect(wrong.map(({ message }) => message).join(" ")).toContain('exactly the "issuer"');
    fakeIssuer.overrides = { isDown: true };
    expect(await levels("https://gateway.test", settings())).toContain("error");
  });
});

test("recognizes common providers by their issuer", () => {
  const named = (issuer: string) =>
    createSignIn({
      settings: settings({ issuer }),
      baseUrl: harness.baseUrl,
      master: harness.master,
    }).providerName;
  expect(named("https://accounts.google.com")).toBe("Google");
  expect(named("https://login.microsoftonline.com/x/v2.0")).toBe("Microsoft Entra");
  expect(named("https://acme.authkit.app")).toBe("WorkOS AuthKit");
  expect(named("https://acme.eu.auth0.com/")).toBe("Auth0");
  expect(named("https://id.example.com/realms/acme")).toBe("Keycloak");
  expect(named("https://id.example.com")).toBe("OpenID Connect");
});
