// The only place where money moves. It owns the tables wallet, spender, hold, swept_hold, transfer and process.
// A transfer is the only record of money and is never changed; a wallet is the sum of its transfers, and
// `held <= promo + paid` holds at every commit. It knows nothing of models, tokens or HTTP.

import { Fault } from "../base/fault.ts";
import { MAX_NANO, type Nano, usdText } from "../base/money.ts";
import {
  type Db,
  setShortLockTimeout,
  isDuplicate,
  type Durability,
  type Reader,
  type Tx,
  integer,
} from "../store/db.ts";
import { applyBatch, type Operation } from "./commit/batch.ts";
import type { HoldOutcome, HoldRequest, SettleOutcome, SettleRequest, Wallet } from "./decide.ts";
import { createGroupCommit } from "./commit/group-commit.ts";
import type { OnBudgetThresholds, OnBalanceThresholds } from "./balance-thresholds.ts";
import { type Bucket, bucketAccount, insertTransfers, SYSTEM_ACCOUNTS, toWallet } from "./rows.ts";
import type { BufferedDb } from "./commit/hold-buffer.ts";

export interface Ledger<Record> {
  readonly hold: (request: HoldRequest) => Promise<HoldOutcome>;
  /** The same at once, where nothing need be read for it; undefined where it must be waited for. */
  readonly tryHoldSync: (request: HoldRequest) => HoldOutcome | undefined;
  readonly settle: (request: SettleRequest<Record>) => Promise<SettleOutcome>;
  /** How many operations wait for their commit. */
  readonly queueDepth: () => number;
  /** Resolves when everything that was asked for is committed or refused. */
  readonly idle: () => Promise<void>;
}

export interface LedgerDeps<Record> {
  readonly db: Db;
  /** Where holds that are young stand in no table; without it, each is written as it is made. */
  readonly holdBuffer?: Pick<BufferedDb, "writeBatch" | "tryHoldSync"> | undefined;
  readonly process: string;
  readonly epoch: number;
  readonly writeRecords: (tx: Tx, records: readonly Record[]) => Promise<void>;
  /** Told, in the same transaction, of balances that fell below a mark. */
  readonly onBalanceThresholds?: OnBalanceThresholds;
  /** Told, in the same transaction, of budgets that were reached by half, four fifths, or whole. */
  readonly onBudgetThresholds?: OnBudgetThresholds;
}

export function createLedger<Record>({
  db,
  holdBuffer,
  process,
  epoch,
  writeRecords,
  onBalanceThresholds,
  onBudgetThresholds,
}: LedgerDeps<Record>): Ledger<Record> {
  const context = { process, epoch, writeRecords, onBalanceThresholds, onBudgetThresholds };
  const group = createGroupCommit<Operation<Record>, HoldOutcome | SettleOutcome>(
    async (operations, hasShortLockTimeout) => {
      const { outcomes } =
        holdBuffer === undefined
          ? await db.write(async (tx) => {
              if (hasShortLockTimeout) await setShortLockTimeout(tx);
              return applyBatch(tx, operations, context);
            }, durabilityOf(operations))
          : await holdBuffer.writeBatch((tx, buffer) =>
              applyBatch(tx, operations, context, buffer),
            );
      return outcomes;
    },
    undefined,
    {
      // Young holds are of one process with its store, where no reply is lost on the way.
      compensationFor: (operation) =>
        holdBuffer === undefined ? compensationFor(operation) : undefined,
      lockKeyOf: ({ request }) => request.accountId,
    },
  );
  return {
    // Not `async`: every call waits here twice, and each promise has its price.
    hold: (request) => {
      if (isNegative(request))
        return Promise.reject(new Error(`hold ${request.id} is for less than nothing`));
      // Safe because a batch answers each operation by its kind.
      return group.submit({ kind: "hold", request }, "new") as Promise<HoldOutcome>;
    },
    // Whether a store can be used again is found out by whoever must write.
    tryHoldSync: (request) =>
      isNegative(request) || group.isFailing()
        ? undefined
        : holdBuffer?.tryHoldSync(request, context),
    settle: (request) => {
      if (request.cost < 0n || request.cost > MAX_NANO)
        return Promise.reject(
          new Error(`settle ${request.id} has an impossible cost: ${request.cost}`),
        );
      // Safe because a batch answers each operation by its kind.
      return group.submit({ kind: "settle", request }, "owed") as Promise<SettleOutcome>;
    },
    queueDepth: group.queueDepth,
    idle: group.idle,
  };
}

