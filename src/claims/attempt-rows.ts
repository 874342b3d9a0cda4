// How claim attempts are written and read. It owns the table claim_attempt.

import { toNano } from "../base/money.ts";
import { afterEveryId } from "../base/page.ts";
import {
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  whole,
  wholeOrNull,
} from "../store/db.ts";
import type { Attempt } from "./attempt.ts";

// Whether somebody else was first is read along: it depends on the account, not on the attempt.
const SELECT = `select claim_attempt.*, account.claimed_at as account_claimed_at, first.email_folded as owner_email
  from claim_attempt join account on account.id = claim_attempt.account_id
  left join claim_attempt first on first.account_id = claim_attempt.account_id and first.claimed_role = 'owner' and first.invitation = 0`;

export interface NewAttempt {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly email: string;
  readonly emailFolded: string;
  readonly tokenHash: string;
  readonly codeHash: string;
  readonly network: string;
  readonly invitation: boolean;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly intervalMs: number;
}

/** The account is locked, so that its attempts are numbered without gaps: ids of one millisecond have no order. */
export async function insertAttempt(tx: Tx, attempt: NewAttempt): Promise<void> {
  const before = await tx.get("select count(*) as many from claim_attempt where account_id = ?", [
    attempt.accountId,
  ]);
  await tx.run(
    `insert into claim_attempt (id, account_id, ordinal, key_id, email, email_folded, token_hash, code_hash, network,
       invitation, created_at, expires_at, interval_ms, wrong_codes, bonus)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
    [
      attempt.id,
      attempt.accountId,
      before === undefined ? 0 : whole(before, "many"),
      attempt.keyId,
      attempt.email,
      attempt.emailFolded,
      attempt.tokenHash,
      attempt.codeHash,
      attempt.network,
      Number(attempt.invitation),
      attempt.createdAt,
      attempt.expiresAt,
      attempt.intervalMs,
    ],
  );
}

export async function readAttempt(reader: Reader, id: string): Promise<Attempt | undefined> {
  return toAttempt(await reader.get(`${SELECT} where claim_attempt.id = ?`, [id]));
}

export async function readAttemptByToken(
  reader: Reader,
  tokenHash: string,
): Promise<Attempt | undefined> {
  return toAttempt(await reader.get(`${SELECT} where claim_attempt.token_hash = ?`, [tokenHash]));
}

/** The attempts of an account that another start would replace. */
export async function readOpenAttempts(
  reader: Reader,
  accountId: string,
): Promise<readonly Attempt[]> {
  return toAttempts(
    await reader.all(
      `${SELECT} where claim_attempt.account_id = ? and claim_attempt.claimed_at is null
       and claim_attempt.declined_at is null and claim_attempt.superseded_at is null`,
      [accountId],
    ),
  );
}

/** The newest attempt that this key started, or else the account's newest. */
export async function readNewestAttempt(
  reader: Reader,
  accountId: string,
  keyId: string,
): Promise<Attempt | undefined> {
  const newest = (condition: string, params: readonly string[]) =>
    reader.get(
      `${SELECT} where claim_attempt.account_id = ? ${condition}
       order by claim_attempt.ordinal desc limit 1`,
      [accountId, ...params],
    );
  return toAttempt(
    (await newest("and claim_attempt.key_id = ?", [keyId])) ?? (await newest("", [])),
  );
}

/** Some of the attempts that name an email and that nothing has ended yet, newest first. */
export async function readOpenAttemptsFor(
  reader: Reader,
  {
    emailFolded,
    now,
    before = afterEveryId("claim"),
    most,
  }: {
    readonly emailFolded: string;
    readonly now: number;
    readonly before?: string | undefined;
    readonly most: number;
  },
): Promise<readonly Attempt[]> {
  return toAttempts(
    await reader.all(
      `${SELECT} where claim_attempt.email_folded = ? and claim_attempt.id < ? and claim_attempt.expires_at > ?
       and claim_attempt.claimed_at is null and claim_attempt.declined_at is null
       and claim_attempt.superseded_at is null
       order by claim_attempt.id desc limit ?`,
      [emailFolded, before, now, most],
    ),
  );
}

export async function markSuperseded(tx: Tx, id: string, now: number): Promise<void> {
  await tx.run("update claim_attempt set superseded_at = ? where id = ?", [now, id]);
}

export async function markDeclined(tx: Tx, id: string, now: number): Promise<void> {
  await tx.run("update claim_attempt set declined_at = ? where id = ?", [now, id]);
}

export async function markPolled(
  tx: Tx,
  id: string,
  intervalMs: number,
  now: number,
): Promise<void> {
  await tx.run("update claim_attempt set polled_at = ?, interval_ms = ? where id = ?", [
    now,
    intervalMs,
    id,
  ]);
}

export async function countWrongCode(tx: Tx, id: string): Promise<void> {
  await tx.run("update claim_attempt set wrong_codes = wrong_codes + 1 where id = ?", [id]);
}

export interface Claimed {
  readonly personId: string;
  readonly role: "owner" | "developer";
  readonly bonus: bigint;
  readonly now: number;
}

export async function markClaimed(tx: Tx, id: string, claimed: Claimed): Promise<void> {
  await tx.run(
    "update claim_attempt set claimed_at = ?, claimed_by = ?, claimed_role = ?, bonus = ? where id = ?",
    [claimed.now, claimed.personId, claimed.role, claimed.bonus, id],
  );
}

function toAttempts(rows: readonly Row[]): readonly Attempt[] {
  return rows.flatMap((row) => toAttempt(row) ?? []);
}

function toAttempt(row: Row | undefined): Attempt | undefined {
  if (row === undefined) return undefined;
  const role = textOrNull(row, "claimed_role");
  const emailFolded = text(row, "email_folded");
  const invitation = whole(row, "invitation") === 1;
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    email: text(row, "email"),
    emailFolded,
    codeHash: text(row, "code_hash"),
    network: text(row, "network"),
    invitation,
    createdAt: whole(row, "created_at"),
    expiresAt: whole(row, "expires_at"),
    wrongCodes: whole(row, "wrong_codes"),
    intervalMs: whole(row, "interval_ms"),
    polledAt: wholeOrNull(row, "polled_at"),
    supersededAt: wholeOrNull(row, "superseded_at"),
    declinedAt: wholeOrNull(row, "declined_at"),
    claimedAt: wholeOrNull(row, "claimed_at"),
    claimedBy: textOrNull(row, "claimed_by"),
    claimedRole: role === "owner" || role === "developer" ? role : null,
    bonus: toNano(row["bonus"]),
    overtaken:
      !invitation &&
      row["account_claimed_at"] !== null &&
      textOrNull(row, "owner_email") !== emailFolded,
  };
}
