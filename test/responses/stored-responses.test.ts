// Storage of responses: what is stored, access, encryption, expiry, limits and invalid requests.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { DAY_MS } from "../../src/base/time.ts";
import { deleteExpired } from "../../src/responses/storage/response-rows.ts";
import { createStorageLimit } from "../../src/responses/storage/storage-limit.ts";
import {
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  type Json,
  simStats,
} from "../inference/support/harness.ts";
import { testOn } from "../support/full.ts";
import { type TestAccount, type Gateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  call,
  cancelResponse,
  createResponse,
  getResponse,
  openGateway,
  providerRequestBody,
  fundedAccount,
} from "./harness.ts";

const UNKNOWN_ID = `resp_${"0".repeat(26)}`;

for (const store of STORE_KINDS) {
  describe(`stored responses on ${store}`, () => {
    const testOnce = testOn(store);
    let gateway: Gateway;
    let account: TestAccount;
    let nowMs = Date.now();
    beforeAll(async () => {
      gateway = await openGateway({ store, providers: ["openai", "sim"], now: () => nowMs });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const createStored = (input: unknown, fields: Json = {}): Promise<Json> =>
      createResponse(gateway, account, { model: "sim/echo", input, store: true, ...fields });
    const rows = (): ReturnType<typeof gateway.server.db.all> =>
      gateway.server.db.all("select * from stored_response where account_id = ?", [account.id]);

    test("are created unless the request has store: false", async () => {
      for (const stream of [false, true])
        for (const fields of [{}, { store: null }, { store: true }]) {
          const response = await createResponse(gateway, account, {
            model: "sim/echo",
            input: "stored",
            stream,
            ...fields,
          });
          expect(response["store"]).toBe(true);
          expect((await getResponse(gateway, account, response["id"])).json).toEqual(response);
        }
      const before = (await rows()).length;
      const response = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "not stored",
        store: false,
      });
      expect((await getResponse(gateway, account, response["id"])).status).toBe(404);
      expect((await rows()).length).toBe(before);
    });

    test("never reach the provider's own storage", async () => {
      for (const fields of [{}, { store: true }, { store: false }]) {
        await createResponse(gateway, account, {
          model: "openai/gpt-5-mini",
          input: "x",
          ...fields,
        });
        expect((await providerRequestBody(gateway))["store"]).toBe(false);
      }
    });

    test("are not created by a call that continues one with store: false", async () => {
      const first = await createStored("a");
      const before = (await rows()).length;
      const second = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "b",
        store: false,
        previous_response_id: first["id"],
      });
      expect(second["previous_response_id"]).toBe(String(first["id"]));
      expect((await rows()).length).toBe(before);
      expect((await getResponse(gateway, account, second["id"])).status).toBe(404);
    });

    test("are returned as they were created, including cost", async () => {
      const response = await createStored("read me");
      const read = await getResponse(gateway, account, response["id"]);
      expect([read.status, read.json]).toEqual([200, response]);
      expect((read.json["usage"] as Json)["cost"]).toBeGreaterThan(0);
      expect(read.headers.get("cache-control")).toBe("no-store");
    });

    test("have unique ids, also if the provider repeats an id", async () => {
      const ids = [(await createStored("same"))["id"], (await createStored("same"))["id"]];
      expect(ids[0]).not.toBe(ids[1]);
      for (const id of ids) expect((await getResponse(gateway, account, id)).json["id"]).toBe(id);
    });

    test("cannot be read, continued, listed, canceled or deleted by another account", async () => {
      const { id } = await createStored("private text");
      const otherAccount = await fundedAccount(gateway);
      const before = (await simStats(gateway)).requests;
      const requests: readonly (readonly [string, Json?])[] = [
        [`GET /v1/responses/${String(id)}`],
        [`GET /v1/responses/${String(id)}/input_items`],
        [`DELETE /v1/responses/${String(id)}`],
        [`POST /v1/responses/${String(id)}/cancel`],
        ["POST /v1/responses", { model: "sim/echo", input: "x", previous_response_id: id }],
      ];
      for (const [route, body] of requests) {
        const answer = await call(gateway, otherAccount, route, body && { body });
        expect([route, answer.status]).toEqual([route, 404]);
        expect(errorOf(answer.json)["next"]).toEqual([
          { method: "GET", url: "/docs/api/create-response.md", why: expect.any(String) },
        ]);
        expectEnvelope("responses", answer.json);
        expect(answer.text).not.toContain("private text");
        // The same response as for an id that never existed.
        const unknown = await call(
          gateway,
          otherAccount,
          route.replace(String(id), UNKNOWN_ID),
          body && { body: { ...body, previous_response_id: UNKNOWN_ID } },
        );
        const withoutIds = (text: string): string =>
          text.replaceAll(/resp_[0-9a-z]{26}|req_[0-9a-z]{26}/g, "…");
        expect(withoutIds(unknown.text)).toBe(withoutIds(answer.text));
      }
      expect((await simStats(gateway)).requests).toBe(before);
      expect((await getResponse(gateway, account, id)).status).toBe(200);
    });

    test("require an API key", async () => {
      for (const rest of ["", "/input_items"]) {
        const answer = await fetch(`${gateway.url}/v1/responses/${UNKNOWN_ID}${rest}`);
        expect(answer.status).toBe(401);
        await answer.text();
      }
    });

    test("are stored encrypted", async () => {
      const canary = `canary-${crypto.randomUUID()}`;
      const { id } = await createStored(canary, { instructions: `be ${canary}` });
      expect((await getResponse(gateway, account, id)).text).toContain(canary);
      const row = (await rows()).find((candidate) => candidate["id"] === id);
      expect(row).toBeDefined();
      const dump = Object.values(row ?? {})
        .map((value) =>
          value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
        )
        .join("\n");
      expect(dump).not.toContain(canary);
      const base64 = Buffer.from(canary).toString("base64").slice(2, -4);
      expect(dump).not.toContain(base64);
      if (store !== "sqlite") return;
      const folder = gateway.config.store.dataDir;
      for (const file of readdirSync(folder))
        expect([file, readFileSync(path.join(folder, file)).includes(canary)]).toEqual([
          file,
          false,
        ]);
    });

    test("cannot be decrypted if moved to another account or response", async () => {
      const otherAccount = await fundedAccount(gateway);
      const moved = await createStored("moved");
      const other = await createStored("another");
      await gateway.server.db.write((tx) =>
        tx.run("update stored_response set account_id = ? where id = ?", [
          otherAccount.id,
          String(moved["id"]),
        ]),
      );
      expect((await getResponse(gateway, otherAccount, moved["id"])).status).toBe(500);
      await gateway.server.db.write((tx) =>
        tx.run(
          "update stored_response set sealed_record = (select sealed_record from stored_response where id = ?) where id = ?",
          [String(moved["id"]), String(other["id"])],
        ),
      );
      expect((await getResponse(gateway, account, other["id"])).status).toBe(500);
    });

    test("are deleted with their items", async () => {
      const first = await createStored("delete me");
      const second = await createStored("after", { previous_response_id: first["id"] });
      const url = `/v1/responses/${String(first["id"])}`;
      const deleted = await call(gateway, account, `DELETE ${url}`);
      expect([deleted.status, deleted.json]).toEqual([
        200,
        { id: first["id"], object: "response", deleted: true },
      ]);
      expect((await call(gateway, account, `DELETE ${url}`)).status).toBe(404);
      expect((await getResponse(gateway, account, first["id"])).status).toBe(404);
      expect((await getResponse(gateway, account, first["id"], "/input_items")).status).toBe(404);
      expect((await getResponse(gateway, account, second["id"])).status).toBe(200);
      const items = await gateway.server.db.all(
        "select id from stored_item where response_id = ?",
        [String(first["id"])],
      );
      expect(items).toEqual([]);
      const continued = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: second["id"] },
      });
      expect(continued.status).toBe(404);
      expect(errorOf(continued.json)["code"]).toBe("previous_response_not_found");
      expect(String(errorOf(continued.json)["message"])).toContain(String(first["id"]));
    });

    test("expire after 30 days and are deleted", async () => {
      const { id } = await createStored("expires");
      nowMs += 30 * DAY_MS - 1_000;
      expect((await getResponse(gateway, account, id)).status).toBe(200);
      nowMs += 1_000;
      expect((await getResponse(gateway, account, id)).status).toBe(404);
      expect((await getResponse(gateway, account, id, "/input_items")).status).toBe(404);
      const continued = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([continued.status, errorOf(continued.json)["code"]]).toEqual([
        404,
        "previous_response_not_found",
      ]);
      const fresh = await createStored("newer");
      await gateway.server.db.write((tx) =>
        deleteExpired(tx, {
          now: nowMs,
          limit: 100,
          cancel: () => Promise.reject(new Error("queued")),
        }),
      );
      expect((await rows()).map((row) => row["id"])).toEqual([fresh["id"]]);
      const items = await gateway.server.db.all("select distinct response_id from stored_item");
      expect(items.map((row) => row["response_id"])).toEqual([fresh["id"]]);
    });

    test("list their input items in pages, in both orders", async () => {
      const texts = ["one", "two", "three", "four", "five"];
      const { id } = await createStored(
        texts.map((content) => ({ type: "message", role: "user", content })),
      );
      const textsOf = (json: Json): unknown =>
        (json["data"] as readonly Json[]).map(
          ({ content }) => (content as readonly Json[])[0]?.["text"],
        );
      const all = await getResponse(gateway, account, id, "/input_items");
      expect(textsOf(all.json)).toEqual(texts.toReversed());
      expect(all.json).toMatchObject({ object: "list", has_more: false });
      const listed: unknown[] = [];
      let rest = "?limit=2&order=asc";
      for (let pages = 0; pages < 5; pages++) {
        const { json } = await getResponse(gateway, account, id, `/input_items${rest}`);
        listed.push(...(textsOf(json) as unknown[]));
        if (json["has_more"] !== true) break;
        rest = `?limit=2&order=asc&after=${String(json["last_id"])}`;
      }
      expect(listed).toEqual(texts);
    });

    testOnce.each([
      ["?limit=0", "limit"],
      ["?limit=101", "limit"],
      ["?limit=two", "limit"],
      ["?order=up", "order"],
      ["?after=nothing", "after"],
    ])("reject an input page with %s and name the parameter", async (rest, param) => {
      const { id } = await createStored("x");
      const answer = await getResponse(gateway, account, id, `/input_items${rest}`);
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, param]);
    });

    testOnce("reject stream=true when read", async () => {
      const { id } = await createStored("x");
      expect((await getResponse(gateway, account, id, "?stream=false")).status).toBe(200);
      const answer = await getResponse(gateway, account, id, "?stream=true");
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "stream"]);
    });

    test("can be canceled only if created in the background", async () => {
      const { id } = await createStored("x");
      const answer = await cancelResponse(gateway, account, id);
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "id"]);
    });

    testOnce.each([
      ["store", { store: "yes" }],
      ["background", { background: true, store: false }],
      ["conversation", { conversation: "conv_1", store: true }],
      ["conversation", { conversation: "conv_1", previous_response_id: UNKNOWN_ID }],
      ["previous_response_id", { previous_response_id: "resp_of_a_provider" }],
    ] as const)("reject %s in %j and name the field", async (param, fields) => {
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", ...fields },
      });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, param]);
      expectEnvelope("responses", answer.json);
    });

    test("are not created when a call fails", async () => {
      const before = (await rows()).length;
      for (const stream of [false, true])
        for (const directive of [
          "status=400",
          "status=500",
          ...(stream ? ["cut=1", "fail=1"] : []),
        ]) {
          const answer = await call(gateway, account, "POST /v1/responses", {
            body: {
              model: "sim/echo",
              input: `[[sim: ${directive} chunks=4]] x`,
              stream,
              store: true,
            },
          });
          expect(answer.text).not.toContain("response.completed");
        }
      expect((await rows()).length).toBe(before);
    });

    test("that reach max_output_tokens are incomplete and can be continued", async () => {
      const response = await createStored("[[sim: tokens=500]] long", { max_output_tokens: 16 });
      expect(response["status"]).toBe("incomplete");
      expect((await getResponse(gateway, account, response["id"])).json["status"]).toBe(
        "incomplete",
      );
      const continued = await createStored("continue", { previous_response_id: response["id"] });
      expect(continued["status"]).toBe("completed");
    });

    test("are created once per Idempotency-Key", async () => {
      for (const stream of [false, true]) {
        const request = {
          headers: { "idempotency-key": `once-${stream}` },
          body: { model: "sim/echo", input: "once", store: true, stream },
        };
        const before = (await rows()).length;
        const first = await call(gateway, account, "POST /v1/responses", request);
        const second = await call(gateway, account, "POST /v1/responses", request);
        expect(second.text).toBe(first.text);
        expect(second.headers.get("idempotent-replayed")).toBe("true");
        expect((await rows()).length).toBe(before + 1);
      }
    });

    test("reject an input above the storage limit before calling the provider", async () => {
      const before = (await simStats(gateway)).requests;
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x".repeat(17 * 1_048_576), store: true },
      });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([413, "store"]);
      expect((await simStats(gateway)).requests).toBe(before);
    });

    testOnce("reject a conversation above the request size limit", async () => {
      const send = (mebibytes: number, more: Readonly<Record<string, unknown>> = {}) =>
        call(gateway, account, "POST /v1/responses", {
          body: {
            model: "sim/echo",
            input: "y".repeat(mebibytes * 1_048_576),
            max_output_tokens: 16,
            ...more,
          },
        });
      const first = await send(12, { store: true });
      expect(first.status).toBe(200);
      const second = await send(21, { previous_response_id: first.json["id"] });
      expect(second.status).toBe(413);
    });

    test("reject a conversation with more than 1,000 responses, without reading a large response beside it", async () => {
      const inStore = (sql: string, params: readonly string[]) =>
        gateway.server.db.write((tx) => tx.run(sql, params));
      await inStore("delete from stored_response", []);
      await createResponse(gateway, account, {
        model: "sim/echo",
        input: "z".repeat(12 * 1_048_576),
        max_output_tokens: 16,
      });
      // Lookups of the other response compare its id with this one first.
      await inStore("update stored_response set id = ?", [UNKNOWN_ID]);
      const { id } = await createStored("own predecessor");
      await inStore("update stored_response set previous_id = id where id = ?", [String(id)]);
      const rejectedMs = async (): Promise<number> => {
        const start = process.cpuUsage();
        const answer = await call(gateway, account, "POST /v1/responses", {
          body: { model: "sim/echo", input: "x", previous_response_id: id },
        });
        const { user, system } = process.cpuUsage(start);
        const { param, message } = errorOf(answer.json);
        expect([answer.status, param]).toEqual([400, "previous_response_id"]);
        expect(String(message)).toContain("1000 responses");
        return (user + system) / 1_000;
      };
      const besideLarge = await rejectedMs();
      await inStore("delete from stored_response where id = ?", [UNKNOWN_ID]);
      // A thousand reads of the large response take a hundred times as long.
      expect(besideLarge).toBeLessThan(10 * (await rejectedMs()));
    });

    test("run, but are not stored, if an input is too large and storing was not requested", async () => {
      const response = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "x".repeat(17 * 1_048_576),
      });
      expect((await getResponse(gateway, account, response["id"])).status).toBe(404);
    });

    test("are deleted from the oldest on above the storage limit of the account", async () => {
      const fullAccount = await fundedAccount(gateway);
      const ids: string[] = [];
      for (const input of ["a", "b", "c"]) {
        nowMs += 1_000;
        const body = { model: "sim/echo", input };
        ids.push(String((await createResponse(gateway, fullAccount, body))["id"]));
      }
      await gateway.server.db.write((tx) =>
        tx.run("update stored_response set bytes = ? where account_id = ?", [
          400 * 1_048_576,
          fullAccount.id,
        ]),
      );
      const limit = createStorageLimit(gateway.server.db);
      limit.count(fullAccount.id, 1);
      await limit.enforce();
      const statuses = await Promise.all(
        ids.map(async (id) => (await getResponse(gateway, fullAccount, id)).status),
      );
      expect(statuses).toEqual([404, 200, 200]);
      await limit.enforce();
      expect((await getResponse(gateway, fullAccount, ids[1])).status).toBe(200);
    });
  });
}
