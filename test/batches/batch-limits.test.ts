// Attacks on the limits of batches: what an account stores, what is in memory at a time, and whose batches run.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  discardBatch,
  findWaiting,
  LIVE_COUNTS,
  WAIT_MAX_MS,
} from "../../src/batches/batch-rows.ts";
import { toBatchItem } from "../../src/batches/item-ends.ts";
import { insertItems, readPending, readResults } from "../../src/batches/item-rows.ts";
import { errorOf, expectSettledLedger, type Json } from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { type Gateway, registerAccount, type TestAccount } from "../support/gateway.ts";
import { openStore, STORE_KINDS } from "../support/stores/stores.ts";
import {
  chatRequest,
  chatRequests,
  createBatch,
  postBatch,
  setBatchFaults,
  waitForEnd,
} from "./batch-harness.ts";

const CLAUDE = "anthropic/claude-haiku-4-5";
const MEBIBYTE = 1_048_576;

for (const store of STORE_KINDS) {
  describe(`limits of batches on ${store}`, () => {
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await openGateway({ store });
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const stored = async ({ id }: TestAccount) => {
      const { db } = gateway.server;
      const batches = await db.all("select id, bytes from batch where account_id = ?", [id]);
      const items = await db.all(
        "select position from batch_item where batch_id in (select id from batch where account_id = ?)",
        [id],
      );
      return {
        batches: batches.length,
        items: items.length,
        bytes: batches.reduce((sum, { bytes }) => sum + Number(bytes), 0),
      };
    };
    /** With the free credits only. */
    const costly = chatRequests(20, "Hi").map(({ custom_id, body }) => ({
      custom_id,
      body: { ...body, model: "openai/gpt-5-mini", max_tokens: 100_000 },
    }));

    test("a batch that the credits do not cover leaves nothing in the store", async () => {
      const owner = await registerAccount(gateway);
      const { status } = await postBatch(gateway, owner, { requests: costly });
      expect(status).toBe(402);
      expect(await stored(owner)).toEqual({ batches: 0, items: 0, bytes: 0 });
      // Of a batch with an error in its last request, the others are stored before it is found.
      const requests = [...chatRequests(300), { custom_id: "bad", body: "none" }];
      expect((await postBatch(gateway, owner, { requests })).status).toBe(400);
      expect(await stored(owner)).toEqual({ batches: 0, items: 0, bytes: 0 });
    });

    test("a repetition with the same Idempotency-Key leaves nothing more in the store", async () => {
      const owner = await fundedAccount(gateway);
      const headers = { "idempotency-key": "stored-once" };
      const body = { endpoint: "/v1/chat/completions", requests: chatRequests(3) };
      const first = await call(gateway, owner, "POST /v1/batches", { body, headers });
      await call(gateway, owner, "POST /v1/batches", { body, headers });
      expect(await stored(owner)).toMatchObject({ batches: 1, items: 3 });
      await waitForEnd(gateway, owner, first.json["id"]);
    });

    test("the quota counts the rows of requests, and what a preset adds to them", async () => {
      const owner = await fundedAccount(gateway);
      const invalid = Array.from({ length: 200 }, (_, index) => ({
        custom_id: `${index}`,
        body: {},
      }));
      const failed = await createBatch(gateway, owner, invalid);
      await waitForEnd(gateway, owner, failed["id"]);
      const { bytes } = await stored(owner);
      expect(bytes).toBeGreaterThan(200 * 512);
      const system = "a".repeat(20_000);
      await fetch(`${gateway.url}/v1/presets/long`, {
        method: "POST",
        headers: owner.headers,
        body: JSON.stringify({ model: "sim/echo", system }),
      });
      const requests = chatRequests(50).map(({ custom_id, body }) => ({
        custom_id,
        body: { ...body, model: "@preset/long" },
      }));
      // Counted before it is started, too.
      await createBatch(gateway, owner, requests);
      expect((await stored(owner)).bytes - bytes).toBeGreaterThan(50 * system.length);
    });

    test("a batch above the quota is refused when it starts, whatever ran at the same time", async () => {
      const owner = await fundedAccount(gateway);
      const { db } = gateway.server;
      const created = await createBatch(gateway, owner, chatRequests(1));
      await waitForEnd(gateway, owner, created["id"]);
      await db.write((tx) =>
        tx.run("update batch set bytes = ? where account_id = ?", [2_048 * MEBIBYTE, owner.id]),
      );
      const { status, json } = await postBatch(gateway, owner, { requests: chatRequests(1) });
      expect([status, errorOf(json)["code"]]).toEqual([409, "conflict"]);
      expect(await stored(owner)).toMatchObject({ batches: 1 });
    });

    test("of two batches that fit the quota alone, one starts", async () => {
      const owner = await fundedAccount(gateway);
      const { db } = gateway.server;
      const created = await createBatch(gateway, owner, chatRequests(1));
      await waitForEnd(gateway, owner, created["id"]);
      const left = 200_000;
      await db.write((tx) =>
        tx.run("update batch set bytes = ? where account_id = ?", [
          2_048 * MEBIBYTE - left,
          owner.id,
        ]),
      );
      const body = { requests: chatRequests(200) };
      const replies = await Promise.all([
        postBatch(gateway, owner, body),
        postBatch(gateway, owner, body),
      ]);
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200, 409]));
      const { batches, items } = await stored(owner);
      expect([batches, items]).toEqual([2, 201]);
      // Discarding is for what was not started.
      const started = replies.find(({ status }) => status === 200);
      await db.write((tx) => discardBatch(tx, String(started?.json["id"])));
      expect(await stored(owner)).toMatchObject({ batches, items });
      await waitForEnd(gateway, owner, started?.json["id"]);
    });

    test("an account creates only a few batches at a time", async () => {
      const owner = await fundedAccount(gateway);
      const replies = await Promise.all(
        Array.from({ length: 8 }, () => postBatch(gateway, owner, { requests: chatRequests(400) })),
      );
      const statuses = new Set(replies.map(({ status }) => status));
      expect(statuses).toEqual(new Set([200, 429]));
      for (const { status, json } of replies)
        if (status === 200)
          await call(gateway, owner, `POST /v1/batches/${String(json["id"])}/cancel`);
      for (const { status, json } of replies)
        if (status === 200) await waitForEnd(gateway, owner, json["id"]);
    });

    test("large requests and results are read a few at a time", async () => {
      const { db } = gateway.server;
      const id = `batch_large_${store}`;
      const item = (position: number) => ({
        position,
        customId: `${position}`,
        share: 0n,
        httpStatus: null,
        inBatch: null,
        status: "pending" as const,
        sealedRequest: new Uint8Array(1),
        sealedResult: null,
      });
      const setSizes = (mebibytes: number, where: string) => {
        const bytes = mebibytes * MEBIBYTE;
        const blob =
          store === "sqlite" ? `zeroblob(${bytes})` : `decode(repeat('00', ${bytes}), 'hex')`;
        return db.write((tx) =>
          tx.run(
            `update batch_item set sealed_request = ${blob}, sealed_result = ${blob} where batch_id = ? and ${where}`,
            [id],
          ),
        );
      };
      const positions = async (read: typeof readPending | typeof readResults, after: number) =>
        (await read(db, id, { after, limit: 50 })).map(({ position }) => position);
      await db.write((tx) => insertItems(tx, id, [0, 1, 2, 3, 4, 5].map(item)));
      await setSizes(3, "position < 5");
      // One that is larger than a page is a page.
      await setSizes(9, "position = 5");
      for (const read of [readPending, readResults]) {
        expect(await positions(read, -1)).toEqual([0, 1]);
        expect(await positions(read, 1)).toEqual([2, 3]);
        expect(await positions(read, 3)).toEqual([4]);
        expect(await positions(read, 4)).toEqual([5]);
        expect(await positions(read, 5)).toEqual([]);
      }
      await db.write((tx) => tx.run("delete from batch_item where batch_id = ?", [id]));
    });

    test("the batches of one account do not keep those of others waiting", async () => {
      const many = await fundedAccount(gateway);
      const other = await fundedAccount(gateway);
      const made = await call(gateway, many, "POST /v1/keys", { body: { requests_per_minute: 1 } });
      const slow = {
        ...many,
        headers: { ...many.headers, authorization: `Bearer ${String(made.json["api_key"])}` },
      };
      const ids: unknown[] = [];
      // None of them ends soon: their key makes one call a minute.
      for (let index = 0; index < 40; index++)
        ids.push((await createBatch(gateway, slow, chatRequests(2)))["id"]);
      const one = await createBatch(gateway, other, [chatRequest("only")]);
      expect((await waitForEnd(gateway, other, one["id"]))["status"]).toBe("completed");
      for (const id of ids) await call(gateway, many, `POST /v1/batches/${String(id)}/cancel`);
      for (const id of ids) await waitForEnd(gateway, many, id);
    });

    test("waiting batches are found in turns of their accounts", async () => {
      const { db } = gateway.server;
      const insert = (id: string, accountId: string) =>
        db.write((tx) =>
          tx.run(
            `insert into batch (id, account_id, key_id, form, endpoint, status, requests, bytes, headers, data_key, provider,
               created_at, expires_at, process, epoch, succeeded, errored, canceled, expired, cost)
             values (?, ?, 'key', 'openai', '/v1/chat/completions', 'in_progress', 1, 0, '{}', '', 'of-the-test', 1, 2, ?, ?,
               0, 0, 0, 0, 0)`,
            [id, accountId, "held", 1],
          ),
        );
      for (const [id, account] of [
        ["batch_1", "acct_a"],
        ["batch_2", "acct_a"],
        ["batch_3", "acct_a"],
        ["batch_4", "acct_b"],
      ] as const)
        await insert(id, account);
      // In one transaction, so that the runner of the gateway does not see them without an owner.
      const find = (options: Partial<Parameters<typeof findWaiting>[2]>) =>
        db.write(async (tx) => {
          await tx.run("update batch set process = null where account_id in ('acct_a', 'acct_b')");
          const filter = { limit: 4, running: new Map(), perAccount: 8, now: 1_000 };
          const found = await findWaiting(tx, "provider", { ...filter, ...options });
          await tx.run(
            "update batch set process = 'held' where account_id in ('acct_a', 'acct_b')",
          );
          return found.map(({ id }) => id);
        });
      const setDue = (id: string, at: number) =>
        db.write((tx) => tx.run("update batch set due_at = ? where id = ?", [at, id]));
      const inTurns = ["batch_1", "batch_4", "batch_2", "batch_3"];
      expect(await find({ limit: 2 })).toEqual(inTurns.slice(0, 2));
      expect(await find({})).toEqual(inTurns);
      // Those that run already count.
      const running = new Map([["acct_a", 1]]);
      expect(await find({ running })).toEqual(["batch_4", "batch_1", "batch_2", "batch_3"]);
      expect(await find({ running, perAccount: 2 })).toEqual(["batch_4", "batch_1"]);
      // One that has had its turn comes after the others of its account, and one that waits for its time is not found.
      await setDue("batch_1", 1_000);
      expect(await find({})).toEqual(["batch_2", "batch_4", "batch_3", "batch_1"]);
      await setDue("batch_1", 1_001);
      expect(await find({})).toEqual(["batch_2", "batch_4", "batch_3"]);
      // A clock was set back.
      await setDue("batch_1", 1_001 + WAIT_MAX_MS);
      expect(await find({})).toContain("batch_1");
      await db.write((tx) => tx.run("delete from batch where account_id in ('acct_a', 'acct_b')"));
    });

    // The provider would connect to servers that the key may not use.
    test("requests with MCP servers are not run by a provider", async () => {
      const owner = await fundedAccount(gateway);
      await setBatchFaults(gateway, {});
      const body: Json = {
        model: CLAUDE,
        max_tokens: 64,
        messages: [{ role: "user", content: "Hi" }],
        mcp_servers: [{ type: "url", url: "https://mcp.example/mcp", name: "sea" }],
        tools: [{ type: "mcp_toolset", mcp_server_name: "sea" }],
      };
      const reply = await postBatch(gateway, owner, {
        endpoint: "/v1/messages",
        processing: "provider",
        requests: [{ custom_id: "a", body }],
      });
      expect(reply.status).toBe(400);
      expect(errorOf(reply.json)["param"]).toBe("processing");
    });
  });
}

