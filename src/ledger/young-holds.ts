// Holds that are too young to be written. A SQLite store serves one process, and a call does not outlive the process that
// makes it: so its hold is known to memory alone until it is a second old, and most short calls are over by then. Whoever else
// reads or writes through this store finds every hold in its table, because the young are written before.

import type { Nano } from "../base/money.ts";
import { remembered } from "../base/remembered.ts";
import { type Db, text, type Tx } from "../store/db.ts";
import {
  decideHold,
  type HoldOutcome,
  type HoldRequest,
  type SettleOutcome,
  type Wallet,
} from "./decide.ts";
import { createKnownRows, type KnownRows } from "./known-rows.ts";
import {
  insertHolds,
  type KeptSpender,
  type KeptWallet,
  type NewHold,
  toSpender,
  toWallet,
  updateSpenders,
  updateWallets,
} from "./rows.ts";

const YOUNG_MS = 1_000;
/** So many are written in one go, which takes some milliseconds. */
const WRITTEN_MAX = 500;
/** More than are ever asked for at once, and few enough to be written for whoever reads. */
const YOUNG_MAX = 4_000;

/** The functions of this file alone change it, but for the known rows, which a batch adds to and changes. */
export interface YoungHolds {
  /** In the order in which they came. */
  readonly holds: Map<string, Aged>;
  /** What they hold of each wallet. */
  readonly wallets: Map<string, Nano>;
  readonly spenders: Map<string, YoungCalls>;
  /** Those that grew old, were written, and are not settled yet. */
  readonly written: Set<string>;
  /** The rows as they were last committed, with what is held of them in memory. */
  readonly known: KnownRows;
}

interface YoungCalls {
  readonly held: Nano;
  readonly openCalls: number;
  readonly pacedUntil: number;
}

/** What a batch has made of young holds. */
interface Kept {
  readonly born: ReadonlyMap<string, NewHold>;
  /** Settled while they were young. */
  readonly gone: readonly string[];
  /** Settled after they had been written. */
  readonly goneWritten: readonly string[];
  readonly wallets: ReadonlyMap<string, KeptWallet>;
  readonly spenders: ReadonlyMap<string, KeptSpender>;
}

/** What came of a batch. */
export interface Applied {
  /** One for each operation, in their order. */
  readonly outcomes: readonly (HoldOutcome | SettleOutcome)[];
  readonly kept: Kept;
}

/** A store through which every hold is seen, with the ways for a ledger that need not see them in their table. */
export interface HoldingDb extends Db {
  /** Runs a batch of the ledger, and keeps what it has made of young holds as soon as it is committed. */
  readonly writeBatch: WriteBatch;
  readonly holdNow: HoldNow;
}

export type WriteBatch = (
  work: (tx: Tx, young: YoungHolds) => Promise<Applied>,
) => Promise<Applied>;

/** Decides a hold at once, where everything that it rests on is known; undefined where a batch must find it out. */
export type HoldNow = (
  request: HoldRequest,
  holder: Pick<NewHold, "process" | "epoch">,
) => HoldOutcome | undefined;

interface Aged {
  readonly hold: NewHold;
  /** By a clock that nobody sets. */
  readonly bornMs: number;
}

