// The names of people and keys for lists that have only their ids.

import type { Reader } from "../store/db.ts";
import { text, textOrNull } from "../store/db.ts";

/** Names by id; an id that is not found has none. */
export type ActorNames = ReadonlyMap<string, string>;

export async function readActorNames(
  reader: Reader,
  accountId: string,
  ids: readonly (string | null)[],
): Promise<ActorNames> {
  const given = [...new Set(ids)].filter((id) => id !== null);
  const people = given.filter((id) => id.startsWith("usr_"));
  const keys = given.filter((id) => id.startsWith("key_"));
  const [personRows, keyRows] = await Promise.all([
    people.length === 0
      ? []
      : reader.all(
          `select id, email from person where id in (${people.map(() => "?").join(", ")})`,
          people,
        ),
    keys.length === 0
      ? []
      : reader.all(
          `select id, name, last4 from api_key where account_id = ? and id in (${keys.map(() => "?").join(", ")})`,
          [accountId, ...keys],
        ),
  ]);
  return new Map([
    ...personRows.map((row) => [text(row, "id"), text(row, "email")] as const),
    ...keyRows.map(
      (row) =>
        [text(row, "id"), textOrNull(row, "name") ?? `Unnamed key …${text(row, "last4")}`] as const,
    ),
  ]);
}
