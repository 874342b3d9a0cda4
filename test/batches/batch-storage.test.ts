// What batches and files leave in the store, and that neither its end nor its deletion blocks the store for long: on SQLite a
// transaction that clears gigabytes takes seconds.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { DerivedKey } from "../../src/base/crypto/encryption.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import {
  type Batch,
  claimBatch,
  deleteBatch,
  insertBatch,
  startBatch,
} from "../../src/batches/batch-rows.ts";
import { createBatches } from "../../src/batches/batches.ts";
import { discard } from "../../src/batches/create-batch.ts";
import { insertFile, insertFilePart, insertOutputFile } from "../../src/batches/files/file-rows.ts";
import { finishBatch } from "../../src/batches/finish-batch.ts";
import { insertItems } from "../../src/batches/item-rows.ts";
import { type Db, integer } from "../../src/store/db.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 29, 12);
const MEBIBYTE = 1_048_576;
const ITEMS = 4;
const ITEM_BYTES = 3 * MEBIBYTE;
const TRANSACTION_MAX_BYTES = 9 * MEBIBYTE;
const OWNER = { process: "p", epoch: 1 };
const KEK: DerivedKey = [new Uint8Array(32)];

describeEachStore((kind, open) => {
  describe(`what batches store on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    const storedBytes = async (): Promise<number> => {
      const row = await store.db.get(
        "select cast(coalesce(sum(length(sealed_request)), 0) as bigint) as bytes from batch_item",
      );
      return row === undefined ? 0 : integer(row, "bytes");
    };
    /** The store, and the most bytes that one of its transactions has cleared. */
    const watched = () => {
      let most = 0;
      const write: Db["write"] = async (work, durability) => {
        const before = await storedBytes();
        const result = await store.db.write(work, durability);
        most = Math.max(most, before - (await storedBytes()));
        return result;
      };
      return { db: { ...store.db, write }, most: () => most };
    };
    const addBatch = async (id: string, createdAt = NOW, items = 0): Promise<void> => {
      await store.db.write(async (tx) => {
        await insertBatch(tx, {
          id,
          accountId: "acct_a",
          keyId: "key_a",
          form: "openai",
          endpoint: "/v1/chat/completions",
          headers: {},
          metadata: null,
          inputFileId: null,
          responseId: null,
          requestSha256: null,
          dataKey: "",
          createdAt,
          expiresAt: createdAt + DAY_MS,
        });
        for (let position = 0; position < items; position += 1)
          await insertItems(tx, id, [
            {
              position,
              customId: `item-${position}`,
              status: "pending",
              share: 0n,
              httpStatus: null,
              sealedRequest: new Uint8Array(ITEM_BYTES),
              sealedResult: null,
              inBatch: null,
            },
          ]);
      });
    };
    const startAndClaim = async (id: string): Promise<Batch> => {
      const batch = await store.db.write(async (tx) => {
        const sizes = { requests: ITEMS, bytes: ITEMS * ITEM_BYTES, provider: null };
        await startBatch(tx, { id, ...sizes }, NOW);
        return claimBatch(tx, id, OWNER);
      });
      if (batch === undefined) throw new Error("the batch is not there");
      return batch;
    };
    const idsOf = async (table: string): Promise<readonly unknown[]> =>
      (await store.db.all(`select id from ${table} order by id`)).map(({ id }) => id);
    const empty = () =>
      store.db.write(async (tx) => {
        for (const table of ["batch", "batch_item", "stored_file", "stored_file_part"])
          await tx.run(`delete from ${table}`);
      });
    const finishDeps = (db: Db) => ({
      ...OWNER,
      db,
      kek: KEK,
      now: () => NOW,
      endResponse: () => Promise.resolve(),
    });

    test("a large batch is canceled in transactions of some megabytes", async () => {
      await addBatch("batch_a", NOW, ITEMS);
      const batch = await startAndClaim("batch_a");
      const { db, most } = watched();
      await finishBatch(finishDeps(db), batch, "canceled");
      const row = await store.db.get("select status, canceled from batch");
      expect([row?.["status"], Number(row?.["canceled"])]).toEqual(["canceled", ITEMS]);
      expect(await storedBytes()).toBe(0);
      expect(most()).toBeLessThanOrEqual(TRANSACTION_MAX_BYTES);
      await empty();
    });

    test("a process that lost its batch ends none of its items", async () => {
      await addBatch("batch_b", NOW, ITEMS);
      const batch = await startAndClaim("batch_b");
      await store.db.write((tx) => tx.run("update batch set process = 'other'"));
      const finished = finishBatch(finishDeps(store.db), batch, "canceled");
      expect(await finished.catch((error: unknown) => String(error))).toContain("another process");
      expect(await storedBytes()).toBe(ITEMS * ITEM_BYTES);
      await empty();
    });

    test("a large batch that was not started is discarded in small transactions", async () => {
      await addBatch("batch_c", NOW, ITEMS);
      const { db, most } = watched();
      await discard(db, "batch_c");
      expect(await idsOf("batch")).toEqual([]);
      expect(await storedBytes()).toBe(0);
      expect(most()).toBeLessThanOrEqual(TRANSACTION_MAX_BYTES);
    });

    test("the sweep deletes what is old, and what a crash left", async () => {
      const old = NOW - 31 * DAY_MS;
      await addBatch("batch_old", old, ITEMS);
      await addBatch("batch_of_crash", NOW - 2 * HOUR_MS);
      await addBatch("batch_being_created", NOW - 60_000);
      await addBatch("batch_new", NOW - HOUR_MS * 2);
      const file = { accountId: "acct_a", keyId: "key_a", filename: "f", createdAt: old };
      await store.db.write(async (tx) => {
        const ended = "update batch set status = 'completed', ended_at = created_at where id = ?";
        await tx.run(ended, ["batch_old"]);
        await tx.run(ended, ["batch_new"]);
        await insertOutputFile(tx, {
          ...file,
          id: "file_output",
          batchId: "batch_old",
          bytes: 1,
          expiresAt: NOW + DAY_MS,
        });
        await tx.run("update batch set output_file_id = 'file_output' where id = 'batch_old'");
        await insertFile(tx, { ...file, id: "file_expired", dataKey: "", expiresAt: NOW });
        await insertFilePart(tx, { fileId: "file_expired", part: 0, sealed: new Uint8Array(1) });
        await insertFile(tx, { ...file, id: "file_kept", dataKey: "", expiresAt: NOW + 1 });
      });
      const { db, most } = watched();
      // The sweep needs nothing else.
      const deps = { db, now: () => NOW, wake: () => {} } as Parameters<typeof createBatches>[0];
      await createBatches(deps).sweep();
      expect(await idsOf("batch")).toEqual(["batch_being_created", "batch_new"]);
      expect(await idsOf("stored_file")).toEqual(["file_kept"]);
      expect(await store.db.all("select part from stored_file_part")).toEqual([]);
      expect(await storedBytes()).toBe(0);
      expect(most()).toBeLessThanOrEqual(TRANSACTION_MAX_BYTES);
      await empty();
    });

    test("a batch is deleted with its files, and those of others stay", async () => {
      const file = { accountId: "acct_a", keyId: "key_a", filename: "f", bytes: 1, createdAt: NOW };
      const expiresAt = NOW + DAY_MS;
      for (const id of ["batch_d", "batch_e"]) {
        await addBatch(id);
        await store.db.write(async (tx) => {
          for (const column of ["output_file_id", "error_file_id"]) {
            const fileId = `${id}_${column}`;
            await insertOutputFile(tx, { ...file, id: fileId, batchId: id, expiresAt });
            await tx.run(`update batch set ${column} = ? where id = ?`, [fileId, id]);
          }
        });
      }
      await store.db.write((tx) => deleteBatch(tx, "batch_d"));
      expect(await idsOf("stored_file")).toEqual([
        "batch_e_error_file_id",
        "batch_e_output_file_id",
      ]);
      await empty();
    });
  });
});
