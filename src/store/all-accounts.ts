// Reads rows of all accounts for background work. On a distributed store, the rows of nodes that are down are left out, so
// that the work goes on for the accounts of the others.

import { isUnavailable, type Reader, type Row, text, type Tx } from "./db.ts";

/** `sql` reads `from <table>` once, and its rows are JSON: integers are exact up to 2^53. */
export async function readAllAccounts(
  reader: Reader,
  table: string,
  sql: string,
  params: readonly (string | number)[] = [],
): Promise<readonly Row[]> {
  if (reader.isDistributed !== true) return reader.all(sql, params);
  let index = 0;
  const literals = sql.replaceAll("?", () => literal(params[index++] ?? ""));
  // Each placement of the table gets the statement on a connection of its own, with its own name for `%s`.
  const onPlacement = literals.replace(`from ${table}`, `from %s as ${table}`);
  const command = `select coalesce(json_agg(row_of_shard), '[]') from (${onPlacement}) as row_of_shard`;
  const replies = await reader.all(
    "select result from run_command_on_placements(?::regclass, ?) where success",
    [table, command],
  );
  // Safe because PostgreSQL's json_agg wrote it.
  return replies.flatMap((reply) => JSON.parse(text(reply, "result")) as readonly Row[]);
}

/** Whether the error may be that of one node, whose accounts wait for a later run. */
export function isOfOneNode(reader: Reader, error: unknown): boolean {
  return reader.isDistributed === true && isUnavailable(error);
}

/** Longer than Citus takes to end a commit that a crash interrupted: a minute, unless its settings say otherwise. */
const INTERRUPTED_COMMIT_MAX_MS = 300_000;

/**
 * A lock on a distributed table does not lock its shards. This waits for the commits that a crash interrupted between two nodes:
 * until Citus ends them, one node has their changes of this table and another has not.
 */
export async function awaitInterruptedCommits(tx: Tx, table: string): Promise<void> {
  if (tx.isDistributed !== true) return;
  const command = `do $do$ begin
      perform set_config('citus.enable_manual_changes_to_shards', 'on', true), set_config('lock_timeout', '${INTERRUPTED_COMMIT_MAX_MS}', true);
      lock table %s in share mode;
    end $do$`;
  const failed = await tx.get(
    "select result from run_command_on_placements(?::regclass, ?) where not success",
    [table, command],
  );
  if (failed !== undefined)
    throw new Error(`a node did not lock ${table}: ${text(failed, "result")}`);
}

/** For work that a job repeats: a node that is down must not keep a gateway from starting. */
export async function unlessNodeIsDown(reader: Reader, work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isOfOneNode(reader, error)) throw error;
  }
}

/** The command is a format string, so `%` is doubled. */
function literal(value: string | number): string {
  return typeof value === "number"
    ? String(value)
    : `'${value.replaceAll("'", "''").replaceAll("%", "%%")}'`;
}
