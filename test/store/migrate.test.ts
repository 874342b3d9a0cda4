import { describe, expect, test, setDefaultTimeout } from "bun:test";
import { rmSync } from "node:fs";
import path from "node:path";
import { migrate, missingMigrations } from "../../src/store/migrate.ts";
import { startScript } from "../support/script-process.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { newStoreLocation, openStoreAt, openStore, STORE_KINDS } from "../support/stores/stores.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const OTHER = path.join(import.meta.dirname, "store-process.ts");

for (const kind of STORE_KINDS) {
  describe(`migrations on ${kind}`, () => {
    test("three processes that start at once on an empty store end in the same schema", async () => {
      for (let round = 0; round < 2; round++) {
        const place = await newStoreLocation(kind);
        const children = Array.from({ length: 3 }, () =>
          startScript(OTHER, ["migrate", place.kind, place.address]),
        );
        await Promise.all(children.map((child) => child.waitForLine("ready")));
        for (const child of children) child.process.stdin.write("go\n");
        await Promise.all(children.map((child) => child.waitForLine("migrated")));
        expect(await Promise.all(children.map((child) => child.exitCode))).toEqual([0, 0, 0]);
        const db = openStoreAt(place);
        expect(await missingMigrations(db)).toEqual([]);
        expect(await migrate(db, 2)).toEqual([]);
        expect(await db.all("select account_id from wallet")).toEqual([]);
        await db.close();
        if (kind === "sqlite") rmSync(place.address, { recursive: true });
      }
    });

    test("a migration that ended half-way is finished by the next start", async () => {
      const place = await newStoreLocation(kind);
      const db = openStoreAt(place);
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
      if (kind === "sqlite") rmSync(place.address, { recursive: true });
    });

    test("a store from a newer version is refused, and says what to do", async () => {
      const { db, close } = await openStore(kind);
      await db.write((tx) =>
        tx.run("insert into migration (name, applied_at) values ('9999-future', 1)"),
      );
      for (const refused of [() => migrate(db, 2), () => missingMigrations(db)])
        expect(await rejectionMessage(refused())).toMatch(
          /newer Postern \(9999-future\); run that version/,
        );
      await close();
    });
  });
}
