import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { mutate, MUTATIONS } from "./mutations.ts";

const ROOT = path.dirname(path.dirname(import.meta.dir));

describe("mutations of `npm run mutate`", () => {
  test("match the code exactly once, change it, and name tests that exist", () => {
    for (const mutation of MUTATIONS) {
      const { name, file, tests } = mutation;
      const text = readFileSync(path.join(ROOT, file), "utf8");
      const mutated = mutate(text, mutation);
      expect([file, name, mutated !== undefined && mutated !== text]).toEqual([file, name, true]);
      expect(tests.length).toBeGreaterThan(0);
      for (const testFile of tests)
        expect([testFile, existsSync(path.join(ROOT, testFile))]).toEqual([testFile, true]);
    }
  });

  test("have names of their own", () => {
    const names = MUTATIONS.map(({ file, name }) => `${file} ${name}`);
    expect(new Set(names).size).toBe(names.length);
  });
});
