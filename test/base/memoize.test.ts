import { expect, test } from "bun:test";
import { memoize } from "../../src/base/memoize.ts";

test("a thing is worked out once for each name, also where it is false or empty", () => {
  const asked: string[] = [];
  const known = memoize((name: string): string | boolean => {
    asked.push(name);
    return name === "no" ? false : name;
  });
  for (const name of ["a", "no", "", "a", "no", ""]) known(name);
  expect(asked).toEqual(["a", "no", ""]);
  expect([known("a"), known("no"), known("")]).toEqual(["a", false, ""]);
});

test("what comes to nothing is worked out again, and crowds nothing out", () => {
  const asked: string[] = [];
  const known = memoize((name: string) => {
    asked.push(name);
    return name.startsWith("x") ? undefined : name;
  }, 2);
  for (const name of ["a", "x1", "x2", "x3", "x1", "a"]) known(name);
  expect(asked).toEqual(["a", "x1", "x2", "x3", "x1"]);
});

test("no more is kept than the bound", () => {
  const asked: string[] = [];
  const known = memoize((name: string) => {
    asked.push(name);
    return name;
  }, 2);
  for (const name of ["a", "b", "a", "c", "a"]) known(name);
  expect(asked).toEqual(["a", "b", "c", "a"]);
});
