// The acts of tests that call functions which change state.

import { addMember, type NewMember, type Role } from "../../src/accounts/members.ts";
import type { Act, Actor } from "../../src/activity/audit.ts";
import type { Tx } from "../../src/store/db.ts";

export const TEST_ACTOR: Actor = { type: "system", id: "test" };

export function actIn(accountId: string, now: number): Act {
  return { accountId, actor: TEST_ACTOR, network: null, now };
}

export function personActIn(accountId: string, personId: string, now: number): Act {
  return { ...actIn(accountId, now), actor: { type: "person", id: personId } };
}

export async function addDeveloper(
  tx: Tx,
  member: Omit<NewMember, "role" | "network">,
): Promise<Role> {
  return await addMember(tx, { ...member, role: "developer", network: null });
}
