import { expect, test } from "bun:test";
import * as fc from "fast-check";
import { createLinkFinder } from "../wires.ts";

const A = { url: "https://a.example/1", title: "A", content: "x".repeat(500) };
const SOURCES = new Map([[A.url, A]]);

test("finds links to pages of the search, and no others", () => {
  const text = `See [a](${A.url}), [b](https://b.example/), [not a link] and [again](${A.url}).`;
  const found = createLinkFinder(SOURCES)(text);
  expect(found.map(({ start, end }) => text.slice(start, end))).toEqual([
    `[a](${A.url})`,
    `[again](${A.url})`,
  ]);
  expect(found[0]).toMatchObject({ url: A.url, title: "A", citedText: "x".repeat(150) });
});

test("finds the same links however the text is cut", () => {
  const piece = fc.constantFrom(`[a](${A.url})`, "[", "](", "text é ", "(", ")", "[x](http://y)");
  fc.assert(
    fc.property(fc.array(piece), fc.array(fc.nat(20), { minLength: 1 }), (pieces, sizes) => {
      const text = pieces.join("");
      const whole = createLinkFinder(SOURCES)(text);
      const find = createLinkFinder(SOURCES);
      const found = [];
      for (let at = 0, turn = 0; at < text.length; turn++) {
        const size = 1 + (sizes[turn % sizes.length] ?? 0);
        found.push(...find(text.slice(at, at + size)));
        at += size;
      }
      expect(found).toEqual([...whole]);
    }),
  );
});
