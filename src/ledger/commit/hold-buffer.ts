// Write-behind buffer for holds, only with SQLite. Its one process ends together with its calls, so a hold needs no row
// until it is a second old, and most short calls are settled by then. All other access to these rows through this `Db`
// flushes the buffer first, so every reader and writer finds every hold in its table.

import { type Nano, maxNano } from "../../base/money/money.ts";
import { type Db, type Durability, text, type Tx } from "../../store/db.ts";
import type { LeaseOutcome, LeaseView } from "../credit-lease-rules.ts";
import {
  decideHold,
  type HoldOutcome,
  type HoldRequest,
  type OpenHold,
  type RaiseOutcome,
  type SettleOutcome,
  type Wallet,
} from "../decide.ts";
import {
  insertHolds,
  type BufferedKeySpend,
  type BufferedWallet,
  type NewHold,
  toAccountKeySpends,
  toWallet,
  updateKeySpends,
  updateWallets,
} from "../ledger-rows.ts";
import {
  type AccountSession,
  type BufferedSession,
  newSession,
  readSessions,
  sessionKey,
  writeSessions,
} from "../session-rows.ts";
import { createRowCache, type RowCache } from "./row-cache.ts";
import { createSerialQueue } from "./serial-queue.ts";
import { prepareLedgerStatements, readsHolds } from "./statement-hook.ts";

const FLUSH_AFTER_MS = 1_000;
/** One flush of this size takes some milliseconds. */
const FLUSH_BATCH_MAX = 500;
/** Above any realistic burst, and small enough to flush before a read. */
const BUFFER_MAX = 4_000;

/** Only functions of this file change it, except `rowCache`, which a batch also changes. */
export interface HoldBuffer {
  /** In insertion order, oldest first. */
  readonly holds: Map<string, BufferedHold>;
  /** Sums of the buffered holds. */
  readonly heldByWallet: Map<string, Nano>;
  readonly callsByKey: Map<string, BufferedCalls>;
  /** By `sessionKey`; with what a session without a row has besides. */
  readonly sessions: Map<string, SessionOfHolds>;
  /** Ids of holds that were written and are not settled yet. */
  readonly flushed: Set<string>;
  /** Committed rows plus the buffered holds. */
  readonly rowCache: RowCache;
}

interface BufferedCalls {
  readonly held: Nano;
  readonly openCalls: number;
  readonly theoreticalArrivalAt: number;
}

interface SessionOfHolds {
  readonly held: Nano;
  readonly calls: number;
  readonly limit: Nano | undefined;
  readonly keyId: string;
  readonly createdAt: number;
  readonly lastCallAt: number;
}

/** What a batch changes in the buffer once it is committed. */
interface BufferChanges {
  readonly added: ReadonlyMap<string, NewHold>;
  /** Buffered holds with their new amounts. */
  readonly raised: ReadonlyMap<string, OpenHold>;
  /** Holds settled while buffered. */
  readonly settled: readonly string[];
  /** Holds settled after they were flushed. */
  readonly settledFlushed: readonly string[];
  readonly wallets: ReadonlyMap<string, BufferedWallet>;
  readonly keySpends: ReadonlyMap<string, BufferedKeySpend>;
  readonly sessions: ReadonlyMap<string, BufferedSession>;
}

export interface AppliedBatch {
  /** In the order of the operations. */
  readonly outcomes: readonly (HoldOutcome | RaiseOutcome | SettleOutcome | LeaseOutcome)[];
  readonly leases: ReadonlyMap<string, LeaseView | undefined>;
  readonly bufferChanges: BufferChanges;
}

/** A `Db` in which every hold is visible, plus the ledger's access to buffered holds. */
export interface BufferedDb extends Db {
  /** Runs a batch of the ledger and applies its buffer changes after the commit. */
  readonly writeBatch: WriteBatch;
  readonly tryHoldSync: TryHoldSync;
}

