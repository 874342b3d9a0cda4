import { afterAll, afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { inspect } from "node:util";
import { secret } from "../../src/base/secret.ts";
import { UNCHECKED } from "../../src/provider-keys/key-check.ts";
import { deriveKek, decryptKey, encryptKey } from "../../src/provider-keys/encryption.ts";
import { createProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { GOOD_KEY, openFakeProvider, acceptOnly } from "./fake-provider.ts";
import { MASTER, openProviderKeysHarness, type ProviderKeysHarness, START_MS } from "./harness.ts";

const provider = openFakeProvider();
afterAll(() => provider.close());

const PATH = "/v1/provider-keys";
const CANARY = GOOD_KEY.slice(4, 20);
const SEALED = ["sealed", "data_key"] as const;

describe("an envelope", () => {
  const kek = deriveKek(MASTER);
  const binding = { id: "pk_1", accountId: "acct_1", provider: "openai" };

  test("opens with the key and the binding that it was made with", () => {
    const envelope = encryptKey(kek, binding, secret(GOOD_KEY));
    expect(decryptKey(kek, binding, envelope).reveal()).toBe(GOOD_KEY);
  });

  test("has a data key and a nonce of its own every time", () => {
    const made = Array.from({ length: 50 }, () => encryptKey(kek, binding, secret(GOOD_KEY)));
    expect(new Set(made.map(({ sealed }) => sealed)).size).toBe(50);
    expect(new Set(made.map(({ dataKey }) => dataKey)).size).toBe(50);
    const [one, other] = made;
    if (one === undefined || other === undefined) throw new Error("none were made");
    const mixed = { sealed: one.sealed, dataKey: other.dataKey };
    expect(() => decryptKey(kek, binding, mixed)).toThrow();
  });

  test("opens for no other record, account, provider or master secret, and not when changed", () => {
    const envelope = encryptKey(kek, binding, secret(GOOD_KEY));
    for (const change of [
      { id: "pk_2" },
      { accountId: "acct_2" },
      { provider: "anthropic" },
      // The parts of a binding cannot be pushed against one another.
      { id: "pk_1|openai", provider: "" },
    ])
      expect(() => decryptKey(kek, { ...binding, ...change }, envelope)).toThrow();
    expect(() => decryptKey(deriveKek(secret("another")), binding, envelope)).toThrow();
    for (const part of ["sealed", "dataKey"] as const) {
      const bytes = Buffer.from(envelope[part], "base64");
      for (const place of [0, 12, bytes.length - 1]) {
        const changed = Buffer.from(bytes);
        changed.writeUInt8(changed.readUInt8(place) ^ 1, place);
        const forged = { ...envelope, [part]: changed.toString("base64") };
        expect(() => decryptKey(kek, binding, forged)).toThrow();
      }
    }
  });
});

describeEachStore((kind, open) => {
  describe(`provider keys at rest on ${kind}`, () => {
    let store: TestStore;
    let room: ProviderKeysHarness;

    beforeEach(async () => {
      store = await open();
      room = openProviderKeysHarness(store.db, provider);
      provider.respondWith(acceptOnly(GOOD_KEY));
    });
    afterEach(() => store.close());

    const add = async (who: string, at: string): Promise<string> =>
      String(
        (await room.call(who, "POST", PATH, { body: { provider: at, api_key: GOOD_KEY } })).body[
          "id"
        ],
      );

    const move = async (from: string, to: string): Promise<void> => {
      const row = await store.db.get("select sealed, data_key from provider_key where id = ?", [
        from,
      ]);
      await store.db.write((tx) =>
        tx.run("update provider_key set sealed = ?, data_key = ? where id = ?", [
          ...SEALED.map((column) => String(row?.[column])),
          to,
        ]),
      );
    };

    const refused = (accountId: string, at: string): Promise<string> =>
      rejectionMessage(
        Promise.resolve(
          openProviderKeysHarness(store.db, provider).providerKeys.findNewestKey(
            accountId,
            at,
            START_MS,
          ),
        ),
      );

    test("nothing of the raw key but its last four characters is in the tables", async () => {
      await room.call("alice", "POST", PATH, {
        body: { provider: "openai", api_key: GOOD_KEY },
        headers: { "idempotency-key": "the-first-of-all" },
      });
      for (const table of ["provider_key", "idempotent_answer"]) {
        const rows = await store.db.all(`select * from ${table}`);
        const dump = inspect(rows, { depth: 9, maxStringLength: Infinity });
        expect(rows).toHaveLength(1);
        for (const raw of [GOOD_KEY, CANARY, Buffer.from(CANARY).toString("base64").slice(0, 18)])
          expect(dump).not.toContain(raw);
      }
    });

    test("an envelope that is moved to another account or provider does not open", async () => {
      const alice = await add("alice", "openai");
      const bob = await add("bob", "openai");
      const sim = await add("bob", "sim");
      await move(alice, bob);
      expect(await refused("acct_bob", "openai")).toBe(`provider key ${bob} cannot be decrypted`);
      await move(alice, sim);
      expect(await refused("acct_bob", "sim")).toBe(`provider key ${sim} cannot be decrypted`);
      await store.db.write((tx) =>
        tx.run("update provider_key set account_id = 'acct_bob' where id = ?", [alice]),
      );
      expect(await refused("acct_bob", "openai")).toContain("cannot be decrypted");
    });

    test("nothing opens under another master secret, and the call fails instead of costing credits", async () => {
      const id = await add("alice", "openai");
      const stranger = createProviderKeys({
        db: store.db,
        master: secret("another master secret altogether"),
        providers: () => [],
        check: async () => UNCHECKED,
      });
      const [outcome] = await Promise.allSettled([
        stranger.findNewestKey("acct_alice", "openai", START_MS),
      ]);
      expect(outcome).toMatchObject({
        status: "rejected",
        reason: {
          code: "internal",
          publicMessage: `Your provider key for openai cannot be decrypted. Delete it with DELETE /v1/provider-keys/${id} and add it again.`,
        },
      });
    });

    test("a raw key is never printed, logged or shown", async () => {
      const printed: unknown[] = [];
      const spies = (["log", "info", "warn", "error", "debug"] as const).map((name) =>
        spyOn(console, name).mockImplementation((...words: unknown[]) => void printed.push(words)),
      );
      const replies: string[] = [];
      const see = async (...what: Parameters<ProviderKeysHarness["call"]>): Promise<void> => {
        replies.push((await room.call(...what)).text);
      };
      await see("alice", "POST", PATH, { body: { provider: "openai", api_key: GOOD_KEY } });
      await see("alice", "POST", PATH, { body: { provider: "nobody", api_key: GOOD_KEY } });
      await see("alice", "POST", PATH, { body: { provider: "openai", api_key: `${GOOD_KEY} ` } });
      await see("alice", "POST", PATH, { body: { provider: "openai", api_key: [GOOD_KEY] } });
      provider.respondWith(acceptOnly("another"));
      await see("alice", "POST", PATH, { body: { provider: "openai", api_key: GOOD_KEY } });
      await see("alice", "GET", PATH);
      const ownKey = await room.providerKeys.findNewestKey("acct_alice", "openai", START_MS);
      spies.forEach((spy) => spy.mockRestore());
      expect(ownKey?.apiKey.reveal()).toBe(GOOD_KEY);
      for (const text of [
        ...replies,
        ...room.logged,
        inspect(printed, { depth: 9 }),
        JSON.stringify(ownKey),
        inspect(ownKey, { depth: 9, showHidden: true }),
        String(ownKey?.apiKey),
        inspect(room.providerKeys, { depth: 9 }),
      ])
        expect(text).not.toContain(CANARY);
      expect(room.logged.length).toBeGreaterThan(3);
    });
  });
});
