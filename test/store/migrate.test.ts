import { describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import path from "node:path";
import { type Row, text } from "../../src/store/db.ts";
import { migrate, type Migration, MIGRATIONS, missingMigrations } from "../../src/store/migrate.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { startScript } from "../support/script-process.ts";
import { newStoreLocation, openStoreAt, openStore, STORE_KINDS } from "../support/stores/stores.ts";

const STORE_PROCESS = path.join(import.meta.dirname, "store-process.ts");

for (const kind of STORE_KINDS) {
  describe(`migrations on ${kind}`, () => {
    test("three processes that start at once on an empty store create one schema", async () => {
      for (let round = 0; round < 2; round++) {
        const location = await newStoreLocation(kind);
        const children = Array.from({ length: 3 }, () =>
          startScript(STORE_PROCESS, ["migrate", location.kind, location.address]),
        );
        await Promise.all(children.map((child) => child.waitForLine("ready")));
        for (const child of children) child.process.stdin.write("go\n");
        await Promise.all(children.map((child) => child.waitForLine("migrated")));
        expect(await Promise.all(children.map((child) => child.exitCode))).toEqual([0, 0, 0]);
        const db = openStoreAt(location);
        expect(await missingMigrations(db)).toEqual([]);
        expect(await migrate(db, 2)).toEqual([]);
        expect(await db.all("select account_id from wallet")).toEqual([]);
        await db.close();
        if (kind === "sqlite") rmSync(location.address, { recursive: true });
      }
    });

    test("a later migration is applied once, and one that fails leaves the store as it was", async () => {
      const { db, close } = await openStore(kind);
      await db.write((tx) =>
        tx.run("insert into email_opt_out (person_id, category) values ('person_1', 'product')"),
      );
      const failing = {
        ...addNote("0002-note"),
        [kind]: `${NOTE_SQL}\n\ninsert into nowhere (id) values (1);\n`,
      };
      await rejectionMessage(migrate(db, 2, { migrations: [...MIGRATIONS, failing] }));
      expect(await missingMigrations(db, [...MIGRATIONS, failing])).toEqual(["0002-note"]);
      expect(await rejectionMessage(db.all("select note from email_opt_out"))).toMatch(/note/);

      const later = [...MIGRATIONS, addNote("0002-note")];
      const applied = await Promise.all([
        migrate(db, 3, { migrations: later }),
        migrate(db, 3, { migrations: later }),
      ]);
      expect(applied.flat()).toEqual(["0002-note"]);
      expect(await db.all("select person_id, note from email_opt_out")).toEqual([
        { person_id: "person_1", note: "; none -- yet" },
      ]);
      expect(await migrate(db, 4, { migrations: later })).toEqual([]);
      await close();
    });

    test("rejects a store of a development version in one line that says what to do", async () => {
      const location = await newStoreLocation(kind);
      const db = openStoreAt(location);
      await db.write(async (tx) => {
        await tx.run("create table migration (name text primary key, applied_at bigint not null)");
        await tx.run("create table wallet (account_id text primary key)");
        await tx.run("insert into migration (name, applied_at) values ('0001-core', 1)");
      });
      for (const attempt of [() => migrate(db, 2), () => missingMigrations(db)])
        expect(await rejectionMessage(attempt())).toBe(
          "the store was made by a development version of Postern (0001-core), and there is no migration from it: set POSTERN_DATA_DIR to a new folder or DATABASE_URL to a new database, or run the version that made it",
        );
      await db.close();
      if (kind === "sqlite") rmSync(location.address, { recursive: true });
    });

    test("creates no tables beside those of another program", async () => {
      const location = await newStoreLocation(kind);
      const db = openStoreAt(location);
      await db.write((tx) => tx.run("create table session (token text primary key)"));
      expect(await rejectionMessage(migrate(db, 2))).toMatch(
        /tables of another program \(.*session.*\): set DATABASE_URL to an empty database/,
      );
      expect(await rejectionMessage(db.all("select * from account"))).toMatch(/account/);
      await db.close();
      if (kind === "sqlite") rmSync(location.address, { recursive: true });
    });

    test("rejects a store of a newer version and says what to do", async () => {
      const { db, close } = await openStore(kind);
      await db.write((tx) =>
        tx.run("insert into migration (name, applied_at) values ('9999-future', 1)"),
      );
      for (const attempt of [() => migrate(db, 2), () => missingMigrations(db)])
        expect(await rejectionMessage(attempt())).toMatch(
          /newer Postern \(9999-future\): run that version/,
        );
      await close();
    });
  });
}

test("both stores have the same columns", async () => {
  const [sqlite, postgres] = [await openStore("sqlite"), await openStore("postgres")];
  const ofSqlite = await sqlite.db.all(
    `select m.name || '.' || c.name || ' ' || lower(c.type) || case when c."notnull" or c.pk then ' not null' else '' end as line
     from sqlite_master m, pragma_table_info(m.name) c
     where m.type = 'table'`,
  );
  const ofPostgres = await postgres.db.all(
    `select table_name || '.' || column_name || ' ' || data_type || case when is_nullable = 'NO' then ' not null' else '' end as line
     from information_schema.columns where table_schema = current_schema()`,
  );
  const lines = (rows: readonly Row[]): readonly string[] =>
    rows.map((row) => text(row, "line")).toSorted();
  expect(lines(ofSqlite)).toEqual(lines(ofPostgres));
  await sqlite.close();
  await postgres.close();
});

const NOTE_SQL =
  "-- A comment; with a semicolon\nalter table email_opt_out add column note text; -- why\n\nupdate email_opt_out set note = '; none ' || '-' || '- yet';";

function addNote(name: string): Migration {
  return { name, sqlite: NOTE_SQL, postgres: NOTE_SQL };
}
