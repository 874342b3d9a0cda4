// Buying credits by itself: what an owner allows, and when it ends. It is the owner's money, so only the owner turns it
// on; a key may lower what was allowed and turn it off, and whatever looks wrong stops it until the owner says so again.

import { Fault, invalid } from "../base/fault.ts";
import { type Fall, setTopUpMark } from "../ledger/marks.ts";
import type { Tx } from "../store/db.ts";
import { type AmountLimits, readAmount } from "./billing.ts";
import { centsFromUsd, moneyOfCents, nanoOfCents, usdOfCents } from "./cents.ts";
import { dropMethods, findMethod } from "./method-rows.ts";
import { type AutoTopUp, findAutoTopUp, lockAutoTopUp, type TopUp } from "./top-up-rows.ts";

const CEILING_MOST_CENTS = 100_000_000;

export type AutoRules = Pick<AutoTopUp, "thresholdCents" | "amountCents" | "ceilingCents">;

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

export type TellTopUp = (tx: Tx, event: TopUpEvent, now: number) => Promise<void>;

export interface TypedRules {
  readonly threshold_usd: string | number;
  readonly amount_usd: string | number;
  readonly monthly_ceiling_usd: string | number;
}

const RULE_FIELDS = [
  ["threshold_usd", "thresholdCents"],
  ["amount_usd", "amountCents"],
  ["monthly_ceiling_usd", "ceilingCents"],
] as const;

/** As somebody would type them. */
export function typedOf(rules: AutoRules): Record<keyof TypedRules, number> {
  return {
    threshold_usd: usdOfCents(rules.thresholdCents),
    amount_usd: usdOfCents(rules.amountCents),
    monthly_ceiling_usd: usdOfCents(rules.ceilingCents),
  };
}

/** Reads what somebody typed; throws what the field is answered with. */
export function readRules(typed: TypedRules, limits: AmountLimits): AutoRules {
  const amountCents = readAmount(typed.amount_usd, limits);
  const thresholdCents = readCents("threshold_usd", typed.threshold_usd, 1, limits.mostCents);
  const ceilingCents = readCents(
    "monthly_ceiling_usd",
    typed.monthly_ceiling_usd,
    amountCents,
    CEILING_MOST_CENTS,
  );
  return { thresholdCents, amountCents, ceilingCents };
}

/** The owner allows it, or allows something else; also after it was stopped. */
export async function turnOn(
  tx: Tx,
  accountId: string,
  { rules, now }: { readonly rules: AutoRules; readonly now: number },
): Promise<void> {
  if ((await findMethod(tx, accountId)) === undefined)
    throw new Fault("conflict", "no payment method", {
      message: "Save a payment method first: there is none that could be charged.",
    });
  await setTopUpMark(tx, accountId, nanoOfCents(rules.thresholdCents));
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
    readonly typed: Partial<TypedRules>;
    readonly limits: AmountLimits;
    readonly consoleUrl: string;
  },
): Promise<AutoRules> {
  const { typed, limits, consoleUrl } = about;
  // Locked in this order by everybody: the wallet, then this.
  await tx.lockMany("wallet", "account_id", [accountId]);
  const known = await lockAutoTopUp(tx, accountId);
  if (known?.status !== "on")
    throw ownersOnly("Auto top-up is not on. A human who owns the account turns it on", consoleUrl);
  const rules = readRules({ ...typedOf(known), ...typed }, limits);
  for (const [field, name] of RULE_FIELDS)
    if (rules[name] > known[name])
      throw ownersOnly(
        `${field} may be lowered with a key, and not raised above ${moneyOfCents(known[name])}. The owner raises it`,
        consoleUrl,
        field,
      );
  await setTopUpMark(tx, accountId, nanoOfCents(rules.thresholdCents));
  await tx.run(
    "update auto_top_up set threshold_cents = ?, amount_cents = ?, ceiling_cents = ? where account_id = ?",
    [rules.thresholdCents, rules.amountCents, rules.ceilingCents, accountId],
  );
  return rules;
}

/** Answers false where it was off. An attempt that is open goes on: it may have charged already. */
export async function turnOff(tx: Tx, accountId: string): Promise<boolean> {
  await setTopUpMark(tx, accountId, 0n);
  const changed = await tx.run(
    `update auto_top_up set status = 'off', stopped_reason = null, stopped_at = null, due_at = null
     where account_id = ? and status <> 'off'`,
    [accountId],
  );
  return changed === 1;
}

/** Nothing may be charged any more: the method was removed, or the workspace has another owner. Answers what that ended. */
export async function endCharging(
  tx: Tx,
  accountId: string,
  now: number,
): Promise<readonly ("payment_method.removed" | "auto_top_up.turned_off")[]> {
  const dropped = await dropMethods(tx, accountId, now);
  const turnedOff = await turnOff(tx, accountId);
  return [
    ...(dropped ? ["payment_method.removed" as const] : []),
    ...(turnedOff ? ["auto_top_up.turned_off" as const] : []),
  ];
}

/** Nothing is bought any more until the owner turns it on again. */
export async function stop(
  tx: Tx,
  accountId: string,
  { reason, now, tell }: { reason: StopReason; now: number; tell: TellTopUp | undefined },
): Promise<void> {
  const known = await lockAutoTopUp(tx, accountId);
  if (known?.status !== "on") return;
  await tx.run(
    "update auto_top_up set status = 'stopped', stopped_reason = ?, stopped_at = ?, due_at = null where account_id = ?",
    [reason, now, accountId],
  );
  await tell?.(tx, { kind: "stopped", accountId, reason, failures: known.failures }, now);
}

/** Charging a card again just after money of it went back would be wrong, so a person decides. */
export async function stopAfterReturn(
  tx: Tx,
  accountId: string,
  about: {
    readonly kind: "refund" | "dispute";
    readonly balance: bigint;
    readonly now: number;
    readonly tell: TellTopUp | undefined;
  },
): Promise<void> {
  const { kind, balance, now, tell } = about;
  const known = await findAutoTopUp(tx, accountId);
  if (known?.status !== "on") return;
  if (kind === "refund" && balance >= nanoOfCents(known.thresholdCents)) return;
  const reason = kind === "refund" ? "payment_refunded" : "payment_disputed";
  await stop(tx, accountId, { reason, now, tell });
}

/** Told by the charges that take balances below their thresholds; the next tick of a process' clock looks after them. */
export async function noteDue(tx: Tx, falls: readonly Fall[]): Promise<void> {
  for (const { mark, accountId, now } of falls)
    if (mark === "top_up")
      await tx.run(
        "update auto_top_up set due_at = ? where account_id = ? and status = 'on' and due_at is null",
        [now, accountId],
      );
}

function readCents(field: string, typed: string | number, least: number, most: number): number {
  const cents = centsFromUsd(typed);
  if (cents === undefined || cents < least || cents > most)
    throw invalid(
      field,
      `${field} must be an amount of US dollars in whole cents, from ${moneyOfCents(least)} to ${moneyOfCents(most)}.`,
    );
  return cents;
}

function ownersOnly(sentence: string, consoleUrl: string, param?: string): Fault {
  return new Fault("forbidden", "only an owner allows more", {
    message: `${sentence} at ${consoleUrl}.`,
    ...(param === undefined ? {} : { param }),
  });
}
