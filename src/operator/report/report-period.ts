// The period of a report as it is asked for: days of UTC, or instants.

import { utcDay } from "../../base/time.ts";
import { invalid } from "../../base/fault.ts";
import type { Period } from "./provider-costs.ts";

const DAY_PATTERN = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT_PATTERN = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;

export interface PeriodQuery {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** From the first of this month until now, where nothing else is asked for. */
export function parsePeriod({ from, to }: PeriodQuery, now: number): Period {
  const month = new Date(now);
  const first = Date.UTC(month.getUTCFullYear(), month.getUTCMonth(), 1);
  // What is committed at this very instant belongs to the period, too.
  const period = { from: parseTime("from", from) ?? first, to: parseTime("to", to) ?? now + 1 };
  if (period.from >= period.to) throw invalid("from", "The period must begin before it ends.");
  return period;
}

function parseTime(name: string, input: string | undefined): number | undefined {
  if (input === undefined || input === "") return undefined;
  const at =
    DAY_PATTERN.test(input) || INSTANT_PATTERN.test(input) ? Date.parse(input) : Number.NaN;
  const day = input.slice(0, "2027-01-31".length);
  // JavaScript takes the 31st of June for the first of July.
  if (Number.isNaN(at) || utcDay(Date.parse(day)) !== day)
    throw invalid(
      name,
      `"${input}" is no time: write a UTC day such as 2027-01-31, or 2027-01-31T12:00:00Z.`,
    );
  return at;
}
