// What an owner must be able to see in the console, however much was done around it, and what its forms keep.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  createUser,
  makeOwner,
  visitPage,
  textOf,
  type TestUser,
} from "../billing/console-user.ts";
import { launchBrowser } from "../support/browser/chromium.ts";
import { insertKeySpend } from "../../src/ledger/rows.ts";
import { freezeAccount } from "../../src/operator/accounts/account-actions.ts";
import { type UsageRecord, insertUsage } from "../../src/usage/usage.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

setDefaultTimeout(60_000);
let gateway: Gateway;
let account: TestAccount;
let owner: TestUser;
beforeAll(async () => {
  gateway = await startGateway();
  owner = await createUser(gateway, "olga");
});
afterAll(() => gateway.stop());

/** What these tests read of the API's answers. */
interface ApiReply {
  readonly id: string;
  readonly status: string;
  readonly key: { readonly id: string };
  readonly data: readonly { readonly id: string }[];
  readonly claim_attempt: { readonly verification_uri_complete: string };
}

const api = async (method: string, path: string, body?: unknown): Promise<ApiReply> => {
  const init = { method, headers: account.headers };
  const response = await fetch(
    gateway.url + path,
    body === undefined
      ? { ...init, headers: { authorization: account.headers["authorization"] ?? "" } }
      : { ...init, body: JSON.stringify(body) },
  );
  // Safe because each test reads only what the answer that it asks for has.
  return (await response.json()) as ApiReply;
};
const newWorkspace = async (): Promise<string> => {
  account = await registerAccount(gateway);
  return `/console/${account.id}`;
};

test("every live key is on the page, and counted, however many were revoked after it", async () => {
  const place = await newWorkspace();
  const first = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
  for (let made = 0; made < 100; made++) {
    const { id } = await api("POST", "/v1/keys", {});
    await api("DELETE", `/v1/keys/${id}`);
  }
  await makeOwner(gateway, account.id, owner);
  expect((await api("GET", "/v1/account")).key.id).toBe(first);
  expect(textOf(await visitPage(gateway, place, owner))).toContain("1 live key");
  expect((await visitPage(gateway, `${place}/keys`, owner)).text).toContain(first);
});

function usageRecordOf(
  accountId: string,
  call: Pick<UsageRecord, "id" | "keyId" | "model">,
): UsageRecord {
  const tokens = { inputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens: 1 };
  return {
    ...call,
    ...tokens,
    accountId,
    createdAt: Date.now(),
    provider: "sim",
    api: "chat",
    stream: false,
    outcome: "completed",
    status: 200,
    reasoningTokens: 0,
    price: [],
    attempts: [],
    cost: 1n,
    byok: false,
    exact: true,
    latencyMs: 1,
    firstTokenMs: null,
  };
}

const KEY_COLUMNS = [
  "id:text",
  "account_id:text",
  "hash:text",
  "prefix:text",
  "last4:text",
  "created_at:bigint",
  "revoked_at:bigint",
] as const;

test("the page of the keys stays short, however many were revoked", async () => {
  const place = await newWorkspace();
  const first = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
  await makeOwner(gateway, account.id, owner);
  const keys = Array.from({ length: 20_000 }, (_one, count) => {
    const id = `key_zzz${String(count).padStart(23, "0")}`;
    return [id, account.id, id, "sk-rt-", String(count).padStart(5, "0"), 1, 2] as const;
  });
  await gateway.server.db.write(async (tx) => {
    await tx.insertMany("api_key", KEY_COLUMNS, keys);
    for (const [id] of keys) await insertKeySpend(tx, id, account.id, 1);
  });
  const page = await visitPage(gateway, `${place}/keys`, owner);
  expect(page.text).toContain(first);
  expect(page.text.length).toBeLessThan(100_000);
  const seen = new Set<string>();
  let shown = page;
  for (let pages = 0; pages < 3; pages++) {
    expect(shown.text).toContain(first);
    for (const [, last4 = ""] of shown.text.matchAll(/<li><bdi>.*?…(\d{5})</g)) seen.add(last4);
    const older = /href="([^"#]+)#revoked">\s*Older revoked keys/.exec(shown.text)?.[1] ?? place;
    shown = await visitPage(gateway, older.replaceAll("&amp;", "&"), owner);
  }
  expect(seen.size).toBe(300);
  expect(textOf(await visitPage(gateway, place, owner))).toContain("1 live key ");
});

