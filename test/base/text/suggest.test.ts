import { describe, expect, test } from "bun:test";
import { closestName } from "../../../src/base/text/suggest.ts";

const NAMES = ["limit", "cursor", "group_by", "from", "to", "model"];

describe("closestName", () => {
  test.each([
    ["by", "group_by"],
    ["group", "group_by"],
    ["groupBy", "group_by"],
    ["Limit", "limit"],
    ["limt", "limit"],
    ["courser", "cursor"],
    ["models", "model"],
  ])("suggests for %s the name %s", (wanted, name) => {
    expect(closestName(wanted, NAMES)).toBe(name);
  });

  test.each(["page", "x", "", "__proto__", "temperature"])("suggests nothing for %j", (wanted) => {
    expect(closestName(wanted, NAMES)).toBeUndefined();
  });
});
