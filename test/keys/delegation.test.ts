// Limits of what a key can do to keys in a claimed account.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { createKeyForCaller } from "../../src/keys/delegation.ts";
import { changeKey, createKeys, getKey, type Keys } from "../../src/keys/keys.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import { integer } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { openAccount, startLedger, promoDeposit } from "../ledger/fixtures.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  chat,
  expectError,
  type Json,
  textAt,
} from "../spec/api-client.ts";
import { actIn } from "../support/act.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { describeEachStore, STORE_KINDS, type TestStore } from "../support/stores/stores.ts";

const USD = 1_000_000_000n;

describe.each(STORE_KINDS)("keys of a claimed account on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let own: string;
  beforeAll(async () => {
    gateway = await startGateway({ store });
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    account = await registerAccount(gateway);
    own = textAt((await call(gateway, "GET /v1/account", { key: account.key })).body, "key.id");
    await claim(account);
  });

  async function claim({ id }: TestAccount): Promise<void> {
    const subject = crypto.randomUUID();
    const identity = { issuer: "i", subject, email: `${subject}@example.com`, name: null };
    const now = Date.now();
    await gateway.server.db.write(async (tx) => {
      const { id: personId } = await recordPerson(tx, identity, now);
      await claimWorkspace(tx, { accountId: id, personId, via: "test", now });
    });
  }
  /** The change that an owner makes in the console. */
  const changeAsOwner = (change: Parameters<typeof changeKey>[3], id = own) =>
    gateway.server.db.write((tx) => changeKey(tx, actIn(account.id, Date.now()), id, change));
  const createKey = (body: Json, key = account.key): Promise<ApiResponse> =>
    call(gateway, "POST /v1/keys", { key, body });
  const change = (id: string, body: Json, key = account.key): Promise<ApiResponse> =>
    call(gateway, `PATCH /v1/keys/${id}`, { key, body });
  const readKey = async (id: string): Promise<Json> =>
    (await call(gateway, `GET /v1/keys/${id}`, { key: account.key })).body;
  const expectOwnerOnly = (response: ApiResponse, param: string): void => {
    expectError(response, { status: 403, code: "forbidden", param });
    expect(valueAt(response.body, "error.message")).toContain("only people can raise limits");
    expect(valueAt(response.body, "error.next.0")).toMatchObject({
      method: "GET",
      url: `/console/${account.id}/keys`,
    });
  };

  test("a key with a limit of zero cannot spend, neither itself nor with keys that it creates", async () => {
    await changeAsOwner({ limit: 0n, limitWindow: "day" });
    expectError(await chat(gateway, account.key), { status: 403, code: "key_limit_reached" });
    for (const body of [{}, { limit_usd: null }, { limit_usd: 0.01 }, { limit_usd: "0.000000001" }])
      expectOwnerOnly(await createKey(body), "limit_usd");
    for (const limit_usd of [null, 1, "0.000000001"])
      expectOwnerOnly(await change(own, { limit_usd }), "limit_usd");
    expectOwnerOnly(await change(own, { limit_window: null }), "limit_window");
    const none = await createKey({ limit_usd: 0 });
    expect(none.status).toBe(201);
    const reply = await chat(gateway, textAt(none.body, "api_key"));
    expectError(reply, { status: 403, code: "key_limit_reached" });
    expect(await readKey(own)).toMatchObject({ limit_usd: 0, limit_window: "day" });
  });

  test("a rejected change has no effect and refers to the owner", async () => {
    await changeAsOwner({ limit: 5n * USD, limitWindow: "week" });
    const before = await readKey(own);
    const rejected = await change(own, { name: "mine", limit_usd: 6 });
    expectStatus("changeKey", 403, rejected);
    expectOwnerOnly(rejected, "limit_usd");
    const rejectedCreation = await createKey({ name: "more" });
    expectStatus("createKey", 403, rejectedCreation);
    expectOwnerOnly(rejectedCreation, "limit_usd");
    expect(await readKey(own)).toEqual(before);
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(valueAt(body, "data.length")).toBe(1);
  });

  test("a key can lower limits of any key, and no key can raise them again", async () => {
    const other = await createKey({ limit_usd: 3, limit_window: "month" });
    const [id, key] = [textAt(other.body, "id"), textAt(other.body, "api_key")];
    expect((await change(id, { limit_usd: 2 })).body).toMatchObject({
      limit_usd: 2,
      limit_window: "month",
    });
    expect((await change(id, { limit_usd: 2, limit_window: "month", name: "n" })).status).toBe(200);
    expect((await change(own, { limit_usd: 1, limit_window: "day" })).status).toBe(200);
    for (const [caller, target] of [
      [account.key, id],
      [account.key, own],
      [key, id],
    ] as const) {
      expectOwnerOnly(await change(target, { limit_usd: 2.5 }, caller), "limit_usd");
      expectOwnerOnly(await change(target, { limit_usd: null }, caller), "limit_usd");
      expectOwnerOnly(await change(target, { limit_window: "week" }, caller), "limit_window");
    }
    expectOwnerOnly(await change(own, { limit_usd: 0 }, key), "id");
    expect((await changeAsOwner({ limit: null })).limit).toBeNull();
    expect((await createKey({})).status).toBe(201);
  });

  test("a key can bring an expiry forward but not extend it, and keys that it creates expire no later", async () => {
    const soon = Date.now() + DAY_MS;
    const text = (at: number): string => new Date(at).toISOString();
    expect((await change(own, { expires_at: text(soon) })).status).toBe(200);
    for (const expires_at of [null, text(soon + 1)])
      expectOwnerOnly(await change(own, { expires_at }), "expires_at");
    for (const body of [{}, { expires_at: null }, { expires_at: text(soon + 1) }])
      expectOwnerOnly(await createKey(body), "expires_at");
    expect((await createKey({ expires_at: text(soon) })).status).toBe(201);
    expect((await change(own, { expires_at: text(soon - 1) })).status).toBe(200);
    expect((await changeAsOwner({ expiresAt: null })).expiresAt).toBeNull();
  });

  test("the limit of a created key is subtracted from the limit of its creator", async () => {
    await changeAsOwner({ limit: USD, limitWindow: "day" });
    const first = await createKey({ limit_usd: 0.6, limit_window: "day" });
    expect(first.body).toMatchObject({ limit_usd: 0.6, limit_window: "day" });
    expect(await readKey(own)).toMatchObject({ limit_usd: 0.4, limit_window: "day" });
    expectOwnerOnly(await createKey({ limit_usd: 0.6 }), "limit_usd");
    const second = await createKey({ limit_usd: 0.4 });
    expect(second.body).toMatchObject({ limit_usd: 0.4, limit_window: null });
    expectOwnerOnly(await createKey({ limit_usd: 0.1 }), "limit_usd");
    const key = textAt(first.body, "api_key");
    expectOwnerOnly(await createKey({ limit_usd: 0.3, limit_window: "week" }, key), "limit_window");
    expect((await createKey({ limit_usd: 0.3, limit_window: "day" }, key)).status).toBe(201);
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    const limits = (valueAt(body, "data") as Json[]).map((one) => Number(one["limit_usd"]));
    expect(limits.reduce((sum, limit) => sum + limit, 0)).toBeCloseTo(1, 9);
  });

  test("a created key can only get what its creator has not spent", async () => {
    await changeAsOwner({ limit: USD / 1_000n });
    expect((await chat(gateway, account.key)).status).toBe(200);
    const spent = Number((await readKey(own))["spent_usd"]);
    expect(spent).toBeGreaterThan(0);
    expectOwnerOnly(await createKey({ limit_usd: 0.001 }), "limit_usd");
    expect((await createKey({ limit_usd: (0.001 - spent).toFixed(9) })).status).toBe(201);
    expectError(await chat(gateway, account.key), { status: 403, code: "key_limit_reached" });
  });

  test("a negative limit is rejected and raises nothing", async () => {
    await changeAsOwner({ limit: USD });
    expectError(await createKey({ limit_usd: -5 }), { status: 400, code: "invalid_request" });
    expect(await readKey(own)).toMatchObject({ limit_usd: 1 });
  });

  test("the audit log records that the creator's limit was lowered", async () => {
    await changeAsOwner({ limit: USD });
    await createKey({ limit_usd: 0.25 });
    const rows = await gateway.server.db.all(
      "select detail from audit where account_id = ? and action = 'key.changed' and actor_type = 'key'",
      [account.id],
    );
    expect(rows.map((row) => JSON.parse(String(row["detail"])))).toMatchObject([
      { limit_usd: "0.75", limit_usd_before: "1" },
    ]);
  });

  test("only keys without a limit can raise limits in an unclaimed account", async () => {
    const unclaimed = await registerAccount(gateway);
    const limited = await createKey({ limit_usd: 1, limit_window: "day" }, unclaimed.key);
    const [id, key] = [textAt(limited.body, "id"), textAt(limited.body, "api_key")];
    const rejected = await createKey({}, key);
    expectError(rejected, { status: 403, code: "forbidden", param: "limit_usd" });
    expect(textAt(rejected.body, "error.message")).toContain("Use the first key of the account");
    for (const limit_usd of [9, null])
      expect((await change(id, { limit_usd }, unclaimed.key)).body).toMatchObject({ limit_usd });
    expect((await createKey({}, key)).status).toBe(201);
  });
});

