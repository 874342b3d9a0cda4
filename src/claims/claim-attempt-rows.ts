// The rows of claim attempts. Owns the table claim_attempt.

import { type Role, ROLES } from "../accounts/members.ts";
import { toNano } from "../base/money/money.ts";
import { maxId } from "../base/pagination.ts";
import { foldEmail } from "../base/text/email.ts";
import {
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { type ClaimAttempt, claimStateOf } from "./claim-attempt.ts";

// `isClaimedByOther` depends on the account and its first owner, so both are joined.
const SELECT = `select claim_attempt.*, account.claimed_at as account_claimed_at, account.name as account_name, first.email_folded as owner_email
  from claim_attempt join account on account.id = claim_attempt.account_id
  left join claim_attempt first on first.account_id = claim_attempt.account_id and first.claimed_role = 'owner' and first.invitation = 0`;

const WAITING_CLAIMS_MAX = 10;

export interface NewClaimAttempt {
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

/** The caller has locked the account. Ids of one millisecond have no order, so attempts are numbered. */
export async function insertAttempt(tx: Tx, attempt: NewClaimAttempt): Promise<void> {
  const before = await tx.get(
    "select count(*) as attempts from claim_attempt where account_id = ?",
    [attempt.accountId],
  );
  await tx.run(
    `insert into claim_attempt (id, account_id, ordinal, key_id, email, email_folded, token_hash, code_hash, network,
       invitation, created_at, expires_at, interval_ms, wrong_codes, bonus)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
    [
      attempt.id,
      attempt.accountId,
      before === undefined ? 0 : integer(before, "attempts"),
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

export async function readAttempt(reader: Reader, id: string): Promise<ClaimAttempt | undefined> {
  return toAttempt(await reader.get(`${SELECT} where claim_attempt.id = ?`, [id]));
}

export async function readAttemptByToken(
  reader: Reader,
  tokenHashes: readonly string[],
): Promise<ClaimAttempt | undefined> {
  const places = tokenHashes.map(() => "?").join(", ");
  return toAttempt(
    await reader.get(`${SELECT} where claim_attempt.token_hash in (${places})`, tokenHashes),
  );
}

/** The attempts of an account that a new start may supersede. */
export async function readOpenAttempts(
  reader: Reader,
  accountId: string,
): Promise<readonly ClaimAttempt[]> {
  return toAttempts(
    await reader.all(
      `${SELECT} where claim_attempt.account_id = ? and claim_attempt.claimed_at is null
       and claim_attempt.declined_at is null and claim_attempt.superseded_at is null`,
      [accountId],
    ),
  );
}

/** The attempts of an account that a person can still accept. */
export async function listPendingAttempts(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<readonly ClaimAttempt[]> {
  const open = await readOpenAttempts(reader, accountId);
  return open.filter((attempt) => claimStateOf(attempt, now) === "initiated");
}

/** The newest attempt started by this key; if it started none, the newest of the account. */
export async function readNewestAttempt(
  reader: Reader,
  accountId: string,
  keyId: string,
): Promise<ClaimAttempt | undefined> {
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

/** The newest claims that wait for the person with this verified email. An older one is found by its code. */
export async function listWaitingClaims(
  reader: Reader,
  { email, ssoAccountId }: { readonly email: string; readonly ssoAccountId?: string | undefined },
  now: number,
): Promise<readonly ClaimAttempt[]> {
  // The identity provider of one workspace does not vouch for an address elsewhere.
  if (ssoAccountId !== undefined) return [];
  const filter = { emailFolded: foldEmail(email), now, limit: WAITING_CLAIMS_MAX };
  const open = await readOpenAttemptsByEmail(reader, filter);
  return open.filter((attempt) => claimStateOf(attempt, now) === "initiated");
}

/** One page of the open attempts that name an email, newest first. */
export async function readOpenAttemptsByEmail(
  reader: Reader,
  {
    emailFolded,
    now,
    before = maxId("claim"),
    limit,
  }: {
    readonly emailFolded: string;
    readonly now: number;
    readonly before?: string | undefined;
    readonly limit: number;
  },
): Promise<readonly ClaimAttempt[]> {
  return toAttempts(
    await reader.all(
      `${SELECT} where claim_attempt.email_folded = ? and claim_attempt.id < ? and claim_attempt.expires_at > ?
       and claim_attempt.claimed_at is null and claim_attempt.declined_at is null
       and claim_attempt.superseded_at is null
       order by claim_attempt.id desc limit ?`,
      [emailFolded, before, now, limit],
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

export interface ClaimOutcome {
  readonly personId: string;
  readonly role: Role;
  readonly bonus: bigint;
  readonly now: number;
}

export async function markClaimed(tx: Tx, id: string, outcome: ClaimOutcome): Promise<void> {
  await tx.run(
    "update claim_attempt set claimed_at = ?, claimed_by = ?, claimed_role = ?, bonus = ? where id = ?",
    [outcome.now, outcome.personId, outcome.role, outcome.bonus, id],
  );
}

function toAttempts(rows: readonly Row[]): readonly ClaimAttempt[] {
  return rows.flatMap((row) => toAttempt(row) ?? []);
}

function toAttempt(row: Row | undefined): ClaimAttempt | undefined {
  if (row === undefined) return undefined;
  const role = textOrNull(row, "claimed_role");
  const emailFolded = text(row, "email_folded");
  const invitation = integer(row, "invitation") === 1;
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    accountName: textOrNull(row, "account_name"),
    keyId: text(row, "key_id"),
    email: text(row, "email"),
    emailFolded,
    codeHash: text(row, "code_hash"),
    network: text(row, "network"),
    invitation,
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
    wrongCodes: integer(row, "wrong_codes"),
    intervalMs: integer(row, "interval_ms"),
    polledAt: integerOrNull(row, "polled_at"),
    supersededAt: integerOrNull(row, "superseded_at"),
    declinedAt: integerOrNull(row, "declined_at"),
    claimedAt: integerOrNull(row, "claimed_at"),
    claimedBy: textOrNull(row, "claimed_by"),
    claimedRole: ROLES.find((known) => known === role) ?? null,
    bonus: toNano(row["bonus"]),
    isClaimedByOther:
      !invitation &&
      row["account_claimed_at"] !== null &&
      textOrNull(row, "owner_email") !== emailFolded,
  };
}
