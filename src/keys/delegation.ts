// What a key may do to keys. It cannot create or keep what it does not have: scopes, limit, expiry. The limit of
// a key that it creates is subtracted from its own, so that together they cannot spend more. In an unclaimed account, keys
// without a limit and with all scopes may do everything.

import type { Act } from "../activity/audit.ts";
import { endedKeyFault, Fault } from "../base/fault.ts";
import { type Nano, maxNano, toNano } from "../base/money/money.ts";
import type { LimitWindow } from "../base/money/spend-window.ts";
import { formatUsdExact } from "../base/text/format.ts";
import { hasRates, type KeyPolicy, matchesGlob, policyText } from "../http/key-policy.ts";
import {
  grantedScopes,
  isScopeOfLimitedKeys,
  listOfScopes,
  SCOPE_NAMES,
  type Scope,
} from "../http/scopes.ts";
import type { Tx } from "../store/db.ts";
import { scopesOfCredential } from "./key-credential.ts";
import { POLICY_PARAMS } from "./key-record.ts";
import { type KeySettings, type PolicyChange, replacedField } from "./key-settings.ts";
import type { Key } from "./key.ts";
import { changeKey, getKey, type Keys, lockKey, revokeKey } from "./keys.ts";
import { findLiveKey } from "./live-keys.ts";

interface CallerKey {
  readonly accountId: string;
  readonly keyId: string;
}

export interface CreatedKey {
  readonly key: Key;
  readonly raw: string;
}

interface Creation {
  readonly settings: KeySettings;
  /** The person that the key is created for; the caller by default. */
  readonly createdBy?: string;
  /** The key whose permissions and limit bound the new one. */
  readonly callerId: string;
  /** Never more than the caller, even in an account that no person owns; models may be fewer. */
  readonly isNarrowing?: boolean;
}

export async function createKeyForCaller(
  tx: Tx,
  act: Act,
  keys: Keys,
  { settings, callerId, createdBy = callerId, isNarrowing = false }: Creation,
): Promise<CreatedKey> {
  const { accountId, now } = act;
  const locked = await lockAccess(tx, { accountId, keyId: callerId }, now);
  const access = isNarrowing ? { ...locked, isFree: false } : locked;
  const inherited = scopesOfCredential(access.granted, settings.credential);
  const { scopes = listOfScopes(inherited) } = settings;
  const inherit = isNarrowing ? narrowPolicy : inheritPolicy;
  const policy = access.isFree ? settings.policy : inherit(access, settings.policy);
  const newKey = { ...settings, scopes, createdBy, policy };
  if (!access.isFree) assertWithinLimits(access, newKey);
  const created = await keys.create(tx, act, newKey);
  if (access.isFree || access.key.limit === null || created.key.limit === null) return created;
  await changeKey(tx, act, callerId, { limit: access.key.limit - created.key.limit });
  return created;
}

/** A change by a key: the actor of `act`. */
export async function changeKeyForCaller(
  tx: Tx,
  act: Act,
  id: string,
  change: KeySettings,
): Promise<Key> {
  const { accountId, now } = act;
  const access = await lockAccess(tx, { accountId, keyId: act.actor.id }, now);
  const before = await lockKey(tx, accountId, id, now);
  if (!access.isFree) {
    assertReaches(access, before);
    assertNotRaised(access, before, change);
    assertPolicyKept(access, before.policy, change.policy);
  }
  return await changeKey(tx, act, id, change);
}

/** A revocation by a key: the actor of `act`. */
export async function revokeKeyForCaller(tx: Tx, act: Act, id: string): Promise<Key> {
  const { accountId, now } = act;
  const access = await lockAccess(tx, { accountId, keyId: act.actor.id }, now);
  const before = await lockKey(tx, accountId, id, now);
  if (!access.isFree) assertReaches(access, before);
  return await revokeKey(tx, act, id);
}

/** A rotation by a key: the actor of `act`. A key can also rotate itself. */
export async function rotateKeyForCaller(
  tx: Tx,
  act: Act,
  keys: Keys,
  rotation: { readonly id: string; readonly overlapMs: number },
): Promise<CreatedKey> {
  const { accountId, now } = act;
  const access = await lockAccess(tx, { accountId, keyId: act.actor.id }, now);
  const before = await lockKey(tx, accountId, rotation.id, now);
  if (!access.isFree) assertReaches(access, before);
  return await keys.rotate(tx, act, rotation);
}

