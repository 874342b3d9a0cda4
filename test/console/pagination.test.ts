// Pages of the console with more rows than they show at once.

import { afterAll, describe, expect, test } from "bun:test";
import { insertKeySpend } from "../../src/ledger/ledger-rows.ts";
import { freezeAccount } from "../../src/operator/accounts/account-actions.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { textOf, visitPage } from "../billing/console-user.ts";
import { startWorkspaceHarness, usageRecordOf } from "./workspace-harness.ts";

const harness = await startWorkspaceHarness();
afterAll(() => harness.gateway.stop());

const visit = (path: string, form?: Readonly<Record<string, string>>) =>
  visitPage(harness.gateway, path, harness.owner, form);

const KEY_COLUMNS = [
  "id:text",
  "account_id:text",
  "hash:text",
  "prefix:text",
  "last4:text",
  "created_at:bigint",
  "revoked_at:bigint",
] as const;

/** Inserts keys whose ids and last characters are numbered. */
async function insertKeys(
  accountId: string,
  { count, idPrefix, revokedAt }: { count: number; idPrefix: string; revokedAt: number | null },
): Promise<void> {
  const keys = Array.from({ length: count }, (_, index) => {
    const id = idPrefix + String(index).padStart(23, "0");
    const last4 = String(index).padStart(5, "0");
    return [id, accountId, `${accountId} ${id}`, "sk-rt-", last4, 1, revokedAt] as const;
  });
  await harness.gateway.server.db.write(async (tx) => {
    await tx.insertMany("api_key", KEY_COLUMNS, keys);
    for (const [id] of keys) await insertKeySpend(tx, id, accountId, 1);
  });
}

describe("keys page", () => {
  test("shows and counts an active key below 100 newer revoked keys", async () => {
    const { path, api, claim } = await harness.newWorkspace();
    const first = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
    for (let made = 0; made < 100; made++) {
      const { id } = await api("POST", "/v1/keys", {});
      await api("DELETE", `/v1/keys/${id}`);
    }
    await claim();
    expect((await api("GET", "/v1/account")).key.id).toBe(first);
    expect(textOf(await visit(path))).toContain("1 active key");
    expect((await visit(`${path}/keys`)).text).toContain(first);
  });

  test("lists 20,000 revoked keys page by page", async () => {
    const { account, path, api, claim } = await harness.newWorkspace();
    const first = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
    await claim();
    await insertKeys(account.id, { count: 20_000, idPrefix: "key_zzz", revokedAt: 2 });
    let page = await visit(`${path}/keys`);
    expect(page.text.length).toBeLessThan(100_000);
    const seen = new Set<string>();
    for (let pages = 0; pages < 3; pages++) {
      expect(page.text).toContain(first);
      for (const [, last4 = ""] of page.text.matchAll(/<li>.*?…(\d{5})</g)) seen.add(last4);
      const older = /href="([^"#]+)#revoked">\s*Older revoked keys/.exec(page.text)?.[1] ?? path;
      page = await visit(older.replaceAll("&amp;", "&"));
    }
    expect(seen.size).toBe(300);
    expect(textOf(await visit(path))).toContain("1 active key ");
  });

  test("lists 1,000 active keys page by page", async () => {
    const { account, path, api, claim } = await harness.newWorkspace();
    const first = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
    await claim();
    await insertKeys(account.id, { count: 999, idPrefix: "key_zz0", revokedAt: null });
    const seen = new Set<string>();
    let pagePath = `${path}/keys`;
    for (let pages = 0; pages < 10; pages++) {
      const { text } = await visit(pagePath);
      expect(text.length).toBeLessThan(300_000);
      for (const [, id = ""] of text.matchAll(/href="[^"]*\/keys\/(key_\w+)"/g)) seen.add(id);
      pagePath = /href="([^"]+)">Older keys/.exec(text)?.[1] ?? pagePath;
    }
    expect([seen.size, seen.has(first)]).toEqual([1_000, true]);
  });
});

describe("webhooks page", () => {
  test("shows an active webhook below 50 newer deleted ones", async () => {
    const { path, api, claim } = await harness.newWorkspace();
    const { id } = await api("POST", "/v1/webhooks", { url: "http://127.0.0.1:21399/old" });
    for (let made = 0; made < 50; made++) {
      const created = await api("POST", "/v1/webhooks", { url: "http://127.0.0.1:21399/new" });
      await api("DELETE", `/v1/webhooks/${created.id}`);
    }
    await claim();
    expect((await api("GET", `/v1/webhooks/${id}`)).status).toBe("active");
    expect((await visit(`${path}/webhooks`)).text).toContain("21399/old");
  });
});

describe("usage page", () => {
  test("shows the groups that cost most, names keys, and exports all of them", async () => {
    const { account, path, api, claim } = await harness.newWorkspace();
    const key = (await api("GET", "/v1/account")).key.id;
    await api("PATCH", `/v1/keys/${key}`, { name: "night shift" });
    await claim();
    const calls = Array.from({ length: 301 }, (_, index) => {
      const number = String(index).padStart(4, "0");
      const keyId = index === 300 ? key : `key_zz${number}`;
      const cost = BigInt(index) * 1_000_000n;
      return {
        ...usageRecordOf(account.id, { id: `req_${number}`, keyId, model: `sim/m-${number}` }),
        cost,
      };
    });
    await harness.gateway.server.db.write((tx) => insertUsage(tx, calls));
    const byModel = await visit(`${path}/usage`);
    expect(byModel.text).toContain("sim/m-0300");
    expect(byModel.text).not.toContain("sim/m-0003");
    const byKey = textOf(await visit(`${path}/usage?by=key`));
    expect(byKey).toContain("night shift");
    expect(byKey).toContain("296 others");
    const csv = await visit(`${path}/usage.csv?by=model`);
    expect(csv.headers.get("content-disposition")).toContain("usage-by-model");
    expect(csv.text).toContain("sim/m-0003");
    expect(csv.text.split("\r\n")).toHaveLength(301 + 2);
    expect((await visit(`${path}/usage?by=moon`)).status).toBe(400);
  });
});

describe("audit log page", () => {
  test("lists all entries page by page, without the operator's email address", async () => {
    const { account, path, api, claim } = await harness.newWorkspace();
    await claim();
    const by = { type: "operator", id: "ada@operator.example" } as const;
    const freeze = { accountId: account.id, network: null, reason: "resells credits", by };
    await harness.gateway.server.db.write((tx) =>
      freezeAccount(tx, { ...freeze, now: Date.now() }),
    );
    for (let made = 0; made < 50; made++) await api("POST", "/v1/keys", {});
    const newest = await visit(`${path}/audit`);
    expect(newest.text).not.toContain(">account.frozen</span>");
    const older = /href="([^"]+)">Older</.exec(newest.text)?.[1] ?? path;
    const oldest = await visit(older);
    expect(textOf(oldest)).toContain("account.created");
    expect(textOf(oldest)).toContain("operator account.frozen");
    expect(textOf(oldest)).toContain("reason: resells credits");
    expect(oldest.text).not.toContain(by.id);
    expect(oldest.text).not.toContain("Older entries");
  });
});
