// The bonus for taking an account over, once for each human. It owns the table human_grant. A human is known by the
// identity provider's subject and by the mailbox; either one alone is enough to have had it. Mailboxes cost a stranger
// nothing, so what is given away in a day is bounded besides.

import { type Nano, NANO_PER_USD } from "../base/money.ts";
import { newId } from "../base/id.ts";
import { DAY_MS } from "../base/time.ts";
import { grant } from "../ledger/ledger.ts";
import type { Reader, Tx } from "../store/db.ts";
import { type WindowLimit, incrementUpTo, isBelowLimit } from "./rate-counters.ts";

/** Specification, Limits: 1 USD. */
export const CLAIM_BONUS: Nano = NANO_PER_USD;

export interface BonusRecipient {
  readonly issuer: string;
  readonly subject: string;
  /** A fingerprint of the canonical mailbox. */
  readonly mailbox: string;
}

/** What stands between a human and the bonus: nothing, that they had it, or that today's is given away. */
export type BonusState = "open" | "had" | "spent_today";

export interface BonusLimits {
  /** What may be given away in a UTC day; zero for no limit. */
  readonly bonusPerDay: Nano;
}

/** Whether this human may have the bonus now; only `giveBonus` decides. */
export async function bonusStateOf(
  reader: Reader,
  recipient: BonusRecipient,
  { bonusPerDay, now }: BonusLimits & { readonly now: number },
): Promise<BonusState> {
  const row = await reader.get(
    "select id from human_grant where (issuer = ? and subject = ?) or mailbox = ?",
    [recipient.issuer, recipient.subject, recipient.mailbox],
  );
  if (row !== undefined) return "had";
  const isOpen =
    bonusPerDay === 0n || (await isBelowLimit(reader, { ...dailyLimit(bonusPerDay), now }));
  return isOpen ? "open" : "spent_today";
}

/** Answers what was given: nothing where this human had it before, or where today's is given away. */
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
  // Of two claims at the same instant the second waits here for the first, and then finds its row.
  const inserted = await tx.run(
    `insert into human_grant (id, issuer, subject, mailbox, account_id, amount, granted_at)
     values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
    [id, recipient.issuer, recipient.subject, recipient.mailbox, accountId, CLAIM_BONUS, now],
  );
  if (inserted === 0) return 0n;
  if (bonusPerDay > 0n && !(await incrementUpTo(tx, { ...dailyLimit(bonusPerDay), now }))) {
    // Whoever came too late today has had nothing, and may have it with another claim.
    await tx.run("delete from human_grant where id = ?", [id]);
    return 0n;
  }
  await grant(tx, { id, accountId, amount: CLAIM_BONUS, now, reason: "claim bonus" });
  return CLAIM_BONUS;
}

function dailyLimit(bonusPerDay: Nano): WindowLimit {
  return { scope: "bonus", windowMs: DAY_MS, max: Number(bonusPerDay / CLAIM_BONUS) };
}
