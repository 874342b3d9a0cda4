// Money, time and numbers as pages show them.

import { memoize } from "../memoize.ts";
import { NANO_PER_USD, type Nano, usdText } from "../money/money.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../time.ts";

const NANO_PER_CENT = NANO_PER_USD / 100n;
const NANO_PER_MICRO_USD = NANO_PER_USD / 1_000_000n;

/**
 * `$1,234.56`, or up to six decimals below one dollar. Rounds towards zero, so that no balance looks larger than it is.
 */
export function formatUsd(amount: Nano): string {
  if (amount < 0n) return `−${formatUsd(-amount)}`;
  if (amount > 0n && amount < NANO_PER_MICRO_USD) return "less than $0.000001";
  const step = amount < NANO_PER_USD ? NANO_PER_MICRO_USD : NANO_PER_CENT;
  return formatUsdExact(amount - (amount % step));
}

/** Every digit, and at least two decimals: `$1,234.50`, `$0.0000015`. */
export function formatUsdExact(amount: Nano): string {
  if (amount < 0n) return `−${formatUsdExact(-amount)}`;
  const [whole = "0", fraction = ""] = usdText(amount).split(".");
  return `$${BigInt(whole).toLocaleString("en-US")}.${fraction.padEnd(2, "0")}`;
}

/** Whole cents, or up to six decimals below one cent: for spend beside a limit. */
export function formatSpend(amount: Nano): string {
  return formatUsd(amount < NANO_PER_CENT ? amount : amount - (amount % NANO_PER_CENT));
}

/**
 * A column of amounts with equally many decimals: two if one amount is a dollar or more, four if one is a cent or more, else six.
 * Each is rounded towards zero.
 */
export function formatCosts(amounts: readonly Nano[], decimalsMin = 2): readonly string[] {
  const decimals = Math.max(decimalsMin, decimalsOf(amounts));
  const step = stepOf(decimals);
  const steps = amounts.map((amount) => amount / step);
  return formatSteps(steps, amounts, { decimals, decimalsMin });
}

export interface FormattedSum {
  readonly parts: readonly string[];
  readonly total: string;
}

/**
 * A total and its parts, so that the shown parts add up to the shown total: all have the decimals of the total, which is rounded
 * towards zero, and the parts with the largest remainders get the steps that rounding left over. Parts that are not the whole
 * total are rounded towards zero, too.
 */
export function formatSum(parts: readonly Nano[], total: Nano = sumOf(parts)): FormattedSum {
  const decimals = decimalsOf([total]);
  const step = stepOf(decimals);
  const steps =
    sumOf(parts) === total
      ? apportion(parts, step, total / step)
      : parts.map((part) => part / step);
  const all = [...steps, total / step];
  const shown = formatSteps(all, [...parts, total], { decimals, decimalsMin: 2 });
  return { parts: shown.slice(0, -1), total: shown.at(-1) ?? "" };
}

/** The parts in steps, by the method of the largest remainder. */
function apportion(parts: readonly Nano[], step: Nano, total: bigint): readonly bigint[] {
  const steps = parts.map((part) => part / step - (part % step < 0n ? 1n : 0n));
  const remainders = parts.map((part, index) => part - (steps[index] ?? 0n) * step);
  const byRemainder = remainders
    .map((_, index) => index)
    .toSorted((one, other) => Number((remainders[other] ?? 0n) - (remainders[one] ?? 0n)));
  const left = Number(total - sumOf(steps));
  for (const index of byRemainder.slice(0, Math.max(0, left)))
    steps[index] = (steps[index] ?? 0n) + 1n;
  return steps;
}

function decimalsOf(amounts: readonly Nano[]): number {
  const isReached = (least: Nano): boolean =>
    amounts.some((amount) => amount >= least || amount <= -least);
  if (isReached(NANO_PER_USD) || amounts.every((amount) => amount === 0n)) return 2;
  return isReached(NANO_PER_CENT) ? 4 : 6;
}

function stepOf(decimals: number): Nano {
  return NANO_PER_USD / 10n ** BigInt(decimals);
}

interface Decimals {
  readonly decimals: number;
  readonly decimalsMin: number;
}

