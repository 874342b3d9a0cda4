// Closing an account: what is refused, how it is reopened, what is erased in the end, and that the money stays the same.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { GRACE_MS } from "../../src/account-data/closing.ts";
import { ERASURES, eraseClosedAccounts, KEPT_TABLES } from "../../src/account-data/erasure.ts";
import { readPage, readTables } from "../../src/store/move/store-tables.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { createUser, makeOwner, textOf, visitPage } from "../billing/console-user.ts";
import { ALL_TRANSFERS } from "../ledger/fixtures.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { openStore, STORE_KINDS } from "../support/stores/stores.ts";

const CALL = {
  model: "sim/echo",
  messages: [{ role: "user", content: "Hello" }],
  max_tokens: 10,
};

const schema = await openStore("sqlite");
const tables = await readTables(schema.db);
await schema.close();

test("every table is erased or kept for a reason", () => {
  const decided = new Set([...ERASURES.map(({ table }) => table), ...Object.keys(KEPT_TABLES)]);
  expect(tables.filter(({ name }) => !decided.has(name)).map(({ name }) => name)).toEqual([]);
});

describe.each([...STORE_KINDS])("closing an account on %s", (store) => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ store, providers: ["sim", "openai"] });
  });
  afterAll(() => gateway.stop());

  const call = async (
    account: TestAccount,
    line: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const [method = "", path = ""] = line.split(" ");
    const response = await fetch(gateway.url + path, {
      method,
      headers: { ...account.headers, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type") === "application/json";
    const json: unknown = isJson ? JSON.parse(text) : {};
    return { status: response.status, text, body: Object.fromEntries(Object.entries(json ?? {})) };
  };
  /** All rows of the store as text. */
  const dump = async (): Promise<string> => {
    const texts: string[] = [];
    for (const table of tables) {
      const { rows } = await readPage(gateway.server.db, table, undefined, 10_000);
      texts.push(...rows.map((row) => `${table.name} ${JSON.stringify(row)}`));
    }
    return texts.join("\n");
  };

  test("refuses calls and purchases at once, and can be undone", async () => {
    const account = await registerAccount(gateway);
    const closed = await call(account, "DELETE /v1/account");
    expectStatus("closeAccount", 200, closed);
    expect(closed.body).toMatchObject({ id: account.id, status: "closing" });
    expect((await call(account, "DELETE /v1/account")).body).toEqual(closed.body);
    const refused = await call(account, "POST /v1/chat/completions", CALL);
    expect([refused.status, refused.text]).toEqual([
      403,
      expect.stringContaining("This workspace has been closing since"),
    ]);
    const purchase = await call(account, "POST /v1/billing/invoice", { amount_usd: 10 });
    expect([purchase.status, purchase.text]).toEqual([
      403,
      expect.stringContaining("takes no payments"),
    ]);
    const minted = await call(account, "POST /v1/keys", {});
    expect([minted.status, minted.body["error"]]).toMatchObject([
      403,
      {
        code: "workspace_frozen",
        message: expect.stringContaining("closing, so no key can be created"),
        next: [{ method: "POST", url: "/v1/account/reopen" }],
      },
    ]);
    const read = await call(account, "GET /v1/account");
    expect(read.body["closing"]).toMatchObject({ since: closed.body["closing_since"] });
    expect(await eraseClosedAccounts(gateway.server.db, Date.now())).toEqual([]);

    const reopened = await call(account, "POST /v1/account/reopen");
    expectStatus("reopenAccount", 200, reopened);
    expect((await call(account, "POST /v1/chat/completions", CALL)).status).toBe(200);
    const audit = await call(account, "GET /v1/audit");
    expect(audit.text).toContain("account.closing");
    expect(audit.text).toContain("account.reopened");
  });

  test("a key cannot close a claimed account, or without the scope", async () => {
    const account = await registerAccount(gateway);
    const limited = await call(account, "POST /v1/keys", { limit_usd: 1 });
    const authorization = `Bearer ${String(limited.body["api_key"])}`;
    const scoped = await call(account, "DELETE /v1/account", undefined, { authorization });
    expect([scoped.status, scoped.text]).toEqual([403, expect.stringContaining("account:close")]);
    await makeOwner(gateway, account.id, await createUser(gateway, `owner-a-${store}`));
    const closed = await call(account, "DELETE /v1/account");
    expectStatus("closeAccount", 403, closed);
    expect(closed.text).toContain("only its owner can close");
    const reopened = await call(account, "POST /v1/account/reopen");
    expectStatus("reopenAccount", 403, reopened);
    const twoKeys = { "x-api-key": "pst-rt-other" };
    expectStatus(
      "closeAccount",
      400,
      await call(account, "DELETE /v1/account", undefined, twoKeys),
    );
    const reopen = await call(account, "POST /v1/account/reopen", undefined, twoKeys);
    expectStatus("reopenAccount", 400, reopen);
  });

  test("the owner closes it in the console with its name, and reopens it", async () => {
    const account = await registerAccount(gateway);
    const owner = await createUser(gateway, `owner-b-${store}`);
    await makeOwner(gateway, account.id, owner);
    const path = `/console/${account.id}/closing`;
    const wrong = await visitPage(gateway, path, owner, { do: "close", confirm: "acct" });
    expect([wrong.status, textOf(wrong)]).toEqual([
      400,
      expect.stringContaining("Nothing was closed"),
    ]);
    expect((await call(account, "GET /v1/account")).body["closing"]).toBeNull();
    await visitPage(gateway, path, owner, { do: "close", confirm: account.id });
    expect((await call(account, "GET /v1/account")).body["closing"]).not.toBeNull();
    const settings = await visitPage(gateway, `/console/${account.id}/settings`, owner);
    expect(textOf(settings)).toContain("This workspace is closing");
    const overview = await visitPage(gateway, `/console/${account.id}`, owner);
    expect(textOf(overview)).toContain("This workspace has been closing since");
    await visitPage(gateway, path, owner, { do: "reopen" });
    expect((await call(account, "POST /v1/chat/completions", CALL)).status).toBe(200);
  });

  test("erases personal data after 14 days, and keeps the money and the other accounts", async () => {
    const { db } = gateway.server;
    const account = await registerAccount(gateway);
    const other = await registerAccount(gateway);
    for (const each of [account, other]) {
      const canary = each === account ? "canary" : "neighbor";
      await call(each, "PATCH /v1/account", { name: `${canary}-name` });
      await call(each, "POST /v1/keys", { name: `${canary}-key` });
      await call(each, "POST /v1/provider-keys", {
        provider: "openai",
        api_key: `sk-0123456789abcdefghij0123456789-${canary}`,
        name: `${canary}-provider`,
      });
      await call(each, "POST /v1/webhooks", {
        url: `http://127.0.0.1:9/${canary}`,
        events: ["*"],
        description: canary,
      });
      await call(each, "POST /v1/billing/invoice", { amount_usd: 10 });
      const labels = { "x-postern-labels": `customer=${canary}` };
      await call(each, "POST /v1/chat/completions", CALL, labels);
      await call(each, "POST /v1/responses", { model: "sim/echo", input: "Hi", store: true });
      await call(each, "POST /agent/identity/claim", { email: `${canary}@example.com` });
    }
    const owner = await createUser(gateway, `canary-owner-${store}`);
    const shared = await createUser(gateway, `shared-${store}`);
    await makeOwner(gateway, account.id, owner);
    await makeOwner(gateway, other.id, shared);
    const path = `/console/${account.id}/closing`;
    await visitPage(gateway, path, owner, { do: "close", confirm: "canary-name" });
    expect(await dump()).toContain("canary");
    await rollUpUsage(db);
    const money = async () => [
      await db.all("select * from wallet order by account_id"),
      await db.all(`select * from ${ALL_TRANSFERS} order by account_id, id`),
      await db.all("select * from invoice order by id"),
      (await verifyLedger(db)).problems,
    ];
    const before = await money();
    expect(before[3]).toEqual([]);

    const due = Date.now() + GRACE_MS;
    expect(await eraseClosedAccounts(db, due - 60_000)).toEqual([]);
    expect(await eraseClosedAccounts(db, due)).toEqual([account.id]);
    expect(await eraseClosedAccounts(db, due)).toEqual([]);
    expect(await money()).toEqual(before);
    const kept = (await dump()).split("\n").filter((line) => line.includes("canary"));
    // The subject of the identity provider prevents a second bonus.
    expect(kept.filter((line) => !line.startsWith("human_grant"))).toEqual([]);
    expect((await call(account, "GET /v1/account")).status).toBe(401);
    const neighbor = await call(other, "GET /v1/account/export");
    for (const kind of [
      "neighbor-name",
      "neighbor-key",
      `"customer":"neighbor"`,
      "127.0.0.1:9/neighbor",
    ])
      expect(neighbor.text).toContain(kind);
  });

  test("waits for money in flight, and erases the network of the account's creator", async () => {
    const { db } = gateway.server;
    const account = await registerAccount(gateway);
    expect((await call(account, "DELETE /v1/account")).status).toBe(200);
    await db.write(async (tx) => {
      await tx.run("update account set created_from = ? where id = ?", [
        "203.0.113.0/24",
        account.id,
      ]);
      await tx.run(
        `insert into hold (id, account_id, key_id, amount, process, epoch, created_at, expires_at)
         select 'req_of_a_call', account_id, id, 0, 'gone', 1, 0, 0 from api_key where account_id = ?`,
        [account.id],
      );
    });
    const later = Date.now() + GRACE_MS + 60_000;
    expect(await eraseClosedAccounts(db, later)).not.toContain(account.id);
    const networks = () => db.get("select created_from from account where id = ?", [account.id]);
    expect(await networks()).toMatchObject({ created_from: "203.0.113.0/24" });
    await db.write((tx) => tx.run("delete from hold where id = 'req_of_a_call'", []));
    expect(await eraseClosedAccounts(db, later)).toContain(account.id);
    expect(await networks()).toMatchObject({ created_from: "" });
  });

  test("does not reopen after the grace period", async () => {
    const account = await registerAccount(gateway);
    await call(account, "DELETE /v1/account");
    await gateway.server.db.write((tx) =>
      tx.run("update wallet set closing_at = closing_at - ? where account_id = ?", [
        GRACE_MS,
        account.id,
      ]),
    );
    const late = await call(account, "POST /v1/account/reopen");
    expectStatus("reopenAccount", 409, late);
  });
});
