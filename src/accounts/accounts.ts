// Accounts, which agents create without authentication. It owns the tables account and account_creation. Creations per
// network and starting credit per day are limited, because anyone can ask for them.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type Nano, NANO_PER_CREDIT, toNano } from "../base/money.ts";
import { DAY_MS, HOUR_MS, SECOND_MS } from "../base/time.ts";
import { type Reader, text, textOrNull, type Tx, integer, integerOrNull } from "../store/db.ts";

/** Specification, Limits: 0.05 USD. */
export const STARTING_CREDIT: Nano = 50_000n * NANO_PER_CREDIT;

/** Several people share a wide network, so its limit is this many times that of a narrow one. */
const WIDE_NETWORK_FACTOR = 4;
const ALL_NETWORKS = "*";

export interface Account {
  readonly id: string;
  readonly email: string | null;
  readonly createdAt: number;
  readonly claimedAt: number | null;
}

export interface CreationLimits {
  /** Accounts per hour and network; zero for no limit. */
  readonly perHour: number;
  /** Starting credit per UTC day; zero for no limit. */
  readonly grantPerDay: Nano;
}

export interface NewAccount {
  readonly email: string | null;
  /** The narrow and the wide network of the client. */
  readonly networks: readonly [string, string];
  readonly now: number;
}

export interface AccountDeps {
  readonly limits: CreationLimits;
  readonly openWallet: (tx: Tx, accountId: string) => Promise<void>;
  readonly grantStartingCredit: (
    tx: Tx,
    accountId: string,
    amount: Nano,
    now: number,
  ) => Promise<void>;
}

export async function createAccount(
  tx: Tx,
  request: NewAccount,
  deps: AccountDeps,
): Promise<Account> {
  await countCreation(tx, request, deps.limits);
  const { email, now } = request;
  const id = newId("acct", now);
  await tx.run("insert into account (id, email, created_at, created_from) values (?, ?, ?, ?)", [
    id,
    email,
    now,
    request.networks[0],
  ]);
  await deps.openWallet(tx, id);
  await deps.grantStartingCredit(tx, id, STARTING_CREDIT, now);
  return { id, email, createdAt: now, claimedAt: null };
}

export async function getAccount(reader: Reader, id: string): Promise<Account> {
  const row = await reader.get("select * from account where id = ?", [id]);
  if (row === undefined)
    throw new Fault("not_found", `no account ${id}`, { message: "The account does not exist." });
  return {
    id: text(row, "id"),
    email: textOrNull(row, "email"),
    createdAt: integer(row, "created_at"),
    claimedAt: integerOrNull(row, "claimed_at"),
  };
}

export async function sweepCreationCounts(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from account_creation where hour < ?", [now - 2 * DAY_MS]);
}

// Increments before it checks, in one transaction, so that concurrent requests cannot both take the last place.
async function countCreation(
  tx: Tx,
  { networks, now }: NewAccount,
  limits: CreationLimits,
): Promise<void> {
  const hour = now - (now % HOUR_MS);
  const day = now - (now % DAY_MS);
  if (limits.perHour > 0) {
    const [narrow, wide] = networks;
    const counts = [
      [narrow, limits.perHour],
      [wide, limits.perHour * WIDE_NETWORK_FACTOR],
    ] as const;
    for (const [network, max] of counts) {
      const { created } = await incrementCount(tx, network, hour);
      if (created > max)
        throw rateLimitedFault(
          `too many accounts from ${network}`,
          "Too many accounts were created from your network.",
          hour + HOUR_MS - now,
        );
    }
  }
  if (limits.grantPerDay > 0n) {
    const { granted } = await incrementCount(tx, ALL_NETWORKS, day);
    if (granted > limits.grantPerDay)
      throw rateLimitedFault(
        "daily grant budget spent",
        "Today's starting credit for new accounts is used up.",
        day + DAY_MS - now,
      );
  }
}

async function incrementCount(
  tx: Tx,
  prefix: string,
  hour: number,
): Promise<{ readonly created: number; readonly granted: Nano }> {
  const row = await tx.get(
    `insert into account_creation (prefix, hour, created, granted) values (?, ?, 1, ?)
     on conflict (prefix, hour) do update set created = account_creation.created + 1, granted = account_creation.granted + excluded.granted
     returning created, granted`,
    [prefix, hour, STARTING_CREDIT],
  );
  if (row === undefined) throw new Error("the account count was not returned");
  return { created: integer(row, "created"), granted: toNano(row["granted"]) };
}

function rateLimitedFault(detail: string, message: string, waitMs: number): Fault {
  return new Fault("rate_limited", detail, {
    message: `${message} Wait for \`retry-after\` seconds, or use a key that you already have.`,
    retryAfterSeconds: waitMs / SECOND_MS,
  });
}
