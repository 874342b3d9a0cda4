// Whether holds can be written. A heartbeat updates its row in place, which succeeds while a full disk fails every
// insert that needs a new page.

import { randomBase62 } from "../base/crypto/secret.ts";
import type { Db } from "../store/db.ts";
import { insertHolds, type NewHold } from "./ledger-rows.ts";

/** More than a table usually has free, so that new pages are allocated. */
const PROBE_ROWS = 64;
/** Below the size at which PostgreSQL moves a value out of line (TOAST). */
const FILLER_BYTES = 900;
const ROLLED_BACK = Symbol("rolled back");

/** Inserts rows and rolls them back; throws what the store throws. */
export async function probeHoldWrite(db: Db, now: number): Promise<void> {
  const holds = Array.from({ length: PROBE_ROWS }, (_, index): NewHold => {
    const id = `probe_${now}_${index}`;
    const process = `probe ${randomBase62(FILLER_BYTES)}`;
    const owner = { accountId: "probe", keyId: "probe", process, epoch: 0 };
    return { id, amount: 0n, createdAt: now, expiresAt: now, ...owner };
  });
  try {
    await db.write(async (tx) => {
      await insertHolds(tx, holds);
      throw ROLLED_BACK;
    });
  } catch (error) {
    if (error !== ROLLED_BACK) throw error;
  }
}
