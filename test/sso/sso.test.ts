// Single sign-on of a workspace: who gets in, and what a hostile workspace or identity provider cannot do.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { recordPerson } from "../../src/people/people.ts";
import {
  createUser,
  makeDeveloper,
  makeMember,
  type TestUser,
  textOf,
  visitPage,
} from "../billing/console-user.ts";
import { listAudit } from "../console/console-fixture.ts";
import { startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import { createHttpBrowser } from "../support/browser/http-browser.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { signInWithSso, type SsoFixture, startSsoFixture } from "./sso-fixture.ts";

describe.each(STORE_KINDS)("single sign-on on %s", (store) => {
  let fixture: SsoFixture;
  let domains = 0;
  beforeAll(async () => {
    fixture = await startSsoFixture({ store });
  });
  afterAll(() => fixture.close());

  /** A workspace with a domain of its own and the identity provider of the fixture. */
  async function connected(more: Readonly<Record<string, string>> = {}) {
    const workspace = await fixture.newWorkspace();
    domains += 1;
    const domain = `org-${domains}.example`;
    await workspace.verify(domain);
    await workspace.connect(fixture.issuer, more);
    return { ...workspace, domain, id: workspace.account.id };
  }

  const signIn = (accountId: string, claims: Readonly<Record<string, unknown>>) =>
    signInWithSso(fixture, accountId, claims);
  const membersOf = async (accountId: string) => {
    const rows = await fixture.gateway.server.db.all(
      `select person.email, person.subject, membership.role, membership.person_id from membership
       join person on person.id = membership.person_id where account_id = ? order by role, email`,
      [accountId],
    );
    return rows.map((row) => ({ ...row }));
  };
  const isOpen = async (user: TestUser, accountId: string) =>
    (await visitPage(fixture.gateway, `/console/${accountId}`, user)).status === 200;

  test("lets a person of a verified domain join with the default role", async () => {
    const { id, domain, account } = await connected({ default_role: "viewer" });
    const { page } = await signIn(id, { sub: "ada", email: `ada@${domain}` });
    expect([page.status, page.url.pathname]).toEqual([200, `/console/${id}`]);
    const asked = fixture.issuer.lastAuthorization;
    expect(asked.get("code_challenge_method")).toBe("S256");
    expect(asked.get("redirect_uri")).toBe(`${fixture.gateway.url}/signin/sso/${id}/callback`);
    expect(asked.get("nonce")?.length).toBeGreaterThan(20);
    expect(await membersOf(id)).toMatchObject([
      { role: "owner" },
      { role: "viewer", email: `ada@${domain}`, subject: "ada" },
    ]);
    const [entry] = await listAudit(fixture.gateway, account, "action=sso.signed_in");
    expect(entry?.detail).toEqual({ email: `ada@${domain}`, issuer: fixture.issuer.issuer });
  });

  test("sends a person by the domain of their address to the identity provider", async () => {
    const { id, domain } = await connected();
    fixture.issuer.overrides = { claims: { sub: "eve", email: `eve@${domain}` } };
    const browser = createHttpBrowser();
    const form = await browser.visit(`${fixture.gateway.url}/signin?return_to=%2Fsessions`);
    const next = await browser.submit(form, { email: `Eve@${domain.toUpperCase()}` });
    const [, target = ""] = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(next.text) ?? [];
    expect(target).toContain(`/signin/sso/${id}?`);
    const page = await browser.visit(fixture.gateway.url + target.replaceAll("&amp;", "&"));
    expect([page.status, page.url.pathname]).toEqual([200, "/sessions"]);
    expect(fixture.issuer.lastAuthorization.get("login_hint")).toBe(`Eve@${domain.toUpperCase()}`);
    const again = await browser.visit(form.url.href);
    const other = await browser.submit(again, { email: "someone@elsewhere.example" });
    expect(other.text).toContain("/signin?return_to=%2Fsessions&amp;direct=true");
    fixture.issuer.overrides = {};
  });

  test("does not sign in to a person of another domain whom a hostile issuer asserts", async () => {
    const { gateway } = fixture;
    const hostile = await connected();
    const victimsWorkspace = await fixture.newWorkspace();
    const victim = victimsWorkspace.owner;
    const { page } = await signIn(hostile.id, { sub: "owner-1", email: victim.email });
    expect(page.status).toBe(403);
    expect(page.text).toContain("is not in a verified domain of this workspace");
    const people = await gateway.server.db.all("select id from person where email = ?", [
      victim.email,
    ]);
    expect(people.map(({ id }) => id)).toEqual([victim.personId]);
  });

  test("gives no access to the other workspaces and invitations of the same address", async () => {
    const { gateway } = fixture;
    const { id, domain } = await connected();
    // The same issuer, subject and address at the gateway's own sign-in: still another person.
    const identity = {
      issuer: fixture.issuer.issuer,
      subject: "bob",
      email: `bob@${domain}`,
      name: null,
    };
    const own = await gateway.server.db.write((tx) => recordPerson(tx, identity, Date.now()));
    const elsewhere = await fixture.newWorkspace();
    const bob = { ...elsewhere.owner, personId: own.id };
    await makeDeveloper(gateway, elsewhere.account.id, bob);
    const inviting = await fixture.newWorkspace();
    const invitation = { do: "invite", email: identity.email, role: "admin" };
    await visitPage(gateway, `/console/${inviting.account.id}/members`, inviting.owner, invitation);
    const [invited] = await gateway.server.db.all("select id from invitation where email = ?", [
      identity.email,
    ]);

    const { browser, page } = await signIn(id, { sub: "bob", email: identity.email });
    expect(page.url.pathname).toBe(`/console/${id}`);
    const other = await browser.visit(`${gateway.url}/console/${elsewhere.account.id}`);
    expect(other.status).toBe(404);
    const start = await browser.visit(`${gateway.url}/console?all=true`);
    expect(start.text).not.toContain(elsewhere.account.id);
    expect(start.text).not.toContain("Accept");
    const csrf = /name="csrf" value="([^"]+)"/.exec(start.text)?.[1] ?? "";
    const answer = (action: string, fields: Record<string, string>) =>
      browser.submit({ ...start, text: `<form action="${action}"></form>` }, { csrf, ...fields });
    for (const decision of ["accept", "decline"]) {
      const fields = { invitation: String(invited?.["id"]), answer: decision };
      expect((await answer("/console/invitations", fields)).status).toBe(403);
    }
    expect((await answer("/console/workspaces", { name: "Mine" })).status).toBe(403);
    const left = await gateway.server.db.all("select id from invitation where id = ?", [
      String(invited?.["id"]),
    ]);
    expect(left.length).toBe(1);
    const reached = await membersOf(elsewhere.account.id);
    expect(reached.map((row) => row["person_id"])).toContain(own.id);
  });

  test("does not complete a sign-in of one issuer with the response of another", async () => {
    const { gateway } = fixture;
    const other = await startFakeIssuer();
    const honest = await connected();
    const hostile = await fixture.newWorkspace();
    domains += 1;
    await hostile.verify(`org-${domains}.example`);
    await hostile.connect(other);
    const jar = createHttpBrowser();
    const redeemed = fixture.issuer.redeemedCodes;
    // The person begins at the hostile workspace; its issuer sends them on to the callback of the honest one.
    other.overrides = { error: "access_denied" };
    await jar.visit(`${gateway.url}/signin/sso/${hostile.account.id}`);
    const state = other.lastAuthorization.get("state") ?? "";
    const callback = new URL(`${gateway.url}/signin/sso/${honest.id}/callback`);
    callback.search = new URLSearchParams({ code: "stolen", state }).toString();
    const page = await jar.visit(callback.href);
    expect([page.status, page.text.includes("You are not signed in")]).toEqual([400, true]);
    expect([fixture.issuer.redeemedCodes, other.redeemedCodes]).toEqual([redeemed, 0]);
    await other.close();
  });

  test.each([
    ["an address that is not verified", { email_verified: false }],
    ["an address without email_verified", { email_verified: undefined }],
    ["a token for another client", { aud: "another" }],
    ["a token with another nonce", { nonce: "another" }],
    ["a token of another issuer", { iss: "https://elsewhere.example" }],
  ])("rejects %s", async (_title, claims) => {
    const { id, domain } = await connected();
    const { page } = await signIn(id, { sub: "x", email: `x@${domain}`, ...claims });
    expect(page.text).toContain("You are not signed in");
    expect((await membersOf(id)).length).toBe(1);
  });

  test("moves role and keys of a member to their identity at the provider, and not those of the owner", async () => {
    const { gateway } = fixture;
    const { id, domain, owner, account } = await connected({ default_role: "" });
    const { db } = gateway.server;
    const ada = await createUser(gateway, `ada-${store}`);
    await db.write((tx) =>
      tx.run("update person set email = ? where id in (?, ?)", [`ada@${domain}`, ada.personId, ""]),
    );
    await makeMember(gateway, id, ada, "admin");
    const key = { do: "mint", name: "ada's", limit_usd: "1" };
    await visitPage(gateway, `/console/${id}/keys`, ada, key);
    const { page } = await signIn(id, { sub: "ada", email: `ada@${domain}` });
    expect(page.url.pathname).toBe(`/console/${id}`);
    const members = await membersOf(id);
    expect(members).toMatchObject([{ role: "admin", subject: "ada" }, { role: "owner" }]);
    const keys = await db.all("select created_by from api_key where account_id = ? and name = ?", [
      id,
      "ada's",
    ]);
    expect(keys.map((row) => row["created_by"])).toEqual([members[0]?.["person_id"] ?? ""]);
    expect(await isOpen(ada, id)).toBe(false);
    expect((await listAudit(gateway, account, "action=member.moved_to_sso")).length).toBe(1);

    // Another subject that was given the same address is another human.
    const second = await signIn(id, { sub: "ada-2", email: `ada@${domain}` });
    expect(second.page.text).toContain("Another account of your identity provider");
    // The owner's address does not give the owner's role.
    await db.write((tx) =>
      tx.run("update person set email = ? where id = ?", [`owner@${domain}`, owner.personId]),
    );
    const asOwner = await signIn(id, { sub: "boss", email: `owner@${domain}` });
    expect(asOwner.page.text).toContain("is not a member of this workspace");
    expect(await isOpen(owner, id)).toBe(true);
  });

  test("opens a workspace that requires it only to the provider's sessions and to the owner", async () => {
    const { gateway } = fixture;
    const { id, domain, account, owner, change, path } = await connected();
    const member = await createUser(gateway, `member-${store}`);
    await makeMember(gateway, id, member, "admin");
    const elsewhere = await fixture.newWorkspace();
    await makeMember(gateway, elsewhere.account.id, member, "admin");
    expect(await isOpen(member, id)).toBe(true);
    expect((await change({ do: "require" })).status).toBe(303);

    const stepUp = await visitPage(gateway, `/console/${id}/keys?x=1`, member);
    expect([stepUp.status, stepUp.location]).toEqual([
      303,
      `/signin/sso/${id}?return_to=%2Fconsole%2F${id}%2Fkeys%3Fx%3D1`,
    ]);
    const form = { do: "mint", name: "sneaky", limit_usd: "1" };
    const sent = await visitPage(gateway, `/console/${id}/keys`, member, form);
    expect([sent.status, sent.text.includes("requires single sign-on")]).toEqual([403, true]);
    const invite = { do: "invite", email: "x@elsewhere.example", role: "viewer" };
    const invited = await visitPage(gateway, `/console/${id}/members`, member, invite);
    expect([invited.status, invited.text.includes("requires single sign-on")]).toEqual([403, true]);
    expect((await visitPage(gateway, `/console/${id}/export`, member)).status).toBe(303);
    expect(await isOpen(member, elsewhere.account.id)).toBe(true);
    expect(await isOpen(owner, id)).toBe(true);
    const balance = await fetch(`${gateway.url}/v1/account`, { headers: account.headers });
    expect(balance.status).toBe(200);

    const { browser, page } = await signIn(id, { sub: "mia", email: `mia@${domain}` });
    expect(page.url.pathname).toBe(`/console/${id}`);
    expect((await visitPage(gateway, path, owner)).text).toContain("Stop requiring it");
    const other = await signIn(id, { sub: "moe", email: `moe@${domain}` });
    await change({ do: "remove_domain", domain });
    const gone = await other.browser.visit(`${gateway.url}/sessions`);
    expect(gone.text).not.toContain(`moe@${domain}`);
    await change({ do: "remove" });
    const ended = await browser.visit(`${gateway.url}/sessions`);
    expect(ended.text).not.toContain(`mia@${domain}`);
    expect(await isOpen(member, id)).toBe(true);
  });

  test("does not offer a workspace that requires it for the key of a program", async () => {
    const { gateway } = fixture;
    const { id, change } = await connected();
    const member = await createUser(gateway, `device-${store}`);
    await makeMember(gateway, id, member, "admin");
    await change({ do: "require" });
    const { listKeyWorkspaces } = await import("../../src/device-login/key-workspaces.tsx");
    expect(await listKeyWorkspaces(gateway.server.db, member.personId)).toEqual([]);
  });

  test("cannot be required before a domain is verified and an issuer is set", async () => {
    const { change } = await fixture.newWorkspace();
    const refused = await change({ do: "require" });
    expect([refused.status, textOf(refused)]).toEqual([
      400,
      expect.stringContaining("Verify a domain and set the identity provider first"),
    ]);
  });

  test("keeps ownership with a person who can sign in without the provider", async () => {
    const { id, domain, owner } = await connected();
    await signIn(id, { sub: "heir", email: `heir@${domain}` });
    const heir = (await membersOf(id)).find((row) => row["subject"] === "heir");
    const form = { do: "hand_over", person: String(heir?.["person_id"]) };
    const refused = await visitPage(fixture.gateway, `/console/${id}/members`, owner, form);
    expect([refused.status, textOf(refused)]).toEqual([
      400,
      expect.stringContaining("signs in with the workspace's identity provider"),
    ]);
  });

  test("reads issuers only at public addresses, and stores the secret encrypted", async () => {
    const { id, change } = await connected();
    const form = { do: "save", client_id: "c", client_secret: "s", default_role: "" };
    for (const issuer of [
      "http://169.254.169.254",
      "https://localhost.internal",
      "ftp://x.example",
    ]) {
      const refused = await change({ ...form, issuer });
      expect([issuer, refused.status]).toEqual([issuer, 400]);
    }
    const shared = "https://login.microsoftonline.com/common/v2.0";
    expect(textOf(await change({ ...form, issuer: shared }))).toContain("your own tenant");
    const wrong = await change({ ...form, issuer: `${fixture.issuer.issuer}/other` });
    expect(textOf(wrong)).toContain("The discovery document of");
    const [row] = await fixture.gateway.server.db.all(
      "select sealed from sso_connection where account_id = ?",
      [id],
    );
    expect(String(row?.["sealed"])).not.toContain("secret");
    // Another client does not get the secret of the former one.
    await change({ ...form, issuer: fixture.issuer.issuer, client_id: "other", client_secret: "" });
    const [after] = await fixture.gateway.server.db.all(
      "select sealed from sso_connection where account_id = ?",
      [id],
    );
    expect(after?.["sealed"]).toBeNull();
  });
});
