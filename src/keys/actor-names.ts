// The names of people and keys for lists that have only their ids, such as audit entries.

import { type Reader, text, textOrNull } from "../store/db.ts";

/** Names by id. An unknown id has no entry. */
export type ActorNames = ReadonlyMap<string, string>;

interface IdOfAccount {
  readonly accountId: string;
  readonly id: string;
}

export async function readActorNames(
  reader: Reader,
  accountId: string,
  ids: readonly (string | null)[],
): Promise<ActorNames> {
  return await readNames(
    reader,
    ids.flatMap((id) => (id === null ? [] : [{ accountId, id }])),
  );
}

/** The names of the actors and targets of entries, which may be of several accounts. */
export async function readEntryNames(
  reader: Reader,
  entries: readonly {
    readonly accountId: string | null;
    readonly actor: { readonly id: string };
    readonly target: string | null;
  }[],
): Promise<ActorNames> {
  return await readNames(
    reader,
    entries.flatMap(({ accountId, actor, target }) =>
      [actor.id, target].flatMap((id) => (id === null ? [] : [{ accountId: accountId ?? "", id }])),
    ),
  );
}

async function readNames(reader: Reader, ids: readonly IdOfAccount[]): Promise<ActorNames> {
  const people = [...new Set(ids.map(({ id }) => id).filter((id) => id.startsWith("usr_")))];
  const keys = ids.filter(({ id }) => id.startsWith("key_"));
  const keysByAccount = Map.groupBy(keys, ({ accountId }) => accountId);
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
          `select id, name, last4 from api_key where ${[...keysByAccount.values()]
            .map((own) => `account_id = ? and id in (${own.map(() => "?").join(", ")})`)
            .join(" or ")}`,
          [...keysByAccount].flatMap(([accountId, own]) =>
            [accountId].concat(own.map(({ id }) => id)),
          ),
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
