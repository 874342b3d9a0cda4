// A second process for the store's tests: `migrate <kind> <address>`, `lock <folder>` or `write <folder>`.

import type { Db } from "../../src/store/db.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { openStoreAt } from "../support/stores/stores.ts";

function openOrExit(folder: string): Db {
  try {
    return openSqlite({ folder, lock: true });
  } catch (error) {
    console.log(String(error));
    process.exit(1);
  }
}

const [verb = "", first = "", second = ""] = process.argv.slice(2);

if (verb === "migrate") {
  const db = openStoreAt({ kind: first === "postgres" ? "postgres" : "sqlite", address: second });
  console.log("ready");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const done = await migrate(db, Date.now());
  console.log(`migrated ${done.length}`);
  await db.close();
  process.exit(0);
}
if (verb === "lock") {
  const db = openOrExit(first);
  console.log("locked");
  await new Promise((resolve) => process.stdin.once("end", resolve).resume());
  await db.close();
  process.exit(0);
}
if (verb === "write") {
  const db = openSqlite({ folder: first, lock: false });
  await db.write((tx) => tx.run("create table note (id bigint)"));
  console.log("written");
  await new Promise((resolve) => process.stdin.once("end", resolve).resume());
  await db.close();
  process.exit(0);
}
