// What a key can hold now, for quotes. Nothing is locked, so calls in flight may change it.

import type { Nano } from "../base/money/money.ts";
import { largestHold } from "../ledger/decide.ts";
import { toKeyRules, toKeySpend, toWallet } from "../ledger/ledger-rows.ts";
import type { Reader } from "../store/db.ts";

interface KeyId {
  readonly accountId: string;
  readonly keyId: string;
}

export async function readAffordable(
  reader: Reader,
  { accountId, keyId }: KeyId,
  now: number,
): Promise<Nano> {
  const [wallet, keySpend, key] = await Promise.all([
    reader.get("select * from wallet where account_id = ?", [accountId]),
    reader.get("select * from spender where account_id = ? and key_id = ?", [accountId, keyId]),
    reader.get("select * from api_key where id = ?", [keyId]),
  ]);
  if (wallet === undefined || keySpend === undefined || key === undefined) return 0n;
  return largestHold(toWallet(wallet), toKeySpend(keySpend), toKeyRules(key), now);
}
