// What is kept, for whom and for how long; and what every wrong request gets.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { DAY_MS } from "../../src/base/time.ts";
import {
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  type Json,
  simStats,
} from "../inference/support/harness.ts";
import { deleteExpired } from "../../src/responses/rows.ts";
import { type TestAccount, type Gateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  call,
  cancelResponse,
  createResponse,
  getResponse,
  openGateway,
  fundedAccount,
} from "./harness.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const UNKNOWN_ID = `resp_${"0".repeat(26)}`;

for (const store of STORE_KINDS) {
  describe(`stored responses on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let clock = Date.now();
    beforeAll(async () => {
      gateway = await openGateway({ store, providers: ["openai", "sim"], now: () => clock });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const stored = (input: unknown, more: Json = {}): Promise<Json> =>
      createResponse(gateway, account, { model: "sim/echo", input, store: true, ...more });
    const rows = (): ReturnType<typeof gateway.server.db.all> =>
      gateway.server.db.all("select * from stored_response where account_id = ?", [account.id]);

    test("are none unless they were asked for", async () => {
      const before = (await rows()).length;
      for (const more of [{}, { store: false }, { store: null }])
        for (const stream of [false, true]) {
          const response = await createResponse(gateway, account, {
            model: "sim/echo",
            input: "leave no trace",
            stream,
            ...more,
          });
          expect((await getResponse(gateway, account, response["id"])).status).toBe(404);
        }
      expect((await rows()).length).toBe(before);
    });

    test("are kept where the request goes on from one and does not ask to be kept only as they were", async () => {
      const first = await stored("a");
      const before = (await rows()).length;
      const second = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "b",
        previous_response_id: first["id"],
      });
      expect(second["previous_response_id"]).toBe(String(first["id"]));
      expect((await rows()).length).toBe(before);
      expect((await getResponse(gateway, account, second["id"])).status).toBe(404);
    });

    test("are read as they were answered, cost included", async () => {
      const response = await stored("read me");
      const answer = await getResponse(gateway, account, response["id"]);
      expect([answer.status, answer.json]).toEqual([200, response]);
      expect((answer.json["usage"] as Json)["cost"]).toBeGreaterThan(0);
      expect(answer.headers.get("cache-control")).toBe("no-store");
    });

    test("have ids of their own, also where a provider repeats its own", async () => {
      const ids = [(await stored("same"))["id"], (await stored("same"))["id"]];
      expect(ids[0]).not.toBe(ids[1]);
      for (const id of ids) expect((await getResponse(gateway, account, id)).json["id"]).toBe(id);
    });

    test("are another account's secret: nobody else reads, goes on from, lists, cancels or deletes one", async () => {
      const { id } = await stored("for my eyes only");
      const stranger = await fundedAccount(gateway);
      const before = (await simStats(gateway)).requests;
      const tries: readonly (readonly [string, Json?])[] = [
        [`GET /v1/responses/${String(id)}`],
        [`GET /v1/responses/${String(id)}/input_items`],
        [`DELETE /v1/responses/${String(id)}`],
        [`POST /v1/responses/${String(id)}/cancel`],
        ["POST /v1/responses", { model: "sim/echo", input: "x", previous_response_id: id }],
      ];
      for (const [route, body] of tries) {
        const answer = await call(gateway, stranger, route, body && { body });
        expect([route, answer.status]).toEqual([route, 404]);
        expect(errorOf(answer.json)["next"]).toEqual([
          { method: "POST", url: "/v1/responses", why: expect.any(String) },
        ]);
        expectEnvelope("responses", answer.json);
        expect(answer.text).not.toContain("eyes only");
        // Word for word what an id says that never was.
        const nobodys = await call(
          gateway,
          stranger,
          route.replace(String(id), UNKNOWN_ID),
          body && { body: { ...body, previous_response_id: UNKNOWN_ID } },
        );
        const blank = (text: string): string =>
          text.replaceAll(/resp_[0-9a-z]{26}|req_[0-9a-z]{26}/g, "…");
        expect(blank(nobodys.text)).toBe(blank(answer.text));
      }
      expect((await simStats(gateway)).requests).toBe(before);
      expect((await getResponse(gateway, account, id)).status).toBe(200);
    });

    test("need a key", async () => {
      for (const rest of ["", "/input_items"]) {
        const answer = await fetch(`${gateway.url}/v1/responses/${UNKNOWN_ID}${rest}`);
        expect(answer.status).toBe(401);
        await answer.text();
      }
    });

    test("rest encrypted: neither prompt nor reply is in the store", async () => {
      const canary = `canary-${crypto.randomUUID()}`;
      const { id } = await stored(canary, { instructions: `be ${canary}` });
      expect((await getResponse(gateway, account, id)).text).toContain(canary);
      const row = (await rows()).find((one) => one["id"] === id);
      expect(row).toBeDefined();
      const dump = JSON.stringify(row, (_, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      );
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

    test("open for their own account and id alone: a record that was moved is refused", async () => {
      const stranger = await fundedAccount(gateway);
      const mine = await stored("moved");
      const other = await stored("another");
      await gateway.server.db.write((tx) =>
        tx.run("update stored_response set account_id = ? where id = ?", [
          stranger.id,
          String(mine["id"]),
        ]),
      );
      expect((await getResponse(gateway, stranger, mine["id"])).status).toBe(500);
      const row = (await rows()).find((one) => one["id"] === other["id"]);
      await gateway.server.db.write((tx) =>
        tx.run("update stored_response set sealed_response = ? where id = ?", [
          String(row?.["sealed_input"]),
          String(other["id"]),
        ]),
      );
      expect((await getResponse(gateway, account, other["id"])).status).toBe(500);
    });

    test("are deleted for good, with their items", async () => {
      const first = await stored("delete me");
      const second = await stored("after", { previous_response_id: first["id"] });
      const where = `/v1/responses/${String(first["id"])}`;
      const gone = await call(gateway, account, `DELETE ${where}`);
      expect([gone.status, gone.json]).toEqual([
        200,
        { id: first["id"], object: "response", deleted: true },
      ]);
      expect((await call(gateway, account, `DELETE ${where}`)).status).toBe(404);
      expect((await getResponse(gateway, account, first["id"])).status).toBe(404);
      expect((await getResponse(gateway, account, first["id"], "/input_items")).status).toBe(404);
      expect((await getResponse(gateway, account, second["id"])).status).toBe(200);
      const items = await gateway.server.db.all(
        "select id from stored_item where response_id = ?",
        [String(first["id"])],
      );
      expect(items).toEqual([]);
      const on = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: second["id"] },
      });
      expect(on.status).toBe(404);
      expect(errorOf(on.json)["code"]).toBe("previous_response_not_found");
      expect(String(errorOf(on.json)["message"])).toContain(String(first["id"]));
    });

    test("expire after thirty days, and are swept", async () => {
      const { id } = await stored("for a month");
      clock += 30 * DAY_MS - 1_000;
      expect((await getResponse(gateway, account, id)).status).toBe(200);
      clock += 1_000;
      expect((await getResponse(gateway, account, id)).status).toBe(404);
      expect((await getResponse(gateway, account, id, "/input_items")).status).toBe(404);
      const on = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([on.status, errorOf(on.json)["code"]]).toEqual([404, "previous_response_not_found"]);
      const fresh = await stored("younger");
      await gateway.server.db.write((tx) => deleteExpired(tx, clock, 100));
      expect((await rows()).map((row) => row["id"])).toEqual([fresh["id"]]);
      const left = await gateway.server.db.all("select distinct response_id from stored_item");
      expect(left.map((row) => row["response_id"])).toEqual([fresh["id"]]);
    });

    test("list their input page by page, in both orders", async () => {
      const said = ["one", "two", "three", "four", "five"];
      const { id } = await stored(
        said.map((content) => ({ type: "message", role: "user", content })),
      );
      const words = (json: Json): unknown =>
        (json["data"] as readonly Json[]).map(
          ({ content }) => (content as readonly Json[])[0]?.["text"],
        );
      const all = await getResponse(gateway, account, id, "/input_items");
      expect(words(all.json)).toEqual(said.toReversed());
      expect(all.json).toMatchObject({ object: "list", has_more: false });
      const seen: unknown[] = [];
      let rest = "?limit=2&order=asc";
      for (let pages = 0; pages < 5; pages++) {
        const { json } = await getResponse(gateway, account, id, `/input_items${rest}`);
        seen.push(...(words(json) as unknown[]));
        if (json["has_more"] !== true) break;
        rest = `?limit=2&order=asc&after=${String(json["last_id"])}`;
      }
      expect(seen).toEqual(said);
    });

    test.each([
      ["?limit=0", "limit"],
      ["?limit=101", "limit"],
      ["?limit=two", "limit"],
      ["?order=up", "order"],
      ["?after=nothing", "after"],
    ])("refuse a page of their input with %s, naming the field", async (rest, param) => {
      const { id } = await stored("x");
      const answer = await getResponse(gateway, account, id, `/input_items${rest}`);
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, param]);
    });

    test("are not streamed, and say so", async () => {
      const { id } = await stored("x");
      expect((await getResponse(gateway, account, id, "?stream=false")).status).toBe(200);
      const answer = await getResponse(gateway, account, id, "?stream=true");
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "stream"]);
    });

    test("are cancelled only where they run in the background", async () => {
      const { id } = await stored("x");
      const answer = await cancelResponse(gateway, account, id);
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "id"]);
    });

    test.each([
      ["store", { store: "yes" }],
      ["background", { background: true }],
      ["stream", { background: true, store: true, stream: true }],
      ["conversation", { conversation: "conv_1", store: true }],
      ["conversation", { conversation: "conv_1", previous_response_id: UNKNOWN_ID }],
      ["previous_response_id", { previous_response_id: "resp_at_some_provider" }],
    ] as const)("refuse %s as in %j with a 400 that names it", async (param, more) => {
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", ...more },
      });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, param]);
      expectEnvelope("responses", answer.json);
    });

    test("are nobody's where a call fails, and cost nothing", async () => {
      const before = (await rows()).length;
      for (const stream of [false, true])
        for (const order of ["status=400", "status=500", ...(stream ? ["cut=1", "fail=1"] : [])]) {
          const answer = await call(gateway, account, "POST /v1/responses", {
            body: {
              model: "sim/echo",
              input: `[[sim: ${order} chunks=4]] x`,
              stream,
              store: true,
            },
          });
          expect(answer.text).not.toContain("response.completed");
        }
      expect((await rows()).length).toBe(before);
    });

    test("keep what was cut at its limit, as incomplete, and go on from it", async () => {
      const response = await stored("[[sim: tokens=500]] long", { max_output_tokens: 16 });
      expect(response["status"]).toBe("incomplete");
      expect((await getResponse(gateway, account, response["id"])).json["status"]).toBe(
        "incomplete",
      );
      const on = await stored("go on", { previous_response_id: response["id"] });
      expect(on["status"]).toBe("completed");
    });

    test("are the same for a repetition under one Idempotency-Key", async () => {
      for (const stream of [false, true]) {
        const sent = {
          headers: { "idempotency-key": `once-${stream}` },
          body: { model: "sim/echo", input: "once", store: true, stream },
        };
        const before = (await rows()).length;
        const first = await call(gateway, account, "POST /v1/responses", sent);
        const second = await call(gateway, account, "POST /v1/responses", sent);
        expect(second.text).toBe(first.text);
        expect(second.headers.get("idempotent-replayed")).toBe("true");
        expect((await rows()).length).toBe(before + 1);
      }
    });

    test("refuse an input that is too large to be kept before anything is sent", async () => {
      const before = (await simStats(gateway)).requests;
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x".repeat(17 * 1_048_576), store: true },
      });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([413, "store"]);
      expect((await simStats(gateway)).requests).toBe(before);
    });

    test("refuse a conversation that has grown beyond what a request may hold", async () => {
      const big = { type: "message", role: "user", content: "y".repeat(12 * 1_048_576) };
      let previous: unknown;
      const statuses: number[] = [];
      for (let turn = 0; turn < 3; turn++) {
        const answer = await call(gateway, account, "POST /v1/responses", {
          body: {
            model: "sim/echo",
            input: [big],
            max_output_tokens: 16,
            store: true,
            ...(previous === undefined ? {} : { previous_response_id: previous }),
          },
        });
        statuses.push(answer.status);
        previous = answer.json["id"] ?? previous;
      }
      expect(statuses.at(-1)).toBe(413);
    });

    test("refuse a chain that does not end within its bound", async () => {
      const { id } = await stored("its own predecessor");
      await gateway.server.db.write((tx) =>
        tx.run("update stored_response set previous_id = id where id = ?", [String(id)]),
      );
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "previous_response_id"]);
      expect(String(errorOf(answer.json)["message"])).toContain("1000 responses");
    });

    test("refuse to be too many: the account is told to delete some", async () => {
      const full = await fundedAccount(gateway);
      const one = await createResponse(gateway, full, {
        model: "sim/echo",
        input: "x",
        store: true,
      });
      await gateway.server.db.write((tx) =>
        tx.run("update stored_response set bytes = ? where id = ?", [2 ** 30, String(one["id"])]),
      );
      const answer = await call(gateway, full, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", store: true },
      });
      expect([answer.status, errorOf(answer.json)["code"]]).toEqual([409, "conflict"]);
      expect(String(errorOf(answer.json)["message"])).toContain("DELETE /v1/responses/{id}");
    });
  });
}