/** Leaves out decimals that are zero in all amounts. An amount that is not zero is not shown as zero. */
function formatSteps(
  steps: readonly bigint[],
  amounts: readonly Nano[],
  { decimals, decimalsMin }: Decimals,
): readonly string[] {
  const isHidden = steps.some((count, index) => count === 0n && amounts[index] !== 0n);
  if (!isHidden && decimals > decimalsMin && steps.every((count) => count % 10n === 0n)) {
    const fewer = steps.map((count) => count / 10n);
    return formatSteps(fewer, amounts, { decimals: decimals - 1, decimalsMin });
  }
  const least = `<$${(10 ** -decimals).toFixed(decimals)}`;
  return steps.map((count, index) =>
    count === 0n && amounts[index] !== 0n ? least : formatDecimal(count, decimals),
  );
}

function formatDecimal(steps: bigint, decimals: number): string {
  const magnitude = steps < 0n ? -steps : steps;
  const scale = 10n ** BigInt(decimals);
  const fraction = (magnitude % scale).toString().padStart(decimals, "0");
  return `${steps < 0n ? "−" : ""}$${(magnitude / scale).toLocaleString("en-US")}.${fraction}`;
}

function sumOf(amounts: readonly bigint[]): bigint {
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}

/** `2026-11-21 14:05 UTC`, or `2026-11-21 15:05 GMT+1` in another time zone. */
export function formatDateTime(at: number, timeZone = "UTC"): string {
  if (timeZone === "UTC") return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
  const parts = new Map(
    zoneFormat(timeZone)
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? "";
  const date = [part("year"), part("month"), part("day")].join("-");
  return `${date} ${part("hour")}:${part("minute")} ${part("timeZoneName")}`;
}

const DAY_FORMAT = new Intl.DateTimeFormat("en-US", {
  timeZone: "UTC",
  month: "short",
  day: "numeric",
});

/** `Nov 9` of `2026-11-09`. */
export function formatDay(day: string): string {
  return DAY_FORMAT.format(new Date(day));
}

/** `14:05:09` and `Nov 21`: for lists of recent records. */
export function formatClock(at: number, timeZone: string): { time: string; day: string } {
  const parts = clockFormat(timeZone).formatToParts(at);
  const part = (type: Intl.DateTimeFormatPartTypes): string =>
    parts.find((each) => each.type === type)?.value ?? "";
  return {
    time: [part("hour"), part("minute"), part("second")].join(":"),
    day: `${part("month")} ${part("day")}`,
  };
}

const clockFormat = memoize(
  (timeZone: string) =>
    new Intl.DateTimeFormat("en-US", {
      timeZone,
      month: "short",
      day: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    }),
);

/** A formatter takes long to create; there are some hundred time zones. */
const ZONE_FORMATS = new Map<string, Intl.DateTimeFormat>();

function zoneFormat(timeZone: string): Intl.DateTimeFormat {
  const known = ZONE_FORMATS.get(timeZone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  });
  ZONE_FORMATS.set(timeZone, format);
  return format;
}

export function formatDuration(ms: number): string {
  if (ms < MINUTE_MS) return "less than a minute";
  if (ms < HOUR_MS) return pluralize(Math.floor(ms / MINUTE_MS), "minute");
  if (ms < 2 * DAY_MS) return pluralize(Math.floor(ms / HOUR_MS), "hour");
  return pluralize(Math.floor(ms / DAY_MS), "day");
}

/** `3 hours ago`; a time in the future counts as now. */
export function formatAge(at: number, now: number): string {
  return `${formatDuration(Math.max(0, now - at))} ago`;
}

/** `1,234,567`. */
export function formatInteger(value: number): string {
  return value.toLocaleString("en-US");
}

/** `1 key`, `1,200 keys`. */
export function pluralize(count: number, noun: string): string {
  return `${formatInteger(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** `a`, `a or b`, `a, b or c`. */
export function joinWithOr(words: readonly string[]): string {
  return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter(Boolean).join(" or ");
}

export function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

/** `412 ms`, `1.9 s`. */
export function formatMilliseconds(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

/** `~412 ms`: a percentile, which is estimated from a histogram. */
export function formatPercentile(ms: number): string {
  return `~${formatMilliseconds(ms)}`;
}

/** `38%`, `0.4%`; a share from 0 to 1. */
export function formatPercent(share: number): string {
  const percent = share * 100;
  return `${percent === 0 || percent >= 10 ? Math.round(percent) : percent.toFixed(1)}%`;
}

/** `$1.2K`, `$0.60`, `$0.0005`: three significant digits, for the axes and bars of charts. */
export function formatUsdShort(usd: number): string {
  if (usd >= 1_000)
    return `$${usd.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 })}`;
  const text = usd.toLocaleString("en-US", { maximumSignificantDigits: 3 });
  // Cents have two digits.
  return `$${/\.\d$/.test(text) ? `${text}0` : text}`;
}
