// A gateway that is killed while it runs batches, again and again: no item is lost, charged twice or left unpaid.

import { afterAll, expect, test } from "bun:test";
import { createTempFolder, runPostern, startPostern, stopAll } from "../commands/run-postern.ts";
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
  readBatch,
  readLines,
  setBatchFaults,
  waitForEnd,
} from "./batch-harness.ts";
import { BATCH_MODELS, GPT, requestsTo } from "./provider-harness.ts";

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

/** Of the gateway, each while a request to a batch API has no reply yet. */
const PROVIDER_KILLS = { sqlite: 2, postgres: 1 } as const;
/** A stalled request is one of so many: those of a batch, from its upload to the deletion of its files, are about seven. */
const STALL_AT_MAX = 14;
/** A batch whose process was killed before its submission was sent is searched for at the provider for two minutes. */
const WITH_LOST_SUBMISSION = { timeoutMs: 400_000 };
/** Two minutes for each kill that comes at that moment, and what a busy machine needs. */
const TIMEOUT_MS = 900_000;

for (const store of STORE_KINDS)
  test(
    `batches at providers survive kills at any request on ${store}`,
    async () => {
      const simulator = startSimulator({});
      const provider = { simulatorUrl: simulator.url };
      const folder = createTempFolder();
      const settings = {
        ...folder.settings,
        ...providerSettings(simulator.url),
        ...(store === "postgres" && { DATABASE_URL: await migratedPostgres() }),
      };
      const random = createRandom(TEST_SEED);
      let running = await startPostern(["serve"], settings);
      const kill = async (): Promise<void> => {
        process.kill(-Number(running.process.pid), "SIGKILL");
        await running.exited;
      };
      const isStalled = async (): Promise<boolean> => {
        const state = (await (await fetch(`${simulator.url}/sim/batches`)).json()) as Json;
        return state["stalled"] === true;
      };
      const histories = await Promise.all(
        BATCH_MODELS.map(async (model) => {
          const account = await registerAccount(running);
          const requests = requestsTo(model, 3 + random(5));
          const { id, processing } = await createBatch(running, account, requests);
          expect(processing).toBe("provider");
          return { account, id, requests: requests.length, held: Number.POSITIVE_INFINITY };
        }),
      );
      const areAllEnded = async (): Promise<boolean> => {
        const all = await Promise.all(
          histories.map(({ account, id }) => readBatch(running, account, id)),
        );
        return all.every(({ completed_at: at, cancelled_at: canceled, expired_at: expired }) =>
          [at, canceled, expired].some((time) => time !== null),
        );
      };
      /** A hold only shrinks. */
      const checkHolds = async (): Promise<void> => {
        for (const history of histories) {
          const { json } = await call(running, history.account, "GET /v1/account");
          const { held_credits: held } = json["balance"] as Json;
          expect(Number(held)).toBeLessThanOrEqual(history.held);
          history.held = Number(held);
        }
      };
      for (let count = 0; count < PROVIDER_KILLS[store]; count++) {
        const more = MORE_FAULTS[random(MORE_FAULTS.length)];
        await setBatchFaults(provider, { stall_at: 1 + random(STALL_AT_MAX), ...more });
        if (count === 1) {
          const [one] = histories;
          if (one !== undefined)
            await call(running, one.account, `POST /v1/batches/${String(one.id)}/cancel`);
        }
        await eventually(
          async () => (await isStalled()) || (await areAllEnded()),
          WITH_LOST_SUBMISSION,
        );
        await checkHolds();
        await kill();
        running = await startPostern(["serve"], settings);
        await checkHolds();
      }
      await setBatchFaults(provider, {});
      await eventually(areAllEnded, WITH_LOST_SUBMISSION);
      for (const { account, id, requests } of histories) {
        const ended = await waitForEnd(running, account, id);
        const { request_counts: counts } = ended;
        const { completed, failed } = counts as Record<"completed" | "failed", number>;
        expect(completed + failed).toBe(requests);
        const lines = await readLines(running, account, `/v1/batches/${String(id)}/results`);
        expect(new Set(lines.map((line) => line["custom_id"])).size).toBe(requests);
        const usage = await call(running, account, `GET /v1/usage?limit=100&batch=${String(id)}`);
        const records = usage.json["data"] as readonly Json[];
        const costs = records.map((record) => nano(record["cost_usd"]));
        const sum = costs.reduce((total, cost) => total + cost, 0);
        expect([records.length, sum]).toEqual([completed, nano(ended["cost_usd"])]);
        const { json } = await call(running, account, "GET /v1/account");
        const { credits, held_credits: held } = json["balance"] as Json;
        expect(held).toBe(0);
        // A credit is $0.000001, rounded down.
        expect(Math.abs(NEW_CREDITS - Number(credits) - sum / 1_000)).toBeLessThan(1);
      }
      const verified = await runPostern(["admin", "verify-ledger", "--full"], settings);
      expect(verified).toMatchObject({ code: 0 });
      await kill();
      await simulator.stop();
      folder.remove();
    },
    TIMEOUT_MS,
  );

