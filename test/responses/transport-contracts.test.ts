// Ceilings and quotes where no reply follows the request on its connection: WebSockets, background, compaction and batches.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { createBatch, postBatch, readLines, waitForEnd } from "../batches/batch-harness.ts";
import { expectSettledLedger, type Json, usageRecordsOf } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { call, fundedAccount, openGateway } from "./harness.ts";
import { openSocket } from "./websocket-client.ts";

const NONE = { max_cost_usd: "0.000000001", on_max_cost: "refuse" };
const CEILING = "0.0008";
const CUT = { max_cost_usd: CEILING };
const REQUEST = { model: "sim/echo", input: "[[sim: tokens=900]] go", max_output_tokens: 4_000 };

describe.each(STORE_KINDS)("a ceiling on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await openGateway({ store });
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
  });
  const expectCosts = async (count: number): Promise<void> => {
    const records = await usageRecordsOf(gateway.server.db, account.id);
    expect(records).toHaveLength(count);
    for (const { cost_nano: cost } of records) {
      expect(Number(cost)).toBeGreaterThan(0);
      expect(Number(cost)).toBeLessThanOrEqual(Number(CEILING) * 1e9);
    }
  };

  test("holds over a WebSocket, in a message and in the handshake", async () => {
    account = await fundedAccount(gateway);
    const socket = await openSocket(gateway, account.headers);
    const refused = await socket.create({ ...REQUEST, postern: NONE });
    expect(JSON.stringify(refused)).toContain("max_cost_usd");
    const cut = await socket.create({ ...REQUEST, postern: CUT });
    expect(cut["type"]).toBe("response.incomplete");
    socket.close();
    const headers = { ...account.headers, "x-postern-max-cost-usd": CEILING };
    const capped = await openSocket(gateway, headers);
    expect((await capped.create(REQUEST))["type"]).toBe("response.incomplete");
    capped.close();
    await expectSettledLedger(gateway.server.db);
    await expectCosts(2);
  });

  test("holds in the background", async () => {
    account = await fundedAccount(gateway);
    const run = async (postern: Json): Promise<Json> => {
      const body = { ...REQUEST, background: true, postern };
      const created = await call(gateway, account, "POST /v1/responses", { body });
      if (created.status >= 400) return created.json;
      return await eventually(async () => {
        const path = `GET /v1/responses/${String(created.json["id"])}` as const;
        const { json } = await call(gateway, account, path);
        return json["status"] === "queued" || json["status"] === "in_progress" ? undefined : json;
      });
    };
    expect(JSON.stringify(await run(NONE))).toContain("max_cost_usd");
    expect((await run(CUT))["status"]).toBe("incomplete");
    await expectSettledLedger(gateway.server.db);
    await expectCosts(1);
  });

  test("holds for a compaction, in the body and in a header", async () => {
    account = await fundedAccount(gateway);
    const input = [{ type: "message", role: "user", content: "hello" }];
    const compact = (postern: Json, headers: Record<string, string> = {}) =>
      call(gateway, account, "POST /v1/responses/compact", {
        body: { model: "sim/echo", input, postern: { compaction: "summary", ...postern } },
        headers,
      });
    for (const refused of [
      await compact(NONE),
      await compact({}, { "x-postern-max-cost-usd": "0.000000001" }),
    ])
      expect([refused.status, refused.text]).toEqual([
        400,
        expect.stringContaining("max_cost_usd"),
      ]);
    const made = await compact({ max_cost_usd: "1", receipt: true });
    expect(made.status).toBe(200);
    const [, payload = ""] = made.headers.get("x-postern-receipt")?.split(".") ?? [];
    expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toMatchObject({
      response_sha256: createHash("sha256").update(made.text).digest("hex"),
    });
    await expectSettledLedger(gateway.server.db);
    expect(await usageRecordsOf(gateway.server.db, account.id)).toHaveLength(1);
  });

  test("holds for each item of a batch, in its body and in a header of the batch", async () => {
    account = await fundedAccount(gateway);
    const body = {
      model: "sim/echo",
      max_tokens: 4_000,
      messages: [{ role: "user", content: "[[sim: tokens=900]] go" }],
    };
    const created = await createBatch(gateway, account, [
      { custom_id: "refused", body: { ...body, postern: NONE } },
      { custom_id: "cut", body: { ...body, postern: CUT } },
    ]);
    const ended = await waitForEnd(gateway, account, created["id"]);
    expect(ended["request_counts"]).toMatchObject({ completed: 1, failed: 1 });
    const [line] = await readLines(
      gateway,
      account,
      `/v1/files/${String(ended["output_file_id"])}/content`,
    );
    expect(JSON.stringify(line)).toContain('"finish_reason":"length"');
    await expectSettledLedger(gateway.server.db);
    await expectCosts(1);
    const headers = { ...account.headers, "x-postern-max-cost-usd": "0.000000001" };
    const none = await postBatch(
      gateway,
      { ...account, headers },
      { requests: [{ custom_id: "none", body }] },
    );
    const noneEnded = await waitForEnd(gateway, account, none.json["id"]);
    expect(noneEnded["request_counts"]).toMatchObject({ completed: 0, failed: 1 });
  });
});