interface Access {
  readonly key: Key;
  readonly granted: ReadonlySet<Scope>;
  readonly isClaimed: boolean;
  /** True for keys that act as the owner of an account that has none. */
  readonly isFree: boolean;
  /** The part of its limit that is neither spent nor held. */
  readonly remaining: Nano;
}

/** Locks the account, so that a concurrent claim comes before or after, the key and its spend. */
async function lockAccess(tx: Tx, { accountId, keyId }: CallerKey, now: number): Promise<Access> {
  const [account] = await tx.lockMany("account", "id", [accountId]);
  const isClaimed = (account?.["claimed_at"] ?? null) !== null;
  const [keySpend] = await tx.lockMany("spender", "account_id, key_id", [[accountId, keyId]]);
  await tx.lockMany("api_key", "id", [keyId]);
  const key = await getKey(tx, accountId, keyId, now);
  const live = await findLiveKey(tx, keyId, now);
  if (live === undefined) throw endedKeyFault("key revoked or expired");
  const { granted } = live;
  const remaining = (key.limit ?? 0n) - key.spent - toNano(keySpend?.["held"] ?? 0);
  return {
    key,
    granted,
    isClaimed,
    isFree: !isClaimed && granted.size === SCOPE_NAMES.length,
    remaining: maxNano(remaining, 0n),
  };
}

function assertWithinLimits(access: Access, settings: KeySettings): void {
  const { key } = access;
  const { expiresAt, limit = null, scopes = null } = settings;
  if (key.expiresAt !== null && (expiresAt ?? Infinity) > key.expiresAt) {
    const until = new Date(key.expiresAt).toISOString();
    throw ownerOnlyFault(
      access,
      "expires_at",
      `This key expires at ${until}, and keys that it creates must not expire later. Set \`expires_at\` to that time or earlier.`,
    );
  }
  assertLimitWithin(access, limit, settings.limitWindow ?? null);
  assertScopesHeld(access, access.granted, scopes);
}

function assertLimitWithin(access: Access, limit: Nano | null, window: LimitWindow | null): void {
  const { key, remaining } = access;
  if (key.limit === null) return;
  if (limit === null || limit > remaining)
    throw ownerOnlyFault(
      access,
      "limit_usd",
      `This key has ${formatUsdExact(remaining)} left of its own limit. Set \`limit_usd\` to at most that; it is subtracted from this key's limit.`,
    );
  if (window !== null && window !== key.limitWindow)
    throw ownerOnlyFault(
      access,
      "limit_window",
      `The limit of this key resets ${resetText(key)}. Set \`limit_window\` to ${key.limitWindow === null ? "null" : `"${key.limitWindow}" or null`}.`,
    );
}

/** A new key is restricted like the key that creates it. Rates count per key, so several keys would have a multiple of them. */
function inheritPolicy(access: Access, change: PolicyChange = {}): PolicyChange {
  const { policy } = access.key;
  if (hasRates(policy))
    throw ownerOnlyFault(
      access,
      "requests_per_minute",
      "A key with its own rate limits cannot create keys: each new key would get the same limits again.",
    );
  assertPolicyKept(access, policy, change);
  return { ...change, ...policy };
}

/** A glob that another matches as a text matches only what the other matches. */
function narrowPolicy(access: Access, change: PolicyChange = {}): PolicyChange {
  const { policy } = access.key;
  const wider = change.models?.find((glob) => !matchesGlob(policy.models, glob));
  if (wider !== undefined)
    throw ownerOnlyFault(access, "allowed_models", `This key may not call \`${wider}\`.`);
  const other = change.endpoints?.find((api) => policy.endpoints?.includes(api) === false);
  if (other !== undefined)
    throw ownerOnlyFault(
      access,
      "allowed_endpoints",
      `This key may not call the API \`${other}\`.`,
    );
  const server = change.mcpServers?.find((glob) => !matchesGlob(policy.mcpServers, glob));
  if (server !== undefined)
    throw ownerOnlyFault(
      access,
      "allowed_mcp_servers",
      `This key may not use the MCP server \`${server}\`.`,
    );
  const [own, asked] = [policy.sessionLimitUsd, change.sessionLimitUsd];
  const isRaised = own !== undefined && asked != null && Number(asked) > Number(own);
  if (isRaised)
    throw ownerOnlyFault(access, "session_limit_usd", `Sessions of this key may spend ${own} USD.`);
  const { session } = change;
  // A key that is bound to a session stays bound to it.
  const inherited = inheritPolicy(access, session === undefined ? {} : { session });
  return { ...inherited, ...change };
}

