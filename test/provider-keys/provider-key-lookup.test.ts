import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/secret.ts";
import { UNCHECKED } from "../../src/provider-keys/key-check.ts";
import { createProviderKeyCache } from "../../src/provider-keys/provider-key-cache.ts";
import { createProviderKeys, listProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import type { Db } from "../../src/store/db.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { GOOD_KEY, openFakeProvider } from "./fake-provider.ts";
import { MASTER, openProviderKeysHarness, type ProviderKeysHarness, START_MS } from "./harness.ts";

const provider = openFakeProvider();
afterAll(() => provider.close());

const ALICE = "acct_alice";
const PATH = "/v1/provider-keys";

function newKey(apiKey: string, at = "openai") {
  return { provider: at, apiKey: secret(apiKey), name: null, checkResult: UNCHECKED };
}

/** Counts the reads of a store, and lets one be held up. */
function instrumentedDb(db: Db): {
  db: Db;
  reads: () => number;
  hold: (until: Promise<void>) => void;
} {
  let reads = 0;
  let held: Promise<void> | undefined;
  const get: Db["get"] = async (sql, params) => {
    reads += 1;
    const waiting = held;
    held = undefined;
    const row = await db.get(sql, params);
    await waiting;
    return row;
  };
  return {
    db: { ...db, get },
    reads: () => reads,
    hold: (until) => {
      held = until;
    },
  };
}

describeEachStore((kind, open) => {
  describe(`the key for a call on ${kind}`, () => {
    let store: TestStore;
    let room: ProviderKeysHarness;

    beforeEach(async () => {
      store = await open();
      room = openProviderKeysHarness(store.db, provider);
    });
    afterEach(() => store.close());

    const rawOf = async (
      keys = room.providerKeys,
      now = room.clock.now,
      at = "openai",
    ): Promise<string | undefined> => (await keys.findNewestKey(ALICE, at, now))?.apiKey.reveal();

    const addKey = async (raw: string, at?: string): Promise<string> => {
      room.clock.now += 1;
      const { now } = room.clock;
      const added = await store.db.write((tx) =>
        room.providerKeys.add(tx, ALICE, newKey(raw, at), now),
      );
      return added.id;
    };

    test("is none, then the newest, then the one before it, then none, at once on this process", async () => {
      expect(await rawOf()).toBeUndefined();
      const older = await addKey("older-key-0123456789");
      expect(await rawOf()).toBe("older-key-0123456789");
      const newer = await addKey("newer-key-0123456789");
      const ownKey = await room.providerKeys.findNewestKey(ALICE, "openai", room.clock.now);
      expect(ownKey?.id).toBe(newer);
      expect(ownKey?.apiKey.reveal()).toBe("newer-key-0123456789");
      await room.call("alice", "DELETE", `${PATH}/${newer}`);
      expect(await rawOf()).toBe("older-key-0123456789");
      await room.call("alice", "DELETE", `${PATH}/${older}`);
      expect(await rawOf()).toBeUndefined();
    });

    test("is that account's and that provider's only", async () => {
      await addKey("older-key-0123456789");
      const { findNewestKey } = room.providerKeys;
      expect(await findNewestKey("acct_bob", "openai", START_MS)).toBeUndefined();
      expect(await findNewestKey(ALICE, "sim", START_MS)).toBeUndefined();
      await addKey("sim-key-0123456789", "sim");
      expect(await rawOf(undefined, undefined, "sim")).toBe("sim-key-0123456789");
      expect(await rawOf()).toBe("older-key-0123456789");
    });

    test("costs one read in five seconds, also where there is none", async () => {
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

    test("is used by another process for five seconds after its deletion at most", async () => {
      const id = await addKey(GOOD_KEY);
      const other = openProviderKeysHarness(store.db, provider).providerKeys;
      expect(await rawOf(other, START_MS)).toBe(GOOD_KEY);
      await room.call("alice", "DELETE", `${PATH}/${id}`);
      expect(await rawOf()).toBeUndefined();
      expect(await rawOf(other, START_MS + 4_999)).toBe(GOOD_KEY);
      expect(await rawOf(other, START_MS + 5_000)).toBeUndefined();
    });

    test("is not kept from a read that began before the deletion was committed", async () => {
      const { db, hold } = instrumentedDb(store.db);
      const keys = createProviderKeys({
        db,
        master: MASTER,
        providers: () => ["openai"],
        check: async () => UNCHECKED,
      });
      const id = await addKey(GOOD_KEY);
      const { promise, resolve } = Promise.withResolvers<void>();
      hold(promise);
      const slow = rawOf(keys, START_MS);
      // The read has its row by the time that the deletion is committed, and gives it afterwards.
      await Bun.sleep(20);
      await store.db.write((tx) => keys.remove(tx, ALICE, id, START_MS + 1));
      resolve();
      expect(await slow).toBe(GOOD_KEY);
      expect(await rawOf(keys, START_MS + 2)).toBeUndefined();
    });

    test("stays in use where its deletion is rolled back", async () => {
      const id = await addKey(GOOD_KEY);
      const undone = store.db.write(async (tx) => {
        await room.providerKeys.remove(tx, ALICE, id, START_MS);
        throw new Error("no");
      });
      expect(await undone.catch(() => "undone")).toBe("undone");
      expect(await rawOf()).toBe(GOOD_KEY);
    });

    test("has its last use written down by a flush", async () => {
      const id = await addKey(GOOD_KEY);
      await rawOf(undefined, START_MS + 7_000);
      const record = async () =>
        (await listProviderKeys(store.db, ALICE, { limit: 1 })).data[0]?.lastUsedAt;
      expect(await record()).toBeNull();
      await room.providerKeys.flushLastUsed();
      expect(await record()).toBe(START_MS + 7_000);
      await store.db.write((tx) =>
        tx.run("update provider_key set last_used_at = null where id = ?", [id]),
      );
      await room.providerKeys.flushLastUsed();
      expect(await record()).toBeNull();
    });

    test("keeps its last use for the next flush where one fails", async () => {
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

describe("the memory of own keys", () => {
  test("is bounded, and forgets the oldest first", () => {
    const cache = createProviderKeyCache(3);
    for (const slot of ["a", "b", "c", "a", "d"]) cache.set(slot, undefined, 0);
    expect(cache.size()).toBe(3);
    expect(cache.get("b", 1)).toBeUndefined();
    for (const slot of ["c", "a", "d"]) expect(cache.get(slot, 1)).toBeDefined();
  });
});
