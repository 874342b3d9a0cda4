// A primary and its streaming standby, which tests kill, restart, cut off and promote.

import { SQL } from "bun";
import { eventually } from "../eventually.ts";
import { startServerGroup } from "./server-group.ts";

export const PRIMARY = 0;
export const STANDBY = 1;
type ServerIndex = typeof PRIMARY | typeof STANDBY;

export interface PostgresCluster {
  /** Of both servers, with `target_session_attrs=read-write`. */
  readonly url: string;
  readonly urlOf: (server: ServerIndex) => string;
  /** `kill` ends all processes of a server at once. */
  readonly run: (command: "start" | "kill" | "restart", server: ServerIndex) => Promise<void>;
  /** The standby gets no commit from now on. */
  readonly stopReplication: () => Promise<void>;
  readonly promoteStandby: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export async function startPostgresCluster(
  replication: "synchronous" | "asynchronous",
): Promise<PostgresCluster> {
  const group = await startServerGroup("postgres-cluster.mjs", [replication]);
  const urls: readonly string[] = JSON.parse(group.firstLine);
  const [primary = "", standby = ""] = urls;
  await startReplication(primary);
  const hosts = urls.map((url) => new URL(url).host).join(",");
  return {
    url: `${primary.replace(new URL(primary).host, hosts)}?target_session_attrs=read-write`,
    urlOf: (server) => (server === PRIMARY ? primary : standby),
    run: group.run,
    stopReplication: () =>
      withAdmin(standby, async (admin) => {
        await admin.unsafe("alter system set primary_conninfo = ''");
        await admin.unsafe("select pg_reload_conf()");
        await eventually(
          async () => (await admin.unsafe("select 1 from pg_stat_wal_receiver")).length === 0,
        );
      }),
    promoteStandby: async () => {
      await withAdmin(standby, (admin) => admin.unsafe("select pg_promote()"));
    },
    stop: group.stop,
  };
}

async function startReplication(primary: string): Promise<void> {
  const isStreaming = (admin: SQL): Promise<readonly unknown[]> =>
    admin.unsafe("select 1 from pg_stat_replication where state = 'streaming'");
  await eventually(() =>
    withAdmin(primary, (admin) =>
      admin.unsafe("select pg_create_physical_replication_slot('standby')"),
    ),
  );
  await eventually(async () => (await withAdmin(primary, isStreaming)).length === 1);
}

async function withAdmin<T>(url: string, work: (admin: SQL) => Promise<T>): Promise<T> {
  const admin = new SQL(url, { max: 1 });
  try {
    return await work(admin);
  } finally {
    await admin.close({ timeout: 0 });
  }
}
