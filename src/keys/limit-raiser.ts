// Who can raise the spending limit of a key. In a claimed account only people can; in an unclaimed one a key without a
// limit and with all scopes can.

import { SCOPE_NAMES } from "../http/scopes.ts";
import { type Reader, textOrNull } from "../store/db.ts";
import { findLiveKey } from "./live-keys.ts";

type LimitRaiser =
  | { readonly by: "key"; readonly keyId: string }
  | { readonly by: "owner" }
  /** `canClaim`: the key may start the claim, after which an owner can raise the limit. */
  | { readonly by: "none"; readonly canClaim: boolean };

/** Looks at the key that created this one and at the account's first key. */
export async function findLimitRaiser(
  reader: Reader,
  { accountId, keyId }: { readonly accountId: string; readonly keyId: string },
  now: number,
): Promise<LimitRaiser> {
  const row = await reader.get(
    `select claimed_at, (select created_by from api_key where id = ?) as created_by,
      (select min(id) from api_key where account_id = account.id) as first_id from account where id = ?`,
    [keyId, accountId],
  );
  if (row === undefined) return { by: "none", canClaim: false };
  if (row["claimed_at"] !== null) return { by: "owner" };
  for (const id of [textOrNull(row, "created_by"), textOrNull(row, "first_id")]) {
    if (id === null || id === keyId) continue;
    const key = await findLiveKey(reader, id, now);
    if (key?.accountId === accountId && key.granted.size === SCOPE_NAMES.length)
      return { by: "key", keyId: id };
  }
  const own = await findLiveKey(reader, keyId, now);
  return { by: "none", canClaim: own?.granted.has("claim:write") === true };
}
