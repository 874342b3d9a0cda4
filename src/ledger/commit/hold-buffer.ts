// Holds that are too young to be written. A SQLite store serves one process, and a call does not outlive the process that
// makes it: so its hold is known to memory alone until it is a second old, and most short calls are over by then. Whoever else
// reads or writes through this store finds every hold in its table, because the young are written before.

import { type Nano, maxNano } from "../../base/money.ts";
import { memoize } from "../../base/memoize.ts";
import { type Db, text, type Tx } from "../../store/db.ts";
import {
  decideHold,
  type HoldOutcome,
  type HoldRequest,
  type SettleOutcome,
  type Wallet,
} from "../decide.ts";
import { createRowCache, type RowCache } from "./row-cache.ts";
import {
  insertHolds,
  type BufferedKeySpend,
  type BufferedWallet,
  type NewHold,
  toKeySpend,
  toWallet,
  updateKeySpends,
  updateWallets,
} from "../rows.ts";

const FLUSH_AFTER_MS = 1_000;
/** So many are written in one go, which takes some milliseconds. */
const FLUSH_BATCH_MAX = 500;
/** More than are ever asked for at once, and few enough to be written for whoever reads. */
const BUFFER_MAX = 4_000;

/** The functions of this file alone change it, but for the known rows, which a batch adds to and changes. */
export interface HoldBuffer {
  /** In the order in which they came. */
  readonly holds: Map<string, BufferedHold>;
  /** What they hold of each wallet. */
  readonly heldByWallet: Map<string, Nano>;
  readonly callsByKey: Map<string, BufferedCalls>;
  /** Those that grew old, were written, and are not settled yet. */
  readonly flushed: Set<string>;
  /** The rows as they were last committed, with what is held of them in memory. */
  readonly rowCache: RowCache;
}

interface BufferedCalls {
  readonly held: Nano;
  readonly openCalls: number;
  readonly theoreticalArrivalAt: number;
}

/** What a batch has made of young holds. */
interface BufferChanges {
  readonly added: ReadonlyMap<string, NewHold>;
  /** Settled while they were young. */
  readonly settled: readonly string[];
  /** Settled after they had been written. */
  readonly settledFlushed: readonly string[];
  readonly wallets: ReadonlyMap<string, BufferedWallet>;
  readonly keySpends: ReadonlyMap<string, BufferedKeySpend>;
}

/** What came of a batch. */
export interface AppliedBatch {
  /** One for each operation, in their order. */
  readonly outcomes: readonly (HoldOutcome | SettleOutcome)[];
  readonly bufferChanges: BufferChanges;
}

/** A store through which every hold is seen, with the ways for a ledger that need not see them in their table. */
export interface BufferedDb extends Db {
  /** Runs a batch of the ledger, and keeps what it has made of young holds as soon as it is committed. */
  readonly writeBatch: WriteBatch;
  readonly tryHoldSync: TryHoldSync;
}

export type WriteBatch = (
  work: (tx: Tx, buffer: HoldBuffer) => Promise<AppliedBatch>,
) => Promise<AppliedBatch>;

/** Decides a hold at once, where everything that it rests on is known; undefined where a batch must find it out. */
export type TryHoldSync = (
  request: HoldRequest,
  process: Pick<NewHold, "process" | "epoch">,
) => HoldOutcome | undefined;

interface BufferedHold {
  readonly hold: NewHold;
  /** By a clock that nobody sets. */
  readonly bufferedAtMs: number;
}

