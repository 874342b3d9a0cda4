// How the console says money, time and names.

import { type Nano, NANO_PER_USD, usdText } from "./money.ts";

const NANO_PER_CENT = NANO_PER_USD / 100n;

/** Dollars and cents, and every digit where there is less than a dollar. */
export function formatUsd(amount: Nano): string {
  if (amount !== 0n && amount < NANO_PER_USD && amount % NANO_PER_CENT !== 0n)
    return `$${usdText(amount)}`;
  const cents = amount / NANO_PER_CENT;
  const [whole, rest] = [cents / 100n, cents % 100n];
  return `$${whole.toLocaleString("en-US")}.${rest.toString().padStart(2, "0")}`;
}

export function formatMinute(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export function formatInteger(value: number): string {
  return value.toLocaleString("en-US");
}

/** What an audit entry tells besides who, what and on what. */
export function formatAuditDetail(detail: Readonly<Record<string, unknown>>): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${String(value)}`)
    .join("; ");
}
