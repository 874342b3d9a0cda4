// The hours and days of a reader's time zone.

import { memoize } from "../base/memoize.ts";
import { DAY_MS, HOUR_MS, utcDay } from "../base/time.ts";

export interface TimeBuckets {
  readonly unit: "hour" | "day";
  /** An IANA name such as `Europe/Berlin`. */
  readonly timeZone: string;
}

export function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** The bucket of an hour: the day as `2026-11-21`, the hour as `2026-11-21T09:00:00Z`. */
export function bucketOf({ unit, timeZone }: TimeBuckets, hour: number): string {
  if (unit === "hour")
    return `${new Date(hour - (hour % HOUR_MS)).toISOString().slice(0, "2026-11-21T09:00:00".length)}Z`;
  return timeZone === "UTC" ? utcDay(hour) : dayFormatOf(timeZone).format(hour);
}

/** The start of the local day that contains `at`, at the full hour. */
export function startOfDay(timeZone: string, at: number): number {
  if (timeZone === "UTC") return at - (at % DAY_MS);
  const buckets = { unit: "day", timeZone } as const;
  const day = bucketOf(buckets, at);
  let hour = at - (at % HOUR_MS);
  while (bucketOf(buckets, hour - HOUR_MS) === day) hour -= HOUR_MS;
  return hour;
}

export interface LocalDays {
  /** An hour in the local day that has most hours of the UTC day. */
  readonly mostHours: number;
  /** The hours of the UTC day that are in another local day. */
  readonly otherHours: readonly number[];
}

/** How the UTC day that starts at `day` is divided into local days. */
export function localDaysOf(timeZone: string, day: number): LocalDays {
  const hours = Array.from({ length: DAY_MS / HOUR_MS }, (_, hour) => day + hour * HOUR_MS);
  const byDay = Map.groupBy(hours, (hour) => bucketOf({ unit: "day", timeZone }, hour));
  const [most = hours, ...others] = [...byDay.values()].sort(
    (one, other) => other.length - one.length,
  );
  return { mostHours: most[0] ?? day, otherHours: others.flat() };
}

// Swedish dates are written as ISO 8601 writes them.
const dayFormatOf = memoize(
  (timeZone: string) =>
    new Intl.DateTimeFormat("sv-SE", {
      timeZone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
    }),
);
