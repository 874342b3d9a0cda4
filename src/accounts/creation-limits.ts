// Limits on account creation, because anyone can ask for starting credit. It owns the table account_creation: accounts and
// starting credit per network and hour, and for all networks per day.

import { isIP } from "node:net";
import { Fault } from "../base/fault.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { DAY_MS, HOUR_MS, SECOND_MS, msUntilNextWindow } from "../base/time.ts";
import { prefixOf } from "../http/request/client-ip.ts";
import { integer, type Reader, text, type Tx } from "../store/db.ts";
import { STARTING_CREDIT } from "./accounts.ts";
import { takeSignature, type VerifiedAgent } from "./verified-agent.ts";

interface NetworkShare {
  /** The prefix length. */
  readonly bits: number;
  /** Times `perHour`; without it, the accounts of such a network are not limited. */
  readonly accountsFactor?: number;
  /** Shares of the day's budget of starting credit that one such network gets. */
  readonly percentPerHour: number;
  readonly percentPerDay: number;
}

/** The share of one IPv4 address or IPv6 /64. */
export const ADDRESS_SHARE = { accountsFactor: 1, percentPerHour: 5, percentPerDay: 10 } as const;

/**
 * A customer of a provider has an IPv4 address, or an IPv6 /64 or /56; a site has a /24 or /48; a provider has many /16 or a
 * /32. No provider's network gets more than two fifths of a day's budget, so no single network can use it up.
 */
export const NETWORK_SHARES: Readonly<Record<4 | 6, readonly NetworkShare[]>> = {
  4: [
    { bits: 32, ...ADDRESS_SHARE },
    { bits: 24, accountsFactor: 4, percentPerHour: 10, percentPerDay: 20 },
    { bits: 16, percentPerHour: 20, percentPerDay: 40 },
  ],
  6: [
    { bits: 64, ...ADDRESS_SHARE },
    { bits: 56, percentPerHour: 5, percentPerDay: 10 },
    { bits: 48, accountsFactor: 4, percentPerHour: 10, percentPerDay: 20 },
    { bits: 32, percentPerHour: 20, percentPerDay: 40 },
  ],
};

/** Each is reported once a day, when the used part of the budget reaches it. */
const WARNING_PERCENTS: readonly number[] = [50, 80, 100];

const ALL_NETWORKS = "*";

export interface CreationLimits {
  /** Accounts per hour and network; zero for no limit. */
  readonly perHour: number;
  /** Starting credit per UTC day; zero for no limit. */
  readonly grantPerDay: Nano;
  /** What to do once it is used up: create accounts with a balance of 0, or refuse. */
  readonly whenExhausted: "create" | "refuse";
}

export interface CreationRequest {
  readonly clientIp: string;
  readonly now: number;
}

export interface AccountAdmission {
  readonly startingCredit: Nano;
  /** The warning thresholds that this account's starting credit reached. */
  readonly reachedPercents: readonly number[];
}

/** Counts the account that is about to be created, and decides on its starting credit. A refusal is a 429. */
export async function admitCreation(
  tx: Tx,
  request: CreationRequest,
  limits: CreationLimits,
): Promise<AccountAdmission> {
  const grantsPerDay = Number(limits.grantPerDay / STARTING_CREDIT);
  if (limits.perHour > 0 || limits.grantPerDay > 0n) await countAccount(tx, request, limits);
  if (limits.grantPerDay === 0n) return { startingCredit: STARTING_CREDIT, reachedPercents: [] };
  const used = await takeGrant(tx, grantsPerDay, request.now);
  if (used === undefined) {
    if (limits.whenExhausted === "refuse")
      throw rateLimitedFault(
        "daily grant budget spent",
        "Today's starting credit for new accounts is used up.",
        msUntilNextWindow(DAY_MS, request.now),
      );
    return { startingCredit: 0n, reachedPercents: [] };
  }
  await takeShares(tx, request, grantsPerDay);
  const isReached = (percent: number, grants: number): boolean =>
    grants * 100 >= percent * grantsPerDay;
  return {
    startingCredit: STARTING_CREDIT,
    reachedPercents: WARNING_PERCENTS.filter(
      (percent) => isReached(percent, used) && !isReached(percent, used - 1),
    ),
  };
}

/** Counts an account of a verified agent against the agent's own quota. Networks and the day's budget do not count. */
export async function admitVerifiedAgent(
  tx: Tx,
  agent: VerifiedAgent,
  now: number,
): Promise<AccountAdmission> {
  await takeSignature(tx, agent);
  const row = await tx.get(
    `insert into account_creation (prefix, hour, created, granted) values (?, ?, 1, ?)
     on conflict (prefix, hour) do update set created = account_creation.created + 1, granted = account_creation.granted + excluded.granted returning created`,
    [agent.url, now - (now % HOUR_MS), agent.startingCredit],
  );
  if (row === undefined) throw new Error("the account count was not returned");
  if (agent.accountsPerHour > 0 && integer(row, "created") > agent.accountsPerHour)
    throw rateLimitedFault(
      `too many accounts from ${agent.url}`,
      `Too many accounts were created by agents of ${agent.url}.`,
      msUntilNextWindow(HOUR_MS, now),
    );
  return { startingCredit: agent.startingCredit, reachedPercents: [] };
}

