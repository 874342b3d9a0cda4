import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Account, type Gateway, register, startGateway } from "../support/gateway.ts";
import { openClient } from "../inference/leaving.ts";
import {
  bodyOf,
  expectClean,
  fund,
  isComplete,
  type Json,
  post,
  recordOf,
  STREAMED_APIS,
  until,
  USD,
} from "../inference/world.ts";

let gateway: Gateway;
let account: Account;
let later = 0;

beforeAll(async () => {
  gateway = await startGateway({ now: () => Date.now() + later });
  account = await register(gateway);
  await fund(gateway, account, 100n * USD);
});
afterAll(async () => {
  await expectClean(gateway.house.db);
  await gateway.stop();
});

describe("every reply says its cost", () => {
  for (const api of [...STREAMED_APIS, "embeddings"] as const) {
    test(`in a header and inside the usage object, and both are what was charged and can be worked out again (${api})`, async () => {
      const response = await post(gateway, account, api, bodyOf(api, "hello there"));
      const { usage } = (await response.json()) as { usage: Json };
      const record = await recordOf(gateway.house.db, response.headers.get("x-request-id"));
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
    test(`at the end of a stream as well (${api})`, async () => {
      const response = await post(
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
          (await recordOf(gateway.house.db, response.headers.get("x-request-id")))["cost_nano"],
        ),
      ).toBe(Math.round(cost * 1e9));
    });
  }
});

describe("a stream and a whole reply", () => {
  test("of the same request cost the same", async () => {
    for (const api of STREAMED_APIS) {
      const costs: unknown[] = [];
      for (const stream of [false, true]) {
        const response = await post(
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
        } = await recordOf(gateway.house.db, response.headers.get("x-request-id"));
        costs.push([cost, input, output, read, reasoning]);
      }
      expect([api, costs[0]]).toEqual([api, costs[1]]);
    }
  });
});

describe("the last byte", () => {
  for (const api of STREAMED_APIS) {
    test(`of a ${api} stream leaves when the money is settled: whoever sees the end finds the record`, async () => {
      for (let tries = 0; tries < 20; tries++) {
        const response = await post(
          gateway,
          account,
          api,
          bodyOf(api, "[[sim: tokens=8 chunks=4]] x", { stream: true }),
        );
        const decoder = new TextDecoder();
        let text = "";
        let found: unknown;
        for await (const chunk of response.body ?? []) {
          text += decoder.decode(chunk, { stream: true });
          if (found === undefined && isComplete(api, text))
            found = await recordOf(gateway.house.db, response.headers.get("x-request-id"));
        }
        expect(found).toMatchObject({ outcome: "completed", exact: 1 });
      }
    });
  }
});

describe("the first byte", () => {
  test("of any answer bears the request's id, which is the usage record's", async () => {
    const ok = await post(gateway, account, "chat", bodyOf("chat", "x", { stream: true }));
    expect(ok.headers.get("x-request-id")).toMatch(/^req_/);
    expect(ok.headers.get("content-type")).toStartWith("text/event-stream");
    await ok.text();
    const bad = await post(gateway, account, "messages", {});
    expect(((await bad.json()) as Json)["request_id"]).toBe(bad.headers.get("x-request-id"));
  });
});

describe("silence", () => {
  for (const [api, sign] of [
    ["chat", ": keep-alive"],
    ["responses", ": keep-alive"],
    ["messages", "event: ping"],
  ] as const) {
    test(`of a provider is bridged on ${api} every 15 seconds with "${sign}"`, async () => {
      const client = openClient(
        gateway,
        account,
        api,
        bodyOf(api, "[[sim: hang=2 hang-ms=2500]] one two three four", { stream: true }),
      );
      await client.saw("delta");
      await Bun.sleep(50);
      // A provider may send pings of its own.
      const before = client.text().split(sign).length;
      later += 16_000;
      await until(
        () => client.text().split(sign).length,
        (seen) => seen === before + 1,
      );
      client.leave();
      await expectClean(gateway.house.db);
    });
  }
});

describe("count_tokens", () => {
  test("gives the provider's own count, costs nothing, and records nothing", async () => {
    const before = (await gateway.house.db.get("select count(*) as count from usage_record", []))?.[
      "count"
    ];
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
      (await gateway.house.db.get("select count(*) as count from usage_record", []))?.["count"],
    ).toBe(before);
  });
});

describe("a newcomer without a provider's key", () => {
  test("talks to the simulator inside the gateway, with every API, streamed and not", async () => {
    const own = await startGateway({
      providers: [],
      timeouts: { firstByteMs: 800, wholeMs: 800, silenceMs: 1_000 },
    });
    const newcomer = await register(own);
    for (const api of STREAMED_APIS) {
      for (const stream of [false, true]) {
        const response = await post(
          own,
          newcomer,
          api,
          bodyOf(api, "[[sim: tokens=20]] hello", { stream }),
        );
        const text = await response.text();
        expect([api, response.status]).toEqual([api, 200]);
        if (stream) expect(isComplete(api, text)).toBe(true);
      }
    }
    expect((await post(own, newcomer, "embeddings", bodyOf("embeddings", "hello"))).status).toBe(
      200,
    );
    const started = performance.now();
    for (const order of ["latency=5000", "hang=1"])
      expect(
        (await post(own, newcomer, "chat", bodyOf("chat", `[[sim: ${order}]] x`))).status,
      ).toBe(504);
    expect(performance.now() - started).toBeLessThan(4_000);
    const client = openClient(
      own,
      newcomer,
      "chat",
      bodyOf("chat", "[[sim: tokens=200 chunks=200 pace=10]] x", { stream: true }),
    );
    await client.saw('"content":');
    client.leave();
    await expectClean(own.house.db);
    await own.stop();
  }, 15_000);
});
