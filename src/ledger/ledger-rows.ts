// Reads and writes rows of the ledger's tables.

import { type Nano, toNano } from "../base/money/money.ts";
import { zeroSpend, toLimitWindow } from "../base/money/spend-window.ts";
import {
  type Column,
  columnName,
  type Row,
  text,
  textOrNull,
  type Tx,
  type Value,
  integer,
  integerOrNull,
} from "../store/db.ts";
import type { Budget } from "./budget-rules.ts";
import { LEASE_STATE, type LeaseState } from "./credit-lease.ts";
import { type KeyRules, type OpenHold, type KeySpend, type Wallet } from "./decide.ts";

/** The operator's ledger accounts. The two buckets of a wallet are `<account>:promo` and `<account>:paid`. */
export const SYSTEM_ACCOUNTS = {
  promoExpense: "system:promo_expense",
  usageRevenue: "system:usage_revenue",
  feeRevenue: "system:fee_revenue",
  taxPayable: "system:tax_payable",
  /** Received money that bought nothing: a wrong amount, a second payment. */
  suspense: "system:suspense",
  /** Debts of accounts: costs of calls beyond the credits, and disputes of credit that was spent. */
  receivable: "system:receivable",
  /** Refunds of credit that was spent, and debts that were written off. */
  refundExpense: "system:refund_expense",
  /** Manual corrections by the operator, in both directions. */
  adjustment: "system:adjustment",
} as const;

export type Bucket = "promo" | "paid";

export function bucketAccount(accountId: string, bucket: Bucket): string {
  return `${accountId}:${bucket}`;
}

export interface Transfer {
  readonly id: string;
  /** The account whose statement lists it. */
  readonly accountId: string;
  readonly from: string;
  readonly to: string;
  readonly amount: Nano;
  readonly kind: string;
  readonly ref: string;
  readonly at: number;
  readonly memo?: string;
}

const TRANSFER_COLUMNS: readonly Column[] = [
  "id:text",
  "account_id:text",
  "from_account:text",
  "to_account:text",
  "amount:bigint",
  "kind:text",
  "ref:text",
  "at:bigint",
  "memo:text",
];

const HOLD_COLUMNS: readonly Column[] = [
  "id:text",
  "account_id:text",
  "key_id:text",
  "amount:bigint",
  "process:text",
  "epoch:bigint",
  "created_at:bigint",
  "expires_at:bigint",
  "session_id:text",
  "calls:bigint",
  "lease:bigint",
];

const WALLET_COLUMNS: readonly Column[] = [
  "account_id:text",
  "promo:bigint",
  "paid:bigint",
  "held:bigint",
];

/** Additional columns for workspaces with a budget. */
const WALLET_BUDGET_COLUMNS: readonly Column[] = [
  ...WALLET_COLUMNS,
  "day_start:bigint",
  "day_spent:bigint",
  "month_start:bigint",
  "month_spent:bigint",
];

const WALLET_DEBT_COLUMNS: readonly Column[] = ["account_id:text", "owed:bigint"];

const KEY_SPEND_COLUMNS: readonly Column[] = [
  "account_id:text",
  "key_id:text",
  "held:bigint",
  "open_calls:bigint",
  "paced_until:bigint",
  "total_spent:bigint",
  "day_start:bigint",
  "day_spent:bigint",
  "week_start:bigint",
  "week_spent:bigint",
  "month_start:bigint",
  "month_spent:bigint",
];

/** The columns that `toKeySpend` reads, and the id of the key. */
export const KEY_SPEND_NAMES = KEY_SPEND_COLUMNS.slice(1).map(columnName).join(", ");

