// Parses the period of a report: UTC days or full hours, because the report is computed from hourly sums.

import { invalid } from "../base/fault.ts";
import { HOUR_MS, utcDay } from "../base/time.ts";
import type { Period } from "./provider-costs.ts";

const DAY_PATTERN = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT_PATTERN = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;

export interface PeriodQuery {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The default is the current month until now. */
export function parsePeriod({ from, to }: PeriodQuery, now: number): Period {
  const month = new Date(now);
  const first = Date.UTC(month.getUTCFullYear(), month.getUTCMonth(), 1);
  // `to` is exclusive; `now + 1` includes what was committed in this millisecond.
  const period = { from: parseTime("from", from) ?? first, to: parseTime("to", to) ?? now + 1 };
  if (period.from >= period.to) throw invalid("from", "`from` must be before `to`.");
  return period;
}

function parseTime(name: string, input: string | undefined): number | undefined {
  if (input === undefined || input === "") return undefined;
  const at =
    DAY_PATTERN.test(input) || INSTANT_PATTERN.test(input) ? Date.parse(input) : Number.NaN;
  const day = input.slice(0, "2027-01-31".length);
  // Date.parse reads June 31 as July 1.
  if (Number.isNaN(at) || utcDay(Date.parse(day)) !== day)
    throw invalid(
      name,
      `"${input}" is not a valid date. Use a UTC day such as 2027-01-31, or a timestamp such as 2027-01-31T12:00:00Z.`,
    );
  if (at % HOUR_MS !== 0)
    throw invalid(
      name,
      `"${input}" is not a full hour in UTC. Reports are computed by hour: use a UTC day such as 2027-01-31, or a timestamp such as 2027-01-31T12:00:00Z.`,
    );
  return at;
}

/** The hours of a period. Only the end of the default, which is now, is within one. */
export function wholeHours({ from, to }: Period): Period {
  return { from: from - (from % HOUR_MS), to: Math.ceil(to / HOUR_MS) * HOUR_MS };
}