for (const store of STORE_KINDS)
  test(
    `responses that wait in batches survive kills at any request on ${store}`,
    async () => {
      const simulator = startSimulator({});
      const provider = { simulatorUrl: simulator.url };
      const folder = createTempFolder();
      const settings = {
        ...folder.settings,
        ...providerSettings(simulator.url),
        ...(store === "postgres" && { DATABASE_URL: await migratedPostgres() }),
      };
      const random = createRandom(TEST_SEED);
      let running = await startPostern(["serve"], settings);
      const kill = async (): Promise<void> => {
        process.kill(-Number(running.process.pid), "SIGKILL");
        await running.exited;
      };
      const isStalled = async (): Promise<boolean> => {
        const state = (await (await fetch(`${simulator.url}/sim/batches`)).json()) as Json;
        return state["stalled"] === true;
      };
      const queued = await Promise.all(
        [...BATCH_MODELS, GPT].map(async (model, index) => {
          const isAtGateway = index === BATCH_MODELS.length;
          const account = await registerAccount(running);
          const body = {
            model,
            input: "[[sim: latency=20]] later",
            max_output_tokens: 64,
            background: true,
            background_options: { completion_window: isAtGateway ? "2h" : "24h" },
          };
          const { json } = await call(running, account, "POST /v1/responses", { body });
          expect(json["postern"]).toMatchObject({
            processing: isAtGateway ? "gateway" : "provider",
          });
          return { account, id: String(json["id"]) };
        }),
      );
      const read = async ({ account, id }: (typeof queued)[number]): Promise<Json> =>
        (await call(running, account, `GET /v1/responses/${id}`)).json;
      const areAllEnded = async (): Promise<boolean> =>
        (await Promise.all(queued.map(read))).every(({ status }) => status !== "queued");
      for (let count = 0; count < PROVIDER_KILLS[store]; count++) {
        await setBatchFaults(provider, { stall_at: 1 + random(STALL_AT_MAX) });
        await eventually(
          async () => (await isStalled()) || (await areAllEnded()),
          WITH_LOST_SUBMISSION,
        );
        await kill();
        running = await startPostern(["serve"], settings);
      }
      await setBatchFaults(provider, {});
      await eventually(areAllEnded, WITH_LOST_SUBMISSION);
      for (const one of queued) {
        const { status, usage } = await read(one);
        expect(status).toBe("completed");
        await eventually(async () => {
          const { json } = await call(running, one.account, "GET /v1/account");
          return (json["balance"] as Json)["held_credits"] === 0;
        });
        const listed = await call(running, one.account, "GET /v1/usage?limit=100");
        const costs = (listed.json["data"] as readonly Json[]).map((record) =>
          nano(record["cost_usd"]),
        );
        // What a kill interrupted at the gateway was run again, and left no record.
        expect(costs).toEqual([nano((usage as Json)["cost"])]);
        const { json } = await call(running, one.account, "GET /v1/account");
        const { credits } = json["balance"] as Json;
        expect(Math.abs(NEW_CREDITS - Number(credits) - (costs[0] ?? 0) / 1_000)).toBeLessThan(1);
      }
      const verified = await runPostern(["admin", "verify-ledger", "--full"], settings);
      expect(verified).toMatchObject({ code: 0 });
      await kill();
      await simulator.stop();
      folder.remove();
    },
    TIMEOUT_MS,
  );

const NEW_CREDITS = 50_000;
const MORE_FAULTS: readonly Json[] = [
  {},
  { lose_reply: 500 },
  { expire_after: 2 },
  { drop_results: 1 },
  { fail: { code: "invalid_request", line: 1 } },
];

function providerSettings(url: string): Readonly<Record<string, string>> {
  const roots = {
    OPENAI: `${url}/v1`,
    ANTHROPIC: url,
    GOOGLE: `${url}/v1`,
    MISTRAL: `${url}/v1`,
    TOGETHER: `${url}/together/v1`,
  };
  return Object.fromEntries(
    Object.entries(roots).flatMap(([prefix, root]) => [
      [`${prefix}_API_KEY`, "sk-test"],
      [`${prefix}_BASE_URL`, root],
    ]),
  );
}

function nano(usd: unknown): number {
  return Math.round(Number(usd) * 1e9);
}
