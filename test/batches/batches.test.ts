// Batches that the gateway runs: creation, results, charges, cancellation, expiry and refusals.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Fault } from "../../src/base/fault.ts";
import { findBatch } from "../../src/batches/batch-rows.ts";
import { endInError } from "../../src/batches/item-ends.ts";
import { readPending } from "../../src/batches/item-rows.ts";
import { wholeAccount } from "../../src/http/reach.ts";
import {
  addPaidCredits,
  errorOf,
  expectSettledLedger,
  type Json,
  readWallet,
  releaseReplies,
  USD,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import { type Gateway, registerAccount, type TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  chatRequest,
  chatRequests,
  createBatch,
  createSlowKey,
  postBatch,
  readBatch,
  readLines,
  waitForEnd,
} from "./batch-harness.ts";

/** Requests that run until their replies are released. */
const waitingRequests = (count: number, name: string) =>
  chatRequests(count, `[[sim: wait=${name}]] later`);

for (const store of STORE_KINDS) {
  describe(`batches on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let clockOffset = 0;
    beforeAll(async () => {
      gateway = await openGateway({ store, now: () => Date.now() + clockOffset });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const wallet = (owner = account) => readWallet(gateway.server.db, owner.id);
    const balance = async (owner = account): Promise<bigint> => {
      const { promo, paid } = await wallet(owner);
      return promo + paid;
    };
    const completedOf = ({ request_counts: counts }: Json): number =>
      Number((counts as Json)["completed"]);
    const resultsOf = (batch: Json, owner = account): Promise<readonly Json[]> =>
      readLines(gateway, owner, `/v1/batches/${String(batch["id"])}/results`);

    test("run all requests and charge each once", async () => {
      const before = await balance();
      const created = await createBatch(gateway, account, chatRequests(40), {
        metadata: { job: "nightly" },
      });
      expect(created).toMatchObject({
        object: "batch",
        status: "in_progress",
        processing: "gateway",
        completion_window: "24h",
        metadata: { job: "nightly" },
      });
      const ended = await waitForEnd(gateway, account, created["id"]);
      expect(ended).toMatchObject({
        status: "completed",
        request_counts: { total: 40, completed: 40, failed: 0 },
        error_file_id: null,
      });
      const lines = await resultsOf(ended);
      expect(lines.map((line) => line["custom_id"])).toEqual(
        chatRequests(40).map(({ custom_id }) => custom_id),
      );
      expect(lines[7]).toMatchObject({
        error: null,
        response: { status_code: 200, body: { object: "chat.completion" } },
      });
      const usage = await usageRecordsOf(gateway.server.db, account.id);
      expect(usage.length).toBe(40);
      const { held } = await wallet();
      expect([ended["cost_usd"], held]).toEqual([
        `${Number(before - (await balance())) / 1e9}`,
        0n,
      ]);
    });

    test("send each request as it was written, with all digits", async () => {
      const rest = `"messages": [ {"role":"user","content":"Hi"} ],  "max_tokens": 50, "metadata": {}, "tools": [{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer","maximum":18446744073709551615}}}}}]}`;
      const body = (model: string): string => `{"model": "${model}", ${rest}`;
      const post = (path: string, text: string) =>
        fetch(gateway.url + path, { method: "POST", headers: account.headers, body: text });
      const inBody = await post(
        "/v1/batches",
        `{"endpoint": "/v1/chat/completions", "requests": [ {"custom_id": "a]", "body": ${body("sim/echo")} } , {"custom_id": "b", "body": ${body("sim/echo")}} ]}`,
      );
      const form = new FormData();
      form.set("purpose", "batch");
      const line = `{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": ${body("sim/echo")}}`;
      form.set("file", new File([line], "requests.jsonl"));
      const { authorization = "" } = account.headers;
      const uploaded = await fetch(`${gateway.url}/v1/files`, {
        method: "POST",
        headers: { authorization },
        body: form,
      });
      const file = (await uploaded.json()) as Json;
      const inFile = await post(
        "/v1/batches",
        JSON.stringify({ endpoint: "/v1/chat/completions", input_file_id: file["id"] }),
      );
      const seen = await eventually(async () => {
        const list = await fetch(`${gateway.simulatorUrl}/sim/requests?limit=20`);
        const { data } = (await list.json()) as { data: readonly { body: string }[] };
        const found = data.filter((request) => request.body.includes("18446744073709551615"));
        return found.length === 3 && found;
      });
      for (const { body: sent } of seen) expect(sent).toEndWith(body("echo").slice(1));
      for (const created of [inBody, inFile]) {
        expect(created.status).toBe(200);
        const { id } = (await created.json()) as Json;
        expect((await waitForEnd(gateway, account, id))["status"]).toBe("completed");
      }
    });

    for (const [endpoint, body] of [
      ["/v1/responses", { model: "openai/gpt-5-mini", input: "Hi", max_output_tokens: 64 }],
      [
        "/v1/messages",
        {
          model: "anthropic/claude-haiku-4-5",
          max_tokens: 64,
          messages: [{ role: "user", content: "Hi" }],
        },
      ],
      ["/v1/embeddings", { model: "sim/embed", input: "Hi" }],
    ] as const)
      test(`run ${endpoint}`, async () => {
        const requests = [{ custom_id: "only", method: "POST", url: endpoint, body }];
        const created = await createBatch(gateway, account, requests, { endpoint });
        const ended = await waitForEnd(gateway, account, created["id"]);
        expect(ended["request_counts"]).toEqual({ total: 1, completed: 1, failed: 0 });
        const [line] = await resultsOf(ended);
        expect(line).toMatchObject({ response: { status_code: 200 } });
      });

    test("hold the whole cost, and release it as items end", async () => {
      const owner = await fundedAccount(gateway);
      const key = await createSlowKey(gateway, owner);
      const created = await createBatch(gateway, key, chatRequests(10));
      await eventually(async () => completedOf(await readBatch(gateway, owner, created["id"])) > 0);
      const shares = await gateway.server.db.get(
        `with held as materialized (select amount from hold where account_id = ? and id = ?)
         select sum(share) as whole, sum(case when status = 'pending' then share end) as pending,
           (select amount from held) as held
         from batch_item where batch_id = ?`,
        [owner.id, String(created["id"]), String(created["id"])],
      );
      const [whole, pending, held] = ["whole", "pending", "held"].map((name) =>
        Number(shares?.[name]),
      );
      expect(held).toBe(pending);
      expect(held).toBeLessThan(whole ?? 0);
      await call(gateway, owner, `POST /v1/batches/${String(created["id"])}/cancel`);
      await waitForEnd(gateway, owner, created["id"]);
      expect((await wallet(owner)).held).toBe(0n);
    });

    test("refuse what the credits do not cover, and say how many requests would fit", async () => {
      const owner = await registerAccount(gateway);
      const costly = Array.from({ length: 20 }, (_, index) =>
        chatRequest(`item-${index}`, "Hi", { model: "openai/gpt-5-mini", max_tokens: 100_000 }),
      );
      const { status, json } = await postBatch(gateway, owner, { requests: costly });
      expect(status).toBe(402);
      const error = errorOf(json);
      expect(error).toMatchObject({ code: "insufficient_credits" });
      const fitting = Number(error["affordable_requests"]);
      expect((await wallet(owner)).held).toBe(0n);
      const fits = await postBatch(gateway, owner, { requests: costly.slice(0, fitting) });
      expect(fits.status).toBe(fitting === 0 ? 400 : 200);
      const more = await postBatch(gateway, owner, { requests: costly.slice(0, fitting + 1) });
      expect(more.status).toBe(402);
      if (fitting > 0) await waitForEnd(gateway, owner, fits.json["id"]);
    });

    test("end a request in error that its caller could not make alone", async () => {
      const created = await createBatch(gateway, account, [
        chatRequest("good"),
        chatRequest("unknown", "Hi", { model: "sim/nothing" }),
        chatRequest("invalid", "Hi", { messages: "no list" }),
        chatRequest("foreign", "Hi", {
          model: "openai/gpt-5-mini",
          messages: [
            { role: "user", content: [{ type: "file", file: { file_id: "file-of-another" } }] },
          ],
        }),
      ]);
      const ended = await waitForEnd(gateway, account, created["id"]);
      expect(ended["request_counts"]).toEqual({ total: 4, completed: 1, failed: 3 });
      const lines = await resultsOf(ended);
      const statuses = lines.map((line) => (line["response"] as Json)["status_code"]);
      expect(statuses).toEqual([200, 404, 400, 400]);
      expect(ended["output_file_id"]).toMatch(/^file_/);
      expect(ended["error_file_id"]).toMatch(/^file_/);
    });

    test("do not widen what a key may call", async () => {
      const made = await call(gateway, account, "POST /v1/keys", {
        body: { allowed_models: ["sim/echo"], scopes: ["models:write"] },
      });
      expect(made.status).toBe(201);
      const authorization = `Bearer ${String(made.json["api_key"] ?? made.json["key"])}`;
      const limited = { ...account, headers: { ...account.headers, authorization } };
      const created = await createBatch(gateway, limited, [
        chatRequest("allowed"),
        chatRequest("denied", "Hi", { model: "openai/gpt-5-mini" }),
        chatRequest("hidden", "Hi", { models: ["openai/gpt-5-mini", "sim/echo"] }),
      ]);
      const ended = await waitForEnd(gateway, limited, created["id"]);
      const lines = await resultsOf(ended, limited);
      expect(lines[1]).toMatchObject({ response: { status_code: 403 } });
      for (const path of ["/v1/batches", "/v1/messages/batches", "/v1/files"]) {
        const { json } = await call(gateway, limited, `GET ${path}`);
        // A limited key does not learn the ids of what other keys made.
        expect((json["data"] as unknown[]).length).toBe(path === "/v1/files" ? 2 : 1);
      }
      for (const line of lines) expect(JSON.stringify(line)).not.toContain('"model":"gpt-5');
    });

    test("end all requests in error once their key is revoked", async () => {
      const made = await call(gateway, account, "POST /v1/keys", {
        body: { scopes: ["models:write"] },
      });
      const authorization = `Bearer ${String(made.json["api_key"] ?? made.json["key"])}`;
      const other = { ...account, headers: { ...account.headers, authorization } };
      const created = await createBatch(gateway, other, waitingRequests(30, "revoked"));
      await call(gateway, account, `DELETE /v1/keys/${String(made.json["id"])}`);
      await releaseReplies(gateway, "revoked");
      const ended = await waitForEnd(gateway, account, created["id"]);
      const lines = await resultsOf(ended);
      expect(lines.at(-1)).toMatchObject({ response: { status_code: 401 } });
      expect((await wallet()).held).toBe(0n);
    });

    test("end all requests in error once their key may make no calls", async () => {
      const made = await call(gateway, account, "POST /v1/keys", { body: {} });
      const authorization = `Bearer ${String(made.json["api_key"])}`;
      const key = { ...account, headers: { ...account.headers, authorization } };
      const created = await createBatch(gateway, key, waitingRequests(30, "narrowed"));
      const changed = await call(gateway, account, `PATCH /v1/keys/${String(made.json["id"])}`, {
        body: { scopes: ["models:read"] },
      });
      expect(changed.status).toBe(200);
      await releaseReplies(gateway, "narrowed");
      const lines = await resultsOf(await waitForEnd(gateway, account, created["id"]));
      expect(lines.at(-1)).toMatchObject({ response: { status_code: 403 } });
    });

    test("release the share of an item once", async () => {
      const owner = await fundedAccount(gateway);
      const { db } = gateway.server;
      // Nothing else changes the hold.
      const key = await createSlowKey(gateway, owner);
      const created = await createBatch(gateway, key, chatRequests(60));
      await eventually(
        async () => completedOf(await readBatch(gateway, owner, created["id"])) === 1,
      );
      const batch = await findBatch(db, wholeAccount(owner.id), String(created["id"]));
      const item = (await readPending(db, String(created["id"]), { after: 58, limit: 1 }))[0];
      if (batch === undefined || item === undefined) throw new Error("the batch has no item 59");
      const sealer = { seal: () => new Uint8Array(1), open: () => "" };
      const fault = new Fault("upstream_error", "of the test");
      const heldBy = async (): Promise<number> => {
        const row = await db.get("select amount from hold where id = ?", [batch.id]);
        return Number(row?.["amount"]);
      };
      const before = await heldBy();
      const end = () => endInError(db, { batch, sealer }, item, { fault, requestId: "req_1" });
      await end();
      expect(await heldBy()).toBe(before - Number(item.share));
      await end();
      expect(await heldBy()).toBe(before - Number(item.share));
      await call(gateway, owner, `POST /v1/batches/${batch.id}/cancel`);
      await waitForEnd(gateway, owner, batch.id);
    });

    test("cancel what was not run", async () => {
      const owner = await fundedAccount(gateway);
      const created = await createBatch(gateway, owner, [
        chatRequest("fast"),
        ...waitingRequests(60, "canceled"),
      ]);
      const id = String(created["id"]);
      await eventually(async () => completedOf(await readBatch(gateway, owner, id)) > 0);
      const canceling = await call(gateway, owner, `POST /v1/batches/${id}/cancel`);
      expect(canceling.json).toMatchObject({ status: "cancelling" });
      expect((await call(gateway, owner, `POST /v1/batches/${id}/cancel`)).status).toBe(200);
      // The process looks once a second whether the batch was canceled.
      clockOffset += 2_000;
      await releaseReplies(gateway, "canceled");
      const ended = await waitForEnd(gateway, owner, id);
      expect(ended["status"]).toBe("cancelled");
      expect(completedOf(ended)).toBeGreaterThan(0);
      const lines = await resultsOf(ended, owner);
      expect(lines[0]).toMatchObject({ custom_id: "fast", response: { status_code: 200 } });
      expect(lines.at(-1)).toMatchObject({ response: null, error: { code: "batch_cancelled" } });
      expect((await wallet(owner)).held).toBe(0n);
      expect((await call(gateway, owner, `POST /v1/batches/${id}/cancel`)).status).toBe(409);
      const spent = 100n * USD + 0n - (await balance(owner));
      expect(spent).toBeLessThan(100n * USD);
    });

    test("expire at the end of their window", async () => {
      const owner = await fundedAccount(gateway);
      const created = await createBatch(gateway, owner, waitingRequests(60, "expired"), {
        completion_window: "1h",
      });
      clockOffset += 3_600_000;
      await releaseReplies(gateway, "expired");
      const ended = await waitForEnd(gateway, owner, created["id"]);
      expect(ended["status"]).toBe("expired");
      const lines = await resultsOf(ended, owner);
      expect(lines.at(-1)).toMatchObject({ response: null, error: { code: "batch_expired" } });
      expect((await wallet(owner)).held).toBe(0n);
    });

    test("are not visible to other accounts", async () => {
      const created = await createBatch(gateway, account, [chatRequest("mine")]);
      const ended = await waitForEnd(gateway, account, created["id"]);
      const id = String(ended["id"]);
      const other = await fundedAccount(gateway);
      for (const route of [
        `GET /v1/batches/${id}`,
        `GET /v1/batches/${id}/results`,
        `POST /v1/batches/${id}/cancel`,
        `GET /v1/messages/batches/${id}`,
        `GET /v1/messages/batches/${id}/results`,
        `POST /v1/messages/batches/${id}/cancel`,
        `DELETE /v1/messages/batches/${id}`,
      ])
        expect([route, (await call(gateway, other, route)).status]).toEqual([route, 404]);
      const { json } = await call(gateway, other, "GET /v1/batches");
      expect(json["data"]).toEqual([]);
    });

    test("are listed page by page", async () => {
      const owner = await fundedAccount(gateway);
      const ids: unknown[] = [];
      for (let index = 0; index < 3; index++)
        ids.unshift((await createBatch(gateway, owner, [chatRequest("one")]))["id"]);
      const first = await call(gateway, owner, "GET /v1/batches?limit=2");
      expect(first.json).toMatchObject({ first_id: ids[0], last_id: ids[1], has_more: true });
      const rest = await call(gateway, owner, `GET /v1/batches?limit=2&after=${String(ids[1])}`);
      expect(rest.json).toMatchObject({ first_id: ids[2], has_more: false });
      const newer = await call(
        gateway,
        owner,
        `GET /v1/messages/batches?limit=1&before_id=${String(ids[2])}`,
      );
      expect(newer.json).toMatchObject({ first_id: ids[1], has_more: true });
      for (const id of ids) await waitForEnd(gateway, owner, id);
    });

    for (const [name, body] of [
      ["no requests", { requests: [] }],
      ["neither requests nor a file", {}],
      ["requests and a file", { requests: [chatRequest("a")], input_file_id: "file_x" }],
      ["another endpoint", { endpoint: "/v1/images/generations", requests: [chatRequest("a")] }],
      ["another url", { requests: [{ ...chatRequest("a"), url: "/v1/embeddings" }] }],
      ["another method", { requests: [{ ...chatRequest("a"), method: "DELETE" }] }],
      ["a stream", { requests: [chatRequest("a", "Hi", { stream: true })] }],
      ["a background call", { requests: [chatRequest("a", "Hi", { background: true })] }],
      ["a repeated custom_id", { requests: [chatRequest("a"), chatRequest("a")] }],
      ["an empty custom_id", { requests: [chatRequest("")] }],
      ["a request without a body", { requests: [{ custom_id: "a" }] }],
      ["a request that is no object", { requests: ["a"] }],
      ["a window of a week", { requests: [chatRequest("a")], completion_window: "168h" }],
      ["10,001 requests", { requests: chatRequests(10_001) }],
    ] as const)
      test(`refuse ${name}`, async () => {
        const before = (await wallet()).held;
        const { status, json } = await postBatch(gateway, account, body);
        expect(status).toBe(400);
        expect(errorOf(json)["code"]).toBe("invalid_request");
        expect((await wallet()).held).toBe(before);
      });

    test("are created once for an Idempotency-Key", async () => {
      const owner = await fundedAccount(gateway);
      const headers = { "idempotency-key": "one-batch" };
      const body = { endpoint: "/v1/chat/completions", requests: [chatRequest("a")] };
      const first = await call(gateway, owner, "POST /v1/batches", { body, headers });
      const second = await call(gateway, owner, "POST /v1/batches", { body, headers });
      expect(second.json["id"]).toBe(first.json["id"]);
      const { json } = await call(gateway, owner, "GET /v1/batches");
      expect((json["data"] as unknown[]).length).toBe(1);
      await waitForEnd(gateway, owner, first.json["id"]);
    });

    test("get the settings of the preset that they name, in its version of then", async () => {
      const save = (settings: object) =>
        fetch(`${gateway.url}/v1/presets/batched`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify(settings),
        });
      await save({ model: "sim/echo", system: "You review code." });
      const request = chatRequest("a");
      const body = { ...(request["body"] as object), model: "@preset/batched" };
      const created = await createBatch(gateway, account, [{ ...request, body }]);
      await save({ model: "sim/tiny" });
      await waitForEnd(gateway, account, created["id"]);
      const results = await call(
        gateway,
        account,
        `GET /v1/batches/${String(created["id"])}/results`,
      );
      expect(results.text).toContain('"model":"sim/echo"');
    });

    test("are refused while the workspace is frozen", async () => {
      const owner = await registerAccount(gateway);
      await addPaidCredits(gateway, owner, 10n * USD);
      const { db } = gateway.server;
      await db.write((tx) =>
        tx.run("update wallet set frozen_at = ?, frozen_reason = 'test' where account_id = ?", [
          1,
          owner.id,
        ]),
      );
      const { status, json } = await postBatch(gateway, owner, { requests: [chatRequest("a")] });
      expect([status, errorOf(json)["code"]]).toEqual([403, "workspace_frozen"]);
    });

    test("read the state of a batch that runs", async () => {
      const created = await createBatch(gateway, account, waitingRequests(1, "running"));
      expect(await readBatch(gateway, account, created["id"])).toMatchObject({
        status: "in_progress",
      });
      const results = await call(
        gateway,
        account,
        `GET /v1/batches/${String(created["id"])}/results`,
      );
      expect(results.status).toBe(409);
      await releaseReplies(gateway, "running");
      await waitForEnd(gateway, account, created["id"]);
    });
  });
}
