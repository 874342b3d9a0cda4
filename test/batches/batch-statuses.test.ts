// Every status that the routes of batches and files promise.

import { afterAll, beforeAll, describe, test } from "bun:test";
import { request as httpRequest } from "node:http";
import type { Json } from "../inference/support/harness.ts";
import { type ApiResponse, call, fundedAccount, openGateway } from "../responses/harness.ts";
import { type Gateway, registerAccount, type TestAccount } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { chatRequest, openaiRequests, setBatchFaults, waitForEnd } from "./batch-harness.ts";

// The first test starts PostgreSQL.

const PARAMS = {
  model: "sim/echo",
  max_tokens: 64,
  messages: [{ role: "user", content: "Hi" }],
};
const MESSAGES = { requests: [{ custom_id: "a", params: PARAMS }] };
/** Runs until it is canceled, because the simulator holds batches back. */
const HELD = {
  endpoint: "/v1/chat/completions",
  processing: "provider",
  requests: openaiRequests(1),
};
const CHAT = { endpoint: "/v1/chat/completions", requests: [chatRequest("a")] };
/** Costs more than a new account has. */
const COSTLY = { model: "openai/gpt-5-mini", max_tokens: 100_000 };
const TOO_LARGE = String(200 * 1_048_576);
const LONG_ID = "x".repeat(300);

