// The providers that an API key can call with provider keys of its account.

import { type Db, text } from "../store/db.ts";
import { type KeyUser, toApiKeyIds } from "./key-finder.ts";

export async function listCallableProviders(
  db: Db,
  { accountId, keyId }: KeyUser,
): Promise<ReadonlySet<string>> {
  const rows = await db.all(
    "select distinct provider, api_key_ids from provider_key where account_id = ? and status <> 'deleted'",
    [accountId],
  );
  const usable = rows.filter((row) => toApiKeyIds(row)?.includes(keyId) ?? true);
  return new Set(usable.map((row) => text(row, "provider")));
}
