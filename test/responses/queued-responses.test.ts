// Background responses with a completion window: who runs them, what they cost, and how they end.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import OpenAI from "openai";
import { setBatchFaults } from "../batches/batch-harness.ts";
import {
  BATCH_MODELS,
  GPT,
  HOUR_MS,
  openProviderFixture,
  type ProviderFixture,
} from "../batches/provider-harness.ts";
import {
  errorOf,
  expectEnvelope,
  type Json,
  lastSimulatorRequest,
  readWallet,
  releaseReplies,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { casesOn, testOn } from "../support/full.ts";
import { registerAccount, type TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiResponse,
  call,
  cancelResponse,
  createResponse,
  getResponse,
  textOf,
  waitUntilEnded,
} from "./harness.ts";

for (const store of STORE_KINDS) {
  describe(`queued responses on ${store}`, () => {
    const testOnce = testOn(store);
    let at: ProviderFixture;
    beforeAll(async () => {
      // An agreement on calls, which does not cover batches.
      at = await openProviderFixture(store, { POSTERN_ZDR_PROVIDERS: "openai" });
    });
    afterAll(() => at.close());
    afterEach(() => setBatchFaults(at.gateway, {}));

    const post = (account: TestAccount, fields: Json, headers = {}): Promise<ApiResponse> =>
      call(at.gateway, account, "POST /v1/responses", {
        headers,
        body: { model: GPT, input: "Hi", max_output_tokens: 64, background: true, ...fields },
      });
    const windowOf = (window: string): Json => ({
      background_options: { completion_window: window },
    });
    /** Creates a response of a new account. */
    const queue = async (fields: Json = {}, window = "8h"): Promise<Json> => {
      const reply = await post(await at.fund(), { ...windowOf(window), ...fields });
      if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
      expect(reply.json).toMatchObject({ status: "queued", output: [], usage: null });
      return reply.json;
    };
    const end = ({ id }: Json): Promise<Json> =>
      eventually(async () => {
        const { json } = await getResponse(at.gateway, at.owner(), id);
        return json["status"] !== "queued" && json;
      });
    const noHold = async (): Promise<void> => {
      await eventually(async () => (await at.held()) === 0n);
    };
    const spent = async (): Promise<bigint> => {
      const rows = await usageRecordsOf(at.gateway.server.db, at.owner().id);
      return rows.reduce((sum, row) => sum + BigInt(String(row["cost_nano"])), 0n);
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

    test("are held, priced and charged once at the provider's batch price", async () => {
      const account = await at.fund();
      const full = await createResponse(at.gateway, account, {
        model: GPT,
        input: "Hi",
        max_output_tokens: 64,
      });
      const queued = await queue();
      const held = await at.held();
      expect(queued).toMatchObject({
        object: "response",
        background: true,
        store: true,
        background_options: { completion_window: "8h" },
        postern: { processing: "provider", provider: "openai" },
      });
      const ended = await end(queued);
      expect(ended).toMatchObject({
        id: queued["id"],
        created_at: queued["created_at"],
        status: "completed",
        background: true,
        store: true,
        background_options: { completion_window: "8h" },
        postern: { processing: "provider", provider: "openai" },
      });
      expect(textOf(ended)).toBe("You said: Hi");
      const cost = Number((ended["usage"] as Json)["cost"]);
      expect(cost / Number((full["usage"] as Json)["cost"])).toBeCloseTo(0.5, 6);
      expect(cost).toBeLessThanOrEqual(Number(held) / 1e9);
      await noHold();
      const records = await usageRecordsOf(at.gateway.server.db, at.owner().id);
      expect(records.map(({ api, outcome }) => [api, outcome])).toEqual([
        ["responses", "completed"],
      ]);
      expect(Number(await spent()) / 1e9).toBeCloseTo(cost, 9);
      const listed = await call(at.gateway, at.owner(), "GET /v1/usage");
      expect((listed.json["data"] as readonly Json[]).map(({ labels }) => labels)).toEqual([{}]);
    });

    test("leave no batch, no file and no event of one", async () => {
      const queued = await queue();
      const { db } = at.gateway.server;
      const owner = [at.owner().id];
      const [batch] = await db.all("select id from batch where account_id = ?", owner);
      for (const route of [
        `GET /v1/batches/${String(batch?.["id"])}`,
        `POST /v1/batches/${String(batch?.["id"])}/cancel`,
      ])
        expect((await call(at.gateway, at.owner(), route)).status).toBe(404);
      const { json } = await call(at.gateway, at.owner(), "GET /v1/batches");
      expect(json["data"]).toEqual([]);
      await end(queued);
      await eventually(async () => (await db.all("select id from hold")).length === 0);
      for (const table of ["batch", "stored_file"])
        expect([
          table,
          await db.all(`select id from ${table} where account_id = ?`, owner),
        ]).toEqual([table, []]);
      const events = await call(at.gateway, at.owner(), "GET /v1/events?type=batch.ended");
      expect(events.json["data"]).toEqual([]);
    });

    for (const model of casesOn(store, BATCH_MODELS))
      test(`of ${model} are completed by the batch of the provider`, async () => {
        const queued = await queue({ model });
        expect(queued["postern"]).toMatchObject({ processing: "provider" });
        const ended = await end(queued);
        expect([ended["status"], textOf(ended)]).toEqual(["completed", "You said: Hi"]);
        await noHold();
        expect((await usageRecordsOf(at.gateway.server.db, at.owner().id)).length).toBe(1);
      });

    test.each([
      ["the window is too short for a batch of a provider", {}, "2h"],
      ["the provider has no batches", { model: "sim/echo" }, "24h"],
      ["a data policy forbids storage", { provider: { zdr: true } }, "24h"],
    ])("are run by the gateway at list price if %s", async (_reason, fields, window) => {
      const queued = await queue(fields, window);
      expect(queued["postern"]).toEqual({ processing: "gateway", provider: null });
      const ended = await end(queued);
      expect([ended["status"], textOf(ended)]).toEqual(["completed", "You said: Hi"]);
      await noHold();
      const { cost } = ended["usage"] as Json;
      expect(Number(cost)).toBeCloseTo(Number(await spent()) / 1e9, 9);
      const full = await createResponse(at.gateway, at.owner(), {
        model: GPT,
        input: "Hi",
        max_output_tokens: 64,
        ...fields,
      });
      expect(cost).toBe((full["usage"] as Json)["cost"]);
    });

    test("start at once with the window `soonest`", async () => {
      const reply = await post(await at.fund(), {
        background_options: { completion_window: "soonest", continuation_id: "job 1" },
      });
      expect(reply.json["status"]).toBe("in_progress");
      const ended = await waitUntilEnded(at.gateway, at.owner(), reply.json["id"]);
      expect(ended["status"]).toBe("completed");
    });

    test("continue a conversation, and are continued once they are completed", async () => {
      const first = await queue({ model: "sim/echo", input: "[[sim: wait=early]] first" });
      const early = await post(at.owner(), { previous_response_id: first["id"] });
      expect([early.status, errorOf(early.json)["param"]]).toEqual([400, "previous_response_id"]);
      expect(String(errorOf(early.json)["message"])).toContain("queued");
      const items = await getResponse(at.gateway, at.owner(), first["id"], "/input_items");
      expect(JSON.stringify(items.json["data"])).toContain("first");
      await releaseReplies(at.gateway, "early");
      await end(first);
      const second = await post(at.owner(), {
        ...windowOf("24h"),
        input: "second",
        previous_response_id: first["id"],
      });
      // The first one may be deleted before a batch of the provider has ended.
      expect(second.json["postern"]).toMatchObject({ processing: "gateway" });
      const ended = await end(second.json);
      expect(ended).toMatchObject({ status: "completed", previous_response_id: first["id"] });
      const third = await createResponse(at.gateway, at.owner(), {
        model: "sim/echo",
        input: "third",
        previous_response_id: second.json["id"],
      });
      expect(third["status"]).toBe("completed");
    });

    test("are canceled at the provider, and cost nothing then", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const queued = await queue();
      await reach("sent");
      for (let repetition = 0; repetition < 2; repetition++) {
        const reply = await cancelResponse(at.gateway, at.owner(), queued["id"]);
        expect([reply.status, reply.json["status"]]).toEqual([200, "cancelled"]);
      }
      await noHold();
      expect(await end(queued)).toMatchObject({ status: "cancelled", usage: null });
      expect(await spent()).toBe(0n);
      const { json } = await getResponse(at.gateway, at.owner(), queued["id"]);
      expect(json["error"]).toBeNull();
    });

    test("that run at the gateway are charged although they are canceled", async () => {
      const queued = await queue({
        model: "sim/echo",
        input: "[[sim: latency=3000]] paid",
      });
      await eventually(async () => {
        const rows = await at.gateway.server.db.all(
          "select id from hold where account_id = ? and calls > 0",
          [at.owner().id],
        );
        return rows.length > 0;
      });
      const canceled = await cancelResponse(at.gateway, at.owner(), queued["id"]);
      expect(canceled.json["status"]).toBe("cancelled");
      await noHold();
      const { json } = await getResponse(at.gateway, at.owner(), queued["id"]);
      expect(json).toMatchObject({ status: "cancelled", output: [] });
      const { cost } = json["usage"] as Json;
      expect(Number(cost)).toBeGreaterThan(0);
      expect(Number(cost)).toBeCloseTo(Number(await spent()) / 1e9, 9);
    });

    test("cannot be canceled after they have completed", async () => {
      const queued = await queue({ model: "sim/echo" });
      await end(queued);
      const reply = await cancelResponse(at.gateway, at.owner(), queued["id"]);
      expect([reply.status, errorOf(reply.json)["param"]]).toEqual([400, "id"]);
    });

    test("are not run once they are deleted", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const queued = await queue();
      await reach("sent");
      const route = `DELETE /v1/responses/${String(queued["id"])}`;
      expect((await call(at.gateway, at.owner(), route)).status).toBe(200);
      await noHold();
      expect((await getResponse(at.gateway, at.owner(), queued["id"])).status).toBe(404);
      expect(await spent()).toBe(0n);
      const rows = await at.gateway.server.db.all("select id from batch where account_id = ?", [
        at.owner().id,
      ]);
      expect(rows).toEqual([]);
    });

    test("fail with the error of the provider's batch, and cost nothing then", async () => {
      await setBatchFaults(at.gateway, { refuse: 400 });
      const ended = await end(await queue());
      expect(ended).toMatchObject({
        status: "failed",
        error: { code: "server_error" },
        usage: null,
      });
      expect(String((ended["error"] as Json)["message"])).toBe("OpenAI: The batch was refused.");
      await noHold();
      expect(await spent()).toBe(0n);
    });

    test("fail with the error of the call at the gateway, and cost nothing then", async () => {
      const ended = await end(
        await queue({ model: "sim/echo", input: "[[sim: status=400]] x", background: true }),
      );
      expect(ended).toMatchObject({
        status: "failed",
        error: { message: expect.stringContaining("requested by a directive") },
        background_options: { completion_window: "8h" },
      });
      await noHold();
      expect(await spent()).toBe(0n);
    });

    test("fail when their window ends, and cost nothing then", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const queued = await queue();
      await reach("sent");
      at.advance(9 * HOUR_MS);
      const ended = await end(queued);
      expect(ended["status"]).toBe("failed");
      expect(String((ended["error"] as Json)["message"])).toContain("completion window ended");
      await noHold();
      expect(await spent()).toBe(0n);
    });

    test.each<readonly [string, Json]>([
      ["background_options.completion_window", windowOf("3h")],
      ["background_options.completion_window", { ...windowOf("8h"), background: false }],
      ["stream", { ...windowOf("8h"), stream: true }],
      ["service_tier", { ...windowOf("8h"), service_tier: "flex" }],
      ["background", { ...windowOf("8h"), store: false }],
    ])("are refused because of `%s` (%j)", async (param, fields) => {
      const reply = await post(await at.fund(), fields);
      expect([reply.status, errorOf(reply.json)["param"]]).toEqual([400, param]);
      expect(await at.held()).toBe(0n);
    });

    test("are refused with a limit of a session, of which they are no part", async () => {
      const reply = await post(await at.fund(), windowOf("8h"), {
        "x-postern-session": "s1",
        "x-postern-session-limit-usd": "1",
      });
      const { param } = errorOf(reply.json);
      expect([reply.status, param]).toEqual([400, "x-postern-session-limit-usd"]);
    });

    test("are refused with the errors of other calls, and leave nothing", async () => {
      const unfunded = await registerAccount(at.gateway);
      const rejection = async (fields: Json): Promise<readonly unknown[]> => {
        const { json, status } = await post(unfunded, { ...windowOf("8h"), ...fields });
        expectEnvelope("responses", json);
        return [status, errorOf(json)["code"]];
      };
      expect(await rejection({ model: "sim/unknown" })).toEqual([404, "model_not_found"]);
      expect(await rejection({ model: "openai/gpt-5", max_output_tokens: 100_000 })).toEqual([
        402,
        "insufficient_credits",
      ]);
      for (const table of ["stored_response", "batch", "hold"])
        expect([
          table,
          await at.gateway.server.db.all(`select id from ${table} where account_id = ?`, [
            unfunded.id,
          ]),
        ]).toEqual([table, []]);
    });

    test("are created once per Idempotency-Key", async () => {
      const account = await at.fund();
      const headers = { "idempotency-key": "queue-once" };
      const first = await post(account, windowOf("8h"), headers);
      await end(first.json);
      const second = await post(account, windowOf("8h"), headers);
      expect(second.json).toEqual(first.json);
      expect((await usageRecordsOf(at.gateway.server.db, account.id)).length).toBe(1);
    });

    test("are checked by guardrails before they are queued, and their replies", async () => {
      const account = await at.fund();
      const secret = `sk-${"aB3".repeat(12)}`;
      const save = (body: Json) =>
        call(at.gateway, account, "POST /v1/guardrails/own", {
          body: { type: "patterns", entities: ["api_key"], ...body },
        });
      await save({ action: "deny" });
      const denied = await post(account, { ...windowOf("8h"), input: `Use ${secret}` });
      expect([denied.status, errorOf(denied.json)["code"]]).toEqual([403, "guardrail_denied"]);
      await save({ action: "mask" });
      const masked = await post(account, { ...windowOf("8h"), input: `Use ${secret}` });
      // The gateway checks each reply before it is charged.
      expect(masked.json["postern"]).toMatchObject({ processing: "gateway" });
      expect(textOf(await end(masked.json))).toBe("You said: Use [API_KEY]");
      await noHold();
    });

    test("have the receipt of the request as it was sent, which reaches the model with all digits", async () => {
      const account = await at.fund();
      const parameters = `{"type":"object", "properties":{"n":{"type":"integer","maximum":18446744073709551615}}}`;
      for (const model of [GPT, "sim/echo"]) {
        const body = `{"model": "${model}", "input": "Hi",  "background": true, "background_options": {"completion_window": "8h"}, "max_output_tokens": 64, "tools": [{"type":"function","name":"f","strict":false,"parameters":${parameters}}], "postern": {"receipt": true}}`;
        const reply = await fetch(`${at.gateway.url}/v1/responses`, {
          method: "POST",
          headers: account.headers,
          body,
        });
        const created = (await reply.json()) as Json;
        expect([reply.status, created["status"]]).toEqual([200, "queued"]);
        expect((await end(created))["status"]).toBe("completed");
        const { json } = await call(at.gateway, account, "GET /v1/usage?limit=1");
        const [record] = json["data"] as readonly Json[];
        const { text } = await call(
          at.gateway,
          account,
          `GET /v1/usage/${String(record?.["id"])}/receipt`,
        );
        const [, payload = ""] = String((JSON.parse(text) as Json)["receipt"]).split(".");
        const receipt = JSON.parse(Buffer.from(payload, "base64url").toString()) as Json;
        const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
        const read = await getResponse(at.gateway, account, created["id"]);
        expect([receipt["request_sha256"], receipt["response_sha256"]]).toEqual([
          sha256(body),
          sha256(read.text),
        ]);
      }
      expect((await lastSimulatorRequest(at.gateway)).body).toContain(parameters);
    });

    test("and batches take no quote, which would expire before they run", async () => {
      const account = await at.fund();
      const body = { model: GPT, input: "Hi", max_output_tokens: 64 };
      const quote = await call(at.gateway, account, "POST /v1/quote?api=responses", { body });
      const offer = String(quote.json["offer"]);
      const header = { "x-postern-quote": offer };
      const batch = { endpoint: "/v1/responses", requests: [{ custom_id: "1", body }] };
      for (const [param, reply] of [
        ["x-postern-quote", await post(account, windowOf("8h"), header)],
        ["postern.quote", await post(account, { ...windowOf("8h"), postern: { quote: offer } })],
        [
          "x-postern-quote",
          await call(at.gateway, account, "POST /v1/batches", { headers: header, body: batch }),
        ],
      ] as const) {
        expect([reply.status, errorOf(reply.json)["param"]]).toEqual([400, param]);
        expect(String(errorOf(reply.json)["message"])).toContain("max_cost_usd");
      }
      expect(await at.held()).toBe(0n);
    });

    test("end with an event, as do background responses that start at once", async () => {
      const account = await at.fund();
      const ends = async (id: unknown): Promise<readonly unknown[]> => {
        const { json } = await call(at.gateway, account, "GET /v1/events?limit=100");
        const events = json["data"] as readonly Json[];
        return events.flatMap(({ type, data }) => ((data as Json)["id"] === id ? type : []));
      };
      const start = async (fields: Json): Promise<unknown> =>
        (await post(account, { model: "sim/echo", ...fields })).json["id"];
      for (const wait of [windowOf("2h"), {}]) {
        const wanted = [
          ["response.completed", await start(wait)],
          [
            "response.incomplete",
            await start({ ...wait, max_output_tokens: 16, input: "word ".repeat(99) }),
          ],
          ["response.failed", await start({ ...wait, input: "[[sim: status=400]] x" })],
        ] as const;
        for (const [type, id] of wanted) {
          await eventually(async () => (await ends(id)).length > 0);
          expect(await ends(id)).toEqual([type]);
        }
        const canceled = await start({ ...wait, input: "[[sim: latency=3000]] x" });
        expect((await cancelResponse(at.gateway, account, canceled)).status).toBe(200);
        expect(await ends(canceled)).toEqual(["response.cancelled"]);
        await noHold();
        expect(await ends(canceled)).toEqual(["response.cancelled"]);
      }
    });

    testOnce("end for the official SDK, which polls them", async () => {
      const { key: apiKey } = await at.fund();
      const client = new OpenAI({ apiKey, baseURL: `${at.gateway.url}/v1`, maxRetries: 0 });
      const params = {
        model: GPT,
        input: "Hi",
        max_output_tokens: 64,
        background: true,
        background_options: { completion_window: "8h" },
      } as const;
      const created = await client.responses.create(params);
      expect(created.status).toBe("queued");
      const ended = await eventually(async () => {
        const read = await client.responses.retrieve(created.id);
        return read.status === "queued" || read.status === "in_progress" ? undefined : read;
      });
      expect([ended.status, ended.output_text]).toEqual(["completed", "You said: Hi"]);
      await setBatchFaults(at.gateway, { hold: true });
      const other = await client.responses.create(params);
      expect((await client.responses.cancel(other.id)).status).toBe("cancelled");
      await noHold();
    });

    test("keep the price of their creation in the hold, and release what is left", async () => {
      const before = await readWallet(at.gateway.server.db, (await at.fund()).id);
      const reply = await post(at.owner(), windowOf("24h"));
      await end(reply.json);
      await noHold();
      const after = await readWallet(at.gateway.server.db, at.owner().id);
      expect(before.promo + before.paid - after.promo - after.paid).toBe(await spent());
    });
  });
}
