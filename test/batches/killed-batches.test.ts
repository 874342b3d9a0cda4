// A gateway that is killed while it runs batches, again and again: no item is lost, charged twice or left unpaid.

import { afterAll, expect, test } from "bun:test";
import { createTempFolder, startPostern, stopAll } from "../commands/run-postern.ts";
import type { Json } from "../inference/support/harness.ts";
import { call } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount } from "../support/gateway.ts";
import { randomInteger } from "../support/random.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { chatRequests, createBatch, readBatch, readLines, waitForEnd } from "./batch-harness.ts";

afterAll(stopAll);

const ITEMS = 60;
const KILLS = 5;

for (const store of STORE_KINDS)
  test(`batches survive ${KILLS} kills on ${store}`, async () => {
    const folder = createTempFolder();
    const settings =
      store === "sqlite"
        ? folder.settings
        : { ...folder.settings, POSTERN_DATABASE_URL: await migratedPostgres() };
    let running = await startPostern(["serve"], settings);
    const account = await registerAccount(running);
    const requests = chatRequests(ITEMS, "[[sim: latency=20]] later");
    const { id } = await createBatch(running, account, requests);
    for (let kill = 0; kill < KILLS; kill++) {
      const from = await doneOf(running, id);
      const wanted = Math.min(ITEMS - 1, from + randomInteger(0, 9));
      await eventually(async () => (await doneOf(running, id)) >= wanted);
      process.kill(-Number(running.process.pid), "SIGKILL");
      await running.exited;
      running = await startPostern(["serve"], settings);
    }
    const ended = await waitForEnd(running, account, id);
    expect(ended).toMatchObject({
      status: "completed",
      request_counts: { total: ITEMS, completed: ITEMS, failed: 0 },
    });
    const lines = await readLines(running, account, `/v1/batches/${String(id)}/results`);
    expect(new Set(lines.map((line) => line["custom_id"])).size).toBe(ITEMS);
    const { json } = await call(running, account, "GET /v1/account");
    expect(json["balance"]).toMatchObject({ held_credits: 0 });
    const { json: stats } = await call(running, account, "GET /v1/usage/summary");
    expect(chargedOf(stats)).toBe(Number(ended["cost_usd"]));
    process.kill(-Number(running.process.pid), "SIGKILL");
    await running.exited;
    folder.remove();

    async function doneOf(gateway: typeof running, batch: unknown): Promise<number> {
      const { request_counts: counts } = await readBatch(gateway, account, batch);
      return Number((counts as Json)["completed"]);
    }
  });

function chargedOf(stats: Json): number {
  return Number(stats["cost_usd"]);
}
