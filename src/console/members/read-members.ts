// Data of the members page.

import { listAllowanceRequests } from "../../accounts/allowance-requests.ts";
import { type Invitation, listInvitations } from "../../accounts/invitations.ts";
import { memberCursor, listMembers, listNewMembers, type Member } from "../../accounts/members.ts";
import { DAY_MS } from "../../base/time.ts";
import type { ConsoleReadDeps } from "../require-access.ts";

const MEMBERS_PER_PAGE = 100;
const NEW_MEMBER_MS = 7 * DAY_MS;
const NEW_MEMBERS_MAX = 3;
const ALLOWANCE_REQUESTS_MAX = 5;

export interface MemberListing {
  /** One page of members, the owner first. */
  readonly members: readonly Member[];
  /** The cursor of this page; absent for the first. */
  readonly from?: string;
  /** The cursor of the next page. */
  readonly next?: string;
  readonly invitations: readonly Invitation[];
  /** The members who joined in the last days, newest first. */
  readonly newMembers: readonly Member[];
  readonly allowanceRequests: readonly Member[];
}

export async function readMembers(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
  from?: string,
): Promise<MemberListing> {
  const begin = from === undefined ? {} : { from };
  const [members, invitations, newMembers, allowanceRequests] = await Promise.all([
    listMembers(db, accountId, { ...begin, limit: MEMBERS_PER_PAGE + 1 }),
    listInvitations(db, accountId, now),
    listNewMembers(db, accountId, { since: now - NEW_MEMBER_MS, limit: NEW_MEMBERS_MAX }),
    listAllowanceRequests(db, accountId, ALLOWANCE_REQUESTS_MAX),
  ]);
  const next = members[MEMBERS_PER_PAGE];
  return {
    ...begin,
    members: members.slice(0, MEMBERS_PER_PAGE),
    ...(next === undefined ? {} : { next: memberCursor(next) }),
    invitations,
    newMembers,
    allowanceRequests,
  };
}
