// The providers that an API key can call with provider keys of its account.

import type { Db } from "../store/db.ts";
import type { KeyUser } from "./provider-keys.ts";

export async function listCallableProviders(
  db: Db,
  { accountId, keyId }: KeyUser,
): Promise<ReadonlySet<string>> {
  const rows = await db.all(
    `select distinct provider from provider_key
     where account_id = ? and status <> 'deleted' and (key_id is null or key_id = ?)`,
    [accountId, keyId],
  );
  return new Set(rows.map((row) => String(row["provider"])));
}
