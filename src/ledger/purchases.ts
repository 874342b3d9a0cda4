// How bought credit comes in and goes back. Every amount that passes through a payment processor goes through its
// clearing account, so that the processor's own books and this one can be held against each other to the cent.

import { MAX_NANO, type Nano, toNano } from "../base/money.ts";
import { type Reader, type Row, text, type Tx } from "../store/db.ts";
import type { Wallet } from "./decide.ts";
import { type Fall, marksOf, noteFalls } from "./marks.ts";
import { bucketOf, insertTransfers, SYSTEM, toWallet, type Transfer } from "./rows.ts";
import { housesShare, type Undone } from "./undone.ts";

/** What an amount of a payment is made of. */
export interface Parts {
  readonly credit: Nano;
  readonly fee: Nano;
  readonly tax: Nano;
  /** What buys nothing: a wrong amount that came in. */
  readonly suspense: Nano;
  /** What went back beyond the payment: the house's own loss. */
  readonly beyond: Nano;
}

export interface Movement {
  /** Begins the ids of its transfers: the same movement twice is refused by the store. */
  readonly id: string;
  readonly accountId: string;
  readonly processor: string;
  readonly parts: Parts;
  readonly kind: "purchase" | "refund" | "refund_failed" | "dispute" | "dispute_closed";
  /** What it undoes: what the house bore of that goes back to the house. */
  readonly undoes?: Undone;
  /** The payment. */
  readonly ref: string;
  readonly now: number;
}

function clearingOf(processor: string): string {
  return `system:clearing:${processor}`;
}

/** Whether so much more fits into a balance. */
export async function hasRoom(tx: Tx, accountId: string, credit: Nano): Promise<boolean> {
  const wallet = await lockWallet(tx, accountId);
  return wallet.promo + wallet.paid + credit <= MAX_NANO;
}

/** Money that came in, or came back: what the house bore is given back to it, and what the account owes is taken first. */
export async function bringIn(tx: Tx, movement: Movement): Promise<void> {
  const wallet = await lockWallet(tx, movement.accountId);
  const { credit, fee, tax, suspense, beyond } = movement.parts;
  const clearing = clearingOf(movement.processor);
  const { borne, writtenOff } = await housesShare(tx, movement, wallet.writtenOff);
  const owed = least(credit - borne - writtenOff, wallet.owed ?? 0n);
  const gained = credit - borne - writtenOff - owed;
  const legs: readonly Leg[] = [
    ["borne", clearing, SYSTEM.refundExpense, borne],
    ["written_off", clearing, SYSTEM.refundExpense, writtenOff],
    ["debt", clearing, SYSTEM.receivable, owed],
    ["credit", clearing, bucketOf(movement.accountId, "paid"), gained],
    ["fee", clearing, SYSTEM.feeRevenue, fee],
    ["tax", clearing, SYSTEM.taxPayable, tax],
    ["suspense", clearing, SYSTEM.suspense, suspense],
    ["beyond", clearing, SYSTEM.refundExpense, beyond],
  ];
  await post(tx, movement, legs);
  await store(tx, movement.accountId, {
    paid: wallet.paid + gained,
    owed: (wallet.owed ?? 0n) - owed,
    writtenOff: wallet.writtenOff - writtenOff,
  });
}

/**
 * Money that went back to who paid. Credit is taken as far as it is neither spent nor held by open calls; what is
 * missing is the house's loss after a refund, and the account's debt after a dispute. Answers the marks that the balance
 * fell below.
 */
export async function sendBack(tx: Tx, movement: Movement): Promise<readonly Fall[]> {
  const wallet = await lockWallet(tx, movement.accountId);
  const { credit, fee, tax, suspense, beyond } = movement.parts;
  const clearing = clearingOf(movement.processor);
  const taken = least(credit, freeOf(wallet));
  const missing = credit - taken;
  const isDebt = movement.kind === "dispute";
  const legs: readonly Leg[] = [
    ["credit", bucketOf(movement.accountId, "paid"), clearing, taken],
    ["missing", isDebt ? SYSTEM.receivable : SYSTEM.refundExpense, clearing, missing],
    ["fee", SYSTEM.feeRevenue, clearing, fee],
    ["tax", SYSTEM.taxPayable, clearing, tax],
    ["suspense", SYSTEM.suspense, clearing, suspense],
    ["beyond", SYSTEM.refundExpense, clearing, beyond],
  ];
  await post(tx, movement, legs);
  await store(tx, movement.accountId, {
    paid: wallet.paid - taken,
    owed: (wallet.owed ?? 0n) + (isDebt ? missing : 0n),
    writtenOff: wallet.writtenOff,
  });
  return fallsOf(movement, wallet, taken);
}

