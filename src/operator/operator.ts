// What an operator does to an account by hand, at the command line or on the operator's page: each is one transaction
// with its transfers and its audit entry, which says who, what, why, and how things stood before and after.

import { type Actor, type AuditAction, record } from "../audit/audit.ts";
import { Fault, invalid } from "../base/fault.ts";
import { type Nano, nanoFromUsd, usdText } from "../base/money.ts";
import { adjust, lockStanding, type Standing } from "../ledger/adjustments.ts";
import { findFreeze, setFreeze } from "../ledger/freezes.ts";
import { grant } from "../ledger/ledger.ts";
import type { TellFalls } from "../ledger/marks.ts";
import { writeOffDebt } from "../ledger/purchases.ts";
import type { Bucket } from "../ledger/rows.ts";
import type { Tx } from "../store/db.ts";

const REASON_MAX = 500;

/** Whoever works at the command line has the store itself; the machine knows who they are, and Postern does not. */
export const COMMAND_LINE: Actor = { type: "operator", id: "command line" };

export interface Act {
  readonly accountId: string;
  readonly by: Actor;
  readonly reason: string;
  /** The network that the order came from; null at the command line. */
  readonly network: string | null;
  readonly now: number;
}

export interface MoneyAct extends Act {
  /** Names the act: the same twice is done once. */
  readonly id: string;
  readonly amount: Nano;
}

export interface Done {
  /** False where nothing was changed, because it had been done before. */
  readonly made: boolean;
  readonly before: Standing;
  readonly after: Standing;
}

/** Gives promotional credit. */
export async function giveCredit(tx: Tx, act: MoneyAct): Promise<Done> {
  const { accountId, amount, reason, now } = act;
  if (amount <= 0n) throw invalid("usd", "A grant is an amount above zero.");
  const id = `grant.${accountId}.${act.id}`;
  const before = await lockStanding(tx, accountId);
  const made = await grant(tx, { id, accountId, amount, now, reason });
  const after = made ? { ...before, promo: before.promo + amount } : before;
  if (made) await note(tx, act, "account.credited", { before, after, id, amount });
  return { made, before, after };
}

export interface Correction extends MoneyAct {
  readonly bucket?: Bucket | undefined;
  /** Told of marks that the balance fell below. */
  readonly tellFalls: TellFalls;
}

/** Corrects a balance, upwards or downwards. */
export async function correctBalance(tx: Tx, act: Correction): Promise<Done> {
  const { accountId, amount, bucket, reason, now } = act;
  if (amount === 0n) throw invalid("usd", "An adjustment is an amount above or below zero.");
  const id = `adjust.${accountId}.${act.id}`;
  const { made, before, after, falls } = await adjust(tx, {
    id,
    accountId,
    amount,
    bucket,
    reason,
    now,
  });
  if (made) {
    await note(tx, act, "account.adjusted", { before, after, id, amount });
    // Nothing is bought for an account that may not use it.
    await act.tellFalls(
      tx,
      falls.filter(({ mark }) => mark !== "top_up" || after.frozenAt === null),
    );
  }
  return { made, before, after };
}

/** Stops an account from making calls. Calls that run go on; everything can still be read. */
export async function freezeAccount(tx: Tx, act: Act): Promise<Done> {
  const before = await lockStanding(tx, act.accountId);
  if (before.frozenAt !== null) return { made: false, before, after: before };
  await setFreeze(tx, act.accountId, { at: act.now, reason: act.reason });
  const after = { ...before, frozenAt: act.now };
  await note(tx, act, "account.frozen", { before, after });
  return { made: true, before, after };
}

/** Lifts an operator's freeze. What the account owes freezes it still. */
export async function unfreezeAccount(tx: Tx, act: Act): Promise<Done> {
  const before = await lockStanding(tx, act.accountId);
  if (before.frozenAt === null) return { made: false, before, after: before };
  const freeze = await findFreeze(tx, act.accountId);
  await setFreeze(tx, act.accountId, null);
  const after = { ...before, frozenAt: null };
  const more = freeze?.by === "operator" ? { frozen_for: freeze.reason } : {};
  await note(tx, act, "account.unfrozen", { before, after, more });
  return { made: true, before, after };
}

/** The house bears what an account owes after a dispute. */
export async function bearDebt(tx: Tx, act: Act & { readonly id: string }): Promise<Done> {
  const { accountId, reason, now } = act;
  const before = await lockStanding(tx, accountId);
  if (before.owed === 0n) return { made: false, before, after: before };
  const id = `write-off.${act.id}`;
  const amount = await writeOffDebt(tx, { id, accountId, now, reason });
  const after = { ...before, owed: 0n };
  await note(tx, act, "debt.written_off", { before, after, id, amount });
  return { made: true, before, after };
}

/** An amount of dollars as an operator types it; below zero for less. */
export function readUsd(typed: string): Nano {
  const amount = nanoFromUsd(typed.trim().replace(/^\+/, "").replace(/^−/, "-"));
  if (amount === undefined || amount === 0n)
    throw invalid(
      "usd",
      `"${typed}" is not an amount of US dollars other than zero, such as 5 or 2.50.`,
    );
  return amount;
}

export function readReason(typed: string): string {
  const reason = typed.trim();
  if (reason === "" || reason.length > REASON_MAX || /\p{C}/u.test(reason))
    throw invalid(
      "reason",
      `The reason must say something, on one line of at most ${REASON_MAX} characters: it is the only record of why.`,
    );
  return reason;
}

interface Noted {
  readonly before: Standing;
  readonly after: Standing;
  /** The transfer. */
  readonly id?: string;
  readonly amount?: Nano;
  /** What else there is to say of it. */
  readonly more?: Readonly<Record<string, string>>;
}

async function note(
  tx: Tx,
  { accountId, by, reason, network, now }: Act,
  action: AuditAction,
  { before, after, id, amount, more = {} }: Noted,
): Promise<void> {
  await record(tx, {
    accountId,
    actor: by,
    action,
    target: id ?? accountId,
    detail: {
      ...(amount === undefined ? {} : { usd: usdText(amount) }),
      reason,
      ...more,
      ...changesOf(before, after),
    },
    network,
    now,
  });
}

/** Only what has changed, as `paid_before` and `paid_after`. */
function changesOf(before: Standing, after: Standing): Readonly<Record<string, string | boolean>> {
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

/** A reference to an account that is none is answered before anything is asked of the store. */
export function demandAccountId(id: string): string {
  if (/^acct_[0-9a-z]{26}$/.test(id)) return id;
  throw new Fault("not_found", "no account's id", { message: "There is no such account." });
}
