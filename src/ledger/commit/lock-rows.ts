// Locks and reads the rows of a batch. Wallets first, then spenders, each in key order: this lock order prevents deadlocks
// between batches. Holds change only under the lock of their wallet, so those that the batch settles are deleted at once.

import { type AccountKey, type ReadRows, type Row, text, type Tx } from "../../store/db.ts";
import { balanceThresholdsOf } from "../balance-thresholds.ts";
import type { LeaseShare } from "../credit-lease.ts";
import type { BatchShare, KeyRules, OpenHold, SessionRequest } from "../decide.ts";
import {
  type BufferedKeySpend,
  type BufferedWallet,
  KEY_RULES_COLUMNS,
  KEY_SPEND_NAMES,
  OPEN_HOLD_COLUMNS,
  SWEPT_HOLD_COLUMNS,
  toKeyRules,
  toOpenHold,
  toSweptHold,
  toKeySpend,
  toWallet,
} from "../ledger-rows.ts";
import {
  type BufferedSession,
  newSession,
  SESSION_COLUMNS,
  sessionKey,
  toSession,
} from "../session-rows.ts";
import {
  addBufferedCalls,
  addBufferedHeld,
  addBufferedSession,
  type HoldBuffer,
} from "./hold-buffer.ts";

export interface LockedRows {
  readonly wallets: ReadonlyMap<string, BufferedWallet>;
  readonly keySpends: ReadonlyMap<string, BufferedKeySpend>;
  readonly keys: ReadonlyMap<string, KeyRules>;
  /** By `sessionKey`; a session without a row is new. */
  readonly sessions: ReadonlyMap<string, BufferedSession>;
  readonly holds: Map<string, OpenHold>;
  /** Holds that the sweeper has released. */
  readonly swept: Map<string, OpenHold>;
  /** Ids of the calls on leases that are settled already. */
  readonly settledCalls: Set<string>;
  readonly buffer: HoldBuffer | undefined;
}

/** The part of an operation that names its rows. */
export interface OperationTarget {
  readonly kind:
    | "hold"
    | "raise"
    | "settle"
    | "take_lease"
    | "fill_lease"
    | "raise_lease"
    | "return_lease";
  readonly request: {
    readonly id: string;
    readonly accountId: string;
    readonly keyId: string;
    /** Of a settlement, or of a hold that is raised. */
    readonly sessionId?: string | undefined;
    /** Of a hold. */
    readonly session?: SessionRequest | undefined;
    /** Of a settlement. */
    readonly batch?: BatchShare | undefined;
    /** Of a settlement. */
    readonly lease?: LeaseShare | undefined;
    readonly now: number;
  };
}