test("a thousand live keys are shown a hundred at a time, and a form leads back to its page", async () => {
  const place = await newWorkspace();
  const first = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
  await makeOwner(gateway, account.id, owner);
  const keys = Array.from({ length: 999 }, (_one, count) => {
    const id = `key_zz${String(count).padStart(24, "0")}`;
    return [id, account.id, `${account.id} ${id}`, "sk-rt-", "last", 1, null] as const;
  });
  await gateway.server.db.write(async (tx) => {
    await tx.insertMany("api_key", KEY_COLUMNS, keys);
    for (const [id] of keys) await insertKeySpend(tx, id, account.id, 1);
  });
  const seen = new Set<string>();
  let path = `${place}/keys`;
  for (let pages = 0; pages < 10; pages++) {
    const { text } = await visitPage(gateway, path, owner);
    expect(text.length).toBeLessThan(300_000);
    for (const [, id = ""] of text.matchAll(/<h2 id="(key_\w+)"/g)) seen.add(id);
    path = /href="([^"]+)">Older keys/.exec(text)?.[1] ?? path;
  }
  expect([seen.size, seen.has(first)]).toEqual([1_000, true]);
  const from = path.slice(path.indexOf("key_"));
  const limit = { do: "limit", key: first, from, limit_usd: "3", limit_window: "" };
  expect((await visitPage(gateway, `${place}/keys`, owner, limit)).location).toBe(path);
  const refused = await visitPage(gateway, `${place}/keys`, owner, {
    ...limit,
    limit_usd: "3 EUR",
  });
  expect(refused.text).toContain('value="3 EUR"');
});

test("every live webhook is on the page, however many were deleted after it", async () => {
  const place = await newWorkspace();
  const { id } = await api("POST", "/v1/webhooks", { url: "http://127.0.0.1:21399/old" });
  for (let made = 0; made < 50; made++) {
    const { id: other } = await api("POST", "/v1/webhooks", { url: "http://127.0.0.1:21399/new" });
    await api("DELETE", `/v1/webhooks/${other}`);
  }
  await makeOwner(gateway, account.id, owner);
  expect((await api("GET", `/v1/webhooks/${id}`)).status).toBe("active");
  expect((await visitPage(gateway, `${place}/webhooks`, owner)).text).toContain("21399/old");
});

test("changing when a limit opens again keeps the limit", async () => {
  const place = await newWorkspace();
  const { id } = await api("POST", "/v1/keys", { limit_usd: 5, limit_window: "day" });
  await makeOwner(gateway, account.id, owner);
  const page = await visitPage(gateway, `${place}/keys`, owner);
  const shown = new RegExp(`id="${id}-limit"[^>]*>`).exec(page.text)?.[0] ?? "";
  // What the form holds when the owner only picks another window and presses the button.
  const limit = /value="([^"]*)"/.exec(shown)?.[1] ?? "";
  await visitPage(gateway, `${place}/keys`, owner, {
    do: "limit",
    key: id,
    limit_usd: limit,
    limit_window: "week",
  });
  expect(await api("GET", `/v1/keys/${id}`)).toMatchObject({ limit_usd: 5, limit_window: "week" });
});

test("a limit or an expiry of a key that was refused stays in its form", async () => {
  const place = await newWorkspace();
  const { id } = await api("POST", "/v1/keys", { limit_usd: 5, limit_window: "day" });
  await makeOwner(gateway, account.id, owner);
  const send = async (form: Readonly<Record<string, string>>): Promise<string> => {
    const refused = await visitPage(gateway, `${place}/keys`, owner, { key: id, ...form });
    expect(refused.status).toBe(400);
    return refused.text.slice(refused.text.indexOf(`id="${id}"`));
  };
  const limit = await send({ do: "limit", limit_usd: "7.5 EUR", limit_window: "week" });
  expect(limit).toMatch(new RegExp(`id="${id}-limit"[^>]* value="7\\.5 EUR"`));
  expect(/<option [^>]*selected[^>]*>/.exec(limit)?.[0]).toContain('value="week"');
  const expiry = await send({ do: "expiry", last_day: "2001-02-03" });
  expect(expiry).toMatch(new RegExp(`id="${id}-expiry"[^>]* value="2001-02-03"`));
  expect(expiry).toMatch(new RegExp(`id="${id}-limit"[^>]* value="5"`));
});

