import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import {
  dayStart,
  LIMIT_WINDOWS,
  monthStart,
  zeroSpend,
  rollWindows,
  addSpend,
  spentInWindow,
  toLimitWindow,
  weekStart,
  windowEnd,
} from "../../../src/base/money/spend-window.ts";

const at = (text: string): number => Date.parse(text);
const iso = (time: number): string => new Date(time).toISOString();
const moment = fc.date({
  min: new Date("1970-01-01"),
  max: new Date("2200-01-01"),
  noInvalidDate: true,
});

describe("spend windows", () => {
  test("a day starts at midnight, a week on Monday, a month on its first day", () => {
    const wednesday = at("2026-11-18T09:30:00Z");
    expect(iso(dayStart(wednesday))).toBe("2026-11-18T00:00:00.000Z");
    expect(iso(weekStart(wednesday))).toBe("2026-11-16T00:00:00.000Z");
    expect(iso(monthStart(wednesday))).toBe("2026-11-01T00:00:00.000Z");
  });

  test("a week ends on Sunday at midnight", () => {
    expect(iso(weekStart(at("2026-11-22T23:59:59.999Z")))).toBe("2026-11-16T00:00:00.000Z");
    expect(iso(weekStart(at("2026-11-23T00:00:00Z")))).toBe("2026-11-23T00:00:00.000Z");
  });

  test("weeks span the end of a year, and months end after leap days", () => {
    expect(iso(weekStart(at("2027-01-01T12:00:00Z")))).toBe("2026-12-28T00:00:00.000Z");
    expect(iso(windowEnd("month", at("2028-02-29T12:00:00Z")) ?? 0)).toBe(
      "2028-03-01T00:00:00.000Z",
    );
    expect(iso(windowEnd("month", at("2026-12-31T23:59:59Z")) ?? 0)).toBe(
      "2027-01-01T00:00:00.000Z",
    );
  });

  test("windows contain their times and follow each other without gaps", () => {
    const starts = { day: dayStart, week: weekStart, month: monthStart };
    fc.assert(
      fc.property(moment, fc.constantFrom(...LIMIT_WINDOWS), (date, window) => {
        const now = date.getTime();
        const end = windowEnd(window, now) ?? 0;
        const start = starts[window];
        return (
          start(now) <= now && now < end && start(end) === end && start(end - 1) === start(now)
        );
      }),
    );
  });

  test("spend without a window never resets", () => {
    expect(windowEnd(null, at("2026-11-18T00:00:00Z"))).toBeNull();
    const spent = addSpend(zeroSpend(0), 5n, 0);
    expect(spentInWindow(spent, null, at("2200-01-01T00:00:00Z"))).toBe(5n);
  });

  test("spend counts in every window and resets with each", () => {
    let spent = addSpend(zeroSpend(at("2026-11-18T09:00:00Z")), 7n, at("2026-11-18T09:00:00Z"));
    spent = addSpend(spent, 3n, at("2026-11-19T09:00:00Z"));
    const counted = (text: string): readonly bigint[] =>
      LIMIT_WINDOWS.map((window) => spentInWindow(spent, window, at(text)));
    expect(counted("2026-11-19T23:59:59Z")).toEqual([3n, 10n, 10n]);
    expect(counted("2026-11-20T00:00:00Z")).toEqual([0n, 10n, 10n]);
    expect(counted("2026-11-23T00:00:00Z")).toEqual([0n, 0n, 10n]);
    expect(counted("2026-12-01T00:00:00Z")).toEqual([0n, 0n, 0n]);
    expect(spent.total).toBe(10n);
  });

  test("a clock that steps back starts no new window", () => {
    const late = at("2026-11-19T00:00:01Z");
    const spent = addSpend(zeroSpend(late), 5n, late);
    const early = at("2026-11-18T23:59:59Z");
    expect(rollWindows(spent, early)).toEqual(spent);
    expect(spentInWindow(spent, "day", early)).toBe(5n);
  });

  test("toLimitWindow returns null for unknown names", () => {
    expect([toLimitWindow("day"), toLimitWindow("hour"), toLimitWindow(null)]).toEqual([
      "day",
      null,
      null,
    ]);
  });
});
