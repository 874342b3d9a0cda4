// Distributed stores for tests, if POSTERN_TEST_CITUS_URL names the coordinator of a Citus cluster: see citus-cluster.mjs. Every
// test of a PostgreSQL store then gets one.

import { SQL } from "bun";
import { distributionStatements } from "../../../src/store/distribution.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { schemaHash } from "../source/schema-hash.ts";

/** Empty without a cluster. */
export const CITUS_URL = process.env["POSTERN_TEST_CITUS_URL"] ?? "";
/** Few, because each one is a table and a connection. */
const SHARDS = 4;

/** The URL of a new database on all nodes of the cluster, with the current schema, distributed. */
export async function distributedPostgres(clusterUrl = CITUS_URL): Promise<string> {
  const nodes = await nodesOf(clusterUrl);
  const template = await findTemplate(clusterUrl, nodes);
  const name = `test_${process.pid}_${crypto.randomUUID().replaceAll("-", "")}`;
  for (const node of nodes)
    await run(urlOf(clusterUrl, node), [
      `create database ${name} template ${template} strategy file_copy`,
    ]);
  const [coordinator] = nodes;
  if (coordinator === undefined) throw new Error("the cluster has no coordinator");
  return urlOf(clusterUrl, coordinator, name);
}

/** A database that is copied on each node, which takes a small part of the time of distributing its tables. */
async function findTemplate(clusterUrl: string, nodes: readonly Node[]): Promise<string> {
  const name = `distributed_${schemaHash()}`;
  const client = new SQL(clusterUrl, { max: 1 });
  try {
    await client.unsafe("select pg_advisory_lock(2)");
    const existing = await client.unsafe(
      `select 1 from pg_database where datname = '${name}' and datistemplate`,
    );
    if (existing.length > 0) return name;
    await createTemplate(clusterUrl, nodes, name);
    return name;
  } finally {
    await client.close({ timeout: 0 });
  }
}

async function createTemplate(
  clusterUrl: string,
  nodes: readonly Node[],
  name: string,
): Promise<void> {
  const [coordinator, ...workers] = nodes;
  if (coordinator === undefined) throw new Error("the cluster has no coordinator");
  for (const node of nodes) {
    await run(urlOf(clusterUrl, node), [
      `drop database if exists ${name} with (force)`,
      `create database ${name}`,
    ]);
    await run(urlOf(clusterUrl, node, name), ["create extension citus"]);
  }
  const url = urlOf(clusterUrl, coordinator, name);
  await run(url, [
    `select citus_set_coordinator_host('${coordinator.host}', ${coordinator.port})`,
    ...workers.map(({ host, port }) => `select citus_add_node('${host}', ${port})`),
    `alter database ${name} set citus.shard_count = ${SHARDS}`,
  ]);
  await distribute(url);
  // A template has no connections, and Citus has one to each database. The coordinator's is marked last.
  for (const node of [...workers, coordinator])
    await run(urlOf(clusterUrl, node), [
      `alter database ${name} with allow_connections false is_template true`,
      `select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '${name}'`,
    ]);
}

/** Migrates and distributes the database. */
async function distribute(url: string): Promise<void> {
  const db = openPostgres(url);
  await migrate(db, 1);
  for (const statement of await distributionStatements(db)) await db.get(statement);
  await db.close();
}

export async function dropDistributed(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  for (const node of await nodesOf(CITUS_URL))
    await run(urlOf(CITUS_URL, node), [`drop database if exists ${name} with (force)`]);
}

export async function workerUrls(): Promise<readonly string[]> {
  const [, ...workers] = await nodesOf(CITUS_URL);
  return workers.map((node) => urlOf(CITUS_URL, node));
}

interface Node {
  readonly host: string;
  readonly port: number;
}

/** The coordinator first. */
async function nodesOf(url: string): Promise<readonly Node[]> {
  const [rows = []] = await run(url, [
    "select nodename, nodeport from pg_dist_node order by groupid",
  ]);
  return rows.map((row) => ({ host: String(row.nodename), port: Number(row.nodeport) }));
}

function urlOf(clusterUrl: string, { host, port }: Node, database?: string): string {
  const url = new URL(clusterUrl);
  url.hostname = host;
  url.port = String(port);
  if (database !== undefined) url.pathname = `/${database}`;
  return url.href;
}

interface NodeRow {
  readonly nodename?: unknown;
  readonly nodeport?: unknown;
}

async function run(
  url: string,
  statements: readonly string[],
): Promise<readonly (readonly NodeRow[])[]> {
  const client = new SQL(url, { max: 1 });
  try {
    const results: (readonly NodeRow[])[] = [];
    for (const statement of statements) results.push(await client.unsafe(statement));
    return results;
  } finally {
    await client.close({ timeout: 0 });
  }
}