export function bufferHolds(db: Db, flushAfterMs = FLUSH_AFTER_MS): BufferedDb {
  const buffer: HoldBuffer = {
    holds: new Map(),
    heldByWallet: new Map(),
    callsByKey: new Map(),
    flushed: new Set(),
    rowCache: createRowCache(db.dataVersion),
  };
  const writeQueue = createSerialQueue();
  // As little as 0014 asks for a hold: what a machine that loses its power takes with it, it takes with its call.
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
    if (buffer.holds.size > 0 && touchesHoldTables(sql)) await flushAll();
  };
  return {
    ...db,
    all: (sql, params) => flushIfConcerned(sql).then(() => db.all(sql, params)),
    get: (sql, params) => flushIfConcerned(sql).then(() => db.get(sql, params)),
    snapshot: (work) => flushAll().then(() => db.snapshot(work)),
    write: (work, durability) =>
      writeQueue.run(async () => {
        const holds = [...buffer.holds.values()];
        const result = await db.write(async (tx) => {
          if (holds.length > 0) await insertBufferedHolds(tx, buffer, holds);
          return work(tx);
        }, durability);
        removeFlushed(buffer, holds);
        return result;
      }),
    writeBatch: (work) =>
      writeQueue.run(async () => {
        if (buffer.holds.size >= BUFFER_MAX) await flush(bufferedBefore(buffer, Infinity));
        try {
          const batch = await db.write((tx) => {
            buffer.rowCache.revalidate();
            return work(tx, buffer);
          });
          applyBufferChanges(buffer, batch.bufferChanges);
          flushTimer.start();
          return batch;
        } catch (error) {
          // What is known was changed for a commit that has not come about.
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
  // What is asked for again was answered already, and only a batch knows what.
  if (buffer.holds.has(id) || buffer.flushed.has(id)) return undefined;
  const outcome = decideHold(request, wallet, keySpend, key);
  if (outcome.status !== "held") return outcome;
  addBufferedHold(wallet, keySpend, outcome.amount, 1);
  const hold = newHold(request, outcome.amount, process);
  buffer.holds.set(id, { hold, bufferedAtMs: performance.now() });
  setHeldByWallet(buffer, accountId, wallet);
  setCallsByKey(buffer, keyId, keySpend);
  return outcome;
}

export function newHold(
  { id, accountId, keyId, now, expiresAt }: HoldRequest,
  amount: Nano,
  { process, epoch }: Pick<NewHold, "process" | "epoch">,
): NewHold {
  return { id, accountId, keyId, amount, process, epoch, createdAt: now, expiresAt };
}

/** Counts a hold among the young ones, or takes it out with the signs turned. */
export function addBufferedHold(
  wallet: BufferedWallet,
  keySpend: BufferedKeySpend,
  amount: Nano,
  calls: number,
): void {
  wallet.bufferedHeld = (wallet.bufferedHeld ?? 0n) + amount;
  keySpend.buffered = {
    held: (keySpend.buffered?.held ?? 0n) + amount,
    openCalls: (keySpend.buffered?.openCalls ?? 0) + calls,
  };
}

interface SerialQueue {
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
  /** Whether anything is written now, or waits to be. */
  readonly isBusy: () => boolean;
  readonly drained: () => Promise<unknown>;
}

// What a transaction has made of the young holds is kept before the next one begins.
function createSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  let pending = 0;
  return {
    run: (work) => {
      pending += 1;
      const result = last.then(work).finally(() => {
        pending -= 1;
      });
      last = result.catch(() => {});
      return result;
    },
    isBusy: () => pending > 0,
    drained: () => last,
  };
}

interface FlushTimer {
  readonly start: () => void;
  readonly stop: () => void;
}

/** Has the old ones written, as long as there are any that will be old. */
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
        // Those that follow are waited for, so that many share a commit. A store that cannot be used now is asked again
        // after a while, and nothing is lost by it.
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

const touchesHoldTables = memoize((sql: string) => /\b(hold|wallet|spender)\b/.test(sql), 1_000);

function bufferedBefore(buffer: HoldBuffer, beforeMs: number): readonly BufferedHold[] {
  const found: BufferedHold[] = [];
  for (const one of buffer.holds.values()) {
    if (one.bufferedAtMs > beforeMs || found.length === FLUSH_BATCH_MAX) break;
    found.push(one);
  }
  return found;
}

/** A wallet as it is with what is held of it in memory. */
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
  // The younger of the two, also where a clock that was set back made it the earlier one.
  keySpend.theoreticalArrivalAt = theoreticalArrivalAt;
  return keySpend;
}

function applyBufferChanges(
  buffer: HoldBuffer,
  { added, settled, settledFlushed, wallets, keySpends }: BufferChanges,
): void {
  const bufferedAtMs = performance.now();
  for (const id of settled) buffer.holds.delete(id);
  for (const hold of added.values()) buffer.holds.set(hold.id, { hold, bufferedAtMs });
  for (const id of settledFlushed) buffer.flushed.delete(id);
  for (const [id, wallet] of wallets) setHeldByWallet(buffer, id, wallet);
  for (const [id, keySpend] of keySpends) setCallsByKey(buffer, id, keySpend);
}

function setHeldByWallet(
  young: HoldBuffer,
  id: string,
  { bufferedHeld: held = 0n }: BufferedWallet,
): void {
  if (held === 0n) young.heldByWallet.delete(id);
  else young.heldByWallet.set(id, held);
}

function setCallsByKey(
  young: HoldBuffer,
  id: string,
  { buffered: calls, theoreticalArrivalAt }: BufferedKeySpend,
): void {
  if (calls === undefined || calls.openCalls === 0) young.callsByKey.delete(id);
  else young.callsByKey.set(id, { ...calls, theoreticalArrivalAt });
}

/** What was written is not young any more, and whatever else was written may be what a hold rests on. */
function removeFlushed(buffer: HoldBuffer, flushed: readonly BufferedHold[]): void {
  buffer.rowCache.clear();
  for (const { hold } of flushed) {
    const { id, accountId, keyId, amount } = hold;
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

async function insertBufferedHolds(
  tx: Tx,
  buffer: HoldBuffer,
  all: readonly BufferedHold[],
): Promise<void> {
  const accountIds = new Set(all.map(({ hold }) => hold.accountId));
  const keyIds = new Set(all.map(({ hold }) => hold.keyId));
  const walletRows = await tx.lockMany("wallet", "account_id", [...accountIds]);
  const keySpendRows = await tx.lockMany("spender", "key_id", [...keyIds]);
  const wallets = new Map(walletRows.map((row) => [text(row, "account_id"), toWallet(row)]));
  const keySpends = new Map(keySpendRows.map((row) => [text(row, "key_id"), toKeySpend(row)]));
  const holds: NewHold[] = [];
  for (const { hold } of all) {
    const wallet = wallets.get(hold.accountId);
    const keySpend = keySpends.get(hold.keyId);
    if (wallet === undefined || keySpend === undefined)
      throw new Error(`hold ${hold.id} has no wallet or no key`);
    const amount = capToAvailable(hold.amount, wallet);
    wallet.held += amount;
    keySpend.held += amount;
    keySpend.openCalls += 1;
    keySpend.theoreticalArrivalAt =
      buffer.callsByKey.get(hold.keyId)?.theoreticalArrivalAt ?? keySpend.theoreticalArrivalAt;
    holds.push({ ...hold, amount });
  }
  await updateWallets(tx, wallets);
  await updateKeySpends(tx, keySpends);
  await insertHolds(tx, holds);
}

// Another process, such as an operator's command, may have taken credit that a young hold counted on. Its call is charged
// for no more than is there, and the rest is the house's.
function capToAvailable(amount: Nano, { promo, paid, held }: Wallet): Nano {
  const free = promo + paid - held;
  if (free >= amount) return amount;
  return maxNano(free, 0n);
}
