// Ranges of accounts, which a verification reads one after the other.

import { type Reader, text } from "../store/db.ts";

/** `after` is exclusive, `upTo` inclusive; undefined without a bound. */
export interface AccountRange {
  readonly after?: string | undefined;
  readonly upTo?: string | undefined;
}

export const ALL_ACCOUNTS: AccountRange = {};

export interface SqlPart {
  readonly sql: string;
  readonly params: readonly string[];
}

/** Together, the ranges have every account id, also those without a wallet. */
export async function* accountRanges(
  reader: Reader,
  accountsPerRange: number,
): AsyncGenerator<AccountRange> {
  for (let after: string | undefined; ;) {
    const last = await reader.get(
      `select account_id from wallet where account_id > ? order by account_id limit 1 offset ${accountsPerRange - 1}`,
      [after ?? ""],
    );
    const upTo = last && text(last, "account_id");
    yield { after, upTo };
    if (upTo === undefined) return;
    after = upTo;
  }
}

export function rangeCondition(column: string, { after, upTo }: AccountRange): SqlPart {
  const bounds = [
    ...(after === undefined ? [] : [{ sql: `${column} > ?`, param: after }]),
    ...(upTo === undefined ? [] : [{ sql: `${column} <= ?`, param: upTo }]),
  ];
  return {
    sql: bounds.length === 0 ? "true" : bounds.map(({ sql }) => sql).join(" and "),
    params: bounds.map(({ param }) => param),
  };
}
