// SCIM as Okta and Microsoft Entra use it: the forms of their requests, what they mean for members, and what a token reaches.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { setGroupRole } from "../../src/scim/scim-groups.ts";
import { createUser, makeMember, type TestUser, visitPage } from "../billing/console-user.ts";
import { listAudit } from "../console/console-fixture.ts";
import { sendRaw } from "../http/raw-client.ts";
import {
  signInWithSso,
  type SsoFixture,
  type SsoWorkspace,
  startSsoFixture,
} from "../sso/sso-fixture.ts";
import { actIn } from "../support/act.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const USER = "urn:ietf:params:scim:schemas:core:2.0:User";
const PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

interface Reply {
  readonly status: number;
  readonly type: string | null;
  readonly body: {
    readonly id: string;
    readonly active: boolean;
    readonly userName: string;
    readonly displayName: string;
    readonly detail: string;
    readonly scimType: string;
    readonly totalResults: number;
    readonly startIndex: number;
    readonly itemsPerPage: number;
    readonly members: readonly { readonly value: string }[];
    readonly groups: readonly { readonly value: string }[];
    readonly emails: readonly { readonly value: string }[];
    readonly Resources: readonly { readonly id: string; readonly userName: string }[];
  };
}

type Call = (method: string, path: string, body?: unknown) => Promise<Reply>;

