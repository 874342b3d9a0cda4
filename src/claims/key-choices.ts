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
  | {
      readonly kind: "narrow";
      readonly keyId: string;
      /** Undefined to keep the limit. */
      readonly limit: { readonly usd: Nano; readonly window: LimitWindow | null } | undefined;
      /** Takes all scopes but those of model calls and usage. */
      readonly isModelsOnly: boolean;
    }
  /** Every live key except those in `except`. */
  | { readonly kind: "revoke_others"; readonly except: readonly string[] };

type NarrowChoice = Extract<KeyChoice, { kind: "narrow" }>;

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
  const narrow = async ({ keyId, limit, isModelsOnly }: NarrowChoice): Promise<void> => {
    if (!live.has(keyId)) return;
    const { revokedAt, scopes: before } = await getKey(tx, accountId, keyId, now);
    // A choice about the key that it was derived from has revoked it.
    if (revokedAt !== null) return;
    const limits = limit === undefined ? {} : { limit: limit.usd, limitWindow: limit.window };
    if (!isModelsOnly) {
      await changeKey(tx, act, keyId, limits);
      return;
    }
    const granted = grantedScopes(before, false);
    const scopes = MODEL_CALL_SCOPES.filter((scope) => granted.has(scope));
    if (scopes.length === 0) return await revoke(keyId);
    await changeKey(tx, act, keyId, { ...limits, scopes });
  };
  for (const choice of choices) {
    if (choice.kind === "narrow") await narrow(choice);
    else for (const keyId of revokedBy(choice, live)) await revoke(keyId);
  }
}

function revokedBy(
  choice: Exclude<KeyChoice, NarrowChoice>,
  live: ReadonlySet<string>,
): readonly string[] {
  if (choice.kind === "revoke") return [choice.keyId];
  return [...live].filter((keyId) => !choice.except.includes(keyId));
}

function isLive(key: Key, now: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || key.expiresAt > now);
}
