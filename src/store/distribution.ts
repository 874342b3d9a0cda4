// Where the rows of a distributed PostgreSQL (Citus) are. The tables below are distributed by account, so that a call changes
// rows of one node. All other tables are on the coordinator, and known to Citus: a transaction on both commits in two phases.

import { type Db, type Reader, text } from "./db.ts";

/** The rows that calls write. `account_id` is in their primary keys, and in each statement of a call. */
export const DISTRIBUTED_TABLES: readonly string[] = [
  "wallet",
  "spender",
  "hold",
  "swept_hold",
  "agent_session",
  "transfer",
  "usage_record",
  "usage_pending",
  "usage_rollup",
  "usage_archive",
  "session_usage",
  "refused_call",
  "idempotent_answer",
];

/** Decides the node of an account; all tables are split the same way. */
const [FIRST_TABLE = ""] = DISTRIBUTED_TABLES;

/** The statements that place the tables which are not placed yet. The first ones check that Citus is ready. */
export async function distributionStatements(reader: Reader): Promise<readonly string[]> {
  const rows = await reader.all(
    `select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace
       and oid not in (select logicalrelid from pg_dist_partition) order by relname`,
  );
  const missing = new Set(rows.map((row) => text(row, "relname")));
  const distributed = DISTRIBUTED_TABLES.filter((table) => missing.delete(table));
  return [
    ...distributed.map((table) => {
      const colocation = table === FIRST_TABLE ? "none" : FIRST_TABLE;
      return `select create_distributed_table('${table}', 'account_id', colocate_with => '${colocation}')`;
    }),
    ...Array.from(missing, (table) => `select citus_add_local_table_to_metadata('${table}')`),
  ];
}

/** Whether the database has the extension. */
export async function hasCitus(reader: Reader): Promise<boolean> {
  const row = await reader.get("select to_regclass('pg_dist_partition') is not null as has_citus");
  return row?.["has_citus"] === true;
}

/** Whether the tables of accounts are distributed. */
export async function isDistributedStore(db: Db): Promise<boolean> {
  if (!(await hasCitus(db))) return false;
  const row = await db.get(
    "select 1 as one from pg_dist_partition where logicalrelid = to_regclass(?) and partmethod = 'h'",
    [FIRST_TABLE],
  );
  return row !== undefined;
}