type WriteBatch = (
  work: (tx: Tx, buffer: HoldBuffer) => Promise<AppliedBatch>,
  durability?: Durability,
) => Promise<AppliedBatch>;

/** Decides a hold from the row cache; undefined if a batch must read rows for it. */
type TryHoldSync = (
  request: HoldRequest,
  process: Pick<NewHold, "process" | "epoch">,
) => HoldOutcome | undefined;

interface BufferedHold {
  readonly hold: NewHold;
  /** Monotonic time. */
  readonly bufferedAtMs: number;
}

export function bufferHolds(db: Db, flushAfterMs = FLUSH_AFTER_MS): BufferedDb {
  const buffer: HoldBuffer = {
    holds: new Map(),
    heldByWallet: new Map(),
    callsByKey: new Map(),
    sessions: new Map(),
    flushed: new Set(),
    rowCache: createRowCache(db.dataVersion),
  };
  const writeQueue = createSerialQueue();
  // A power failure that loses a hold also ends its call, so a sync is not needed.
  const flush = async (holds: readonly BufferedHold[]): Promise<number> => {
    if (holds.length === 0) return 0;
    await db.write((tx) => insertBufferedHolds(tx, buffer, holds), "os_cache");
    removeFlushed(buffer, holds);
    return holds.length;
  };
  const flushTimer = createFlushTimer(buffer, flushAfterMs, () =>
    writeQueue.run(() => flush(bufferedBefore(buffer, performance.now() - flushAfterMs))),
  );
  const flushAll = (): Promise<number> => writeQueue.run(() => flush([...buffer.holds.values()]));
  const flushIfConcerned = async (sql: string): Promise<void> => {
    if (buffer.holds.size > 0 && readsHolds(sql)) await flushAll();
  };
  return {
    ...db,
    all: (sql, params) => flushIfConcerned(sql).then(() => db.all(sql, params)),
    get: (sql, params) => flushIfConcerned(sql).then(() => db.get(sql, params)),
    snapshot: (work) => flushAll().then(() => db.snapshot(work)),
    write: (work, durability) => writeQueue.run(() => writeWithHolds(db, buffer, work, durability)),
    writeBatch: (work, durability) =>
      writeQueue.run(async () => {
        if (buffer.holds.size >= BUFFER_MAX) await flush(bufferedBefore(buffer, Infinity));
        try {
          const batch = await db.write((tx) => {
            buffer.rowCache.revalidate();
            return work(tx, buffer);
          }, durability);
          applyBufferChanges(buffer, batch.bufferChanges);
          flushTimer.start();
          return batch;
        } catch (error) {
          // The batch changed cached rows that were not committed.
          buffer.rowCache.clear();
          throw error;
        }
      }),
    tryHoldSync: (request, process) => {
      if (writeQueue.isBusy() || buffer.holds.size >= BUFFER_MAX) return undefined;
      const outcome = holdFromCache(buffer, request, process);
      flushTimer.start();
      return outcome;
    },
    close: async () => {
      flushTimer.stop();
      await writeQueue.drained();
      await db.close();
    },
  };
}

/** Most transactions, such as those of stored responses, concern no row of the ledger: they leave holds and cache alone. */
async function writeWithHolds<T>(
  db: Db,
  buffer: HoldBuffer,
  work: (tx: Tx) => Promise<T>,
  durability: Durability | undefined,
): Promise<T> {
  const holds = [...buffer.holds.values()];
  let inserted: Promise<void> | undefined;
  const result = await db.write((tx) => {
    inserted = undefined;
    const insertOnce = (): Promise<void> => (inserted ??= insertBufferedHolds(tx, buffer, holds));
    return work(prepareLedgerStatements(tx, insertOnce));
  }, durability);
  if (inserted === undefined) return result;
  removeFlushed(buffer, holds);
  buffer.rowCache.clear();
  return result;
}

