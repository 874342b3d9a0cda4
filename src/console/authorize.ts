// What the console shows of a workspace, read at one place; and who may see it.

import { getAccount } from "../accounts/accounts.ts";
import { type Invitation, listInvitations } from "../accounts/invitations.ts";
import {
  type Permission,
  countMembers,
  memberCursor,
  listMembers,
  lockWorkspace,
  type Member,
  requirePermission,
  type Role,
} from "../accounts/members.ts";
import type { Nano } from "../base/money.ts";
import type { Page } from "../base/pagination.ts";
import {
  readAutoTopUpSummary,
  type AutoTopUpSummary,
} from "../billing/top-up/auto-top-up-summary.ts";
import { countLiveKeys, type Key, getKeyLabels, listKeysFrom } from "../keys/keys.ts";
import { type Freeze, findFreeze } from "../ledger/freezes.ts";
import type { Reader, Tx } from "../store/db.ts";
import { GROUPS_MAX, listUsageSums, sumUsage, type UsageSum } from "../usage/usage.ts";

const KEYS_PER_PAGE = 100;
const MEMBERS_PER_PAGE = 100;
const USAGE_DAYS = 30;
const DAY_MS = 86_400_000;

export interface Balance {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  /** Absent for nothing. */
  readonly owed?: Nano;
}

/** Where a page is: which workspace, and in which role it is looked at. */
export interface WorkspaceContext {
  readonly accountId: string;
  readonly role: Role;
  readonly createdAt: number;
}

export interface ConsoleReadDeps {
  readonly db: Reader;
  readonly getWallet: (reader: Reader, accountId: string) => Promise<Balance>;
}

/** The workspace, for a person whose role allows the action; for a stranger it is not there. */
export async function requireAccess(
  deps: ConsoleReadDeps,
  accountId: string,
  personId: string,
  permission: Permission,
): Promise<WorkspaceContext> {
  const role = await requirePermission(deps.db, accountId, personId, permission);
  const { createdAt } = await getAccount(deps.db, accountId);
  return { accountId, role, createdAt };
}

/** Asks for the role again: it may have been taken away a moment ago, and now it stays until the change is done. */
export async function requireAccessForUpdate(
  tx: Tx,
  accountId: string,
  personId: string,
  permission: Permission,
): Promise<void> {
  await lockWorkspace(tx, accountId);
  await requirePermission(tx, accountId, personId, permission);
}

export interface Overview {
  readonly balance: Balance;
  /** Why the workspace makes no calls. */
  readonly freeze: Freeze | undefined;
  readonly topUp: AutoTopUpSummary;
  readonly days: readonly UsageSum[];
  readonly liveKeys: number;
  readonly members: number;
}

export async function readOverview(
  deps: ConsoleReadDeps,
  accountId: string,
  now: number,
): Promise<Overview> {
  const [balance, freeze, topUp, days, liveKeys, members] = await Promise.all([
    deps.getWallet(deps.db, accountId),
    findFreeze(deps.db, accountId),
    readAutoTopUpSummary(deps.db, accountId, now),
    sumUsage(deps.db, accountId, { from: now - USAGE_DAYS * DAY_MS }, "day"),
    countLiveKeys(deps.db, accountId, now),
    countMembers(deps.db, accountId),
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

export interface KeyLists {
  readonly live: readonly Key[];
  readonly revoked: readonly Key[];
  readonly cursors: KeyCursors;
  /** With which the next pages begin. */
  readonly next: KeyCursors;
}

export async function readKeys(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
  cursors: KeyCursors,
): Promise<KeyLists> {
  const limit = KEYS_PER_PAGE + 1;
  const { from } = cursors;
  const [live, revoked] = await Promise.all([
    listKeysFrom(db, accountId, { revoked: false, from, limit, now }),
    listKeysFrom(db, accountId, { revoked: true, from: cursors.revoked, limit, now }),
  ]);
  return {
    live: live.slice(0, KEYS_PER_PAGE),
    revoked: revoked.slice(0, KEYS_PER_PAGE),
    cursors,
    next: { from: live[KEYS_PER_PAGE]?.id, revoked: revoked[KEYS_PER_PAGE]?.id },
  };
}

export interface Spending {
  readonly byModel: Page<UsageSum>;
  readonly byKey: Page<UsageSum>;
  readonly byDay: readonly UsageSum[];
  /** What tells the keys apart of whose calls the sums are. */
  readonly keyLabels: Awaited<ReturnType<typeof getKeyLabels>>;
}

/** Where the tables go on; absent for their beginning. */
export interface SpendingCursors {
  readonly models?: string | undefined;
  readonly keys?: string | undefined;
}

export async function readSpending(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
  { models, keys }: SpendingCursors,
): Promise<Spending> {
  const filter = { from: now - USAGE_DAYS * DAY_MS };
  const page = (grouping: "model" | "key", cursor: string | undefined) =>
    listUsageSums(db, accountId, filter, {
      grouping,
      limit: GROUPS_MAX,
      ...(cursor === undefined ? {} : { cursor }),
    });
  const [byModel, byKey, byDay] = await Promise.all([
    page("model", models),
    page("key", keys),
    sumUsage(db, accountId, filter, "day"),
  ]);
  const keyLabels = await getKeyLabels(
    db,
    accountId,
    byKey.data.map(({ group }) => group),
  );
  return { byModel, byKey, byDay, keyLabels };
}

export interface MemberListing {
  /** The owner first, a page of them. */
  readonly members: readonly Member[];
  /** Where the page begins; absent for the owner. */
  readonly from?: string;
  /** Where the next page begins. */
  readonly next?: string;
  readonly invitations: readonly Invitation[];
}

export async function readMembers(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
  from?: string,
): Promise<MemberListing> {
  const begin = from === undefined ? {} : { from };
  const [members, invitations] = await Promise.all([
    listMembers(db, accountId, { ...begin, limit: MEMBERS_PER_PAGE + 1 }),
    listInvitations(db, accountId, now),
  ]);
  const next = members[MEMBERS_PER_PAGE];
  return {
    ...begin,
    members: members.slice(0, MEMBERS_PER_PAGE),
    ...(next === undefined ? {} : { next: memberCursor(next) }),
    invitations,
  };
}
