// Whose credit it is that comes back after a refund that failed, or a dispute that was won: the house's, as far as it bore
// what was missing when the credit went, and the account's otherwise.

import { type Nano, toNano } from "../base/money.ts";
import { text, type Tx } from "../store/db.ts";

/** One that went back, of a payment: the ids of that movement, and of the one that undoes it, which need not have come. */
export interface Return {
  readonly id: string;
  readonly undoneBy: string;
  readonly kind: "refund" | "dispute";
}

export interface Undone {
  readonly id: string;
  /** All that went back of the payment, with this. */
  readonly returns: readonly Return[];
  /** The payment's credit that is still gone once this is undone. */
  readonly goneAfter: Nano;
}

interface Undoing {
  readonly accountId: string;
  readonly kind: string;
  readonly undoes?: Undone | undefined;
  readonly parts: { readonly credit: Nano };
}

interface Share {
  /** Of refunds of credit that was spent. */
  readonly borne: Nano;
  /** Of debts that were written off. */
  readonly writtenOff: Nano;
}

/**
 * What of the credit that comes back is the house's: what was missing when it went, as far as the house bore it and has
 * not got it back. And the house never goes on bearing more of a payment than is still gone of it: where refunds and
 * disputes are more than the payment, the one that is undone first need not be the one that the house bore.
 */
export async function housesShare(
  tx: Tx,
  { accountId, undoes, kind, parts: { credit } }: Undoing,
  writtenOff: Nano,
): Promise<Share> {
  if (undoes === undefined || credit === 0n) return { borne: 0n, writtenOff: 0n };
  const amountOf = await amountsOf(tx, accountId, undoes.returns);
  const broughtBy = ({ id, undoneBy }: Return): Nano =>
    id === undoes.id ? credit : sum(BROUGHT.map((leg) => amountOf(undoneBy, leg)));
  const missing = amountOf(undoes.id, "missing");
  const refunds = undoes.returns.filter((one) => one.kind === "refund");
  const disputes = undoes.returns.filter((one) => one.kind === "dispute");
  const lost =
    sum(refunds.map(({ id }) => amountOf(id, "missing"))) -
    sum(undoes.returns.map(({ undoneBy }) => amountOf(undoneBy, "borne")));
  const owedOnce = sum(
    disputes.map((one) => most(0n, amountOf(one.id, "missing") - broughtBy(one))),
  );
  const own: Share =
    kind === "refund_failed"
      ? { borne: least(credit, least(missing, lost)), writtenOff: 0n }
      : { borne: 0n, writtenOff: least(credit, least(missing, writtenOff)) };
  const left = {
    borne: lost - own.borne,
    writtenOff: least(writtenOff - own.writtenOff, owedOnce),
  };
  const over = least(
    most(0n, left.borne + left.writtenOff - undoes.goneAfter),
    credit - own.borne - own.writtenOff,
  );
  const overBorne = least(over, left.borne);
  return { borne: own.borne + overBorne, writtenOff: own.writtenOff + over - overBorne };
}

/** The legs by which credit that comes back is brought. */
const BROUGHT = ["borne", "written_off", "debt", "credit"] as const;

async function amountsOf(
  tx: Tx,
  accountId: string,
  returns: readonly Return[],
): Promise<(movement: string, leg: string) => Nano> {
  const ids = returns.flatMap(({ id, undoneBy }) => [
    `${id}.missing`,
    ...BROUGHT.map((leg) => `${undoneBy}.${leg}`),
  ]);
  const rows = await tx.all(
    `select id, amount from transfer where account_id = ? and id in (${ids.map(() => "?").join(", ")})`,
    [accountId, ...ids],
  );
  const amounts = new Map(rows.map((row) => [text(row, "id"), toNano(row["amount"])]));
  return (movement, leg) => amounts.get(`${movement}.${leg}`) ?? 0n;
}

function least(a: Nano, b: Nano): Nano {
  return a < b ? a : b;
}

function most(a: Nano, b: Nano): Nano {
  return a > b ? a : b;
}

function sum(amounts: readonly Nano[]): Nano {
  return amounts.reduce((total, amount) => total + amount, 0n);
}
