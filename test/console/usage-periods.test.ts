// The periods of the usage and log pages around the change to summer time, when a day has 23 hours, and back.

import { describe, expect, test } from "bun:test";
import { periodOf } from "../../src/console/usage/usage-query.ts";

const tz = "Europe/Berlin";
const NOW = Date.parse("2026-12-01T12:00:00Z");

describe("periods in a time zone", () => {
  test.each([
    ["a usual day", "2026-03-28", "2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z"],
    ["a day of 23 hours", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"],
    ["a day of 25 hours", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"],
  ])("of one date have %s", (_, day, from, to) => {
    const period = periodOf({ from: day, to: day, tz }, NOW);
    expect([period.from, period.to]).toEqual([Date.parse(from), Date.parse(to)]);
  });

  test("of the last days start on the same date at any time of the last day", () => {
    const first = Date.parse("2026-03-23T23:00:00Z");
    for (const time of ["2026-03-29T22:30:00Z", "2026-03-30T10:00:00Z", "2026-03-30T21:30:00Z"])
      expect(periodOf({ range: "7d", tz }, Date.parse(time)).from).toBe(first);
  });

  test("end now if the last day is not over", () => {
    expect(periodOf({ from: "2026-11-30", to: "2026-12-01", tz }, NOW).to).toBeUndefined();
    expect(periodOf({ from: "2026-11-30", tz }, NOW).to).toBeUndefined();
  });
});
