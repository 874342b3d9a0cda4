// What a member may do to keys. The owner and admins may do everything. A developer creates keys for model calls, within an
// allowance. Until the owner gives one, a person who joined through a key with a limit creates keys from that limit, and all
// others create none. A developer changes only keys that they created, and raises nothing.

import {
  type Allowance,
  authorize,
  getMember,
  hasPermission,
  type Member,
  removeMember,
} from "../accounts/members.ts";
import type { Act } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { type Nano, maxNano, toNano } from "../base/money/money.ts";
import { formatUsdExact } from "../base/text/format.ts";
import {
  grantedScopes,
  MODEL_CALL_SCOPES,
  type ListableScope,
  type Scope,
} from "../http/scopes.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import { createKeyForCaller, type CreatedKey } from "./delegation.ts";
import { type KeySettings, replacedField } from "./key-settings.ts";
import type { Key } from "./key.ts";
import {
  changeKey,
  getKey,
  type Keys,
  listKeysBy,
  lockKey,
  revokeKey,
  revokeKeysBy,
} from "./keys.ts";
import { isLiveKey } from "./live-keys.ts";

/** Developers create further keys in the console, where their allowance bounds them. */
const DEVELOPER_KEY_SCOPES: readonly ListableScope[] = [...MODEL_CALL_SCOPES, "keys:read"];

/** Creates a key for a member, the actor of `act`. */
export async function createKeyForMember(
  tx: Tx,
  act: Act,
  keys: Keys,
  settings: KeySettings,
): Promise<CreatedKey> {
  const { accountId, now } = act;
  await authorize(tx, act, "keys.create");
  const personId = act.actor.id;
  const member = await getMember(tx, accountId, personId);
  const newKey = { ...settings, createdBy: personId };
  if (hasPermission(member.role, "keys.raise")) return await keys.create(tx, act, newKey);
  const scopes = settings.scopes ?? DEVELOPER_KEY_SCOPES;
  assertDeveloperScopes(scopes);
  const developerKey = { ...newKey, scopes };
  if (member.allowance !== undefined) {
    await assertWithinAllowance(tx, accountId, { member, settings, now }, member.allowance);
    return await keys.create(tx, act, developerKey);
  }
  const callerId = await lockInvitingKey(tx, { accountId, keyId: member.viaKeyId, now });
  const creation = { settings: developerKey, createdBy: personId, callerId };
  return await createKeyForCaller(tx, act, keys, creation).catch((error: unknown) => {
    if (!(error instanceof Fault) || error.code !== "forbidden") throw error;
    throw allowanceFault(
      `Your keys share the limit of the key that invited you. ${error.options.message ?? ""}`,
    );
  });
}

/** Thrown to undo a transaction that only tries something. */
const TRIED = new Error("the transaction only tried");

/** Why the member cannot create the key now, for a page that asks before a program gets it; undefined if nothing prevents it. */
export async function findNewKeyProblem(
  db: Db,
  act: Act,
  keys: Keys,
  settings: KeySettings,
): Promise<Fault | undefined> {
  try {
    await db.write(async (tx) => {
      await createKeyForMember(tx, act, keys, settings);
      throw TRIED;
    });
  } catch (error) {
    if (error === TRIED) return undefined;
    if (error instanceof Fault && error.status < 500) return error;
    throw error;
  }
  return undefined;
}

/** Whether a member can create keys, for pages that would otherwise show a form that fails. */
export type KeyAllowance =
  | { readonly kind: "unlimited" }
  | { readonly kind: "left"; readonly left: Nano }
  | { readonly kind: "none"; readonly reason: string };

