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

/** `$26.76`, `$0.0378`, `$0.000018`: for columns of amounts whose exact values are on another page. */
export function formatCost(amount: Nano): string {
  if (amount === 0n || amount >= NANO_PER_USD) return formatUsd(amount);
  const usd = Number(amount) / Number(NANO_PER_USD);
  return usd >= 0.0001 ? `$${usd.toFixed(4)}` : formatUsdShort(Number(usd.toPrecision(2)));
}

/** A column of amounts with equally many decimals, so that they are easy to compare: two if one is a dollar or more, else four. */
export function formatCosts(amounts: readonly Nano[]): readonly string[] {
  const isLarge = amounts.some((amount) => amount >= NANO_PER_USD);
  if (!isLarge) return amounts.map(formatCost);
  return amounts.map((amount) =>
    amount > 0n && amount < NANO_PER_CENT ? "<$0.01" : formatUsd(amount - (amount % NANO_PER_CENT)),
  );
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

/** `14:05:09` and `Nov 21`: for lists of recent records. */
export function formatClock(at: number, timeZone = "UTC"): { time: string; day: string } {
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
