// A process runs a limited number of batches at a time. A batch that can do nothing for a while, or that has run for a while, yields to
// one that waits, so that no account keeps those of others from running.

import { describe, expect, test } from "bun:test";
import { type Json, releaseReplies, simStats } from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, GatewayOptions } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  chatRequest,
  chatRequests,
  createBatch,
  createSlowKey,
  openaiRequests,
  readBatch,
  readLines,
  setBatchFaults,
  waitForEnd,
} from "./batch-harness.ts";

/** Together they have as many slots as a process. */
const ACCOUNTS = 4;
const PER_ACCOUNT = 8;
/** Longer than a batch runs while others wait. */
const SLOT_MS = 61_000;
/** The calls of a batch that run at a time. */
const CALLS_PER_BATCH = 16;
const STEP_MS = 1_000;

interface Clock {
  readonly now: () => number;
  readonly advance: (ms: number) => void;
}

async function withGateway(
  options: GatewayOptions,
  steps: (gateway: Gateway, clock: Clock) => Promise<void>,
  readClock: () => number = Date.now,
): Promise<void> {
  let aheadMs = 0;
  const now = (): number => readClock() + aheadMs;
  const gateway = await openGateway({ ...options, now, simulatorNow: now });
  await steps(gateway, { now, advance: (ms) => void (aheadMs += ms) });
  await gateway.stop();
}

async function openBatches({ server: { db } }: Gateway): Promise<number> {
  return (await db.all("select id from batch where ended_at is null")).length;
}

describe.each(STORE_KINDS)("on %s", (store) => {
  test("batches whose keys make one call a minute do not keep those of others from running", async () => {
    const startedAt = Date.now();
    const steps = async (gateway: Gateway): Promise<void> => {
      const created: { readonly account: Parameters<typeof call>[1]; readonly id: unknown }[] = [];
      for (let index = 0; index < ACCOUNTS; index++) {
        const account = await createSlowKey(gateway, await fundedAccount(gateway));
        for (let batch = 0; batch < PER_ACCOUNT; batch++) {
          const { id } = await createBatch(gateway, account, chatRequests(3));
          created.push({ account, id });
        }
      }
      const other = await fundedAccount(gateway);
      const { id } = await createBatch(gateway, other, [chatRequest("only")]);
      expect(await waitForEnd(gateway, other, id)).toMatchObject({ status: "completed" });
      expect(await openBatches(gateway)).toBe(ACCOUNTS * PER_ACCOUNT);
      // Canceled ones end at once, although they wait.
      for (const one of created)
        await call(gateway, one.account, `POST /v1/batches/${String(one.id)}/cancel`);
      await eventually(async () => (await openBatches(gateway)) === 0);
    };
    // Of a clock that stands still, no time is over.
    await withGateway({ store }, steps, () => startedAt);
  });

  test("a batch whose calls are long yields to one that waits, and goes on", async () => {
    await withGateway({ store, batchSlots: 1 }, async (gateway, { advance }) => {
      const owner = await fundedAccount(gateway);
      const requests = chatRequests(60, "[[sim: wait=calls]] later");
      const long = await createBatch(gateway, owner, requests);
      const callsRun = (count: number) =>
        eventually(async () => (await simStats(gateway)).open_streams === count);
      await callsRun(CALLS_PER_BATCH);
      const other = await fundedAccount(gateway);
      const { id } = await createBatch(gateway, other, [
        chatRequest("only", "[[sim: wait=calls]]"),
      ]);
      advance(SLOT_MS);
      // It runs before the calls of the first one have ended.
      await callsRun(CALLS_PER_BATCH + 1);
      await releaseReplies(gateway, "calls");
      expect(await waitForEnd(gateway, other, id)).toMatchObject({ status: "completed" });
      expect(await waitForEnd(gateway, owner, long["id"])).toMatchObject({
        request_counts: { total: 60, completed: 60, failed: 0 },
      });
    });
  });

  test("a batch at a provider yields to one that waits, and goes on", async () => {
    await withGateway({ store, batchSlots: 1 }, async (gateway, { advance }) => {
      // The step after which it yields begins before the second batch is there.
      await setBatchFaults(gateway, { hold: true, delay_reply_ms: STEP_MS });
      const { db } = gateway.server;
      const stateOf = async (id: unknown): Promise<unknown> =>
        (await db.get("select state from provider_batch where batch_id = ?", [String(id)]))?.[
          "state"
        ];
      const start = async () => {
        const account = await fundedAccount(gateway);
        const batch = await createBatch(gateway, account, openaiRequests(2));
        return { account, id: batch["id"] };
      };
      const first = await start();
      await eventually(async () => (await stateOf(first.id)) === "sending");
      advance(STEP_MS);
      const second = await start();
      advance(SLOT_MS);
      await setBatchFaults(gateway, { hold: true });
      await eventually(async () => (await stateOf(second.id)) === "sent");
      await setBatchFaults(gateway, {});
      await eventually(async () => {
        const open = await db.all("select process from batch where ended_at is null");
        if (open.some(({ process }) => process === null)) advance(SLOT_MS);
        return open.length === 0;
      });
      for (const { account, id } of [first, second])
        expect(await readBatch(gateway, account, id)).toMatchObject({ status: "completed" });
    });
  });

  test("an item whose provider fails ends after its repetitions, although its batch waits between them", async () => {
    await withGateway({ store }, async (gateway, { now, advance }) => {
      const { db } = gateway.server;
      const account = await createSlowKey(gateway, await fundedAccount(gateway));
      const { id } = await createBatch(gateway, account, [
        chatRequest("failing", "[[sim: status=500]]"),
        chatRequest("working"),
      ]);
      await eventually(async () => {
        const row = await db.get("select process, due_at, ended_at from batch where id = ?", [
          String(id),
        ]);
        if (row?.["process"] === null) advance(Math.max(0, Number(row["due_at"]) - now()));
        return row?.["ended_at"] !== null;
      });
      const lines = await readLines(gateway, account, `/v1/batches/${String(id)}/results`);
      const statuses = lines.map((line) => (line["response"] as Json | null)?.["status_code"]);
      expect(statuses).toEqual([500, 200]);
    });
  });
});
