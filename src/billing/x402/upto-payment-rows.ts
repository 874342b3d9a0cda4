// Rows of the table metered_payment: one per ceiling that a wallet has signed, inserted before the provider is called.

import { type Nano, toNano } from "../../base/money/money.ts";
import {
  type Db,
  enumValue,
  integer,
  integerOrNull,
  lockByName,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../../store/db.ts";
import { ceilingExpiryOf, ceilingIdOf, type SignedCeiling } from "./upto-messages.ts";

/**
 * `open`: the call runs, and its credit is in the wallet's account. `due`: the amount is known and is being settled. `paid`:
 * it was settled. `released`: the call cost nothing. `lost`: the amount could not be settled, and the operator bears it.
 */
const STATES = ["open", "due", "paid", "released", "lost"] as const;
export type MeteredState = (typeof STATES)[number];

export interface MeteredPayment {
  /** The authorization: chain, payer and nonce. */
  readonly id: string;
  readonly accountId: string;
  /** The call that it pays for. */
  readonly requestId: string;
  /** The wallet's address. */
  readonly payer: string;
  readonly signed: SignedCeiling;
  /** The most that the call can cost. */
  readonly credit: Nano;
  /** What the call cost. */
  readonly charge: Nano;
  /** The charge with the fee, in whole units of the token. */
  readonly amount: Nano;
  readonly state: MeteredState;
  readonly reason: string | null;
  readonly transaction: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** When the payment is resumed next. Moving it is the lease. */
  readonly dueAt: number | null;
}

export interface NewMeteredPayment extends Pick<
  MeteredPayment,
  "accountId" | "requestId" | "signed" | "credit"
> {
  /** The most that is settled, with the fee. */
  readonly ceiling: Nano;
  readonly now: number;
  readonly dueAt: number;
}

/** False if the authorization is stored already. Waits for another transaction that inserts it. */
export async function insertMeteredPayment(
  tx: Tx,
  { accountId, requestId, signed, credit, ceiling, now, dueAt }: NewMeteredPayment,
): Promise<boolean> {
  const inserted = await tx.run(
    `insert into metered_payment (id, account_id, request_id, payer, signed, credit_nano, charge_nano, amount_nano, state, created_at, expires_at, due_at)
     values (?, ?, ?, ?, ?, ?, 0, ?, 'open', ?, ?, ?) on conflict do nothing`,
    [
      ceilingIdOf(signed),
      accountId,
      requestId,
      signed.payload.permit2Authorization.from,
      JSON.stringify(signed),
      credit,
      ceiling,
      now,
      ceilingExpiryOf(signed),
      dueAt,
    ],
  );
  return inserted === 1;
}

export async function findMeteredPayment(
  reader: Reader,
  id: string,
): Promise<MeteredPayment | undefined> {
  const row = await reader.get(`${SELECT} where id = ?`, [id]);
  return row === undefined ? undefined : toMeteredPayment(row);
}

/** Locked until the transaction ends, after the account's wallet. */
export async function lockMeteredPayment(tx: Tx, id: string): Promise<MeteredPayment> {
  const [row] = await tx.lockMany("metered_payment", "id", [id]);
  if (row === undefined) throw new Error(`payment ${id} not found`);
  return toMeteredPayment(row);
}

export async function listDueMeteredPayments(
  reader: Reader,
  { now, limit }: { readonly now: number; readonly limit: number },
): Promise<readonly MeteredPayment[]> {
  const rows = await reader.all(`${SELECT} where due_at <= ? order by due_at limit ?`, [
    now,
    limit,
  ]);
  return rows.map(toMeteredPayment);
}

/** Newest first, for the operator. */
export async function listMeteredPayments(
  reader: Reader,
  limit: number,
): Promise<readonly MeteredPayment[]> {
  const rows = await reader.all(`${SELECT} order by created_at desc, id limit ?`, [limit]);
  return rows.map(toMeteredPayment);
}

/** Leases the payment: of several processes, the one that moves `due_at` resumes it. */
export async function leaseMeteredPayment(
  db: Db,
  { id, dueAt }: MeteredPayment,
  untilMs: number,
): Promise<boolean> {
  const updated = await db.write((tx) =>
    tx.run("update metered_payment set due_at = ? where id = ? and due_at = ?", [
      untilMs,
      id,
      dueAt,
    ]),
  );
  return updated === 1;
}

type MeteredChange = Partial<
  Pick<MeteredPayment, "state" | "charge" | "amount" | "reason" | "transaction" | "dueAt">
>;

export async function updateMeteredPayment(
  tx: Tx,
  payment: MeteredPayment,
  change: MeteredChange,
): Promise<MeteredPayment> {
  const changed = { ...payment, ...change };
  const { id, state, charge, amount, reason, transaction, dueAt } = changed;
  await tx.run(
    "update metered_payment set state = ?, charge_nano = ?, amount_nano = ?, reason = ?, tx_hash = ?, due_at = ? where id = ?",
    [state, charge, amount, reason, transaction, dueAt, id],
  );
  return changed;
}

/** How many other calls of the wallet are paid by a transfer of the same amount in this transaction. */
export async function countPaymentsBy(
  reader: Reader,
  { id, payer, amount }: MeteredPayment,
  transaction: string,
): Promise<number> {
  const row = await reader.get(
    "select count(*) as payments from metered_payment where tx_hash = ? and payer = ? and amount_nano = ? and id <> ?",
    [transaction, payer, amount, id],
  );
  return row === undefined ? 0 : integer(row, "payments");
}

export interface Exposure {
  /** What all open calls can cost, and what is not settled yet or was lost since. */
  readonly atRisk: Nano;
  /** What the payer's calls that are not settled yet can cost. */
  readonly ofPayer: Nano;
  readonly hasLost: boolean;
}

/** With the fees. Lost payments count from a time on. New payments wait for the end of the transaction. */
export async function lockExposure(
  tx: Tx,
  {
    payer,
    riskSince,
    lostSince,
  }: { readonly payer: string; readonly riskSince: number; readonly lostSince: number },
): Promise<Exposure> {
  await lockByName(tx, "metered_payment");
  const row = await tx.get(
    `select cast(coalesce(sum(case when state <> 'lost' or created_at > ? then amount_nano else 0 end), 0) as text) as at_risk,
       cast(coalesce(sum(case when payer = ? and state <> 'lost' then amount_nano else 0 end), 0) as text) as of_payer,
       coalesce(sum(case when payer = ? and state = 'lost' and created_at > ? then 1 else 0 end), 0) as lost
     from metered_payment where state in ('open', 'due', 'lost')`,
    [riskSince, payer, payer, lostSince],
  );
  if (row === undefined) throw new Error("a sum without a row");
  return {
    atRisk: toNano(row["at_risk"]),
    ofPayer: toNano(row["of_payer"]),
    hasLost: integer(row, "lost") > 0,
  };
}

const SELECT = "select * from metered_payment";

function toMeteredPayment(row: Row): MeteredPayment {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    requestId: text(row, "request_id"),
    payer: text(row, "payer"),
    // Safe: `insertMeteredPayment` wrote it from a value of this type.
    signed: JSON.parse(text(row, "signed")) as SignedCeiling,
    credit: toNano(row["credit_nano"]),
    charge: toNano(row["charge_nano"]),
    amount: toNano(row["amount_nano"]),
    state: enumValue(row, "state", STATES),
    reason: textOrNull(row, "reason"),
    transaction: textOrNull(row, "tx_hash"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
    dueAt: integerOrNull(row, "due_at"),
  };
}
