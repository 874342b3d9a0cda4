import { afterAll, afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { inspect } from "node:util";
import { secret } from "../../src/base/crypto/secret.ts";
import { UNCHECKED } from "../../src/provider-keys/key-check.ts";
import {
  deriveKek,
  decryptKey,
  encryptKey,
} from "../../src/provider-keys/provider-key-encryption.ts";
import { createProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { GOOD_KEY, openFakeProvider, acceptOnly } from "./fake-provider.ts";
import { MASTER, openProviderKeysHarness, type ProviderKeysHarness, START_MS } from "./harness.ts";

const provider = openFakeProvider();
afterAll(() => provider.close());

const PATH = "/v1/provider-keys";
const CANARY = GOOD_KEY.slice(4, 20);

describe("an encrypted key", () => {
  const kek = deriveKek(MASTER);
  const binding = { id: "pk_1", accountId: "acct_1", provider: "openai" };

  test("is decrypted with the same key and binding", () => {
    const encrypted = encryptKey(kek, binding, secret(GOOD_KEY));
    expect(decryptKey(kek, binding, encrypted).reveal()).toBe(GOOD_KEY);
  });

  test("has a new data key and nonce every time", () => {
    const keys = Array.from({ length: 50 }, () => encryptKey(kek, binding, secret(GOOD_KEY)));
    expect(new Set(keys.map(({ sealed }) => sealed)).size).toBe(50);
    expect(new Set(keys.map(({ dataKey }) => dataKey)).size).toBe(50);
    const [one, other] = keys;
    if (one === undefined || other === undefined) throw new Error("no keys");
    const mixed = { sealed: one.sealed, dataKey: other.dataKey };
    expect(() => decryptKey(kek, binding, mixed)).toThrow();
  });

  test("cannot be decrypted for another record, account, provider or master secret, or if modified", () => {
    const encrypted = encryptKey(kek, binding, secret(GOOD_KEY));
    for (const change of [
      { id: "pk_2" },
      { accountId: "acct_2" },
      { provider: "anthropic" },
      // The fields of the binding cannot be shifted into one another.
      { id: "pk_1|openai", provider: "" },
    ])
      expect(() => decryptKey(kek, { ...binding, ...change }, encrypted)).toThrow();
    expect(() => decryptKey(deriveKek(secret("another")), binding, encrypted)).toThrow();
    for (const part of ["sealed", "dataKey"] as const) {
      const bytes = Buffer.from(encrypted[part], "base64");
      for (const offset of [0, 12, bytes.length - 1]) {
        const modified = Buffer.from(bytes);
        modified.writeUInt8(modified.readUInt8(offset) ^ 1, offset);
        const forged = { ...encrypted, [part]: modified.toString("base64") };
        expect(() => decryptKey(kek, binding, forged)).toThrow();
      }
    }
  });
});

describeEachStore((kind, open) => {
  describe(`stored provider keys on ${kind}`, () => {
    let store: TestStore;
    let harness: ProviderKeysHarness;

    beforeEach(async () => {
      store = await open();
      harness = await openProviderKeysHarness(store.db, provider);
      provider.respondWith(acceptOnly(GOOD_KEY));
    });
    afterEach(() => store.close());

    const add = async (caller: string, providerId: string): Promise<string> =>
      String(
        (
          await harness.call(caller, "POST", PATH, {
            body: { provider: providerId, api_key: GOOD_KEY },
          })
        ).body["id"],
      );

    const copyEncrypted = async (from: string, to: string): Promise<void> => {
      const row = await store.db.get("select sealed, data_key from provider_key where id = ?", [
        from,
      ]);
      await store.db.write((tx) =>
        tx.run("update provider_key set sealed = ?, data_key = ? where id = ?", [
          String(row?.["sealed"]),
          String(row?.["data_key"]),
          to,
        ]),
      );
    };

    const lookUpError = async (accountId: string, providerId: string): Promise<string> => {
      const { providerKeys } = await openProviderKeysHarness(store.db, provider);
      const user = { accountId, keyId: accountId.replace("acct_", "key_") };
      return await rejectionMessage(
        Promise.resolve(providerKeys.findNewestKey(user, providerId, START_MS)),
      );
    };

    test("contain only the last four characters of the raw key", async () => {
      await harness.call("alice", "POST", PATH, {
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

    test("cannot be decrypted if moved to another account or provider", async () => {
      const alice = await add("alice", "openai");
      const bob = await add("bob", "openai");
      const sim = await add("bob", "sim");
      await copyEncrypted(alice, bob);
      expect(await lookUpError("acct_bob", "openai")).toBe(
        `provider key ${bob} cannot be decrypted`,
      );
      await copyEncrypted(alice, sim);
      expect(await lookUpError("acct_bob", "sim")).toBe(`provider key ${sim} cannot be decrypted`);
      await store.db.write((tx) =>
        tx.run("update provider_key set account_id = 'acct_bob' where id = ?", [alice]),
      );
      expect(await lookUpError("acct_bob", "openai")).toContain("cannot be decrypted");
    });

    test("fail a call under another master secret instead of using credits", async () => {
      const id = await add("alice", "openai");
      const otherKeys = createProviderKeys({
        db: store.db,
        master: secret("another master secret altogether"),
        providers: () => [],
        check: async () => UNCHECKED,
      });
      const [outcome] = await Promise.allSettled([
        otherKeys.findNewestKey(
          { accountId: "acct_alice", keyId: "key_alice" },
          "openai",
          START_MS,
        ),
      ]);
      expect(outcome).toMatchObject({
        status: "rejected",
        reason: {
          code: "internal",
          publicMessage: `Your provider key for openai cannot be decrypted. Delete it with DELETE /v1/provider-keys/${id} and add it again.`,
        },
      });
    });

    test("never print, log or return a raw key", async () => {
      const printed: unknown[] = [];
      const spies = (["log", "info", "warn", "error", "debug"] as const).map((name) =>
        spyOn(console, name).mockImplementation((...args: unknown[]) => void printed.push(args)),
      );
      const responses: string[] = [];
      const send = async (...args: Parameters<ProviderKeysHarness["call"]>): Promise<void> => {
        responses.push((await harness.call(...args)).text);
      };
      await send("alice", "POST", PATH, { body: { provider: "openai", api_key: GOOD_KEY } });
      await send("alice", "POST", PATH, { body: { provider: "nobody", api_key: GOOD_KEY } });
      await send("alice", "POST", PATH, { body: { provider: "openai", api_key: `${GOOD_KEY} ` } });
      await send("alice", "POST", PATH, { body: { provider: "openai", api_key: [GOOD_KEY] } });
      provider.respondWith(acceptOnly("another"));
      await send("alice", "POST", PATH, { body: { provider: "openai", api_key: GOOD_KEY } });
      await send("alice", "GET", PATH);
      const ownKey = await harness.providerKeys.findNewestKey(
        { accountId: "acct_alice", keyId: "key_alice" },
        "openai",
        START_MS,
      );
      spies.forEach((spy) => spy.mockRestore());
      expect(ownKey?.apiKey.reveal()).toBe(GOOD_KEY);
      for (const text of [
        ...responses,
        ...harness.logLines,
        inspect(printed, { depth: 9 }),
        JSON.stringify(ownKey),
        inspect(ownKey, { depth: 9, showHidden: true }),
        String(ownKey?.apiKey),
        inspect(harness.providerKeys, { depth: 9 }),
      ])
        expect(text).not.toContain(CANARY);
      expect(harness.logLines.length).toBeGreaterThan(3);
    });
  });
});
