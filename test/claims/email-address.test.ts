// Validation of email addresses, and which spellings are one address or one mailbox.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { emailError, foldEmail } from "../../src/base/text/email.ts";
import { canonicalMailbox, maskEmail } from "../../src/claims/email-address.ts";

describe("valid addresses", () => {
  test.each([
    "human@example.com",
    "o'brien+tag@sub.example.co.uk",
    "a@b.co",
    "иван@пример.рф",
    "山田たろう@例え.jp",
    "김민수@예시.한국",
    "josé@example.com",
    "x_1@xn--bcher-kva.example",
    "ἀλέξανδρος@παράδειγμα.ελ",
  ])("%s", (address) => expect(emailError(address)).toBeUndefined());
});

describe("invalid addresses", () => {
  test.each([
    "p\u0430ypal@example.com",
    "a@g\u043e\u043egle.com",
    "a\u200bb@example.com",
    "a\u00adb@example.com",
    "a\u2060b@example.com",
    "a\u3164b@example.com",
    "a b@example.com",
    "a@exam ple.com",
    "a@example",
    "a@example..com",
    "a@.example.com",
    ".a@example.com",
    "a..b@example.com",
    '"a b"@example.com',
    "a@[127.0.0.1]",
    "a@127.0.0.1",
    "a@@example.com",
    "@example.com",
    "",
    "<a@example.com>",
    `${"a".repeat(65)}@example.com`,
  ])("%p", (address) => expect(emailError(address)).toBeString());
});

test("ignores only letter case and the spelling of the domain", () => {
  expect(foldEmail("Human@Example.COM")).toBe(foldEmail("human@example.com"));
  expect(foldEmail("a@bücher.example")).toBe(foldEmail("a@xn--bcher-kva.example"));
  for (const other of ["hu.man@example.com", "human+x@example.com", "human@example.org"])
    expect(foldEmail(other)).not.toBe(foldEmail("human@example.com"));
  // Unicode lower-casing folds the Kelvin sign and the dotted I to ASCII; foldEmail must not.
  expect(foldEmail("\u212aim@example.com")).not.toBe(foldEmail("kim@example.com"));
  expect(foldEmail("\u0130@example.com")).not.toBe(foldEmail("i@example.com"));
});

test.each([
  ["a.n.n@gmail.com", "ann@gmail.com", true],
  ["ANN+x+y@googlemail.com", "ann@gmail.com", true],
  ["ann+x@outlook.com", "ann@outlook.com", true],
  ["ann@me.com", "ann@icloud.com", true],
  ["a.nn@outlook.com", "ann@outlook.com", false],
  ["ann+x@example.com", "ann@example.com", false],
  ["a.nn@example.com", "ann@example.com", false],
  ["ann@hotmail.com", "ann@outlook.com", false],
])("%s and %s are one mailbox: %p", (one, other, same) => {
  expect(canonicalMailbox(one) === canonicalMailbox(other)).toBe(same);
});

test("folding and canonicalizing are idempotent", () => {
  fc.assert(
    fc.property(fc.emailAddress(), (address) => {
      expect(foldEmail(foldEmail(address))).toBe(foldEmail(address));
      expect(canonicalMailbox(canonicalMailbox(address))).toBe(canonicalMailbox(address));
    }),
  );
});

test("a masked address shows one letter and the domain", () => {
  expect(maskEmail("human@example.com")).toBe("h•••@example.com");
});