/** Takes what an account owes out of what it has meanwhile: credit that open calls held. Answers as `sendBack` does. */
export async function collectDebt(
  tx: Tx,
  { id, accountId, now }: Pick<Movement, "id" | "accountId" | "now">,
): Promise<readonly Fall[]> {
  const wallet = await lockWallet(tx, accountId);
  const owed = wallet.owed ?? 0n;
  const taken = least(owed, freeOf(wallet));
  const about = { id, accountId, kind: "debt", ref: id, now };
  await post(tx, about, [["debt", bucketOf(accountId, "paid"), SYSTEM.receivable, taken]]);
  const { writtenOff } = wallet;
  if (taken > 0n)
    await store(tx, accountId, { paid: wallet.paid - taken, owed: owed - taken, writtenOff });
  return fallsOf(about, wallet, taken);
}

/** The house bears what an account owes, which unfreezes it, until the dispute is won after all. Answers how much that is. */
export async function writeOffDebt(
  tx: Tx,
  about: Pick<Movement, "id" | "accountId" | "now"> & { readonly reason: string },
): Promise<Nano> {
  const { id, accountId, now, reason } = about;
  const wallet = await lockWallet(tx, accountId);
  const owed = wallet.owed ?? 0n;
  await post(tx, { id, accountId, kind: "write_off", ref: reason, now }, [
    ["debt", SYSTEM.refundExpense, SYSTEM.receivable, owed],
  ]);
  const writtenOff = wallet.writtenOff + owed;
  await store(tx, accountId, { paid: wallet.paid, owed: 0n, writtenOff });
  return owed;
}

/** The accounts that owe something and have credit to pay it with, at most so many: who has none stands in nobody's way. */
export async function listDebtors(reader: Reader, most: number): Promise<readonly string[]> {
  const rows = await reader.all(
    `select account_id from wallet where owed > 0 and paid > 0 and promo + paid > held
     order by account_id limit ?`,
    [most],
  );
  return rows.map((row) => text(row, "account_id"));
}

/** What a refund could take without a loss, until the transaction ends. */
export async function lockRefundable(tx: Tx, accountId: string): Promise<Nano> {
  return freeOf(await lockWallet(tx, accountId));
}

type Leg = readonly [name: string, from: string, to: string, amount: Nano];

async function post(
  tx: Tx,
  about: Pick<Movement, "id" | "accountId" | "ref" | "now"> & { readonly kind: string },
  legs: readonly Leg[],
): Promise<void> {
  const { id, accountId, kind, ref, now: at } = about;
  const transfers = legs.flatMap(([name, from, to, amount]): Transfer[] => {
    if (amount < 0n) throw new Error(`${id} would move less than nothing as ${name}`);
    return amount === 0n
      ? []
      : [{ id: `${id}.${name}`, accountId, from, to, amount, kind, ref, at }];
  });
  if (transfers.length > 0) await insertTransfers(tx, transfers);
}

async function store(
  tx: Tx,
  accountId: string,
  { paid, owed, writtenOff }: Pick<Purse, "paid" | "writtenOff"> & { readonly owed: Nano },
): Promise<void> {
  await tx.run("update wallet set paid = ?, owed = ?, written_off = ? where account_id = ?", [
    paid,
    owed,
    writtenOff,
    accountId,
  ]);
}

function fallsOf(
  about: Pick<Movement, "accountId" | "now">,
  { promo, paid, ...marks }: Wallet,
  taken: Nano,
): readonly Fall[] {
  const falls: Fall[] = [];
  noteFalls(falls, about, promo + paid, { ...marks, promo, paid: paid - taken });
  return falls;
}

interface Purse extends Wallet {
  /** What the house bears of the account's debts. */
  readonly writtenOff: Nano;
}

async function lockWallet(tx: Tx, accountId: string): Promise<Purse> {
  const [row] = await tx.lockMany("wallet", "account_id", [accountId]);
  const marks = row === undefined ? {} : marksOf(row);
  return { ...walletIn(row, accountId), ...marks, writtenOff: toNano(row?.["written_off"] ?? 0n) };
}

function walletIn(row: Row | undefined, accountId: string): Wallet {
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toWallet(row);
}

/** Bought credit that open calls do not need, even if they cost all that they hold. */
function freeOf({ promo, paid, held }: Wallet): Nano {
  const available = promo + paid - held;
  return least(paid, available > 0n ? available : 0n);
}

function least(a: Nano, b: Nano): Nano {
  return a < b ? a : b;
}
