// What the bundled guardrail finds, and what it must not find.

import { describe, expect, test } from "bun:test";
import { applyEdits } from "../../src/base/guard.ts";
import { decidedLength, ENTITIES, findMatches, maskOf } from "../../src/guardrails/patterns.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";
import { createRandom, TEST_SEED } from "../support/random.ts";

function masked(text: string): string {
  return applyEdits(text, (findMatches(text, ENTITIES) ?? []).map(maskOf));
}

/** Not written out, because the repository must not have anything that looks like a key. */
function pem(label: string): string {
  return `-----BEGIN ${label}-----\nMIIE\nabc=\n-----END ${label}-----`;
}

const DASHES = "-".repeat(5);
const KEY_BODY = "aB3".repeat(12);

describe("findMatches", () => {
  test.each([
    "1 ",
    "+1 ",
    `${DASHES}BEGIN PRIVATE KEY${DASHES}`,
    `${DASHES}BEGIN A `,
    "sk-",
    "SG.a",
    " eyJ",
    "eyJa.",
    "a@a-",
    "a.@",
    "AA11 ",
    "1.1.",
  ])("reads a long text of %s once", (part) => {
    expectLinearCpuTime(
      (size) => void findMatches(part.repeat(size / part.length), ENTITIES),
      400_000,
    );
  });

  test.each([
    [`key sk-${KEY_BODY}.`, "key [API_KEY]."],
    [`sk-proj-${KEY_BODY}`, "[API_KEY]"],
    [`sk_live_${KEY_BODY}`, "[API_KEY]"],
    [`ghp_${KEY_BODY}`, "[API_KEY]"],
    [`AKIA${"IOSFODNN".repeat(2)} is an id`, "[API_KEY] is an id"],
    ["mail ada.love+x@mail.example.co.uk now", "mail [EMAIL] now"],
    ["call +49 30 1234-5678 or (212) 555-0147", "call [PHONE] or [PHONE]"],
    ["card 4111 1111 1111 1111!", "card [CREDIT_CARD]!"],
    ["DE89 3704 0044 0532 0130 00 is mine", "[IBAN] is mine"],
    ["ssn 078-05-1120", "ssn [US_SSN]"],
    ["host 192.168.0.254:80", "host [IP_ADDRESS]:80"],
    [`${pem("RSA PRIVATE KEY")}\nbye`, "[PRIVATE_KEY]\nbye"],
    [`eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.${KEY_BODY}`, "[JWT]"],
  ])("masks %s", (text, expected) => {
    expect(masked(text)).toBe(expected);
  });

  test.each([
    "version 1.2.3 of 2026-11-28 at 10:30:45",
    "4111 1111 1111 1112 has a wrong check digit",
    "order 1234567890123456 has no check digit of a card",
    "sk-short and risk-assessment-and-more-words-of-a-title",
    "GB29 NWBK 6016 1331 9268 18 has wrong check digits",
    "an @mention, a user@localhost and a file@2x.",
    "0000 0000 0000 0000",
    "256.1.1.1 and 1.2.3.4.5",
  ])("leaves %s", (text) => {
    expect(masked(text)).toBe(text);
  });

  test("takes linear time on long texts without a match", () => {
    for (const unit of ["a", "1 ", "a@", "a.", "+1 ", "A1", "-----BEGIN ", "eyJ", "sk-"])
      expect(findMatches(unit.repeat(20_000), ENTITIES)?.length).toBeLessThan(20_000);
  });
});

describe("decidedLength", () => {
  test("reads the end of a long text once", () => {
    expectLinearCpuTime((size) => void decidedLength(`${"a".repeat(size)} `, []), 100_000);
  });

  const SAMPLES = [
    "ada@example.com",
    "4111 1111 1111 1111",
    `sk-${KEY_BODY}`,
    "DE89 3704 0044 0532 0130 00",
    "+49 30 1234-5678",
    pem("PRIVATE KEY"),
    "plain words ",
    ", ",
    "\n",
    "数据",
  ];

  test("what is decided of a beginning does not change when the text goes on", () => {
    const random = createRandom(TEST_SEED);
    for (let round = 0; round < 300; round++) {
      let text = "";
      while (text.length < 400) text += `${SAMPLES[random(SAMPLES.length)] ?? ""} `;
      const cut = random(text.length);
      const beginning = text.slice(0, cut);
      const early = findMatches(beginning, ENTITIES) ?? [];
      const decided = decidedLength(beginning, early);
      const isDecided = ({ start }: { readonly start: number }): boolean => start < decided;
      expect(early.filter(isDecided)).toEqual(
        (findMatches(text, ENTITIES) ?? []).filter(isDecided),
      );
    }
  });

  test("text without a possible match is decided but for its last characters", () => {
    const text = "A sentence of plain words. ".repeat(20);
    expect(text.length - decidedLength(text, [])).toBeLessThanOrEqual(64);
  });
});
