// What the console shows of a workspace, read at one place; and who may see it.

import { getAccount } from "../accounts/accounts.ts";
import { type Invitation, listInvitations } from "../accounts/invitations.ts";
import {
  type Action,
  lockWorkspace,
  type Member,
  membersOf,
  requireRole,
  type Role,
} from "../accounts/members.ts";
import type { Nano } from "../base/money.ts";
import type { Page } from "../base/page.ts";
import { readTopUpState, type TopUpState } from "../billing/top-up-state.ts";
import {
  countLiveKeys,
  type Key,
  labelsOf,
  listRevokedKeys,
  listUnrevokedKeys,
} from "../keys/keys.ts";
import { type Freeze, findFreeze } from "../ledger/freezes.ts";
import type { Reader, Tx } from "../store/db.ts";
import { GROUPS_MAX, pageSums, sumUsage, type UsageSum } from "../usage/usage.ts";

const KEYS_SHOWN = 100;
export const REVOKED_KEYS_SHOWN = 100;
const DAYS_SHOWN = 30;
const DAY_MS = 86_400_000;

export interface Balance {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  /** Absent for nothing. */
  readonly owed?: Nano;
}

/** Where a page is: which workspace, and in which role it is looked at. */
export interface Place {
  readonly accountId: string;
  readonly role: Role;
  readonly createdAt: number;
}

export interface ConsoleStore {
  readonly db: Reader;
  readonly walletOf: (reader: Reader, accountId: string) => Promise<Balance>;
}

/** The workspace, for a person whose role allows the action; for a stranger it is not there. */
export async function enter(
  store: ConsoleStore,
  accountId: string,
  personId: string,
  action: Action,
): Promise<Place> {
  const role = await requireRole(store.db, accountId, personId, action);
  const { createdAt } = await getAccount(store.db, accountId);
  return { accountId, role, createdAt };
}

/** Asks for the role again: it may have been taken away a moment ago, and now it stays until the change is done. */
export async function enterToChange(
  tx: Tx,
  accountId: string,
  personId: string,
  action: Action,
): Promise<void> {
  await lockWorkspace(tx, accountId);
  await requireRole(tx, accountId, personId, action);
}

export interface Overview {
  readonly balance: Balance;
  /** Why the workspace makes no calls. */
  readonly freeze: Freeze | undefined;
  readonly topUp: TopUpState;
  readonly days: readonly UsageSum[];
  readonly liveKeys: number;
  readonly members: number;
}

export async function readOverview(
  store: ConsoleStore,
  accountId: string,
  now: number,
): Promise<Overview> {
  const [balance, freeze, topUp, days, liveKeys, members] = await Promise.all([
    store.walletOf(store.db, accountId),
    findFreeze(store.db, accountId),
    readTopUpState(store.db, accountId, now),
    sumUsage(store.db, accountId, { from: now - DAYS_SHOWN * DAY_MS }, "day"),
    countLiveKeys(store.db, accountId, now),
    membersOf(store.db, accountId),
  ]);
  return {
    balance,
    freeze,
    topUp,
    days,
    liveKeys,
    members: members.length,
  };
}

export interface ShownKeys {
  /** Those that are not revoked, with which the page begins, and the newest that are. */
  readonly keys: readonly Key[];
  /** The first key of the page; absent for the newest. */
  readonly from?: string;
  /** With which the next page begins. */
  readonly next?: string;
}

export async function readKeys(
  { db }: ConsoleStore,
  accountId: string,
  now: number,
  from?: string,
): Promise<ShownKeys> {
  const begin = from === undefined ? {} : { from };
  const [standing, revoked] = await Promise.all([
    listUnrevokedKeys(db, accountId, { ...begin, limit: KEYS_SHOWN + 1, now }),
    listRevokedKeys(db, accountId, REVOKED_KEYS_SHOWN, now),
  ]);
  const next = standing[KEYS_SHOWN];
  return {
    ...begin,
    keys: [...standing.slice(0, KEYS_SHOWN), ...revoked],
    ...(next === undefined ? {} : { next: next.id }),
  };
}

export interface Spending {
  readonly byModel: Page<UsageSum>;
  readonly byKey: Page<UsageSum>;
  readonly byDay: readonly UsageSum[];
  /** What tells the keys apart of whose calls the sums are. */
  readonly labels: Awaited<ReturnType<typeof labelsOf>>;
}

/** Where the tables go on; absent for their beginning. */
export interface SpendingCursors {
  readonly models?: string | undefined;
  readonly keys?: string | undefined;
}

export async function readSpending(
  { db }: ConsoleStore,
  accountId: string,
  now: number,
  { models, keys }: SpendingCursors,
): Promise<Spending> {
  const filter = { from: now - DAYS_SHOWN * DAY_MS };
  const page = (by: "model" | "key", cursor: string | undefined) =>
    pageSums(db, accountId, filter, {
      by,
      limit: GROUPS_MAX,
      ...(cursor === undefined ? {} : { cursor }),
    });
  const [byModel, byKey, byDay] = await Promise.all([
    page("model", models),
    page("key", keys),
    sumUsage(db, accountId, filter, "day"),
  ]);
  const labels = await labelsOf(
    db,
    accountId,
    byKey.data.map(({ group }) => group),
  );
  return { byModel, byKey, byDay, labels };
}

export interface People {
  readonly members: readonly Member[];
  readonly invitations: readonly Invitation[];
}

export async function readPeople(
  { db }: ConsoleStore,
  accountId: string,
  now: number,
): Promise<People> {
  const [members, invitations] = await Promise.all([
    membersOf(db, accountId),
    listInvitations(db, accountId, now),
  ]);
  return { members, invitations };
}
