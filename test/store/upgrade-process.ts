// Upgrades a store with a later migration, as a newer version does at its start: the store test kills it in the middle.

import { secret } from "../../src/base/crypto/secret.ts";
import { upgradeStore } from "../../src/server/upgrade-store.ts";
import { MIGRATIONS } from "../../src/store/migrate.ts";

const [, , address = "", isSlow = ""] = process.argv;
const ADD_COLUMN = "alter table email_opt_out add column note text;\n";
const SLOW = {
  sqlite:
    "create table slow as with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000) select i, hex(randomblob(50)) as text from n;\n",
  postgres: "select pg_sleep(600);\n",
};

const applied = await upgradeStore(
  address.startsWith("postgres:")
    ? { databaseUrl: secret(address), dataDir: "", poolSize: 2 }
    : { dataDir: address },
  {
    now: Date.now,
    migrations: [
      ...MIGRATIONS,
      {
        name: "0002-note",
        sqlite: ADD_COLUMN + (isSlow === "slow" ? SLOW.sqlite : ""),
        postgres: ADD_COLUMN + (isSlow === "slow" ? SLOW.postgres : ""),
      },
    ],
    watchMs: 200,
    onApplied: () => {},
    onBackup: (file) => process.stdout.write(`${file}\n`),
  },
);
process.stdout.write(`applied ${applied.join()}\n`);
