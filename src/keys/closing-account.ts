// An account that is closing gets no new keys.

import { Fault, reopenStep } from "../base/fault.ts";
import { findFreeze } from "../ledger/freezes.ts";
import type { Tx } from "../store/db.ts";

export async function assertNotClosing(
  tx: Tx,
  accountId: string,
  isClaimed: boolean,
): Promise<void> {
  if ((await findFreeze(tx, accountId))?.by !== "closing") return;
  throw new Fault("workspace_frozen", "a key for a closing account", {
    message:
      "This workspace is closing, so no key can be created. Reopen it first; if a person owns it, only its owner can.",
    next: [reopenStep(accountId, isClaimed)],
  });
}
