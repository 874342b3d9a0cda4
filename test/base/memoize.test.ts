import { expect, test } from "bun:test";
import { memoize } from "../../src/base/memoize.ts";

test("computes once for each name, also if the result is false or empty", () => {
  const computed: string[] = [];
  const cached = memoize((name: string): string | boolean => {
    computed.push(name);
    return name === "no" ? false : name;
  });
  for (const name of ["a", "no", "", "a", "no", ""]) cached(name);
  expect(computed).toEqual(["a", "no", ""]);
  expect([cached("a"), cached("no"), cached("")]).toEqual(["a", false, ""]);
});

test("does not cache undefined, so unknown names evict nothing", () => {
  const computed: string[] = [];
  const cached = memoize((name: string) => {
    computed.push(name);
    return name.startsWith("x") ? undefined : name;
  }, 2);
  for (const name of ["a", "x1", "x2", "x3", "x1", "a"]) cached(name);
  expect(computed).toEqual(["a", "x1", "x2", "x3", "x1"]);
});

test("keeps at most maxEntries", () => {
  const computed: string[] = [];
  const cached = memoize((name: string) => {
    computed.push(name);
    return name;
  }, 2);
  for (const name of ["a", "b", "a", "c", "a"]) cached(name);
  expect(computed).toEqual(["a", "b", "c", "a"]);
});
