// What an account itself lets the gateway store of its responses. It owns the table response_storage.

import { type ResponseStorage, STORE_MODES } from "../base/response-storage.ts";
import { enumValue, integer, type Reader, type Tx } from "../store/db.ts";

/** Undefined if the account has not set it. */
export async function findOwnStorage(
  reader: Reader,
  accountId: string,
): Promise<ResponseStorage | undefined> {
  const row = await reader.get(
    "select mode, retention_days from response_storage where account_id = ?",
    [accountId],
  );
  return (
    row && {
      mode: enumValue(row, "mode", STORE_MODES),
      retentionDays: integer(row, "retention_days"),
    }
  );
}

export async function setOwnStorage(
  tx: Tx,
  accountId: string,
  { mode, retentionDays }: ResponseStorage,
): Promise<void> {
  await tx.run(
    `insert into response_storage (account_id, mode, retention_days) values (?, ?, ?)
     on conflict (account_id) do update set mode = excluded.mode, retention_days = excluded.retention_days`,
    [accountId, mode, retentionDays],
  );
}
