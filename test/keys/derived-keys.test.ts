// Keys that are narrowed without a request, on both stores: what they may do, and what attackers do not get.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import path from "node:path";
import * as fc from "fast-check";
import { type Caveats, deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { createBatch, postBatch, waitForEnd } from "../batches/batch-harness.ts";
import { call, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { runExample } from "../support/run-example.ts";
import { queueAtLock } from "../support/stores/lock-queue.ts";
import { PATIENT_LOCK_MS } from "../support/stores/stores.ts";

const HOUR_SECONDS = 3_600;

describe.each(["sqlite", "postgres"] as const)("a derived key on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let clock = Date.now();

  beforeAll(async () => {
    gateway = await startGateway({ store, now: () => clock, lockTimeoutMs: PATIENT_LOCK_MS });
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    clock += HOUR_SECONDS * 1_000;
    account = await registerAccount(gateway);
  });

  const chat = (key: string, model = "sim/echo") =>
    call(gateway, "POST /v1/chat/completions", {
      key,
      body: { model, max_tokens: 8, messages: [{ role: "user", content: "Hi" }] },
    });
  const self = (key: string) => call(gateway, "GET /v1/keys/self", { key });
  const read = (key: string) => call(gateway, "GET /v1/account", { key });
  const inSeconds = (seconds: number) => Math.floor(clock / 1_000) + seconds;

  async function limited(body: Readonly<Record<string, unknown>>) {
    const created = await call(gateway, "POST /v1/keys", { key: account.key, body });
    return { key: textAt(created.body, "api_key"), id: textAt(created.body, "id") };
  }

  async function idOf(key: string): Promise<string> {
    return textAt((await read(key)).body, "key.id");
  }

  async function keyRecord(id: string) {
    return (await call(gateway, `GET /v1/keys/${id}`, { key: account.key })).body;
  }

  test("is made without a request and works at once, listed under its parent", async () => {
    const { key, id } = await limited({ name: "lead", limit_usd: 5 });
    const exp = inSeconds(HOUR_SECONDS);
    const derived = deriveKey(key, { id: "researcher", usd: "1", exp, models: ["sim/echo"] });
    expect((await chat(derived)).status).toBe(200);
    expect((await chat(derived, "sim/tools")).status).toBe(404);
    const record = await keyRecord(await idOf(derived));
    expect(record).toMatchObject({
      name: "researcher",
      limit_usd: 1,
      created_by: id,
      expires_at: new Date(exp * 1_000).toISOString(),
      allowed_models: ["sim/echo"],
    });
    expect(valueAt(record, "spent_usd")).toBeGreaterThan(0);
    expect(await keyRecord(id)).toMatchObject({ limit_usd: 4 });
    expect((await call(gateway, "POST /v1/keys", { key: derived, body: {} })).status).toBe(403);
  });

  test("can be narrowed further, and never spends more than the chain allows", async () => {
    const { key } = await limited({ limit_usd: 5 });
    const first = deriveKey(key, { usd: "2" });
    const second = deriveKey(first, { usd: "0.5" });
    expect((await chat(second)).status).toBe(200);
    expect(await keyRecord(await idOf(first))).toMatchObject({ limit_usd: 1.5 });
    expect(await keyRecord(await idOf(second))).toMatchObject({ limit_usd: 0.5 });
    expect((await read(deriveKey(second, { usd: "0.6" }))).status).toBe(403);
    expect((await read(deriveKey(second, {}))).status).toBe(403);
  });

  test("refuses a call beyond its cap, at the cent", async () => {
    const derived = deriveKey(account.key, { usd: "0.000000001" });
    expect(valueAt((await chat(derived)).body, "error.code")).toBe("key_limit_reached");
    expect((await chat(deriveKey(account.key, { usd: "0.01" }))).status).toBe(200);
  });

  test("is one key and one counter, however often and however concurrently it is first used", async () => {
    const { key, id } = await limited({ limit_usd: 5 });
    const derived = deriveKey(key, { id: "one", usd: "1" });
    const replies = await Promise.all(Array.from({ length: 6 }, () => chat(derived)));
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 200));
    expect(deriveKey(key, { id: "one", usd: "1" })).toBe(derived);
    expect(await keyRecord(id)).toMatchObject({ limit_usd: 4 });
  });

  test("ends with each key above it, and can be revoked by its own id", async () => {
    const { key, id } = await limited({ limit_usd: 5 });
    const first = deriveKey(key, { usd: "2" });
    const [second, other] = [deriveKey(first, { usd: "1" }), deriveKey(key, { usd: "1" })];
    for (const used of [second, other]) expect((await chat(used)).status).toBe(200);
    const unused = deriveKey(first, { usd: "0.5" });
    const firstId = await idOf(first);
    await call(gateway, `DELETE /v1/keys/${firstId}`, { key: account.key });
    clock += 6_000;
    for (const dead of [first, second, unused]) expect((await chat(dead)).status).toBe(401);
    expect((await chat(other)).status).toBe(200);
    const late = deriveKey(key, { usd: "0.5" });
    await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key });
    clock += 6_000;
    for (const dead of [other, late, key]) expect((await chat(dead)).status).toBe(401);
  });

  test("is unknown if its chain secret can no longer be decrypted", async () => {
    const { key, id } = await limited({ limit_usd: 1 });
    const { db } = gateway.server;
    const sealed = await db.get("select chain_secret from api_key where id = ?", [id]);
    const changed = String(sealed?.["chain_secret"]).replace(/^./, (first) =>
      first === "A" ? "B" : "A",
    );
    await db.write((tx) =>
      tx.run("update api_key set chain_secret = ? where id = ?", [changed, id]),
    );
    expect((await self(deriveKey(key, { usd: "0.1" }))).status).toBe(401);
  });

  test("ends if the key above it is narrowed, rotated or expires", async () => {
    const narrowed = await limited({ limit_usd: 5 });
    const ofNarrowed = deriveKey(narrowed.key, { usd: "1" });
    expect((await read(ofNarrowed)).status).toBe(200);
    await call(gateway, `PATCH /v1/keys/${narrowed.id}`, {
      key: account.key,
      body: { allowed_models: ["sim/tools"] },
    });
    expect((await read(ofNarrowed)).status).toBe(401);
    const rotated = await limited({ limit_usd: 1 });
    const [used, unused] = [
      deriveKey(rotated.key, { usd: "0.1" }),
      deriveKey(rotated.key, { usd: "0.2" }),
    ];
    expect((await read(used)).status).toBe(200);
    await call(gateway, `POST /v1/keys/${rotated.id}/rotate`, {
      key: account.key,
      body: { overlap_seconds: 0 },
    });
    for (const dead of [used, unused]) expect((await read(dead)).status).toBe(401);
    const expires_at = new Date(clock + 60_000).toISOString();
    const { key } = await limited({ limit_usd: 1, expires_at });
    const later = deriveKey(key, { usd: "0.1", exp: inSeconds(HOUR_SECONDS) });
    expect((await read(later)).status).toBe(200);
    clock += 61_000;
    expect((await read(later)).status).toBe(401);
  });

  test("ends if the key above it gets a limit, which it does not have", async () => {
    const { key, id } = await limited({ allowed_models: ["sim/*"] });
    const [unlimited, capped] = [deriveKey(key, {}), deriveKey(key, { usd: "0.1" })];
    for (const used of [unlimited, capped]) expect((await chat(used)).status).toBe(200);
    const limit = { key: account.key, body: { limit_usd: 0.001 } };
    expect((await call(gateway, `PATCH /v1/keys/${id}`, limit)).status).toBe(200);
    clock += 6_000;
    for (const dead of [unlimited, capped]) expect((await chat(dead)).status).toBe(401);
    const later = deriveKey(key, { usd: "0.001" });
    expect((await read(later)).status).toBe(200);
    limit.body.limit_usd = 0;
    expect((await call(gateway, `PATCH /v1/keys/${id}`, limit)).status).toBe(200);
    expect((await read(later)).status).toBe(200);
  });

  test("is not made of a secret that a rotation replaces while it waits", async () => {
    const { key, id } = await limited({ limit_usd: 1 });
    const derived = deriveKey(key, { usd: "0.1" });
    const row = { table: "account", key: "id", id: account.id };
    const [rotated, used] = await queueAtLock(gateway, row, [
      () =>
        call(gateway, `POST /v1/keys/${id}/rotate`, {
          key: account.key,
          body: { overlap_seconds: 0 },
        }),
      () => read(derived),
    ]);
    expect([rotated.status, used.status]).toEqual([200, 401]);
    expect((await read(derived)).status).toBe(401);
  });

  test("has no effect before its first use, and none after its expiry", async () => {
    const { key, id } = await limited({ limit_usd: 5 });
    const derived = deriveKey(key, { usd: "1", exp: inSeconds(60) });
    clock += 61_000;
    expect((await read(derived)).status).toBe(401);
    expect(await keyRecord(id)).toMatchObject({ limit_usd: 5 });
  });

  test("never widens: models, scopes, sessions and limits of the key above it hold", async () => {
    const { key } = await limited({
      limit_usd: 1,
      allowed_models: ["sim/e*"],
      session_limit_usd: 0.5,
      scopes: ["usage:read"],
    });
    for (const wider of [
      { usd: "1", models: ["*"] },
      { usd: "1", models: ["sim/tools"] },
      { usd: "1", models: ["sim/*"] },
      { usd: "1", session_usd: "0.6" },
      { usd: "1", scopes: ["models:write"] },
      { usd: "1.000000001" },
      {},
    ] satisfies Caveats[])
      expect([wider, (await read(deriveKey(key, wider))).status]).toEqual([wider, 403]);
    const within = deriveKey(key, { usd: "1", models: ["sim/ec*"], session_usd: "0.1" });
    expect((await read(within)).status).toBe(200);
    expect((await chat(within)).status).toBe(403);
    const rates = await limited({ limit_usd: 1, requests_per_minute: 1 });
    expect((await read(deriveKey(rates.key, { usd: "0.1" }))).status).toBe(403);
  });

  const CALLS: Readonly<Record<string, { path: `POST /${string}`; body: unknown }>> = {
    chat: {
      path: "POST /v1/chat/completions",
      body: { model: "sim/echo", max_tokens: 8, messages: [{ role: "user", content: "Hi" }] },
    },
    responses: {
      path: "POST /v1/responses",
      body: { model: "sim/echo", max_output_tokens: 16, input: "Hi" },
    },
    messages: {
      path: "POST /v1/messages",
      body: { model: "sim/echo", max_tokens: 8, messages: [{ role: "user", content: "Hi" }] },
    },
    gemini: {
      path: "POST /v1beta/models/sim/echo:generateContent",
      body: { contents: [{ parts: [{ text: "Hi" }] }], generationConfig: { maxOutputTokens: 8 } },
    },
    embeddings: {
      path: "POST /v1/embeddings",
      body: { model: "sim/embed", input: "Hi" },
    },
  };
  const APIS = Object.keys(CALLS);
  const callApi = (key: string, api: string) => {
    const { path: route = "POST /v1", body } = CALLS[api] ?? {};
    return call(gateway, route, { key, body });
  };

  test("calls the endpoints that it names, and no other: nor counts or quotes others", async () => {
    const key = deriveKey(account.key, { endpoints: ["messages"] });
    expect((await callApi(key, "messages")).status).toBe(200);
    for (const api of APIS.filter((each) => each !== "messages")) {
      const refused = await callApi(key, api);
      expect([api, refused.status]).toEqual([api, 403]);
      if (api !== "gemini") expect(valueAt(refused.body, "error.policy")).toBe("allowed_endpoints");
    }
    const chatBody = CALLS["chat"]?.body;
    const narrowed = deriveKey(key, { endpoints: ["messages"] });
    for (const [route, body] of [
      ["POST /v1/quote", chatBody],
      ["POST /v1/responses/input_tokens", CALLS["responses"]?.body],
      ["POST /v1beta/models/sim/echo:countTokens", { contents: [{ parts: [{ text: "Hi" }] }] }],
      ["POST /v1/completions", { model: "sim/echo", prompt: "Hi", max_tokens: 8 }],
    ] as const)
      expect([route, (await call(gateway, route, { key: narrowed, body })).status]).toEqual([
        route,
        403,
      ]);
    expect(
      (await call(gateway, "POST /v1/quote?api=messages", { key, body: chatBody })).status,
    ).toBe(200);
    for (const wider of [{ endpoints: ["chat"] }, { endpoints: ["messages", "chat"] }])
      expect((await read(deriveKey(key, wider))).status).toBe(403);
    expect((await read(deriveKey(account.key, { endpoints: [] }))).status).toBe(401);
    expect((await read(deriveKey(account.key, { endpoints: ["chats"] }))).status).toBe(401);
  });

  test("calls an endpoint only if every key of its chain may, whatever the chain", async () => {
    const lists = fc.array(fc.option(fc.subarray(APIS, { minLength: 1 }), { nil: undefined }), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(lists, fc.constantFrom(...APIS), async (chain, api) => {
        let key = account.key;
        for (const endpoints of chain)
          key = deriveKey(key, endpoints === undefined ? {} : { endpoints });
        const isAllowed = chain.every((endpoints) => endpoints?.includes(api) !== false);
        const { status } = await callApi(key, api);
        if (!isAllowed) expect(status).toBe(403);
        const widens = chain.some((endpoints, index) =>
          endpoints?.some((one) =>
            chain.slice(0, index).some((above) => above?.includes(one) === false),
          ),
        );
        expect(status).toBe(isAllowed && !widens ? 200 : 403);
      }),
      { numRuns: 20 },
    );
  });

  const chatIn = (key: string, headers: Readonly<Record<string, string>> = {}) =>
    call(gateway, "POST /v1/chat/completions", { key, headers, body: CALLS["chat"]?.body });

  test("makes all its calls in the session that it names", async () => {
    const key = deriveKey(account.key, { session: "task-7" });
    expect((await chatIn(key)).status).toBe(200);
    expect((await chatIn(key, { "x-claude-code-session-id": "other" })).status).toBe(200);
    const refused = await chatIn(key, { "x-postern-session": "other" });
    expect([refused.status, valueAt(refused.body, "error.policy")]).toEqual([403, "session"]);
    expect((await read(deriveKey(key, { session: "other" }))).status).toBe(403);
    expect((await chatIn(deriveKey(key, { session: "task-7" }))).status).toBe(200);
    const usage = await call(gateway, "GET /v1/usage?session=task-7", { key: account.key });
    expect(valueAt(usage.body, "data")).toHaveLength(3);
    await call(gateway, "DELETE /v1/sessions/task-7", { key: account.key });
    expect((await chatIn(key)).status).toBe(403);
  });

  test("cannot leave the limit of a session by naming no session, nor by a batch", async () => {
    const { body: quoted } = await call(gateway, "POST /v1/quote", {
      key: account.key,
      body: CALLS["chat"]?.body,
    });
    const key = deriveKey(account.key, { session_usd: textAt(quoted, "cost_usd_max") });
    expect([(await chatIn(key)).status, (await chatIn(key)).status]).toEqual([200, 403]);
    expect((await chatIn(key, { "x-postern-session": "another" })).status).toBe(200);
    const item = { custom_id: "a", params: CALLS["messages"]?.body };
    const batch = await call(gateway, "POST /v1/messages/batches", {
      key,
      body: { requests: [item] },
    });
    expect([batch.status, valueAt(batch.body, "error.message")]).toEqual([
      403,
      expect.stringContaining("session_limit_usd"),
    ]);
  });

  test("holds all of a batch under its cap, and runs nothing of it once an ancestor has ended", async () => {
    const content = "[[sim: tokens=20]] go";
    const body = { model: "sim/echo", max_tokens: 40, messages: [{ role: "user", content }] };
    const { body: quoted } = await call(gateway, "POST /v1/quote", { key: account.key, body });
    const most = Number(textAt(quoted, "cost_usd_max"));
    const items = (count: number, more = {}) =>
      Array.from({ length: count }, (_, index) => ({
        custom_id: `${index}`,
        body: { ...body, ...more },
      }));
    const lead = deriveKey(account.key, { usd: (most * 30).toFixed(9) });
    const worker = deriveKey(lead, { usd: (most * 3).toFixed(9) });
    const sender = (key: string) => ({
      ...account,
      headers: { ...account.headers, authorization: `Bearer ${key}` },
    });
    const large = await postBatch(gateway, sender(worker), { requests: items(4) });
    expect([large.status, valueAt(large.json, "error.code")]).toEqual([403, "key_limit_reached"]);
    const fitting = await createBatch(gateway, sender(worker), items(3));
    await waitForEnd(gateway, account, fitting["id"]);
    const spent = await keyRecord(await idOf(worker));
    expect(Number(valueAt(spent, "spent_usd"))).toBeGreaterThan(0);
    expect(Number(valueAt(spent, "spent_usd"))).toBeLessThanOrEqual(most * 3);
    expect((await postBatch(gateway, sender(worker), { requests: items(3) })).status).toBe(403);
    const other = deriveKey(lead, { usd: (most * 20).toFixed(9) });
    const created = await createBatch(gateway, sender(other), items(20));
    await call(gateway, `DELETE /v1/keys/${await idOf(lead)}`, { key: account.key });
    const ended = await waitForEnd(gateway, account, created["id"]);
    const counts = ended["request_counts"] as { completed: number; failed: number; total: number };
    expect(counts.completed + counts.failed).toBe(20);
    const [wallet] = await gateway.server.db.all(
      "select cast(held as text) as held from wallet where account_id = ?",
      [account.id],
    );
    expect(wallet?.["held"]).toBe("0");
  });

  test("is listed with its spend in the tree below each key above it", async () => {
    const lead = deriveKey(account.key, { id: "lead", usd: "1" });
    const [left, right] = ["left", "right"].map((id) => deriveKey(lead, { id, usd: "0.1" }));
    const leaf = deriveKey(left ?? "", { id: "leaf", usd: "0.01" });
    for (const key of [right ?? "", leaf]) expect((await chat(key)).status).toBe(200);
    const root = await idOf(account.key);
    const below = async (id: string) => {
      const { body } = await call(gateway, `GET /v1/keys?derived_from=${id}`, { key: account.key });
      const keys = valueAt(body, "data") as { id: string; name: string; derived_from: string[] }[];
      return keys.toSorted((one, other) => (one.name < other.name ? -1 : 1));
    };
    const all = await below(root);
    expect(all.map(({ name }) => name)).toEqual(["lead", "leaf", "left", "right"]);
    const [leadKey, leafKey, leftKey] = all;
    expect(leafKey).toMatchObject({
      derived_from: [root, leadKey?.id ?? "", leftKey?.id ?? ""],
      spent_usd: expect.any(Number),
      limit_usd: 0.01,
    });
    expect((await below(leftKey?.id ?? "")).map(({ name }) => name)).toEqual(["leaf"]);
    expect(await keyRecord(root)).toMatchObject({ derived_from: null });
    await call(gateway, `DELETE /v1/keys/${leftKey?.id}`, { key: account.key });
    const revoked = (await below(root)).filter((key) => valueAt(key, "revoked_at") !== null);
    expect(revoked.map(({ name }) => name)).toEqual(["leaf", "left"]);
    const other = await registerAccount(gateway);
    const foreign = await call(gateway, `GET /v1/keys?derived_from=${root}`, { key: other.key });
    expect(valueAt(foreign.body, "data")).toEqual([]);
  });

  test("takes no keys from others: those below one are few, and those that have expired do not count", async () => {
    const [hostile, other] = ["hostile", "other"].map((id) => deriveKey(account.key, { id }));
    const below = async (count: number, caveats: Caveats = {}) => {
      const statuses: number[] = [];
      for (let index = 0; index < count; index += 1) {
        const id = `${index} ${caveats.exp ?? ""}`;
        statuses.push((await self(deriveKey(hostile ?? "", { ...caveats, id }))).status);
      }
      return statuses;
    };
    const exp = inSeconds(60);
    expect(new Set(await below(100, { exp }))).toEqual(new Set([200]));
    const refused = await self(deriveKey(hostile ?? "", { id: "more" }));
    expect([refused.status, valueAt(refused.body, "error.code")]).toEqual([409, "conflict"]);
    expect((await self(deriveKey(other ?? "", { id: "first" }))).status).toBe(200);
    clock += 61_000;
    expect((await self(deriveKey(hostile ?? "", { id: "more" }))).status).toBe(200);
    expect((await call(gateway, "POST /v1/keys", { key: account.key, body: {} })).status).toBe(201);
  });

  test("cannot be rotated: its text would make it again, with a second limit", async () => {
    const { key, id } = await limited({ limit_usd: 5 });
    const derived = deriveKey(key, { id: "twice", usd: "1" });
    expect((await chat(derived)).status).toBe(200);
    const rotation = await call(gateway, `POST /v1/keys/${await idOf(derived)}/rotate`, {
      key: account.key,
      body: { overlap_seconds: 0 },
    });
    expect(rotation.status).toBe(409);
    clock += 6_000;
    expect((await chat(derived)).status).toBe(200);
    expect(await keyRecord(id)).toMatchObject({ limit_usd: 4 });
  });

  test("is refused if anything of the chain is forged, removed, reordered or spelled differently", async () => {
    const parent = deriveKey(account.key, { id: "a", usd: "0.1" });
    const child = deriveKey(parent, { id: "b", usd: "0.01" });
    const start = child.slice(0, child.indexOf("-dk-") + 4);
    const [reference = "", a = "", b = "", signature = ""] = child.slice(start.length).split(".");
    const rich = Buffer.from(JSON.stringify({ usd: "9" })).toString("base64url");
    const raw = account.key;
    const unsigned = createHmac("sha256", reference).update(rich).digest("base64url");
    // The last character of 32 bytes has two unused bits.
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const last = alphabet[alphabet.indexOf(signature.at(-1) ?? "") + 1] ?? "";
    for (const forged of [
      `${start}${reference}.${a}.${signature}`,
      `${start}${reference}.${b}.${signature}`,
      `${start}${reference}.${b}.${a}.${signature}`,
      `${start}${reference}.${signature}`,
      `${start}${reference}.${a}.${rich}.${signature}`,
      `${start}${reference}.${rich}.${unsigned}`,
      `${start}${reference}.${a}.${b}.${signature.slice(0, -1)}${last}`,
      `${start}${reference}.${a}.${b}=.${signature}`,
      `${child}=`,
      `${child}.`,
      child.slice(0, -1),
      `${start}${"x".repeat(22)}.${a}.${b}.${signature}`,
      raw.replace("-rt-", "-dk-"),
      child.replace("-dk-", "-rt-"),
      `${raw}.${a}.${signature}`,
    ])
      expect([forged, (await read(forged)).status]).toEqual([forged, 401]);
    expect((await read(child)).status).toBe(200);
  });

  test.each<[what: string, caveats: Readonly<Record<string, unknown>>]>([
    ["an unknown caveat", { usd: "1", ip: "10.0.0.1" }],
    ["a cap that is a number", { usd: 1 }],
    ["a cap with an exponent", { usd: "1e-9" }],
    ["a negative cap", { usd: "-1" }],
    ["a cap below a billionth", { usd: "0.0000000001" }],
    ["an expiry that is text", { exp: "9999999999" }],
    ["an expiry in milliseconds", { exp: 1_790_000_000_000 }],
    ["a scope that creates keys", { scopes: ["keys:write"] }],
    ["no scopes", { scopes: [] }],
    ["a long name", { id: "x".repeat(61) }],
    ["a NUL in its name", { id: "a\u0000b" }],
    ["a line break in its name", { id: "a\nb" }],
    ["a name that is written backwards", { id: "a\u202eb" }],
    ["digits of another script", { usd: "\u0661" }],
    ["an unlimited cap", { usd: "Infinity" }],
    ["a cap that is null", { usd: null }],
    ["no models", { models: [] }],
  ])("is refused with %s", async (_what, caveats) => {
    const { status } = await read(deriveKey(account.key, caveats));
    // Of the settings that every key has, the error says more.
    expect([400, 401]).toContain(status);
  });

  test("cannot spend another key's replies, and does not read them", async () => {
    const send = (key: string, headers: Readonly<Record<string, string>>) =>
      call(gateway, "POST /v1/chat/completions", {
        key,
        headers,
        body: {
          model: "sim/echo",
          max_tokens: 20,
          messages: [{ role: "user", content: "a secret" }],
        },
      });
    const headers = { "idempotency-key": "order-1" };
    expect((await send(account.key, headers)).status).toBe(200);
    // It may call another model only, so it must not get the reply of this one.
    const other = deriveKey(account.key, { usd: "0.01", models: ["sim/tools"] });
    expect((await send(other, headers)).status).toBe(403);
    const spent = deriveKey(account.key, { usd: "0" });
    expect((await send(spent, headers)).status).toBe(403);
  });

  test("stops for all its chain at the limit, however many keys of it call at once", async () => {
    const { key } = await limited({ limit_usd: 0.01 });
    const derived = deriveKey(key, { usd: "0.004" });
    const keys = Array.from({ length: 6 }, (_, index) =>
      deriveKey(derived, { id: `${index}`, usd: "0.002" }),
    );
    const answers = await Promise.all(
      [key, derived, ...keys, ...keys, derived, key].map((each) => chat(each)),
    );
    for (const { status } of answers) expect([200, 401, 403, 429]).toContain(status);
    const [row] = await gateway.server.db.all(
      "select cast(sum(limit_nano) as text) as limits from api_key where account_id = ?",
      [account.id],
    );
    expect(Number(row?.["limits"])).toBeLessThanOrEqual(10_000_000);
  });

  test("is refused if its chain is too long", async () => {
    let key = account.key;
    for (let depth = 0; depth < 8; depth += 1) key = deriveKey(key, { id: `${depth}` });
    expect((await read(key)).status).toBe(200);
    expect((await read(deriveKey(key, {}))).status).toBe(401);
    const long = deriveKey(account.key, {
      models: Array.from({ length: 50 }, () => "x".repeat(90)),
    });
    expect((await read(long)).status).toBe(401);
  });

  test("leaves nothing in the store by which its holder, or a reader of the store, makes another", async () => {
    const derived = deriveKey(account.key, { usd: "0.1" });
    expect((await read(derived)).status).toBe(200);
    const rows = await gateway.server.db.all("select * from api_key", []);
    const stored = JSON.stringify(rows, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    const secret = createHmac("sha256", account.key)
      .update("postern-derived-key/secret")
      .digest("base64url");
    for (const hidden of [account.key, secret, derived, derived.split(".").at(-1) ?? ""])
      expect(stored).not.toContain(hidden);
    expect((await self(derived)).status).toBe(200);
  });

  test("never sets aside more than its parent has, in any tree of derived keys", async () => {
    const caps = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 40 })), {
      minLength: 1,
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(caps, async (tree) => {
        const { key, id } = await limited({ limit_usd: 0.4 });
        const keys = [key];
        for (const [at, cents] of tree) {
          const usd = (cents / 100).toFixed(2);
          const child = deriveKey(keys[at % keys.length] ?? key, { usd });
          if ((await read(child)).status === 200) keys.push(child);
        }
        const ids = [id, ...(await Promise.all(keys.slice(1).map(idOf)))];
        const limits = await Promise.all(
          ids.map(async (each) => Number(valueAt(await keyRecord(each), "limit_usd"))),
        );
        const total = limits.reduce((sum, limit) => sum + limit, 0);
        expect(Math.round(total * 1e9)).toBe(400_000_000);
        expect(Math.min(...limits)).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 5 },
    );
  });

  test("is made by the Python helper as by that in TypeScript", async () => {
    const helper = path.join(import.meta.dir, "../../examples/derived-keys/derive_key.py");
    const run = (key: string, usd: string) =>
      Bun.spawnSync(["python3", helper, key, `{"id": "py", "usd": "${usd}"}`])
        .stdout.toString()
        .trim();
    const first = run(account.key, "0.1");
    expect((await chat(first)).status).toBe(200);
    expect((await chat(deriveKey(run(first, "0.05"), { usd: "0.02" }))).status).toBe(200);
  });
});

test("examples/derived-keys/sub-agents.ts gives keys to sub-agents, reads their spend and ends them", async () => {
  const gateway = await startGateway();
  const output = await runExample("derived-keys/sub-agents.ts", gateway.url);
  expect(output).toContain("the writer's call: 200");
  expect(output).toContain("the searcher's call: 403");
  expect(output).toMatch(/writer spent \$0\.0000\d+ of \$0\.005/);
  expect(output).toContain("after the revocation of the lead: 401");
  await gateway.stop();
});
