// What a caller could try with responses that wait: more calls than its key may make, storage that is not counted, results that are
// charged and cannot be read, a key's narrower reach, and calls that end twice.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { cancelBatch } from "../../src/batches/batch-rows.ts";
import { deleteExpired, type QueuedResponse } from "../../src/responses/storage/response-rows.ts";
import type { Db, Tx } from "../../src/store/db.ts";
import { setBatchFaults } from "../batches/batch-harness.ts";
import {
  GPT,
  HOUR_MS,
  openProviderFixture,
  type ProviderFixture,
} from "../batches/provider-harness.ts";
import {
  errorOf,
  type Json,
  releaseReplies,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { type ApiResponse, call, cancelResponse, createResponse, getResponse } from "./harness.ts";

const RESPONSES_MAX = 20_000;
const LATER = { background: true, background_options: { completion_window: "8h" } };

for (const store of STORE_KINDS) {
  describe(`attacks on queued responses on ${store}`, () => {
    let at: ProviderFixture;
    beforeAll(async () => {
      at = await openProviderFixture(store);
    });
    afterAll(() => at.close());
    afterEach(() => setBatchFaults(at.gateway, {}));

    const post = (
      account: TestAccount,
      fields: Json = {},
      headers: Record<string, string> = {},
    ): Promise<ApiResponse> =>
      call(at.gateway, account, "POST /v1/responses", {
        headers,
        body: { model: GPT, input: "Hi", max_output_tokens: 64, ...LATER, ...fields },
      });
    const keyOf = async (account: TestAccount, policy: Json): Promise<TestAccount> => {
      const { json } = await call(at.gateway, account, "POST /v1/keys", { body: policy });
      const key = String(json["api_key"]);
      return { ...account, key, headers: { ...account.headers, authorization: `Bearer ${key}` } };
    };
    const ended = (account: TestAccount, id: unknown): Promise<Json> =>
      eventually(async () => {
        const { json } = await getResponse(at.gateway, account, id);
        return json["status"] !== "queued" && json;
      });
    const noHold = async (): Promise<void> => {
      await eventually(async () => (await at.held()) === 0n);
    };
    const reach = async (state: string): Promise<void> => {
      await eventually(async () => {
        const row = await at.gateway.server.db.get(
          `select state from provider_batch join batch on batch.id = provider_batch.batch_id
           where batch.account_id = ?`,
          [at.owner().id],
        );
        return row?.["state"] === state;
      });
    };
    const endsOf = async (account: TestAccount, id: unknown): Promise<readonly unknown[]> => {
      const { json } = await call(at.gateway, account, "GET /v1/events?limit=100");
      const events = json["data"] as readonly Json[];
      return events.flatMap(({ type, data }) => ((data as Json)["id"] === id ? type : []));
    };

    test("a key creates no more of them than its request rate allows", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const key = await keyOf(await at.fund(), { requests_per_minute: 1 });
      const first = await post(key);
      expect(first.status).toBe(200);
      const held = await at.held();
      const second = await post(key);
      expect([second.status, errorOf(second.json)["code"]]).toEqual([429, "rate_limited"]);
      expect(Number(second.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(await at.held()).toBe(held);
      await cancelResponse(at.gateway, key, first.json["id"]);
      await noHold();
    });

    test("one that the gateway runs counts once in the request rate", async () => {
      const key = await keyOf(await at.fund(), { requests_per_minute: 1 });
      const { json } = await post(key, { model: "sim/echo" });
      expect((await ended(at.owner(), json["id"]))["status"]).toBe("completed");
      await noHold();
    });

    test("a stopped session gets no reply from a batch of a provider", async () => {
      const key = await keyOf(await at.fund(), { session: "task-7" });
      await createResponse(at.gateway, key, { model: "sim/echo", input: "Hi" });
      const stopped = await call(at.gateway, at.owner(), "DELETE /v1/sessions/task-7");
      expect(stopped.status).toBe(200);
      const before = await usageRecordsOf(at.gateway.server.db, at.owner().id);
      const { status, json } = await post(key);
      if (status === 200)
        expect(await ended(at.owner(), json["id"])).toMatchObject({ status: "failed", output: [] });
      await noHold();
      expect(await usageRecordsOf(at.gateway.server.db, at.owner().id)).toEqual(before);
    });

    test("canceled ones count in the storage of the account", async () => {
      const account = await at.fund();
      const { db } = at.gateway.server;
      await setBatchFaults(at.gateway, { hold: true });
      await db.write((tx) =>
        tx.insertMany(
          "stored_response",
          [
            "id:text",
            "account_id:text",
            "key_id:text",
            "status:text",
            "background:bigint",
            "hold_id:text",
            "bytes:bigint",
            "sealed_input:text",
            "sealed_response:text",
            "data_key:text",
            "created_at:bigint",
            "expires_at:bigint",
          ],
          Array.from({ length: RESPONSES_MAX }, (_, index) => [
            `resp_old${index}-${account.id}`,
            account.id,
            "key_old",
            "completed",
            1,
            "req_old",
            1,
            "",
            "",
            "",
            1,
            at.now() + HOUR_MS,
          ]),
        ),
      );
      const { json } = await post(account);
      await cancelResponse(at.gateway, account, json["id"]);
      await eventually(async () => {
        const row = await db.get(
          "select count(*) as stored from stored_response where account_id = ?",
          [account.id],
        );
        return Number(row?.["stored"]) <= RESPONSES_MAX;
      });
      await noHold();
    });

    test("one whose account keeps responses for a day can be read after a window of a day", async () => {
      const account = await at.fund();
      const set = await call(at.gateway, account, "PATCH /v1/account/response-storage", {
        body: { retention_days: 1 },
      });
      expect(set.status).toBe(200);
      await setBatchFaults(at.gateway, { hold: true });
      const { json } = await post(account, {
        background_options: { completion_window: "24h" },
      });
      await reach("sent");
      at.advance(24 * HOUR_MS + 60_000);
      await sweepExpired(at.gateway.server.db, at.now());
      expect(await ended(account, json["id"])).toMatchObject({ status: "failed", output: [] });
      await noHold();
      expect(await usageRecordsOf(at.gateway.server.db, account.id)).toEqual([]);
    });

    test("one whose account stores nothing any more is canceled", async () => {
      const account = await at.fund();
      const { db } = at.gateway.server;
      await setBatchFaults(at.gateway, { hold: true });
      const { json } = await post(account);
      await reach("sent");
      const set = await call(at.gateway, account, "PATCH /v1/account/response-storage", {
        body: { store: "never" },
      });
      expect(set.status).toBe(200);
      await sweepExpired(db, at.now());
      await noHold();
      expect((await getResponse(at.gateway, account, json["id"])).status).toBe(404);
      expect(await usageRecordsOf(db, account.id)).toEqual([]);
    });

    test("a repetition that took over the Idempotency-Key is the only one", async () => {
      const account = await at.fund();
      const { db } = at.gateway.server;
      const requested = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      const hook = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        fetch: async () => {
          requested.resolve();
          await released.promise;
          return Response.json({ action: "allow" });
        },
      });
      await call(at.gateway, account, "POST /v1/guardrails/slow", {
        body: {
          type: "hook",
          url: `http://127.0.0.1:${hook.port}/`,
          phases: ["input"],
          timeout_ms: 5_000,
        },
      });
      const posting = post(account, {}, { "idempotency-key": "taken" });
      await requested.promise;
      await db.write((tx) =>
        tx.run("update idempotent_answer set hold_id = 'req_other' where state = 'running'"),
      );
      released.resolve();
      const reply = await posting;
      await hook.stop(true);
      expect(reply.status).toBe(503);
      for (const table of ["stored_response", "batch", "hold"])
        expect([
          table,
          await db.all(`select id from ${table} where account_id = ?`, [account.id]),
        ]).toEqual([table, []]);
    });

    test("a key with a narrower reach finds none of another key", async () => {
      const account = await at.fund();
      await setBatchFaults(at.gateway, { hold: true });
      const { json } = await post(account);
      const id = String(json["id"]);
      const items = await getResponse(at.gateway, account, id, "/input_items");
      const [item] = items.json["data"] as readonly Json[];
      const narrow = await keyOf(account, { limit_usd: 5 });
      for (const route of [
        `GET /v1/responses/${id}`,
        `GET /v1/responses/${id}?stream=true&starting_after=0`,
        `GET /v1/responses/${id}/input_items`,
        `POST /v1/responses/${id}/cancel`,
        `DELETE /v1/responses/${id}`,
      ])
        expect([route, (await call(at.gateway, narrow, route)).status]).toEqual([route, 404]);
      for (const [status, fields] of [
        [404, { previous_response_id: id }],
        [400, { input: [{ type: "item_reference", id: String(item?.["id"]) }] }],
      ] as const) {
        const refused = await post(narrow, fields);
        expect([refused.status, refused.text.includes("Hi")]).toEqual([status, false]);
      }
      const stranger = await at.fund();
      expect((await getResponse(at.gateway, stranger, id)).status).toBe(404);
      expect((await getResponse(at.gateway, account, id)).json["status"]).toBe("queued");
      expect((await cancelResponse(at.gateway, account, id)).status).toBe(200);
      await eventually(
        async () =>
          (
            await at.gateway.server.db.all("select id from batch where account_id = ?", [
              account.id,
            ])
          ).length === 0,
      );
    });

    if (store === "postgres")
      test("one that two processes run is charged and ends once", async () => {
        // A process does not claim a batch again that it runs.
        const other = await startGateway({
          databaseUrl: at.gateway.config.store.databaseUrl?.reveal() ?? "",
          env: { SIM_BASE_URL: at.gateway.simulatorUrl },
          now: at.now,
        });
        const account = await at.fund();
        const { db } = at.gateway.server;
        const { json } = await post(account, {
          model: "sim/echo",
          input: "[[sim: wait=twice]] twice",
          background_options: { completion_window: "2h" },
        });
        for (const runs of [1, 2]) {
          await eventually(async () => {
            const holds = await db.all("select id from hold where account_id = ? and calls > 0", [
              account.id,
            ]);
            const list = await fetch(`${at.gateway.simulatorUrl}/sim/requests?limit=5`);
            const sent = (await list.text()).split("wait=twice").length - 1;
            return holds.length > 0 && sent >= runs;
          });
          // As if the process that runs it was taken for dead.
          if (runs === 1)
            await db.write((tx) =>
              tx.run("update batch set process = null, epoch = null where account_id = ?", [
                account.id,
              ]),
            );
        }
        await releaseReplies(at.gateway, "twice");
        expect((await ended(account, json["id"]))["status"]).toBe("completed");
        await noHold();
        expect((await usageRecordsOf(db, account.id)).length).toBe(1);
        expect(await endsOf(account, json["id"])).toEqual(["response.completed"]);
        await other.stop();
      });

    test("one whose call another process has ended is not run again and again", async () => {
      const account = await at.fund();
      const { db } = at.gateway.server;
      const mark = `latency=4000]] ${account.id}`;
      const sent = async (): Promise<number> => {
        const list = await fetch(`${at.gateway.simulatorUrl}/sim/requests?limit=100`);
        return (await list.text()).split(mark).length - 1;
      };
      const { json } = await post(account, {
        model: "sim/echo",
        input: `[[sim: ${mark}`,
        background_options: { completion_window: "2h" },
      });
      await eventually(async () => (await sent()) === 1);
      await db.write((tx) =>
        tx.run(
          `update batch_item set status = 'errored', http_status = 500, sealed_request = null
           where batch_id in (select id from batch where account_id = ?)`,
          [account.id],
        ),
      );
      expect((await ended(account, json["id"]))["status"]).toBe("failed");
      await noHold();
      expect(await sent()).toBe(1);
      expect(await usageRecordsOf(db, account.id)).toEqual([]);
    });

    test("cancellations and deletions at the time of the result end it once", async () => {
      const account = await at.fund();
      const { db } = at.gateway.server;
      const made = await Promise.all(
        Array.from({ length: 8 }, async (_, index) => {
          const { json } = await post(account, {
            model: "sim/echo",
            input: `[[sim: latency=${index * 20}]] race`,
            background_options: { completion_window: "2h" },
          });
          return json["id"];
        }),
      );
      await Promise.all(
        made.map(async (id, index) => {
          if (index % 2 === 0) await cancelResponse(at.gateway, account, id);
          else await call(at.gateway, account, `DELETE /v1/responses/${String(id)}`);
        }),
      );
      await noHold();
      await eventually(
        async () =>
          (await db.all("select id from batch where account_id = ?", [account.id])).length === 0,
      );
      for (const [index, id] of made.entries()) {
        const { status, json } = await getResponse(at.gateway, account, id);
        const ends = await endsOf(account, id);
        if (index % 2 === 0) {
          expect(["cancelled", "completed"]).toContain(String(json["status"]));
          expect(ends).toEqual([`response.${String(json["status"])}`]);
        } else {
          expect(status).toBe(404);
          expect(ends.length).toBeLessThanOrEqual(1);
        }
      }
    });

    test("the budget of the workspace holds for what waits", async () => {
      const account = await at.fund();
      const set = await call(at.gateway, account, "PATCH /v1/account/budgets", {
        body: { daily_usd: "0.00001" },
      });
      expect([set.status, set.text]).toEqual([200, expect.anything()]);
      const refused = await post(account, { max_output_tokens: 10_000 });
      expect([refused.status, errorOf(refused.json)["code"]]).toEqual([
        403,
        "workspace_budget_reached",
      ]);
      expect(await at.held()).toBe(0n);
    });

    test("a key that is revoked or narrowed before the run gets no reply", async () => {
      const account = await at.fund();
      const { db } = at.gateway.server;
      for (const change of ["revoked", "narrowed"] as const) {
        const { json: made } = await call(at.gateway, account, "POST /v1/keys", { body: {} });
        const key = String(made["api_key"]);
        const headers = { ...account.headers, authorization: `Bearer ${key}` };
        await setBatchFaults(at.gateway, { refuse: 429 });
        const { json } = await post({ ...account, key, headers });
        await eventually(async () => {
          const [row] = await db.all(
            `select attempts, state from provider_batch join batch on batch.id = provider_batch.batch_id
             where batch.response_id = ?`,
            [String(json["id"])],
          );
          return row?.["state"] === "planned" && Number(row["attempts"]) === 1;
        });
        const path = `/v1/keys/${String(made["id"])}`;
        const done =
          change === "revoked"
            ? await call(at.gateway, account, `DELETE ${path}`)
            : await call(at.gateway, account, `PATCH ${path}`, {
                body: { allowed_models: ["sim/*"] },
              });
        expect(done.status).toBe(200);
        await setBatchFaults(at.gateway, {});
        at.advance(10 * 60_000);
        expect(await ended(account, json["id"])).toMatchObject({ status: "failed", output: [] });
        await noHold();
      }
      expect(await usageRecordsOf(db, account.id)).toEqual([]);
    });
  });
}

/** The job that deletes what has expired. */
async function sweepExpired(db: Db, now: number): Promise<void> {
  const cancel = async (tx: Tx, { holdId: id, accountId }: QueuedResponse): Promise<void> =>
    void (await cancelBatch(tx, { id, accountId }, now));
  await db.write((tx) => deleteExpired(tx, { now, limit: 2 * RESPONSES_MAX, cancel }));
}
