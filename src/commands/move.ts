// `postern move`: copies the store of the settings to the other kind of store and proves that the copy is complete.

import { secret } from "../base/crypto/secret.ts";
import { lazy } from "../base/lazy.ts";
import type { Config } from "../config/config.ts";
import { findRunningProcesses } from "../ledger/running-processes.ts";
import { type Db, text } from "../store/db.ts";
import { clearMovedMark, isNewStore, markAsMoved, missingMigrations } from "../store/migrate.ts";
import { discardMove, finishMove, isUnfinished, moveStore } from "../store/move/move-store.ts";
import { openStore, type StoreSettings } from "../store/open.ts";
import { isPostgresUrl } from "../store/postgres-url.ts";
import { verifyLedger, type Verification } from "../verification/verify.ts";
import {
  booleanFlag,
  type CliEnv,
  type Command,
  type ParsedArgs,
  requiredFlag,
  usageFault,
} from "./command.ts";
import { startProgress } from "./progress.ts";
import { describeMissingStore, withConfig } from "./with-store.ts";

export const moveCommand: Command = {
  summary: "Copy the store to PostgreSQL or SQLite, and verify the copy",
  details:
    "Stop the gateway first. The target must be empty. All rows are compared, and the ledger is verified on both sides. The\nsource keeps its rows and is marked as moved: no gateway starts on it. If the command is interrupted, run it again: it\ncontinues.\nExit code 1 if the copy is not complete or differs.",
  positionals: [],
  flags: {
    to: requiredFlag("<target>", "A postgres:// URL, or a folder for SQLite."),
    "start-over": booleanFlag("Delete the unfinished copy in the target, and begin again."),
  },
  run: (args, cli) => withConfig(cli, (config) => moveCommandWith(config, args, cli)),
};

async function moveCommandWith(config: Config, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const settings = targetSettings(args.value("to") ?? "");
  const isFromSqlite = config.store.databaseUrl === undefined;
  if (isFromSqlite === (settings.databaseUrl === undefined))
    throw usageFault(
      isFromSqlite
        ? "The source is SQLite, the store of the settings, so --to must be a postgres:// URL. To copy SQLite to SQLite, use postern admin backup."
        : "The source is PostgreSQL, the store of the settings, so --to must be a folder. Unset DATABASE_URL to move from SQLite; to copy PostgreSQL, use pg_dump.",
    );
  const absent = describeMissingStore(config.store);
  if (absent !== undefined) throw new Error(absent);
  const { poolSize } = config.store;
  return await withStores(config.store, { ...settings, poolSize }, (source, target) =>
    copyAndVerify({ source, target, config, startOver: args.has("start-over") }, cli),
  );
}

function targetSettings(target: string): StoreSettings {
  if (target === "") throw usageFault("--to must be a postgres:// URL or a folder.");
  if (!/^[a-z]+:\/\//i.test(target)) return { dataDir: target };
  if (isPostgresUrl(target)) return { databaseUrl: secret(target), dataDir: "" };
  throw usageFault(
    "--to must be a URL such as postgres://user:password@host:5432/database, or a folder.",
  );
}

// SQLite folders are locked, so that no gateway uses them.
async function withStores(
  from: StoreSettings,
  to: StoreSettings,
  run: (source: Db, target: Db) => Promise<number>,
): Promise<number> {
  const source = await openStore(from, true);
  try {
    const target = await openStore(to, true);
    try {
      return await run(source, target);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

interface MoveContext {
  readonly source: Db;
  readonly target: Db;
  readonly config: Config;
  readonly startOver: boolean;
}

async function copyAndVerify(context: MoveContext, cli: CliEnv): Promise<number> {
  const { source, target, config, startOver } = context;
  // A crash between the two marks at the end leaves both.
  if ((await isUnfinished(target)) && !(await isNewStore(source))) await clearMovedMark(source);
  const problem = await sourceProblem(source, cli.now());
  if (problem !== undefined) throw new Error(problem);
  if (startOver) await discardMove(target);
  const options = {
    unit: "rows",
    whenInterrupted: "Run the same command again: it continues. --start-over begins anew.",
  };
  const copying = startProgress(cli, { ...options, verb: "copied" });
  const comparing = lazy(() => {
    copying.end();
    return startProgress(cli, { ...options, verb: "compared" });
  });
  const tables = await moveStore({
    source,
    target,
    sourceName: describeSource(config.store),
    now: cli.now(),
    onCopied: copying.update,
    onCompared: (...row) => comparing().update(...row),
  });
  comparing().end();
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  cli.print(`Compared ${tables.length} tables with ${rows} rows: all are equal.`);
  const [before, after] = [await verifyLedger(source), await verifyLedger(target)];
  const [moneyBefore, moneyAfter] = [await sumMoney(source), await sumMoney(target)];
  if (summaryOf(before) !== summaryOf(after) || moneyBefore !== moneyAfter)
    throw new Error(
      `The ledgers differ.\n  source  ${moneyBefore}; ${summaryOf(before)}\n  target  ${moneyAfter}; ${summaryOf(after)}`,
    );
  await markAsMoved(source, cli.now());
  await finishMove(target);
  cli.print(`Ledger of both stores: ${moneyAfter}; ${summaryOf(after)}`);
  if (after.problemCount > 0)
    cli.printError("The source had these differences before: see postern admin verify-ledger.");
  cli.print(nextSteps(target.kind));
  return 0;
}

async function sourceProblem(source: Db, now: number): Promise<string | undefined> {
  const missing = await missingMigrations(source);
  if (missing.length > 0)
    return `Migrations are not applied to the source: ${missing.join(", ")}. Run postern migrate first.`;
  if (source.kind === "sqlite") return undefined;
  const running = await findRunningProcesses(source, { now });
  return running.length === 0
    ? undefined
    : `Gateways use the source: ${running.join(", ")}. Stop all of them, and run the command again.`;
}

/** Without user and password. */
function describeSource({ databaseUrl, dataDir }: StoreSettings): string {
  if (databaseUrl === undefined) return `SQLite in ${dataDir}`;
  const { host, pathname } = new URL(databaseUrl.reveal());
  return `PostgreSQL at ${host}${pathname}`;
}

function summaryOf({ checked, problems, problemCount }: Verification): string {
  const counts = Object.entries(checked).map(([name, count]) => `${name} ${count}`);
  const lines = problems.toSorted().map((line) => `\n    ${line}`);
  return `${counts.join(", ")}, differences ${problemCount}${lines.join("")}`;
}

async function sumMoney(db: Db): Promise<string> {
  const wallets = await db.get(
    "select cast(coalesce(sum(promo + paid), 0) as text) as balances, cast(coalesce(sum(held), 0) as text) as held, cast(coalesce(sum(owed), 0) as text) as owed from wallet",
  );
  const transfers = await db.get(`select cast(
      (select coalesce(sum(amount), 0) from transfer)
      + (select coalesce(sum(promo_nano + paid_nano + overrun_nano), 0) from usage_record) as text) as amount`);
  if (wallets === undefined || transfers === undefined) throw new Error("a sum returned no row");
  return `balances ${text(wallets, "balances")}, held ${text(wallets, "held")}, owed ${text(wallets, "owed")}, transferred ${text(transfers, "amount")} nano-dollars`;
}

function nextSteps(kind: Db["kind"]): string {
  const setting =
    kind === "postgres"
      ? "Set DATABASE_URL to the target"
      : "Unset DATABASE_URL and set POSTERN_DATA_DIR to the target";
  return `The move is complete. ${setting}, keep POSTERN_SECRET, and start the gateway. The source is marked as moved: a gateway starts on it only with postern serve --force.`;
}