export function keepYoungHolds(db: Db, youngMs = YOUNG_MS): HoldingDb {
  const young: YoungHolds = {
    holds: new Map(),
    wallets: new Map(),
    spenders: new Map(),
    written: new Set(),
    known: createKnownRows(db.version),
  };
  const turns = createTurns();
  // As little as 0014 asks for a hold: what a machine that loses its power takes with it, it takes with its call.
  const writeHolds = async (holds: readonly Aged[]): Promise<number> => {
    if (holds.length === 0) return 0;
    await db.write((tx) => insertYoung(tx, young, holds), "while the machine runs");
    forget(young, holds);
    return holds.length;
  };
  const watch = createWatch(young, youngMs, () =>
    turns.take(() => writeHolds(oldest(young, performance.now() - youngMs))),
  );
  const writeAll = (): Promise<number> => turns.take(() => writeHolds([...young.holds.values()]));
  const show = async (sql: string): Promise<void> => {
    if (young.holds.size > 0 && concernsHolds(sql)) await writeAll();
  };
  return {
    ...db,
    all: (sql, params) => show(sql).then(() => db.all(sql, params)),
    get: (sql, params) => show(sql).then(() => db.get(sql, params)),
    snapshot: (work) => writeAll().then(() => db.snapshot(work)),
    write: (work, lasting) =>
      turns.take(async () => {
        const holds = [...young.holds.values()];
        const answer = await db.write(async (tx) => {
          if (holds.length > 0) await insertYoung(tx, young, holds);
          return work(tx);
        }, lasting);
        forget(young, holds);
        return answer;
      }),
    writeBatch: (work) =>
      turns.take(async () => {
        if (young.holds.size >= YOUNG_MAX) await writeHolds(oldest(young, Infinity));
        try {
          const applied = await db.write((tx) => {
            young.known.look();
            return work(tx, young);
          });
          keep(young, applied.kept);
          watch.begin();
          return applied;
        } catch (error) {
          // What is known was changed for a commit that has not come about.
          young.known.clear();
          throw error;
        }
      }),
    holdNow: (request, holder) => {
      if (turns.taken() || young.holds.size >= YOUNG_MAX) return undefined;
      const outcome = holdAtOnce(young, request, holder);
      watch.begin();
      return outcome;
    },
    close: async () => {
      watch.stop();
      await turns.over();
      await db.close();
    },
  };
}

function holdAtOnce(
  young: YoungHolds,
  request: HoldRequest,
  holder: Pick<NewHold, "process" | "epoch">,
): HoldOutcome | undefined {
  const { id, accountId, keyId } = request;
  young.known.lookThisTurn();
  const { wallets, spenders, keys } = young.known;
  const wallet = wallets.get(accountId);
  const spender = spenders.get(keyId);
  const key = keys.get(keyId);
  if (wallet === undefined || spender === undefined || key === undefined) return undefined;
  // What is asked for again was answered already, and only a batch knows what.
  if (young.holds.has(id) || young.written.has(id)) return undefined;
  const outcome = decideHold(request, wallet, spender, key);
  if (outcome.status !== "held") return outcome;
  addYoung(wallet, spender, outcome.amount, 1);
  const hold = newHold(request, outcome.amount, holder);
  young.holds.set(id, { hold, bornMs: performance.now() });
  keepSums(young, accountId, wallet);
  keepCalls(young, keyId, spender);
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
export function addYoung(
  wallet: KeptWallet,
  spender: KeptSpender,
  amount: Nano,
  calls: number,
): void {
  wallet.young = (wallet.young ?? 0n) + amount;
  spender.young = {
    held: (spender.young?.held ?? 0n) + amount,
    openCalls: (spender.young?.openCalls ?? 0) + calls,
  };
}

interface Turns {
  readonly take: <T>(work: () => Promise<T>) => Promise<T>;
  /** Whether anything is written now, or waits to be. */
  readonly taken: () => boolean;
  readonly over: () => Promise<unknown>;
}

// What a transaction has made of the young holds is kept before the next one begins.
function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  let open = 0;
  return {
    take: (work) => {
      open += 1;
      const turn = last.then(work).finally(() => {
        open -= 1;
      });
      last = turn.catch(() => {});
      return turn;
    },
    taken: () => open > 0,
    over: () => last,
  };
}

interface Watch {
  readonly begin: () => void;
  readonly stop: () => void;
}

