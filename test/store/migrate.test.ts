import { describe, expect, test, setDefaultTimeout } from "bun:test";
import { rmSync } from "node:fs";
import path from "node:path";
import { migrate, missingMigrations } from "../../src/store/migrate.ts";
import { startScript } from "../support/script-process.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { newStoreLocation, openStoreAt, openStore, STORE_KINDS } from "../support/stores/stores.ts";

// The first test starts PostgreSQL, possibly on a busy machine.
setDefaultTimeout(60_000);

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
