// Accounts, which agents create without authentication and people in the console. It owns the table account.

import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type Nano, NANO_PER_CREDIT } from "../base/money/money.ts";
import { type Reader, text, textOrNull, type Tx, integer, integerOrNull } from "../store/db.ts";

/** Specification, Limits: 0.05 USD. */
export const STARTING_CREDIT: Nano = 50_000n * NANO_PER_CREDIT;

export interface Account {
  readonly id: string;
  readonly name: string | null;
  readonly email: string | null;
  /** The person who created it in the console; null if an agent created it. */
  readonly createdBy: string | null;
  readonly createdAt: number;
  readonly claimedAt: number | null;
}

export interface NewAccount {
  readonly name?: string | null;
  /** The person who creates it in the console. */
  readonly createdBy?: string;
  readonly email: string | null;
  /** The narrow network of the client. */
  readonly network: string;
  /** The operator of the agent that signed the request. */
  readonly verifiedAgent?: string | undefined;
  /** Zero once the day's budget is used up. */
  readonly startingCredit: Nano;
  readonly now: number;
}

export interface AccountDeps {
  readonly openWallet: (tx: Tx, accountId: string) => Promise<void>;
  readonly grantStartingCredit: (
    tx: Tx,
    accountId: string,
    amount: Nano,
    now: number,
  ) => Promise<void>;
}

export async function createAccount(
  tx: Tx,
  request: NewAccount,
  deps: AccountDeps,
): Promise<Account> {
  const { name = null, email, createdBy = null, network, startingCredit, now } = request;
  const { verifiedAgent = null } = request;
  const id = newId("acct", now);
  await tx.run(
    `insert into account (id, name, email, created_by, created_at, created_from, verified_agent)
     values (?, ?, ?, ?, ?, ?, ?)`,
    [id, name, email, createdBy, now, network, verifiedAgent],
  );
  await deps.openWallet(tx, id);
  if (startingCredit > 0n) await deps.grantStartingCredit(tx, id, startingCredit, now);
  return { id, name, email, createdBy, createdAt: now, claimedAt: null };
}

export interface AccountCreated {
  readonly account: Account;
  /** Its first key; null if a person created the account. */
  readonly keyId: string | null;
  readonly clientIp: string;
  readonly now: number;
}

export interface AccountRenamed {
  readonly accountId: string;
  readonly name: string | null;
  readonly actor: { readonly type: "key" | "person"; readonly id: string };
  readonly clientIp: string;
  readonly now: number;
}

const NAME_MAX = 80;

/** The name of an account without surrounding spaces; null for a blank one. */
export function parseAccountName(typed: string): string | null {
  const name = typed.trim();
  if (name.length > NAME_MAX || /\p{Cc}/u.test(name))
    throw invalid(
      "name",
      `\`name\` must be one line of at most ${NAME_MAX} characters. Send an empty name to remove it.`,
    );
  return name === "" ? null : name;
}

/** Returns false if the account already had the name. */
export async function renameAccount(tx: Tx, id: string, name: string | null): Promise<boolean> {
  const renamed = await tx.run(
    "update account set name = ? where id = ? and coalesce(name, '') <> ?",
    [name, id, name ?? ""],
  );
  return renamed === 1;
}

export async function getAccount(reader: Reader, id: string): Promise<Account> {
  const row = await reader.get("select * from account where id = ?", [id]);
  if (row === undefined)
    throw new Fault("not_found", `no account ${id}`, { message: "The account does not exist." });
  return {
    id: text(row, "id"),
    name: textOrNull(row, "name"),
    email: textOrNull(row, "email"),
    createdBy: textOrNull(row, "created_by"),
    createdAt: integer(row, "created_at"),
    claimedAt: integerOrNull(row, "claimed_at"),
  };
}
