// A PostgreSQL server for tests: the test runner's, or one of this process that stops with it.

import { spawn } from "node:child_process";
import path from "node:path";
import { SQL } from "bun";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { atProcessEnd } from "../process-end.ts";
import { schemaHash } from "../source/schema-hash.ts";
import { CITUS_URL, distributedPostgres, dropDistributed } from "./citus.ts";

const START_TIMEOUT_MS = 180_000;
const ATTEMPTS_MAX = 50;
const RETRY_MS = 100;

let server: Promise<string> | undefined;
let template: Promise<string> | undefined;
let connection: Promise<SQL> | undefined;

/** The URL of a new, empty database. */
export async function testPostgres(): Promise<string> {
  return createDatabase(await serverUrl(), "template1");
}

/** A database with the current schema, and a connection of its own that empties it. */
interface PooledDatabase {
  readonly url: string;
  readonly client: SQL;
  readonly shape: string;
}

/** A larger table is truncated, so that a database that is used again does not keep the space of deleted rows. */
const DELETED_BYTES_MAX = 262_144;
/** Changes with the names and numbers of tables, columns, indexes, triggers, functions and migrations. */
const SHAPE = `select concat_ws(' ', count(*), sum(hashtext(relname::text)::bigint), sum(relnatts),
  (select count(*) from pg_trigger), (select count(*) from pg_proc),
  (select string_agg(name, ',' order by name) from migration)) as shape from pg_class`;
const EMPTY = `do $$ declare name text; size bigint; begin
  perform pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid();
  for name, size in select relname, pg_relation_size(oid) from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 'migration'
  loop
    if size > ${DELETED_BYTES_MAX} then execute format('truncate %I', name);
    elsif size > 0 then execute format('delete from %I', name);
    end if;
  end loop;
end $$`;

const emptied: PooledDatabase[] = [];
const inUse = new Map<string, PooledDatabase>();

/**
 * The URL of a database with the current schema and no rows: one that a test of this process gave back, or a copy of a template,
 * which takes four times as little as migrating.
 */
export async function migratedPostgres(): Promise<string> {
  if (CITUS_URL !== "") return distributedPostgres();
  const pooled = emptied.pop() ?? (await createPooled());
  inUse.set(pooled.url, pooled);
  return pooled.url;
}

async function createPooled(): Promise<PooledDatabase> {
  const server = await serverUrl();
  if (template === undefined) atProcessEnd(dropAll);
  template ??= findTemplate(server);
  const url = await createDatabase(server, await template);
  const client = await connect(url);
  return { url, client, shape: await shapeOf(client) };
}

async function shapeOf(client: SQL): Promise<string> {
  const [row] = await client.unsafe(SHAPE);
  return String(row?.shape);
}

/** Gives a database back: it is emptied for the next test, or dropped if its schema has changed. */
export async function dropPostgres(database: string): Promise<void> {
  if (CITUS_URL !== "") return dropDistributed(database);
  const pooled = inUse.get(database);
  inUse.delete(database);
  if (pooled !== undefined) {
    // The query fails if the table of migrations is gone.
    if ((await shapeOf(pooled.client).catch(() => "")) === pooled.shape) {
      await pooled.client.unsafe(EMPTY);
      emptied.push(pooled);
      return;
    }
    await pooled.client.close();
  }
  const name = new URL(database).pathname.slice(1);
  const client = await admin(await serverUrl());
  await client.unsafe(`drop database if exists ${name} with (force)`);
}

/** The server does not keep the databases of a whole run. */
async function dropAll(): Promise<void> {
  for (const { url, client } of [...emptied.splice(0), ...inUse.values()]) {
    inUse.delete(url);
    await client.close();
    await dropPostgres(url);
  }
}

/** One connection per process, because opening one costs PostgreSQL more than a statement. */
function admin(url: string): Promise<SQL> {
  connection ??= connect(url);
  return connection;
}

function serverUrl(): Promise<string> {
  const given = process.env["POSTERN_TEST_DATABASE_URL"];
  server ??= given ? Promise.resolve(given) : startServer();
  return server;
}

async function createDatabase(url: string, from: string): Promise<string> {
  const name = `test_${process.pid}_${crypto.randomUUID().replaceAll("-", "")}`;
  const client = await admin(url);
  // Twice as fast as the default strategy, which copies through the write-ahead log.
  await client.unsafe(`create database ${name} template ${from} strategy file_copy`);
  return databaseUrl(url, name);
}

// Created by the first process, under a lock.
async function findTemplate(url: string): Promise<string> {
  const name = `migrated_${schemaHash()}`;
  const client = await admin(url);
  await client.unsafe("select pg_advisory_lock(1)");
  try {
    const existing = await client.unsafe(
      `select datistemplate from pg_database where datname = '${name}'`,
    );
    if (existing[0]?.datistemplate === true) return name;
    await client.unsafe(`drop database if exists ${name}`);
    await client.unsafe(`create database ${name}`);
    const db = openPostgres(databaseUrl(url, name));
    await migrate(db, 1);
    await db.close();
    await client.unsafe(`alter database ${name} with is_template true`);
    return name;
  } finally {
    await client.unsafe("select pg_advisory_unlock(1)");
  }
}

// Retries, because a listening server may still be starting up.
export async function connect(url: string): Promise<SQL> {
  for (let attempt = 1; ; attempt++) {
    const client = new SQL(url, { max: 1, idleTimeout: 0 });
    try {
      await client.unsafe("select 1");
      return client;
    } catch (error) {
      await client.close();
      if (attempt >= ATTEMPTS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

function databaseUrl(url: string, name: string): string {
  const database = new URL(url);
  database.pathname = `/${name}`;
  return database.href;
}

function startServer(): Promise<string> {
  const script = path.join(import.meta.dirname, "postgres-server.mjs");
  const child = spawn("node", [script, "log_min_messages=panic"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("PostgreSQL did not start")), START_TIMEOUT_MS);
    let printed = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (chunk: string) => {
      printed += chunk;
      const line = printed.indexOf("\n");
      if (line < 0) return;
      clearTimeout(timer);
      // Does not keep this process alive; the server stops when its standard input closes.
      child.unref();
      for (const pipe of [child.stdin, child.stdout])
        if ("unref" in pipe && typeof pipe.unref === "function") pipe.unref();
      resolve(printed.slice(0, line));
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`PostgreSQL exited with ${code}`)));
  });
}
