// The format of raw keys, and how keys are found and cached.

import { describe, expect, test } from "bun:test";
import { crc32 } from "node:zlib";
import { secret } from "../../src/base/crypto/secret.ts";
import { createKeys, getKey, type Keys, revokeKey } from "../../src/keys/keys.ts";
import { isRawKey, newRawKey } from "../../src/keys/raw-key.ts";
import type { Db } from "../../src/store/db.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 18);
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

describe("a raw key", () => {
  test("consists of <prefix>-rt-, 43 random characters and a checksum of six", () => {
    for (const prefix of ["pst", "ab", "gateway123"])
      expect(newRawKey(prefix)).toMatch(new RegExp(`^${prefix}-rt-[0-9A-Za-z]{49}$`));
  });

  test("ends with the CRC32 of the characters before it, in base 62", () => {
    const raw = newRawKey("pst");
    let rest = crc32(raw.slice(0, -6));
    let text = "";
    for (let index = 0; index < 6; index++) {
      text = ALPHABET.charAt(rest % 62) + text;
      rest = Math.floor(rest / 62);
    }
    expect(raw.slice(-6)).toBe(text);
  });

  test("is invalid with a changed, missing or doubled character", () => {
    const raw = newRawKey("pst");
    for (let index = 0; index < raw.length; index++) {
      const other = raw.charAt(index) === "x" ? "y" : "x";
      expect(isRawKey("pst", raw.slice(0, index) + other + raw.slice(index + 1))).toBe(false);
      expect(isRawKey("pst", raw.slice(0, index) + raw.slice(index + 1))).toBe(false);
      expect(isRawKey("pst", raw.slice(0, index) + raw.charAt(index) + raw.slice(index))).toBe(
        false,
      );
    }
    expect(isRawKey("pst", raw)).toBe(true);
    expect(isRawKey("abc", raw)).toBe(false);
    expect(isRawKey("pst", ` ${raw}`)).toBe(false);
    expect(isRawKey("pst", `${raw}\n`)).toBe(false);
    expect(isRawKey("pst", "")).toBe(false);
  });

  test("has uniform random characters", () => {
    const counts = new Map<string, number>();
    const keys = 4_000;
    for (let made = 0; made < keys; made++)
      for (const character of newRawKey("pst").slice(7, 50))
        counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(62);
    const mean = (keys * 43) / 62;
    // Seven standard deviations, so that a uniform source practically never fails.
    for (const count of counts.values())
      expect(Math.abs(count - mean)).toBeLessThan(7 * Math.sqrt(mean));
  });
});