export async function lockRows(
  tx: Tx,
  operations: readonly OperationTarget[],
  buffer: HoldBuffer | undefined,
): Promise<LockedRows> {
  const rowCache = buffer?.rowCache;
  const rowKeys = collectKeys(operations, buffer);
  const { accountIds, keyIds, uncachedKeys, settledKeys, heldKeys, sessionKeys, holds } = rowKeys;
  const { leaseKeys, takenKeys, leasedCalls } = rowKeys;
  const sweepableKeys = [...settledKeys, ...heldKeys, ...takenKeys];
  const [lockByKey, deleteByKey, readByKey] = [
    skipEmpty(tx.lockMany),
    skipEmpty(tx.deleteMany),
    skipEmpty(tx.readMany),
  ];
  // PostgreSQL runs these one after the other on one connection; pipelined, they cost one round trip.
  const [wallets, keySpends, settled, held, swept, records, keys, sessions] = await Promise.all([
    lockByKey("wallet", "account_id", uncachedIds(accountIds, rowCache?.wallets)),
    lockByKey("spender", "account_id, key_id", uncachedKeys, KEY_SPEND_NAMES),
    deleteByKey("hold", "account_id, id", settledKeys, OPEN_HOLD_COLUMNS),
    lockByKey("hold", "account_id, id", [...heldKeys, ...leaseKeys], OPEN_HOLD_COLUMNS),
    lockByKey("swept_hold", "account_id, id", sweepableKeys, SWEPT_HOLD_COLUMNS),
    readByKey("usage_record", "account_id, id", leasedCalls, "id"),
    readByKey("api_key", "id", uncachedIds(keyIds, rowCache?.keys), KEY_RULES_COLUMNS),
    readByKey("agent_session", "account_id, id", sessionKeys, SESSION_COLUMNS),
  ]);
  for (const row of [...settled, ...held]) holds.set(text(row, "id"), toOpenHold(row));
  return {
    wallets: mergeWithCache(accountIds, rowCache?.wallets, wallets, (row) => {
      const id = text(row, "account_id");
      return [
        id,
        addBufferedHeld(buffer?.heldByWallet.get(id), {
          ...toWallet(row),
          ...balanceThresholdsOf(row),
        }),
      ];
    }),
    keySpends: mergeWithCache(keyIds, rowCache?.keySpends, keySpends, (row) => {
      const id = text(row, "key_id");
      return [id, addBufferedCalls(buffer?.callsByKey.get(id), toKeySpend(row))];
    }),
    keys: mergeWithCache(keyIds, rowCache?.keys, keys, (row) => [text(row, "id"), toKeyRules(row)]),
    sessions: mergeSessions(operations, sessions, buffer),
    holds,
    swept: new Map(swept.map((row) => [text(row, "id"), toSweptHold(row)])),
    settledCalls: new Set(records.map((row) => text(row, "id"))),
    buffer,
  };
}

interface RowKeys {
  readonly accountIds: ReadonlySet<string>;
  readonly keyIds: ReadonlySet<string>;
  readonly uncachedKeys: readonly AccountKey[];
  readonly settledKeys: readonly AccountKey[];
  readonly heldKeys: readonly AccountKey[];
  readonly leaseKeys: readonly AccountKey[];
  /** The leases that the batch takes: one that it repeats may have been swept. */
  readonly takenKeys: readonly AccountKey[];
  /** Calls of settlements on leases: their usage records tell whether they are settled already. */
  readonly leasedCalls: readonly AccountKey[];
  readonly sessionKeys: readonly AccountKey[];
  /** The buffered ones. */
  readonly holds: Map<string, OpenHold>;
}

function collectKeys(
  operations: readonly OperationTarget[],
  buffer: HoldBuffer | undefined,
): RowKeys {
  const rowCache = buffer?.rowCache;
  const accountIds = new Set<string>();
  const accountOfKey = new Map<string, string>();
  const uncachedKeys: AccountKey[] = [];
  const settledKeys: AccountKey[] = [];
  const heldKeys = new Map<string, AccountKey>();
  const sessions = new Map<string, AccountKey>();
  const holds = new Map<string, OpenHold>();
  for (const { kind, request } of operations) {
    const { id, accountId, keyId } = request;
    accountIds.add(accountId);
    if (accountOfKey.get(keyId) !== accountId) {
      accountOfKey.set(keyId, accountId);
      if (rowCache?.keySpends.has(keyId) !== true) uncachedKeys.push([accountId, keyId]);
    }
    const sessionId = sessionIdOf({ request });
    if (sessionId !== undefined) {
      const session = sessionKey(accountId, sessionId);
      if (rowCache?.sessions.has(session) !== true) sessions.set(session, [accountId, sessionId]);
    }
    // Those on leases have no row of their own.
    if (leaseIdOf({ kind, request }) !== undefined) continue;
    const buffered = buffer?.holds.get(id);
    if (buffered !== undefined) holds.set(id, buffered.hold);
    else if (kind === "settle") settledKeys.push([accountId, id]);
    else if (buffer === undefined || buffer.flushed.has(id)) heldKeys.set(id, [accountId, id]);
    // The hold of a batch is never buffered.
    if (request.batch !== undefined)
      heldKeys.set(request.batch.holdId, [accountId, request.batch.holdId]);
  }
  const keyIds = new Set(accountOfKey.keys());
  const sessionKeys = [...sessions.values()];
  const keys = { uncachedKeys, settledKeys, heldKeys: [...heldKeys.values()], sessionKeys };
  return { accountIds, keyIds, ...keys, ...collectLeases(operations), holds };
}