export async function readKeyAllowance(
  reader: Reader,
  { accountId, personId, replacing, now }: KeyAllowanceRequest,
): Promise<KeyAllowance> {
  const member = await getMember(reader, accountId, personId);
  if (hasPermission(member.role, "keys.raise")) return { kind: "unlimited" };
  const { allowance, viaKeyId } = member;
  if (allowance !== undefined) {
    const own = await listKeysBy(reader, accountId, personId, now);
    const used = own.reduce(
      (sum, key) => sum + (key.name === replacing ? key.spent : countedAmount(key, 0n, now)),
      0n,
    );
    if (allowance.limit > used) return { kind: "left", left: allowance.limit - used };
    const reason = `Your allowance of ${formatUsdExact(allowance.limit)} is used up by your keys.`;
    return { kind: "none", reason };
  }
  if (viaKeyId === null) return { kind: "none", reason: NO_ALLOWANCE };
  const key = await getKey(reader, accountId, viaKeyId, now);
  if (!(await isLiveKey(reader, viaKeyId, now)))
    return { kind: "none", reason: INVITING_KEY_ENDED };
  if (key.limit === null) return { kind: "none", reason: INVITING_KEY_UNLIMITED };
  return { kind: "left", left: maxNano(key.limit - key.spent, 0n) };
}

interface KeyAllowanceRequest {
  readonly accountId: string;
  readonly personId: string;
  /** The name of keys that a new one replaces; they count with what they spent. */
  readonly replacing?: string;
  readonly now: number;
}

const NO_ALLOWANCE = "You have no allowance, so you cannot create keys yet.";
const INVITING_KEY_ENDED = "The key that invited you was revoked or has expired.";
const INVITING_KEY_UNLIMITED = "The key that invited you has no limit to share.";

/** Removes a member and revokes the keys that they created. */
export async function removeMemberAndKeys(tx: Tx, act: Act, personId: string): Promise<void> {
  if (await removeMember(tx, act, personId)) await revokeKeysBy(tx, act, personId);
}

/** Creates a key and revokes the member's earlier keys of the same name, whose raw keys exist at most in an open tab. */
export async function replaceKeyForMember(
  tx: Tx,
  act: Act,
  keys: Keys,
  settings: KeySettings,
): Promise<CreatedKey> {
  await authorize(tx, act, "keys.create");
  const own = await listKeysBy(tx, act.accountId, act.actor.id, act.now);
  for (const { id, name, revokedAt, derivedFrom } of own)
    if (name === settings.name && revokedAt === null && derivedFrom === null)
      await revokeKey(tx, act, id);
  return await createKeyForMember(tx, act, keys, settings);
}

/** Changes a key for a member. `settingsOf` reads the change from a form that has all settings. */
export async function changeKeyForMember(
  tx: Tx,
  act: Act,
  id: string,
  settingsOf: (before: Key) => KeySettings,
): Promise<void> {
  await authorize(tx, act, "keys.change");
  const before = await lockKey(tx, act.accountId, id, act.now);
  const settings = settingsOf(before);
  await assertMayChangeKey(tx, act, before, settings);
  if (Object.keys(settings).length > 0) await changeKey(tx, act, id, settings);
}

export async function revokeKeyForMember(tx: Tx, act: Act, id: string): Promise<void> {
  await authorize(tx, act, "keys.revoke");
  await assertMayChangeKey(tx, act, await lockKey(tx, act.accountId, id, act.now));
  await revokeKey(tx, act, id);
}

export async function rotateKeyForMember(
  tx: Tx,
  act: Act,
  keys: Keys,
  rotation: { readonly id: string; readonly overlapMs: number },
): Promise<CreatedKey> {
  await authorize(tx, act, "keys.change");
  await assertMayChangeKey(tx, act, await lockKey(tx, act.accountId, rotation.id, act.now));
  return await keys.rotate(tx, act, rotation);
}

/** Throws if the member may not change this key, or not like this; without a change, if the member may not revoke it. */
async function assertMayChangeKey(
  reader: Reader,
  { accountId, actor: { id: personId } }: Act,
  key: Key,
  change: KeySettings = {},
): Promise<void> {
  const { role } = await getMember(reader, accountId, personId);
  if (hasPermission(role, "keys.raise")) return;
  if (key.createdBy !== personId)
    throw new Fault("forbidden", "a key of another member", {
      message:
        "Developers can only change, rotate and revoke keys that they created. Ask the owner.",
    });
  if (raises(key, change))
    throw new Fault("forbidden", "a developer cannot raise a setting", {
      message:
        "Developers cannot raise or remove limits, expiries or scopes. Ask the owner, or create another key within your allowance.",
    });
}

