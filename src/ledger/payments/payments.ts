// Posts payments and returns (refunds, disputes) of purchased credit. Every amount passes through the processor's
// clearing account, so that the processor's statements can be reconciled to the cent.

import { type Nano, MAX_NANO, maxNano, minNano, toNano } from "../../base/money/money.ts";
import { readAllAccounts } from "../../store/all-accounts.ts";
import { type Reader, type Row, text, type Tx } from "../../store/db.ts";
import {
  type ThresholdCrossing,
  balanceThresholdsOf,
  collectCrossings,
} from "../balance-thresholds.ts";
import type { Wallet } from "../decide.ts";
import {
  bucketAccount,
  insertTransfers,
  SYSTEM_ACCOUNTS,
  toWallet,
  type Transfer,
} from "../ledger-rows.ts";
import { emitBalanceEvents } from "../threshold-events.ts";
import { operatorShare, type Reversal } from "./reversals.ts";

/** The parts of a payment. */
export interface PaymentAmounts {
  readonly credit: Nano;
  readonly fee: Nano;
  readonly tax: Nano;
  /** Received money that bought nothing, such as a wrong amount. */
  readonly suspense: Nano;
  /** Returned beyond the payment: the operator's loss. */
  readonly excess: Nano;
}

export interface PaymentMovement {
  /** Prefix of its transfer ids: the store rejects a duplicate. */
  readonly id: string;
  readonly accountId: string;
  readonly processor: string;
  readonly amounts: PaymentAmounts;
  readonly kind:
    | "purchase"
    | "refund"
    | "refund_failed"
    | "dispute"
    | "dispute_closed"
    /** For a call that a wallet pays after it ran: its ceiling, the rest of it, the fee, and what could not be settled. */
    | "authorization"
    | "release"
    | "capture"
    | "loss"
    | "recovery";
  /** The return that it reverses. It first repays the operator's loss from that return. */
  readonly reverses?: Reversal;
  /** The id of the payment. */
  readonly ref: string;
  readonly now: number;
}

function clearingAccount(processor: string): string {
  return `system:clearing:${processor}`;
}

export async function fitsBalanceLimit(tx: Tx, accountId: string, credit: Nano): Promise<boolean> {
  const wallet = await lockWallet(tx, accountId);
  return wallet.promo + wallet.paid + credit <= MAX_NANO;
}

/**
 * Posts a payment, or a return that was reversed. The amount first repays the operator's loss, then the account's debt;
 * the rest becomes credit.
 */
export async function postPayment(tx: Tx, movement: PaymentMovement): Promise<void> {
  const wallet = await lockWallet(tx, movement.accountId);
  const { credit, fee, tax, suspense, excess } = movement.amounts;
  const clearing = clearingAccount(movement.processor);
  const { absorbed, writtenOff } = await operatorShare(tx, movement, wallet.writtenOff);
  const owed = minNano(credit - absorbed - writtenOff, wallet.owed ?? 0n);
  const credited = credit - absorbed - writtenOff - owed;
  const postings: readonly Posting[] = [
    ["borne", clearing, SYSTEM_ACCOUNTS.refundExpense, absorbed],
    ["written_off", clearing, SYSTEM_ACCOUNTS.refundExpense, writtenOff],
    ["debt", clearing, SYSTEM_ACCOUNTS.receivable, owed],
    ["credit", clearing, bucketAccount(movement.accountId, "paid"), credited],
    ["fee", clearing, SYSTEM_ACCOUNTS.feeRevenue, fee],
    ["tax", clearing, SYSTEM_ACCOUNTS.taxPayable, tax],
    ["suspense", clearing, SYSTEM_ACCOUNTS.suspense, suspense],
    ["beyond", clearing, SYSTEM_ACCOUNTS.refundExpense, excess],
  ];
  await insertPostings(tx, movement, postings);
  await updateWalletTotals(tx, movement.accountId, {
    paid: wallet.paid + credited,
    owed: (wallet.owed ?? 0n) - owed,
    writtenOff: wallet.writtenOff - writtenOff,
  });
}

/**
 * Posts a refund or dispute. Takes credit that is neither spent nor held by open calls; what is missing is the
 * operator's loss after a refund, and the account's debt after a dispute.
 */
export async function postReturn(tx: Tx, movement: PaymentMovement): Promise<void> {
  const wallet = await lockWallet(tx, movement.accountId);
  const { credit, fee, tax, suspense, excess } = movement.amounts;
  const clearing = clearingAccount(movement.processor);
  const taken = minNano(credit, refundableOf(wallet));
  const missing = credit - taken;
  const isDebt = movement.kind === "dispute";
  const postings: readonly Posting[] = [
    ["credit", bucketAccount(movement.accountId, "paid"), clearing, taken],
    [
      "missing",
      isDebt ? SYSTEM_ACCOUNTS.receivable : SYSTEM_ACCOUNTS.refundExpense,
      clearing,
      missing,
    ],
    ["fee", SYSTEM_ACCOUNTS.feeRevenue, clearing, fee],
    ["tax", SYSTEM_ACCOUNTS.taxPayable, clearing, tax],
    ["suspense", SYSTEM_ACCOUNTS.suspense, clearing, suspense],
    ["beyond", SYSTEM_ACCOUNTS.refundExpense, clearing, excess],
  ];
  await insertPostings(tx, movement, postings);
  await updateWalletTotals(tx, movement.accountId, {
    paid: wallet.paid - taken,
    owed: (wallet.owed ?? 0n) + (isDebt ? missing : 0n),
    writtenOff: wallet.writtenOff,
  });
  // A refund or a dispute must not trigger an automatic top-up.
  await emitBalanceEvents(tx, crossingsOf(movement, wallet, { promo: 0n, paid: taken }));
}

