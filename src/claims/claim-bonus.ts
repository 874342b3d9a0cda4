// The bonus for claiming an account, granted once per human. Owns the table human_grant. A human is identified by the
// identity provider's subject or by the mailbox: a match of either means that the bonus was already granted. Mailboxes
// are free to create, so the bonuses of a day have a budget as well.

import { newId } from "../base/id.ts";
import { type Nano, NANO_PER_USD } from "../base/money/money.ts";
import { DAY_MS } from "../base/time.ts";
import { grant } from "../ledger/ledger.ts";
import type { Reader, Tx } from "../store/db.ts";
import { type WindowLimit, incrementUpTo, isBelowLimit } from "./rate-counters.ts";

/** 1 US dollar. */
export const CLAIM_BONUS: Nano = NANO_PER_USD;

export interface BonusRecipient {
  readonly issuer: string;
  readonly subject: string;
  /** Fingerprints of the canonical mailbox: by the current and the previous master secret. */
  readonly mailboxes: readonly string[];
}

export type BonusState = "available" | "already_granted" | "daily_budget_spent";

export interface BonusLimits {
  /** The budget of a UTC day; zero for no limit. */
  readonly bonusPerDay: Nano;
}

/** For display only: `grantBonus` makes the decision. */
export async function bonusStateOf(
  reader: Reader,
  recipient: BonusRecipient,
  { bonusPerDay, now }: BonusLimits & { readonly now: number },
): Promise<BonusState> {
  const row = await reader.get(
    `select id from human_grant where (issuer = ? and subject = ?)
     or mailbox in (${recipient.mailboxes.map(() => "?").join(", ")})`,
    [recipient.issuer, recipient.subject, ...recipient.mailboxes],
  );
  if (row !== undefined) return "already_granted";
  const isAvailable =
    bonusPerDay === 0n || (await isBelowLimit(reader, { ...dailyLimit(bonusPerDay), now }));
  return isAvailable ? "available" : "daily_budget_spent";
}

/** Returns the granted amount: zero if this human already had the bonus or the daily budget is spent. */
export async function grantBonus(
  tx: Tx,
  recipient: BonusRecipient,
  {
    accountId,
    bonusPerDay,
    now,
  }: BonusLimits & { readonly accountId: string; readonly now: number },
): Promise<Nano> {
  const id = newId("tr", now);
  const [mailbox = "", ...previousMailboxes] = recipient.mailboxes;
  for (const previous of previousMailboxes)
    await tx.run("update human_grant set mailbox = ? where mailbox = ?", [mailbox, previous]);
  // Of two concurrent claims the second waits here for the first, then conflicts with its row.
  const inserted = await tx.run(
    `insert into human_grant (id, issuer, subject, mailbox, account_id, amount, granted_at)
     values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
    [id, recipient.issuer, recipient.subject, mailbox, accountId, CLAIM_BONUS, now],
  );
  if (inserted === 0) return 0n;
  if (bonusPerDay > 0n && !(await incrementUpTo(tx, { ...dailyLimit(bonusPerDay), now }))) {
    // The daily budget is spent: the human keeps the right to the bonus of a later claim.
    await tx.run("delete from human_grant where id = ?", [id]);
    return 0n;
  }
  await grant(tx, { id, accountId, amount: CLAIM_BONUS, now, reason: "claim bonus" });
  return CLAIM_BONUS;
}

function dailyLimit(bonusPerDay: Nano): WindowLimit {
  return { scope: "bonus", windowMs: DAY_MS, max: Number(bonusPerDay / CLAIM_BONUS) };
}
