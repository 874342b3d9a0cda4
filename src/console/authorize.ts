// Access to a workspace: which role the signed-in person has in it, and whether that role has a permission.

import { getAccount } from "../accounts/accounts.ts";
import {
  type Permission,
  lockWorkspace,
  requirePermission,
  type Role,
} from "../accounts/members.ts";
import type { Nano } from "../base/money.ts";
import type { Reader, Tx } from "../store/db.ts";

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