type DebtCollection = Pick<PaymentMovement, "id" | "accountId" | "now">;

/** Collects a debt from credit that has become available, and returns the thresholds that the balance crossed. */
export async function collectDebt(
  tx: Tx,
  collection: DebtCollection,
): Promise<readonly ThresholdCrossing[]> {
  const crossings = await moveDebt(tx, collection);
  await emitBalanceEvents(tx, crossings);
  return crossings;
}

/** Takes promotional credit first, as for a charge. */
export async function moveDebt(
  tx: Tx,
  { id, accountId, now }: DebtCollection,
): Promise<readonly ThresholdCrossing[]> {
  const wallet = await lockWallet(tx, accountId);
  const { owed = 0n, writtenOff } = wallet;
  const taken = minNano(owed, availableOf(wallet));
  const promo = minNano(taken, wallet.promo);
  const paid = taken - promo;
  const movement = { id, accountId, kind: "debt", ref: id, now };
  await insertPostings(tx, movement, [
    ["promo", bucketAccount(accountId, "promo"), SYSTEM_ACCOUNTS.receivable, promo],
    ["debt", bucketAccount(accountId, "paid"), SYSTEM_ACCOUNTS.receivable, paid],
  ]);
  if (promo > 0n)
    await tx.run("update wallet set promo = ? where account_id = ?", [
      wallet.promo - promo,
      accountId,
    ]);
  if (taken > 0n)
    await updateWalletTotals(tx, accountId, {
      paid: wallet.paid - paid,
      owed: owed - taken,
      writtenOff,
    });
  return crossingsOf(movement, wallet, { promo, paid });
}

/** Writes off an account's debt, which unfreezes it, and returns the amount. Winning the dispute later reverses it. */
export async function writeOffDebt(
  tx: Tx,
  request: Pick<PaymentMovement, "id" | "accountId" | "now"> & { readonly reason: string },
): Promise<Nano> {
  const { id, accountId, now, reason } = request;
  const wallet = await lockWallet(tx, accountId);
  const owed = wallet.owed ?? 0n;
  await insertPostings(tx, { id, accountId, kind: "write_off", ref: reason, now }, [
    ["debt", SYSTEM_ACCOUNTS.refundExpense, SYSTEM_ACCOUNTS.receivable, owed],
  ]);
  const writtenOff = wallet.writtenOff + owed;
  await updateWalletTotals(tx, accountId, { paid: wallet.paid, owed: 0n, writtenOff });
  return owed;
}

/**
 * Accounts with a debt and available credit. Accounts without credit are skipped, so that they cannot fill the page.
 */
export async function listDebtors(reader: Reader, max: number): Promise<readonly string[]> {
  const sql =
    "select account_id from wallet where owed > 0 and promo + paid > held order by account_id limit ?";
  const rows = await readAllAccounts(reader, "wallet", sql, [max]);
  return rows.slice(0, max).map((row) => text(row, "account_id"));
}

/** The credit that a refund can take without a loss. Locks the wallet until the transaction ends. */
export async function lockRefundable(tx: Tx, accountId: string): Promise<Nano> {
  return refundableOf(await lockWallet(tx, accountId));
}

type Posting = readonly [name: string, from: string, to: string, amount: Nano];

async function insertPostings(
  tx: Tx,
  movement: Pick<PaymentMovement, "id" | "accountId" | "ref" | "now"> & { readonly kind: string },
  postings: readonly Posting[],
): Promise<void> {
  const { id, accountId, kind, ref, now: at } = movement;
  const transfers = postings.flatMap(([name, from, to, amount]): Transfer[] => {
    if (amount < 0n) throw new Error(`the posting ${name} of ${id} has a negative amount`);
    return amount === 0n
      ? []
      : [{ id: `${id}.${name}`, accountId, from, to, amount, kind, ref, at }];
  });
  if (transfers.length > 0) await insertTransfers(tx, transfers);
}

async function updateWalletTotals(
  tx: Tx,
  accountId: string,
  { paid, owed, writtenOff }: Pick<LockedWallet, "paid" | "writtenOff"> & { readonly owed: Nano },
): Promise<void> {
  await tx.run("update wallet set paid = ?, owed = ?, written_off = ? where account_id = ?", [
    paid,
    owed,
    writtenOff,
    accountId,
  ]);
}

function crossingsOf(
  movement: Pick<PaymentMovement, "accountId" | "now">,
  { promo, paid, ...thresholds }: Wallet,
  taken: Pick<Wallet, "promo" | "paid">,
): readonly ThresholdCrossing[] {
  const crossings: ThresholdCrossing[] = [];
  collectCrossings(crossings, movement, promo + paid, {
    ...thresholds,
    promo: promo - taken.promo,
    paid: paid - taken.paid,
  });
  return crossings;
}

interface LockedWallet extends Wallet {
  /** The debts that the operator has written off. */
  readonly writtenOff: Nano;
}

async function lockWallet(tx: Tx, accountId: string): Promise<LockedWallet> {
  const [row] = await tx.lockMany("wallet", "account_id", [accountId]);
  const thresholds = row === undefined ? {} : balanceThresholdsOf(row);
  return {
    ...requireWallet(row, accountId),
    ...thresholds,
    writtenOff: toNano(row?.["written_off"] ?? 0n),
  };
}

function requireWallet(row: Row | undefined, accountId: string): Wallet {
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toWallet(row);
}

/** Paid credit that open calls do not hold. */
function refundableOf(wallet: Wallet): Nano {
  return minNano(wallet.paid, availableOf(wallet));
}

function availableOf({ promo, paid, held }: Wallet): Nano {
  return maxNano(promo + paid - held, 0n);
}
