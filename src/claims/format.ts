// How the page says money, time and places.

import { type Nano, NANO_PER_USD } from "../base/money.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";

const NANO_PER_CENT = NANO_PER_USD / 100n;
const NANO_PER_MILLICENT = NANO_PER_USD / 100_000n;

/** Cents, and fractions of them only where there is less than a dollar to show. */
export function formatUsd(amount: Nano): string {
  if (amount % NANO_PER_CENT === 0n || amount >= NANO_PER_USD)
    return `$${formatDecimal(amount / NANO_PER_CENT, 2)}`;
  if (amount < NANO_PER_MILLICENT) return "less than $0.00001";
  return `$${formatDecimal(amount / NANO_PER_MILLICENT, 5)}`;
}

export function formatDuration(ms: number): string {
  if (ms < MINUTE_MS) return "less than a minute";
  if (ms < HOUR_MS) return pluralize(Math.floor(ms / MINUTE_MS), "minute");
  if (ms < 2 * DAY_MS) return pluralize(Math.floor(ms / HOUR_MS), "hour");
  return pluralize(Math.floor(ms / DAY_MS), "day");
}

export function formatAge(at: number, now: number): string {
  return `${formatDuration(Math.max(0, now - at))} ago`;
}

export function pluralize(amount: number, noun: string): string {
  return `${amount.toLocaleString("en-US")} ${noun}${amount === 1 ? "" : "s"}`;
}

/** A coarse network in words. */
export function describeNetwork(network: string): string {
  if (/^127\.|^0:0:0::/.test(network)) return "this computer";
  return network.startsWith("unknown") ? "an unknown network" : `the network ${network}`;
}

/** `123456` as it is read aloud and compared: in two halves. */
export function formatUserCode(userCode: string): string {
  return `${userCode.slice(0, 3)} ${userCode.slice(3)}`;
}

/** What the agent set up beside keys, and goes on after the claim. */
export function describeSetup({
  webhookHosts,
  ownProviders,
}: {
  readonly webhookHosts: readonly string[];
  readonly ownProviders: readonly string[];
}): readonly string[] {
  const hosts = webhookHosts.length === 0 ? [] : [webhookHosts.join(", ")];
  const providers = ownProviders.length === 0 ? [] : [ownProviders.join(", ")];
  return [
    ...hosts.map((names) => `Webhooks tell ${names} what happens in it, and who belongs to it`),
    ...providers.map(
      (names) => `Calls at ${names} go on a provider key that came with it, not on its balance`,
    ),
  ];
}

function formatDecimal(units: bigint, digits: number): string {
  const text = units.toString().padStart(digits + 1, "0");
  const whole = BigInt(text.slice(0, -digits)).toLocaleString("en-US");
  return `${whole}.${text.slice(-digits)}`;
}
