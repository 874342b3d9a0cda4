// Access to a workspace: which role the signed-in person has in it, and whether that role has a permission.

import { getAccount } from "../accounts/accounts.ts";
import {
  type Permission,
  listMemberships,
  type Membership,
  requirePermission,
  type Role,
} from "../accounts/members.ts";
import type { NavLink } from "../http/pages/app-frame.tsx";
import type { SessionUser } from "../http/route.ts";
import type { Db } from "../store/db.ts";

/** The workspace of a page, and the role of the signed-in person in it. */
export interface WorkspaceContext {
  readonly accountId: string;
  /** null if the workspace has no name. */
  readonly name: string | null;
  readonly role: Role;
  readonly createdAt: number;
  /** False if this gateway sends no emails: then no page may promise one. */
  readonly sendsEmails: boolean;
  /** The links of the operator, such as the support address. */
  readonly operatorLinks: readonly NavLink[];
  /** All workspaces of the person, for the switcher. */
  readonly memberships: readonly Membership[];
}

/** What every page of a workspace shows. */
export interface WorkspaceView {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
}

export interface ConsoleReadDeps {
  readonly db: Db;
  readonly sendsEmails: boolean;
  readonly operatorLinks: readonly NavLink[];
}

/** The workspace, if the person's role has the permission. Throws `not_found` for people who are not members. */
export async function requireAccess(
  deps: ConsoleReadDeps,
  accountId: string,
  personId: string,
  permission: Permission,
): Promise<WorkspaceContext> {
  const role = await requirePermission(deps.db, accountId, personId, permission);
  const [{ name, createdAt }, memberships] = await Promise.all([
    getAccount(deps.db, accountId),
    listMemberships(deps.db, personId),
  ]);
  const { sendsEmails, operatorLinks } = deps;
  return { accountId, name, role, createdAt, sendsEmails, operatorLinks, memberships };
}