function compensationFor<Record>({
  kind,
  request,
}: Operation<Record>): Operation<Record> | undefined {
  if (kind !== "hold") return undefined;
  const { id, accountId, keyId, now } = request;
  return { kind: "settle", request: { id, accountId, keyId, cost: 0n, now } };
}

function isNegative({ amount, minimum = 0n }: HoldRequest): boolean {
  return amount < 0n || minimum < 0n;
}

// A machine that loses its power takes the calls with it that were held for, and nobody has been told their end: without
// its hold such a call has never been, just as if it had been given back at the start. What is settled must be on the disk.
function durabilityOf(operations: readonly { readonly kind: "hold" | "settle" }[]): Durability {
  return operations.some(({ kind }) => kind === "settle") ? "disk" : "os_cache";
}

export async function openWallet(tx: Tx, accountId: string): Promise<void> {
  await tx.run("insert into wallet (account_id, promo, paid, held) values (?, 0, 0, 0)", [
    accountId,
  ]);
}

export async function getWallet(db: Reader, accountId: string): Promise<Wallet> {
  const row = await db.get("select promo, paid, held, owed from wallet where account_id = ?", [
    accountId,
  ]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toWallet(row);
}

export interface Deposit {
  /** The transfer's own id: the same deposit twice is one deposit. */
  readonly id: string;
  readonly accountId: string;
  readonly bucket: Bucket;
  readonly from: string;
  readonly amount: Nano;
  readonly kind: string;
  readonly ref: string;
  readonly now: number;
  readonly memo?: string;
}

/** Moves money into a wallet; answers false where this very transfer was made before. */
export async function deposit(tx: Tx, request: Deposit): Promise<boolean> {
  if (request.amount <= 0n) throw new Error("a deposit is above zero");
  const [row] = await tx.lockMany("wallet", "account_id", [request.accountId]);
  if (row === undefined)
    throw new Fault("not_found", `no wallet of ${request.accountId}`, {
      message: "There is no such account.",
    });
  const existing = await tx.get("select id from transfer where account_id = ? and id = ?", [
    request.accountId,
    request.id,
  ]);
  if (existing !== undefined) return false;
  const wallet = toWallet(row);
  if (wallet.promo + wallet.paid + request.amount > MAX_NANO) {
    throw new Fault("invalid_request", `deposit of ${request.amount} passes the limit`, {
      message: `A balance cannot pass ${usdText(MAX_NANO)} USD.`,
    });
  }
  const { id, accountId, from, amount, kind, ref, now, memo } = request;
  const to = bucketAccount(accountId, request.bucket);
  await insertTransfers(tx, [
    {
      id,
      accountId,
      from,
      to,
      amount,
      kind,
      ref,
      at: now,
      ...(memo === undefined ? {} : { memo }),
    },
  ]);
  await tx.run(`update wallet set ${request.bucket} = ? where account_id = ?`, [
    wallet[request.bucket] + amount,
    accountId,
  ]);
  return true;
}

export interface Grant {
  readonly id: string;
  readonly accountId: string;
  readonly amount: Nano;
  readonly now: number;
  readonly reason: string;
}

/** A gift of the house: promo credit, spent first, not refundable. */
export function grant(tx: Tx, request: Grant): Promise<boolean> {
  const { id, accountId, amount, now, reason } = request;
  return deposit(tx, {
    id,
    accountId,
    bucket: "promo",
    from: SYSTEM_ACCOUNTS.promoExpense,
    amount,
    kind: "grant",
    ref: reason,
    now,
    memo: reason,
  });
}

/** Registers a process under its name and answers its epoch: one above that of any process that bore the name before. */
export async function startEpoch(db: Db, name: string, now: number): Promise<number> {
  for (;;) {
    try {
      return await db.write(async (tx) => {
        const [row] = await tx.lockMany("process", "name", [name]);
        if (row === undefined) {
          await tx.run(
            "insert into process (name, epoch, started_at, seen_at) values (?, 1, ?, ?)",
            [name, now, now],
          );
          return 1;
        }
        const epoch = integer(row, "epoch") + 1;
        await tx.run("update process set epoch = ?, started_at = ?, seen_at = ? where name = ?", [
          epoch,
          now,
          now,
          name,
        ]);
        return epoch;
      });
    } catch (error) {
      if (!isDuplicate(error)) throw error;
    }
  }
}

/** Says that this process lives; false when another process has taken its name, or none knows it any more. */
export async function heartbeat(
  db: Db,
  name: string,
  epoch: number,
  now: number,
): Promise<boolean> {
  const seen = await db.write((tx) =>
    tx.run("update process set seen_at = ? where name = ? and epoch = ?", [now, name, epoch]),
  );
  return seen === 1;
}
