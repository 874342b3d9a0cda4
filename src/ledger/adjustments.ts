// What an operator corrects by hand. Upwards it goes to bought credit, after what the account owes; downwards it is
// taken as a charge is, gifts first, and never more than is there and not held by open calls. A bucket that is named is
// the only one that is touched.

import { Fault } from "../base/fault.ts";
import { MAX_NANO, type Nano, usdText } from "../base/money.ts";
import { type Row, type Tx, wholeOrNull } from "../store/db.ts";
import { type Fall, marksOf, noteFalls } from "./marks.ts";
import { type Bucket, bucketOf, insertTransfers, SYSTEM, toWallet, type Transfer } from "./rows.ts";

/** How an account's money stands, at one moment. */
export interface Standing {
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

export interface Adjusted {
  /** False where this very adjustment was made before. */
  readonly made: boolean;
  readonly before: Standing;
  readonly after: Standing;
  readonly falls: readonly Fall[];
}

/** The account's money, which stands still until the transaction ends. */
export async function lockStanding(tx: Tx, accountId: string): Promise<Standing> {
  return standingOf(await lockRow(tx, accountId));
}

export async function adjust(tx: Tx, request: Adjustment): Promise<Adjusted> {
  const { id, accountId, amount, reason, now } = request;
  if (amount === 0n) throw new Error("an adjustment moves something");
  const row = await lockRow(tx, accountId);
  const before = standingOf(row);
  const known = await tx.get(
    `select id from transfer where account_id = ? and id in (${LEGS.map(() => "?").join(", ")})`,
    [accountId, ...LEGS.map((leg) => `${id}.${leg}`)],
  );
  if (known !== undefined) return { made: false, before, after: before, falls: [] };
  const legs = amount > 0n ? raise(before, request) : lower(before, request);
  const transfers = legs.flatMap(([name, from, to, moved]): Transfer[] => {
    if (moved === 0n) return [];
    const about = { accountId, kind: "adjustment", ref: id, at: now, memo: reason };
    return [{ ...about, id: `${id}.${name}`, from, to, amount: moved }];
  });
  await insertTransfers(tx, transfers);
  const after = afterLegs(before, accountId, transfers);
  await tx.run("update wallet set promo = ?, paid = ?, owed = ? where account_id = ?", [
    after.promo,
    after.paid,
    after.owed,
    accountId,
  ]);
  const falls: Fall[] = [];
  noteFalls(falls, request, before.promo + before.paid, { ...after, ...marksOf(row) });
  return { made: true, before, after, falls };
}

const LEGS = ["debt", "promo", "paid"] as const;
type Leg = readonly [name: (typeof LEGS)[number], from: string, to: string, amount: Nano];

function raise(before: Standing, { accountId, amount, bucket }: Adjustment): readonly Leg[] {
  if (before.promo + before.paid + amount > MAX_NANO)
    throw refused(`A balance cannot pass ${usdText(MAX_NANO)} USD.`);
  const debt = bucket === "promo" ? 0n : least(amount, before.owed);
  const to = bucket ?? "paid";
  return [
    ["debt", SYSTEM.adjustment, SYSTEM.receivable, debt],
    [to, SYSTEM.adjustment, bucketOf(accountId, to), amount - debt],
  ];
}

function lower(before: Standing, { accountId, amount, bucket }: Adjustment): readonly Leg[] {
  const wanted = -amount;
  const free = before.promo + before.paid - before.held;
  const there = bucket === undefined ? free : least(before[bucket], free);
  if (wanted > there)
    throw refused(
      `Only ${usdText(there > 0n ? there : 0n)} USD can be taken${bucket === undefined ? "" : ` from ${bucket}`}: ${usdText(before.promo)} USD are promotional, ${usdText(before.paid)} USD paid, and open calls hold ${usdText(before.held)} USD.`,
    );
  const promo = bucket === "paid" ? 0n : least(wanted, before.promo);
  return [
    ["promo", bucketOf(accountId, "promo"), SYSTEM.adjustment, promo],
    ["paid", bucketOf(accountId, "paid"), SYSTEM.adjustment, wanted - promo],
  ];
}

function afterLegs(before: Standing, accountId: string, moved: readonly Transfer[]): Standing {
  const netOf = (account: string): Nano =>
    moved.reduce(
      (sum, { from, to, amount }) =>
        sum + (to === account ? amount : 0n) - (from === account ? amount : 0n),
      0n,
    );
  return {
    ...before,
    promo: before.promo + netOf(bucketOf(accountId, "promo")),
    paid: before.paid + netOf(bucketOf(accountId, "paid")),
    owed: before.owed - netOf(SYSTEM.receivable),
  };
}

async function lockRow(tx: Tx, accountId: string): Promise<Row> {
  const [row] = await tx.lockMany("wallet", "account_id", [accountId]);
  if (row === undefined)
    throw new Fault("not_found", `no wallet of ${accountId}`, {
      message: "There is no such account.",
    });
  return row;
}

function standingOf(row: Row): Standing {
  const { promo, paid, held, owed = 0n } = toWallet(row);
  return { promo, paid, held, owed, frozenAt: wholeOrNull(row, "frozen_at") };
}

function refused(message: string): Fault {
  return new Fault("conflict", message, { message });
}

function least(a: Nano, b: Nano): Nano {
  return a < b ? a : b;
}
