// Which folder reads and writes which table, by the SQL in the source.

import { describe, expect, test } from "bun:test";
import { IMPORT_LAW, READ_LAW } from "../support/source/import-law.ts";
import { filesUnder, moduleOf } from "../support/source/source-files.ts";
import { readSchema } from "../support/source/storage-schema.ts";
import {
  accessByTable,
  ERASURE_FILE,
  ownerOf,
  schemaTables,
  TABLE_OWNERS,
  tableAccess,
} from "../support/source/table-law.ts";

const source = filesUnder("src");
/** Each table is named as data elsewhere: in the calls of the store, in the list of erasures, in the checks of the ledger. */
const TABLE_NAMES_AS_DATA = [
  "src/account-data/erasure.ts",
  "src/store/all-accounts.ts",
  "src/store/clamp-due.ts",
  "src/store/move/move-store.ts",
  "src/store/move/store-tables.ts",
  "src/store/postgres-bulk.ts",
  "src/store/reencrypt-rows.ts",
  "src/store/sqlite.ts",
  "src/verification/check-tables.ts",
  "src/verification/verify.ts",
];

/** Names that say the same in every table. */
const EXPLAINS_ITSELF =
  /^(?:id|at|(?:account|key|person|invoice|payment|method|event|webhook|response|actor)_id|\w+_at|\w+_tokens|\w+_nano|\w+_ms|\w+_cents|(?:latency|first_token)_\d+|name|email|status|state|type|model|provider|api|currency|processor|network|browser|tries|calls|errors|completed|failures|byok|url|description|action|challenge|number|bytes|address|category|process|deltas|last4|\w+_reason|\w+_spent|\w+_start)$/;

describe("tables", () => {
  const writers = accessByTable(
    source.filter(({ path }) => path !== ERASURE_FILE),
    "writes",
  );

  for (const [folder, owned] of Object.entries(TABLE_OWNERS))
    test(`only ${folder} writes ${owned.join(", ")}`, () => {
      expect(
        owned.map((table) => `${table}: ${[...(writers.get(table) ?? [])].join(", ")}`),
      ).toEqual(owned.map((table) => `${table}: ${folder}`));
    });

  test("every table has one owner", () => {
    expect(Object.values(TABLE_OWNERS).flat().toSorted()).toEqual(schemaTables().toSorted());
  });

  for (const folder of Object.keys(IMPORT_LAW)) {
    const allowed = READ_LAW[folder] ?? [];
    test(`the SQL of ${folder} reads ${allowed.length === 0 ? "no table of another folder" : `only its tables and those of ${allowed.join(", ")}`}`, () => {
      const hidden = source
        .filter(({ path }) => moduleOf(path) === folder)
        .flatMap((file) =>
          [...tableAccess(file).reads]
            .filter((table) => ![folder, ...allowed].includes(ownerOf(table) ?? ""))
            .map((table) => `${file.path} reads ${table}`),
        )
        .filter((line) => folder !== "account-data" || !line.startsWith(ERASURE_FILE));
      expect(hidden).toEqual([]);
    });
  }

  test("a row of reads names only earlier rows of the import law, and only what is read", () => {
    const order = Object.keys(IMPORT_LAW);
    const readers = accessByTable(source, "reads");
    const isRead = (owner: string, folder: string): boolean =>
      (TABLE_OWNERS[owner] ?? []).some((table) => readers.get(table)?.has(folder) === true);
    const wrong = Object.entries(READ_LAW).flatMap(([folder, owners]) =>
      owners
        .filter((owner) => order.indexOf(owner) >= order.indexOf(folder) || !isRead(owner, folder))
        .map((owner) => `${folder} reads ${owner}`),
    );
    expect(wrong).toEqual([]);
  });

  test("SQL names its tables, so that a search finds every reader of a table", () => {
    const variable = /\b(?:from|join|into|update) \$\{(?:\w*\.)?(?:table|name|TABLE)\b/;
    const files = source.filter(({ text }) => variable.test(text)).map(({ path }) => path);
    expect(files).toEqual(TABLE_NAMES_AS_DATA);
  });

  test("every table and column that does not explain itself has a comment in the schema file", () => {
    const tables = readSchema();
    expect([...tables.map(({ name }) => name), "migration"].toSorted()).toEqual(
      schemaTables().toSorted(),
    );
    const bare = tables.flatMap(({ name, columns }) =>
      columns
        .filter(([column, , meaning]) => meaning === "" && !EXPLAINS_ITSELF.test(column))
        .map(([column]) => `${name}.${column}`),
    );
    expect(bare).toEqual([]);
  });

  test("finds reads and writes in the text of a file", () => {
    const text = `// select from invoice
      const SQL = "select * from wallet left join transfer on true where exists (select 1 from hold)";
      tx.lockMany("spender", "key_id", keys); tx.run(\`update account set name = ?\`);
      tx.run("delete from person"); tx.insertMany(\n "audit", columns, rows); const from = event;`;
    const { reads, writes } = tableAccess({ path: "src/x/y.ts", text, lines: [] });
    expect([...reads].toSorted()).toEqual(["hold", "spender", "transfer", "wallet"]);
    expect([...writes].toSorted()).toEqual(["account", "audit", "person"]);
  });
});
