// The processes that have holds. Holds are rows of accounts and processes are not, so no statement joins them: a distributed
// store has them on different nodes.

import { readAllAccounts } from "../store/all-accounts.ts";
import { integer, type Reader, text } from "../store/db.ts";

/** A process in one of its runs. */
export interface HoldOwner {
  readonly process: string;
  readonly epoch: number;
}

export interface RegisteredProcess {
  readonly name: string;
  readonly epoch: number;
  /** The last heartbeat of the process. */
  readonly seenAt: number;
}

const SELECT_OWNERS = "select distinct process, epoch from hold where process <> ''";

/** Reads the owners of the holds of one account, or of all. */
export async function readHoldOwners(
  reader: Reader,
  accountId?: string,
): Promise<readonly HoldOwner[]> {
  const rows =
    accountId === undefined
      ? await readAllAccounts(reader, "hold", SELECT_OWNERS)
      : await reader.all(`${SELECT_OWNERS} and account_id = ?`, [accountId]);
  return rows.map((row) => ({ process: text(row, "process"), epoch: integer(row, "epoch") }));
}

/** Reads the processes with these names that are registered, in order. */
export async function readProcesses(
  reader: Reader,
  names: Iterable<string>,
): Promise<readonly RegisteredProcess[]> {
  const unique = [...new Set(names)];
  if (unique.length === 0) return [];
  const rows = await reader.all(
    `select name, epoch, seen_at from process where name in (${unique.map(() => "?").join(", ")}) order by name`,
    unique,
  );
  return rows.map((row) => ({
    name: text(row, "name"),
    epoch: integer(row, "epoch"),
    seenAt: integer(row, "seen_at"),
  }));
}
