// Roles and members as the members page describes them.

import { type Member, type MemberRole, hasPermission, type Role } from "../../accounts/members.ts";
import { formatUsd } from "../../base/text/format.ts";

export const ROLE_LABELS: Readonly<Record<Role, string>> = {
  owner: "Owner",
  admin: "Admin",
  developer: "Developer",
  billing: "Billing",
  viewer: "Viewer",
};

export const ROLE_TEXTS: Readonly<Record<MemberRole, string>> = {
  admin: "manages keys, members, budgets and webhooks",
  developer: "creates keys within an allowance",
  billing: "buys credits and sets budgets",
  viewer: "sees everything, changes nothing",
};

export function canRemove(role: Role, removed: Role): boolean {
  return role === "owner" || (hasPermission(role, "members.remove") && MANAGED.has(removed));
}

/** The roles that an admin can remove. */
const MANAGED: ReadonlySet<Role> = new Set(["developer", "billing", "viewer"]);

/** The name of a person, or their email address. */
export function memberName({ name, email }: Member): string {
  return name ?? email;
}

export function allowanceText({
  allowance,
  role,
  viaKeyId,
}: Pick<Member, "allowance" | "role" | "viaKeyId">): string {
  if (role !== "developer") return "–";
  if (allowance === undefined) return viaKeyId === null ? "cannot create keys" : "from a key";
  return `${formatUsd(allowance.limit)}${allowance.window === null ? "" : ` per ${allowance.window}`}`;
}

/** What a developer without an allowance can do. */
export function withoutAllowance({ viaKeyId }: Member): string {
  return viaKeyId !== null
    ? "Creates keys only from the limit of the key that invited this person, if it has one."
    : "Cannot create keys.";
}