function assertPolicyKept(access: Access, policy: KeyPolicy, change: PolicyChange = {}): void {
  if (change.promptLogging === true && policy.promptLogging !== true)
    throw ownerOnlyFault(
      access,
      "prompt_logging",
      "A key cannot turn on prompt logging: what its holders send could then be read by others.",
    );
  const changed = replacedField(policy, change);
  if (changed === undefined) return;
  const param = POLICY_PARAMS[changed];
  throw ownerOnlyFault(
    access,
    param,
    `\`${param}\` is restricted already, and a key cannot change a restriction.`,
  );
}

/** A lower limit of another key, or an expiry, would stop the calls of that key. */
function assertReaches(access: Access, target: Key): void {
  const { id } = access.key;
  if (access.granted.has("keys:manage") || target.id === id || target.createdBy === id) return;
  throw ownerOnlyFault(
    access,
    "id",
    "A key with a limit, a policy or a list of scopes does not have the scope `keys:manage`: it can only change, rotate and revoke itself and keys that it created.",
    { required_scope: "keys:manage" },
  );
}

/** Whether the key has only the scopes of a key with a spending limit. The first key of an unclaimed account has all. */
export function isBoundedKey({ limit, policy }: Key): boolean {
  return limit !== null || policyText(policy) !== null;
}

function assertNotRaised(access: Access, key: Key, change: KeySettings): void {
  const isLater = (change.expiresAt ?? Infinity) > (key.expiresAt ?? Infinity);
  if (change.expiresAt !== undefined && key.expiresAt !== null && isLater)
    throw ownerOnlyFault(
      access,
      "expires_at",
      "A key cannot extend or remove an expiry; it can only bring it forward.",
    );
  if (change.scopes !== undefined)
    assertScopesHeld(access, grantedScopes(key.scopes, false), change.scopes);
  if (key.limit === null) return;
  if (change.limit === null || (change.limit !== undefined && change.limit > key.limit))
    throw ownerOnlyFault(
      access,
      "limit_usd",
      "A key cannot raise or remove a limit; it can only lower it.",
    );
  if (change.limitWindow !== undefined && change.limitWindow !== key.limitWindow)
    throw ownerOnlyFault(
      access,
      "limit_window",
      `A key cannot change when a limit resets; this one resets ${resetText(key)}.`,
    );
}

/** Also compares scopes that a limit or policy takes away: they would come back without it. */
function assertScopesHeld(
  access: Access,
  held: ReadonlySet<Scope>,
  asked: readonly Scope[] | null,
): void {
  const [missing] = grantedScopes(asked, false).difference(held);
  if (missing === undefined) return;
  const reason = isScopeOfLimitedKeys(missing) ? "" : " Keys with a spending limit never have it.";
  throw ownerOnlyFault(
    access,
    "scopes",
    `The scope \`${missing}\` is missing, and a key cannot add scopes.${reason}`,
  );
}

function resetText({ limitWindow }: Key): string {
  return limitWindow === null ? "never" : `every ${limitWindow}`;
}

function ownerOnlyFault(
  { key, isClaimed }: Access,
  param: string,
  message: string,
  fields: Readonly<Record<string, string>> = {},
): Fault {
  if (!isClaimed)
    return new Fault("forbidden", `a key cannot raise ${param}`, {
      message: `${message} Use the first key of the account for that.`,
      param,
      fields,
      next: [{ method: "GET", url: "/v1/keys", why: "List the keys of the account." }],
    });
  return new Fault("forbidden", `a key cannot raise ${param}`, {
    message: `${message} The account is claimed: only people can raise limits, on the Keys page of the console.`,
    param,
    fields,
    next: [
      {
        method: "GET",
        url: `/console/${key.accountId}/keys`,
        why: "The keys page of the console: people create keys and change limits, expiries and scopes there.",
      },
    ],
  });
}
