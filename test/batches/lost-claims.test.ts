// A process that claims a batch and does not learn whether the claim was committed.

import { describe, expect, test } from "bun:test";
import { type BatchRunnerDeps, createBatchRunner } from "../../src/batches/batch-runner.ts";
import type { Db } from "../../src/store/db.ts";
import { openStore, STORE_KINDS } from "../support/stores/stores.ts";

const NOW = Date.parse("2026-11-29T12:00:00Z");

/** The reply to its first commit is lost. */
function withLostReply(db: Db): Db {
  let isLost = false;
  const write: Db["write"] = async (work) => {
    const result = await db.write(work);
    if (isLost) return result;
    isLost = true;
    throw new Error("the connection was lost");
  };
  return { ...db, write };
}

describe.each(STORE_KINDS)("batches on %s", (kind) => {
  test("a batch is released if the reply to its claim was lost", async () => {
    const store = await openStore(kind);
    await store.db.write((tx) =>
      tx.run(
        `insert into batch (id, account_id, key_id, form, endpoint, status, requests, bytes, headers, data_key, created_at, expires_at,
           succeeded, errored, canceled, expired, cost)
         values ('batch_1', 'acct_1', 'key_1', 'openai', '/v1/chat/completions', 'in_progress', 1, 1, '{}', '', ?, ?, 0, 0, 0, 0, 0)`,
        [NOW, NOW + 86_400_000],
      ),
    );
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    // Safe because a claim uses only these.
    const runner = createBatchRunner({
      db: withLostReply(store.db),
      log,
      now: () => NOW,
      process: "gateway-1",
      epoch: 1,
    } as unknown as BatchRunnerDeps);
    const claimed = await runner.claim().catch(String);
    expect(claimed).toBe("Error: the connection was lost");
    expect(await store.db.get("select process, epoch from batch")).toEqual({
      process: null,
      epoch: null,
    });
    await store.close();
  });
});
