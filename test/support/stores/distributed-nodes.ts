// Nodes of a distributed store that tests make unreachable: on Citus, by an address that refuses connections, or on a
// PostgreSQL that only looks like Citus, whose functions are there, and whose rows are all on one server.

import { readAllAccounts } from "../../../src/store/all-accounts.ts";
import { type Db, integer, text } from "../../../src/store/db.ts";
import { DISTRIBUTED_TABLES, distributionStatements } from "../../../src/store/distribution.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { CITUS_URL } from "./citus.ts";
import { openStore, TEST_POOL_SIZE } from "./stores.ts";

/** Of Citus, on a database without it. It has no shards, so locks on them (`do`) do nothing. */
export const LOOKALIKE: readonly string[] = [
  "create table pg_dist_partition (logicalrelid regclass primary key, partmethod text not null)",
  "insert into pg_dist_partition values ('pg_dist_partition', 'n')",
  `create function create_distributed_table(name regclass, key text, colocate_with text) returns void language sql
     as $$ insert into pg_dist_partition values (name, 'h') $$`,
  `create function citus_add_local_table_to_metadata(name regclass) returns void language sql
     as $$ insert into pg_dist_partition values (name, 'n') $$`,
  `create function run_command_on_placements(name regclass, command text, out success boolean, out result text)
     language plpgsql as $$ begin success := true;
     if command not like 'do %' then execute format(command, name) into result; end if; end $$`,
];

/** Each account is a node of its own. Its rows cannot be read or written while its id is in `unreachable`. */
const NODES: readonly string[] = [
  "create table unreachable (node text primary key)",
  `create function is_reachable(account text) returns boolean language plpgsql stable as $$ begin
     if not exists (select 1 from unreachable where node = account) then return true; end if;
     if current_setting('test.skips_nodes', true) = 'on' then return false; end if;
     raise exception 'connection to the remote node failed' using errcode = '08006'; end $$`,
  `create or replace function run_command_on_placements(name regclass, command text, out success boolean, out result text)
     language plpgsql as $$ begin perform set_config('test.skips_nodes', 'on', true);
     success := true;
     if command not like 'do %' then execute format(command, name) into result; end if;
     perform set_config('test.skips_nodes', 'off', true); end $$`,
  ...DISTRIBUTED_TABLES.flatMap((table) => [
    `alter table ${table} rename to ${table}_rows`,
    `create view ${table} as select * from ${table}_rows where is_reachable(account_id) with check option`,
    `insert into pg_dist_partition values ('${table}', 'h')`,
  ]),
];

export interface DistributedNodes {
  readonly databaseUrl: string;
  readonly db: Db;
  /** Where the rows of an account are. */
  readonly nodeOf: (accountId: string) => Promise<string>;
  readonly takeDown: (node: string) => Promise<void>;
  readonly bringUp: (node: string) => Promise<void>;
  /** The accounts that have holds, on the nodes that respond. */
  readonly holders: () => Promise<readonly string[]>;
  readonly close: () => Promise<void>;
}

export async function openDistributedNodes(): Promise<DistributedNodes> {
  const store = await openStore("postgres");
  const databaseUrl = store.location.address;
  if (CITUS_URL === "") {
    await runAll(store.db, [...LOOKALIKE, ...NODES]);
    await runAll(store.db, await distributionStatements(store.db));
  }
  const db = openPostgres(databaseUrl, { poolSize: TEST_POOL_SIZE, isDistributed: true });
  const run = (sql: string, value: string): Promise<unknown> =>
    store.db.write((tx) => tx.run(sql, [value]));
  return {
    databaseUrl,
    db,
    ...(CITUS_URL === "" ? nodesOfLookalike(run) : nodesOfCitus(store.db, run)),
    holders: async () => {
      const rows = await readAllAccounts(db, "hold", "select distinct account_id from hold");
      return rows.map((row) => text(row, "account_id"));
    },
    close: async () => {
      await db.close();
      await store.close();
    },
  };
}

type Nodes = Pick<DistributedNodes, "nodeOf" | "takeDown" | "bringUp">;
type Run = (sql: string, value: string) => Promise<unknown>;

function nodesOfLookalike(run: Run): Nodes {
  return {
    nodeOf: async (accountId) => accountId,
    takeDown: async (node) => void (await run("insert into unreachable values (?)", node)),
    bringUp: async (node) => void (await run("delete from unreachable where node = ?", node)),
  };
}

/** No server listens on this port. */
const CLOSED_PORT = 1;

function nodesOfCitus(db: Db, run: Run): Nodes {
  return {
    nodeOf: async (accountId) => {
      const row = await db.get(
        `select nodeport from pg_dist_shard_placement
         where shardid = get_shard_id_for_distribution_column('wallet', cast(? as text))`,
        [accountId],
      );
      return row === undefined ? "" : String(integer(row, "nodeport"));
    },
    takeDown: async (node) =>
      void (await run(
        `update pg_dist_node set nodeport = ${CLOSED_PORT} where nodeport = cast(? as int)`,
        node,
      )),
    bringUp: async (node) =>
      void (await run(
        `update pg_dist_node set nodeport = cast(? as int) where nodeport = ${CLOSED_PORT}`,
        node,
      )),
  };
}

async function runAll(db: Db, statements: readonly string[]): Promise<void> {
  await db.write(async (tx) => {
    for (const statement of statements) await tx.run(statement);
  });
}