for (const store of STORE_KINDS)
  describe(`the statuses of batches and files on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let poor: TestAccount;
    let ended: string;
    let running: string;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
      poor = await registerAccount(gateway);
      await setBatchFaults(gateway, { hold: true });
      running = String((await send("POST /v1/batches", HELD)).json["id"]);
      const created = await send("POST /v1/batches", CHAT);
      expectStatus("createBatch", 200, created);
      ended = String(created.json["id"]);
      await waitForEnd(gateway, account, ended);
    });
    afterAll(() => gateway.stop());

    const send = (
      route: string,
      body?: Json,
      headers: Record<string, string> = {},
      owner = account,
    ): Promise<ApiResponse> =>
      call(gateway, owner, route, { ...(body === undefined ? {} : { body }), headers });

    /** The response to the headers of a request whose body is not sent. */
    const sendHeaders = (path: string, contentType: string): Promise<{ readonly status: number }> =>
      new Promise((resolve, reject) => {
        const headers = {
          ...account.headers,
          "content-type": contentType,
          "content-length": TOO_LARGE,
        };
        const request = httpRequest(gateway.url + path, { method: "POST", headers });
        request.on("error", reject).on("response", ({ statusCode }) => {
          resolve({ status: statusCode ?? 0 });
          request.destroy();
        });
        request.flushHeaders();
      });

    const upload = async (purpose: string): Promise<ApiResponse> => {
      const form = new FormData();
      form.set("purpose", purpose);
      form.set("file", new Blob(["{}"]), "requests.jsonl");
      const { authorization = "" } = account.headers;
      const init = { method: "POST", headers: { authorization }, body: form };
      const response = await fetch(`${gateway.url}/v1/files`, init);
      const { status, headers } = response;
      // Safe because this route responds with objects.
      const json = (await response.json()) as Json;
      return { status, headers, json, text: JSON.stringify(json) };
    };

    test("POST /v1/batches", async () => {
      expectStatus("createBatch", 400, await send("POST /v1/batches", { ...CHAT, requests: [] }));
      const costly = Array.from({ length: 20 }, (_, index) =>
        chatRequest(`item-${index}`, "Hi", COSTLY),
      );
      const unpaid = await send("POST /v1/batches", { ...CHAT, requests: costly }, {}, poor);
      expectStatus("createBatch", 402, unpaid);
      const fileId = { ...CHAT, requests: undefined, input_file_id: "file_none" };
      expectStatus("createBatch", 404, await send("POST /v1/batches", fileId));
      const key = { "idempotency-key": "statuses" };
      await send("POST /v1/batches", CHAT, key);
      const other = await send("POST /v1/batches", { ...CHAT, metadata: { a: "b" } }, key);
      expectStatus("createBatch", 409, other);
      expectStatus("createBatch", 413, await sendHeaders("/v1/batches", "application/json"));
      const text = { "content-type": "text/plain" };
      expectStatus("createBatch", 415, await send("POST /v1/batches", CHAT, text));
    });

    test("GET /v1/batches and one batch", async () => {
      expectStatus("listBatches", 200, await send("GET /v1/batches"));
      expectStatus("listBatches", 400, await send("GET /v1/batches?limit=0"));
      expectStatus("getBatch", 200, await send(`GET /v1/batches/${ended}`));
      expectStatus("getBatch", 400, await send(`GET /v1/batches/${LONG_ID}`));
      expectStatus("getBatch", 404, await send("GET /v1/batches/batch_none"));
      expectStatus("getBatchResults", 200, await send(`GET /v1/batches/${ended}/results`));
      expectStatus("getBatchResults", 400, await send(`GET /v1/batches/${LONG_ID}/results`));
      expectStatus("getBatchResults", 404, await send("GET /v1/batches/batch_none/results"));
      expectStatus("getBatchResults", 409, await send(`GET /v1/batches/${running}/results`));
    });

    test("POST /v1/batches/{id}/cancel", async () => {
      const { json } = await send("POST /v1/batches", HELD);
      const path = (id: unknown): string => `POST /v1/batches/${String(id)}/cancel`;
      expectStatus("cancelBatch", 200, await send(path(json["id"])));
      expectStatus("cancelBatch", 400, await send(path(LONG_ID)));
      expectStatus("cancelBatch", 404, await send(path("batch_none")));
      expectStatus("cancelBatch", 409, await send(path(ended)));
    });

    test("POST /v1/messages/batches", async () => {
      const path = "POST /v1/messages/batches";
      expectStatus("createMessageBatch", 200, await send(path, MESSAGES));
      expectStatus("createMessageBatch", 400, await send(path, { requests: [{}] }));
      const costly = Array.from({ length: 20 }, (_, index) => ({
        custom_id: `item-${index}`,
        params: { ...PARAMS, ...COSTLY },
      }));
      const unpaid = await send(path, { requests: costly }, {}, poor);
      expectStatus("createMessageBatch", 402, unpaid);
      const key = { "idempotency-key": "messages" };
      await send(path, MESSAGES, key);
      const other = await send(path, { ...MESSAGES, processing: "gateway" }, key);
      expectStatus("createMessageBatch", 409, other);
      const large = await sendHeaders("/v1/messages/batches", "application/json");
      expectStatus("createMessageBatch", 413, large);
      const text = await send(path, MESSAGES, { "content-type": "text/plain" });
      expectStatus("createMessageBatch", 415, text);
    });

    test("GET /v1/messages/batches and one batch", async () => {
      const path = "GET /v1/messages/batches";
      expectStatus("listMessageBatches", 200, await send(path));
      expectStatus("listMessageBatches", 400, await send(`${path}?limit=0`));
      expectStatus("getMessageBatch", 200, await send(`${path}/${ended}`));
      expectStatus("getMessageBatch", 400, await send(`${path}/${LONG_ID}`));
      expectStatus("getMessageBatch", 404, await send(`${path}/batch_none`));
      expectStatus("getMessageBatchResults", 200, await send(`${path}/${ended}/results`));
      expectStatus("getMessageBatchResults", 400, await send(`${path}/${LONG_ID}/results`));
      expectStatus("getMessageBatchResults", 404, await send(`${path}/batch_none/results`));
      expectStatus("getMessageBatchResults", 409, await send(`${path}/${running}/results`));
    });

    test("POST /v1/messages/batches/{id}/cancel and DELETE", async () => {
      const params = { ...PARAMS, model: "openai/gpt-5-mini" };
      const requests = [{ custom_id: "held", params }];
      const held = { processing: "provider", requests };
      const { json } = await send("POST /v1/messages/batches", held);
      const cancel = (id: unknown): string => `POST /v1/messages/batches/${String(id)}/cancel`;
      expectStatus("cancelMessageBatch", 200, await send(cancel(json["id"])));
      expectStatus("cancelMessageBatch", 400, await send(cancel(LONG_ID)));
      expectStatus("cancelMessageBatch", 404, await send(cancel("batch_none")));
      expectStatus("cancelMessageBatch", 409, await send(cancel(ended)));
      const remove = (id: unknown): string => `DELETE /v1/messages/batches/${String(id)}`;
      expectStatus("deleteMessageBatch", 400, await send(remove(LONG_ID)));
      expectStatus("deleteMessageBatch", 404, await send(remove("batch_none")));
      expectStatus("deleteMessageBatch", 409, await send(remove(running)));
      await waitForEnd(gateway, account, json["id"]);
      expectStatus("deleteMessageBatch", 200, await send(remove(json["id"])));
    });

    test("POST /v1/files", async () => {
      expectStatus("uploadFile", 200, await upload("batch"));
      expectStatus("uploadFile", 400, await upload("fine-tune"));
      const form = "multipart/form-data; boundary=x";
      expectStatus("uploadFile", 413, await sendHeaders("/v1/files", form));
      expectStatus("uploadFile", 415, await send("POST /v1/files", {}));
      const owner = account;
      account = await fundedAccount(gateway);
      await gateway.server.db.write(async (tx) => {
        for (let index = 0; index < 500; index++)
          await tx.run(
            `insert into stored_file (id, account_id, key_id, purpose, filename, bytes, parts, data_key, created_at, expires_at)
             values (?, ?, 'key_x', 'batch', 'x', 1, 0, '', 1, 9000000000000)`,
            [`file_${account.id}_${index}`, account.id],
          );
      });
      const full = await upload("batch");
      account = owner;
      expectStatus("uploadFile", 409, full);
    });

    test("GET and DELETE of /v1/files", async () => {
      const { json } = await upload("batch");
      const id = String(json["id"]);
      expectStatus("listFiles", 200, await send("GET /v1/files"));
      expectStatus("listFiles", 400, await send("GET /v1/files?limit=0"));
      expectStatus("getFile", 200, await send(`GET /v1/files/${id}`));
      expectStatus("getFile", 400, await send(`GET /v1/files/${LONG_ID}`));
      expectStatus("getFile", 404, await send("GET /v1/files/file_none"));
      expectStatus("getFileContent", 200, await send(`GET /v1/files/${id}/content`));
      expectStatus("getFileContent", 400, await send(`GET /v1/files/${LONG_ID}/content`));
      expectStatus("getFileContent", 404, await send("GET /v1/files/file_none/content"));
      expectStatus("deleteFile", 400, await send(`DELETE /v1/files/${LONG_ID}`));
      expectStatus("deleteFile", 404, await send("DELETE /v1/files/file_none"));
      expectStatus("deleteFile", 200, await send(`DELETE /v1/files/${id}`));
    });
  });