describeEachStore((kind, open) => {
  describe(`createKeys on ${kind}`, () => {
    const make = (db: Db, pepper = "a master secret"): Keys =>
      createKeys({ db, master: secret(pepper), prefix: "pst" });

    test("keeps the first key of an account first, in the same millisecond and after the clock stepped back", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const ids: string[] = [];
      for (const now of [NOW, NOW, NOW, NOW - 5_000, NOW, NOW + 1, NOW - 1]) {
        const { key } = await db.write((tx) => keys.create(tx, actIn("acct_ordered", now), {}));
        ids.push(key.id);
      }
      expect(ids).toEqual(ids.toSorted());
      await close();
    });

    test("finds a key only with the same master secret", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const { raw, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
      expect(await keys.find(raw, NOW, "store")).toMatchObject({
        accountId: "acct_a",
        keyId: key.id,
      });
      expect(await make(db, "another master secret").find(raw, NOW, "store")).toBeUndefined();
      await close();
    });

    test("reads a cached key again after five seconds, and never returns an expired one", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const { raw } = await db.write((tx) =>
        keys.create(tx, actIn("acct_a", NOW), { expiresAt: NOW + 8_000 }),
      );
      expect(await keys.find(raw, NOW, "cache")).toBeDefined();
      await db.write((tx) => tx.run("update api_key set revoked_at = ?", [NOW]));
      expect(await keys.find(raw, NOW + 4_999, "cache")).toBeDefined();
      expect(await keys.find(raw, NOW + 4_999, "store")).toBeUndefined();
      expect(await keys.find(raw, NOW + 5_000, "cache")).toBeUndefined();
      await db.write((tx) => tx.run("update api_key set revoked_at = null"));
      expect(await keys.find(raw, NOW + 6_000, "cache")).toBeDefined();
      expect(await keys.find(raw, NOW + 8_000, "cache")).toBeUndefined();
      await close();
    });

    test("reads the keys that are in use again together, and drops raw keys that are not", async () => {
      const { db, close } = await open();
      let reads = 0;
      const all: typeof db.all = (...statement) => {
        reads += 1;
        return db.all(...statement);
      };
      const keys = make({ ...db, all });
      const raws: string[] = [];
      for (let index = 0; index < 120; index++)
        raws.push((await db.write((tx) => keys.create(tx, actIn(`acct_${index}`, NOW), {}))).raw);
      const find = (raw: string, now: number): boolean =>
        // A cached result is returned synchronously.
        !(keys.find(raw, now, "cache") instanceof Promise);
      for (const raw of raws) await keys.find(raw, NOW, "cache");
      await keys.refresh(NOW + 4_000);
      expect(reads).toBe(3);
      expect(raws.every((raw) => find(raw, NOW + 8_999))).toBe(true);
      await keys.refresh(NOW + 8_999);
      const [used = "", unused = ""] = raws;
      expect(find(used, NOW + 9_001)).toBe(true);
      await keys.refresh(NOW + 17_000);
      expect([find(used, NOW + 17_001), find(unused, NOW + 17_001)]).toEqual([true, false]);
      await close();
    });

    test("does not find a key that another process revoked after the cached keys were read again", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const { raw, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
      await keys.find(raw, NOW, "cache");
      await db.write((tx) => revokeKey(tx, actIn("acct_a", NOW), key.id));
      await keys.refresh(NOW + 1);
      expect(await keys.find(raw, NOW + 2, "cache")).toBeUndefined();
      await close();
    });

    test("accepts a secret that another process replaced for no longer by reading cached keys again", async () => {
      const { db, close } = await open();
      const [keys, other] = [make(db), make(db)];
      const { raw, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
      const rotation = { id: key.id, overlapMs: 10_000 };
      await keys.find(raw, NOW, "cache");
      await db.write((tx) => other.rotate(tx, actIn("acct_a", NOW), rotation));
      for (let now = NOW; now < NOW + 10_000; now += 1_000) {
        expect(await keys.find(raw, now, "cache")).toBeDefined();
        await keys.refresh(now);
      }
      expect(await keys.find(raw, NOW + 10_000, "cache")).toBeUndefined();
      await close();
    });

    test("collects last uses in memory and writes them together", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const { raw, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
      await keys.find(raw, NOW + 1, "store");
      await keys.find(raw, NOW + 2, "cache");
      expect((await getKey(db, "acct_a", key.id, NOW)).lastUsedAt).toBeNull();
      await keys.flushLastUsed();
      expect((await getKey(db, "acct_a", key.id, NOW)).lastUsedAt).toBe(NOW + 2);
      await keys.flushLastUsed();
      await close();
    });

    test("collects the last use of a rotated secret, and never returns it from the cache after the overlap", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const { raw, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
      await keys.find(raw, NOW, "cache");
      const rotation = { id: key.id, overlapMs: 3_000 };
      const rotated = await db.write((tx) => keys.rotate(tx, actIn("acct_a", NOW), rotation));
      expect(await keys.find(raw, NOW + 1, "cache")).toMatchObject({ keyId: key.id });
      expect(await keys.find(rotated.raw, NOW + 2, "cache")).toMatchObject({ keyId: key.id });
      await keys.flushLastUsed();
      const { lastUsedAt, formerSecret } = await getKey(db, "acct_a", key.id, NOW + 2);
      expect([lastUsedAt, formerSecret?.lastUsedAt]).toEqual([NOW + 2, NOW + 1]);
      await keys.find(raw, NOW + 2_999, "cache");
      expect(await keys.find(raw, NOW + 3_000, "cache")).toBeUndefined();
      expect(await keys.find(rotated.raw, NOW + 3_000, "cache")).toBeDefined();
      await close();
    });

    test("keeps last uses that could not be written for the next flush", async () => {
      const { db, close } = await open();
      const keys = make(db);
      const { raw, key } = await db.write((tx) => keys.create(tx, actIn("acct_a", NOW), {}));
      await keys.find(raw, NOW + 1, "store");
      await db.write((tx) => tx.run("alter table api_key rename to gone"));
      const failed = await keys.flushLastUsed().then(
        () => false,
        () => true,
      );
      expect(failed).toBe(true);
      await db.write((tx) => tx.run("alter table gone rename to api_key"));
      await keys.flushLastUsed();
      expect((await getKey(db, "acct_a", key.id, NOW)).lastUsedAt).toBe(NOW + 1);
      await close();
    });
  });
});
