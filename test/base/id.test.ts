import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { ID_PREFIXES, isId, newId, newIdAfter } from "../../src/base/id.ts";
import { maxId, toPage } from "../../src/base/pagination.ts";

const NOW = Date.UTC(2026, 10, 21);

describe("ids", () => {
  test("consist of a prefix and 26 characters", () => {
    for (const prefix of ID_PREFIXES)
      expect(newId(prefix, NOW)).toMatch(new RegExp(`^${prefix}_[0-9a-z]{26}$`));
  });

  test("sort by creation time", () => {
    fc.assert(
      fc.property(fc.nat(4e12), fc.nat(4e12), (one, other) => {
        if (one === other) return true;
        const [a, b] = [newId("key", one), newId("key", other)];
        return a < b === one < other;
      }),
    );
  });

  test("of one millisecond share the time part and differ in the random part", () => {
    const ids = Array.from({ length: 20_000 }, () => newId("req", NOW));
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(ids.map((id) => id.slice(0, 14))).size).toBe(1);
  });

  test("newIdAfter sorts after the given id, whatever the clock says", () => {
    fc.assert(
      fc.property(fc.nat(4e12), fc.nat(4e12), (one, other) => {
        const last = newId("aud", one);
        const next = newIdAfter("aud", other, last);
        return isId("aud", next) && next > last && next >= newId("aud", other).slice(0, 14);
      }),
    );
    for (const last of ["", "aud_1", "key_01kah5t3mq7d2c9w4e6r8t0yax"])
      expect(newIdAfter("aud", NOW, last).slice(0, 14)).toBe(newId("aud", NOW).slice(0, 14));
  });

  test("contain no letters that look like digits", () => {
    const text = Array.from({ length: 500 }, () => newId("key", NOW).slice(4)).join("");
    expect(text).not.toMatch(/[ilou]/);
  });

  test("sort before maxId of their prefix", () => {
    for (const prefix of ID_PREFIXES) expect(newId(prefix, 2 ** 47) < maxId(prefix)).toBe(true);
  });

  test("isId rejects other strings", () => {
    const id = newId("key", NOW);
    expect(isId("key", id)).toBe(true);
    for (const text of [
      "",
      "key_",
      `${id}0`,
      id.slice(1),
      id.toUpperCase(),
      id.replace("key", "req"),
      `${id.slice(0, -1)}!`,
    ])
      expect([text, isId("key", text)]).toEqual([text, false]);
  });
});

describe("toPage", () => {
  const rows = (count: number): readonly { readonly id: string }[] =>
    Array.from({ length: count }, (_, index) => ({ id: `key_${index}` }));

  test("drops the extra row and reports that there are more", () => {
    expect(toPage(rows(3), 2)).toEqual({
      object: "list",
      data: [{ id: "key_0" }, { id: "key_1" }],
      has_more: true,
      next_cursor: "key_1",
    });
    expect(toPage(rows(2), 2)).toMatchObject({ has_more: false, next_cursor: null });
    expect(toPage(rows(0), 2)).toEqual({
      object: "list",
      data: [],
      has_more: false,
      next_cursor: null,
    });
  });
});
