// Batches that providers run: the provider's batch price, each item charged once, and what goes wrong at the provider.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  readProviderBatches,
  updateProviderBatch,
} from "../../src/batches/at-provider/provider-batch-rows.ts";
import {
  errorOf,
  expectSettledLedger,
  lastSimulatorRequest,
  type Json,
  readWallet,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  chatRequest,
  createBatch,
  openaiRequests,
  postBatch,
  readBatch,
  readLines,
  setBatchFaults,
  waitForEnd,
} from "./batch-harness.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const CLAUDE = "anthropic/claude-haiku-4-5";
const claudeRequest = (customId: string, content = "Hi"): Json => ({
  custom_id: customId,
  body: { model: CLAUDE, max_tokens: 64, messages: [{ role: "user", content }] },
});

for (const store of STORE_KINDS) {
  describe(`batches at providers on ${store}`, () => {
    let gateway: Gateway;
    let owner: TestAccount;
    let funds = 0n;
    let clockOffset = 0;
    beforeAll(async () => {
      // An agreement on calls, which does not cover batches.
      const env = { POSTERN_ZDR_PROVIDERS: "openai" };
      gateway = await openGateway({ store, env, now: () => Date.now() + clockOffset });
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });
    afterEach(() => setBatchFaults(gateway, {}));

    const start = async (requests: readonly unknown[], more: Json = {}): Promise<Json> => {
      await fund();
      return createBatch(gateway, owner, requests, more);
    };
    const fund = async (): Promise<void> => {
      owner = await fundedAccount(gateway);
      const { promo, paid } = await readWallet(gateway.server.db, owner.id);
      funds = promo + paid;
    };
    const held = async (): Promise<bigint> => (await readWallet(gateway.server.db, owner.id)).held;
    const resultsOf = (batch: Json): Promise<readonly Json[]> =>
      readLines(gateway, owner, `/v1/batches/${String(batch["id"])}/results`);
    const simulated = async (): Promise<Json> =>
      (await (await fetch(`${gateway.simulatorUrl}/sim/batches`)).json()) as Json;
    /** Each item has one usage record, and they add up to the cost of the batch. */
    const expectPaidOnce = async (batch: Json, items: number): Promise<void> => {
      const usage = await usageRecordsOf(gateway.server.db, owner.id);
      expect(usage.length).toBe(items);
      const sum = usage.reduce((total, row) => total + BigInt(String(row["cost_nano"])), 0n);
      expect(Number(batch["cost_usd"])).toBeCloseTo(Number(sum) / 1e9, 9);
      const { promo, paid, held: left } = await readWallet(gateway.server.db, owner.id);
      expect([promo + paid + sum, left]).toEqual([funds, 0n]);
    };

    test("cost half of the list price, and hold half", async () => {
      const atGateway = await start(openaiRequests(5), { processing: "gateway" });
      const fullHold = await held();
      const full = await waitForEnd(gateway, owner, atGateway["id"]);
      const atProvider = await start(openaiRequests(5));
      const halfHold = await held();
      const half = await waitForEnd(gateway, owner, atProvider["id"]);
      expect(full).toMatchObject({ processing: "gateway", provider: null });
      expect(half).toMatchObject({
        status: "completed",
        processing: "provider",
        provider: "openai",
        request_counts: { total: 5, completed: 5, failed: 0 },
      });
      expect(Number(half["cost_usd"]) / Number(full["cost_usd"])).toBeCloseTo(0.5, 6);
      expect(Number(halfHold) / Number(fullHold)).toBeCloseTo(0.5, 4);
      await expectPaidOnce(half, 5);
      const lines = await resultsOf(half);
      expect(lines.map((line) => line["custom_id"])).toEqual(
        [0, 1, 2, 3, 4].map((n) => `item-${n}`),
      );
      expect(lines[3]).toMatchObject({
        response: { status_code: 200, body: { object: "chat.completion" } },
      });
      // The provider keeps nothing once the results are read.
      await eventually(async () => (await simulated())["files"] === 0);
    });

    for (const [name, requests, endpoint] of [
      [
        "openai",
        [{ model: "openai/gpt-5-mini", input: "Hi", max_output_tokens: 64 }],
        "/v1/responses",
      ],
      ["openai", [{ model: "openai/text-embedding-3-small", input: "Hi" }], "/v1/embeddings"],
      [
        "anthropic",
        [{ model: CLAUDE, max_tokens: 64, messages: [{ role: "user", content: "Hi" }] }],
        "/v1/messages",
      ],
      [
        "anthropic",
        [{ model: CLAUDE, max_tokens: 64, messages: [{ role: "user", content: "Hi" }] }],
        "/v1/chat/completions",
      ],
      [
        "openai",
        [
          {
            model: "openai/gpt-5-mini",
            max_tokens: 64,
            messages: [{ role: "user", content: "Hi" }],
          },
        ],
        "/v1/messages",
      ],
      [
        "groq",
        [
          {
            model: "groq/llama-3.3-70b-versatile",
            max_tokens: 64,
            messages: [{ role: "user", content: "Hi" }],
          },
        ],
        "/v1/chat/completions",
      ],
    ] as const)
      test(`run ${endpoint} at ${name}`, async () => {
        const items = requests.map((body, index) => ({ custom_id: `item ${index}`, body }));
        const created = await start(items, { endpoint, processing: "provider" });
        expect(created["provider"]).toBe(name);
        const ended = await waitForEnd(gateway, owner, created["id"]);
        expect(ended["request_counts"]).toEqual({ total: 1, completed: 1, failed: 0 });
        expect((await resultsOf(ended))[0]).toMatchObject({ response: { status_code: 200 } });
        await expectPaidOnce(ended, 1);
      });

    test("cost at most what a quote says, and the hold is no less", async () => {
      const [request] = openaiRequests(1);
      const created = await start([request]);
      const { json: quote } = await call(gateway, owner, "POST /v1/quote", {
        body: request?.body ?? {},
      });
      const holdUsd = Number(await held()) / 1e9;
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(Number(quote["batch_usd_max"])).toBeCloseTo(Number(quote["cost_usd_max"]) / 2, 8);
      expect(holdUsd).toBeCloseTo(Number(quote["batch_usd_max"]), 8);
      expect(Number(ended["cost_usd"])).toBeLessThanOrEqual(holdUsd);
      const { json } = await call(gateway, owner, "POST /v1/quote", {
        body: { ...chatRequest("a").body },
      });
      expect(json["batch_usd_max"]).toBeNull();
    });

    test("have several models, each as a batch of the provider", async () => {
      const created = await start([
        ...openaiRequests(2),
        chatRequest("other", "Hi", { model: "openai/gpt-5-nano" }),
        chatRequest("unknown", "Hi", { model: "openai/nothing" }),
      ]);
      expect(created["processing"]).toBe("provider");
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended["request_counts"]).toEqual({ total: 4, completed: 3, failed: 1 });
      expect((await simulated())["batches"]).toBeGreaterThanOrEqual(2);
      await expectPaidOnce(ended, 3);
    });

    for (const [name, requests, more] of [
      [
        "go to two providers",
        [chatRequest("a", "Hi", { model: "openai/gpt-5-mini" }), claudeRequest("b")],
        {},
      ],
      ["have a window of an hour", openaiRequests(1), { completion_window: "1h" }],
      [
        "may not be stored",
        [chatRequest("a", "Hi", { model: "openai/gpt-5-mini", provider: { zdr: true } })],
        {},
      ],
      [
        "have another service tier",
        [chatRequest("a", "Hi", { model: "openai/gpt-5-mini", service_tier: "flex" })],
        {},
      ],
      ["are for a provider without batches", [chatRequest("a")], {}],
    ] as const)
      test(`are run by the gateway if they ${name}`, async () => {
        owner = await fundedAccount(gateway);
        const refused = await postBatch(gateway, owner, {
          requests,
          ...more,
          processing: "provider",
        });
        const created = await postBatch(gateway, owner, { requests, ...more });
        if (created.status !== 200) throw new Error(created.text);
        expect(created.json["processing"]).toBe("gateway");
        const ended = await waitForEnd(gateway, owner, created.json["id"]);
        expect(ended["request_counts"]).toMatchObject({ failed: 0 });
        expect([refused.status, errorOf(refused.json)["param"]]).toEqual([400, "processing"]);
      });

    test("find a submission whose reply was lost, and do not repeat it", async () => {
      await setBatchFaults(gateway, { lose_reply: 500 });
      for (const requests of [openaiRequests(3), [claudeRequest("a"), claudeRequest("b")]]) {
        const before = Number((await simulated())["batches"]);
        const created = await start(requests);
        const ended = await waitForEnd(gateway, owner, created["id"]);
        expect(ended["request_counts"]).toMatchObject({ completed: requests.length });
        await expectPaidOnce(ended, requests.length);
        expect(Number((await simulated())["batches"]) - before).toBeLessThanOrEqual(1);
      }
    });

    test("are submitted again later if the provider takes no more now", async () => {
      await setBatchFaults(gateway, { fail: { code: "token_limit_exceeded" } });
      const created = await start(openaiRequests(2));
      await eventually(async () => Number((await submissionOf(created))["attempts"]) === 1);
      await eventually(async () => (await submissionOf(created))["state"] === "planned");
      await setBatchFaults(gateway, {});
      clockOffset += 6 * MINUTE_MS;
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended["request_counts"]).toMatchObject({ completed: 2 });
      await expectPaidOnce(ended, 2);
    });

    test("go on without the requests that the provider refuses a batch for", async () => {
      await setBatchFaults(gateway, { fail: { code: "invalid_request", line: 2 } });
      const created = await start(openaiRequests(3));
      await eventually(async () => Number((await submissionOf(created))["attempts"]) === 1);
      await eventually(
        async () => (await readBatch(gateway, owner, created["id"]), await failedOf(created)) === 1,
      );
      await setBatchFaults(gateway, {});
      const ended = await waitForEnd(gateway, owner, created["id"]);
      const lines = await resultsOf(ended);
      expect(lines.map((line) => (line["response"] as Json)["status_code"])).toContain(400);
      expect(await held()).toBe(0n);
    });

    test("end in the provider's error, and cost nothing, if it refuses them", async () => {
      await setBatchFaults(gateway, { refuse: 400 });
      const created = await start(openaiRequests(2));
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended).toMatchObject({ request_counts: { completed: 0, failed: 2 }, cost_usd: "0" });
      expect((await resultsOf(ended))[0]).toMatchObject({ response: { status_code: 400 } });
      expect(await held()).toBe(0n);
    });

    test("charge what ran, and not what the provider let expire", async () => {
      await setBatchFaults(gateway, { expire_after: 2 });
      for (const requests of [openaiRequests(5), ["a", "b", "c"].map((id) => claudeRequest(id))]) {
        const created = await start(requests);
        const ended = await waitForEnd(gateway, owner, created["id"]);
        expect(ended).toMatchObject({ status: "expired", request_counts: { completed: 2 } });
        await expectPaidOnce(ended, 2);
        expect((await resultsOf(ended)).at(-1)).toMatchObject({ error: { code: "batch_expired" } });
      }
    });

    test("end an item in error for which the provider has no result", async () => {
      await setBatchFaults(gateway, { drop_results: 1 });
      const created = await start(openaiRequests(3));
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended["request_counts"]).toEqual({ total: 3, completed: 2, failed: 1 });
      expect((await resultsOf(ended)).at(-1)).toMatchObject({ response: { status_code: 502 } });
      await expectPaidOnce(ended, 2);
    });

    test.each(["/v1/chat/completions", "/v1/messages"])(
      "end although replies cannot be read, and charge the others (%s)",
      async (endpoint) => {
        const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 };
        const replies = [
          {},
          { error: { message: "no", code: 5 } },
          { choices: null },
          { choices: [null], usage },
          { choices: [{ index: 0, message: null }], usage },
          { choices: [{ message: { content: [[5]] } }], usage: "many" },
          { choices: [{ message: { tool_calls: [null, 5] } }], usage },
          { choices: [], usage: { prompt_tokens: -5, completion_tokens: -1 } },
          { choices: [], usage: { ...usage, prompt_tokens: 1e300 } },
        ];
        await setBatchFaults(gateway, { replace_replies: replies });
        const created = await start(openaiRequests(replies.length + 2), {
          endpoint,
          processing: "provider",
        });
        const ended = await waitForEnd(gateway, owner, created["id"]);
        expect(ended["status"]).toBe("completed");
        const completed = Number((ended["request_counts"] as Json)["completed"]);
        expect(completed).toBeGreaterThanOrEqual(2);
        const records = await usageRecordsOf(gateway.server.db, owner.id);
        await expectPaidOnce(ended, records.length);
        for (const { cost_nano: cost } of records) expect(Number(cost)).toBeGreaterThanOrEqual(0);
        expect(Number(ended["cost_usd"]) * 1e9).toBeLessThanOrEqual(Number(funds));
      },
    );

    test("charge a result once although the provider repeats it", async () => {
      await setBatchFaults(gateway, { repeat_results: 20 });
      const created = await start(openaiRequests(5));
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended["request_counts"]).toEqual({ total: 5, completed: 5, failed: 0 });
      await expectPaidOnce(ended, 5);
    });

    test("charge the requests that the provider has run before they were canceled", async () => {
      await setBatchFaults(gateway, { hold: true });
      const created = await start(openaiRequests(4));
      await eventually(async () => (await submissionOf(created))["state"] === "sent");
      await call(gateway, owner, `POST /v1/batches/${String(created["id"])}/cancel`);
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended).toMatchObject({
        status: "cancelled",
        request_counts: { failed: 4 },
        cost_usd: "0",
      });
      expect((await resultsOf(ended))[0]).toMatchObject({ error: { code: "batch_cancelled" } });
      expect(await held()).toBe(0n);
    });

    test("are canceled at the provider at the end of their window", async () => {
      await setBatchFaults(gateway, { hold: true });
      const created = await start(openaiRequests(2));
      await eventually(async () => (await submissionOf(created))["state"] === "sent");
      clockOffset += 24 * HOUR_MS;
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended).toMatchObject({ status: "expired", cost_usd: "0" });
      expect(await held()).toBe(0n);
    });

    test("charge what has run although the key was revoked or limited meanwhile", async () => {
      for (const change of ["DELETE", "PATCH"]) {
        await fund();
        const made = await call(gateway, owner, "POST /v1/keys", {
          body: { scopes: ["models:write", "models:read"], limit_usd: 50 },
        });
        const authorization = `Bearer ${String(made.json["api_key"] ?? made.json["key"])}`;
        const limited = { ...owner, headers: { ...owner.headers, authorization } };
        await setBatchFaults(gateway, { hold: true });
        const created = await createBatch(gateway, limited, openaiRequests(2));
        await eventually(async () => (await submissionOf(created))["state"] === "sent");
        await call(gateway, owner, `${change} /v1/keys/${String(made.json["id"])}`, {
          ...(change === "PATCH" && { body: { limit_usd: 0, allowed_models: ["sim/*"] } }),
        });
        if (change === "PATCH") await setBatchFaults(gateway, {});
        const ended = await waitForEnd(gateway, owner, created["id"]);
        if (change === "PATCH") await expectPaidOnce(ended, 2);
        else expect((await resultsOf(ended))[0]).toMatchObject({ response: { status_code: 401 } });
        expect(await held()).toBe(0n);
      }
    });

    test("are logged and exported as other calls of their key", async () => {
      await fund();
      const post = async (path: string, body: Json): Promise<Json> => {
        const init = { method: "POST", headers: owner.headers, body: JSON.stringify(body) };
        // Safe because these routes respond with objects.
        return (await (await fetch(`${gateway.url}${path}`, init)).json()) as Json;
      };
      await post("/v1/sinks/closed", { type: "otlp", url: "http://127.0.0.1:9/v1/traces" });
      const { api_key: key } = await post("/v1/keys", { name: "logged", prompt_logging: true });
      const headers = { ...owner.headers, authorization: `Bearer ${String(key)}` };
      const created = await createBatch(gateway, { ...owner, headers }, openaiRequests(2));
      const batch = await waitForEnd(gateway, owner, created["id"]);
      expect(batch).toMatchObject({ processing: "provider", status: "completed" });
      for (const [table, column] of [
        ["prompt_log", "id"],
        ["sink_entry", "call_id"],
      ]) {
        const rows = await gateway.server.db.all(
          `select ${column} from ${table} where account_id = ?`,
          [owner.id],
        );
        expect([table, rows.length]).toEqual([table, 2]);
      }
    });

    test("are left alone by a process that does not run them any more", async () => {
      await setBatchFaults(gateway, { hold: true });
      const created = await start(openaiRequests(2));
      await eventually(async () => (await submissionOf(created))["state"] === "sent");
      const { db } = gateway.server;
      const setOwner = (process: string | null): Promise<unknown> =>
        db.write((tx) =>
          tx.run("update batch set process = ?, epoch = ? where id = ?", [
            process,
            process === null ? null : 1,
            String(created["id"]),
          ]),
        );
      const [row] = await readProviderBatches(db, String(created["id"]));
      if (row === undefined) throw new Error("no batch at the provider");
      const again = { ...row, state: "planned", remoteId: null } as const;
      await setOwner("other");
      const stale = { process: gateway.config.processName, epoch: 1 };
      expect(await db.write((tx) => updateProviderBatch(tx, again, stale))).toBe(false);
      expect((await submissionOf(created))["state"]).toBe("sent");
      await setBatchFaults(gateway, {});
      await setOwner(null);
      const ended = await waitForEnd(gateway, owner, created["id"]);
      await expectPaidOnce(ended, 2);
    });

    test("show the provider nothing of the caller but the request", async () => {
      await start([{ ...openaiRequests(1)[0], custom_id: "customer-name@example.com" }]);
      const sent = await eventually(async () => {
        const { body } = await lastSimulatorRequest(gateway);
        return body.includes("safety_identifier") ? body : undefined;
      });
      expect(sent).not.toContain("customer-name");
      expect(sent).not.toContain(owner.id);
    });

    async function submissionOf(batch: Json): Promise<Json> {
      const row = await gateway.server.db.get("select * from provider_batch where batch_id = ?", [
        String(batch["id"]),
      ]);
      return row ?? {};
    }

    async function failedOf(batch: Json): Promise<number> {
      const { request_counts: counts } = await readBatch(gateway, owner, batch["id"]);
      return Number((counts as Json)["failed"]);
    }
  });
}
