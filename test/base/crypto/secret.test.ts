import { describe, expect, test } from "bun:test";
import { inspect } from "node:util";
import {
  decrypt,
  deriveKey,
  encrypt,
  fingerprint,
  fingerprints,
  reencrypt,
} from "../../../src/base/crypto/encryption.ts";
import {
  toBase62,
  randomBase62,
  randomDigits,
  timingSafeEqualText,
  secret,
} from "../../../src/base/crypto/secret.ts";
import { createLog } from "../../../src/base/log.ts";

const CANARY = "canary-9f3a";

describe("a secret", () => {
  test("does not print, whichever way it is converted to text", () => {
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

describe("random text", () => {
  test("has the requested length and alphabet", () => {
    for (const length of [0, 1, 43, 200]) {
      expect(randomBase62(length)).toMatch(new RegExp(`^[0-9A-Za-z]{${length}}$`));
      expect(randomDigits(length)).toMatch(new RegExp(`^[0-9]{${length}}$`));
    }
  });

  test("digits are uniform, including a leading zero", () => {
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

  test("toBase62 pads with leading zeros", () => {
    expect(toBase62(0, 6)).toBe("000000");
    expect(toBase62(61, 2)).toBe("0z");
    expect(toBase62(62, 2)).toBe("10");
  });
});

describe("timingSafeEqualText", () => {
  test("is equality for any lengths", () => {
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

describe("encrypt and decrypt", () => {
  const master = secret("a master secret");
  const key = deriveKey(master, "one");

  test("round-trip any text", () => {
    for (const text of ["", "text", "ключ 🔑", "x".repeat(100_000)])
      expect(decrypt(key, "record", encrypt(key, "record", text))).toBe(text);
  });

  test("give a different ciphertext each time, without the plaintext in it", () => {
    const [one, other] = [encrypt(key, "record", CANARY), encrypt(key, "record", CANARY)];
    expect(one).not.toBe(other);
    expect(atob(one)).not.toContain(CANARY);
  });

  test("reject another key, other associated data and any changed byte", () => {
    const encrypted = encrypt(key, "record", CANARY);
    expect(() => decrypt(deriveKey(master, "two"), "record", encrypted)).toThrow();
    expect(() => decrypt(deriveKey(secret("other"), "one"), "record", encrypted)).toThrow();
    expect(() => decrypt(key, "other record", encrypted)).toThrow();
    const bytes = Buffer.from(encrypted, "base64");
    for (let index = 0; index < bytes.length; index++) {
      const changed = Buffer.from(bytes);
      changed[index] = (changed[index] ?? 0) ^ 1;
      expect(() => decrypt(key, "record", changed.toString("base64"))).toThrow();
    }
    for (const short of ["", "AA==", encrypted.slice(0, 20)])
      expect(() => decrypt(key, "record", short)).toThrow();
  });

  test("accept the previous master secret, and move to the current one", () => {
    const old = deriveKey(secret("old"), "one");
    const both = deriveKey({ ...secret("new"), previous: secret("old") }, "one");
    const current = deriveKey(secret("new"), "one");
    const encrypted = encrypt(old, "record", CANARY);
    expect(decrypt(both, "record", encrypted)).toBe(CANARY);
    expect(() => decrypt(current, "record", encrypted)).toThrow();
    const moved = reencrypt(both, "record", encrypted) ?? "not moved";
    expect(decrypt(current, "record", moved)).toBe(CANARY);
    expect(reencrypt(both, "record", moved)).toBeUndefined();
    expect(() => reencrypt(both, "other record", encrypted)).toThrow();
    expect(fingerprints(both, "a")).toEqual([fingerprint(current, "a"), fingerprint(old, "a")]);
  });

  test("fingerprints differ by text and by key", () => {
    const other = deriveKey(master, "two");
    expect(fingerprint(key, "a")).toBe(fingerprint(key, "a"));
    expect(fingerprint(key, "a")).not.toBe(fingerprint(key, "b"));
    expect(fingerprint(key, "a")).not.toBe(fingerprint(other, "a"));
  });
});