test("the tables of usage name their keys and their days, and go on where they end", async () => {
  const place = await newWorkspace();
  const key = (await api("GET", "/v1/account")).key.id;
  await api("PATCH", `/v1/keys/${key}`, { name: "night shift" });
  await makeOwner(gateway, account.id, owner);
  const calls = Array.from({ length: 1_001 }, (_one, count) => {
    const number = String(count).padStart(4, "0");
    const keyId = count === 0 ? key : `key_zz${number}`;
    return usageRecordOf(account.id, { id: `req_${number}`, keyId, model: `sim/model-${number}` });
  });
  await gateway.server.db.write((tx) => insertUsage(tx, calls));
  const usage = `${place}/usage`;
  const first = await visitPage(gateway, usage, owner);
  expect(textOf(first)).toContain("Day, in UTC");
  expect(textOf(await visitPage(gateway, place, owner))).toContain("Day, in UTC");
  expect(first.text).not.toContain("sim/model-0000");
  const [models = "", keys = ""] = [...first.text.matchAll(/href="([^"]+)#(?:models|keys)"/g)].map(
    ([, href = ""]) => href.replaceAll("&amp;", "&"),
  );
  expect((await visitPage(gateway, models, owner)).text).toContain("sim/model-0000");
  const last = await visitPage(gateway, keys, owner);
  expect(textOf(last)).toContain("night shift");
  expect(last.text).toContain("The first keys");
  expect(last.text).toContain("sim/model-1000");
  expect((await visitPage(gateway, `${usage}?models=key:x`, owner)).status).toBe(400);
});

test("a name of a model without a break leaves its figures in sight", async () => {
  const place = await newWorkspace();
  await makeOwner(gateway, account.id, owner);
  const keyId = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
  const call = usageRecordOf(account.id, {
    id: `req_long_${keyId}`,
    keyId,
    model: `sim/${"m".repeat(180)}`,
  });
  await gateway.server.db.write((tx) => insertUsage(tx, [call]));
  const browser = await launchBrowser();
  try {
    const context = await browser.newContext({ viewport: { width: 1_280, height: 800 } });
    const [name = "", value = ""] = owner.cookie.split("=");
    await context.addCookies([{ name, value, url: gateway.url }]);
    const page = await context.newPage();
    await page.goto(`${gateway.url}${place}/usage`);
    const table = page.getByRole("region", { name: "Usage by model" });
    const [content, room] = await table.evaluate((node) => [node.scrollWidth, node.clientWidth]);
    expect(content).toBeLessThanOrEqual(room ?? 0);
  } finally {
    await browser.close();
  }
});

test("the log of who did what is read to its beginning, and does not name the operator", async () => {
  const place = await newWorkspace();
  await makeOwner(gateway, account.id, owner);
  const frozen = { accountId: account.id, network: null, reason: "resells credits" };
  const by = { type: "operator", id: "ada@operator.example" } as const;
  await gateway.server.db.write((tx) => freezeAccount(tx, { ...frozen, by, now: Date.now() }));
  for (let made = 0; made < 50; made++) await api("POST", "/v1/keys", {});
  const newest = await visitPage(gateway, `${place}/audit`, owner);
  expect(newest.text).not.toContain("account.frozen");
  const older = /href="([^"]+)">\s*Older entries/.exec(newest.text)?.[1] ?? place;
  const oldest = await visitPage(gateway, older, owner);
  expect(textOf(oldest)).toContain("account.created");
  expect(textOf(oldest)).toContain("operator account.frozen");
  expect(textOf(oldest)).toContain("reason: resells credits");
  expect(oldest.text).not.toContain(by.id);
  expect(oldest.text).not.toContain("Older entries");
});