describe.each(STORE_KINDS)("SCIM on %s", (store) => {
  let fixture: SsoFixture;
  let domains = 0;
  beforeAll(async () => {
    fixture = await startSsoFixture({ store });
  });
  afterAll(() => fixture.close());

  function caller(token: string): Call {
    return async (method, path, body) => {
      const response = await fetch(`${fixture.gateway.url}/scim/v2${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return {
        status: response.status,
        type: response.headers.get("content-type"),
        // Safe because each test reads only fields that its response has.
        body: (text === "" ? {} : JSON.parse(text)) as Reply["body"],
      };
    };
  }

  async function tokenOf(workspace: SsoWorkspace): Promise<string> {
    const page = await visitPage(
      fixture.gateway,
      `/console/${workspace.account.id}/directory-sync`,
      workspace.owner,
      { do: "create_token" },
    );
    const [token = ""] = /scim_[0-9A-Za-z]{43}/.exec(page.text) ?? [];
    return token;
  }

  async function connected() {
    const workspace = await fixture.newWorkspace();
    domains += 1;
    const domain = `scim-${domains}.example`;
    await workspace.verify(domain);
    await workspace.connect(fixture.issuer);
    const token = await tokenOf(workspace);
    return { ...workspace, domain, id: workspace.account.id, token, call: caller(token) };
  }

  const roleIn = async (accountId: string, email: string) => {
    const row = await fixture.gateway.server.db.get(
      `select role from membership join person on person.id = membership.person_id
       where account_id = ? and email = ?`,
      [accountId, email],
    );
    return row?.["role"];
  };
  const isOpen = async (user: TestUser, accountId: string) =>
    (await visitPage(fixture.gateway, `/console/${accountId}`, user)).status === 200;

  test("creates, reads, finds, replaces, changes and deletes a user as Okta does", async () => {
    const { call, domain } = await connected();
    const email = `ada@${domain}`;
    expect(
      (await call("GET", `/Users?filter=userName%20eq%20%22${email}%22&startIndex=1&count=100`))
        .body,
    ).toMatchObject({ totalResults: 0, Resources: [] });
    const user = {
      schemas: [USER],
      userName: email,
      name: { givenName: "Ada", familyName: "Lovelace" },
      emails: [{ primary: true, value: email, type: "work" }],
      displayName: "Ada Lovelace",
      locale: "en-US",
      externalId: "00ujl29u0le5T6Aj10h7",
      groups: [],
      password: "1mz050nq",
      active: true,
    };
    const created = await call("POST", "/Users", user);
    expect([created.status, created.type]).toEqual([201, "application/scim+json"]);
    expect(created.body).toMatchObject({
      schemas: [USER],
      userName: email,
      externalId: user.externalId,
      active: true,
      name: { givenName: "Ada", familyName: "Lovelace", formatted: "Ada Lovelace" },
      emails: user.emails,
      meta: { resourceType: "User" },
    });
    expect(JSON.stringify(created.body)).not.toContain("1mz050nq");
    const { id } = created.body;
    const found = await call("GET", `/Users?filter=userName%20EQ%20%22${email.toUpperCase()}%22`);
    expect(found.body.Resources.map((one) => one.id)).toEqual([id]);
    const again = await call("POST", "/Users", user);
    expect([again.status, again.body.scimType]).toEqual([409, "uniqueness"]);
    const replaced = await call("PUT", `/Users/${id}`, { ...user, displayName: "Ada King" });
    expect([replaced.status, replaced.body.displayName]).toEqual([200, "Ada King"]);
    const off = await call("PATCH", `/Users/${id}`, {
      schemas: [PATCH],
      Operations: [{ op: "replace", value: { active: false } }],
    });
    expect([off.status, off.body.active]).toEqual([200, false]);
    expect((await call("GET", `/Users/${id}`)).body.active).toBe(false);
    expect((await call("DELETE", `/Users/${id}`)).status).toBe(204);
    const gone = await call("GET", `/Users/${id}`);
    expect([gone.status, gone.type, gone.body]).toMatchObject([
      404,
      "application/scim+json",
      { schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"], status: "404" },
    ]);
    expect((await call("DELETE", `/Users/${id}`)).status).toBe(404);
  });

  test("takes the PATCH forms of Microsoft Entra", async () => {
    const { call, domain } = await connected();
    const created = await call("POST", "/Users", {
      schemas: [USER, "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
      externalId: "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
      userName: `Test_User_ab6490ee@${domain}`,
      active: true,
      emails: [{ primary: true, type: "work", value: `test@${domain}` }],
      meta: { resourceType: "User" },
      name: { formatted: "givenName familyName", familyName: "familyName", givenName: "givenName" },
      roles: [],
    });
    const { id } = created.body;
    const patch = (...operations: readonly unknown[]) =>
      call("PATCH", `/Users/${id}`, { schemas: [PATCH], Operations: operations });
    const changed = await patch(
      { op: "Replace", path: 'emails[type eq "work"].value', value: `new@${domain}` },
      { op: "Replace", path: "name.familyName", value: "Changed" },
      { op: "Add", path: "title", value: "Engineer" },
      {
        op: "Add",
        path: "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
        value: "Sales",
      },
      { op: "Replace", value: { displayName: "New Name", "name.givenName": "Given" } },
    );
    expect([changed.status, changed.body]).toMatchObject([
      200,
      {
        emails: [{ value: `new@${domain}` }],
        displayName: "New Name",
        name: { givenName: "Given", familyName: "Changed" },
      },
    ]);
    expect((await patch({ op: "Replace", path: "active", value: "False" })).body.active).toBe(
      false,
    );
    expect((await patch({ op: "Replace", path: "active", value: "True" })).body.active).toBe(true);
    expect((await patch({ op: "Remove", path: "displayName" })).body.displayName).toBeUndefined();
    for (const [operation, scimType] of [
      [{ op: "replace", path: "active", value: "maybe" }, "invalidValue"],
      [{ op: "remove" }, "noTarget"],
      [{ op: "move", path: "active" }, "invalidSyntax"],
      [{ op: "replace", path: "name..x", value: "a" }, "invalidPath"],
      [{ op: "remove", path: "userName" }, "mutability"],
    ] as const) {
      const refused = await patch(operation);
      expect([refused.status, refused.body.scimType]).toEqual([400, scimType]);
    }
  });

  test("lists page by page from index 1, and says which filters it has", async () => {
    const { call, domain } = await connected();
    const ids = [];
    for (const name of ["a", "b", "c"])
      ids.push((await call("POST", "/Users", { userName: `${name}@${domain}` })).body.id);
    const first = await call("GET", "/Users?startIndex=1&count=2");
    expect(first.body).toMatchObject({ totalResults: 3, startIndex: 1, itemsPerPage: 2 });
    const second = await call("GET", "/Users?startIndex=3&count=2");
    expect([...first.body.Resources, ...second.body.Resources].map(({ id }) => id)).toEqual(
      ids.toSorted(),
    );
    const none = await call("GET", "/Users?count=0");
    expect(none.body).toMatchObject({ totalResults: 3, itemsPerPage: 0, Resources: [] });
    expect((await call("GET", "/Users?startIndex=-5&count=-1")).status).toBe(200);
    const filtered = await call("GET", `/Users?filter=${encodeURIComponent('userName sw "a"')}`);
    expect([filtered.status, filtered.body.scimType]).toEqual([400, "invalidFilter"]);
    const only = await call("GET", `/Users/${ids[0] ?? ""}?attributes=userName`);
    expect(Object.keys(only.body).toSorted()).toEqual(["id", "schemas", "userName"]);
    expect((await call("GET", "/ServiceProviderConfig")).body).toMatchObject({
      patch: { supported: true },
      bulk: { supported: false },
    });
    expect((await call("GET", "/ResourceTypes")).body.totalResults).toBe(2);
    expect((await call("GET", "/Schemas")).body.totalResults).toBe(2);
  });

  test("refuses users without an email address, and bodies that are not JSON", async () => {
    const { call, token } = await connected();
    const refused = await call("POST", "/Users", { userName: "not an address" });
    expect([refused.status, refused.body.scimType]).toEqual([400, "invalidValue"]);
    expect((await call("POST", "/Users", {})).status).toBe(400);
    const broken = await fetch(`${fixture.gateway.url}/scim/v2/Users`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json" },
      body: "{",
    });
    expect([broken.status, broken.headers.get("content-type")]).toEqual([
      400,
      "application/scim+json",
    ]);
    const unknown = await call("GET", "/Nothing");
    expect([unknown.status, unknown.type]).toEqual([404, "application/scim+json"]);
  });

  test("checks the token before the body arrives, and before it is parsed", async () => {
    const { host } = new URL(fixture.gateway.url);
    const head = (length: number): string =>
      `POST /scim/v2/Users HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer scim_${"0".repeat(43)}\r\ncontent-type: application/scim+json\r\ncontent-length: ${length}\r\n\r\n`;
    expect((await sendRaw(fixture.gateway, head(2_000_000)))?.status).toBe(401);
    expect((await sendRaw(fixture.gateway, `${head(1)}{`))?.status).toBe(401);
  });

  test("changes groups as Okta and Microsoft Entra do", async () => {
    const { call, domain } = await connected();
    const ids: string[] = [];
    for (const name of ["a", "b", "c"])
      ids.push((await call("POST", "/Users", { userName: `${name}@${domain}` })).body.id);
    // Lists are in the order of ids, which is random within a millisecond.
    const [a = "", b = "", c = ""] = ids.toSorted();
    const created = await call("POST", "/Groups", {
      displayName: "Engineering",
      externalId: "8aa1a0c0",
      members: [{ value: a, display: "a" }],
    });
    const { id } = created.body;
    expect(created.status).toBe(201);
    expect((await call("POST", "/Groups", { displayName: "engineering" })).status).toBe(409);
    const patch = async (...operations: readonly unknown[]) => {
      const changed = await call("PATCH", `/Groups/${id}`, {
        schemas: [PATCH],
        Operations: operations,
      });
      return [changed.status, changed.body.members.map(({ value }) => value)];
    };
    expect(await patch({ op: "Add", path: "members", value: [{ $ref: null, value: b }] })).toEqual([
      200,
      [a, b],
    ]);
    expect(
      await patch({ op: "add", path: "members", value: [{ value: b }, { value: c }] }),
    ).toEqual([200, [a, b, c]]);
    expect(await patch({ op: "remove", path: `members[value eq "${a}"]` })).toEqual([200, [b, c]]);
    expect(
      await patch({ op: "Remove", path: "members", value: [{ $ref: null, value: b }] }),
    ).toEqual([200, [c]]);
    expect(await patch({ op: "replace", path: "members", value: [{ value: a }] })).toEqual([
      200,
      [a],
    ]);
    expect(await patch({ op: "replace", value: { id, displayName: "Platform" } })).toEqual([
      200,
      [a],
    ]);
    expect(await patch({ op: "remove", path: "members" })).toEqual([200, []]);
    const wrong = await call("PATCH", `/Groups/${id}`, {
      Operations: [{ op: "add", path: "members", value: [{ value: "scu_none" }] }],
    });
    expect([wrong.status, wrong.body.scimType]).toEqual([400, "invalidValue"]);
    await call("PUT", `/Groups/${id}`, { displayName: "Platform", members: [{ value: b }] });
    const found = await call(
      "GET",
      "/Groups?excludedAttributes=members&filter=displayName%20eq%20%22PLATFORM%22",
    );
    expect(found.body.Resources).toMatchObject([{ id, displayName: "Platform" }]);
    expect(found.body.Resources[0]).not.toHaveProperty("members");
    expect((await call("GET", `/Users/${b}`)).body.groups.map(({ value }) => value)).toEqual([id]);
    expect((await call("GET", `/Groups/${id}`)).body.members.map(({ value }) => value)).toEqual([
      b,
    ]);
    expect((await call("DELETE", `/Groups/${id}`)).status).toBe(204);
    expect((await call("GET", `/Groups/${id}`)).status).toBe(404);
    expect((await call("PUT", `/Groups/${id}`, { displayName: "x" })).status).toBe(404);
    expect(
      (await call("PATCH", `/Users/none`, { Operations: [{ op: "add", value: {} }] })).status,
    ).toBe(404);
  });

  test("gives members the role of their groups, from the first sign-in on", async () => {
    const { call, domain, id: accountId } = await connected();
    const email = `kim@${domain}`;
    const { id: userId } = (await call("POST", "/Users", { userName: email })).body;
    const admins = (await call("POST", "/Groups", { displayName: "Admins" })).body.id;
    const billing = (
      await call("POST", "/Groups", { displayName: "Billing", members: [{ value: userId }] })
    ).body.id;
    const act = actIn(accountId, Date.now());
    await fixture.gateway.server.db.write(async (tx) => {
      await setGroupRole(tx, act, { id: admins, role: "admin" });
      await setGroupRole(tx, act, { id: billing, role: "billing" });
    });
    await signInWithSso(fixture, accountId, { sub: "kim", email });
    expect(await roleIn(accountId, email)).toBe("billing");
    const add = { Operations: [{ op: "add", path: "members", value: [{ value: userId }] }] };
    await call("PATCH", `/Groups/${admins}`, add);
    expect(await roleIn(accountId, email)).toBe("admin");
    await call("DELETE", `/Groups/${admins}`);
    expect(await roleIn(accountId, email)).toBe("billing");
    const remove = { Operations: [{ op: "remove", path: `members[value eq "${userId}"]` }] };
    await call("PATCH", `/Groups/${billing}`, remove);
    expect(await roleIn(accountId, email)).toBe("viewer");
  });

  test("removes a leaver with their sessions and keys, and keeps them out", async () => {
    const { call, domain, id: accountId, account } = await connected();
    const { db } = fixture.gateway.server;
    const email = `leo@${domain}`;
    const { id } = (await call("POST", "/Users", { userName: email })).body;
    const { browser } = await signInWithSso(fixture, accountId, { sub: "leo", email });
    const person = await db.get("select id from person where email = ?", [email]);
    await db.write((tx) =>
      tx.run("update api_key set created_by = ? where account_id = ?", [
        String(person?.["id"]),
        accountId,
      ]),
    );
    // The address in the directory changes before the person leaves: the member is still the same.
    await call("PATCH", `/Users/${id}`, {
      Operations: [{ op: "replace", path: "userName", value: `leonard@${domain}` }],
    });
    expect(await roleIn(accountId, email)).toBe("viewer");
    await call("PATCH", `/Users/${id}`, {
      Operations: [{ op: "Replace", path: "active", value: "False" }],
    });
    expect(await roleIn(accountId, email)).toBeUndefined();
    const ended = await browser.visit(`${fixture.gateway.url}/sessions`);
    expect(ended.text).not.toContain(email);
    const keys = await fetch(`${fixture.gateway.url}/v1/account`, { headers: account.headers });
    expect(keys.status).toBe(401);
    for (const address of [email, `leonard@${domain}`]) {
      const back = await signInWithSso(fixture, accountId, { sub: "leo", email: address });
      expect(back.page.text).toContain("is deactivated in your organization");
    }
    await call("PATCH", `/Users/${id}`, {
      Operations: [{ op: "replace", value: { active: true } }],
    });
    const back = await signInWithSso(fixture, accountId, { sub: "leo", email });
    expect(back.page.url.pathname).toBe(`/console/${accountId}`);
  });

  test("hands over the keys of a leaver to the owner, where that is chosen", async () => {
    const { call, domain, id: accountId, account, owner } = await connected();
    const { db } = fixture.gateway.server;
    const path = `/console/${accountId}/directory-sync`;
    const settings = { do: "save", fallback_role: "viewer", keys: "hand_over" };
    await visitPage(fixture.gateway, path, owner, settings);
    const member = await createUser(fixture.gateway, `leaver-${store}`);
    await db.write((tx) =>
      tx.run("update person set email = ? where id = ?", [`old@${domain}`, member.personId]),
    );
    await makeMember(fixture.gateway, accountId, member, "developer");
    await db.write((tx) =>
      tx.run("update api_key set created_by = ? where account_id = ?", [
        member.personId,
        accountId,
      ]),
    );
    const { id } = (await call("POST", "/Users", { userName: `old@${domain}` })).body;
    expect(await isOpen(member, accountId)).toBe(true);
    await call("DELETE", `/Users/${id}`);
    expect(await isOpen(member, accountId)).toBe(false);
    const live = await fetch(`${fixture.gateway.url}/v1/account`, { headers: account.headers });
    expect(live.status).toBe(200);
    const rows = await db.all("select created_by from api_key where account_id = ?", [accountId]);
    expect(rows.map((row) => row["created_by"])).toEqual([owner.personId]);
  });

  test("never removes or changes the owner", async () => {
    const { call, domain, id: accountId, owner } = await connected();
    const { db } = fixture.gateway.server;
    await db.write((tx) =>
      tx.run("update person set email = ? where id = ?", [`boss@${domain}`, owner.personId]),
    );
    const { id } = (await call("POST", "/Users", { userName: `boss@${domain}` })).body;
    const group = (await call("POST", "/Groups", { displayName: "All", members: [{ value: id }] }))
      .body.id;
    await db.write((tx) =>
      setGroupRole(tx, actIn(accountId, Date.now()), { id: group, role: "viewer" }),
    );
    await call("PATCH", `/Users/${id}`, {
      Operations: [{ op: "replace", value: { active: false } }],
    });
    await call("DELETE", `/Users/${id}`);
    expect(await roleIn(accountId, `boss@${domain}`)).toBe("owner");
    expect(await isOpen(owner, accountId)).toBe(true);
  });

  test("reaches only the workspace of the token", async () => {
    const [mine, other] = [await connected(), await connected()];
    const { id } = (await other.call("POST", "/Users", { userName: `x@${other.domain}` })).body;
    const group = (await other.call("POST", "/Groups", { displayName: "Theirs" })).body.id;
    const body = { Operations: [{ op: "replace", value: { active: false, displayName: "x" } }] };
    for (const path of [`/Users/${id}`, `/Groups/${group}`]) {
      expect((await mine.call("GET", path)).status).toBe(404);
      expect((await mine.call("PATCH", path, body)).status).toBe(404);
      const replaced = await mine.call("PUT", path, { userName: "x@y.example", displayName: "x" });
      expect(replaced.status).toBe(404);
      expect((await mine.call("DELETE", path)).status).toBe(404);
    }
    expect((await mine.call("GET", "/Users")).body.totalResults).toBe(0);
    expect((await mine.call("GET", "/Groups")).body.totalResults).toBe(0);
    const stolen = await mine.call("POST", "/Groups", {
      displayName: "g",
      members: [{ value: id }],
    });
    expect(stolen.status).toBe(400);
    expect((await other.call("GET", `/Users/${id}`)).body.active).toBe(true);
    // A member of another workspace with the same address stays there.
    const member = await createUser(fixture.gateway, `shared-${store}`);
    await makeMember(fixture.gateway, other.id, member, "developer");
    const theirs = (await mine.call("POST", "/Users", { userName: member.email, active: false }))
      .body;
    expect(theirs.active).toBe(false);
    expect(await isOpen(member, other.id)).toBe(true);
  });

  test("accepts the former token for a day after the rotation, and no other token", async () => {
    const { account, token, call, ...workspace } = await connected();
    const { db } = fixture.gateway.server;
    for (const wrong of ["", "scim_", `${token}x`, account.key]) {
      const refused = await caller(wrong)("GET", "/Users");
      expect([refused.status, refused.type]).toEqual([401, "application/scim+json"]);
    }
    const [stored] = await db.all("select * from scim_directory where account_id = ?", [
      account.id,
    ]);
    expect(Object.values(stored ?? {}).map(String)).not.toContain(token);
    const next = await tokenOf({ ...workspace, account });
    expect([next === token, next.length]).toEqual([false, token.length]);
    expect((await call("GET", "/Users")).status).toBe(200);
    expect((await caller(next)("GET", "/Users")).status).toBe(200);
    await db.write((tx) =>
      tx.run("update scim_directory set former_until = ? where account_id = ?", [
        Date.now() - 1,
        account.id,
      ]),
    );
    expect((await call("GET", "/Users")).status).toBe(401);
    const path = `/console/${account.id}/directory-sync`;
    await visitPage(fixture.gateway, path, workspace.owner, { do: "disable" });
    expect((await caller(next)("GET", "/Users")).status).toBe(401);
    const actions = await listAudit(fixture.gateway, account, "target=" + account.id);
    expect(actions.map(({ action }) => action)).toEqual(
      expect.arrayContaining([
        "directory.enabled",
        "directory.token_rotated",
        "directory.disabled",
      ]),
    );
  });
});
