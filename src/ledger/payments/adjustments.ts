// Manual corrections of a balance by the operator. A credit pays the account's debt first and then goes to paid credit;
// a debit takes promotional credit first, like a charge, and never what open calls hold. With a `bucket`, only that one
// is changed.

import { conflict, Fault } from "../../base/fault.ts";
import { type Nano, MAX_NANO, maxNano, minNano } from "../../base/money/money.ts";
import { formatUsdExact } from "../../base/text/format.ts";
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
} from "../ledger-rows.ts";
import { emitBalanceEvents } from "../threshold-events.ts";

export interface BalanceSnapshot {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  readonly owed: Nano;
  readonly frozenAt: number | null;
}

export interface Adjustment {
  /** Prefix of its transfer ids, which makes the adjustment idempotent. */
  readonly id: string;
  readonly accountId: string;
  /** Positive or negative. */
  readonly amount: Nano;
  readonly bucket?: Bucket | undefined;
  readonly reason: string;
  readonly now: number;
}

export interface AdjustmentResult {
  /** False if the adjustment was made before. */
  readonly isApplied: boolean;
  readonly before: BalanceSnapshot;
  readonly after: BalanceSnapshot;
  /** Their events are written. */
  readonly crossings: readonly ThresholdCrossing[];
}

/** Reads the balance and locks it until the transaction ends. */
export async function lockBalance(tx: Tx, accountId: string): Promise<BalanceSnapshot> {
  return snapshotOf(await lockWalletRow(tx, accountId));
}

export async function adjust(tx: Tx, request: Adjustment): Promise<AdjustmentResult> {
  const { id, accountId, amount, reason, now } = request;
  if (amount === 0n) throw new Error("the amount of an adjustment must not be zero");
  const row = await lockWalletRow(tx, accountId);
  const before = snapshotOf(row);
  const existing = await tx.get(
    `select id from transfer where account_id = ? and id in (${POSTING_NAMES.map(() => "?").join(", ")})`,
    [accountId, ...POSTING_NAMES.map((posting) => `${id}.${posting}`)],
  );
  if (existing !== undefined) return { isApplied: false, before, after: before, crossings: [] };
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
  await emitBalanceEvents(tx, crossings);
  return { isApplied: true, before, after, crossings };
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
    throw conflict(`A balance cannot exceed ${formatUsdExact(MAX_NANO)}.`);
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
    throw conflict(
      `At most ${formatUsdExact(maxNano(available, 0n))} can be taken${bucket === undefined ? "" : ` from ${bucket}`}. The balance is ${formatUsdExact(before.promo)} promotional and ${formatUsdExact(before.paid)} paid credit, of which open calls hold ${formatUsdExact(before.held)}.`,
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
  transfers: readonly Transfer[],
): BalanceSnapshot {
  const netOf = (account: string): Nano =>
    transfers.reduce(
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
      message: `The account ${accountId} does not exist.`,
    });
  return row;
}

function snapshotOf(row: Row): BalanceSnapshot {
  const { promo, paid, held, owed = 0n } = toWallet(row);
  return { promo, paid, held, owed, frozenAt: integerOrNull(row, "frozen_at") };
}