export interface NewHold extends OpenHold {
  /** The process that made the hold, and its epoch at that time. */
  readonly process: string;
  readonly epoch: number;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** `bufferedHeld` is the part of `held` that belongs to buffered holds. */
export interface BufferedWallet extends Wallet {
  bufferedHeld?: Nano;
}

/** `buffered` is the part of `held` and `openCalls` that belongs to buffered holds. */
export interface BufferedKeySpend extends KeySpend {
  buffered?: { held: Nano; openCalls: number };
}

export interface AccountKeySpend {
  readonly accountId: string;
  readonly keyId: string;
  readonly keySpend: BufferedKeySpend;
}

export function insertTransfers(tx: Tx, transfers: readonly Transfer[]): Promise<void> {
  const rows = transfers.map((transfer): Value[] => [
    transfer.id,
    transfer.accountId,
    transfer.from,
    transfer.to,
    transfer.amount,
    transfer.kind,
    transfer.ref,
    transfer.at,
    transfer.memo ?? null,
  ]);
  return tx.insertMany("transfer", TRANSFER_COLUMNS, rows);
}

export function insertHolds(tx: Tx, holds: readonly NewHold[]): Promise<void> {
  const rows = holds.map((hold): Value[] => [
    hold.id,
    hold.accountId,
    hold.keyId,
    hold.amount,
    hold.process,
    hold.epoch,
    hold.createdAt,
    hold.expiresAt,
    hold.sessionId ?? null,
    hold.calls ?? 1,
    hold.lease ?? null,
  ]);
  return tx.insertMany("hold", HOLD_COLUMNS, rows);
}

const HOLD_AMOUNT_COLUMNS: readonly Column[] = [
  "account_id:text",
  "id:text",
  "amount:bigint",
  "calls:bigint",
  "lease:bigint",
];

export function updateHoldAmounts(tx: Tx, holds: Iterable<OpenHold>): Promise<void> {
  const rows = Array.from(holds, ({ accountId, id, amount, calls = 1, lease = null }): Value[] => [
    accountId,
    id,
    amount,
    calls,
    lease,
  ]);
  return tx.updateMany("hold", HOLD_AMOUNT_COLUMNS, rows, 2);
}

export async function updateWallets(
  tx: Tx,
  wallets: ReadonlyMap<string, BufferedWallet>,
): Promise<void> {
  const unbudgeted: Value[][] = [];
  const budgeted: Value[][] = [];
  const indebted: Value[][] = [];
  for (const [id, { promo, paid, held, bufferedHeld = 0n, owed = 0n, budget }] of wallets) {
    const values = [id, promo, paid, held - bufferedHeld];
    if (owed > 0n) indebted.push([id, owed]);
    if (budget === undefined) unbudgeted.push(values);
    else {
      const { dayStart, day, monthStart, month } = budget.spent;
      budgeted.push([...values, dayStart, day, monthStart, month]);
    }
  }
  const work = [
    ...(unbudgeted.length > 0 ? [tx.updateMany("wallet", WALLET_COLUMNS, unbudgeted)] : []),
    ...(budgeted.length > 0 ? [tx.updateMany("wallet", WALLET_BUDGET_COLUMNS, budgeted)] : []),
    ...(indebted.length > 0 ? [tx.updateMany("wallet", WALLET_DEBT_COLUMNS, indebted)] : []),
  ];
  await Promise.all(work);
}

/** Nothing that changes credits is committed until the transaction ends, because all of it writes a wallet. */
export async function lockAllWallets(tx: Tx): Promise<void> {
  await tx.run("lock table wallet in share mode");
}

export function updateKeySpends(tx: Tx, keySpends: Iterable<AccountKeySpend>): Promise<void> {
  const rows = Array.from(keySpends, ({ accountId, keyId, keySpend }): Value[] => {
    const { held, openCalls, buffered, theoreticalArrivalAt, spent } = keySpend;
    return [
      accountId,
      keyId,
      held - (buffered?.held ?? 0n),
      openCalls - (buffered?.openCalls ?? 0),
      Math.ceil(theoreticalArrivalAt),
      spent.total,
      spent.dayStart,
      spent.day,
      spent.weekStart,
      spent.week,
      spent.monthStart,
      spent.month,
    ];
  });
  return tx.updateMany("spender", KEY_SPEND_COLUMNS, rows, 2);
}

/** Inserts the spend counters of a new key. */
export async function insertKeySpend(
  tx: Tx,
  keyId: string,
  accountId: string,
  now: number,
): Promise<void> {
  const zero = zeroSpend(now);
  await tx.insertMany("spender", KEY_SPEND_COLUMNS, [
    [accountId, keyId, 0, 0, 0, 0, zero.dayStart, 0, zero.weekStart, 0, zero.monthStart, 0],
  ]);
}

export function toWallet(row: Row): Wallet {
  const owed = toNano(row["owed"]);
  const isFrozen = (row["frozen_at"] ?? row["closing_at"] ?? null) !== null;
  const budget = toBudget(row);
  return {
    promo: toNano(row["promo"]),
    paid: toNano(row["paid"]),
    held: toNano(row["held"]),
    // An operator's freeze or a closing is a debt of 0, so that the same check of `decideHold` rejects both.
    ...(owed === 0n && !isFrozen ? {} : { owed }),
    ...(budget === undefined ? {} : { budget }),
  };
}

/** Undefined without a limit: spend is only counted while there is one. */
export function toBudget(row: Row): Budget | undefined {
  const [day, month] = [row["day_budget"] ?? null, row["month_budget"] ?? null];
  if (day === null && month === null) return undefined;
  return {
    limits: {
      day: day === null ? null : toNano(day),
      month: month === null ? null : toNano(month),
    },
    spent: {
      day: toNano(row["day_spent"]),
      month: toNano(row["month_spent"]),
      dayStart: integer(row, "day_start"),
      monthStart: integer(row, "month_start"),
    },
  };
}

export function toKeySpend(row: Row): KeySpend {
  return {
    held: toNano(row["held"]),
    openCalls: integer(row, "open_calls"),
    theoreticalArrivalAt: integer(row, "paced_until"),
    spent: {
      total: toNano(row["total_spent"]),
      day: toNano(row["day_spent"]),
      week: toNano(row["week_spent"]),
      month: toNano(row["month_spent"]),
      dayStart: integer(row, "day_start"),
      weekStart: integer(row, "week_start"),
      monthStart: integer(row, "month_start"),
    },
  };
}

/** By the id of the key. The rows need the column `account_id`. */
export function toAccountKeySpends(rows: readonly Row[]): ReadonlyMap<string, AccountKeySpend> {
  return new Map(
    rows.map((row) => {
      const keyId = text(row, "key_id");
      return [keyId, { accountId: text(row, "account_id"), keyId, keySpend: toKeySpend(row) }];
    }),
  );
}

export const KEY_RULES_COLUMNS =
  "id, account_id, revoked_at, expires_at, limit_nano, limit_window, alert_percents, policy, scopes";

/** Reads the columns of `api_key` that the ledger enforces. */
export function toKeyRules(row: Row): KeyRules {
  const limit = row["limit_nano"];
  return {
    accountId: text(row, "account_id"),
    revokedAt: integerOrNull(row, "revoked_at"),
    expiresAt: integerOrNull(row, "expires_at"),
    limit: limit === null ? null : toNano(limit),
    window: toLimitWindow(textOrNull(row, "limit_window")),
    alertPercents: textOrNull(row, "alert_percents")?.split(" ").map(Number) ?? null,
    policy: textOrNull(row, "policy"),
    scopes: textOrNull(row, "scopes"),
  };
}

export const SWEPT_HOLD_COLUMNS = "id, account_id, key_id, amount, session_id";
/** The columns that `toOpenHold` reads. */
export const OPEN_HOLD_COLUMNS = `${SWEPT_HOLD_COLUMNS}, calls, lease`;

export function toOpenHold(row: Row): OpenHold {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    amount: toNano(row["amount"]),
    sessionId: textOrNull(row, "session_id") ?? undefined,
    calls: integer(row, "calls"),
    lease: toLeaseState(integerOrNull(row, "lease")),
  };
}

function toLeaseState(value: number | null): LeaseState | undefined {
  return Object.values(LEASE_STATE).find((state) => state === value);
}

export function toSweptHold(row: Row): OpenHold {
  return toOpenHold({ ...row, calls: 0, lease: null });
}
