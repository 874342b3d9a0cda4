// Closes an account with a grace period: model calls and purchases are refused at once, and until the personal data is
// erased the account can be reopened. Closing moves no money.

import { lockWorkspace } from "../accounts/members.ts";
import { type Actor, recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { usdText } from "../base/money/money.ts";
import { DAY_MS } from "../base/time.ts";
import { timestamp } from "../http/schemas.ts";
import { findFreeze, setClosing } from "../ledger/freezes.ts";
import { lockBalance } from "../ledger/payments/adjustments.ts";
import type { Reader, Tx } from "../store/db.ts";

export const GRACE_DAYS = 14;
export const GRACE_MS = GRACE_DAYS * DAY_MS;

export interface Closing {
  readonly since: number;
  /** From then on the personal data is erased. */
  readonly erasedFrom: number;
}

export interface ClosingChange {
  readonly accountId: string;
  readonly actor: Actor;
  readonly network: string | null;
  readonly now: number;
}

export async function findClosing(reader: Reader, accountId: string): Promise<Closing | undefined> {
  const freeze = await findFreeze(reader, accountId);
  return freeze?.by === "closing"
    ? { since: freeze.since, erasedFrom: freeze.since + GRACE_MS }
    : undefined;
}

/** Idempotent: an account that is closing keeps its date. */
export async function closeAccount(tx: Tx, change: ClosingChange): Promise<Closing> {
  const { accountId, now } = change;
  await lockWorkspace(tx, accountId);
  const { promo, paid, owed } = await lockBalance(tx, accountId);
  const earlier = await findClosing(tx, accountId);
  if (earlier !== undefined) return earlier;
  await setClosing(tx, accountId, now);
  const closing = { since: now, erasedFrom: now + GRACE_MS };
  const balance = { promo_usd: usdText(promo), paid_usd: usdText(paid), owed_usd: usdText(owed) };
  const detail = { ...balance, erased_from: timestamp(closing.erasedFrom) };
  await recordChange(tx, change, "account.closing", detail);
  return closing;
}

/** Idempotent. Throws once the grace period is over. */
export async function reopenAccount(tx: Tx, change: ClosingChange): Promise<void> {
  const { accountId, now } = change;
  await lockWorkspace(tx, accountId);
  await lockBalance(tx, accountId);
  const closing = await findClosing(tx, accountId);
  if (closing === undefined) return;
  if (closing.erasedFrom <= now)
    throw new Fault("conflict", "the grace period is over", {
      message: `The account was closed for good at ${timestamp(closing.erasedFrom)}. Create a new one with POST /v1/accounts.`,
    });
  await setClosing(tx, accountId, null);
  await recordChange(tx, change, "account.reopened", {});
}

function recordChange(
  tx: Tx,
  { accountId, actor, network, now }: ClosingChange,
  action: "account.closing" | "account.reopened",
  detail: Readonly<Record<string, string>>,
): Promise<void> {
  return recordAuditEntry(tx, {
    accountId,
    actor,
    action,
    target: accountId,
    detail,
    network,
    now,
  });
}
