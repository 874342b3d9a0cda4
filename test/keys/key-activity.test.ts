// Every change of a key leaves an audit entry with the former values, whichever way it is made.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  createUser,
  makeDeveloper,
  makeOwner,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import { postModern } from "../mcp/raw-mcp.ts";
import { call, type Json, textAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

describe.each(STORE_KINDS)("the activity of keys on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let owner: TestUser;
  let users = 0;
  beforeAll(async () => {
    gateway = await startGateway({ store });
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    account = await registerAccount(gateway);
    owner = await createUser(gateway, `owner-${store}-${(users += 1)}`);
  });

  const createKey = async (body: Json): Promise<string> =>
    textAt((await call(gateway, "POST /v1/keys", { key: account.key, body })).body, "id");
  const entriesOf = async (keyId: string): Promise<readonly unknown[]> => {
    const rows = await gateway.server.db.all(
      "select action, actor_type, actor_id, detail, network from audit where target = ? order by id",
      [keyId],
    );
    return rows.map(({ action, actor_type, actor_id, detail, network }) => ({
      action,
      by: `${String(actor_type)} ${String(actor_id)}`,
      detail: JSON.parse(String(detail)) as unknown,
      hasNetwork: network !== null,
    }));
  };
  const eventsOf = async (keyId: string): Promise<readonly unknown[]> => {
    const rows = await gateway.server.db.all("select type, data from event order by id");
    return rows.filter(({ data }) => String(data).includes(keyId)).map(({ type }) => type);
  };

  test("through the API says what changed, with the values before and after", async () => {
    const id = await createKey({ name: "ci", scopes: ["models:write", "usage:read"] });
    const change = async (body: Json): Promise<void> => {
      const changed = await call(gateway, `PATCH /v1/keys/${id}`, { key: account.key, body });
      expect(changed.status).toBe(200);
    };
    await change({ scopes: ["models:write"] });
    await change({ limit_usd: 2, allowed_models: ["sim/*"] });
    await change({ limit_usd: 1 });
    await call(gateway, `POST /v1/keys/${id}/rotate`, { key: account.key });
    await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key });
    await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key });
    const entries = await entriesOf(id);
    expect(entries).toMatchObject([
      { action: "key.created", detail: { scopes: ["models:write", "usage:read"] } },
      {
        action: "key.changed",
        detail: { scopes: ["models:write"], scopes_before: ["models:write", "usage:read"] },
      },
      {
        action: "key.changed",
        detail: {
          limit_usd: "2",
          limit_usd_before: null,
          policy: '{"models":["sim/*"]}',
          policy_before: null,
        },
      },
      { action: "key.changed", detail: { limit_usd: "1", limit_usd_before: "2" } },
      {
        action: "key.rotated",
        detail: { last4_before: expect.any(String), former_secret_until: expect.any(String) },
      },
      { action: "key.revoked", hasNetwork: true },
    ]);
    expect(JSON.stringify(entries[3])).not.toContain("scopes_before");
    expect(new Set(await eventsOf(id))).toEqual(
      new Set(["key.created", "key.rotated", "key.revoked"]),
    );
  });

  test("through MCP and the console is recorded like through the API", async () => {
    const params = { name: "create_key", arguments: { name: "mcp" } };
    await postModern(gateway, { method: "tools/call", params, key: account.key });
    const row = await gateway.server.db.get(
      "select id from api_key where account_id = ? and name = 'mcp'",
      [account.id],
    );
    const id = String(row?.["id"]);
    await makeOwner(gateway, account.id, owner);
    const path = `/console/${account.id}/keys/${id}`;
    expect((await visitPage(gateway, path, owner, { do: "change", access: "models" })).status).toBe(
      303,
    );
    expect((await visitPage(gateway, path, owner, { do: "revoke" })).status).toBe(303);
    const person = { by: `person ${owner.personId}`, hasNetwork: true };
    expect(await entriesOf(id)).toMatchObject([
      { action: "key.created", hasNetwork: true },
      {
        action: "key.changed",
        detail: { scopes: ["claim:read", "models:write", "usage:read"], scopes_before: null },
        ...person,
      },
      { action: "key.revoked", ...person },
    ]);
  });

  test("records the keys of a member who is removed", async () => {
    const developer = await createUser(gateway, `dev-${store}-${users}`);
    await makeOwner(gateway, account.id, owner);
    await makeDeveloper(gateway, account.id, developer);
    const members = `/console/${account.id}/members`;
    const allowance = {
      do: "change",
      person: developer.personId,
      role: "developer",
      allowance_usd: "5",
    };
    expect((await visitPage(gateway, members, owner, allowance)).status).toBe(303);
    const form = { do: "mint", name: "dev", limit_usd: "1" };
    expect((await visitPage(gateway, `/console/${account.id}/keys`, developer, form)).status).toBe(
      200,
    );
    const row = await gateway.server.db.get("select id from api_key where created_by = ?", [
      developer.personId,
    ]);
    const removal = { do: "remove", person: developer.personId };
    expect((await visitPage(gateway, members, owner, removal)).status).toBe(303);
    expect(await entriesOf(String(row?.["id"]))).toMatchObject([
      { action: "key.created", by: `person ${developer.personId}` },
      { action: "key.revoked", by: `person ${owner.personId}` },
    ]);
  });

  test("names the first key of an account as its own creator", async () => {
    const { body } = await call(gateway, "GET /v1/account", { key: account.key });
    const id = textAt(body, "key.id");
    expect(await entriesOf(id)).toMatchObject([{ action: "key.created", by: `key ${id}` }]);
    expect(await eventsOf(id)).toEqual([]);
  });
});
