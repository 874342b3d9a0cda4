// Batches at providers of which the gateway does not know what became: a reply that was lost, a process that runs them no more, a
// provider without batches, and a key that the operator removed.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  readProviderBatches,
  updateProviderBatch,
} from "../../src/batches/at-provider/provider-batch-rows.ts";
import { errorOf, type Json } from "../inference/support/harness.ts";
import { call } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import { casesOn } from "../support/full.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { openaiRequests, postBatch, setBatchFaults } from "./batch-harness.ts";
import {
  BATCH_MODELS,
  CLAUDE,
  GPT,
  hello,
  HOUR_MS,
  MINUTE_MS,
  openProviderFixture,
  type ProviderFixture,
  requestsTo,
} from "./provider-harness.ts";

for (const store of STORE_KINDS) {
  describe(`lost batches at providers on ${store}`, () => {
    let at: ProviderFixture;
    beforeAll(async () => {
      at = await openProviderFixture(store);
    });
    afterAll(() => at.close());
    afterEach(() => setBatchFaults(at.gateway, {}));

    const attemptsOf = async (batch: Json): Promise<number> =>
      Number((await at.submissionOf(batch))["attempts"]);
    /** Starts a batch that the provider refuses, which may be a reply about a batch that it has. */
    const startRefused = async (requests: readonly Json[]): Promise<Json> => {
      await setBatchFaults(at.gateway, { refuse: 500 });
      const { refused } = await at.simulated();
      const created = await at.start(requests);
      await eventually(async () => Number((await at.simulated())["refused"]) > Number(refused));
      await setBatchFaults(at.gateway, {});
      expect((await at.submissionOf(created))["state"]).toBe("sending");
      return created;
    };
    const listsOf = async (): Promise<number> => Number((await at.simulated())["lists"]);
    /** As if another process ran the batch; null: as if none did. */
    const setProcess = ({ id }: Json, process: string | null): Promise<unknown> =>
      at.gateway.server.db.write((tx) =>
        tx.run("update batch set process = ?, epoch = ? where id = ?", [
          process,
          process === null ? null : 1,
          String(id),
        ]),
      );

    for (const model of casesOn(store, BATCH_MODELS)) {
      test(`of ${model} whose reply was lost are found, and not sent again`, async () => {
        await setBatchFaults(at.gateway, { lose_reply: 500 });
        const created = await at.start(requestsTo(model, 3));
        const ended = await at.end(created);
        expect(ended["request_counts"]).toMatchObject({ completed: 3 });
        expect(await attemptsOf(created)).toBe(1);
        await at.expectPaidOnce(ended, 3);
      });

      test(`of ${model} that the provider does not show are sent again after two minutes`, async () => {
        const created = await startRefused(requestsTo(model, 2));
        const lists = await listsOf();
        at.advance(MINUTE_MS);
        await eventually(async () => (await listsOf()) > lists);
        expect((await at.submissionOf(created))["state"]).toBe("sending");
        at.advance(2 * MINUTE_MS);
        const ended = await at.end(created);
        expect(await attemptsOf(created)).toBe(2);
        await at.expectPaidOnce(ended, 2);
        await eventually(async () => (await at.simulated())["files"] === 0);
      });
    }

    test("of Anthropic are not sent again while one of the same size may be theirs", async () => {
      await setBatchFaults(at.gateway, { hold: true, lose_reply: 500 });
      const created = await at.start(requestsTo(CLAUDE, 2));
      await at.reach(created, "sending");
      at.advance(3 * MINUTE_MS);
      const lists = await listsOf();
      await eventually(async () => (await listsOf()) > lists);
      expect((await at.submissionOf(created))["state"]).toBe("sending");
      // It has ended, so its custom ids can be read.
      await setBatchFaults(at.gateway, {});
      const ended = await at.end(created);
      expect(await attemptsOf(created)).toBe(1);
      await at.expectPaidOnce(ended, 2);
    });

    test("of Anthropic are not taken for a batch of the same size with other custom ids", async () => {
      const created = await startRefused(requestsTo(CLAUDE, 2));
      const { model: _, ...params } = hello(CLAUDE);
      const requests = ["a", "b"].map((custom_id) => ({
        custom_id,
        params: { model: "claude-haiku-4-5", ...params },
      }));
      const made = await fetch(`${at.gateway.simulatorUrl}/v1/messages/batches`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-api-key": "upstream-test-key" },
        body: JSON.stringify({ requests }),
      });
      expect(made.status).toBe(200);
      at.advance(3 * MINUTE_MS);
      const ended = await at.end(created);
      expect(await attemptsOf(created)).toBe(2);
      await at.expectPaidOnce(ended, 2);
    });

    test("are left alone by a process that does not run them any more", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const created = await at.start(openaiRequests(2));
      await at.reach(created, "sent");
      const { db } = at.gateway.server;
      const [row] = await readProviderBatches(db, String(created["id"]));
      if (row === undefined) throw new Error("no batch at the provider");
      const again = { ...row, state: "planned", remoteId: null } as const;
      await setProcess(created, "other");
      const process = at.gateway.config.processName;
      const start = await db.get("select epoch from process where name = ?", [process]);
      const stale = { process, epoch: Number(start?.["epoch"]) };
      expect(await db.write((tx) => updateProviderBatch(tx, again, stale))).toBe(false);
      expect((await at.submissionOf(created))["state"]).toBe("sent");
      await setBatchFaults(at.gateway, {});
      await setProcess(created, null);
      const ended = await at.end(created);
      await at.expectPaidOnce(ended, 2);
    });

    test("end a day after their window if the operator removed the key", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const created = await at.start(openaiRequests(2));
      await at.reach(created, "sent");
      await setProcess(created, "other");
      const { target } = await at.submissionOf(created);
      const moved = JSON.stringify({ ...(JSON.parse(String(target)) as Json), credential: "gone" });
      await at.gateway.server.db.write((tx) =>
        tx.run("update provider_batch set target = ? where batch_id = ?", [
          moved,
          String(created["id"]),
        ]),
      );
      await setProcess(created, null);
      const isLogged = (): boolean =>
        at.gateway.logLines.some((line) => line.includes("the gateway has no key gone at openai"));
      await eventually(async () => isLogged());
      at.advance(49 * HOUR_MS);
      const ended = await at.end(created);
      expect(ended).toMatchObject({ status: "expired", cost_usd: "0" });
      expect(await at.held()).toBe(0n);
    });

    test("are canceled at the provider at the end of their window", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const created = await at.start(openaiRequests(2));
      await at.reach(created, "sent");
      at.advance(24 * HOUR_MS);
      const ended = await at.end(created);
      expect(ended).toMatchObject({ status: "expired", cost_usd: "0" });
      expect(await at.held()).toBe(0n);
    });

    // Last, because the gateway remembers it until it is started again.
    test("of a provider without batches end in an error, and the gateway runs the next", async () => {
      await setBatchFaults(at.gateway, { refuse: 404 });
      const ended = await at.end(await at.start(requestsTo(GPT, 2)));
      expect(ended).toMatchObject({ request_counts: { failed: 2 }, cost_usd: "0" });
      const [line] = await at.resultsOf(ended);
      const { body } = (line as Json)["response"] as Json;
      expect(errorOf(body)["message"]).toContain("Send the request again");
      expect(await at.held()).toBe(0n);
      const requests = requestsTo(GPT, 1);
      const refused = await postBatch(at.gateway, at.owner(), { requests, processing: "provider" });
      expect([refused.status, errorOf(refused.json)["param"]]).toEqual([400, "processing"]);
      const next = await at.start(requests);
      expect(next["processing"]).toBe("gateway");
      await at.end(next);
      const other = await at.start(requestsTo(CLAUDE, 1));
      expect(other["processing"]).toBe("provider");
      await setBatchFaults(at.gateway, {});
      await call(at.gateway, at.owner(), `POST /v1/batches/${String(other["id"])}/cancel`);
      await at.end(other);
    });
  });
}
