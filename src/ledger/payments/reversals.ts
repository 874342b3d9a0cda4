// Whose credit it is that comes back after a refund that failed, or a dispute that was won: the house's, as far as it bore
// what was missing when the credit went, and the account's otherwise.

import { type Nano, maxNano, minNano, toNano } from "../../base/money.ts";
import { text, type Tx } from "../../store/db.ts";

/** One that went back, of a payment: the ids of that movement, and of the one that undoes it, which need not have come. */
export interface PaymentReturn {
  readonly id: string;
  readonly reversedBy: string;
  readonly kind: "refund" | "dispute";
}

export interface Reversal {
  readonly id: string;
  /** All that went back of the payment, with this. */
  readonly returns: readonly PaymentReturn[];
  /** The payment's credit that is still gone once this is undone. */
  readonly stillReturned: Nano;
}

interface ReversalMovement {
  readonly accountId: string;
  readonly kind: string;
  readonly reverses?: Reversal | undefined;
  readonly amounts: { readonly credit: Nano };
}

interface OperatorShare {
  /** Of refunds of credit that was spent. */
  readonly absorbed: Nano;
  /** Of debts that were written off. */
  readonly writtenOff: Nano;
}

/**
 * What of the credit that comes back is the house's: what was missing when it went, as far as the house bore it and has
 * not got it back. And the house never goes on bearing more of a payment than is still gone of it: where refunds and
 * disputes are more than the payment, the one that is undone first need not be the one that the house bore.
 */
export async function operatorShare(
  tx: Tx,
  { accountId, reverses, kind, amounts: { credit } }: ReversalMovement,
  writtenOff: Nano,
): Promise<OperatorShare> {
  if (reverses === undefined || credit === 0n) return { absorbed: 0n, writtenOff: 0n };
  const amountOf = await readAmounts(tx, accountId, reverses.returns);
  const creditedBy = ({ id, reversedBy }: PaymentReturn): Nano =>
    id === reverses.id ? credit : sum(CREDIT_POSTINGS.map((leg) => amountOf(reversedBy, leg)));
  const missing = amountOf(reverses.id, "missing");
  const refunds = reverses.returns.filter((one) => one.kind === "refund");
  const disputes = reverses.returns.filter((one) => one.kind === "dispute");
  const lost =
    sum(refunds.map(({ id }) => amountOf(id, "missing"))) -
    sum(reverses.returns.map(({ reversedBy }) => amountOf(reversedBy, "borne")));
  const owedInitially = sum(
    disputes.map((one) => maxNano(0n, amountOf(one.id, "missing") - creditedBy(one))),
  );
  const own: OperatorShare =
    kind === "refund_failed"
      ? { absorbed: minNano(credit, minNano(missing, lost)), writtenOff: 0n }
      : { absorbed: 0n, writtenOff: minNano(credit, minNano(missing, writtenOff)) };
  const remaining = {
    borne: lost - own.absorbed,
    writtenOff: minNano(writtenOff - own.writtenOff, owedInitially),
  };
  const excess = minNano(
    maxNano(0n, remaining.borne + remaining.writtenOff - reverses.stillReturned),
    credit - own.absorbed - own.writtenOff,
  );
  const excessAbsorbed = minNano(excess, remaining.borne);
  return {
    absorbed: own.absorbed + excessAbsorbed,
    writtenOff: own.writtenOff + excess - excessAbsorbed,
  };
}

/** The legs by which credit that comes back is brought. */
const CREDIT_POSTINGS = ["borne", "written_off", "debt", "credit"] as const;

async function readAmounts(
  tx: Tx,
  accountId: string,
  returns: readonly PaymentReturn[],
): Promise<(movement: string, posting: string) => Nano> {
  const ids = returns.flatMap(({ id, reversedBy }) => [
    `${id}.missing`,
    ...CREDIT_POSTINGS.map((posting) => `${reversedBy}.${posting}`),
  ]);
  const rows = await tx.all(
    `select id, amount from transfer where account_id = ? and id in (${ids.map(() => "?").join(", ")})`,
    [accountId, ...ids],
  );
  const amounts = new Map(rows.map((row) => [text(row, "id"), toNano(row["amount"])]));
  return (movement, posting) => amounts.get(`${movement}.${posting}`) ?? 0n;
}

function sum(amounts: readonly Nano[]): Nano {
  return amounts.reduce((total, amount) => total + amount, 0n);
}
