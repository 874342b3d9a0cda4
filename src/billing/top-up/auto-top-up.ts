// Buying credits by itself: what an owner allows, and when it ends. It is the owner's money, so only the owner turns it
// on; a key may lower what was allowed and turn it off, and whatever looks wrong stops it until the owner says so again.

import { Fault, invalid } from "../../base/fault.ts";
import { type ThresholdCrossing, setTopUpThreshold } from "../../ledger/balance-thresholds.ts";
import type { Tx } from "../../store/db.ts";
import { type AmountLimits, parseAmount } from "../invoices/invoices.ts";
import { centsFromUsd, formatCents, nanoOfCents, usdOfCents } from "../invoices/cents.ts";
import { removeMethods, findMethod } from "./payment-method-rows.ts";
import { type AutoTopUp, findAutoTopUp, lockAutoTopUp, type TopUp } from "./top-up-rows.ts";

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

/** What those outside may want to know. */
export type TopUpEvent =
  | {
      readonly kind: "failed";
      readonly topUp: TopUp;
      readonly reason: string;
      readonly failures: number;
      readonly nextTryAt: number | null;
    }
  | {
      readonly kind: "stopped";
      readonly accountId: string;
      readonly reason: StopReason;
      readonly failures: number;
    }
  | {
      readonly kind: "ceiling_reached";
      readonly accountId: string;
      readonly ceilingCents: number;
      readonly boughtCents: number;
      readonly resumesAt: number;
    };

export type OnTopUpEvent = (tx: Tx, event: TopUpEvent, now: number) => Promise<void>;

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

/** As somebody would type them. */
export function toRulesInput(rules: TopUpRules): Record<keyof TopUpRulesInput, number> {
  return {
    threshold_usd: usdOfCents(rules.thresholdCents),
    amount_usd: usdOfCents(rules.amountCents),
    monthly_ceiling_usd: usdOfCents(rules.ceilingCents),
  };
}

/** Reads what somebody typed; throws what the field is answered with. */
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

/** The owner allows it, or allows something else; also after it was stopped. */
export async function enableAutoTopUp(
  tx: Tx,
  accountId: string,
  { rules, now }: { readonly rules: TopUpRules; readonly now: number },
): Promise<void> {
  if ((await findMethod(tx, accountId)) === undefined)
    throw new Fault("conflict", "no payment method", {
      message: "Save a payment method first: there is none that could be charged.",
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
}

/** What a key may do: nothing that spends more than the owner allowed. */
export async function lowerRules(
  tx: Tx,
  accountId: string,
  about: {
    /** What is left out stays as it is. */
    readonly input: Partial<TopUpRulesInput>;
    readonly limits: AmountLimits;
    readonly consoleUrl: string;
  },
): Promise<TopUpRules> {
  const { input, limits, consoleUrl } = about;
  // Locked in this order by everybody: the wallet, then this.
  await tx.lockMany("wallet", "account_id", [accountId]);
  const current = await lockAutoTopUp(tx, accountId);
  if (current?.status !== "on")
    throw ownerOnly("Auto top-up is not on. A human who owns the account turns it on", consoleUrl);
  const rules = parseRules({ ...toRulesInput(current), ...input }, limits);
  for (const [field, name] of RULE_FIELD_NAMES)
    if (rules[name] > current[name])
      throw ownerOnly(
        `${field} may be lowered with a key, and not raised above ${formatCents(current[name])}. The owner raises it`,
        consoleUrl,
        field,
      );
  await setTopUpThreshold(tx, accountId, nanoOfCents(rules.thresholdCents));
  await tx.run(
    "update auto_top_up set threshold_cents = ?, amount_cents = ?, ceiling_cents = ? where account_id = ?",
    [rules.thresholdCents, rules.amountCents, rules.ceilingCents, accountId],
  );
  return rules;
}

/** Answers false where it was off. An attempt that is open goes on: it may have charged already. */
export async function disableAutoTopUp(tx: Tx, accountId: string): Promise<boolean> {
  await setTopUpThreshold(tx, accountId, 0n);
  const changed = await tx.run(
    `update auto_top_up set status = 'off', stopped_reason = null, stopped_at = null, due_at = null
     where account_id = ? and status <> 'off'`,
    [accountId],
  );
  return changed === 1;
}

/** Nothing may be charged any more: the method was removed, or the workspace has another owner. Answers what that ended. */
export async function revokeCharging(
  tx: Tx,
  accountId: string,
  now: number,
): Promise<readonly ("payment_method.removed" | "auto_top_up.turned_off")[]> {
  const removed = await removeMethods(tx, accountId, now);
  const disabled = await disableAutoTopUp(tx, accountId);
  return [
    ...(removed ? ["payment_method.removed" as const] : []),
    ...(disabled ? ["auto_top_up.turned_off" as const] : []),
  ];
}

/** Nothing is bought any more until the owner turns it on again. */
export async function stopAutoTopUp(
  tx: Tx,
  accountId: string,
  {
    reason,
    now,
    onTopUpEvent,
  }: { reason: StopReason; now: number; onTopUpEvent: OnTopUpEvent | undefined },
): Promise<void> {
  const current = await lockAutoTopUp(tx, accountId);
  if (current?.status !== "on") return;
  await tx.run(
    "update auto_top_up set status = 'stopped', stopped_reason = ?, stopped_at = ?, due_at = null where account_id = ?",
    [reason, now, accountId],
  );
  await onTopUpEvent?.(tx, { kind: "stopped", accountId, reason, failures: current.failures }, now);
}

/** Charging a card again just after money of it went back would be wrong, so a person decides. */
export async function stopAfterReturn(
  tx: Tx,
  accountId: string,
  about: {
    readonly kind: "refund" | "dispute";
    readonly balance: bigint;
    readonly now: number;
    readonly onTopUpEvent: OnTopUpEvent | undefined;
  },
): Promise<void> {
  const { kind, balance, now, onTopUpEvent } = about;
  const current = await findAutoTopUp(tx, accountId);
  if (current?.status !== "on") return;
  if (kind === "refund" && balance >= nanoOfCents(current.thresholdCents)) return;
  const reason = kind === "refund" ? "payment_refunded" : "payment_disputed";
  await stopAutoTopUp(tx, accountId, { reason, now, onTopUpEvent });
}

/** Told by the charges that take balances below their thresholds; the next tick of a process' clock looks after them. */
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
      `${field} must be an amount of US dollars in whole cents, from ${formatCents(min)} to ${formatCents(max)}.`,
    );
  return cents;
}

function ownerOnly(sentence: string, consoleUrl: string, param?: string): Fault {
  return new Fault("forbidden", "only an owner allows more", {
    message: `${sentence} at ${consoleUrl}.`,
    ...(param === undefined ? {} : { param }),
  });
}
