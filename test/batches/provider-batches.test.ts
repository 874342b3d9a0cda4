// Batches that providers run: the provider's batch price, each item charged once, and what goes wrong at the provider.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  errorOf,
  type Json,
  lastSimulatorRequest,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { withModels } from "../inference/support/models-file.ts";
import { call } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import { casesOn } from "../support/full.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  chatRequest,
  createBatch,
  openaiRequests,
  postBatch,
  setBatchFaults,
} from "./batch-harness.ts";
import {
  BATCH_MODELS,
  CLAUDE,
  GEMINI,
  GPT,
  hello,
  HOUR_MS,
  LLAMA,
  MINUTE_MS,
  MISTRAL,
  openProviderFixture,
  type ProviderFixture,
  requestsTo,
} from "./provider-harness.ts";

const FUNCTION = { type: "function", function: { name: "now", parameters: { type: "object" } } };

/** Who runs which request. */
const RUNS: readonly (readonly [provider: string, body: Json, endpoint: string])[] = [
  ["openai", { model: "openai/gpt-5-mini", input: "Hi", max_output_tokens: 64 }, "/v1/responses"],
  ["openai", { model: "openai/text-embedding-3-small", input: "Hi" }, "/v1/embeddings"],
  ["openai", hello("openai/gpt-5-mini"), "/v1/messages"],
  // Functions of this model are sent to the Responses API.
  ["openai", { ...hello("openai/gpt-6-luna"), tools: [FUNCTION] }, "/v1/chat/completions"],
  ["anthropic", hello(CLAUDE), "/v1/messages"],
  ["anthropic", hello(CLAUDE), "/v1/chat/completions"],
  ["groq", hello("groq/llama-3.3-70b-versatile"), "/v1/chat/completions"],
  ["google", hello(GEMINI), "/v1/chat/completions"],
  ["google", hello(GEMINI), "/v1/messages"],
  ["google", { model: GEMINI, input: "Hi", max_output_tokens: 64 }, "/v1/responses"],
  ["mistral", hello(MISTRAL), "/v1/chat/completions"],
  ["mistral", { model: "mistral/mistral-embed", input: "Hi" }, "/v1/embeddings"],
  ["together", hello(LLAMA), "/v1/chat/completions"],
];

