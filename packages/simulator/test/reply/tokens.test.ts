import { expect, test } from "bun:test";
import * as fc from "fast-check";
import { anyCharacter } from "../../../../test/support/any-character.ts";
import { countTokens, cutToPieces, cutToTokens, fillerText } from "../../src/reply/tokens.ts";

const text = fc.string({ unit: anyCharacter, maxLength: 60 });
const bytes = (value: string): number => new TextEncoder().encode(value).length;

test("counts one token per four bytes", () => {
  fc.assert(
    fc.property(text, (value) => expect(countTokens(value)).toBe(Math.ceil(bytes(value) / 4))),
  );
});

test("cuts a text to the longest prefix that fits", () => {
  fc.assert(
    fc.property(text, fc.nat(20), (value, tokens) => {
      const cut = cutToTokens(value, tokens);
      const next = String.fromCodePoint(value.codePointAt(cut.length) ?? 0);
      expect(value.startsWith(cut)).toBe(true);
      expect(countTokens(cut)).toBeLessThanOrEqual(tokens);
      if (cut !== value) expect(countTokens(cut + next)).toBeGreaterThan(tokens);
    }),
  );
});

test("cuts a text into pieces without splitting a character", () => {
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 70 }), (value, count) => {
      const pieces = cutToPieces(value, count);
      expect(pieces.join("")).toBe(value);
      expect(pieces.length).toBeLessThanOrEqual(count);
      expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
    }),
  );
});

test("generates filler of an exact token count", () => {
  for (const tokens of [0, 1, 7, 100]) expect(countTokens(fillerText(tokens))).toBe(tokens);
});
