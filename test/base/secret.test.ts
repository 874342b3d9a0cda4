import { describe, expect, test } from "bun:test";
import { inspect } from "node:util";
import { createLog } from "../../src/base/log.ts";
import { deriveKey, fingerprint, encrypt, decrypt } from "../../src/base/encryption.ts";
import {
  toBase62,
  randomBase62,
  randomDigits,
  timingSafeEqualText,
  secret,
} from "../../src/base/secret.ts";

const CANARY = "canary-9f3a";

describe("a secret", () => {
  test("cannot be printed, by any of the ways in which values get printed", () => {
    const hidden = secret(CANARY);
    const lines: string[] = [];
    const log = createLog({
      level: "debug",
      isPretty: false,
      now: () => 0,
      write: (line) => lines.push(line),
    });
    log.info("a secret", { hidden, nested: { hidden }, list: [hidden] });
    const printed = [
      String(hidden),
      hidden.toString(),
      JSON.stringify({ hidden }),
      inspect(hidden),
      inspect({ deep: { hidden } }, { depth: 9, showHidden: true }),
      Bun.inspect({ hidden }),
      Object.keys(hidden).join(),
      JSON.stringify(Object.entries(hidden)),
      new Error("failed", { cause: hidden }).stack ?? "",
      ...lines,
    ];
    for (const text of printed) expect(text).not.toContain(CANARY);
    expect(hidden.reveal()).toBe(CANARY);
  });

  test("cannot be changed", () => {
    const hidden = secret(CANARY);
    expect(() => Object.assign(hidden, { reveal: () => "other" })).toThrow();
  });
});

describe("text of chance", () => {
  test("has the length and the characters that were asked for", () => {
    for (const length of [0, 1, 43, 200]) {
      expect(randomBase62(length)).toMatch(new RegExp(`^[0-9A-Za-z]{${length}}$`));
      expect(randomDigits(length)).toMatch(new RegExp(`^[0-9]{${length}}$`));
    }
  });

  test("digits are evenly spread, zero at the front too", () => {
    const counts = new Map<string, number>();
    const codes = 6_000;
    for (let made = 0; made < codes; made++) {
      const first = randomDigits(6).charAt(0);
      counts.set(first, (counts.get(first) ?? 0) + 1);
    }
    expect(counts.size).toBe(10);
    for (const count of counts.values())
      expect(Math.abs(count - codes / 10)).toBeLessThan(7 * Math.sqrt(codes / 10));
  });

  test("a number in base 62 has leading zeros", () => {
    expect(toBase62(0, 6)).toBe("000000");
    expect(toBase62(61, 2)).toBe("0z");
    expect(toBase62(62, 2)).toBe("10");
  });
});

describe("comparing", () => {
  test("is equality, whatever the lengths", () => {
    for (const [one, other] of [
      ["", ""],
      ["a", "a"],
      ["a", ""],
      ["", "a"],
      ["a", "aa"],
      ["aa", "a"],
      ["abab", "ab"],
      ["é", "e"],
      ["\ud800", "\ufffd"],
    ] as const)
      expect([one, other, timingSafeEqualText(one, other)]).toEqual([
        one,
        other,
        one.toWellFormed() === other.toWellFormed(),
      ]);
  });
});

describe("sealing", () => {
  const master = secret("a master secret");
  const key = deriveKey(master, "one");

  test("opens to what was sealed, any text", () => {
    for (const text of ["", "text", "ключ 🔑", "x".repeat(100_000)])
      expect(decrypt(key, "record", encrypt(key, "record", text))).toBe(text);
  });

  test("gives another text each time, and none of what was sealed", () => {
    const [one, other] = [encrypt(key, "record", CANARY), encrypt(key, "record", CANARY)];
    expect(one).not.toBe(other);
    expect(atob(one)).not.toContain(CANARY);
  });

  test("does not open under another key, for another record, or changed in any byte", () => {
    const sealed = encrypt(key, "record", CANARY);
    expect(() => decrypt(deriveKey(master, "two"), "record", sealed)).toThrow();
    expect(() => decrypt(deriveKey(secret("other"), "one"), "record", sealed)).toThrow();
    expect(() => decrypt(key, "other record", sealed)).toThrow();
    const bytes = Buffer.from(sealed, "base64");
    for (let place = 0; place < bytes.length; place++) {
      const changed = Buffer.from(bytes);
      changed[place] = (changed[place] ?? 0) ^ 1;
      expect(() => decrypt(key, "record", changed.toString("base64"))).toThrow();
    }
    for (const short of ["", "AA==", sealed.slice(0, 20)])
      expect(() => decrypt(key, "record", short)).toThrow();
  });

  test("a fingerprint tells texts apart and keys apart", () => {
    const other = deriveKey(master, "two");
    expect(fingerprint(key, "a")).toBe(fingerprint(key, "a"));
    expect(fingerprint(key, "a")).not.toBe(fingerprint(key, "b"));
    expect(fingerprint(key, "a")).not.toBe(fingerprint(other, "a"));
  });
});