const LEASE_KINDS: ReadonlySet<string> = new Set([
  "take_lease",
  "fill_lease",
  "raise_lease",
  "return_lease",
]);

function leaseIdOf({ kind, request }: OperationTarget): string | undefined {
  return LEASE_KINDS.has(kind) ? request.id : request.lease?.leaseId;
}

function collectLeases(
  operations: readonly OperationTarget[],
): Pick<RowKeys, "leaseKeys" | "takenKeys" | "leasedCalls"> {
  const leaseKeys = new Map<string, AccountKey>();
  const takenKeys: AccountKey[] = [];
  const leasedCalls: AccountKey[] = [];
  for (const operation of operations) {
    const { accountId, id, lease } = operation.request;
    const leaseId = leaseIdOf(operation);
    if (leaseId !== undefined) leaseKeys.set(leaseId, [accountId, leaseId]);
    if (operation.kind === "take_lease") takenKeys.push([accountId, id]);
    if (lease !== undefined) leasedCalls.push([accountId, id]);
  }
  return { leaseKeys: [...leaseKeys.values()], takenKeys, leasedCalls };
}

function sessionIdOf({ request }: Pick<OperationTarget, "request">): string | undefined {
  return request.sessionId ?? request.session?.id;
}

/** The sessions of the operations. Those without a row begin with their first call. */
function mergeSessions(
  operations: readonly OperationTarget[],
  rows: readonly Row[],
  buffer: HoldBuffer | undefined,
): ReadonlyMap<string, BufferedSession> {
  const cached = buffer?.rowCache.sessions ?? new Map<string, BufferedSession>();
  for (const row of rows) {
    const key = sessionKey(text(row, "account_id"), text(row, "id"));
    cached.set(key, addBufferedSession(buffer?.sessions.get(key), toSession(row)));
  }
  const merged = new Map<string, BufferedSession>();
  for (const { request } of operations) {
    const sessionId = sessionIdOf({ request });
    if (sessionId === undefined) continue;
    const key = sessionKey(request.accountId, sessionId);
    let session = cached.get(key);
    if (session === undefined) {
      const fresh = newSession(request.keyId, request.now);
      cached.set(key, (session = addBufferedSession(buffer?.sessions.get(key), fresh)));
    }
    merged.set(key, session);
  }
  return merged;
}

const NO_ROWS: Promise<readonly Row[]> = Promise.resolve([]);

function skipEmpty(bulk: ReadRows): ReadRows {
  return (table, key, ids, columns) =>
    ids.length === 0 ? NO_ROWS : bulk(table, key, ids, columns);
}

function uncachedIds(
  ids: ReadonlySet<string>,
  cached: ReadonlyMap<string, unknown> | undefined,
): string[] {
  return cached === undefined ? [...ids] : [...ids].filter((id) => !cached.has(id));
}

/** Adds the rows to the cache and returns the entries with these ids. */
function mergeWithCache<T>(
  ids: ReadonlySet<string>,
  cached: Map<string, T> | undefined,
  rows: readonly Row[],
  parse: (row: Row) => readonly [id: string, T],
): ReadonlyMap<string, T> {
  if (cached === undefined) return new Map(rows.map(parse));
  for (const row of rows) cached.set(...parse(row));
  const merged = new Map<string, T>();
  for (const id of ids) {
    const value = cached.get(id);
    if (value !== undefined) merged.set(id, value);
  }
  return merged;
}
