// DATABASE_URL with several hosts, connection poolers, and what a commit survives.

import { describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { type Db, isUnavailable } from "../../src/store/db.ts";
import { findDurabilityRisks } from "../../src/store/durability.ts";
import { openStore } from "../../src/store/open.ts";
import { parsePostgresUrl } from "../../src/store/postgres-url.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { eventually } from "../support/eventually.ts";
import { testPostgres } from "../support/stores/postgres.ts";
import { startTransactionPooler } from "../support/transaction-pooler.ts";

async function withDb<T>(url: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = openPostgres(url);
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

describe("durability", () => {
  for (const parameters of ["", "?pgbouncer=true"])
    test(`commits are synchronous where the database turns that off${parameters && `, with ${parameters}`}`, async () => {
      const url = await testPostgres();
      const name = new URL(url).pathname.slice(1);
      await withDb(url, (db) => db.all(`alter database ${name} set synchronous_commit = off`));
      await withDb(url + parameters, async (db) => {
        const level = "show synchronous_commit";
        expect((await db.get(level))?.["synchronous_commit"]).toBe("off");
        const row = await db.write((tx) => tx.get(level));
        expect(row?.["synchronous_commit"]).toBe("on");
        const timeout = await db.write((tx) => tx.get("show lock_timeout"));
        expect(timeout?.["lock_timeout"]).toBe("2s");
      });
    });

  for (const parameters of ["", "?pgbouncer=true"])
    test(`a store that need not sync every commit syncs those to disk${parameters && `, with ${parameters}`}`, async () => {
      const db = openPostgres((await testPostgres()) + parameters, { syncsEveryCommit: false });
      const levelOf = async (...durability: ["disk" | "os_cache"] | []) =>
        (await db.write((tx) => tx.get("show synchronous_commit"), ...durability))?.[
          "synchronous_commit"
        ];
      expect(await levelOf("os_cache")).toBe("off");
      expect([await levelOf(), await levelOf("disk")]).toEqual(["on", "on"]);
      await db.close();
    });

  test("reports server settings that lose commits", async () => {
    await withDb(await testPostgres(), async (db) => {
      const settings = await db.get(
        "select current_setting('fsync') as fsync, current_setting('full_page_writes') as pages",
      );
      const messages = (await findDurabilityRisks(db)).map(({ message }) => message).join();
      expect(messages.includes("fsync=off")).toBe(settings?.["fsync"] === "off");
      expect(messages.includes("full_page_writes=off")).toBe(settings?.["pages"] === "off");
    });
  });

  test("warns of standbys of which none is synchronous", async () => {
    const reader = (standbys: number, names: string): Db => {
      const row = {
        fsync: "on",
        full_page_writes: "on",
        synchronous_standby_names: names,
        standbys,
      };
      // Only `get` is called.
      return { kind: "postgres", get: async () => row } as unknown as Db;
    };
    expect(await findDurabilityRisks(reader(0, ""))).toEqual([]);
    expect(await findDurabilityRisks(reader(1, "ANY 1 (*)"))).toEqual([]);
    const [risk] = await findDurabilityRisks(reader(1, ""));
    expect(risk?.message).toContain("no synchronous one");
  });
});

describe("several hosts", () => {
  test("uses the host that accepts writes", async () => {
    const { username, password, port, pathname } = new URL(await testPostgres());
    const url = `postgres://${username}:${password}@127.0.0.1:1,127.0.0.1:${port}${pathname}?target_session_attrs=read-write`;
    await withDb(url, async (db) => {
      await db.write((tx) => tx.run("create table thing (id text primary key)"));
      await db.write((tx) => tx.run("insert into thing values ('a')"));
      expect(await db.get("select count(*) as n from thing")).toEqual({ n: 1n });
    });
  });

  test("moves to another host when its own becomes read-only", async () => {
    const first = new URL(await testPostgres());
    const { username, password, port, pathname } = first;
    const url = `postgres://${username}:${password}@127.0.0.1:${port},localhost:${port}${pathname}`;
    await withDb(first.href, async (admin) => {
      await admin.write((tx) => tx.run("create table thing (id text primary key)"));
      await withDb(url, async (db) => {
        await db.write((tx) => tx.run("insert into thing values ('a')"));
        await admin.all(
          `alter database ${pathname.slice(1)} set default_transaction_read_only = on`,
        );
        await admin.all(
          "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
        );
        const refused = await db
          .write((tx) => tx.run("insert into thing values ('b')"))
          .catch((error: unknown) => error);
        expect(isUnavailable(refused)).toBe(true);
        await admin.all(`alter database ${pathname.slice(1)} reset default_transaction_read_only`);
        await eventually(async () => {
          const written = await db
            .write((tx) => tx.run("insert into thing values ('c')"))
            .catch(() => 0);
          return written === 1;
        });
      });
    });
  });

  test("says for each host why it cannot be used", async () => {
    const failure = await openStore(
      { databaseUrl: secret("postgres://u:p@127.0.0.1:1,127.0.0.1:2/db"), dataDir: "" },
      false,
    ).catch(String);
    expect(failure).toContain("PostgreSQL at 127.0.0.1:1,127.0.0.1:2 cannot be used");
    expect(failure).toContain("none of the hosts accepts writes (127.0.0.1:1: ");
  });

  test("reads hosts and parameters", () => {
    const { urls, usesPreparedStatements } = parsePostgresUrl(
      "postgres://u:p%23@a,b:6432/db?sslmode=require&target_session_attrs=primary&pgbouncer=true",
    );
    expect(urls).toEqual([
      "postgres://u:p%23@a/db?sslmode=require",
      "postgres://u:p%23@b:6432/db?sslmode=require",
    ]);
    expect(usesPreparedStatements).toBe(false);
    expect(() => parsePostgresUrl("mysql://a/b")).toThrow("must begin with postgres://");
    expect(() => parsePostgresUrl("postgres://u:p#@a:1/db")).toThrow("must be a URL such as");
    expect(() => parsePostgresUrl("postgres://a/b?target_session_attrs=standby")).toThrow(
      "Postern writes: use read-write",
    );
  });
});

describe("a pooler in transaction mode", () => {
  const writeAndRead = async (db: Db): Promise<void> => {
    await db.write((tx) => tx.run("create table if not exists thing (id text primary key)"));
    const ids = Array.from({ length: 30 }, (_, index) => `t${index}`);
    await Promise.all(
      ids.map((id) => db.write((tx) => tx.run("insert into thing values (?)", [id]))),
    );
    const found = await Promise.all(
      ids.map((id, index) =>
        index % 2 === 0
          ? db.get("select id from thing where id = ?", [id])
          : db.get("select id, ? as other from thing where id = ?", ["x", id]),
      ),
    );
    expect(found.map((row) => row?.["id"])).toEqual(ids);
  };

  test("is detected, and then no named prepared statement is used", async () => {
    const databaseUrl = await testPostgres();
    const db = await openStore(
      { databaseUrl: secret(await startTransactionPooler(databaseUrl)), dataDir: "" },
      false,
    );
    await writeAndRead(db);
    expect(await db.all("select name from pg_prepared_statements")).toEqual([]);
    await db.close();
  });

  test("can be named in the URL", async () => {
    const url = new URL(await startTransactionPooler(await testPostgres()));
    url.searchParams.set("pgbouncer", "true");
    await withDb(url.href, writeAndRead);
  });

  test("is not seen where each connection has its own server process", async () => {
    const db = await openStore({ databaseUrl: secret(await testPostgres()), dataDir: "" }, false);
    await db.get("select ? as one", ["1"]);
    expect(await db.all("select name from pg_prepared_statements")).not.toEqual([]);
    await db.close();
  });
});
