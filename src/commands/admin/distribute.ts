// `postern admin distribute`: places the tables of a store on the nodes of a Citus cluster.

import { findRunningProcesses } from "../../ledger/running-processes.ts";
import type { Db } from "../../store/db.ts";
import { distributionStatements, hasCitus } from "../../store/distribution.ts";
import { type CliEnv, type Command, type ParsedArgs } from "../command.ts";
import { withStore } from "../with-store.ts";

export const distributeCommand: Command = {
  summary: "Print the statements that distribute the tables over the nodes of Citus",
  details:
    "Tables of accounts are distributed by account, and all others stay on the coordinator. Stop every gateway before --run.\nRun it again after an upgrade: it prints the tables that are not placed yet.",
  positionals: [],
  flags: { run: { type: "boolean", description: "Execute the statements." } },
  run: (args, cli) => withStore(cli, (db) => distribute(db, args, cli)),
};

async function distribute(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  if (db.kind === "sqlite")
    throw new Error("The store is SQLite: set DATABASE_URL to the coordinator of a Citus cluster.");
  if (!(await hasCitus(db)))
    throw new Error(
      "The database has no Citus: run create extension citus in it on every node, then select citus_set_coordinator_host(…) and citus_add_node(…) on the coordinator.",
    );
  const statements = await distributionStatements(db);
  if (statements.length === 0) cli.print("All tables are placed.");
  if (!args.has("run")) {
    for (const statement of statements) cli.print(`${statement};`);
    return 0;
  }
  const running = await findRunningProcesses(db, { now: cli.now() });
  if (running.length > 0)
    throw new Error(`Stop the gateways first. Running: ${running.join(", ")}.`);
  for (const statement of statements) {
    await db.get(statement);
    cli.print(`${statement};`);
  }
  return 0;
}