test("what no form of the page can send is refused all the same: long names, days that there are not", async () => {
  const place = await newWorkspace();
  await makeOwner(gateway, account.id, owner);
  for (const [form, said] of [
    [{ name: "x".repeat(101) }, "name must have 100 characters or fewer."],
    [{ last_day: "2098-02-30" }, "The last day must be a date"],
  ] as const) {
    const refused = await visitPage(gateway, `${place}/keys`, owner, { do: "mint", ...form });
    expect([refused.status, textOf(refused)]).toEqual([400, expect.stringContaining(said)]);
  }
  const said = /The form field “(\w+)” is missing or invalid\./;
  for (const [page, form, field] of [
    ["keys", {}, "do"],
    ["members", { do: "nope" }, "do"],
    ["keys", { do: "revoke" }, "key"],
    ["keys", { do: "revoke", key: "key_none", from: "x" }, "from"],
    ["budgets", {}, "daily_usd"],
  ] as const) {
    const refused = await visitPage(gateway, `${place}/${page}`, owner, form);
    expect([refused.status, said.exec(textOf(refused))?.[1]]).toEqual([400, field]);
    expect(textOf(refused)).not.toMatch(/Invalid|next_cursor|undefined/);
  }
  const turned = { do: "invite", email: "a\u202eb@example.com" };
  expect((await visitPage(gateway, `${place}/members`, owner, turned)).status).toBe(400);
});

test("an address can be invited anew where a workspace has all the invitations that it may have", async () => {
  const place = await newWorkspace();
  await makeOwner(gateway, account.id, owner);
  const send = async (email: string): Promise<number> =>
    (await visitPage(gateway, `${place}/members`, owner, { do: "invite", email })).status;
  for (let made = 0; made < 50; made++) expect(await send(`guest-${made}@example.com`)).toBe(303);
  expect(await send("guest-50@example.com")).toBe(400);
  expect(await send("guest-0@example.com")).toBe(303);
});

test("a form that is sent after the session has ended says so", async () => {
  const place = await newWorkspace();
  await makeOwner(gateway, account.id, owner);
  const browser = await launchBrowser();
  try {
    const context = await browser.newContext();
    const [name = "", value = ""] = owner.cookie.split("=");
    await context.addCookies([{ name, value, url: gateway.url }]);
    const page = await context.newPage();
    await page.goto(`${gateway.url}${place}/keys`);
    await context.clearCookies();
    await page.click("text=Set the limit");
    await Bun.sleep(1_000);
    expect(await page.textContent("main")).toContain("Your session has ended");
  } finally {
    await browser.close();
  }
});

test("the widest name of a key stays within the claim's page", async () => {
  await newWorkspace();
  await api("POST", "/v1/keys", { name: "W".repeat(100) });
  const started = await api("POST", "/agent/identity/claim", { email: owner.email });
  const browser = await launchBrowser();
  try {
    const context = await browser.newContext({ viewport: { width: 360, height: 740 } });
    const [name = "", value = ""] = owner.cookie.split("=");
    await context.addCookies([{ name, value, url: gateway.url }]);
    const page = await context.newPage();
    await page.goto(started.claim_attempt.verification_uri_complete);
    expect(await page.textContent("legend")).toContain("WWW");
    const html = page.locator("html");
    expect(await html.evaluate((node) => node.scrollWidth)).toBeLessThanOrEqual(360);
    const [top = 0, border = 0] = await page.evaluate(() =>
      ["legend", "fieldset"].map(
        (name) => document.querySelector(name)?.getBoundingClientRect().top ?? 0,
      ),
    );
    expect(top).toBeGreaterThan(border);
  } finally {
    await browser.close();
  }
});

test("a key that has expired is not counted as live", async () => {
  const place = await newWorkspace();
  await api("POST", "/v1/keys", { expires_at: new Date(Date.now() + 1_000).toISOString() });
  await makeOwner(gateway, account.id, owner);
  await Bun.sleep(1_500);
  expect(textOf(await visitPage(gateway, place, owner))).toContain("1 live key ");
});
