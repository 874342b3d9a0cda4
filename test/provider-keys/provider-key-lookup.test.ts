import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { UNCHECKED } from "../../src/provider-keys/key-check.ts";
import { createProviderKeyCache } from "../../src/provider-keys/provider-key-cache.ts";
import { createProviderKeys, listProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import type { Db } from "../../src/store/db.ts";
import { actIn } from "../support/act.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { GOOD_KEY, openFakeProvider } from "./fake-provider.ts";
import { MASTER, openProviderKeysHarness, type ProviderKeysHarness, START_MS } from "./harness.ts";

const provider = openFakeProvider();
afterAll(() => provider.close());

const ALICE = "acct_alice";
const ALICE_KEY = { accountId: ALICE, keyId: "key_alice" };
const PATH = "/v1/provider-keys";

function newKey(apiKey: string, providerId = "openai") {
  return {
    provider: providerId,
    apiKey: secret(apiKey),
    name: null,
    addedBy: null,
    apiKeyIds: null,
    allowStore: false,
    checkResult: UNCHECKED,
  };
}

/** Counts reads. `delayNext` delays the result of the next read and returns a promise for when the row was read. */
function instrumentedDb(db: Db): {
  db: Db;
  reads: () => number;
  delayNext: (until: Promise<void>) => Promise<void>;
} {
  let reads = 0;
  let delay: { readonly until: Promise<void>; readonly onRead: () => void } | undefined;
  const all: Db["all"] = async (sql, params) => {
    reads += 1;
    const own = delay;
    delay = undefined;
    const rows = await db.all(sql, params);
    own?.onRead();
    await own?.until;
    return rows;
  };
  return {
    db: { ...db, all },
    reads: () => reads,
    delayNext: (until) =>
      new Promise((onRead) => {
        delay = { until, onRead };
      }),
  };
}

describeEachStore((kind, open) => {
  describe(`findNewestKey on ${kind}`, () => {
    let store: TestStore;
    let harness: ProviderKeysHarness;

    beforeEach(async () => {
      store = await open();
      harness = await openProviderKeysHarness(store.db, provider);
    });
    afterEach(() => store.close());

    const rawOf = async (
      keys = harness.providerKeys,
      now = harness.clock.now,
      providerId = "openai",
    ): Promise<string | undefined> =>
      (await keys.findNewestKey(ALICE_KEY, providerId, now))?.apiKey.reveal();

    const addKey = async (raw: string, providerId?: string): Promise<string> => {
      harness.clock.now += 1;
      const { now } = harness.clock;
      const added = await store.db.write((tx) =>
        harness.providerKeys.add(tx, actIn(ALICE, now), newKey(raw, providerId)),
      );
      return added.id;
    };

    test("returns the newest key, immediately after a change by this process", async () => {
      expect(await rawOf()).toBeUndefined();
      const older = await addKey("older-key-0123456789");
      expect(await rawOf()).toBe("older-key-0123456789");
      const newer = await addKey("newer-key-0123456789");
      const ownKey = await harness.providerKeys.findNewestKey(
        ALICE_KEY,
        "openai",
        harness.clock.now,
      );
      expect(ownKey?.id).toBe(newer);
      expect(ownKey?.apiKey.reveal()).toBe("newer-key-0123456789");
      await harness.call("alice", "DELETE", `${PATH}/${newer}`);
      expect(await rawOf()).toBe("older-key-0123456789");
      await harness.call("alice", "DELETE", `${PATH}/${older}`);
      expect(await rawOf()).toBeUndefined();
    });

    test("returns only keys of the account and the provider", async () => {
      await addKey("older-key-0123456789");
      const { findNewestKey } = harness.providerKeys;
      expect(
        await findNewestKey({ accountId: "acct_bob", keyId: "key_bob" }, "openai", START_MS),
      ).toBeUndefined();
      expect(await findNewestKey(ALICE_KEY, "sim", START_MS)).toBeUndefined();
      await addKey("sim-key-0123456789", "sim");
      expect(await rawOf(undefined, undefined, "sim")).toBe("sim-key-0123456789");
      expect(await rawOf()).toBe("older-key-0123456789");
    });

    test("reads once in five seconds, also without a key", async () => {
      const { db, reads } = instrumentedDb(store.db);
      const keys = createProviderKeys({
        db,
        master: MASTER,
        providers: () => ["openai"],
        check: async () => UNCHECKED,
      });
      for (let count = 0; count < 10; count++) expect(await rawOf(keys, START_MS)).toBeUndefined();
      expect(reads()).toBe(1);
      await addKey(GOOD_KEY);
      expect(await rawOf(keys, START_MS + 4_999)).toBeUndefined();
      expect(await rawOf(keys, START_MS + 5_000)).toBe(GOOD_KEY);
      expect(await rawOf(keys, START_MS + 9_999)).toBe(GOOD_KEY);
      expect(reads()).toBe(2);
    });

    test("reads the keys that are in use again together, also after another process deleted one", async () => {
      const { db, reads } = instrumentedDb(store.db);
      const keys = createProviderKeys({
        db,
        master: MASTER,
        providers: () => ["openai"],
        check: async () => UNCHECKED,
      });
      const id = await addKey(GOOD_KEY);
      expect(await rawOf(keys, START_MS)).toBe(GOOD_KEY);
      expect(await rawOf(keys, START_MS + 1, "sim")).toBeUndefined();
      await rawOf(keys, START_MS + 1);
      await rawOf(keys, START_MS + 1, "sim");
      await keys.refresh(START_MS + 4_000);
      expect(await rawOf(keys, START_MS + 8_999)).toBe(GOOD_KEY);
      expect(await rawOf(keys, START_MS + 8_999, "sim")).toBeUndefined();
      expect(reads()).toBe(3);
      await harness.call("alice", "DELETE", `${PATH}/${id}`);
      await keys.refresh(START_MS + 8_999);
      expect(await rawOf(keys, START_MS + 9_000)).toBeUndefined();
    });

    test("returns a key that another process deleted for at most five seconds", async () => {
      const id = await addKey(GOOD_KEY);
      const other = (await openProviderKeysHarness(store.db, provider)).providerKeys;
      expect(await rawOf(other, START_MS)).toBe(GOOD_KEY);
      await harness.call("alice", "DELETE", `${PATH}/${id}`);
      expect(await rawOf()).toBeUndefined();
      expect(await rawOf(other, START_MS + 4_999)).toBe(GOOD_KEY);
      expect(await rawOf(other, START_MS + 5_000)).toBeUndefined();
    });

    test("does not cache a read that began before a deletion was committed", async () => {
      const { db, delayNext } = instrumentedDb(store.db);
      const keys = createProviderKeys({
        db,
        master: MASTER,
        providers: () => ["openai"],
        check: async () => UNCHECKED,
      });
      const id = await addKey(GOOD_KEY);
      const { promise, resolve } = Promise.withResolvers<void>();
      const rowRead = delayNext(promise);
      const slow = rawOf(keys, START_MS);
      await rowRead;
      await store.db.write((tx) => keys.remove(tx, actIn(ALICE, START_MS + 1), id));
      resolve();
      expect(await slow).toBe(GOOD_KEY);
      expect(await rawOf(keys, START_MS + 2)).toBeUndefined();
    });

    test("returns a key whose deletion was rolled back", async () => {
      const id = await addKey(GOOD_KEY);
      const rolledBack = store.db.write(async (tx) => {
        await harness.providerKeys.remove(tx, actIn(ALICE, START_MS), id);
        throw new Error("rollback");
      });
      expect(await rejectionMessage(rolledBack)).toBe("rollback");
      expect(await rawOf()).toBe(GOOD_KEY);
    });

    test("buffers the last use until a flush", async () => {
      const id = await addKey(GOOD_KEY);
      await rawOf(undefined, START_MS + 7_000);
      const record = async () =>
        (await listProviderKeys(store.db, ALICE, { limit: 1 })).data[0]?.lastUsedAt;
      expect(await record()).toBeNull();
      await harness.providerKeys.flushLastUsed();
      expect(await record()).toBe(START_MS + 7_000);
      await store.db.write((tx) =>
        tx.run("update provider_key set last_used_at = null where id = ?", [id]),
      );
      await harness.providerKeys.flushLastUsed();
      expect(await record()).toBeNull();
    });

    test("keeps the last use if a flush fails", async () => {
      await addKey(GOOD_KEY);
      let failing = true;
      const db: Db = {
        ...store.db,
        write: (work) => (failing ? Promise.reject(new Error("down")) : store.db.write(work)),
      };
      const keys = createProviderKeys({
        db,
        master: MASTER,
        providers: () => [],
        check: async () => UNCHECKED,
      });
      await rawOf(keys, START_MS + 9_000);
      expect(await keys.flushLastUsed().catch(() => "down")).toBe("down");
      failing = false;
      await keys.flushLastUsed();
      expect((await listProviderKeys(store.db, ALICE, { limit: 1 })).data[0]?.lastUsedAt).toBe(
        START_MS + 9_000,
      );
    });
  });
});

describe("the cache", () => {
  test("is bounded and evicts the oldest entry", () => {
    const cache = createProviderKeyCache(3);
    for (const key of ["a", "b", "c", "a", "d"]) cache.set(key, [], 0);
    expect(cache.size()).toBe(3);
    expect(cache.get("b", 1)).toBeUndefined();
    for (const key of ["c", "a", "d"]) expect(cache.get(key, 1)).toBeDefined();
  });
});
