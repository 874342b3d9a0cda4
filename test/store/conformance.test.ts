// The behavior that every module relies on, on both stores.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  bytesOrNull,
  type Column,
  integer,
  isDuplicate,
  type Row,
  text,
} from "../../src/store/db.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const COLUMNS: readonly Column[] = ["id:text", "body:text", "n:bigint"];
const LARGEST = 2n ** 63n - 1n;
const UNUSUAL_TEXTS = [
  "",
  " ",
  "NULL",
  "null",
  "it's",
  `say "hi"`,
  `back\\slash \\" and \\\\`,
  "{a,b}",
  "$1 ? :x",
  "-- not a comment ; select 1",
  "line\nline\r\n\ttab",
  "é ü 中文 العربية 👩‍👩‍👧 \u{10FFFF} \u200b\ufeff",
  "\u0001\u001f\u007f",
  "x".repeat(100_000),
];

describeEachStore((kind, open) => {
  describe(`the store on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
      await store.db.write(async (tx) => {
        await tx.run("create table thing (id text primary key, body text, n bigint)");
        await tx.run(
          "create table owned (id text, account_id text, n bigint, primary key (id, account_id))",
        );
      });
    });
    afterAll(() => store.close());
    beforeEach(() =>
      store.db.write(async (tx) => {
        await tx.run("delete from thing");
        await tx.run("delete from owned");
      }),
    );

    const ids = async (): Promise<string[]> =>
      (await store.db.all("select id from thing order by id")).map((row) => text(row, "id"));
    const insert = (...names: string[]): Promise<void> =>
      store.db.write((tx) =>
        tx.insertMany(
          "thing",
          COLUMNS,
          names.map((id) => [id, null, 0]),
        ),
      );

    test("run returns the number of rows written", async () => {
      await insert("a", "b", "c");
      const [two, none] = await store.db.write(async (tx) => [
        await tx.run("update thing set n = ? where id <> ?", [7, "a"]),
        await tx.run("delete from thing where id = ?", ["missing"]),
      ]);
      expect([two, none]).toEqual([2, 0]);
      const row = await store.db.get("select n from thing where id = ?", ["b"]);
      expect(row === undefined ? row : integer(row, "n")).toBe(7);
      expect(await store.db.get("select n from thing where id = ?", ["missing"])).toBeUndefined();
      expect(await store.db.all("select id from thing where n > ? order by id", [6])).toHaveLength(
        2,
      );
    });

    test("unusual text is stored unchanged, by single and bulk inserts", async () => {
      await store.db.write(async (tx) => {
        await tx.insertMany(
          "thing",
          COLUMNS,
          UNUSUAL_TEXTS.map((body, index) => [`bulk${index}`, body, null]),
        );
        for (const [index, body] of UNUSUAL_TEXTS.entries())
          await tx.run("insert into thing (id, body, n) values (?, ?, ?)", [
            `one${index}`,
            body,
            null,
          ]);
      });
      for (const [index, body] of UNUSUAL_TEXTS.entries())
        for (const id of [`bulk${index}`, `one${index}`])
          expect((await store.db.get("select body from thing where id = ?", [id]))?.["body"]).toBe(
            body,
          );
    });

    test("bytes are stored unchanged, by single and bulk inserts", async () => {
      const bytes = Uint8Array.from({ length: 512 }, (_, index) => index);
      const values = [bytes, new Uint8Array(0), Buffer.from('\\x"{},null'), null];
      await store.db.write(async (tx) => {
        await tx.run("create table bytes_test (id text primary key, value bytea)");
        await tx.run("insert into bytes_test values ('one', ?)", [bytes]);
        await tx.insertMany(
          "bytes_test",
          ["id:text", "value:bytea"],
          values.map((value, index) => [`many ${index}`, value]),
        );
      });
      const rows = await store.db.all("select value from bytes_test order by id");
      expect(rows.map((row) => bytesOrNull(row, "value")?.join(" ") ?? null)).toEqual(
        [...values, bytes].map((value) => value?.join(" ") ?? null),
      );
    });

    test("unusual text works as a key of bulk operations", async () => {
      const keys = UNUSUAL_TEXTS.filter((body) => body.length < 1_000);
      await insert(...keys);
      const found = await store.db.write(async (tx) => {
        await tx.updateMany(
          "thing",
          ["id:text", "body:text"],
          keys.map((key) => [key, `of ${key}`]),
        );
        return [await tx.lockMany("thing", "id", keys), await tx.readMany("thing", "id", keys)];
      });
      for (const rows of found) {
        expect(rows.map((row) => String(row["id"])).toSorted()).toEqual(keys.toSorted());
        for (const row of rows) expect(row["body"]).toBe(`of ${String(row["id"])}`);
      }
      await store.db.write((tx) => tx.deleteMany("thing", "id", keys));
      expect(await ids()).toEqual([]);
    });

    test("each unusual text is stored unchanged by a bulk insert of its own", async () => {
      for (const [index, body] of [...UNUSUAL_TEXTS, JSON.stringify(UNUSUAL_TEXTS)].entries()) {
        await store.db.write((tx) => tx.insertMany("thing", COLUMNS, [[`${index}`, body, 7]]));
        const row = await store.db.get("select body from thing where id = ?", [`${index}`]);
        expect(row?.["body"]).toBe(body);
      }
    });

    test("a lone surrogate is stored as the replacement character", async () => {
      await store.db.write((tx) => tx.insertMany("thing", COLUMNS, [["a", "x\ud800y", null]]));
      expect((await store.db.get("select body from thing"))?.["body"]).toBe("x\ufffdy");
    });

    test("integers at the limits of 64 bits are stored exactly", async () => {
      const numbers = [0n, -1n, 2n ** 53n - 1n, 2n ** 53n + 1n, LARGEST, -LARGEST];
      await store.db.write((tx) =>
        tx.insertMany(
          "thing",
          COLUMNS,
          numbers.map((n, index) => [`bulk${index}`, null, n]),
        ),
      );
      for (const [index, n] of numbers.entries())
        await store.db.write((tx) =>
          tx.run("insert into thing (id, n) values (?, ?)", [`one${index}`, n]),
        );
      for (const [index, n] of numbers.entries())
        for (const id of [`bulk${index}`, `one${index}`])
          expect(
            (await store.db.get("select cast(n as text) as n from thing where id = ?", [id]))?.[
              "n"
            ],
          ).toBe(String(n));
    });

    for (const [what, value] of [
      ["an integer above 64 bits", LARGEST + 1n],
      ["an integer below 64 bits", -LARGEST - 2n],
      ["a fraction", 1.5],
      ["NaN", Number.NaN],
      ["an inexact number", 2 ** 53],
      ["a NUL in text", "a\u0000b"],
    ] as const) {
      test(`${what} is rejected, not changed`, async () => {
        const column = typeof value === "string" ? "body" : "n";
        const type = typeof value === "string" ? "text" : "bigint";
        const writes = [
          store.db.write((tx) =>
            tx.run(`insert into thing (id, ${column}) values ('a', ?)`, [value]),
          ),
          store.db.write((tx) =>
            tx.insertMany("thing", ["id:text", `${column}:${type}`], [["b", value]]),
          ),
        ];
        for (const write of await Promise.allSettled(writes)) {
          expect(write.status).toBe("rejected");
          expect(String(write.status === "rejected" ? write.reason : "")).toMatch(/exactly/);
        }
        expect(await ids()).toEqual([]);
      });
    }

    test("parameters can have any type in any statement", async () => {
      const now = 1_790_000_000_123;
      await store.db.write(async (tx) => {
        await tx.run("insert into thing (id, body, n) values (?, 'x', ?)", ["a", now]);
        await tx.run("insert into thing (id, body, n) values (?, ?, 1), (?, ?, ?)", [
          "b",
          null,
          "c",
          "7",
          null,
        ]);
        await tx.run("update thing set n = n + ? where id = ? and (n > ? or n < ?)", [
          1n,
          "a",
          now - 1,
          5,
        ]);
      });
      expect((await store.db.get("select n from thing where id = ?", ["a"]))?.["n"]).toEqual(
        kind === "sqlite" ? now + 1 : BigInt(now + 1),
      );
      expect(
        await store.db.all("select id from thing where id > ? order by id desc limit ?", ["a", 1]),
      ).toHaveLength(1);
      expect(
        await store.db.all("select id from thing where n >= ? and n < ?", [now, now + 5]),
      ).toHaveLength(1);
      expect(await store.db.all("select id from thing where n = ?", [1n])).toHaveLength(1);
      // The same statement with a number instead of a bigint.
      expect(await store.db.all("select id from thing where n = ?", [now + 1])).toHaveLength(1);
      expect(await store.db.all("select id from thing where n = ?", [1])).toHaveLength(1);
    });

    test("bulk operations over no rows do nothing", async () => {
      await insert("a");
      const rows = await store.db.write(async (tx) => {
        await tx.insertMany("thing", COLUMNS, []);
        await tx.updateMany("thing", COLUMNS, []);
        await tx.deleteMany("thing", "id", []);
        return [
          ...(await tx.lockMany("thing", "id", [])),
          ...(await tx.readMany("thing", "id", [])),
        ];
      });
      expect(rows).toEqual([]);
      expect(await ids()).toEqual(["a"]);
    });

    test("bulk operations handle ten thousand rows", async () => {
      const names = Array.from(
        { length: 10_000 },
        (_, index) => `row${String(index).padStart(5, "0")}`,
      );
      await insert(...names);
      const rows = await store.db.write(async (tx) => {
        await tx.updateMany(
          "thing",
          ["id:text", "n:bigint"],
          names.map((id, index) => [id, BigInt(index)]),
        );
        return tx.lockMany("thing", "id", names);
      });
      expect(rows.map((row) => integer(row, "n"))).toEqual(names.map((_, index) => index));
      await store.db.write((tx) => tx.deleteMany("thing", "id", names.slice(1)));
      expect(await ids()).toEqual(["row00000"]);
    });

    test("lockMany returns existing rows in key order", async () => {
      await insert("c", "a", "b");
      const rows = await store.db.write((tx) => tx.lockMany("thing", "id", ["a", "b", "c", "z"]));
      expect(rows.map((row) => row["id"])).toEqual(["a", "b", "c"]);
    });

    describe("bulk operations on a key with the account", () => {
      const KEY = "account_id, id";
      const OWNED: readonly Column[] = ["account_id:text", "id:text", "n:bigint"];
      const owned = async (): Promise<string[]> => {
        const rows = await store.db.all("select * from owned order by account_id, id");
        return rows.map(describeRow);
      };
      const describeRow = (row: Row): string =>
        `${text(row, "account_id")}/${text(row, "id")}=${integer(row, "n")}`;
      beforeEach(() =>
        store.db.write((tx) =>
          tx.insertMany("owned", OWNED, [
            ["a", "x", 1],
            ["a", "y", 2],
            ["b", "v", 3],
            ["b", "z", 4],
          ]),
        ),
      );

      test("lock and read only rows of that account", async () => {
        const reads = await store.db.write((tx) =>
          Promise.all(
            [tx.lockMany, tx.readMany].flatMap((read) => [
              read("owned", KEY, [
                ["b", "v"],
                ["a", "y"],
                ["a", "missing"],
              ]),
              read("owned", KEY, [["b", "z"]]),
              read("owned", KEY, [["a", "z"]]),
              read(
                "owned",
                KEY,
                [
                  ["b", "x"],
                  ["b", "v"],
                ],
                "id, account_id, n",
              ),
              read("owned", KEY, []),
            ]),
          ),
        );
        const expected = [["a/y=2", "b/v=3"], ["b/z=4"], [], ["b/v=3"], []];
        expect(reads.map((rows) => rows.map(describeRow).toSorted())).toEqual([
          ...expected,
          ...expected,
        ]);
      });

      test("update only rows of that account", async () => {
        await store.db.write((tx) =>
          tx.updateMany(
            "owned",
            OWNED,
            [
              ["b", "v", 30],
              ["a", "z", 40],
              ["a", "y", 20],
            ],
            2,
          ),
        );
        expect(await owned()).toEqual(["a/x=1", "a/y=20", "b/v=30", "b/z=4"]);
      });

      test("delete only rows of that account", async () => {
        const [some, one, none] = await store.db.write(async (tx) => [
          await tx.deleteMany(
            "owned",
            KEY,
            [
              ["b", "v"],
              ["a", "missing"],
              ["a", "y"],
            ],
            "id, account_id, n",
          ),
          await tx.deleteMany("owned", KEY, [["b", "z"]], "id, account_id, n"),
          await tx.deleteMany("owned", KEY, [["b", "x"]], "id, account_id, n"),
        ]);
        expect(some.map(describeRow).toSorted()).toEqual(["a/y=2", "b/v=3"]);
        expect(one.map(describeRow)).toEqual(["b/z=4"]);
        expect(none).toEqual([]);
        expect(await owned()).toEqual(["a/x=1"]);
      });

      test("handle unusual text", async () => {
        const keys = UNUSUAL_TEXTS.filter((body) => body.length < 1_000).map(
          (body) => [`account ${body}`, body] as const,
        );
        await store.db.write(async (tx) => {
          await tx.insertMany(
            "owned",
            OWNED,
            keys.map((key) => [...key, 7]),
          );
          expect(await tx.lockMany("owned", KEY, keys)).toHaveLength(keys.length);
          expect(await tx.readMany("owned", KEY, keys)).toHaveLength(keys.length);
          expect(await tx.deleteMany("owned", KEY, keys, "id")).toHaveLength(keys.length);
        });
        expect(await owned()).toHaveLength(4);
      });
    });

    test("deleteMany returns the columns of the rows that it deleted", async () => {
      await insert("a", "b", "c");
      const [some, none] = await store.db.write(async (tx) => [
        await tx.deleteMany("thing", "id", ["c", "z", "a"], "id, n"),
        await tx.deleteMany("thing", "id", ["a"], "id, n"),
      ]);
      const rows = some.map((row) => `${text(row, "id")}=${integer(row, "n")}`);
      expect(rows.toSorted()).toEqual(["a=0", "c=0"]);
      expect(none).toEqual([]);
      expect(await ids()).toEqual(["b"]);
    });

    test("a transaction that throws is rolled back", async () => {
      const failed = store.db.write(async (tx) => {
        await tx.run("insert into thing (id) values ('first')");
        await tx.insertMany("thing", COLUMNS, [["second", null, 1]]);
        throw new Error("failed on purpose");
      });
      expect(await rejectionMessage(failed)).toMatch("failed on purpose");
      expect(await ids()).toEqual([]);
    });

    test("the store stays usable after work that throws before its first statement", async () => {
      const failed = store.db.write(() => {
        throw new Error("immediately");
      });
      expect(await rejectionMessage(failed)).toMatch("immediately");
      await insert("a");
      expect(await ids()).toEqual(["a"]);
    });

    test("concurrent statements belong to their transaction", async () => {
      const failed = store.db.write(async (tx) => {
        await Promise.all([
          tx.insertMany("thing", COLUMNS, [["a", null, 1]]),
          tx.insertMany("thing", COLUMNS, [["b", null, 1]]),
          tx.run("insert into thing (id) values ('c')"),
        ]);
        throw new Error("no");
      });
      expect(await rejectionMessage(failed)).toMatch("no");
      expect(await ids()).toEqual([]);
    });

    test("readers do not see uncommitted writes", async () => {
      const written = Promise.withResolvers<void>();
      const checked = Promise.withResolvers<void>();
      const write = store.db.write(async (tx) => {
        await tx.run("insert into thing (id) values ('a')");
        written.resolve();
        await checked.promise;
        return tx.all("select id from thing");
      });
      await written.promise;
      expect(await ids()).toEqual([]);
      expect(await store.db.snapshot((reader) => reader.all("select id from thing"))).toEqual([]);
      checked.resolve();
      expect(await write).toHaveLength(1);
      expect(await ids()).toEqual(["a"]);
    });

    test("isDuplicate recognizes a violated unique key and nothing else", async () => {
      await insert("a");
      const attempts = [
        store.db.write((tx) => tx.run("insert into thing (id) values (?)", ["a"])),
        store.db.write((tx) =>
          tx.insertMany("thing", COLUMNS, [
            ["b", null, 0],
            ["a", null, 0],
          ]),
        ),
        store.db.write((tx) => tx.run("insert into nowhere (id) values (?)", ["a"])),
      ];
      const outcomes = await Promise.allSettled(attempts);
      expect(outcomes.map((one) => one.status === "rejected" && isDuplicate(one.reason))).toEqual([
        true,
        true,
        false,
      ]);
      expect(await ids()).toEqual(["a"]);
    });

    test("a failed statement aborts its transaction, even if the error is caught", async () => {
      await insert("a");
      const swallowed = store.db.write(async (tx) => {
        await tx.run("insert into thing (id) values ('b')");
        await tx.run("insert into thing (id) values ('a')").catch(() => {});
        await tx.run("insert into thing (id) values ('c')").catch(() => {});
        return "kept";
      });
      expect(isDuplicate(await swallowed.catch((error: unknown) => error))).toBe(true);
      expect(await ids()).toEqual(["a"]);
    });

    test("a finished transaction executes no more statements", async () => {
      let stray: (() => Promise<number>) | undefined;
      await store.db.write(async (tx) => {
        stray = () => tx.run("insert into thing (id) values ('stray')");
        await tx.run("insert into thing (id) values ('a')");
      });
      expect(await rejectionMessage(stray?.() ?? Promise.resolve())).toMatch("over");
      let strayError: Promise<string> | undefined;
      const failed = store.db.write(async (tx) => {
        const failing = tx.run("insert into nowhere (id) values ('x')");
        strayError = rejectionMessage(
          failing.catch(() => tx.run("insert into thing (id) values ('stray')")),
        );
        await failing;
      });
      expect(await rejectionMessage(failed)).not.toBe("");
      expect(await strayError).not.toBe("");
      expect(await ids()).toEqual(["a"]);
    });

    test("concurrent updates of one row are not lost", async () => {
      await insert("a");
      await Promise.all(
        Array.from({ length: 40 }, () =>
          store.db.write(async (tx) => {
            const [row] = await tx.lockMany("thing", "id", ["a"]);
            const n = row === undefined ? 0 : integer(row, "n");
            await tx.run("update thing set n = ? where id = ?", [n + 1, "a"]);
          }),
        ),
      );
      const row = await store.db.get("select n from thing");
      expect(row === undefined ? row : integer(row, "n")).toBe(40);
    });

    test("all reads of a snapshot see the same state", async () => {
      await insert("a");
      const counts = await store.db.snapshot(async (reader) => {
        const before = await reader.all("select id from thing");
        await insert("b");
        return [before.length, (await reader.all("select id from thing")).length];
      });
      expect(counts).toEqual([1, 1]);
      expect(await ids()).toEqual(["a", "b"]);
    });

    test("a snapshot cannot write", async () => {
      expect(
        await rejectionMessage(
          store.db.snapshot((reader) =>
            reader.all("insert into thing (id) values ('a') returning id"),
          ),
        ),
      ).not.toBe("");
      expect(await ids()).toEqual([]);
    });
  });
});
