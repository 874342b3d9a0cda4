// The workspace names of account ids, for lists that have only the ids.

import { type Reader, text } from "../../store/db.ts";

/** Names by account id; an account without a name has no entry. */
export type AccountNames = ReadonlyMap<string, string>;

export async function readAccountNames(
  reader: Reader,
  accountIds: readonly (string | null)[],
): Promise<AccountNames> {
  const ids = [...new Set(accountIds)].filter((id) => id !== null);
  if (ids.length === 0) return new Map();
  const marks = ids.map(() => "?").join(", ");
  const rows = await reader.all(
    `select id, name from account where name is not null and id in (${marks})`,
    ids,
  );
  return new Map(rows.map((row) => [text(row, "id"), text(row, "name")]));
}
