// RLP against viem's implementation.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { type Hex, toRlp } from "viem";
import { decodeRlp, type RlpItem } from "../../../src/billing/tempo/tempo-transaction.ts";
import { runs } from "../../support/full.ts";

type HexItem = Hex | readonly HexItem[];

const hex = fc
  .uint8Array({ maxLength: 300 })
  .map((bytes): Hex => `0x${Buffer.from(bytes).toString("hex")}`);
const { item } = fc.letrec<{ item: HexItem }>((tie) => ({
  item: fc.oneof({ maxDepth: 5 }, hex, fc.array(tie("item"), { maxLength: 6 })),
}));

const bytesOf = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.slice(2), "hex"));

function hexOf(decoded: RlpItem): HexItem {
  return decoded instanceof Uint8Array
    ? `0x${Buffer.from(decoded).toString("hex")}`
    : decoded.map(hexOf);
}

describe("RLP", () => {
  test("decodes what viem encodes", () => {
    fc.assert(
      fc.property(item, (value) => {
        const decoded = decodeRlp(bytesOf(toRlp(value as Hex)));
        expect(decoded && hexOf(decoded)).toEqual(value);
      }),
    );
  });

  test("never throws, and accepts an encoding only if it is the canonical one", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
        const decoded = decodeRlp(bytes);
        if (decoded === undefined) return;
        expect(bytesOf(toRlp(hexOf(decoded) as Hex))).toEqual(bytes);
      }),
      { numRuns: runs(5_000) },
    );
  });

  test.each([
    ["nothing", "0x"],
    ["bytes behind the item", "0x0101"],
    ["a string that is too short", "0x83aabb"],
    ["a list that is too short", "0xc3aabb"],
    ["a small byte with a prefix", "0x8101"],
    ["a long form for a short string", "0xb801aa"],
    ["a length with a leading zero", "0xb90038aa"],
    ["deep nesting", `0x${"c9c8c7c6c5c4c3c2c1c0".repeat(3)}`],
  ])("rejects %s", (_, encoded) => {
    expect(decodeRlp(bytesOf(encoded))).toBeUndefined();
  });
});
