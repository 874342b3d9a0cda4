// A process that changes which process runs a batch, and does not learn whether the change was committed.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { claimBatch, isStarted, releaseBatch, startBatch } from "../../src/batches/batch-rows.ts";
import {
  type BatchRunner,
  type BatchRunnerDeps,
  createBatchRunner,
} from "../../src/batches/batch-runner.ts";
import type { Db, Tx } from "../../src/store/db.ts";
import { eventually } from "../support/eventually.ts";
import { openStore, STORE_KINDS, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.parse("2026-11-29T12:00:00Z");
const OWNER = { process: "gateway-1", epoch: 1 };
/** Longer than a batch that failed is left alone. */
const PAUSE_MS = 20_000;

/** Its data key cannot be opened, so each run fails and releases it. */
async function addBatch(db: Db, status: "validating" | "in_progress"): Promise<void> {
  await db.write((tx) =>
    tx.run(
      `insert into batch (id, account_id, key_id, form, endpoint, status, requests, bytes, headers, data_key, created_at, expires_at,
         succeeded, errored, canceled, expired, cost)
       values ('batch_1', 'acct_1', 'key_1', 'openai', '/v1/chat/completions', ?, 1, 1, '{}', '', ?, ?, 0, 0, 0, 0, 0)`,
      [status, NOW, NOW + 86_400_000],
    ),
  );
}

/** The reply to one of its commits is lost. */
function withLostReply(db: Db, lost: "claim" | "release") {
  let writes = 0;
  const write: Db["write"] = async (work, durability) => {
    const result = await db.write(work, durability);
    writes += 1;
    if (writes === (lost === "claim" ? 1 : 2)) throw new Error("the connection was lost");
    return result;
  };
  return { db: { ...db, write }, writes: () => writes };
}

describe.each(STORE_KINDS)("batches on %s", (kind) => {
  let store: TestStore;
  let now = NOW;
  beforeEach(async () => {
    store = await openStore(kind);
    now = NOW;
    await addBatch(store.db, "in_progress");
  });
  afterEach(() => store.close());

  const runnerOn = (db: Db): BatchRunner => {
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    // Safe because a claim and a release use only these.
    return createBatchRunner({ db, log, now: () => now, ...OWNER } as unknown as BatchRunnerDeps);
  };
  const runsAt = async () => (await store.db.get("select process from batch"))?.["process"];

  test("a batch is released if the reply to its claim was lost", async () => {
    const runner = runnerOn(withLostReply(store.db, "claim").db);
    const claimed = await runner.claim().catch(String);
    expect(claimed).toBe("Error: the connection was lost");
    await eventually(async () => (await runsAt()) === null);
    runner.stop();
    await runner.whenIdle();
  });

  test("a batch whose release is repeated later is not claimed until then", async () => {
    const { db, writes } = withLostReply(store.db, "release");
    const runner = runnerOn(db);
    await runner.claim();
    await eventually(async () => (await runsAt()) === null);
    now += PAUSE_MS;
    await runner.claim();
    expect(writes()).toBe(2);
    runner.stop();
    await runner.whenIdle();
  });
});

describe("batches on postgres, while an earlier transaction commits", () => {
  let store: TestStore;
  beforeEach(async () => {
    store = await openStore("postgres");
  });
  afterEach(() => store.close());

  /** Begins `later` once `earlier` has written, and commits `earlier` once `later` waits for it or has ended. */
  async function behind<T>(
    earlier: (tx: Tx) => Promise<unknown>,
    later: (tx: Tx) => Promise<T>,
  ): Promise<T> {
    const { db } = store;
    const [written, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const writing = db.write(async (tx) => {
      await earlier(tx);
      written.resolve();
      await commit.promise;
    });
    await written.promise;
    let isOver = false;
    const result = db.write(later).finally(() => (isOver = true));
    const waiting =
      "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    await eventually(async () => isOver || (await db.get(waiting)) !== undefined);
    commit.resolve();
    await writing;
    return await result;
  }

  test("a release finds the claim", async () => {
    await addBatch(store.db, "in_progress");
    await behind(
      (tx) => claimBatch(tx, "batch_1", OWNER),
      (tx) => releaseBatch(tx, "batch_1", OWNER, NOW),
    );
    expect(await store.db.get("select process from batch")).toEqual({ process: null });
  });

  test("a batch that is being started is not discarded", async () => {
    await addBatch(store.db, "validating");
    const started = await behind(
      (tx) => startBatch(tx, { id: "batch_1", requests: 1, bytes: 1, provider: null }, NOW),
      (tx) => isStarted(tx, "batch_1"),
    );
    expect(started).toBe(true);
  });
});
