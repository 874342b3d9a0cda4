// The bonus for taking an account over, once for each human. It owns the table human_grant. A human is known by the
// identity provider's subject and by the mailbox; either one alone is enough to have had it. Mailboxes cost a stranger
// nothing, so what is given away in a day is bounded besides.

import { type Nano, NANO_PER_USD } from "../base/money.ts";
import { newId } from "../base/id.ts";
import { grant } from "../ledger/ledger.ts";
import type { Reader, Tx } from "../store/db.ts";
import { type Bound, countUpTo, isBelow } from "./counts.ts";

/** Specification, Limits: 1 USD. */
export const CLAIM_BONUS: Nano = NANO_PER_USD;

const DAY_MS = 86_400_000;

export interface Human {
  readonly issuer: string;
  readonly subject: string;
  /** A fingerprint of the canonical mailbox. */
  readonly mailbox: string;
}

/** What stands between a human and the bonus: nothing, that they had it, or that today's is given away. */
export type BonusState = "open" | "had" | "spent_today";

export interface BonusRules {
  /** What may be given away in a UTC day; zero for no limit. */
  readonly bonusPerDay: Nano;
}

/** Whether this human may have the bonus now; only `giveBonus` decides. */
export async function bonusStateOf(
  reader: Reader,
  human: Human,
  { bonusPerDay, now }: BonusRules & { readonly now: number },
): Promise<BonusState> {
  const row = await reader.get(
    "select id from human_grant where (issuer = ? and subject = ?) or mailbox = ?",
    [human.issuer, human.subject, human.mailbox],
  );
  if (row !== undefined) return "had";
  const isOpen = bonusPerDay === 0n || (await isBelow(reader, { ...boundOf(bonusPerDay), now }));
  return isOpen ? "open" : "spent_today";
}

/** Answers what was given: nothing where this human had it before, or where today's is given away. */
export async function giveBonus(
  tx: Tx,
  human: Human,
  {
    accountId,
    bonusPerDay,
    now,
  }: BonusRules & { readonly accountId: string; readonly now: number },
): Promise<Nano> {
  const id = newId("tr", now);
  // Of two claims at the same instant the second waits here for the first, and then finds its row.
  const given = await tx.run(
    `insert into human_grant (id, issuer, subject, mailbox, account_id, amount, granted_at)
     values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
    [id, human.issuer, human.subject, human.mailbox, accountId, CLAIM_BONUS, now],
  );
  if (given === 0) return 0n;
  if (bonusPerDay > 0n && !(await countUpTo(tx, { ...boundOf(bonusPerDay), now }))) {
    // Whoever came too late today has had nothing, and may have it with another claim.
    await tx.run("delete from human_grant where id = ?", [id]);
    return 0n;
  }
  await grant(tx, { id, accountId, amount: CLAIM_BONUS, now, reason: "claim bonus" });
  return CLAIM_BONUS;
}

function boundOf(bonusPerDay: Nano): Bound {
  return { scope: "bonus", slotMs: DAY_MS, most: Number(bonusPerDay / CLAIM_BONUS) };
}
