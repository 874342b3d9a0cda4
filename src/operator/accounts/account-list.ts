// Lists and searches accounts, newest first.

import { type Nano, toNano } from "../../base/money/money.ts";
import { maxId, type Page, type PageRequest, toPage } from "../../base/pagination.ts";
import {
  type Reader,
  type Row,
  text,
  textOrNull,
  type Value,
  integer,
  integerOrNull,
} from "../../store/db.ts";

export const ACCOUNT_STATES = ["active", "frozen", "owing"] as const;
/** `frozen` by an operator; `owing`: a debt blocks calls that cost credits. */
export type AccountState = (typeof ACCOUNT_STATES)[number];

export interface AccountSummary {
  readonly id: string;
  readonly name: string | null;
  readonly email: string | null;
  readonly createdAt: number;
  readonly claimedAt: number | null;
  readonly lastUsedAt: number | null;
  readonly state: AccountState;
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  readonly owed: Nano;
  readonly liveKeys: number;
  readonly members: number;
}

export interface AccountSearch {
  /** The beginning of an account or key id, a member's email address, an invoice id, or a raw key or its beginning. */
  readonly search?: string | undefined;
  readonly state?: AccountState | undefined;
}

const KEY_PREFIX_LENGTH = 12;
const ID_SUFFIX_LENGTH = 26;

export async function listAccounts(
  reader: Reader,
  { search, state }: AccountSearch,
  page: PageRequest,
  now: number,
): Promise<Page<AccountSummary>> {
  const [condition, values] = searchCondition((search ?? "").trim());
  const { wallets, isMatch } = STATES[state ?? "any"];
  const rows = await reader.all(
    `${wallets === undefined ? "" : `with found as materialized (${wallets})`}
     select account.*,
       (select count(*) from api_key where api_key.account_id = account.id and revoked_at is null
         and (expires_at is null or expires_at > ?)) as live_keys,
       (select max(last_used_at) from api_key where api_key.account_id = account.id) as last_used_at,
       (select count(*) from membership where membership.account_id = account.id) as members
     from account where account.id < ?${condition}${isMatch} order by account.id desc limit ?`,
    [now, page.cursor ?? maxId("acct"), ...values, page.limit + 1],
  );
  const walletOf = await readWallets(
    reader,
    rows.map((row) => text(row, "id")),
  );
  const accounts = rows.flatMap((row) => {
    const wallet = walletOf.get(text(row, "id"));
    return wallet === undefined ? [] : [toAccountSummary(row, wallet)];
  });
  return toPage(accounts, page.limit);
}

/** Wallets in a state that few of them are in, and the condition on the account. */
const STATES: Readonly<
  Record<AccountState | "any", { readonly wallets?: string; readonly isMatch: string }>
> = {
  any: { isMatch: "" },
  active: {
    wallets: "select account_id from wallet where frozen_at is not null or owed > 0",
    isMatch: " and account.id not in (select account_id from found)",
  },
  frozen: {
    wallets: "select account_id from wallet where frozen_at is not null",
    isMatch: " and account.id in (select account_id from found)",
  },
  owing: {
    wallets: "select account_id from wallet where frozen_at is null and owed > 0",
    isMatch: " and account.id in (select account_id from found)",
  },
};

/** Not in the statement of the accounts: a distributed store has the wallets on other nodes. */
async function readWallets(
  reader: Reader,
  accountIds: readonly string[],
): Promise<ReadonlyMap<string, Row>> {
  if (accountIds.length === 0) return new Map();
  const rows = await reader.all(
    `select account_id, promo, paid, held, owed, frozen_at from wallet
     where account_id in (${accountIds.map(() => "?").join(", ")})`,
    accountIds,
  );
  return new Map(rows.map((row) => [text(row, "account_id"), row]));
}

const NO_MATCH = " and account.id = ''";

function searchCondition(search: string): readonly [sql: string, values: readonly Value[]] {
  if (search === "") return ["", []];
  if (/^acct_[0-9a-z]*$/.test(search))
    return [" and account.id >= ? and account.id <= ?", [search, prefixUpperBound("acct", search)]];
  if (/^key_[0-9a-z]*$/.test(search))
    return [
      " and account.id in (select account_id from api_key where id >= ? and id <= ?)",
      [search, prefixUpperBound("key", search)],
    ];
  if (/^inv_[0-9a-z]+$/.test(search))
    return [" and account.id in (select account_id from invoice where id = ?)", [search]];
  // The store has only the prefix of a raw key.
  if (/-rt-/.test(search))
    return [
      " and account.id in (select account_id from api_key where prefix = ?)",
      [search.slice(0, KEY_PREFIX_LENGTH)],
    ];
  if (!search.includes("@")) return [NO_MATCH, []];
  const email = search.toLowerCase();
  return [
    ` and (lower(account.email) = ? or account.id in (select membership.account_id from membership
       join person on person.id = membership.person_id where lower(person.email) = ?))`,
    [email, email],
  ];
}

/** The greatest id with this prefix. In the collation of both databases, digits sort before letters. */
function prefixUpperBound(prefix: string, start: string): string {
  return start.padEnd(prefix.length + 1 + ID_SUFFIX_LENGTH, "z");
}

function toAccountSummary(row: Row, wallet: Row): AccountSummary {
  const owed = toNano(wallet["owed"]);
  return {
    id: text(row, "id"),
    name: textOrNull(row, "name"),
    email: textOrNull(row, "email"),
    createdAt: integer(row, "created_at"),
    claimedAt: integerOrNull(row, "claimed_at"),
    lastUsedAt: integerOrNull(row, "last_used_at"),
    state: integerOrNull(wallet, "frozen_at") !== null ? "frozen" : owed > 0n ? "owing" : "active",
    promo: toNano(wallet["promo"]),
    paid: toNano(wallet["paid"]),
    held: toNano(wallet["held"]),
    owed,
    liveKeys: integer(row, "live_keys"),
    members: integer(row, "members"),
  };
}
