// Data of the members page.

import { type Invitation, listInvitations } from "../../accounts/invitations.ts";
import { memberCursor, listMembers, type Member } from "../../accounts/members.ts";
import type { ConsoleReadDeps } from "../authorize.ts";

const MEMBERS_PER_PAGE = 100;

export interface MemberListing {
  /** One page of members, the owner first. */
  readonly members: readonly Member[];
  /** The cursor of this page; absent for the first. */
  readonly from?: string;
  /** The cursor of the next page. */
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