describeEachStore((kind, open) => {
  describe(`concurrent use of a limited key on ${kind}`, () => {
    let store: TestStore;
    let keys: Keys;
    let ledgers: readonly Ledger<UsageRecord>[];
    const now = Date.now();
    beforeAll(async () => {
      store = await open();
      const { db } = store;
      keys = createKeys({
        db,
        master: secret("m".repeat(40)),
        prefix: "pst",
      });
      ledgers = [await startLedger(db, "one", now), await startLedger(db, "two", now)];
    });
    afterAll(() => store.close());

    test("calls and created keys of two processes never exceed its limit together", async () => {
      for (let round = 0; round < 12; round++) {
        const accountId = `acct_${round}`;
        const parent = `key_${round}`;
        await store.db.write(async (tx) => {
          await tx.run(
            "insert into account (id, email, created_at, created_from, claimed_at) values (?, null, 1, 'n', 1)",
            [accountId],
          );
          await openAccount(tx, accountId, [parent], now);
          await deposit(tx, promoDeposit(`${accountId}.d`, accountId, 10_000n, now));
          await changeKey(tx, actIn(accountId, now), parent, { limit: 1_000n });
        });
        const hold = (keyId: string, id: string, process: number) =>
          ledgers[process % 2]?.hold({
            id,
            accountId,
            keyId,
            amount: 150n,
            now,
            expiresAt: now + DAY_MS,
          });
        const createKey = (limit: bigint) =>
          store.db
            .write((tx) =>
              createKeyForCaller(tx, actIn(accountId, now), keys, {
                settings: { limit },
                callerId: parent,
              }),
            )
            .catch(() => undefined);
        await Promise.all([
          ...Array.from({ length: 6 }, (_, index) => hold(parent, `r${round}.${index}`, index)),
          ...Array.from({ length: 4 }, () => createKey(250n)),
          ...Array.from({ length: 6 }, (_, index) => hold(parent, `s${round}.${index}`, index)),
        ]);
        const { limit, spent } = await getKey(store.db, accountId, parent, now);
        const spender = await store.db.get("select held from spender where key_id = ?", [parent]);
        const held = BigInt(spender === undefined ? 0 : integer(spender, "held"));
        expect(limit).toBeGreaterThanOrEqual(spent + held);
        const sum = await store.db.get(
          "select cast(sum(limit_nano) as text) as sum from api_key where account_id = ?",
          [accountId],
        );
        expect(sum?.["sum"]).toBe("1000");
      }
    });
  });
});
