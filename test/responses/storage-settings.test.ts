// Which responses are stored: the operator's and the account's setting, through the API and the console.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { recordPerson } from "../../src/people/people.ts";
import { errorOf, type Json } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { call, createResponse, fundedAccount, getResponse, openGateway } from "./harness.ts";

const PATH = "/v1/account/response-storage";

for (const store of STORE_KINDS) {
  describe(`storage settings on ${store}`, () => {
    let gateway: Gateway;
    let nowMs = Date.now();
    beforeAll(async () => {
      gateway = await openGateway({ store, providers: ["sim"], now: () => nowMs });
    });
    afterAll(() => gateway.stop());

    const create = (account: TestAccount, fields: Json = {}): Promise<Json> =>
      createResponse(gateway, account, { model: "sim/echo", input: "x", ...fields });
    const isStored = async (account: TestAccount, fields: Json = {}): Promise<boolean> => {
      const { id } = await create(account, fields);
      return (await getResponse(gateway, account, id)).status === 200;
    };
    const set = async (account: TestAccount, body: Json): Promise<Json> => {
      const { status, json, text } = await call(gateway, account, `PATCH ${PATH}`, { body });
      if (status !== 200) throw new Error(text);
      // Cached key lookups have the previous setting for some seconds.
      nowMs += 10_000;
      return json;
    };

    test("are those of the gateway at first", async () => {
      const account = await fundedAccount(gateway);
      await create(account);
      const { json } = await call(gateway, account, `GET ${PATH}`);
      expect(json).toMatchObject({
        store: "by_default",
        retention_days: 30,
        operator: { store: "by_default", retention_days: 30 },
        stored: { responses: 1 },
      });
      expect((json["stored"] as Json)["bytes"]).toBeGreaterThan(0);
    });

    test("can be stricter for an account", async () => {
      const account = await fundedAccount(gateway);
      expect(await set(account, { store: "on_request" })).toMatchObject({ store: "on_request" });
      expect(await isStored(account)).toBe(false);
      expect(await isStored(account, { store: true })).toBe(true);
      await set(account, { store: "never" });
      expect(await isStored(account, { store: true })).toBe(false);
      const background = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", background: true },
      });
      expect([background.status, errorOf(background.json)["param"]]).toEqual([400, "background"]);
      await set(account, { store: "by_default" });
      expect(await isStored(account)).toBe(true);
    });

    test("are not changed by a key with a limit or with a policy", async () => {
      const account = await fundedAccount(gateway);
      const { id } = await create(account);
      for (const restriction of [
        { limit_usd: 0.01 },
        { allowed_models: ["sim/*"] },
        { scopes: ["models:write"] },
      ]) {
        const { json } = await call(gateway, account, "POST /v1/keys", { body: restriction });
        const restricted = {
          ...account,
          headers: { authorization: `Bearer ${String(json["api_key"])}` },
        };
        for (const change of [{ store: "never" }, { retention_days: 1 }]) {
          const refused = await call(gateway, restricted, `PATCH ${PATH}`, { body: change });
          expect([refused.status, errorOf(refused.json)["required_scope"]]).toEqual([
            403,
            "account:write",
          ]);
        }
        expect((await call(gateway, restricted, `GET ${PATH}`)).json["store"]).toBe("by_default");
      }
      expect((await getResponse(gateway, account, id)).status).toBe(200);
    });

    test("delete what they no longer allow", async () => {
      const account = await fundedAccount(gateway);
      const old = await create(account);
      nowMs += 5 * DAY_MS;
      const young = await create(account);
      await set(account, { retention_days: 3 });
      expect((await getResponse(gateway, account, old["id"])).status).toBe(404);
      expect((await getResponse(gateway, account, young["id"])).status).toBe(200);
      await set(account, { store: "never" });
      expect((await getResponse(gateway, account, young["id"])).status).toBe(404);
    });

    test("apply the retention time to new responses", async () => {
      const account = await fundedAccount(gateway);
      await set(account, { retention_days: 2 });
      const { id } = await create(account);
      nowMs += 2 * DAY_MS - 60_000;
      expect((await getResponse(gateway, account, id)).status).toBe(200);
      nowMs += 120_000;
      expect((await getResponse(gateway, account, id)).status).toBe(404);
    });

    test.each([
      ["store", { store: "always" }],
      ["retention_days", { retention_days: 0 }],
      ["retention_days", { retention_days: 1_000 }],
      ["keep", { keep: true }],
    ])("reject %s in %j", async (param, body) => {
      const account = await fundedAccount(gateway);
      const answer = await call(gateway, account, `PATCH ${PATH}`, { body });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, param]);
    });

    test("belong to the owner once the account is claimed", async () => {
      const account = await fundedAccount(gateway);
      await gateway.server.db.write(async (tx) => {
        const identity = { issuer: "https://id.test", subject: account.id, name: "o" };
        const email = `${account.id.replaceAll("_", "")}@example.com`;
        const { id: personId } = await recordPerson(tx, { ...identity, email }, nowMs);
        await claimWorkspace(tx, { accountId: account.id, personId, via: "test", now: nowMs });
      });
      const answer = await call(gateway, account, `PATCH ${PATH}`, { body: { store: "never" } });
      expect([answer.status, errorOf(answer.json)["code"]]).toEqual([403, "forbidden"]);
      expect((await call(gateway, account, `GET ${PATH}`)).status).toBe(200);
    });
  });
}

describe("an operator's setting", () => {
  test.each([
    ["on_request", false, true],
    ["never", false, false],
  ])("%s limits every account", async (mode, byDefault, onRequest) => {
    const gateway = await openGateway({
      store: "sqlite",
      providers: ["sim"],
      env: { POSTERN_STORE_RESPONSES: mode, POSTERN_RESPONSE_RETENTION_DAYS: "7" },
    });
    const account = await fundedAccount(gateway);
    const { json } = await call(gateway, account, `PATCH ${PATH}`, {
      body: { store: "by_default", retention_days: 90 },
    });
    expect(json).toMatchObject({ store: mode, retention_days: 7 });
    for (const [fields, expected] of [
      [{}, byDefault],
      [{ store: true }, onRequest],
    ] as const) {
      const { id } = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "x",
        ...fields,
      });
      await eventually(
        async () => ((await getResponse(gateway, account, id)).status === 200) === expected,
      );
    }
    await gateway.stop();
  });
});
