import { describe, expect, test, setDefaultTimeout } from "bun:test";
import { rmSync } from "node:fs";
import path from "node:path";
import { migrate, missingMigrations } from "../../src/store/migrate.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { startScript } from "../support/script-process.ts";
import { newStoreLocation, openStoreAt, openStore, STORE_KINDS } from "../support/stores/stores.ts";

// The first test starts PostgreSQL, possibly on a busy machine.
setDefaultTimeout(120_000);

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

    test("an interrupted migration is completed at the next start", async () => {
      const location = await newStoreLocation(kind);
      const db = openStoreAt(location);
      expect(await missingMigrations(db)).not.toEqual([]);
      await db.write((tx) =>
        tx.run(
          "create table wallet (account_id text primary key, promo bigint not null, paid bigint not null, held bigint not null)",
        ),
      );
      expect(await migrate(db, 1)).not.toEqual([]);
      expect(await missingMigrations(db)).toEqual([]);
      expect(await db.all("select id from transfer")).toEqual([]);
      await db.close();
      if (kind === "sqlite") rmSync(location.address, { recursive: true });
    });

    test("accepts a store that recorded migrations by their former names", async () => {
      const { db, close } = await openStore(kind);
      const rename = "update migration set name = ? where name = ?";
      await db.write((tx) => tx.run(rename, ["0001-house", "0001-core"]));
      await db.write((tx) => tx.run(rename, ["0012-loose-ends", "0012-write-offs"]));
      expect(await missingMigrations(db)).toEqual([]);
      expect(await migrate(db, 2)).toEqual([]);
      await close();
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

test("a rebuilt table of SQLite keeps its rows, also if the rebuild is interrupted", async () => {
  const { db, close } = await openStore("sqlite");
  const insert = (id: string): Promise<number> =>
    db.write((tx) =>
      tx.run(
        "insert into transfer (account_id, id, from_account, to_account, amount, kind, ref, at) values ('a', ?, 'a:paid', 'b', 9007199254740993, 'usage', 'r', 1)",
        [id],
      ),
    );
  await insert("one");
  await db.write((tx) => tx.run("delete from migration where name = '0029-row-order'"));
  // The second rebuild fails, so that the first one must be undone.
  await db.write((tx) => tx.run("create table new_usage_record (id text primary key)"));
  expect(await rejectionMessage(migrate(db, 2))).toMatch(/new_usage_record already exists/);
  expect(await db.all("select id from transfer")).toEqual([{ id: "one" }]);
  expect(await missingMigrations(db)).toEqual(["0029-row-order"]);
  await db.write((tx) => tx.run("drop table new_usage_record"));
  expect(await migrate(db, 3)).toEqual(["0029-row-order"]);
  await insert("two");
  expect(
    await db.all("select rowid, id, cast(amount as text) as amount from transfer order by rowid"),
  ).toEqual([
    { rowid: 1, id: "one", amount: "9007199254740993" },
    { rowid: 2, id: "two", amount: "9007199254740993" },
  ]);
  expect(await rejectionMessage(insert("two"))).toMatch(/UNIQUE/);
  await close();
});