for (const store of STORE_KINDS) {
  describe(`batches at providers on ${store}`, () => {
    let at: ProviderFixture;
    beforeAll(async () => {
      // An agreement on calls, which does not cover batches.
      at = await openProviderFixture(store, { POSTERN_ZDR_PROVIDERS: "openai" });
    });
    afterAll(() => at.close());
    afterEach(() => setBatchFaults(at.gateway, {}));

    test("cost half of the list price, and hold half", async () => {
      const atGateway = await at.start(openaiRequests(5), { processing: "gateway" });
      const fullHold = await at.held();
      const full = await at.end(atGateway);
      const atProvider = await at.start(openaiRequests(5));
      const halfHold = await at.held();
      const half = await at.end(atProvider);
      expect(full).toMatchObject({ processing: "gateway", provider: null });
      expect(half).toMatchObject({
        status: "completed",
        processing: "provider",
        provider: "openai",
        request_counts: { total: 5, completed: 5, failed: 0 },
      });
      expect(Number(half["cost_usd"]) / Number(full["cost_usd"])).toBeCloseTo(0.5, 6);
      expect(Number(halfHold) / Number(fullHold)).toBeCloseTo(0.5, 4);
      await at.expectPaidOnce(half, 5);
      const lines = await at.resultsOf(half);
      expect(lines.map((line) => line["custom_id"])).toEqual(
        [0, 1, 2, 3, 4].map((n) => `item-${n}`),
      );
      expect(lines[3]).toMatchObject({
        response: { status_code: 200, body: { object: "chat.completion" } },
      });
    });

    for (const [name, body, endpoint] of casesOn(store, RUNS))
      test(`run ${endpoint} of ${String(body["model"])} at ${name}`, async () => {
        const items = [{ custom_id: "item 0", body }];
        const created = await at.start(items, { endpoint, processing: "provider" });
        expect(created["provider"]).toBe(name);
        const ended = await at.end(created);
        expect(ended["request_counts"]).toEqual({ total: 1, completed: 1, failed: 0 });
        expect((await at.resultsOf(ended))[0]).toMatchObject({ response: { status_code: 200 } });
        await at.expectPaidOnce(ended, 1);
        await eventually(async () => (await at.simulated())["files"] === 0);
      });

    test("cost at most what a quote says, and the hold is no less", async () => {
      const [request] = openaiRequests(1);
      const created = await at.start([request]);
      const { json: quote } = await call(at.gateway, at.owner(), "POST /v1/quote", {
        body: request?.body ?? {},
      });
      const holdUsd = Number(await at.held()) / 1e9;
      const ended = await at.end(created);
      expect(Number(quote["batch_usd_max"])).toBeCloseTo(Number(quote["cost_usd_max"]) / 2, 8);
      expect(holdUsd).toBeCloseTo(Number(quote["batch_usd_max"]), 8);
      expect(Number(ended["cost_usd"])).toBeLessThanOrEqual(holdUsd);
      const { json } = await call(at.gateway, at.owner(), "POST /v1/quote", {
        body: { ...chatRequest("a").body },
      });
      expect(json["batch_usd_max"]).toBeNull();
    });

    test("have several models and APIs, each as a batch of the provider", async () => {
      const created = await at.start([
        ...openaiRequests(2),
        chatRequest("other", "Hi", { model: "openai/gpt-5-nano" }),
        chatRequest("function", "Hi", { model: "openai/gpt-6-luna", tools: [FUNCTION] }),
        chatRequest("none", "Hi", { model: "openai/gpt-6-luna" }),
        chatRequest("unknown", "Hi", { model: "openai/nothing" }),
      ]);
      expect(created["processing"]).toBe("provider");
      const ended = await at.end(created);
      expect(ended["request_counts"]).toEqual({ total: 6, completed: 5, failed: 1 });
      await at.expectPaidOnce(ended, 5);
    });

    for (const [name, requests, more] of [
      [
        "go to two providers",
        [...requestsTo(GPT, 1), chatRequest("b", "Hi", { model: CLAUDE })],
        {},
      ],
      ["have a window of an hour", openaiRequests(1), { completion_window: "1h" }],
      ["may not be stored", [chatRequest("a", "Hi", { model: GPT, provider: { zdr: true } })], {}],
      [
        "have another service tier",
        [chatRequest("a", "Hi", { model: GPT, service_tier: "flex" })],
        {},
      ],
      ["are for a provider without batches", [chatRequest("a")], {}],
      [
        "are for a model that costs no less in batches",
        [chatRequest("a", "Hi", { model: "together/openai/gpt-oss-120b" })],
        {},
      ],
    ] as const)
      test(`are run by the gateway if they ${name}`, async () => {
        const owner = await at.fund();
        const refused = await postBatch(at.gateway, owner, {
          requests,
          ...more,
          processing: "provider",
        });
        const created = await postBatch(at.gateway, owner, { requests, ...more });
        if (created.status !== 200) throw new Error(created.text);
        expect(created.json["processing"]).toBe("gateway");
        const ended = await at.end(created.json);
        expect(ended["request_counts"]).toMatchObject({ failed: 0 });
        expect([refused.status, errorOf(refused.json)["param"]]).toEqual([400, "processing"]);
      });

    for (const model of casesOn(store, [GPT, GEMINI]))
      test(`of ${model} are submitted again later if the provider takes no more now`, async () => {
        await setBatchFaults(at.gateway, { fail: { code: "token_limit_exceeded" } });
        const created = await at.start(requestsTo(model, 2));
        await eventually(async () => Number((await at.submissionOf(created))["attempts"]) === 1);
        await at.reach(created, "planned");
        await setBatchFaults(at.gateway, {});
        at.advance(6 * MINUTE_MS);
        const ended = await at.end(created);
        expect(ended["request_counts"]).toMatchObject({ completed: 2 });
        await at.expectPaidOnce(ended, 2);
        // The file of the failed batch is deleted, too.
        await eventually(async () => (await at.simulated())["files"] === 0);
      });

    test("go on without the requests that the provider refuses a batch for", async () => {
      await setBatchFaults(at.gateway, { fail: { code: "invalid_request", line: 2 } });
      const created = await at.start(openaiRequests(3));
      await eventually(async () => {
        const { json } = await call(
          at.gateway,
          at.owner(),
          `GET /v1/batches/${String(created["id"])}`,
        );
        return (json["request_counts"] as Json)["failed"] === 1;
      });
      await setBatchFaults(at.gateway, {});
      const ended = await at.end(created);
      const lines = await at.resultsOf(ended);
      expect(lines.map((line) => (line["response"] as Json)["status_code"])).toContain(400);
      expect(await at.held()).toBe(0n);
    });

    for (const model of casesOn(store, BATCH_MODELS)) {
      test(`of ${model} end in the provider's error, and cost nothing`, async () => {
        for (const faults of [{ refuse: 400 }, { fail: { code: "invalid_request" } }]) {
          // Anthropic checks requests when it runs them.
          if (model === CLAUDE && "fail" in faults) continue;
          await setBatchFaults(at.gateway, faults);
          const ended = await at.end(await at.start(requestsTo(model, 2)));
          expect(ended).toMatchObject({ request_counts: { failed: 2 }, cost_usd: "0" });
          expect((await at.resultsOf(ended))[0]).toMatchObject({ response: { status_code: 400 } });
          expect(await at.held()).toBe(0n);
        }
      });

      test(`of ${model} end a request in the provider's error`, async () => {
        const [first, ...others] = requestsTo(model, 3);
        const bad = hello(model, { messages: [{ role: "user", content: "[[sim: status=400]]" }] });
        const ended = await at.end(await at.start([{ ...first, body: bad }, ...others]));
        expect(ended["request_counts"]).toEqual({ total: 3, completed: 2, failed: 1 });
        expect((await at.resultsOf(ended))[0]).toMatchObject({ response: { status_code: 400 } });
        await at.expectPaidOnce(ended, 2);
      });

      test(`of ${model} are charged for what ran, and not for what expired`, async () => {
        await setBatchFaults(at.gateway, { expire_after: 2 });
        const ended = await at.end(await at.start(requestsTo(model, 3)));
        // Google has no results of an expired batch.
        const completed = model === GEMINI ? 0 : 2;
        expect(ended).toMatchObject({ status: "expired", request_counts: { completed } });
        await at.expectPaidOnce(ended, completed);
        const last = (await at.resultsOf(ended)).at(-1);
        expect(last).toMatchObject({ error: { code: "batch_expired" } });
      });

      test(`of ${model} are canceled at the provider`, async () => {
        await setBatchFaults(at.gateway, { hold: true });
        const created = await at.start(requestsTo(model, 4));
        await at.reach(created, "sent");
        const cancel = `POST /v1/batches/${String(created["id"])}/cancel`;
        await call(at.gateway, at.owner(), cancel);
        const ended = await at.end(created);
        const again = await call(at.gateway, at.owner(), cancel);
        expect([again.status, again.text]).toEqual([409, expect.stringContaining("`cancelled`")]);
        expect(ended).toMatchObject({
          status: "cancelled",
          request_counts: { failed: 4 },
          cost_usd: "0",
        });
        const [line] = await at.resultsOf(ended);
        expect(line).toMatchObject({ error: { code: "batch_cancelled" } });
        expect(await at.held()).toBe(0n);
        const { text } = await call(at.gateway, at.owner(), "GET /v1/events?type=batch.ended");
        // As in the API: one spelling.
        expect(JSON.parse(text).data[0].data).toMatchObject({ status: "cancelled", cancelled: 4 });
        const audit = await call(at.gateway, at.owner(), "GET /v1/audit");
        expect(audit.text).toContain('"batch.cancelled"');
        expect(text + audit.text).not.toContain("canceled");
      });
    }

    test("end an item in error for which the provider has no result", async () => {
      await setBatchFaults(at.gateway, { drop_results: 1 });
      const ended = await at.end(await at.start(openaiRequests(3)));
      expect(ended["request_counts"]).toEqual({ total: 3, completed: 2, failed: 1 });
      expect((await at.resultsOf(ended)).at(-1)).toMatchObject({ response: { status_code: 502 } });
      await at.expectPaidOnce(ended, 2);
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
        await setBatchFaults(at.gateway, { hold: true, replace_replies: replies });
        const created = await at.start(openaiRequests(replies.length + 2), {
          endpoint,
          processing: "provider",
        });
        const most = await at.held();
        await at.reach(created, "sent");
        await setBatchFaults(at.gateway, {});
        const ended = await at.end(created);
        expect(Number(ended["cost_usd"]) * 1e9).toBeLessThanOrEqual(Number(most));
        expect(ended["status"]).toBe("completed");
        const completed = Number((ended["request_counts"] as Json)["completed"]);
        expect(completed).toBeGreaterThanOrEqual(2);
        const records = await usageRecordsOf(at.gateway.server.db, at.owner().id);
        await at.expectPaidOnce(ended, records.length);
        for (const { cost_nano: cost } of records) expect(Number(cost)).toBeGreaterThanOrEqual(0);
      },
    );

    test("charge a result no more than is held for it, whatever the provider reports", async () => {
      const usage = { prompt_tokens: 5, completion_tokens: 1_000_000, total_tokens: 1_000_005 };
      const message = { role: "assistant", content: "long" };
      const choices = [{ index: 0, message, finish_reason: "stop" }];
      await setBatchFaults(at.gateway, { hold: true, replace_replies: [{ choices, usage }] });
      const created = await at.start(openaiRequests(1));
      const held = await at.held();
      await at.reach(created, "sent");
      await setBatchFaults(at.gateway, { hold: false, replace_replies: [{ choices, usage }] });
      const ended = await at.end(created);
      expect(ended["request_counts"]).toMatchObject({ completed: 1 });
      expect(Number(ended["cost_usd"]) * 1e9).toBeCloseTo(Number(held), 3);
      await at.expectPaidOnce(ended, 1);
    });

    test("charge a result once although the provider repeats it", async () => {
      await setBatchFaults(at.gateway, { repeat_results: 2 });
      const ended = await at.end(await at.start(openaiRequests(2)));
      expect(ended["request_counts"]).toEqual({ total: 2, completed: 2, failed: 0 });
      await at.expectPaidOnce(ended, 2);
    });

    /** Of the batch, in the order of its requests. */
    const repliesOf = async (batch: Json): Promise<readonly string[]> =>
      (await at.resultsOf(batch)).map((line) => JSON.stringify(line["response"]));

    test.each([3, 2])(
      "of Google are matched by their order where %i of them have no key",
      async (omit) => {
        await setBatchFaults(at.gateway, { omit_keys: omit });
        const requests = ["one", "two", "three"].map((text) =>
          chatRequest(text, text, { model: GEMINI }),
        );
        const ended = await at.end(await at.start(requests));
        expect(ended["request_counts"]).toEqual({ total: 3, completed: 3, failed: 0 });
        await at.expectPaidOnce(ended, 3);
        const replies = await repliesOf(ended);
        expect(
          replies.map((reply, index) => reply.includes(requests[index]?.custom_id ?? "-")),
        ).toEqual([true, true, true]);
      },
    );

    test("of Google end in an error where results without a key cannot be matched", async () => {
      await setBatchFaults(at.gateway, { omit_keys: 2, drop_results: 1 });
      const ended = await at.end(await at.start(requestsTo(GEMINI, 3)));
      expect(ended["request_counts"]).toEqual({ total: 3, completed: 0, failed: 3 });
      await at.expectPaidOnce(ended, 0);
    });

    test("take no results of another batch", async () => {
      await setBatchFaults(at.gateway, { foreign_ids: true });
      const ended = await at.end(await at.start(openaiRequests(3)));
      expect(ended["request_counts"]).toEqual({ total: 3, completed: 0, failed: 3 });
      await at.expectPaidOnce(ended, 0);
    });

    const GUARDRAIL = { type: "patterns", entities: ["email"], action: "mask" };

    test("are run by the gateway if the workspace has guardrails, or a provider key of its own", async () => {
      const owner = await at.fund();
      const isAtProvider = async (): Promise<boolean> => {
        const body = { requests: openaiRequests(1), processing: "provider" };
        const { status, json } = await postBatch(at.gateway, owner, body);
        if (status === 200) await at.end(json);
        return status === 200;
      };
      expect(await isAtProvider()).toBe(true);
      await call(at.gateway, owner, "POST /v1/guardrails/mask", { body: GUARDRAIL });
      expect(await isAtProvider()).toBe(false);
      await call(at.gateway, owner, "DELETE /v1/guardrails/mask");
      expect(await isAtProvider()).toBe(true);
      const body = { provider: "openai", api_key: "sk-of-the-caller-0123456789abcdef" };
      await call(at.gateway, owner, "POST /v1/provider-keys", { body });
      expect(await isAtProvider()).toBe(false);
    });

    test("are not sent once the workspace has guardrails", async () => {
      await setBatchFaults(at.gateway, { fail: { code: "token_limit_exceeded" } });
      const created = await at.start(openaiRequests(2));
      await eventually(async () => Number((await at.submissionOf(created))["attempts"]) === 1);
      await at.reach(created, "planned");
      await call(at.gateway, at.owner(), "POST /v1/guardrails/mask", { body: GUARDRAIL });
      await setBatchFaults(at.gateway, {});
      at.advance(6 * MINUTE_MS);
      const ended = await at.end(created);
      expect(ended).toMatchObject({ cost_usd: "0", request_counts: { failed: 2 } });
      await at.expectPaidOnce(ended, 0);
    });

    test("are canceled at the provider once their key may make no calls", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const owner = await at.fund();
      const made = await call(at.gateway, owner, "POST /v1/keys", { body: {} });
      const authorization = `Bearer ${String(made.json["api_key"])}`;
      const key = { ...owner, headers: { ...owner.headers, authorization } };
      const created = await createBatch(at.gateway, key, openaiRequests(2));
      await at.reach(created, "sent");
      const changed = await call(at.gateway, owner, `PATCH /v1/keys/${String(made.json["id"])}`, {
        body: { scopes: ["models:read"] },
      });
      expect(changed.status).toBe(200);
      const ended = await at.end(created);
      expect(ended).toMatchObject({ cost_usd: "0", request_counts: { failed: 2 } });
    });

    test("are logged and exported as other calls of their key", async () => {
      const owner = await at.fund();
      const post = async (path: string, body: Json): Promise<Json> => {
        const init = { method: "POST", headers: owner.headers, body: JSON.stringify(body) };
        // Safe because these routes respond with objects.
        return (await (await fetch(`${at.gateway.url}${path}`, init)).json()) as Json;
      };
      await post("/v1/sinks/closed", { type: "otlp", url: "http://127.0.0.1:9/v1/traces" });
      const { api_key: key } = await post("/v1/keys", { name: "logged", prompt_logging: true });
      const headers = { ...owner.headers, authorization: `Bearer ${String(key)}` };
      const created = await createBatch(at.gateway, { ...owner, headers }, openaiRequests(2));
      const batch = await at.end(created);
      expect(batch).toMatchObject({ processing: "provider", status: "completed" });
      for (const [table, column] of [
        ["prompt_log", "id"],
        ["sink_entry", "call_id"],
      ]) {
        const rows = await at.gateway.server.db.all(
          `select ${column} from ${table} where account_id = ?`,
          [owner.id],
        );
        expect([table, rows.length]).toEqual([table, 2]);
      }
    });

    test("show the provider nothing of the caller but the request", async () => {
      await at.start([{ ...openaiRequests(1)[0], custom_id: "customer-name@example.com" }]);
      const sent = await eventually(async () => {
        const { body } = await lastSimulatorRequest(at.gateway);
        return body.includes("safety_identifier") ? body : undefined;
      });
      expect(sent).not.toContain("customer-name");
      expect(sent).not.toContain(at.owner().id);
    });
  });
}

