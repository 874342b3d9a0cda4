// A new owner's choices about the existing keys of the account: keep, limit or revoke each.

import type { Act } from "../activity/audit.ts";
import type { Nano } from "../base/money/money.ts";
import type { LimitWindow } from "../base/money/spend-window.ts";
import { grantedScopes, MODEL_CALL_SCOPES } from "../http/scopes.ts";
import type { Key } from "../keys/key.ts";
import { changeKey, getKey, listKeysFrom, revokeKey } from "../keys/keys.ts";
import type { Reader, Tx } from "../store/db.ts";

export type KeyChoice =
  | { readonly kind: "revoke"; readonly keyId: string }
  /** Takes all scopes but those of model calls and usage. */
  | { readonly kind: "models"; readonly keyId: string }
  | {
      readonly kind: "limit";
      readonly keyId: string;
      readonly limit: Nano;
      readonly window: LimitWindow | null;
    }
  /** Every live key except those in `except`. */
  | { readonly kind: "revoke_others"; readonly except: readonly string[] };

export async function listLiveKeys(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<readonly Key[]> {
  const keys = (await listKeysFrom(reader, accountId, { revoked: false, now })).filter((key) =>
    isLive(key, now),
  );
  return keys.sort((a, b) => (b.lastUsedAt ?? 0) - (a.lastUsedAt ?? 0) || (a.id < b.id ? 1 : -1));
}

export async function applyKeyChoices(
  tx: Tx,
  act: Act,
  choices: readonly KeyChoice[],
): Promise<void> {
  const { accountId, now } = act;
  if (choices.length === 0) return;
  const live = new Set((await listLiveKeys(tx, accountId, now)).map((key) => key.id));
  const revoke = async (keyId: string): Promise<void> => {
    if (live.delete(keyId)) await revokeKey(tx, act, keyId);
  };
  const narrow = async (keyId: string): Promise<void> => {
    if (!live.has(keyId)) return;
    const granted = grantedScopes((await getKey(tx, accountId, keyId, now)).scopes, false);
    const scopes = MODEL_CALL_SCOPES.filter((scope) => granted.has(scope));
    if (scopes.length === 0) return await revoke(keyId);
    await changeKey(tx, act, keyId, { scopes });
  };
  const limit = async ({ keyId, limit, window }: KeyChoice & { kind: "limit" }): Promise<void> => {
    if (live.has(keyId)) await changeKey(tx, act, keyId, { limit, limitWindow: window });
  };
  for (const choice of choices) {
    if (choice.kind === "limit") await limit(choice);
    else if (choice.kind === "models") await narrow(choice.keyId);
    else for (const keyId of revokedBy(choice, live)) await revoke(keyId);
  }
}

function revokedBy(
  choice: Exclude<KeyChoice, { kind: "limit" | "models" }>,
  live: ReadonlySet<string>,
): readonly string[] {
  if (choice.kind === "revoke") return [choice.keyId];
  return [...live].filter((keyId) => !choice.except.includes(keyId));
}

function isLive(key: Key, now: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || key.expiresAt > now);
}