function holdFromCache(
  buffer: HoldBuffer,
  request: HoldRequest,
  process: Pick<NewHold, "process" | "epoch">,
): HoldOutcome | undefined {
  const { id, accountId, keyId } = request;
  buffer.rowCache.revalidateOncePerTick();
  const { wallets, keySpends, keys } = buffer.rowCache;
  const wallet = wallets.get(accountId);
  const keySpend = keySpends.get(keyId);
  const key = keys.get(keyId);
  if (wallet === undefined || keySpend === undefined || key === undefined) return undefined;
  // A repeated request: only a batch can return its former outcome.
  if (buffer.holds.has(id) || buffer.flushed.has(id)) return undefined;
  const named = request.session && sessionKey(accountId, request.session.id);
  const session = named === undefined ? undefined : buffer.rowCache.sessions.get(named);
  if (named !== undefined && session === undefined) return undefined;
  const outcome = decideHold(request, { wallet, keySpend, key, session });
  if (outcome.status !== "held") return outcome;
  addBufferedHold({ wallet, keySpend, session }, outcome.amount, 1);
  const hold = newHold(request, outcome.amount, process);
  buffer.holds.set(id, { hold, bufferedAtMs: performance.now() });
  setHeldByWallet(buffer, accountId, wallet);
  setCallsByKey(buffer, keyId, keySpend);
  if (named !== undefined && session !== undefined) setSession(buffer, named, session);
  return outcome;
}

export function newHold(
  { id, accountId, keyId, now, expiresAt, session }: HoldRequest,
  amount: Nano,
  { process, epoch }: Pick<NewHold, "process" | "epoch">,
): NewHold {
  const hold = { id, accountId, keyId, amount, process, epoch, createdAt: now, expiresAt };
  return session === undefined ? hold : { ...hold, sessionId: session.id };
}

/** The rows on which a hold rests. */
export interface BufferedRows {
  readonly wallet: BufferedWallet;
  readonly keySpend: BufferedKeySpend;
  readonly session: BufferedSession | undefined;
}

/** Adds a hold to the buffered sums; negative values remove it. */
export function addBufferedHold(
  { wallet, keySpend, session }: BufferedRows,
  amount: Nano,
  calls: number,
): void {
  if (session !== undefined)
    session.buffered = {
      held: (session.buffered?.held ?? 0n) + amount,
      calls: (session.buffered?.calls ?? 0) + calls,
    };
  wallet.bufferedHeld = (wallet.bufferedHeld ?? 0n) + amount;
  keySpend.buffered = {
    held: (keySpend.buffered?.held ?? 0n) + amount,
    openCalls: (keySpend.buffered?.openCalls ?? 0) + calls,
  };
}

interface FlushTimer {
  readonly start: () => void;
  readonly stop: () => void;
}

