// Fixed-window rate counters. Owns the table claim_count.

import { DAY_MS } from "../base/time.ts";
import { networksOf, widestNetworkOf } from "../http/request/client-ip.ts";
import { type Reader, type Tx, integer } from "../store/db.ts";

const RETENTION_MS = DAY_MS;

export interface WindowLimit {
  readonly scope: string;
  readonly windowMs: number;
  readonly max: number;
}

/** Of a limit for all, what the widest network of a stranger can use: a stranger does not exhaust the limit of others. */
const WIDEST_NETWORK_SHARE = 0.4;

/** The limits of what strangers do: for a network, for the widest one around it, and for all. */
export function strangerLimits(
  clientIp: string,
  { scope, windowMs, max, perNetwork }: WindowLimit & { readonly perNetwork: number },
): readonly WindowLimit[] {
  return [
    { scope: `${scope} ${networksOf(clientIp)[1]}`, windowMs, max: perNetwork },
    {
      scope: `${scope} ${widestNetworkOf(clientIp)}`,
      windowMs,
      max: Math.floor(max * WIDEST_NETWORK_SHARE),
    },
    { scope, windowMs, max },
  ];
}

/** Adds one to the counter of the current window and returns its value. */
export async function increment(
  tx: Tx,
  scope: string,
  windowMs: number,
  now: number,
): Promise<number> {
  const row = await tx.get(
    `insert into claim_count (scope, slot, counted) values (?, ?, 1)
     on conflict (scope, slot) do update set counted = claim_count.counted + 1 returning counted`,
    [scope, windowStart(windowMs, now)],
  );
  if (row === undefined) throw new Error("claim_count upsert returned no row");
  return integer(row, "counted");
}

/** Adds one unless the counter has reached `max`; returns whether it did. */
export async function incrementUpTo(
  tx: Tx,
  { scope, windowMs, max, now }: WindowLimit & { readonly now: number },
): Promise<boolean> {
  if (max < 1) return false;
  const row = await tx.get(
    `insert into claim_count (scope, slot, counted) values (?, ?, 1)
     on conflict (scope, slot) do update set counted = claim_count.counted + 1
     where claim_count.counted < ? returning counted`,
    [scope, windowStart(windowMs, now), max],
  );
  return row !== undefined;
}

/** Whether `incrementUpTo` would succeed at this moment. */
export async function isBelowLimit(
  reader: Reader,
  { scope, windowMs, max, now }: WindowLimit & { readonly now: number },
): Promise<boolean> {
  const row = await reader.get("select counted from claim_count where scope = ? and slot = ?", [
    scope,
    windowStart(windowMs, now),
  ]);
  return (row === undefined ? 0 : integer(row, "counted")) < max;
}

/** Deletes the counters of old windows. */
export async function sweepRateCounters(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from claim_count where slot < ?", [now - RETENTION_MS]);
}

function windowStart(windowMs: number, now: number): number {
  return now - (now % windowMs);
}