for (const store of STORE_KINDS)
  test(`batches at providers have the prices of their creation on ${store}`, async () => {
    const price = (input: string, output: string): Json => ({
      tokens: { input, output },
      service_tiers: { batch: "0.5" },
    });
    const dearer = new Date(Date.now() + 2 * HOUR_MS).toISOString();
    const model = {
      id: "openai/dated",
      wires: ["chat"],
      context_length: 128_000,
      max_output_tokens: 16_384,
      pricing: [price("1", "2"), { ...price("10", "20"), from: dearer }],
    };
    const at = await openProviderFixture(store, withModels([model]));
    const before = await at.end(await at.start(requestsTo("openai/dated", 1)));
    await setBatchFaults(at.gateway, { hold: true });
    const across = await at.start(requestsTo("openai/dated", 1));
    await at.reach(across, "sent");
    at.advance(3 * HOUR_MS);
    await setBatchFaults(at.gateway, {});
    const settled = await at.end(across);
    await at.expectPaidOnce(settled, 1);
    const after = await at.end(await at.start(requestsTo("openai/dated", 1)));
    expect([before, settled, after].map(({ processing }) => processing)).toEqual([
      "provider",
      "provider",
      "provider",
    ]);
    expect(settled["cost_usd"]).toBe(before["cost_usd"]);
    expect(Number(after["cost_usd"])).toBeCloseTo(10 * Number(before["cost_usd"]), 12);
    await at.close();
  });
