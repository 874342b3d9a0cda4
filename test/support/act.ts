// The act of a test that calls a function which changes state.

import type { Act, Actor } from "../../src/activity/audit.ts";

export const TEST_ACTOR: Actor = { type: "system", id: "test" };

export function actIn(accountId: string, now: number): Act {
  return { accountId, actor: TEST_ACTOR, network: null, now };
}
