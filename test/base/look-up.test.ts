import { expect, test } from "bun:test";
import { lookUp } from "../../src/base/look-up.ts";

test("finds the members of a table, and nothing that objects inherit", () => {
  const table = { image: 1 };
  expect(lookUp(table, "image")).toBe(1);
  for (const name of ["toString", "constructor", "__proto__", "hasOwnProperty", "other"])
    expect(lookUp<unknown>(table, name)).toBeUndefined();
});