// A list has up to 50 batches that have not ended, each with 10,000 items of some kilobytes.
test("the counts of a list of batches do not read the items", async () => {
  const { db, close } = await openStore("sqlite");
  const plan = await db.all(`explain query plan ${LIVE_COUNTS}`, ["batch_1"]);
  expect(plan.map(({ detail }) => String(detail)).join()).toContain("COVERING INDEX");
  await close();
});

test("a result above the limit of size ends its item in error, at its cost", () => {
  const sealer = { seal: (_: string, text: string) => Buffer.from(text), open: () => "" };
  const times = { createdAt: 0, expiresAt: 1 };
  const endpoint = "/v1/embeddings";
  const batch = {
    id: "batch_1",
    endpoint,
    provider: null,
    responseId: null,
    requestSha256: null,
    ...times,
  };
  const { toSettlement } = toBatchItem({ batch, sealer }, { position: 0, share: 9n });
  const result = { requestId: "req_1", status: 200, cost: 5n, fault: undefined };
  const short = toSettlement({ ...result, body: "{}" });
  expect(short).toMatchObject({ status: "succeeded", httpStatus: 200, cost: 5n });
  const long = toSettlement({ ...result, body: "a".repeat(8 * MEBIBYTE + 1) });
  expect(long).toMatchObject({ status: "errored", httpStatus: 502, cost: 5n });
  expect(long?.sealedResult?.length).toBeLessThan(1_000);
});
