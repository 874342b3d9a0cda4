// Sessions of agents: what the calls of one hold and have spent, and whether it was stopped. It owns the table agent_session.
// Rows change only under the lock of the account's wallet, so a batch that locked the wallet reads them without a lock.

import { type Nano, toNano } from "../base/money/money.ts";
import { readAllAccounts } from "../store/all-accounts.ts";
import { integer, integerOrNull, type Reader, type Row, text, type Tx } from "../store/db.ts";
import type { SessionSpend } from "./decide.ts";

/** `buffered` is the part of `held` that belongs to buffered holds, and their number. */
export interface BufferedSession extends SessionSpend {
  buffered?: { held: Nano; calls: number };
}

export interface AccountSession {
  readonly accountId: string;
  readonly id: string;
  readonly session: BufferedSession;
}

export const SESSION_COLUMNS =
  "account_id, id, key_id, created_at, last_call_at, limit_nano, held, spent, stopped_at";

/** Ids of sessions are the callers' own, so they are unique within an account only. */
export function sessionKey(accountId: string, id: string): string {
  return `${accountId} ${id}`;
}

export function toSession(row: Row): SessionSpend {
  const limit = row["limit_nano"];
  return {
    keyId: text(row, "key_id"),
    createdAt: integer(row, "created_at"),
    lastCallAt: integer(row, "last_call_at"),
    limit: limit === null ? undefined : toNano(limit),
    held: toNano(row["held"]),
    spent: toNano(row["spent"]),
    stoppedAt: integerOrNull(row, "stopped_at"),
  };
}

export function newSession(keyId: string, now: number): SessionSpend {
  return {
    keyId,
    createdAt: now,
    lastCallAt: now,
    limit: undefined,
    held: 0n,
    spent: 0n,
    stoppedAt: null,
  };
}

/** Needs the locks of the wallets. */
export async function readSessions(
  tx: Tx,
  ids: readonly { readonly accountId: string; readonly sessionId?: string | undefined }[],
): Promise<Map<string, AccountSession>> {
  const keys = new Map(
    ids.flatMap(({ accountId, sessionId: id }) =>
      id === undefined ? [] : [[sessionKey(accountId, id), [accountId, id] as const]],
    ),
  );
  if (keys.size === 0) return new Map();
  const rows = await tx.readMany(
    "agent_session",
    "account_id, id",
    [...keys.values()],
    SESSION_COLUMNS,
  );
  return new Map(
    rows.map((row) => {
      const [accountId, id] = [text(row, "account_id"), text(row, "id")];
      return [sessionKey(accountId, id), { accountId, id, session: toSession(row) }];
    }),
  );
}

/** Inserts or updates; a stop is written by `markSessionStopped` only. */
export async function writeSessions(tx: Tx, sessions: Iterable<AccountSession>): Promise<void> {
  await Promise.all(
    Array.from(sessions, ({ accountId, id, session }) => {
      const { keyId, createdAt, lastCallAt, limit = null, held, spent, buffered } = session;
      return tx.run(
        `insert into agent_session (account_id, id, key_id, created_at, last_call_at, limit_nano, held, spent)
         values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (account_id, id) do update
         set last_call_at = excluded.last_call_at, limit_nano = excluded.limit_nano, held = excluded.held, spent = excluded.spent`,
        [accountId, id, keyId, createdAt, lastCallAt, limit, held - (buffered?.held ?? 0n), spent],
      );
    }),
  );
}

/** The session, now stopped; undefined if the account has none with this id. A second stop changes nothing. */
export async function markSessionStopped(
  tx: Tx,
  accountId: string,
  id: string,
  now: number,
): Promise<{ readonly session: SessionSpend; readonly isFirst: boolean } | undefined> {
  await tx.lockMany("wallet", "account_id", [accountId]);
  const found = (await readSessions(tx, [{ accountId, sessionId: id }])).get(
    sessionKey(accountId, id),
  );
  if (found === undefined) return undefined;
  const { session } = found;
  if (session.stoppedAt !== null) return { session, isFirst: false };
  await tx.run("update agent_session set stopped_at = ? where account_id = ? and id = ?", [
    now,
    accountId,
    id,
  ]);
  return { session: { ...session, stoppedAt: now }, isFirst: true };
}

/** The sessions that were stopped at or after a time, by any process. */
export async function stoppedSince(
  reader: Reader,
  since: number,
): Promise<readonly (Pick<AccountSession, "accountId" | "id"> & { readonly stoppedAt: number })[]> {
  const sql = "select account_id, id, stopped_at from agent_session where stopped_at >= ?";
  const rows = await readAllAccounts(reader, "agent_session", sql, [since]);
  return rows.map((row) => ({
    accountId: text(row, "account_id"),
    id: text(row, "id"),
    stoppedAt: integer(row, "stopped_at"),
  }));
}

export interface ListedSession {
  readonly id: string;
  readonly session: SessionSpend;
}

export async function findSession(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<SessionSpend | undefined> {
  const row = await reader.get(
    `select ${SESSION_COLUMNS} from agent_session where account_id = ? and id = ?`,
    [accountId, id],
  );
  return row && toSession(row);
}

/** Newest first; `before` is the last one of the page before. */
export async function listSessions(
  reader: Reader,
  accountId: string,
  { limit, before }: { readonly limit: number; readonly before?: SessionPosition | undefined },
): Promise<readonly ListedSession[]> {
  const rows = await reader.all(
    `select ${SESSION_COLUMNS} from agent_session where account_id = ?
     ${before === undefined ? "" : "and (created_at < ? or (created_at = ? and id < ?))"}
     order by created_at desc, id desc limit ?`,
    [
      accountId,
      ...(before === undefined ? [] : [before.createdAt, before.createdAt, before.id]),
      limit,
    ],
  );
  return rows.map((row) => ({ id: text(row, "id"), session: toSession(row) }));
}

export interface SessionPosition {
  readonly createdAt: number;
  readonly id: string;
}

// Both repeat their conditions for the row itself: a call or a stop may have changed it after the inner query read it.

/** Deletes up to `limit` sessions without a call or a stop since; returns how many. A session with an open call stays. */
export function deleteOldSessions(tx: Tx, before: number, limit: number): Promise<number> {
  return tx.run(
    `delete from agent_session where ${OLD} and (account_id, id) in
       (select account_id, id from agent_session where ${OLD} limit ?)`,
    [before, before, before, before, limit],
  );
}

const OLD = "last_call_at < ? and held = 0 and (stopped_at is null or stopped_at < ?)";

/** Accounts with more sessions than `max`. */
export async function accountsWithSessionsAbove(
  reader: Reader,
  max: number,
): Promise<readonly string[]> {
  const rows = await reader.all(
    "select account_id from agent_session group by account_id having count(*) > ? order by account_id limit 100",
    [max],
  );
  return rows.map((row) => text(row, "account_id"));
}

/** Deletes sessions beyond the newest `max` that no limit and no stop depends on; returns how many. */
export function deleteSessionsBeyond(
  tx: Tx,
  accountId: string,
  { max, limit }: { readonly max: number; readonly limit: number },
): Promise<number> {
  return tx.run(
    `delete from agent_session where account_id = ? and ${DISPENSABLE} and id in
       (select id from (select id, held, spent, limit_nano, stopped_at from agent_session where account_id = ?
          order by last_call_at desc, id limit 1000000 offset ?) as older
        where ${DISPENSABLE} limit ?)`,
    [accountId, accountId, max, limit],
  );
}

const DISPENSABLE = "held = 0 and stopped_at is null and (limit_nano is null or spent = 0)";