/** Has the old ones written, as long as there are any that will be old. */
function createWatch(young: YoungHolds, youngMs: number, writeOld: () => Promise<number>): Watch {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  const begin = (pauseMs = 0): void => {
    if (timer !== undefined || isStopped) return;
    const [first] = young.holds.values();
    if (first === undefined) return;
    const dueMs = first.bornMs + youngMs - performance.now();
    timer = setTimeout(
      () => {
        timer = undefined;
        // Those that follow are waited for, so that many share a commit. A store that cannot be used now is asked again
        // after a while, and nothing is lost by it.
        writeOld().then(
          (written) => begin(written === WRITTEN_MAX ? 0 : youngMs / 4),
          () => begin(youngMs),
        );
      },
      Math.max(pauseMs, dueMs),
    );
    timer.unref();
  };
  return {
    begin: () => begin(),
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

const concernsHolds = remembered((sql: string) => /\b(hold|wallet|spender)\b/.test(sql), 1_000);

function oldest(young: YoungHolds, bornBeforeMs: number): readonly Aged[] {
  const found: Aged[] = [];
  for (const one of young.holds.values()) {
    if (one.bornMs > bornBeforeMs || found.length === WRITTEN_MAX) break;
    found.push(one);
  }
  return found;
}

/** A wallet as it is with what is held of it in memory. */
export function withYoung(young: Nano | undefined, wallet: KeptWallet): KeptWallet {
  if (young === undefined) return wallet;
  wallet.young = young;
  wallet.held += young;
  return wallet;
}

export function withYoungCalls(young: YoungCalls | undefined, spender: KeptSpender): KeptSpender {
  if (young === undefined) return spender;
  const { held, openCalls, pacedUntil } = young;
  spender.young = { held, openCalls };
  spender.held += held;
  spender.openCalls += openCalls;
  // The younger of the two, also where a clock that was set back made it the earlier one.
  spender.pacedUntil = pacedUntil;
  return spender;
}

function keep(young: YoungHolds, { born, gone, goneWritten, wallets, spenders }: Kept): void {
  const bornMs = performance.now();
  for (const id of gone) young.holds.delete(id);
  for (const hold of born.values()) young.holds.set(hold.id, { hold, bornMs });
  for (const id of goneWritten) young.written.delete(id);
  for (const [id, wallet] of wallets) keepSums(young, id, wallet);
  for (const [id, spender] of spenders) keepCalls(young, id, spender);
}

function keepSums(young: YoungHolds, id: string, { young: held = 0n }: KeptWallet): void {
  if (held === 0n) young.wallets.delete(id);
  else young.wallets.set(id, held);
}

function keepCalls(young: YoungHolds, id: string, { young: calls, pacedUntil }: KeptSpender): void {
  if (calls === undefined || calls.openCalls === 0) young.spenders.delete(id);
  else young.spenders.set(id, { ...calls, pacedUntil });
}

/** What was written is not young any more, and whatever else was written may be what a hold rests on. */
function forget(young: YoungHolds, written: readonly Aged[]): void {
  young.known.clear();
  for (const { hold } of written) {
    const { id, accountId, keyId, amount } = hold;
    young.holds.delete(id);
    young.written.add(id);
    const held = (young.wallets.get(accountId) ?? 0n) - amount;
    if (held > 0n) young.wallets.set(accountId, held);
    else young.wallets.delete(accountId);
    const calls = young.spenders.get(keyId);
    if (calls === undefined) continue;
    if (calls.openCalls === 1) young.spenders.delete(keyId);
    else
      young.spenders.set(keyId, {
        ...calls,
        held: calls.held - amount,
        openCalls: calls.openCalls - 1,
      });
  }
}

async function insertYoung(tx: Tx, young: YoungHolds, all: readonly Aged[]): Promise<void> {
  const accountIds = new Set(all.map(({ hold }) => hold.accountId));
  const keyIds = new Set(all.map(({ hold }) => hold.keyId));
  const walletRows = await tx.lockMany("wallet", "account_id", [...accountIds]);
  const spenderRows = await tx.lockMany("spender", "key_id", [...keyIds]);
  const wallets = new Map(walletRows.map((row) => [text(row, "account_id"), toWallet(row)]));
  const spenders = new Map(spenderRows.map((row) => [text(row, "key_id"), toSpender(row)]));
  const holds: NewHold[] = [];
  for (const { hold } of all) {
    const wallet = wallets.get(hold.accountId);
    const spender = spenders.get(hold.keyId);
    if (wallet === undefined || spender === undefined)
      throw new Error(`hold ${hold.id} has no wallet or no key`);
    const amount = whatIsThere(hold.amount, wallet);
    wallet.held += amount;
    spender.held += amount;
    spender.openCalls += 1;
    spender.pacedUntil = young.spenders.get(hold.keyId)?.pacedUntil ?? spender.pacedUntil;
    holds.push({ ...hold, amount });
  }
  await updateWallets(tx, wallets);
  await updateSpenders(tx, spenders);
  await insertHolds(tx, holds);
}

// Another process, such as an operator's command, may have taken credit that a young hold counted on. Its call is charged
// for no more than is there, and the rest is the house's.
function whatIsThere(amount: Nano, { promo, paid, held }: Wallet): Nano {
  const free = promo + paid - held;
  if (free >= amount) return amount;
  return free > 0n ? free : 0n;
}
