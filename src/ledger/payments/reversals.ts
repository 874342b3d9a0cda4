// Reversals: a failed refund or a won dispute brings credit back. It first repays the operator's loss from that return (credit
// that was already spent); the rest goes to the account.

import { type Nano, maxNano, minNano, toNano } from "../../base/money/money.ts";
import { text, type Tx } from "../../store/db.ts";

/** A refund or dispute of a payment: its movement id and the id its reversal would have (which may not exist yet). */
interface PaymentReturn {
  readonly id: string;
  readonly reversedBy: string;
  readonly kind: "refund" | "dispute";
}

export interface Reversal {
  readonly id: string;
  /** All returns of the payment, including this one. */
  readonly returns: readonly PaymentReturn[];
  /** The payment's credit that is still returned after this reversal. */
  readonly stillReturned: Nano;
}

interface ReversalMovement {
  readonly accountId: string;
  readonly kind: string;
  readonly reverses?: Reversal | undefined;
  readonly amounts: { readonly credit: Nano };
}

interface OperatorShare {
  /** The loss of refunds of spent credit. */
  readonly absorbed: Nano;
  /** The loss of debts that were written off. */
  readonly writtenOff: Nano;
}

/**
 * The operator's share of the credit that comes back: the credit that was missing at the return, at most the loss that the
 * operator has not recovered. After the reversal the operator's loss is at most what is still returned of the payment: if
 * the returns exceed the payment, the one reversed first need not be the one that caused the loss.
 */
export async function operatorShare(
  tx: Tx,
  { accountId, reverses, kind, amounts: { credit } }: ReversalMovement,
  writtenOff: Nano,
): Promise<OperatorShare> {
  if (reverses === undefined || credit === 0n) return { absorbed: 0n, writtenOff: 0n };
  const amountOf = await readAmounts(tx, accountId, reverses.returns);
  const creditedBy = ({ id, reversedBy }: PaymentReturn): Nano =>
    id === reverses.id
      ? credit
      : sum(CREDIT_POSTINGS.map((posting) => amountOf(reversedBy, posting)));
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
    absorbed: lost - own.absorbed,
    writtenOff: minNano(writtenOff - own.writtenOff, owedInitially),
  };
  const excess = minNano(
    maxNano(0n, remaining.absorbed + remaining.writtenOff - reverses.stillReturned),
    credit - own.absorbed - own.writtenOff,
  );
  const excessAbsorbed = minNano(excess, remaining.absorbed);
  return {
    absorbed: own.absorbed + excessAbsorbed,
    writtenOff: own.writtenOff + excess - excessAbsorbed,
  };
}

/** The postings of credit that comes back. */
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
