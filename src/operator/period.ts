// The period of a report as it is asked for: days of UTC, or instants.

import { dayOf } from "../base/day.ts";
import { invalid } from "../base/fault.ts";
import type { Period } from "./provider-costs.ts";

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;

export interface AskedPeriod {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** From the first of this month until now, where nothing else is asked for. */
export function readPeriod({ from, to }: AskedPeriod, now: number): Period {
  const month = new Date(now);
  const first = Date.UTC(month.getUTCFullYear(), month.getUTCMonth(), 1);
  // What is committed at this very instant belongs to the period, too.
  const period = { from: readTime("from", from) ?? first, to: readTime("to", to) ?? now + 1 };
  if (period.from >= period.to) throw invalid("from", "The period must begin before it ends.");
  return period;
}

function readTime(name: string, typed: string | undefined): number | undefined {
  if (typed === undefined || typed === "") return undefined;
  const at = DAY.test(typed) || INSTANT.test(typed) ? Date.parse(typed) : Number.NaN;
  const day = typed.slice(0, "2027-01-31".length);
  // JavaScript takes the 31st of June for the first of July.
  if (Number.isNaN(at) || dayOf(Date.parse(day)) !== day)
    throw invalid(
      name,
      `"${typed}" is no time: write a UTC day such as 2027-01-31, or 2027-01-31T12:00:00Z.`,
    );
  return at;
}
