// The queue of an audit log stream: an entry is queued in the transaction that writes it, so none is lost or sent before it is
// committed, and a slow destination holds up no change.

import type { Tx } from "../store/db.ts";

export interface QueuedEntry {
  readonly accountId: string;
  readonly auditId: string;
  readonly now: number;
}

/** Does nothing for an account without a stream. */
export async function queueForStream(
  tx: Tx,
  { accountId, auditId, now }: QueuedEntry,
): Promise<void> {
  await tx.run(
    `insert into audit_stream_entry (account_id, audit_id, created_at)
     select account_id, ?, ? from audit_stream where account_id = ?`,
    [auditId, now, accountId],
  );
}
