// Settings of a PostgreSQL server under which a commit that was acknowledged can be lost.

import { type Db, integer, text } from "./db.ts";

export interface DurabilityRisk {
  readonly message: string;
  readonly hint: string;
}

/** Nothing for SQLite, which always syncs its commits. */
export async function findDurabilityRisks(db: Db): Promise<readonly DurabilityRisk[]> {
  if (db.kind === "sqlite") return [];
  const row = await db.get(
    `select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_standby_names') as synchronous_standby_names,
       (select count(*) from pg_stat_replication) as standbys`,
  );
  if (row === undefined) return [];
  const risks: DurabilityRisk[] = [];
  if (text(row, "fsync") === "off")
    risks.push({
      message: "PostgreSQL runs with fsync=off: a crash of its machine can lose charges",
      hint: "Set fsync = on in postgresql.conf.",
    });
  if (text(row, "full_page_writes") === "off")
    risks.push({
      message: "PostgreSQL runs with full_page_writes=off: a crash can damage the database",
      hint: "Set full_page_writes = on in postgresql.conf, unless the file system writes whole pages.",
    });
  if (integer(row, "standbys") > 0 && text(row, "synchronous_standby_names") === "")
    risks.push({
      message: "PostgreSQL has standbys and no synchronous one: a promotion loses the last charges",
      hint: "Set synchronous_standby_names, see docs/site/operations.md.",
    });
  return risks;
}
