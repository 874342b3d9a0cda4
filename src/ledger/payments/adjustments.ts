// What an operator corrects by hand. Upwards it goes to bought credit, after what the account owes; downwards it is
// taken as a charge is, gifts first, and never more than is there and not held by open calls. A bucket that is named is
// the only one that is touched.

import { Fault } from "../../base/fault.ts";
import { type Nano, MAX_NANO, maxNano, minNano, usdText } from "../../base/money.ts";
import { type Row, type Tx, integerOrNull } from "../../store/db.ts";
import {
  type ThresholdCrossing,
  balanceThresholdsOf,
  collectCrossings,
} from "../balance-thresholds.ts";
import {
  type Bucket,
  bucketAccount,
  insertTransfers,
  SYSTEM_ACCOUNTS,
  toWallet,
  type Transfer,
} from "../rows.ts";

/** How an account's money stands, at one moment. */
export interface BalanceSnapshot {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  readonly owed: Nano;
  readonly frozenAt: number | null;
}

export interface Adjustment {
  /** Begins the ids of its transfers: the same adjustment twice is one. */
  readonly id: string;
  readonly accountId: string;
  /** Above or below zero. */
  readonly amount: Nano;
  readonly bucket?: Bucket | undefined;
  readonly reason: string;
  readonly now: number;
}

export interface AdjustmentResult {
  /** False where this very adjustment was made before. */
  readonly made: boolean;
  readonly before: BalanceSnapshot;
  readonly after: BalanceSnapshot;
  readonly crossings: readonly ThresholdCrossing[];
}

/** The account's money, which stands still until the transaction ends. */
export async function lockBalance(tx: Tx, accountId: string): Promise<BalanceSnapshot> {
  return snapshotOf(await lockWalletRow(tx, accountId));
}

export async function adjust(tx: Tx, request: Adjustment): Promise<AdjustmentResult> {
  const { id, accountId, amount, reason, now } = request;
  if (amount === 0n) throw new Error("an adjustment moves something");
  const row = await lockWalletRow(tx, accountId);
  const before = snapshotOf(row);
  const existing = await tx.get(
    `select id from transfer where account_id = ? and id in (${POSTING_NAMES.map(() => "?").join(", ")})`,
    [accountId, ...POSTING_NAMES.map((posting) => `${id}.${posting}`)],
  );
  if (existing !== undefined) return { made: false, before, after: before, crossings: [] };
  const postings = amount > 0n ? creditPostings(before, request) : debitPostings(before, request);
  const transfers = postings.flatMap(([name, from, to, moved]): Transfer[] => {
    if (moved === 0n) return [];
    const common = { accountId, kind: "adjustment", ref: id, at: now, memo: reason };
    return [{ ...common, id: `${id}.${name}`, from, to, amount: moved }];
  });
  await insertTransfers(tx, transfers);
  const after = applyTransfers(before, accountId, transfers);
  await tx.run("update wallet set promo = ?, paid = ?, owed = ? where account_id = ?", [
    after.promo,
    after.paid,
    after.owed,
    accountId,
  ]);
  const crossings: ThresholdCrossing[] = [];
  collectCrossings(crossings, request, before.promo + before.paid, {
    ...after,
    ...balanceThresholdsOf(row),
  });
  return { made: true, before, after, crossings };
}

const POSTING_NAMES = ["debt", "promo", "paid"] as const;
type Posting = readonly [
  name: (typeof POSTING_NAMES)[number],
  from: string,
  to: string,
  amount: Nano,
];

function creditPostings(
  before: BalanceSnapshot,
  { accountId, amount, bucket }: Adjustment,
): readonly Posting[] {
  if (before.promo + before.paid + amount > MAX_NANO)
    throw conflictFault(`A balance cannot pass ${usdText(MAX_NANO)} USD.`);
  const debt = bucket === "promo" ? 0n : minNano(amount, before.owed);
  const to = bucket ?? "paid";
  return [
    ["debt", SYSTEM_ACCOUNTS.adjustment, SYSTEM_ACCOUNTS.receivable, debt],
    [to, SYSTEM_ACCOUNTS.adjustment, bucketAccount(accountId, to), amount - debt],
  ];
}

function debitPostings(
  before: BalanceSnapshot,
  { accountId, amount, bucket }: Adjustment,
): readonly Posting[] {
  const wanted = -amount;
  const free = before.promo + before.paid - before.held;
  const available = bucket === undefined ? free : minNano(before[bucket], free);
  if (wanted > available)
    throw conflictFault(
      `Only ${usdText(maxNano(available, 0n))} USD can be taken${bucket === undefined ? "" : ` from ${bucket}`}: ${usdText(before.promo)} USD are promotional, ${usdText(before.paid)} USD paid, and open calls hold ${usdText(before.held)} USD.`,
    );
  const promo = bucket === "paid" ? 0n : minNano(wanted, before.promo);
  return [
    ["promo", bucketAccount(accountId, "promo"), SYSTEM_ACCOUNTS.adjustment, promo],
    ["paid", bucketAccount(accountId, "paid"), SYSTEM_ACCOUNTS.adjustment, wanted - promo],
  ];
}

function applyTransfers(
  before: BalanceSnapshot,
  accountId: string,
  moved: readonly Transfer[],
): BalanceSnapshot {
  const netOf = (account: string): Nano =>
    moved.reduce(
      (sum, { from, to, amount }) =>
        sum + (to === account ? amount : 0n) - (from === account ? amount : 0n),
      0n,
    );
  return {
    ...before,
    promo: before.promo + netOf(bucketAccount(accountId, "promo")),
    paid: before.paid + netOf(bucketAccount(accountId, "paid")),
    owed: before.owed - netOf(SYSTEM_ACCOUNTS.receivable),
  };
}

async function lockWalletRow(tx: Tx, accountId: string): Promise<Row> {
  const [row] = await tx.lockMany("wallet", "account_id", [accountId]);
  if (row === undefined)
    throw new Fault("not_found", `no wallet of ${accountId}`, {
      message: "There is no such account.",
    });
  return row;
}

function snapshotOf(row: Row): BalanceSnapshot {
  const { promo, paid, held, owed = 0n } = toWallet(row);
  return { promo, paid, held, owed, frozenAt: integerOrNull(row, "frozen_at") };
}

function conflictFault(message: string): Fault {
  return new Fault("conflict", message, { message });
}
