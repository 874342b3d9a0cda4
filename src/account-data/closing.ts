// Closes an account with a grace period: model calls and purchases are refused at once, and until the personal data is
// erased the account can be reopened. Closing moves no money.

import { authorize, lockWorkspace } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault, reopenStep } from "../base/fault.ts";
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

export async function findClosing(reader: Reader, accountId: string): Promise<Closing | undefined> {
  const freeze = await findFreeze(reader, accountId);
  return freeze?.by === "closing"
    ? { since: freeze.since, erasedFrom: freeze.since + GRACE_MS }
    : undefined;
}

/** Idempotent: an account that is closing keeps its date. */
export async function closeAccount(tx: Tx, act: Act): Promise<Closing> {
  const { accountId, now } = act;
  await authorizeClosing(tx, act);
  const { promo, paid, owed } = await lockBalance(tx, accountId);
  const earlier = await findClosing(tx, accountId);
  if (earlier !== undefined) return earlier;
  await setClosing(tx, accountId, now);
  const closing = { since: now, erasedFrom: now + GRACE_MS };
  const balance = { promo_usd: usdText(promo), paid_usd: usdText(paid), owed_usd: usdText(owed) };
  const detail = { ...balance, erased_from: timestamp(closing.erasedFrom) };
  await recordAuditEntry(tx, { ...act, action: "account.closing", target: accountId, detail });
  return closing;
}

/** Idempotent. Throws once the grace period is over. */
export async function reopenAccount(tx: Tx, act: Act): Promise<void> {
  const { accountId, now } = act;
  await authorizeClosing(tx, act);
  await lockBalance(tx, accountId);
  const closing = await findClosing(tx, accountId);
  if (closing === undefined) return;
  if (closing.erasedFrom <= now)
    throw new Fault("conflict", "the grace period is over", {
      message: `The account was closed for good at ${timestamp(closing.erasedFrom)}. Create a new one with POST /v1/accounts.`,
    });
  await setClosing(tx, accountId, null);
  await recordAuditEntry(tx, { ...act, action: "account.reopened", target: accountId });
}

/** A key closes only an account that no person owns. */
async function authorizeClosing(tx: Tx, act: Act): Promise<void> {
  const { isClaimed } = await lockWorkspace(tx, act.accountId);
  await authorize(tx, act, "workspace.close");
  if (!isClaimed || act.actor.type !== "key") return;
  throw new Fault("forbidden", "a key cannot close a claimed account", {
    message: "A person owns this workspace: only its owner can close or reopen it, in the console.",
    next: [reopenStep(act.accountId, true)],
  });
}
