// A gateway that is killed while it runs batches, again and again: no item is lost, charged twice or left unpaid.

import { afterAll, expect, test } from "bun:test";
import { createTempFolder, startPostern, stopAll } from "../commands/run-postern.ts";
import type { Json } from "../inference/support/harness.ts";
import { call } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startSimulator } from "../support/gateway.ts";
import { createRandom, TEST_SEED } from "../support/random.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  chatRequests,
  createBatch,
  openaiRequests,
  readBatch,
  readLines,
  setBatchFaults,
  waitForEnd,
} from "./batch-harness.ts";

afterAll(stopAll);

const ITEMS = 60;
const KILLS = { sqlite: 2, postgres: 1 } as const;

for (const store of STORE_KINDS)
  test(`batches survive ${KILLS[store]} kills on ${store}`, async () => {
    const folder = createTempFolder();
    const settings =
      store === "sqlite"
        ? folder.settings
        : { ...folder.settings, DATABASE_URL: await migratedPostgres() };
    const random = createRandom(TEST_SEED);
    let running = await startPostern(["serve"], settings);
    const account = await registerAccount(running);
    const requests = chatRequests(ITEMS, "[[sim: latency=20]] later");
    const { id } = await createBatch(running, account, requests);
    for (let kill = 0; kill < KILLS[store]; kill++) {
      const from = await doneOf(running, id);
      const wanted = Math.min(ITEMS - 1, from + random(10));
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
    const usage = await call(running, account, "GET /v1/usage?limit=100");
    const costs = (usage.json["data"] as readonly Json[]).map((record) => nano(record["cost_usd"]));
    // Interrupted calls left no record, and no item has two.
    expect(costs.length).toBe(ITEMS);
    expect(costs.reduce((sum, cost) => sum + cost, 0)).toBe(nano(ended["cost_usd"]));
    process.kill(-Number(running.process.pid), "SIGKILL");
    await running.exited;
    folder.remove();

    async function doneOf(gateway: typeof running, batch: unknown): Promise<number> {
      const { request_counts: counts } = await readBatch(gateway, account, batch);
      return Number((counts as Json)["completed"]);
    }
  });

for (const store of STORE_KINDS)
  test(`a batch at a provider survives kills at each step on ${store}`, async () => {
    const simulator = startSimulator({});
    const provider = { simulatorUrl: simulator.url };
    const folder = createTempFolder();
    const settings = {
      ...folder.settings,
      OPENAI_API_KEY: "sk-test",
      OPENAI_BASE_URL: `${simulator.url}/v1`,
      ...(store === "postgres" && { DATABASE_URL: await migratedPostgres() }),
    };
    let running = await startPostern(["serve"], settings);
    const restart = async (): Promise<void> => {
      process.kill(-Number(running.process.pid), "SIGKILL");
      await running.exited;
      running = await startPostern(["serve"], settings);
    };
    const account = await registerAccount(running);
    const simulated = async (): Promise<Json> =>
      (await (await fetch(`${simulator.url}/sim/batches`)).json()) as Json;
    // The provider has the batch, and the gateway has no reply.
    await setBatchFaults(provider, { hold: true, delay_reply_ms: 30_000 });
    const { id, processing } = await createBatch(running, account, openaiRequests(PROVIDER_ITEMS));
    expect(processing).toBe("provider");
    await eventually(async () => (await simulated())["batches"] === 1);
    await restart();
    // It was found again, and runs.
    await eventually(async () => Number((await simulated())["reads"]) > 0);
    await restart();
    await setBatchFaults(provider, {});
    await eventually(async () => completedOf(await readBatch(running, account, id)) > 0);
    await restart();
    const ended = await waitForEnd(running, account, id);
    expect([ended["status"], completedOf(ended)]).toEqual(["completed", PROVIDER_ITEMS]);
    expect((await simulated())["batches"]).toBe(1);
    const usage = await call(running, account, "GET /v1/usage?limit=100");
    const costs = (usage.json["data"] as readonly Json[]).map((record) => nano(record["cost_usd"]));
    expect(costs.length).toBe(PROVIDER_ITEMS);
    expect(costs.reduce((sum, cost) => sum + cost, 0)).toBe(nano(ended["cost_usd"]));
    const { json } = await call(running, account, "GET /v1/account");
    expect(json["balance"]).toMatchObject({ held_credits: 0 });
    process.kill(-Number(running.process.pid), "SIGKILL");
    await running.exited;
    await simulator.stop();
    folder.remove();
  });

const PROVIDER_ITEMS = 40;

function completedOf({ request_counts: counts }: Json): number {
  return Number((counts as Json)["completed"]);
}

function nano(usd: unknown): number {
  return Math.round(Number(usd) * 1e9);
}
