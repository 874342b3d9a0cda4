// What the console shows of a workspace, read at one place; and who may see it.

import { getAccount } from "../accounts/accounts.ts";
import { type Invitation, listInvitations } from "../accounts/invitations.ts";
import {
  type Action,
  countMembers,
  cursorOfMember,
  listMembers,
  lockWorkspace,
  type Member,
  requireRole,
  type Role,
} from "../accounts/members.ts";
import type { Nano } from "../base/money.ts";
import type { Page } from "../base/page.ts";
import { readTopUpState, type TopUpState } from "../billing/top-up-state.ts";
import { countLiveKeys, type Key, labelsOf, listKeysFrom } from "../keys/keys.ts";
import { type Freeze, findFreeze } from "../ledger/freezes.ts";
import type { Reader, Tx } from "../store/db.ts";
import { GROUPS_MAX, pageSums, sumUsage, type UsageSum } from "../usage/usage.ts";

const KEYS_SHOWN = 100;
const MEMBERS_SHOWN = 100;
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
    countMembers(store.db, accountId),
  ]);
  return {
    balance,
    freeze,
    topUp,
    days,
    liveKeys,
    members,
  };
}

/** With which key each list of the page begins; absent for the newest. */
export interface KeyCursors {
  readonly from?: string | undefined;
  readonly revoked?: string | undefined;
}

export interface ShownKeys {
  readonly standing: readonly Key[];
  readonly revoked: readonly Key[];
  readonly begins: KeyCursors;
  /** With which the next pages begin. */
  readonly next: KeyCursors;
}

export async function readKeys(
  { db }: ConsoleStore,
  accountId: string,
  now: number,
  begins: KeyCursors,
): Promise<ShownKeys> {
  const limit = KEYS_SHOWN + 1;
  const { from } = begins;
  const [standing, revoked] = await Promise.all([
    listKeysFrom(db, accountId, { revoked: false, from, limit, now }),
    listKeysFrom(db, accountId, { revoked: true, from: begins.revoked, limit, now }),
  ]);
  return {
    standing: standing.slice(0, KEYS_SHOWN),
    revoked: revoked.slice(0, KEYS_SHOWN),
    begins,
    next: { from: standing[KEYS_SHOWN]?.id, revoked: revoked[KEYS_SHOWN]?.id },
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
  /** The owner first, a page of them. */
  readonly members: readonly Member[];
  /** Where the page begins; absent for the owner. */
  readonly from?: string;
  /** Where the next page begins. */
  readonly next?: string;
  readonly invitations: readonly Invitation[];
}

export async function readPeople(
  { db }: ConsoleStore,
  accountId: string,
  now: number,
  from?: string,
): Promise<People> {
  const begin = from === undefined ? {} : { from };
  const [members, invitations] = await Promise.all([
    listMembers(db, accountId, { ...begin, limit: MEMBERS_SHOWN + 1 }),
    listInvitations(db, accountId, now),
  ]);
  const next = members[MEMBERS_SHOWN];
  return {
    ...begin,
    members: members.slice(0, MEMBERS_SHOWN),
    ...(next === undefined ? {} : { next: cursorOfMember(next) }),
    invitations,
  };
}
