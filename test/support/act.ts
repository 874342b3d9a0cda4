// The act of a test that calls a function which changes state.

import type { Act } from "../../src/activity/audit.ts";

export function actIn(accountId: string, now: number): Act {
  return { accountId, actor: { type: "system", id: "test" }, network: null, now };
}
