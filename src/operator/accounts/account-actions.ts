// Changes that an operator makes to an account, at the command line or on the operator pages. Each is one transaction with
// its transfers and an audit entry: actor, action, reason, and balances before and after.

import { type Actor, type AuditAction, recordAuditEntry } from "../../activity/audit.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { type Nano, nanoFromUsd, usdText } from "../../base/money/money.ts";
import { scheduleTopUps } from "../../billing/top-up/auto-top-up.ts";
import { findFreeze, setFreeze } from "../../ledger/freezes.ts";
import type { Bucket } from "../../ledger/ledger-rows.ts";
import { grant } from "../../ledger/ledger.ts";
import { adjust, lockBalance, type BalanceSnapshot } from "../../ledger/payments/adjustments.ts";
import { writeOffDebt } from "../../ledger/payments/payments.ts";
import type { Tx } from "../../store/db.ts";

const REASON_MAX = 500;

/** At the command line, Postern does not know which person acts. */
export const COMMAND_LINE_ACTOR: Actor = { type: "operator", id: "command line" };

export interface AccountChange {
  readonly accountId: string;
  readonly by: Actor;
  readonly reason: string;
  /** The operator whose request this operator approved. */
  readonly requestedBy?: string | undefined;
  /** The network of the request; null at the command line. */
  readonly network: string | null;
  readonly now: number;
}

export interface BalanceChange extends AccountChange {
  /** An idempotency key: the same id is applied once. */
  readonly id: string;
  readonly amount: Nano;
}

export interface ChangeResult {
  /** False if it had been done before. */
  readonly isChanged: boolean;
  readonly before: BalanceSnapshot;
  readonly after: BalanceSnapshot;
}

/** Grants promotional credit. */
export async function grantCredit(tx: Tx, change: BalanceChange): Promise<ChangeResult> {
  const { accountId, amount, reason, now } = change;
  if (amount <= 0n) throw invalid("usd", "The amount of a grant must be greater than zero.");
  const id = `grant.${accountId}.${change.id}`;
  const before = await lockBalance(tx, accountId);
  const isChanged = await grant(tx, { id, accountId, amount, now, reason });
  const after = isChanged ? { ...before, promo: before.promo + amount } : before;
  if (isChanged) await recordAudit(tx, change, "account.credited", { before, after, id, amount });
  return { isChanged, before, after };
}

export interface BalanceAdjustment extends BalanceChange {
  readonly bucket?: Bucket | undefined;
}

/** Corrects a balance, upwards or downwards. */
export async function adjustBalance(tx: Tx, change: BalanceAdjustment): Promise<ChangeResult> {
  const { accountId, amount, bucket, reason, now } = change;
  if (amount === 0n) throw invalid("usd", "The amount of an adjustment must not be zero.");
  const id = `adjust.${accountId}.${change.id}`;
  const {
    isApplied: isChanged,
    before,
    after,
    crossings,
  } = await adjust(tx, {
    id,
    accountId,
    amount,
    bucket,
    reason,
    now,
  });
  if (isChanged) {
    await recordAudit(tx, change, "account.adjusted", { before, after, id, amount });
    if (after.frozenAt === null) await scheduleTopUps(tx, crossings);
  }
  return { isChanged, before, after };
}

/** Rejects new calls of an account. Running calls finish, and all data stays readable. */
export async function freezeAccount(tx: Tx, change: AccountChange): Promise<ChangeResult> {
  const before = await lockBalance(tx, change.accountId);
  if (before.frozenAt !== null) return { isChanged: false, before, after: before };
  await setFreeze(tx, change.accountId, { at: change.now, reason: change.reason });
  const after = { ...before, frozenAt: change.now };
  await recordAudit(tx, change, "account.frozen", { before, after });
  return { isChanged: true, before, after };
}

/** Lifts an operator's freeze. A debt still freezes the account. */
export async function unfreezeAccount(tx: Tx, change: AccountChange): Promise<ChangeResult> {
  const before = await lockBalance(tx, change.accountId);
  if (before.frozenAt === null) return { isChanged: false, before, after: before };
  const freeze = await findFreeze(tx, change.accountId);
  await setFreeze(tx, change.accountId, null);
  const after = { ...before, frozenAt: null };
  const more = freeze?.by === "operator" ? { frozen_for: freeze.reason } : {};
  await recordAudit(tx, change, "account.unfrozen", { before, after, more });
  return { isChanged: true, before, after };
}

/** Writes off what an account owes, after a dispute or for calls. */
export async function writeOffAccountDebt(
  tx: Tx,
  change: AccountChange & { readonly id: string },
): Promise<ChangeResult> {
  const { accountId, reason, now } = change;
  const before = await lockBalance(tx, accountId);
  if (before.owed === 0n) return { isChanged: false, before, after: before };
  const id = `write-off.${change.id}`;
  const amount = await writeOffDebt(tx, { id, accountId, now, reason });
  const after = { ...before, owed: 0n };
  await recordAudit(tx, change, "debt.written_off", { before, after, id, amount });
  return { isChanged: true, before, after };
}

/** An amount as the operator enters it; it may be negative. */
export function parseUsd(input: string): Nano {
  const amount = nanoFromUsd(plainAmount(input.trim().replace(/^\+/, "").replace(/^−/, "-")));
  if (amount === undefined || amount === 0n)
    throw invalid(
      "usd",
      `"${input}" is not a valid amount. Enter an amount in US dollars other than zero, such as 5 or -2.50.`,
    );
  return amount;
}

export function parseReason(input: string): string {
  const reason = input.trim();
  if (reason === "" || reason.length > REASON_MAX || /\p{C}/u.test(reason))
    throw invalid(
      "reason",
      `The reason must be one line of 1 to ${REASON_MAX} characters. It is recorded in the audit log.`,
    );
  return reason;
}

interface AuditDetails {
  readonly before: BalanceSnapshot;
  readonly after: BalanceSnapshot;
  /** The transfer's id. */
  readonly id?: string;
  readonly amount?: Nano;
  /** Further fields of the entry. */
  readonly more?: Readonly<Record<string, string>>;
}

async function recordAudit(
  tx: Tx,
  { accountId, by, reason, requestedBy, network, now }: AccountChange,
  action: AuditAction,
  { before, after, id, amount, more = {} }: AuditDetails,
): Promise<void> {
  await recordAuditEntry(tx, {
    accountId,
    actor: by,
    action,
    target: id ?? accountId,
    detail: {
      ...(amount === undefined ? {} : { usd: usdText(amount) }),
      reason,
      ...(requestedBy === undefined ? {} : { requested_by: requestedBy }),
      ...more,
      ...balanceChanges(before, after),
    },
    network,
    now,
  });
}

/** The changed values, as `paid_before` and `paid_after`. */
function balanceChanges(
  before: BalanceSnapshot,
  after: BalanceSnapshot,
): Readonly<Record<string, string | boolean>> {
  const money = (["promo", "paid", "owed"] as const).flatMap((name) =>
    before[name] === after[name]
      ? []
      : [
          [`${name}_before`, usdText(before[name])],
          [`${name}_after`, usdText(after[name])],
        ],
  );
  const frozen =
    (before.frozenAt === null) === (after.frozenAt === null)
      ? []
      : [
          ["frozen_before", before.frozenAt !== null],
          ["frozen_after", after.frozenAt !== null],
        ];
  return Object.fromEntries([...money, ...frozen]);
}

/** Rejects a malformed id without a query. */
export function requireAccountId(id: string): string {
  if (/^acct_[0-9a-z]{26}$/.test(id)) return id;
  throw new Fault("not_found", "malformed account id", { message: "The account does not exist." });
}