function raises(key: Key, { limit, limitWindow, expiresAt, scopes, policy }: KeySettings): boolean {
  const raisesLimit =
    key.limit !== null &&
    (limit === null ||
      (limit !== undefined && limit > key.limit) ||
      (limitWindow !== undefined && limitWindow !== key.limitWindow));
  const raisesExpiry =
    key.expiresAt !== null && expiresAt !== undefined && (expiresAt ?? Infinity) > key.expiresAt;
  const held = grantedScopes(key.scopes, false);
  const raisesScopes = scopes !== undefined && !grantedScopes(scopes, false).isSubsetOf(held);
  const loosensPolicy = replacedField(key.policy, policy) !== undefined;
  return raisesLimit || raisesExpiry || raisesScopes || loosensPolicy;
}

function assertDeveloperScopes(scopes: readonly Scope[]): void {
  const allowed = grantedScopes(DEVELOPER_KEY_SCOPES, false);
  const missing = scopes.find((scope) => !allowed.has(scope));
  if (missing !== undefined)
    throw new Fault("forbidden", `a developer's key with ${missing}`, {
      message: `Keys of developers cannot have the scope \`${missing}\`. Ask the owner to create the key.`,
      param: "scopes",
    });
}

interface AllowanceUse {
  readonly member: Member;
  readonly settings: KeySettings;
  readonly now: number;
}

/** Live keys count with their limit, others with what they spent and hold, so that revoking a key frees only the rest. */
async function assertWithinAllowance(
  tx: Tx,
  accountId: string,
  { member, settings, now }: AllowanceUse,
  allowance: Allowance,
): Promise<void> {
  const own = await listKeysBy(tx, accountId, member.personId, now);
  const spends = await tx.lockMany(
    "spender",
    "account_id, key_id",
    own.map((key) => [accountId, key.id] as const),
  );
  const held = new Map(spends.map((row) => [row["key_id"], toNano(row["held"])]));
  const locked = await Promise.all(own.map(({ id }) => getKey(tx, accountId, id, now)));
  const used = locked.reduce(
    (sum, key) => sum + countedAmount(key, held.get(key.id) ?? 0n, now),
    0n,
  );
  const left = maxNano(allowance.limit - used, 0n);
  const { limit = null, limitWindow = null } = settings;
  if (limit === null || limit > left)
    throw allowanceFault(
      `Your allowance has ${formatUsdExact(left)} left for new keys. Set a limit of at most that.`,
    );
  if (limitWindow !== null && limitWindow !== allowance.window)
    throw allowanceFault(
      `Your allowance resets ${allowance.window === null ? "never" : `every ${allowance.window}`}. The key's limit must reset in the same way, or never.`,
    );
}

function countedAmount(key: Key, held: Nano, now: number): Nano {
  const used = key.spent + held;
  const isLive = key.revokedAt === null && (key.expiresAt === null || key.expiresAt > now);
  return isLive ? maxNano(key.limit ?? used, used) : used;
}

/** The live key with a limit through which the member joined. Anything else leaves a developer nothing to create keys from. */
async function lockInvitingKey(
  tx: Tx,
  {
    accountId,
    keyId,
    now,
  }: { readonly accountId: string; readonly keyId: string | null; readonly now: number },
): Promise<string> {
  if (keyId === null) throw allowanceFault(NO_ALLOWANCE);
  const { limit } = await lockKey(tx, accountId, keyId, now);
  if (!(await isLiveKey(tx, keyId, now))) throw allowanceFault(INVITING_KEY_ENDED);
  if (limit === null) throw allowanceFault(INVITING_KEY_UNLIMITED);
  return keyId;
}

function allowanceFault(message: string): Fault {
  return new Fault("forbidden", "beyond the allowance of a developer", {
    message: `${message} Request an allowance from the owner on the Keys page.`,
    param: "limit_usd",
  });
}
