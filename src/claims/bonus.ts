// The bonus for taking an account over, once for each human. It owns the table human_grant. A human is known by the
// identity provider's subject and by the mailbox; either one alone is enough to have had it.

import { type Nano, NANO_PER_USD } from "../base/money.ts";
import { newId } from "../base/id.ts";
import { grant } from "../ledger/ledger.ts";
import type { Reader, Tx } from "../store/db.ts";

/** Specification, Limits: 1 USD. */
export const CLAIM_BONUS: Nano = NANO_PER_USD;

export interface Human {
  readonly issuer: string;
  readonly subject: string;
  /** A fingerprint of the canonical mailbox. */
  readonly mailbox: string;
}

/** Whether this human may still have the bonus; only `giveBonus` decides. */
export async function isBonusOpen(reader: Reader, human: Human): Promise<boolean> {
  const row = await reader.get(
    "select id from human_grant where (issuer = ? and subject = ?) or mailbox = ?",
    [human.issuer, human.subject, human.mailbox],
  );
  return row === undefined;
}

/** Answers what was given: nothing where this human had it before. */
export async function giveBonus(
  tx: Tx,
  human: Human,
  accountId: string,
  now: number,
): Promise<Nano> {
  const id = newId("tr", now);
  // Of two claims at the same instant the second waits here for the first, and then finds its row.
  const given = await tx.run(
    `insert into human_grant (id, issuer, subject, mailbox, account_id, amount, granted_at)
     values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
    [id, human.issuer, human.subject, human.mailbox, accountId, CLAIM_BONUS, now],
  );
  if (given === 0) return 0n;
  await grant(tx, { id, accountId, amount: CLAIM_BONUS, now, reason: "claim bonus" });
  return CLAIM_BONUS;
}