export async function sweepCreationCounts(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from account_creation where hour < ?", [now - 2 * DAY_MS]);
}

// Increments before it checks, in one transaction, so that concurrent requests cannot both pass the limit.
async function countAccount(
  tx: Tx,
  { clientIp, now }: CreationRequest,
  { perHour }: CreationLimits,
): Promise<void> {
  // Narrow networks first: transactions that lock the same rows lock them in the same order.
  for (const { prefix, share } of networksWithShares(clientIp)) {
    const row = await tx.get(
      `insert into account_creation (prefix, hour, created, granted) values (?, ?, 1, 0)
       on conflict (prefix, hour) do update set created = account_creation.created + 1 returning created`,
      [prefix, now - (now % HOUR_MS)],
    );
    if (row === undefined) throw new Error("the account count was not returned");
    if (perHour === 0 || share.accountsFactor === undefined) continue;
    if (integer(row, "created") > perHour * share.accountsFactor)
      throw rateLimitedFault(
        `too many accounts from ${prefix}`,
        "Too many accounts were created from your network.",
        msUntilNextWindow(HOUR_MS, now),
      );
  }
}

/** Takes one grant from the day's budget. Returns how many are used, or undefined if none was left. */
async function takeGrant(tx: Tx, grantsPerDay: number, now: number): Promise<number | undefined> {
  if (grantsPerDay === 0) return undefined;
  const budget = STARTING_CREDIT * BigInt(grantsPerDay);
  const row = await tx.get(
    `insert into account_creation (prefix, hour, created, granted) values (?, ?, 1, ?)
     on conflict (prefix, hour) do update set created = account_creation.created + 1, granted = account_creation.granted + excluded.granted
     where account_creation.granted + excluded.granted <= ? returning granted`,
    [ALL_NETWORKS, now - (now % DAY_MS), STARTING_CREDIT, budget],
  );
  return row === undefined ? undefined : grantsOf(row["granted"]);
}

/** Whether the day's budget has no starting credit left; `grantPerDay` is 0 if there is no limit. */
export async function isGrantBudgetUsedUp(
  reader: Reader,
  grantPerDay: Nano,
  now: number,
): Promise<boolean> {
  if (grantPerDay === 0n) return false;
  const row = await reader.get(
    "select granted from account_creation where prefix = ? and hour = ?",
    [ALL_NETWORKS, now - (now % DAY_MS)],
  );
  return row !== undefined && toNano(row["granted"]) + STARTING_CREDIT > grantPerDay;
}

/** Adds one grant to each network of the client, and refuses if that is more than a network's share. */
async function takeShares(
  tx: Tx,
  { clientIp, now }: CreationRequest,
  grantsPerDay: number,
): Promise<void> {
  const networks = networksWithShares(clientIp);
  const prefixes = networks.map(({ prefix }) => prefix);
  const placeholders = prefixes.map(() => "?").join(", ");
  const hour = now - (now % HOUR_MS);
  await tx.run(
    `update account_creation set granted = granted + ? where hour = ? and prefix in (${placeholders})`,
    [STARTING_CREDIT, hour, ...prefixes],
  );
  const rows = await tx.all(
    `select prefix, cast(sum(granted) as bigint) as of_day, cast(sum(case when hour = ? then granted else 0 end) as bigint) as of_hour
     from account_creation where hour >= ? and prefix in (${placeholders}) group by prefix`,
    [hour, now - (now % DAY_MS), ...prefixes],
  );
  const windows = [
    { column: "of_day", percent: "percentPerDay", ms: DAY_MS },
    { column: "of_hour", percent: "percentPerHour", ms: HOUR_MS },
  ] as const;
  for (const row of rows) {
    const network = networks.find(({ prefix }) => prefix === text(row, "prefix"));
    if (network === undefined) continue;
    for (const { column, percent, ms } of windows)
      if (grantsOf(row[column]) > grantsIn(network.share[percent], grantsPerDay))
        throw rateLimitedFault(
          `${network.prefix} is over its share of the grant budget`,
          "Your network has used its share of today's starting credit for new accounts.",
          msUntilNextWindow(ms, now),
        );
  }
}

function grantsOf(amount: unknown): number {
  return Number(toNano(amount) / STARTING_CREDIT);
}

/** At least one, so that a small budget can be granted at all. */
function grantsIn(percent: number, grantsPerDay: number): number {
  return Math.max(1, Math.floor((grantsPerDay * percent) / 100));
}

interface Network {
  readonly prefix: string;
  readonly share: NetworkShare;
}

/** All networks that contain the client and have a share, the narrowest first. */
function networksWithShares(clientIp: string): readonly Network[] {
  const family = isIP(clientIp);
  if (family === 4 || family === 6)
    return NETWORK_SHARES[family].map((share) => ({
      prefix: prefixOf(clientIp, share.bits),
      share,
    }));
  return [{ prefix: "unknown", share: { bits: 0, ...ADDRESS_SHARE } }];
}

function rateLimitedFault(detail: string, message: string, waitMs: number): Fault {
  return new Fault("rate_limited", detail, {
    message: `${message} Wait for \`retry-after\` seconds, or use a key that you already have.`,
    retryAfterSeconds: waitMs / SECOND_MS,
  });
}
