// Keys that still work, as the authentication of a request needs them: whose they are and what they may do.

import { dataRulesOf, parseDataRules } from "../base/data-rules.ts";
import { type ResponseStorage, STORE_MODES } from "../base/response-storage.ts";
import { parsePolicy } from "../http/key-policy.ts";
import type { AuthenticatedKey } from "../http/route.ts";
import { grantedScopes, isListableScope, type ListableScope, SCOPE_NAMES } from "../http/scopes.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { type KeyCredential, parseCredential, scopesOfCredential } from "./key-credential.ts";

export interface LiveKey extends AuthenticatedKey {
  readonly expiresAt: number | null;
  /** What authenticates it instead of a secret. */
  readonly credential: KeyCredential | null;
  /** Until when the secret that was sent is accepted, if a rotation replaced it. */
  readonly formerUntil?: number;
}

/** An expression, because SQLite compiles a join again whenever a plain parameter of its conditions is bound. */
const PARAMETER = "? || ''";

/** The first key of an unclaimed account acts as its owner: no limit takes a scope from it. */
const SELECT_LIVE_KEY = `select api_key.id, api_key.hash, api_key.account_id, api_key.expires_at, api_key.limit_nano, api_key.scopes, api_key.policy, api_key.former_until, api_key.credential,
  response_storage.mode, response_storage.retention_days, account.claimed_at, account.signs_receipts, account.prompt_retention_days, account.exports_usage, account.data_policy,
  (select max(updated_at) from guardrail where guardrail.account_id = api_key.account_id) as guardrails_at,
  case when account.claimed_at is null
    and api_key.id = (select min(id) from api_key first where first.account_id = api_key.account_id) then 1 else 0 end as is_root
  from api_key left join account on account.id = api_key.account_id
  left join response_storage on response_storage.account_id = api_key.account_id where api_key.revoked_at is null`;

/** A fixed number, so that few statements are compiled. */
const HASHES_PER_STATEMENT = 50;
const SELECT_LIVE_KEYS = `${SELECT_LIVE_KEY} and api_key.hash in (${Array.from({ length: HASHES_PER_STATEMENT }, () => "?").join(", ")})`;

/** The live keys among those with these hashes, by hash. */
export async function readLiveKeysByHash(
  reader: Reader,
  hashes: readonly string[],
  now: number,
): Promise<ReadonlyMap<string, LiveKey>> {
  const keys = new Map<string, LiveKey>();
  for (let from = 0; from < hashes.length; from += HASHES_PER_STATEMENT) {
    const part = hashes.slice(from, from + HASHES_PER_STATEMENT);
    const missing = Array.from({ length: HASHES_PER_STATEMENT - part.length }, () => "");
    for (const row of await reader.all(SELECT_LIVE_KEYS, [...part, ...missing])) {
      const key = toLiveKey(row, now);
      if (key !== undefined) keys.set(text(row, "hash"), key);
    }
    // SQLite reads on the main thread.
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
  return keys;
}

export async function readLiveKeyByHash(
  reader: Reader,
  hash: string,
  now: number,
): Promise<LiveKey | undefined> {
  return toLiveKey(
    await reader.get(`${SELECT_LIVE_KEY} and api_key.hash = ${PARAMETER}`, [hash]),
    now,
  );
}

/** Finds a key by the secret before its rotation, while that is accepted too. */
export async function readLiveKeyByFormerHash(
  reader: Reader,
  hash: string,
  now: number,
): Promise<LiveKey | undefined> {
  const row = await reader.get(
    `${SELECT_LIVE_KEY} and api_key.former_hash = ${PARAMETER} and api_key.former_until > ?`,
    [hash, now],
  );
  const key = toLiveKey(row, now);
  return row === undefined || key === undefined
    ? undefined
    : { ...key, formerUntil: integer(row, "former_until") };
}

/** Asked inside the transaction of what a key does, because a body may come long after its key. */
export async function findLiveKey(
  reader: Reader,
  id: string,
  now: number,
): Promise<LiveKey | undefined> {
  return toLiveKey(await reader.get(`${SELECT_LIVE_KEY} and api_key.id = ${PARAMETER}`, [id]), now);
}

export async function isLiveKey(reader: Reader, id: string, now: number): Promise<boolean> {
  return (await findLiveKey(reader, id, now)) !== undefined;
}

/** How many keys of the account still work. */
export async function countLiveKeys(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from api_key where account_id = ? and revoked_at is null and (expires_at is null or expires_at > ?)",
    [accountId, now],
  );
  return row === undefined ? 0 : integer(row, "count");
}

/** The column: null for all scopes. */
export function toScopes(row: Row): readonly ListableScope[] | null {
  return textOrNull(row, "scopes")?.split(" ").filter(isListableScope) ?? null;
}

function toLiveKey(row: Row | undefined, now: number): LiveKey | undefined {
  if (row === undefined) return undefined;
  const expiresAt = integerOrNull(row, "expires_at");
  if (expiresAt !== null && expiresAt <= now) return undefined;
  const policy = parsePolicy(row["policy"]);
  const guardrailsAt = integerOrNull(row, "guardrails_at");
  const dataPolicy = dataRulesOf(parseDataRules(textOrNull(row, "data_policy") ?? ""));
  const retentionDays = integerOrNull(row, "prompt_retention_days");
  const isBounded = row["limit_nano"] !== null || policy !== undefined;
  const hasLimit = isBounded && integer(row, "is_root") === 0;
  const credential = parseCredential(row["credential"]);
  return {
    accountId: text(row, "account_id"),
    keyId: text(row, "id"),
    granted: scopesOfCredential(grantedScopes(toScopes(row), hasLimit), credential),
    expiresAt,
    credential,
    isClaimed: row["claimed_at"] !== null,
    ...(policy === undefined ? {} : { policy }),
    restrictions: { policy: textOrNull(row, "policy"), scopes: textOrNull(row, "scopes") },
    responseStorage: toResponseStorage(row),
    ...(row["signs_receipts"] === null || integer(row, "signs_receipts") === 0
      ? {}
      : { signsReceipts: true }),
    ...(retentionDays === null ? {} : { promptRetentionDays: retentionDays }),
    ...(integerOrNull(row, "exports_usage") === 1 && { exportsUsage: true as const }),
    ...(dataPolicy === undefined ? {} : { dataPolicy }),
    ...(guardrailsAt === null ? {} : { guardrailsAt }),
  };
}

function toResponseStorage(row: Row): ResponseStorage | undefined {
  if (row["mode"] === null) return undefined;
  return {
    mode: enumValue(row, "mode", STORE_MODES),
    retentionDays: integer(row, "retention_days"),
  };
}

type LimitRaiser =
  | { readonly by: "key"; readonly keyId: string }
  | { readonly by: "owner" }
  /** `canClaim`: the key may start the claim, after which an owner can raise the limit. */
  | { readonly by: "none"; readonly canClaim: boolean };

/**
 * Who can raise the spending limit of a key. In a claimed account only people can; in an unclaimed one a key without a limit and
 * with all scopes can: the key that created this one, or the account's first key.
 */
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
