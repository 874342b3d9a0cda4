// Accounts, which agents create without authentication. It owns the table account.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type Nano, NANO_PER_CREDIT } from "../base/money.ts";
import { type Reader, text, textOrNull, type Tx, integer, integerOrNull } from "../store/db.ts";

/** Specification, Limits: 0.05 USD. */
export const STARTING_CREDIT: Nano = 50_000n * NANO_PER_CREDIT;

export interface Account {
  readonly id: string;
  readonly email: string | null;
  readonly createdAt: number;
  readonly claimedAt: number | null;
}

export interface NewAccount {
  readonly email: string | null;
  /** The narrow network of the client. */
  readonly network: string;
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
  const { email, network, startingCredit, now } = request;
  const id = newId("acct", now);
  await tx.run("insert into account (id, email, created_at, created_from) values (?, ?, ?, ?)", [
    id,
    email,
    now,
    network,
  ]);
  await deps.openWallet(tx, id);
  if (startingCredit > 0n) await deps.grantStartingCredit(tx, id, startingCredit, now);
  return { id, email, createdAt: now, claimedAt: null };
}

export async function getAccount(reader: Reader, id: string): Promise<Account> {
  const row = await reader.get("select * from account where id = ?", [id]);
  if (row === undefined)
    throw new Fault("not_found", `no account ${id}`, { message: "The account does not exist." });
  return {
    id: text(row, "id"),
    email: textOrNull(row, "email"),
    createdAt: integer(row, "created_at"),
    claimedAt: integerOrNull(row, "claimed_at"),
  };
}
