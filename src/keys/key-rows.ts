// How a key is stored: the row of a new one, and the record that is read from it.

import { Fault } from "../base/fault.ts";
import { toNano } from "../base/money/money.ts";
import { rollWindows, toLimitWindow } from "../base/money/spend-window.ts";
import { parsePolicy, policyText } from "../http/key-policy.ts";
import type { ListableScope } from "../http/scopes.ts";
import {
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  type Value,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { type KeyCredential, parseCredential } from "./key-credential.ts";
import type { KeyHash } from "./key-hashes.ts";
import { type KeySettings, mergePolicy } from "./key-settings.ts";
import type { FormerSecret, Key } from "./key.ts";
import { toScopes } from "./live-keys.ts";

const PREFIX_SHOWN_CHARACTERS = 12;

/** Those keys of the account for which the rest of the statement is true: a condition, and maybe an order and a limit. */
export async function readKeys(
  reader: Reader,
  { accountId, now }: { readonly accountId: string; readonly now: number },
  rest: string,
  values: readonly Value[],
): Promise<readonly Key[]> {
  const rows = await reader.all(`select * from api_key where account_id = ? and ${rest}`, [
    accountId,
    ...values,
  ]);
  if (rows.length === 0) return [];
  const ids = rows.map((row) => text(row, "id")).toSorted();
  // Not in one statement: a distributed store has the two tables on different nodes. A range, so that it is one text.
  const spends = await reader.all(
    `select key_id, total_spent, day_start, day_spent, week_start, week_spent, month_start, month_spent
     from spender where account_id = ? and key_id >= ? and key_id <= ?`,
    [accountId, ids[0] ?? "", ids.at(-1) ?? ""],
  );
  const spendOf = new Map(spends.map((row) => [text(row, "key_id"), row]));
  return rows.flatMap((row) => {
    const spend = spendOf.get(text(row, "id"));
    return spend === undefined ? [] : [toKey(row, spend, now)];
  });
}

function toKey(row: Row, spend: Row, now: number): Key {
  const limitWindow = toLimitWindow(textOrNull(row, "limit_window"));
  const spent = rollWindows(
    {
      total: toNano(spend["total_spent"]),
      day: toNano(spend["day_spent"]),
      week: toNano(spend["week_spent"]),
      month: toNano(spend["month_spent"]),
      dayStart: integer(spend, "day_start"),
      weekStart: integer(spend, "week_start"),
      monthStart: integer(spend, "month_start"),
    },
    now,
  );
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    name: textOrNull(row, "name"),
    prefix: text(row, "prefix"),
    last4: text(row, "last4"),
    createdAt: integer(row, "created_at"),
    lastUsedAt: integerOrNull(row, "last_used_at"),
    expiresAt: integerOrNull(row, "expires_at"),
    revokedAt: integerOrNull(row, "revoked_at"),
    limit: row["limit_nano"] === null ? null : toNano(row["limit_nano"]),
    limitWindow,
    spent: limitWindow === null ? spent.total : spent[limitWindow],
    scopes: toScopes(row),
    policy: parsePolicy(row["policy"]) ?? {},
    alertPercents: textOrNull(row, "alert_percents")?.split(" ").map(Number) ?? null,
    createdBy: textOrNull(row, "created_by"),
    formerSecret: toFormerSecret(row, now),
    derivedFrom: textOrNull(row, "ancestors")?.split(" ") ?? null,
    app: textOrNull(row, "app"),
    credential: parseCredential(row["credential"]),
  };
}

function toFormerSecret(row: Row, now: number): FormerSecret | null {
  const until = integerOrNull(row, "former_until");
  if (until === null || until <= now) return null;
  return {
    last4: text(row, "former_last4"),
    until,
    lastUsedAt: integerOrNull(row, "former_last_used_at"),
  };
}

export interface NewKey extends KeySettings {
  readonly createdBy?: string | undefined;
}

interface NewKeyRow extends KeyHash {
  readonly id: string;
  readonly accountId: string;
  readonly raw: string;
  readonly credential: KeyCredential | undefined;
}

export async function insertKey(
  tx: Tx,
  { id, accountId, raw, credential, hash, secretId, chainReference, chainSecret }: NewKeyRow,
  settings: NewKey,
  now: number,
): Promise<void> {
  const inserted = await tx.run(
    `insert into api_key (id, account_id, hash, secret_id, name, prefix, last4, created_at, expires_at, limit_nano, limit_window, scopes, created_by,
     policy, alert_percents, app, chain_reference, chain_secret, ancestors, credential)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (hash) do nothing`,
    [
      id,
      accountId,
      hash,
      secretId,
      settings.name ?? null,
      ...shownParts(raw),
      now,
      settings.expiresAt ?? null,
      settings.limit ?? null,
      settings.limitWindow ?? null,
      scopesText(settings.scopes ?? null),
      settings.createdBy ?? null,
      policyText(mergePolicy({}, settings.policy)),
      settings.alertPercents?.join(" ") ?? null,
      settings.app ?? null,
      chainReference,
      chainSecret,
      settings.derived?.ancestors ?? null,
      credential === undefined ? null : JSON.stringify(credential),
    ],
  );
  if (inserted === 0)
    throw new Fault("conflict", "a key with this credential exists", {
      message:
        "This public key is or was the credential of another API key, which may be revoked. Make another key pair.",
      param: "credential",
    });
}

/** The first and the last characters, by which people identify a key. */
export function shownParts(raw: string): readonly [prefix: string, last4: string] {
  return [raw.slice(0, PREFIX_SHOWN_CHARACTERS), raw.slice(-4)];
}

export function scopesText(scopes: readonly ListableScope[] | null): string | null {
  return scopes === null ? null : [...new Set(scopes)].sort().join(" ");
}
