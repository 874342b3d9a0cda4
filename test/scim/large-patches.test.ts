// PATCH requests of a directory whose work is much larger than their size.

import { expect, test } from "bun:test";
import { patchedGroup } from "../../src/scim/scim-groups.ts";
import { parsePatch } from "../../src/scim/scim-patch.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";

const idsOf = (count: number) => Array.from({ length: count }, (_, index) => `scu_${index}`);

test("an operation without a path counts as one for each member of its value", () => {
  const value = Object.fromEntries(idsOf(1_000).map((id) => [id, true]));
  const operation = { op: "add", value };
  expect(parsePatch({ Operations: [operation] })).toHaveLength(1_000);
  expect(() => parsePatch({ Operations: [operation, { op: "remove", path: "a" }] })).toThrow(
    "SCIM tooMany",
  );
});

test("many operations on a large group take linear time", () => {
  expectLinearCpuTime((size) => {
    const members = new Set(idsOf(size));
    const group = { displayName: "all", externalId: null, members };
    const operations = idsOf(size).map(
      (value) =>
        ({ op: "add", attribute: "members", sub: undefined, filter: undefined, value }) as const,
    );
    expect(patchedGroup(group, operations).members.size).toBe(size);
  }, 5_000);
});
