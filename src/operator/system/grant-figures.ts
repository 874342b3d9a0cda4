// Starting credit and new accounts of the day, and the networks that created most accounts.

import { minIdAt } from "../../base/id.ts";
import { type Nano, toNano } from "../../base/money/money.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Reader, text } from "../../store/db.ts";

const NETWORKS_MAX = 50;
/** The starting credit of accounts since an id. */
const IS_FIRST_GRANT = "account_id >= ? and id = 'start.' || account_id";

export interface GrantFigures {
  readonly granted: Nano;
  readonly accounts: number;
  readonly claimed: number;
  readonly frozen: number;
}

export interface NetworkUse {
  readonly network: string;
  readonly accounts: number;
  readonly claimed: number;
  readonly promo: Nano;
  readonly paid: Nano;
  /** The newest account. */
  readonly latest: string;
}

export interface VerifiedAgentUse {
  readonly url: string;
  /** `accounts`, `claimed` and `granted` are those of the current UTC day. */
  readonly accounts: number;
  readonly claimed: number;
  readonly granted: Nano;
  /** The accounts of the current hour. */
  readonly accountsThisHour: number;
  /** The newest account of the day. */
  readonly latest: string | null;
}

/** The figures of the current UTC day. */
export async function readGrantFigures(reader: Reader, now: number): Promise<GrantFigures> {
  const from = now - (now % DAY_MS);
  const created = await reader.get(
    "select count(*) as accounts, count(claimed_at) as claimed from account where id >= ?",
    [minIdAt("acct", from)],
  );
  const granted = await reader.get(
    `select cast(coalesce(sum(amount), 0) as text) as granted from transfer where ${IS_FIRST_GRANT}`,
    [minIdAt("acct", from)],
  );
  const frozen = await reader.get(
    "select count(*) as frozen from wallet where frozen_at is not null",
    [],
  );
  return {
    granted: toNano(granted?.["granted"] ?? "0"),
    accounts: Number(created?.["accounts"] ?? 0),
    claimed: Number(created?.["claimed"] ?? 0),
    frozen: Number(frozen?.["frozen"] ?? 0),
  };
}

export async function readNetworkUse(reader: Reader, from: number): Promise<readonly NetworkUse[]> {
  const rows = await reader.all(
    `with balance as materialized (select account_id, promo, paid from wallet where account_id >= ?)
     select created_from, count(*) as accounts, count(claimed_at) as claimed, max(id) as latest,
       cast(coalesce(sum(balance.promo), 0) as text) as promo, cast(coalesce(sum(balance.paid), 0) as text) as paid
     from account left join balance on balance.account_id = account.id
     where account.id >= ? group by created_from order by 2 desc, 1 limit ?`,
    [minIdAt("acct", from), minIdAt("acct", from), NETWORKS_MAX],
  );
  return rows.map((row) => ({
    network: text(row, "created_from"),
    accounts: Number(row["accounts"]),
    claimed: Number(row["claimed"]),
    promo: toNano(row["promo"]),
    paid: toNano(row["paid"]),
    latest: text(row, "latest"),
  }));
}

/** The use of each listed operator, and of operators that were listed earlier in the day. */
export async function readVerifiedAgentUse(
  reader: Reader,
  listed: readonly string[],
  now: number,
): Promise<readonly VerifiedAgentUse[]> {
  const today = minIdAt("acct", now - (now % DAY_MS));
  const rows = await reader.all(
    `with first_grant as materialized (select account_id, amount from transfer where ${IS_FIRST_GRANT})
     select verified_agent, count(*) as accounts, count(claimed_at) as claimed, max(account.id) as latest,
       sum(case when account.id >= ? then 1 else 0 end) as this_hour,
       cast(coalesce(sum(first_grant.amount), 0) as text) as granted
     from account left join first_grant on first_grant.account_id = account.id
     where verified_agent is not null and account.id >= ? group by verified_agent order by 1`,
    [today, minIdAt("acct", now - (now % HOUR_MS)), today],
  );
  const uses = rows.map((row) => ({
    url: text(row, "verified_agent"),
    accounts: Number(row["accounts"]),
    claimed: Number(row["claimed"]),
    granted: toNano(row["granted"]),
    accountsThisHour: Number(row["this_hour"]),
    latest: text(row, "latest"),
  }));
  const unused = listed
    .filter((url) => uses.every((use) => use.url !== url))
    .map((url) => ({
      url,
      accounts: 0,
      claimed: 0,
      granted: 0n,
      accountsThisHour: 0,
      latest: null,
    }));
  return [...uses, ...unused];
}
