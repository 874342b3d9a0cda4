// Settings of auto top-up: enable, lower, disable, stop. Only the owner enables or raises it; a key can lower or disable
// it. After failures, refunds or disputes it stops until the owner enables it again.

import { authorize, byActor, transferOwnership } from "../../accounts/members.ts";
import { type Act, type AuditDetail, recordAuditEntry } from "../../activity/audit.ts";
import { emitEvent } from "../../activity/events.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { monthStart } from "../../base/money/spend-window.ts";
import { type ThresholdCrossing, setTopUpThreshold } from "../../ledger/balance-thresholds.ts";
import type { Reader, Tx } from "../../store/db.ts";
import { centsFromUsd, formatCents, nanoOfCents, usdOfCents } from "../invoices/cents.ts";
import { type AmountLimits, parseAmount } from "../invoices/invoices.ts";
import { findMethod, removeMethods } from "./payment-method-rows.ts";
import {
  type AutoTopUp,
  type TopUp,
  findAutoTopUp,
  listTopUps,
  lockAutoTopUp,
  sumTopUps,
} from "./top-up-rows.ts";

const CEILING_MAX_CENTS = 100_000_000;

export type TopUpRules = Pick<AutoTopUp, "thresholdCents" | "amountCents" | "ceilingCents">;

export const STOP_REASONS = [
  "payment_failed",
  "payment_not_credited",
  "no_payment_method",
  "payment_disputed",
  "payment_refunded",
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

export interface TopUpRulesInput {
  readonly threshold_usd: string | number;
  readonly amount_usd: string | number;
  readonly monthly_ceiling_usd: string | number;
}

const RULE_FIELD_NAMES = [
  ["threshold_usd", "thresholdCents"],
  ["amount_usd", "amountCents"],
  ["monthly_ceiling_usd", "ceilingCents"],
] as const;

/** The rules as the fields of the form and the API. */
function toRulesInput(rules: TopUpRules): Record<keyof TopUpRulesInput, number> {
  return {
    threshold_usd: usdOfCents(rules.thresholdCents),
    amount_usd: usdOfCents(rules.amountCents),
    monthly_ceiling_usd: usdOfCents(rules.ceilingCents),
  };
}

/** Throws a fault that names the wrong field. */
export function parseRules(input: TopUpRulesInput, limits: AmountLimits): TopUpRules {
  const amountCents = parseAmount(input.amount_usd, limits);
  const thresholdCents = parseCents("threshold_usd", input.threshold_usd, 1, limits.maxCents);
  const ceilingCents = parseCents(
    "monthly_ceiling_usd",
    input.monthly_ceiling_usd,
    amountCents,
    CEILING_MAX_CENTS,
  );
  return { thresholdCents, amountCents, ceilingCents };
}

/** Enables auto top-up or changes its rules; also after it was stopped. */
export async function enableAutoTopUp(tx: Tx, act: Act, rules: TopUpRules): Promise<void> {
  const { accountId, now } = act;
  await authorize(tx, act, "billing.auto_top_up");
  if ((await findMethod(tx, accountId)) === undefined)
    throw new Fault("conflict", "no payment method", {
      message: "Save a payment method first. Auto top-up charges it.",
    });
  await setTopUpThreshold(tx, accountId, nanoOfCents(rules.thresholdCents));
  await tx.run(
    `insert into auto_top_up (account_id, status, threshold_cents, amount_cents, ceiling_cents, failures, ceiling_told, due_at)
     values (?, 'on', ?, ?, ?, 0, 0, ?)
     on conflict (account_id) do update set status = 'on', threshold_cents = excluded.threshold_cents,
       amount_cents = excluded.amount_cents, ceiling_cents = excluded.ceiling_cents, failures = 0, stopped_reason = null,
       stopped_at = null, ceiling_told = 0, due_at = excluded.due_at`,
    [accountId, rules.thresholdCents, rules.amountCents, rules.ceilingCents, now],
  );
  await recordChange(tx, act, "auto_top_up.changed", toRulesInput(rules));
}

/** Changes rules on behalf of a key, which may lower amounts but not raise them. */
export async function lowerRules(
  tx: Tx,
  act: Act,
  change: {
    /** Omitted fields stay unchanged. */
    readonly input: Partial<TopUpRulesInput>;
    readonly limits: AmountLimits;
    readonly consoleUrl: string;
  },
): Promise<void> {
  const { accountId } = act;
  const { input, limits, consoleUrl } = change;
  // Lock order: wallet, then auto_top_up.
  await tx.lockMany("wallet", "account_id", [accountId]);
  const current = await lockAutoTopUp(tx, accountId);
  if (current?.status !== "on")
    throw ownerOnly("Auto top-up is not enabled. The account's owner can enable it at", consoleUrl);
  const rules = parseRules({ ...toRulesInput(current), ...input }, limits);
  for (const [field, name] of RULE_FIELD_NAMES)
    if (rules[name] > current[name])
      throw ownerOnly(
        `A key cannot raise \`${field}\` above ${formatCents(current[name])}. The account's owner can raise it at`,
        consoleUrl,
        field,
      );
  await setTopUpThreshold(tx, accountId, nanoOfCents(rules.thresholdCents));
  await tx.run(
    "update auto_top_up set threshold_cents = ?, amount_cents = ?, ceiling_cents = ? where account_id = ?",
    [rules.thresholdCents, rules.amountCents, rules.ceilingCents, accountId],
  );
  await recordChange(tx, act, "auto_top_up.changed", toRulesInput(rules));
}

/** An open top-up continues: it may have been charged already. */
export async function disableAutoTopUp(tx: Tx, act: Act): Promise<void> {
  await authorize(tx, act, "billing.auto_top_up");
  await turnOff(tx, act);
}

async function turnOff(tx: Tx, act: Act): Promise<void> {
  const { accountId } = act;
  await setTopUpThreshold(tx, accountId, 0n);
  const changed = await tx.run(
    `update auto_top_up set status = 'off', stopped_reason = null, stopped_at = null, due_at = null
     where account_id = ? and status <> 'off'`,
    [accountId],
  );
  if (changed === 1) await recordChange(tx, act, "auto_top_up.turned_off");
}

/** Transfers ownership. The new owner must not spend from the previous owner's payment method, so charging is revoked. */
export async function transferWorkspace(tx: Tx, act: Act, to: string): Promise<void> {
  await transferOwnership(tx, act, to);
  await revokeCharging(tx, act);
}

/** Removes the payment method, which also disables auto top-up. */
export async function removePaymentMethod(tx: Tx, act: Act): Promise<void> {
  await authorize(tx, act, "billing.auto_top_up");
  await revokeCharging(tx, act);
}

async function revokeCharging(tx: Tx, act: Act): Promise<void> {
  const removed = await removeMethods(tx, act.accountId, act.now);
  if (removed) await recordChange(tx, act, "payment_method.removed");
  await turnOff(tx, act);
}

async function recordChange(
  tx: Tx,
  act: Act,
  action: "auto_top_up.changed" | "auto_top_up.turned_off" | "payment_method.removed",
  detail: AuditDetail = {},
): Promise<void> {
  const entry = {
    ...act,
    action,
    target: null,
    detail: { ...detail, ...(await byActor(tx, act)) },
  };
  await recordAuditEntry(tx, entry);
}

/** Stops auto top-up until the owner enables it again. */
export async function stopAutoTopUp(
  tx: Tx,
  accountId: string,
  { reason, now }: { readonly reason: StopReason; readonly now: number },
): Promise<void> {
  const current = await lockAutoTopUp(tx, accountId);
  if (current?.status !== "on") return;
  await tx.run(
    "update auto_top_up set status = 'stopped', stopped_reason = ?, stopped_at = ?, due_at = null where account_id = ?",
    [reason, now, accountId],
  );
  const data = { reason, failures_in_a_row: current.failures };
  await emitEvent(tx, { type: "top_up.stopped", accountId, data, now });
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "system", id: "billing" },
    action: "auto_top_up.stopped",
    target: null,
    detail: { reason },
    network: null,
    now,
  });
}

