// No spelling of another domain may equal an address: an operator or a claimer is recognized by it.

import { describe, expect, test } from "bun:test";
import { assert, constantFrom, nat, oneof, property, string, tuple } from "fast-check";
import { emailError, foldEmail } from "../../../src/base/text/email.ts";
import { anyCharacter } from "../../support/any-character.ts";

const OPERATOR = "ops@example.com";

/** Domains that a URL parser turns into example.com. */
const IMITATIONS = [
  "example.com/.evil.com",
  "example.com?.evil.com",
  "example.com#.evil.com",
  "example.com\\.evil.com",
  "example%2ecom",
  "exa\u00admple.com",
  "exa\u200bmple.com",
  "example\u3002com",
  "\uff45xample.com",
  "ex\u00aample.com",
  "example.com:443",
  "example.com\u0000",
  "example.com.",
];

describe("foldEmail", () => {
  test.each(IMITATIONS)("does not fold the domain %p to example.com", (domain) => {
    expect(foldEmail(`ops@${domain}`)).not.toBe(OPERATOR);
  });

  test("folds ASCII letter case, and an internationalized domain to its ASCII form", () => {
    expect(foldEmail("Ops@EXAMPLE.com")).toBe(OPERATOR);
    expect(foldEmail("a@B\u00dcCHER.example")).toBe("a@xn--bcher-kva.example");
    expect(foldEmail("a@xn--bcher-kva.example")).toBe("a@xn--bcher-kva.example");
  });

  test("gives an address only to spellings that differ in ASCII letter case", () => {
    const noise = constantFrom(
      "/",
      "?",
      "#",
      "\\",
      "%2e",
      "\u00ad",
      "\u200d",
      "@",
      ":",
      ".",
      "-",
      "\u0000",
    );
    const domain = tuple(nat(11), noise, constantFrom("", ".evil.com", "evil")).map(
      ([at, text, rest]) => `${"example.com".slice(0, at)}${text}${"example.com".slice(at)}${rest}`,
    );
    assert(
      property(oneof(domain, string(), string({ unit: anyCharacter })), (text) => {
        const equals = foldEmail(`ops@${text}`) === OPERATOR;
        expect(equals).toBe(
          /^example\.com$/i.test(text.replace(/^.*@/s, "")) && !text.includes("@"),
        );
      }),
    );
  });
});

describe("emailError", () => {
  test.each(IMITATIONS)("rejects an address at %p", (domain) => {
    expect(emailError(`ops@${domain}`)).toBeString();
  });

  test("accepts ASCII and internationalized domains", () => {
    for (const address of [
      OPERATOR,
      "Ops+x@Example.co.uk",
      "\u00e4nne@b\u00fccher.example",
      "a@xn--bcher-kva.example",
    ])
      expect(emailError(address)).toBeUndefined();
  });
});
