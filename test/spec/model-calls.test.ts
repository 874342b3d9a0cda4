import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Row } from "../../src/store/db.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  usageRecordOf,
  STREAMED_APIS,
  waitUntil,
  USD,
} from "../inference/support/harness.ts";
import { openSocketClient } from "../inference/support/socket-client.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

let gateway: Gateway;
let account: TestAccount;
let later = 0;

beforeAll(async () => {
  gateway = await startGateway({
    now: () => Date.now() + later,
    monotonicNow: () => performance.now() + later,
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
});
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
});

describe("every reply contains its cost", () => {
  for (const api of [...STREAMED_APIS, "embeddings"] as const) {
    test(`in a header and in usage, equal to the charge (${api})`, async () => {
      const response = await postCall(gateway, account, api, bodyOf(api, "hello there"));
      const { usage } = (await response.json()) as { usage: Json };
      const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
      const header = Number(response.headers.get("x-postern-cost-usd"));
      expect(header).toBeGreaterThan(0);
      expect(usage["cost"]).toBe(header);
      expect(Number(record["cost_nano"])).toBe(Math.round(header * 1e9));
      const lines = JSON.parse(String(record["detail"])).price as { count: number; usd: string }[];
      expect(
        Math.round(lines.reduce((sum, line) => sum + line.count * Number(line.usd), 0) * 1e9),
      ).toBe(Number(record["cost_nano"]));
      const shown = (await (
        await fetch(`${gateway.url}/v1/usage/${response.headers.get("x-request-id")}`, {
          headers: account.headers,
        })
      ).json()) as Json;
      expect(shown).toMatchObject({
        id: response.headers.get("x-request-id"),
        api,
        outcome: "completed",
        exact: true,
        byok: false,
      });
    });
  }

  for (const api of STREAMED_APIS) {
    test(`at the end of a stream (${api})`, async () => {
      const response = await postCall(
        gateway,
        account,
        api,
        bodyOf(api, "hello there", {
          stream: true,
          ...(api === "chat" ? { stream_options: { include_usage: true } } : {}),
        }),
      );
      const text = await response.text();
      const cost = Number(/"cost":([0-9.e-]+)/.exec(text)?.[1]);
      expect(cost).toBeGreaterThan(0);
      expect(
        Number(
          (await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")))[
            "cost_nano"
          ],
        ),
      ).toBe(Math.round(cost * 1e9));
    });
  }
});

describe("a streamed and a non-streamed reply", () => {
  test("cost the same", async () => {
    for (const api of STREAMED_APIS) {
      const costs: unknown[] = [];
      for (const stream of [false, true]) {
        const response = await postCall(
          gateway,
          account,
          api,
          bodyOf(api, "[[sim: tokens=37 cached=10 reasoning=5]] the same", { stream }),
        );
        await response.text();
        const {
          cost_nano: cost,
          input_tokens: input,
          output_tokens: output,
          cache_read_tokens: read,
          reasoning_tokens: reasoning,
        } = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
        costs.push([cost, input, output, read, reasoning]);
      }
      expect([api, costs[0]]).toEqual([api, costs[1]]);
    }
  });
});

describe("the end of a stream", () => {
  for (const api of STREAMED_APIS) {
    test(`on ${api} is sent after the settlement`, async () => {
      for (let tries = 0; tries < 20; tries++) {
        const response = await postCall(
          gateway,
          account,
          api,
          bodyOf(api, "[[sim: tokens=8 chunks=4]] x", { stream: true }),
        );
        const decoder = new TextDecoder();
        let text = "";
        let found: Row | undefined;
        for await (const chunk of response.body ?? []) {
          text += decoder.decode(chunk, { stream: true });
          if (found === undefined && isCompleteStream(api, text))
            found = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
        }
        expect([found?.["outcome"], Number(found?.["exact"])]).toEqual(["completed", 1]);
      }
    });
  }
});

describe("the response head", () => {
  test("contains the request id, which is also the id of the usage record", async () => {
    const ok = await postCall(gateway, account, "chat", bodyOf("chat", "x", { stream: true }));
    expect(ok.headers.get("x-request-id")).toMatch(/^req_/);
    expect(ok.headers.get("content-type")).toStartWith("text/event-stream");
    await ok.text();
    const bad = await postCall(gateway, account, "messages", {});
    expect(((await bad.json()) as Json)["request_id"]).toBe(bad.headers.get("x-request-id"));
  });
});

describe("an idle provider", () => {
  for (const [api, sign] of [
    ["chat", ": keep-alive"],
    ["responses", ": keep-alive"],
    ["messages", "event: ping"],
  ] as const) {
    test(`causes "${sign}" on ${api} every 15 seconds`, async () => {
      const client = openSocketClient(
        gateway,
        account,
        api,
        bodyOf(api, "[[sim: hang=2]] one two three four", { stream: true }),
      );
      await client.waitForText("said");
      // The provider may send its own pings.
      const before = client.text().split(sign).length;
      later += 16_000;
      await waitUntil(
        () => client.text().split(sign).length,
        (seen) => seen === before + 1,
      );
      client.disconnect();
      await expectSettledLedger(gateway.server.db);
    });
  }
});

describe("count_tokens", () => {
  test("returns the provider's count without a charge or a usage record", async () => {
    const before = (
      await gateway.server.db.get("select count(*) as count from usage_record", [])
    )?.["count"];
    const response = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "sim/echo",
        messages: [{ role: "user", content: "hello there" }],
        stream: true,
      }),
    });
    expect(response.status).toBe(200);
    expect(((await response.json()) as { input_tokens: number }).input_tokens).toBeGreaterThan(0);
    expect(
      (await gateway.server.db.get("select count(*) as count from usage_record", []))?.["count"],
    ).toBe(before);
  });
});

describe("a gateway without provider keys", () => {
  test("calls the built-in simulator with every API, streamed and not", async () => {
    const gateway = await startGateway({ providers: [] });
    const account = await registerAccount(gateway);
    for (const api of STREAMED_APIS) {
      for (const stream of [false, true]) {
        const response = await postCall(
          gateway,
          account,
          api,
          bodyOf(api, "[[sim: tokens=20]] hello", { stream }),
        );
        const text = await response.text();
        expect([api, response.status]).toEqual([api, 200]);
        if (stream) expect(isCompleteStream(api, text)).toBe(true);
      }
    }
    expect(
      (await postCall(gateway, account, "embeddings", bodyOf("embeddings", "hello"))).status,
    ).toBe(200);
    const impatient = await startGateway({
      providers: [],
      timeouts: { firstByteMs: 800, replyMs: 800, idleMs: 1_000 },
    });
    const waiting = await registerAccount(impatient);
    for (const directive of ["latency=5000", "hang=1"]) {
      const body = bodyOf("chat", `[[sim: ${directive}]] x`);
      expect((await postCall(impatient, waiting, "chat", body)).status).toBe(504);
    }
    await impatient.stop();
    const client = openSocketClient(
      gateway,
      account,
      "chat",
      bodyOf("chat", "[[sim: tokens=200 chunks=200 pace=10]] x", { stream: true }),
    );
    await client.waitForText('"content":');
    client.disconnect();
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
  });
});