/** Calls `flushOld` while there are buffered holds. */
function createFlushTimer(
  buffer: HoldBuffer,
  flushAfterMs: number,
  flushOld: () => Promise<number>,
): FlushTimer {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  const start = (minDelayMs = 0): void => {
    if (timer !== undefined || isStopped) return;
    const [first] = buffer.holds.values();
    if (first === undefined) return;
    const dueMs = first.bufferedAtMs + flushAfterMs - performance.now();
    timer = setTimeout(
      () => {
        timer = undefined;
        // Waits before the next flush, so that many holds share a commit. If the store is unavailable, the holds stay
        // in the buffer and are flushed later.
        flushOld().then(
          (flushed) => start(flushed === FLUSH_BATCH_MAX ? 0 : flushAfterMs / 4),
          () => start(flushAfterMs),
        );
      },
      Math.max(minDelayMs, dueMs),
    );
    timer.unref();
  };
  return {
    start: () => start(),
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

function bufferedBefore(buffer: HoldBuffer, beforeMs: number): readonly BufferedHold[] {
  const holds: BufferedHold[] = [];
  for (const buffered of buffer.holds.values()) {
    if (buffered.bufferedAtMs > beforeMs || holds.length === FLUSH_BATCH_MAX) break;
    holds.push(buffered);
  }
  return holds;
}

/** Adds the buffered holds to a wallet that was read from the store. */
export function addBufferedHeld(
  bufferedHeld: Nano | undefined,
  wallet: BufferedWallet,
): BufferedWallet {
  if (bufferedHeld === undefined) return wallet;
  wallet.bufferedHeld = bufferedHeld;
  wallet.held += bufferedHeld;
  return wallet;
}

export function addBufferedCalls(
  buffered: BufferedCalls | undefined,
  keySpend: BufferedKeySpend,
): BufferedKeySpend {
  if (buffered === undefined) return keySpend;
  const { held, openCalls, theoreticalArrivalAt } = buffered;
  keySpend.buffered = { held, openCalls };
  keySpend.held += held;
  keySpend.openCalls += openCalls;
  // The buffered value is the newer one, even if the clock stepped back and made it smaller.
  keySpend.theoreticalArrivalAt = theoreticalArrivalAt;
  return keySpend;
}

export function addBufferedSession(
  buffered: SessionOfHolds | undefined,
  session: BufferedSession,
): BufferedSession {
  if (buffered === undefined) return session;
  const { held, calls, limit, keyId, createdAt, lastCallAt } = buffered;
  return {
    ...session,
    buffered: { held, calls },
    keyId,
    createdAt,
    held: session.held + held,
    // The buffered values are the newer ones.
    limit,
    lastCallAt,
  };
}

function applyBufferChanges(
  buffer: HoldBuffer,
  { added, raised, settled, settledFlushed, wallets, keySpends, sessions }: BufferChanges,
): void {
  const bufferedAtMs = performance.now();
  for (const id of settled) buffer.holds.delete(id);
  for (const hold of added.values()) buffer.holds.set(hold.id, { hold, bufferedAtMs });
  for (const [id, { amount }] of raised) {
    const buffered = buffer.holds.get(id);
    if (buffered !== undefined)
      buffer.holds.set(id, { ...buffered, hold: { ...buffered.hold, amount } });
  }
  for (const id of settledFlushed) buffer.flushed.delete(id);
  for (const [id, wallet] of wallets) setHeldByWallet(buffer, id, wallet);
  for (const [id, keySpend] of keySpends) setCallsByKey(buffer, id, keySpend);
  for (const [key, session] of sessions) setSession(buffer, key, session);
}

function setSession(buffer: HoldBuffer, key: string, session: BufferedSession): void {
  const { buffered, limit, keyId, createdAt, lastCallAt } = session;
  if (buffered === undefined || buffered.calls === 0) buffer.sessions.delete(key);
  else buffer.sessions.set(key, { ...buffered, limit, keyId, createdAt, lastCallAt });
}

function setHeldByWallet(
  buffer: HoldBuffer,
  id: string,
  { bufferedHeld: held = 0n }: BufferedWallet,
): void {
  if (held === 0n) buffer.heldByWallet.delete(id);
  else buffer.heldByWallet.set(id, held);
}

function setCallsByKey(
  buffer: HoldBuffer,
  id: string,
  { buffered: calls, theoreticalArrivalAt }: BufferedKeySpend,
): void {
  if (calls === undefined || calls.openCalls === 0) buffer.callsByKey.delete(id);
  else buffer.callsByKey.set(id, { ...calls, theoreticalArrivalAt });
}

function removeFlushed(buffer: HoldBuffer, flushed: readonly BufferedHold[]): void {
  for (const { hold } of flushed) {
    const { id, accountId, keyId, amount, sessionId } = hold;
    if (sessionId !== undefined) removeFlushedSession(buffer, accountId, sessionId, amount);
    // The flush changed these rows, and may have lowered the hold.
    buffer.rowCache.wallets.delete(accountId);
    buffer.rowCache.keySpends.delete(keyId);
    buffer.holds.delete(id);
    buffer.flushed.add(id);
    const held = (buffer.heldByWallet.get(accountId) ?? 0n) - amount;
    if (held > 0n) buffer.heldByWallet.set(accountId, held);
    else buffer.heldByWallet.delete(accountId);
    const calls = buffer.callsByKey.get(keyId);
    if (calls === undefined) continue;
    if (calls.openCalls === 1) buffer.callsByKey.delete(keyId);
    else
      buffer.callsByKey.set(keyId, {
        ...calls,
        held: calls.held - amount,
        openCalls: calls.openCalls - 1,
      });
  }
}

function removeFlushedSession(
  { rowCache, sessions }: HoldBuffer,
  accountId: string,
  sessionId: string,
  amount: Nano,
): void {
  const key = sessionKey(accountId, sessionId);
  rowCache.sessions.delete(key);
  const session = sessions.get(key);
  if (session === undefined) return;
  if (session.calls === 1) sessions.delete(key);
  else sessions.set(key, { ...session, held: session.held - amount, calls: session.calls - 1 });
}

async function insertBufferedHolds(
  tx: Tx,
  buffer: HoldBuffer,
  all: readonly BufferedHold[],
): Promise<void> {
  if (all.length === 0) return;
  const accountIds = new Set(all.map(({ hold }) => hold.accountId));
  const accountOfKey = new Map(all.map(({ hold }) => [hold.keyId, hold.accountId]));
  const keys = Array.from(accountOfKey, ([keyId, accountId]) => [accountId, keyId] as const);
  const walletRows = await tx.lockMany("wallet", "account_id", [...accountIds]);
  const keySpendRows = await tx.lockMany("spender", "account_id, key_id", keys);
  const wallets = new Map(walletRows.map((row) => [text(row, "account_id"), toWallet(row)]));
  const keySpends = toAccountKeySpends(keySpendRows);
  const sessions = await readSessions(
    tx,
    all.map(({ hold }) => hold),
  );
  const holds: NewHold[] = [];
  for (const { hold } of all) {
    const wallet = wallets.get(hold.accountId);
    const keySpend = keySpends.get(hold.keyId)?.keySpend;
    if (wallet === undefined || keySpend === undefined)
      throw new Error(`hold ${hold.id} has no wallet or no key`);
    const amount = capToAvailable(hold.amount, wallet);
    wallet.held += amount;
    keySpend.held += amount;
    keySpend.openCalls += 1;
    keySpend.theoreticalArrivalAt =
      buffer.callsByKey.get(hold.keyId)?.theoreticalArrivalAt ?? keySpend.theoreticalArrivalAt;
    if (hold.sessionId !== undefined) addToSession(buffer, sessions, hold, amount);
    holds.push({ ...hold, amount });
  }
  await writeSessions(tx, sessions.values());
  await updateWallets(tx, wallets);
  await updateKeySpends(tx, keySpends.values());
  await insertHolds(tx, holds);
}

function addToSession(
  buffer: HoldBuffer,
  sessions: Map<string, AccountSession>,
  { accountId, keyId, createdAt, sessionId: id = "" }: NewHold,
  amount: Nano,
): void {
  const key = sessionKey(accountId, id);
  const buffered = buffer.sessions.get(key);
  const found = sessions.get(key);
  const session = found?.session ?? {
    ...newSession(buffered?.keyId ?? keyId, buffered?.createdAt ?? createdAt),
  };
  session.held += amount;
  if (buffered !== undefined) {
    session.limit = buffered.limit;
    session.lastCallAt = buffered.lastCallAt;
  }
  if (found === undefined) sessions.set(key, { accountId, id, session });
}

// Another process, such as an operator's command, may have spent credit that a buffered hold reserved. The hold is
// lowered to what is left; the rest of its call's cost becomes an overrun.
function capToAvailable(amount: Nano, { promo, paid, held }: Wallet): Nano {
  const free = promo + paid - held;
  if (free >= amount) return amount;
  return maxNano(free, 0n);
}
