// Which batches, files and stored responses a key reaches by their ids: a key with a restriction only what it has made.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chatRequests, createBatch, waitForEnd } from "../batches/batch-harness.ts";
import type { Json } from "../inference/support/harness.ts";
import { call, createResponse, fundedAccount, openGateway } from "../responses/harness.ts";
import { type Gateway, type TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const RESTRICTIONS: readonly Json[] = [
  { limit_usd: 1 },
  { scopes: ["models:read", "models:write"] },
  { allowed_models: ["sim/*"] },
];

for (const store of STORE_KINDS) {
  describe(`keys on ${store}`, () => {
    let gateway: Gateway;
    let owner: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      owner = await fundedAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const newKey = async (settings: Json): Promise<TestAccount> => {
      const made = await call(gateway, owner, "POST /v1/keys", { body: settings });
      const key = String(made.json["api_key"]);
      return { ...owner, key, headers: { ...owner.headers, authorization: `Bearer ${key}` } };
    };
    const upload = async ({ key }: TestAccount): Promise<string> => {
      const body = new FormData();
      const line = JSON.stringify({ ...chatRequests(1)[0], url: "/v1/chat/completions" });
      body.set("purpose", "batch");
      body.set("file", new Blob([line]), "requests.jsonl");
      const headers = { authorization: `Bearer ${key}` };
      const sent = await fetch(`${gateway.url}/v1/files`, { method: "POST", headers, body });
      // Safe: the route responds with an object.
      const { id } = (await sent.json()) as Json;
      return String(id);
    };
    const statusOf = async (key: TestAccount, route: string, body?: Json): Promise<number> =>
      (await call(gateway, key, route, body === undefined ? {} : { body })).status;

    test.each(RESTRICTIONS)("with %j reach only what they have made", async (restriction) => {
      const maker = await newKey({ name: "maker", ...restriction });
      const other = await newKey({ name: "other", ...restriction });
      const file = await upload(maker);
      const batch = String((await createBatch(gateway, maker, chatRequests(1)))["id"]);
      await waitForEnd(gateway, maker, batch);
      const { id } = await createResponse(gateway, maker, {
        model: "sim/echo",
        input: "Remember this",
        store: true,
      });
      const response = String(id);
      const reads = [
        `GET /v1/batches/${batch}`,
        `GET /v1/batches/${batch}/results`,
        `GET /v1/messages/batches/${batch}`,
        `GET /v1/messages/batches/${batch}/results`,
        `GET /v1/files/${file}`,
        `GET /v1/files/${file}/content`,
        `GET /v1/responses/${response}`,
        `GET /v1/responses/${response}/input_items`,
      ];
      const writes = [
        `POST /v1/batches/${batch}/cancel`,
        `POST /v1/messages/batches/${batch}/cancel`,
        `POST /v1/responses/${response}/cancel`,
        `DELETE /v1/messages/batches/${batch}`,
        `DELETE /v1/files/${file}`,
        `DELETE /v1/responses/${response}`,
      ];
      for (const route of [...reads, ...writes])
        expect([route, await statusOf(other, route)]).toEqual([route, 404]);
      for (const key of [maker, owner])
        for (const route of reads)
          expect([route, await statusOf(key, route)]).toEqual([route, 200]);

      const endpoint = "/v1/chat/completions";
      const continued = { model: "sim/echo", input: "And?", previous_response_id: response };
      const uses: readonly (readonly [string, Json])[] = [
        ["POST /v1/batches", { endpoint, input_file_id: file }],
        ["POST /v1/responses", continued],
        ["POST /v1/responses/compact", continued],
      ];
      for (const [route, body] of uses) {
        expect([route, await statusOf(other, route, body)]).toEqual([route, 404]);
        expect([route, await statusOf(maker, route, body)]).toEqual([route, 200]);
        expect([route, await statusOf(owner, route, body)]).toEqual([route, 200]);
      }
      for (const route of writes.slice(3))
        expect([route, await statusOf(maker, route)]).toEqual([route, 200]);
    });

    test("take no item of a response of another key into their requests", async () => {
      const maker = await newKey({ limit_usd: 1 });
      const other = await newKey({ limit_usd: 1 });
      const { output } = await createResponse(gateway, maker, {
        model: "sim/echo",
        input: "a secret word",
        store: true,
      });
      const [item] = output as readonly Json[];
      const body = {
        model: "sim/echo",
        input: [
          { type: "item_reference", id: item?.["id"] },
          { role: "user", content: "And?" },
        ],
      };
      expect(await statusOf(maker, "POST /v1/responses", body)).toBe(200);
      expect(await statusOf(other, "POST /v1/responses", body)).toBe(400);
    });
  });
}
