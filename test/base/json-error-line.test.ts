import { describe, expect, test } from "bun:test";
import { jsonErrorLine } from "../../src/base/json-error-line.ts";

describe("the line of an error in JSON", () => {
  for (const [text, line] of [
    ["", 1],
    ['{\n  "a": 1\n  "b": 2\n}', 3],
    ['{\n  "a": [1,\n  2,\n  ]\n}', 4],
    ['{\n  "a": 1,\n}', 3],
    ["{\n  a: 1\n}", 2],
    ['{\n  "a": "open\n}', 2],
    ['{\n  "a": [1, 2}\n', 2],
    ['{\n  "a": 1\n', 3],
    ["{}\n\n{}", 3],
    ["[1]\n]", 2],
    ['{\n  "a": tru\n}', 2],
  ] as const)
    test(JSON.stringify(text), () => {
      expect(() => JSON.parse(text)).toThrow();
      expect(jsonErrorLine(text)).toBe(line);
    });
});