/** After a refund or a dispute, the method must not be charged again without the owner's decision. */
export async function stopAfterReturn(
  tx: Tx,
  accountId: string,
  change: {
    readonly kind: "refund" | "dispute";
    readonly balance: bigint;
    readonly now: number;
  },
): Promise<void> {
  const { kind, balance, now } = change;
  const current = await findAutoTopUp(tx, accountId);
  if (current?.status !== "on") return;
  if (kind === "refund" && balance >= nanoOfCents(current.thresholdCents)) return;
  const reason = kind === "refund" ? "payment_refunded" : "payment_disputed";
  await stopAutoTopUp(tx, accountId, { reason, now });
}

/** Called in the transaction of charges that take balances below their thresholds; the next run of the job buys. */
export async function scheduleTopUps(
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
): Promise<void> {
  for (const { kind, accountId, now } of crossings)
    if (kind === "top_up")
      await tx.run(
        "update auto_top_up set due_at = ? where account_id = ? and status = 'on' and due_at is null",
        [now, accountId],
      );
}

function parseCents(field: string, value: string | number, min: number, max: number): number {
  const cents = centsFromUsd(value);
  if (cents === undefined || cents < min || cents > max)
    throw invalid(
      field,
      `\`${field}\` must be a US dollar amount with whole cents, from ${formatCents(min)} to ${formatCents(max)}.`,
    );
  return cents;
}

function ownerOnly(sentence: string, consoleUrl: string, param?: string): Fault {
  return new Fault("forbidden", "only the owner can raise auto top-up", {
    message: `${sentence} ${consoleUrl}.`,
    ...(param === undefined ? {} : { param }),
  });
}

export interface AutoTopUpSummary {
  /** Undefined if it was never enabled. */
  readonly settings: AutoTopUp | undefined;
  /** `Visa ending in 4242`; null without a saved method. */
  readonly method: string | null;
  /** In this UTC calendar month, including purchases in flight. */
  readonly boughtCents: number;
  readonly lastTopUp: TopUp | undefined;
}

export async function readAutoTopUpSummary(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<AutoTopUpSummary> {
  const settings = await findAutoTopUp(reader, accountId);
  const method = await findMethod(reader, accountId);
  const boughtCents = await sumTopUps(reader, accountId, monthStart(now));
  const [lastTopUp] = await listTopUps(reader, accountId, 1);
  return { settings, method: method?.label ?? null, boughtCents, lastTopUp };
}
