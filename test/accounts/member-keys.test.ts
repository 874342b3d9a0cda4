// What a developer may do to keys: create them within an allowance, change their own, raise nothing.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { changeMember, claimWorkspace, removeMember } from "../../src/accounts/members.ts";
import type { Tx } from "../../src/store/db.ts";
import { createUser, makeDeveloper, type TestUser, visitPage } from "../billing/console-user.ts";
import { call, chat, type Json, textAt, listAt } from "../spec/api-client.ts";
import { actIn, addDeveloper } from "../support/act.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const USD = 1_000_000_000n;

describe.each(STORE_KINDS)("keys of a developer on %s", (store) => {
  let gateway: Gateway;
  let owner: TestUser;
  let developer: TestUser;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    owner = await createUser(gateway, "olga");
    developer = await createUser(gateway, "dev");
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    account = await registerAccount(gateway);
  });

  const now = Date.now();
  const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => gateway.server.db.write(work);
  const claim = (): Promise<void> =>
    write((tx) =>
      claimWorkspace(tx, { accountId: account.id, personId: owner.personId, via: "test", now }),
    );
  /** The developer joins through a claim that the key started. */
  const joinThrough = (keyId: string): Promise<unknown> =>
    write((tx) =>
      addDeveloper(tx, {
        accountId: account.id,
        personId: developer.personId,
        via: "test",
        viaKeyId: keyId,
        now,
      }),
    );
  /** Creates a key, or changes the key of the form. */
  const submit = ({ key, ...form }: Readonly<Record<string, string>>, user = developer) =>
    visitPage(
      gateway,
      `/console/${account.id}/keys${key === undefined ? "" : `/${key}`}`,
      user,
      form,
    );
  const rawIn = (text: string): string => /pst-rt-\w+/.exec(text)?.[0] ?? "";
  const setAllowance = (limit: bigint, window: "day" | null = null): Promise<void> =>
    write((tx) =>
      changeMember(tx, actIn(account.id, Date.now()), developer.personId, {
        role: "developer",
        allowance: { limit, window },
      }),
    );
  const keysOf = async (): Promise<readonly Json[]> =>
    listAt((await call(gateway, "GET /v1/keys", { key: account.key })).body, "data");

  test("a person invited through a limited key spends no more than its remaining limit", async () => {
    const body = { limit_usd: 0.01 };
    const limited = await call(gateway, "POST /v1/keys", { key: account.key, body });
    const id = textAt(limited.body, "id");
    await claim();
    await joinThrough(id);
    expect((await submit({ do: "mint" })).text).toContain("limit of the key that invited you");
    expect((await submit({ do: "mint", limit_usd: "0.02" })).status).toBe(403);
    const created = await submit({ do: "mint", limit_usd: "0.006" });
    expect(created.status).toBe(200);
    expect((await submit({ do: "mint", limit_usd: "0.006" })).status).toBe(403);
    const own = (await keysOf()).find((key) => key["created_by"] === developer.personId);
    expect(own).toMatchObject({
      limit_usd: 0.006,
      scopes: expect.not.arrayContaining(["keys:write"]),
    });
    expect((await keysOf()).find((key) => key["id"] === id)).toMatchObject({ limit_usd: 0.004 });
    expect((await chat(gateway, rawIn(created.text))).status).toBe(200);

    for (const form of [
      { do: "change", key: String(own?.["id"]), limit_usd: "5" },
      { do: "change", key: String(own?.["id"]), limit_usd: "" },
      { do: "change", key: id, limit_usd: "0" },
      { do: "change", key: id, last_day: "2090-01-01" },
      { do: "revoke", key: id },
    ])
      expect([form, (await submit(form)).status]).toEqual([form, 403]);
    const widened = { do: "change", key: String(own?.["id"]), access: "all" };
    expect((await submit(widened)).status).toBe(403);
    expect((await submit({ ...widened, access: "models" })).status).toBe(303);
    expect((await submit(widened, owner)).status).toBe(303);
    const lowered = { do: "change", key: String(own?.["id"]), limit_usd: "0.001" };
    expect((await submit(lowered)).status).toBe(303);
    expect((await submit({ do: "revoke", key: String(own?.["id"]) })).status).toBe(303);

    await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key });
    expect((await submit({ do: "mint", limit_usd: "0.001" })).text).toContain("was revoked");
    await setAllowance(USD);
    expect((await submit({ do: "mint", limit_usd: "0.5" })).status).toBe(200);
  });

  test("a developer without an allowance creates no key, whether the owner or a key without a limit invited them", async () => {
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    const id = String(listAt(body, "data")[0]?.["id"]);
    await claim();
    await makeDeveloper(gateway, account.id, developer);
    const invited = await submit({ do: "mint", limit_usd: "0.001" });
    expect(invited.status).toBe(403);
    expect(invited.text).toContain("Request an allowance from the owner on the Keys page.");
    await write((tx) => removeMember(tx, actIn(account.id, Date.now()), developer.personId));
    await joinThrough(id);
    const joined = await submit({ do: "mint", limit_usd: "0.001" });
    expect(joined.status).toBe(403);
    expect(joined.text).toContain("has no limit to share");
    expect(await keysOf()).toHaveLength(1);
    const page = await visitPage(gateway, `/console/${account.id}/members`, owner);
    expect(page.text).toContain(
      "Creates keys only from the limit of the key that invited this person",
    );
    await setAllowance(USD);
    expect((await submit({ do: "mint", limit_usd: "0.5" })).status).toBe(200);
  });

  test("an allowance bounds all keys of a developer together, revoked ones with what they spent", async () => {
    await claim();
    await makeDeveloper(gateway, account.id, developer);
    await setAllowance(USD, "day");
    for (const [form, status] of [
      [{ limit_usd: "" }, 403],
      [{ limit_usd: "2" }, 403],
      [{ limit_usd: "1", limit_window: "month" }, 403],
      [{ limit_usd: "0.75", limit_window: "day" }, 200],
      [{ limit_usd: "0.5", limit_window: "day" }, 403],
      [{ limit_usd: "0.25" }, 200],
      [{ limit_usd: "0.01" }, 403],
    ] as const)
      expect([form, (await submit({ do: "mint", ...form })).status]).toEqual([form, status]);
    const [, large] = (await keysOf()).filter((key) => key["created_by"] === developer.personId);
    expect((await submit({ do: "revoke", key: String(large?.["id"]) })).status).toBe(303);
    expect((await submit({ do: "mint", limit_usd: "0.75" })).status).toBe(200);
  });

  test("what is derived from a developer's keys counts against the allowance, also once it is revoked", async () => {
    await claim();
    await makeDeveloper(gateway, account.id, developer);
    await setAllowance(USD);
    const key = rawIn((await submit({ do: "mint", limit_usd: "1" })).text);
    expect((await submit({ do: "mint", limit_usd: "0.1" })).status).toBe(403);
    const derived = deriveKey(deriveKey(key, { usd: "1" }), { usd: "0.9" });
    expect((await chat(gateway, derived)).status).toBe(200);
    // Its limit was set aside from that of the key above it, which has none left.
    expect((await submit({ do: "mint", limit_usd: "0.1" })).status).toBe(403);
    const page = await visitPage(gateway, `/console/${account.id}/keys?ask=create`, developer);
    expect(page.text).toContain("Your allowance of $1.00 is used up by your keys.");
    const own = (await keysOf()).find((one) => one["created_by"] === developer.personId);
    expect((await submit({ do: "revoke", key: String(own?.["id"]) })).status).toBe(303);
    expect((await submit({ do: "mint", limit_usd: "1" })).status).toBe(403);
    expect((await submit({ do: "mint", limit_usd: "0.9" })).status).toBe(200);
  });

  test("the owner changes roles and allowances, and no other role can", async () => {
    await claim();
    await makeDeveloper(gateway, account.id, developer);
    const path = `/console/${account.id}/members`;
    const form = {
      do: "change",
      person: developer.personId,
      role: "developer",
      allowance_usd: "3",
    };
    expect((await visitPage(gateway, path, developer, form)).status).toBe(403);
    expect((await visitPage(gateway, path, owner, form)).status).toBe(303);
    const page = `${path}?ask=change&person=${developer.personId}`;
    expect((await visitPage(gateway, page, owner)).text).toContain("Allowance (USD)");
    expect((await visitPage(gateway, path, owner)).text).toContain("$3.00");
    const viewer = { ...form, role: "viewer", allowance_usd: "" };
    expect((await visitPage(gateway, path, owner, viewer)).status).toBe(303);
    expect((await submit({ do: "mint" })).status).toBe(403);
    const self = { ...form, person: owner.personId };
    expect((await visitPage(gateway, path, owner, self)).status).toBe(400);
    const { body } = await call(gateway, "GET /v1/audit?action=member.changed", {
      key: account.key,
    });
    expect(listAt(body, "data").map((entry) => entry["detail"])).toMatchObject([
      { role: "viewer", allowance_usd: null },
      { role: "developer", allowance_usd: "3" },
    ]);
  });
});
