// A call that is not streamed also runs on little credit: if its whole hold is not affordable, its provider is asked for a
// stream, and the gateway makes the whole reply of it while the hold grows.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { nanoFromUsd, usdText } from "../../../src/base/money/money.ts";
import { TRANCHE_TOKENS } from "../../../src/inference/streaming/recent-outputs.ts";
import { releaseHolds } from "../../../src/ledger/sweep.ts";
import { getResponse, waitUntilEnded } from "../../responses/harness.ts";
import { eventually } from "../../support/eventually.ts";
import { pairsOn } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import {
  bodyOf,
  type Caller,
  countOpenHolds,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  postCall,
  readWallet,
  simStats,
  STREAMED_APIS,
  usageRecordOf,
  usageRecordsOf,
  waitUntil,
  withHeaders,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

const OUTPUT_MAX = 128_000;
const OUTPUT_NANO = 25_000n;
const LIMIT_OF = { chat: "max_tokens", messages: "max_tokens", responses: "max_output_tokens" };
const COMMON = {
  context_length: 1_000_000,
  max_output_tokens: OUTPUT_MAX,
  pricing: { tokens: { input: "5", output: "25" } },
};
const MODELS = [
  { ...COMMON, id: "sim/large", wires: ["chat", "responses", "messages"] },
  { ...COMMON, id: "sim/large-chat", wires: ["chat"] },
  { ...COMMON, id: "sim/large-messages", wires: ["messages"] },
  { ...COMMON, id: "sim/large-responses", wires: ["responses"] },
  { ...COMMON, id: "sim/large-gemini", wires: ["gemini"] },
  { ...COMMON, id: "sim/large-hidden", wires: ["responses"], supported: ["reasoning"] },
];
type Api = (typeof STREAMED_APIS)[number];

const FINISH: Readonly<Record<Api, readonly [whole: string, cut: string]>> = {
  chat: ['"finish_reason":"stop"', '"finish_reason":"length"'],
  messages: ['"stop_reason":"end_turn"', '"stop_reason":"max_tokens"'],
  responses: ['"status":"completed"', '"reason":"max_output_tokens"'],
};
/** The text of a whole reply on each API. */
const textOf = (json: Json): string =>
  [...JSON.stringify(json).matchAll(/"(?:content|text)":"((?:[^"\\]|\\.)*)"/g)]
    .map(([, text = ""]) => text)
    .join("");
const setMembers = (json: Json): readonly string[] =>
  Object.keys(json)
    .filter((name) => json[name] !== null)
    .sort();
const LONG = "[[sim: tokens=20000 chunks=20000]] go";
const WHOLE_MODELS = [
  ["passed through", "sim/large"],
  ["translated to chat", "sim/large-chat"],
  ["translated to messages", "sim/large-messages"],
  ["translated to responses", "sim/large-responses"],
] as const;
const CUT_MODELS = ["sim/large", "sim/large-chat", "sim/large-messages"] as const;

async function accountOn(gateway: Gateway, usd: number): Promise<TestAccount> {
  const account = await registerAccount(gateway);
  // Registration grants 5 cents.
  await grantCredits(gateway, account, (nanoFromUsd(usd) ?? 0n) - 50_000_000n);
  return account;
}

async function costsOn(gateway: Gateway, { id }: TestAccount): Promise<readonly bigint[]> {
  const records = await usageRecordsOf(gateway.server.db, id);
  return records.map(({ cost_nano }) => BigInt(String(cost_nano)));
}

const sum = (costs: readonly bigint[]): bigint => costs.reduce((all, one) => all + one, 0n);

for (const store of STORE_KINDS)
  describe(`whole replies of a rolling hold on ${store}`, () => {
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({ store, env: withModels(MODELS) });
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const accountWith = (usd: number): Promise<TestAccount> => accountOn(gateway, usd);
    const mintKey = async (account: TestAccount, settings: Json): Promise<TestAccount> => {
      const minted = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(settings),
      });
      const { api_key: key } = (await minted.json()) as { api_key: string };
      return withHeaders({ ...account, key }, { authorization: `Bearer ${key}` });
    };
    const call = (account: Caller, api: Api, text: string, more: Json = {}): Promise<Response> =>
      postCall(
        gateway,
        account,
        api,
        bodyOf(api, text, { model: "sim/large", [LIMIT_OF[api]]: OUTPUT_MAX, ...more }),
      );
    const recordOf = (response: Response) =>
      usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
    const costsOf = (account: TestAccount): Promise<readonly bigint[]> => costsOn(gateway, account);
    const isStreamedUpstream = async (): Promise<boolean> => {
      const { body } = await lastSimulatorRequest(gateway);
      return (JSON.parse(body) as Json)["stream"] === true;
    };

    for (const [[name, model], api] of pairsOn(store, WHOLE_MODELS, STREAMED_APIS))
      test(`is the reply of a call that holds everything (${api}, ${name})`, async () => {
        const text = "[[sim: tokens=1500]] go";
        const rich = await accountWith(10);
        const poor = await accountWith(0.5);
        const whole = await call(rich, api, text, { model });
        expect([whole.status, await isStreamedUpstream()]).toEqual([200, false]);
        const collected = await call(poor, api, text, { model });
        expect([collected.status, await isStreamedUpstream()]).toEqual([200, true]);
        expect(collected.headers.get("content-type")).toBe(whole.headers.get("content-type"));
        const [expected, actual] = [(await whole.json()) as Json, (await collected.json()) as Json];
        expect(textOf(actual)).toBe(textOf(expected));
        expect(textOf(actual).length).toBeGreaterThan(5_000);
        expect(JSON.stringify(actual)).toContain(FINISH[api][0]);
        expect(setMembers(actual)).toEqual(setMembers(expected));
        expect(actual["usage"]).toEqual(expected["usage"]);
        const [first, second] = [await recordOf(whole), await recordOf(collected)];
        expect(second["cost_nano"]).toBe(first["cost_nano"] ?? 0);
        expect([second["outcome"], Number(second["stream"]), Number(second["exact"])]).toEqual([
          "completed",
          0,
          1,
        ]);
        expect(collected.headers.get("x-postern-cost-usd")).toBe(
          whole.headers.get("x-postern-cost-usd"),
        );
      });

    test("holds a first part and more as it arrives", async () => {
      const account = await accountWith(2);
      const { requests } = await simStats(gateway);
      const pending = call(account, "messages", "[[sim: tokens=9000 chunks=90 pace=4]] go");
      await waitUntil(
        () => simStats(gateway),
        (stats) => stats.requests > requests,
      );
      const { held: first } = await readWallet(gateway.server.db, account.id);
      expect(first).toBeLessThan(BigInt(TRANCHE_TOKENS) * OUTPUT_NANO + 20_000_000n);
      await waitUntil(
        () => readWallet(gateway.server.db, account.id),
        ({ held }) => held > first,
      );
      const response = await pending;
      expect(JSON.stringify(await response.json())).toContain(FINISH.messages[0]);
      expect(Number((await recordOf(response))["output_tokens"])).toBe(9_000);
      expect((await readWallet(gateway.server.db, account.id)).held).toBe(0n);
    });

    test("replays a complete reply for the same key", async () => {
      const account = await accountWith(0.5);
      const keyed = withHeaders(account, { "idempotency-key": "again" });
      const first = await call(keyed, "chat", "[[sim: tokens=100]] go");
      const second = await call(keyed, "chat", "[[sim: tokens=100]] go");
      expect(await second.text()).toBe(await first.text());
      expect((await costsOf(account)).length).toBe(1);
    });

    for (const [api, shape] of pairsOn(store, STREAMED_APIS, ["chunks=1", "chunks=20"]))
      test(`never charges more than a key's limit for ten replies at once (${api}, ${shape})`, async () => {
        const account = await accountWith(100);
        const limited = await mintKey(account, { limit_usd: 1.5 });
        const responses = await Promise.all(
          Array.from({ length: 10 }, () => call(limited, api, `[[sim: tokens=20000 ${shape}]] go`)),
        );
        const texts = await Promise.all(responses.map((one) => one.text()));
        await expectSettledLedger(gateway.server.db);
        const spent = sum(await costsOf(account));
        expect(usdText(spent)).toBe(usdText(spent < 1_500_000_000n ? spent : 1_500_000_000n));
        expect(spent).toBeGreaterThan(500_000_000n);
        const whole = texts.filter((text) => text.length > 60_000 && !text.includes("stopped_by"));
        expect(whole.length).toBeLessThanOrEqual(3);
        const records = await usageRecordsOf(gateway.server.db, account.id);
        expect(records.every(({ overrun_nano }) => Number(overrun_nano) === 0)).toBe(true);
      });

    test("charges hidden reasoning that came at once no further than the key's limit", async () => {
      const account = await accountWith(100);
      const limited = await mintKey(account, { limit_usd: 1.5 });
      const text = "[[sim: tokens=100 chunks=1 reasoning=60000]] go";
      const replies = Array.from({ length: 10 }, async () => {
        const response = await call(limited, "messages", text, { model: "sim/large-hidden" });
        await response.text();
      });
      await Promise.all(replies);
      await expectSettledLedger(gateway.server.db);
      const spent = sum(await costsOf(account));
      expect(spent).toBeLessThanOrEqual(1_500_000_000n);
      expect(spent).toBeGreaterThan(100_000_000n);
    });

    test("stores a response that was collected, also in the background", async () => {
      const account = await accountWith(0.5);
      const stored = (await (
        await call(account, "responses", "[[sim: tokens=50]] go")
      ).json()) as Json;
      expect(await isStreamedUpstream()).toBe(true);
      const read = await getResponse(gateway, account, String(stored["id"]));
      expect(textOf(read.json)).toBe(textOf(stored));
      const accepted = await call(account, "responses", "[[sim: tokens=50]] go", {
        background: true,
      });
      const { id } = (await accepted.json()) as { id: string };
      const ended = await waitUntilEnded(gateway, account, id);
      expect(JSON.stringify(ended)).toContain(FINISH.responses[0]);
      expect(await isStreamedUpstream()).toBe(true);
    });

    test("serves Gemini's API, which is translated", async () => {
      const account = await accountWith(0.5);
      const response = await fetch(`${gateway.url}/v1beta/models/sim/large-chat:generateContent`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          contents: [{ role: "user", parts: [{ text: "[[sim: tokens=50]] go" }] }],
          generationConfig: { maxOutputTokens: OUTPUT_MAX },
        }),
      });
      expect([response.status, await isStreamedUpstream()]).toEqual([200, true]);
      expect(JSON.stringify(await response.json())).toContain('"finishReason":"STOP"');
    });

    test("holds everything where a stream does not tell the whole reply, or the caller asks for it", async () => {
      const account = await accountWith(0.5);
      for (const [more, api] of [
        [{ logprobs: true }, "chat"],
        [{ model: "sim/large-gemini" }, "chat"],
        [{ postern: { hold: "full" } }, "messages"],
        [{ n: 2 }, "chat"],
      ] as const) {
        const refused = await call(account, api, "go", more);
        expect([refused.status, errorOf(await refused.json())["code"]]).toEqual([
          402,
          "insufficient_credits",
        ]);
      }
      // Without a limit of its own, the output is shortened to what is affordable.
      const open = await call(account, "chat", "go", { max_tokens: undefined, logprobs: true });
      expect([open.status, await isStreamedUpstream()]).toEqual([200, false]);
    });

    test.each([
      ["cut=3", 502],
      ["fail=3", 502],
      ["no-end cut=400", 502],
    ])("costs nothing if the provider breaks its stream (%s)", async (fault, status) => {
      const account = await accountWith(0.5);
      for (const api of STREAMED_APIS) {
        const response = await call(account, api, `[[sim: tokens=400 chunks=400 ${fault}]] go`);
        expect(response.status).toBeGreaterThanOrEqual(status - 2);
        await response.text();
      }
      await waitUntil(
        () => countOpenHolds(gateway.server.db),
        (count) => count === 0,
      );
      expect(sum(await costsOf(account))).toBe(0n);
      expect((await usageRecordsOf(gateway.server.db, account.id)).length).toBe(3);
    });

    for (const api of STREAMED_APIS)
      test(`is read to its usage and charged if the caller leaves, within the hold (${api})`, async () => {
        const account = await accountWith(0.5);
        const controller = new AbortController();
        const { requests } = await simStats(gateway);
        const text = "[[sim: tokens=9000 chunks=300 pace=2]] go";
        const pending = call({ ...account, signal: controller.signal }, api, text).then(
          (response) => response.text(),
          () => "left",
        );
        await waitUntil(
          () => simStats(gateway),
          (stats) => stats.requests > requests,
        );
        controller.abort();
        expect(await pending).toBe("left");
        const [record] = await waitUntil(
          () => usageRecordsOf(gateway.server.db, account.id),
          (records) => records.length === 1,
        );
        expect([record?.["outcome"], Number(record?.["output_tokens"])]).toEqual([
          "client_aborted",
          9_000,
        ]);
        expect((await readWallet(gateway.server.db, account.id)).held).toBe(0n);
      });
  });

for (const store of STORE_KINDS)
  describe(`whole replies that are cut on ${store}`, () => {
    let gate: GatedSimulator;
    let gated: Gateway;
    beforeAll(async () => {
      gate = startGatedSimulator();
      gated = await startGateway({ store, env: { ...withModels(MODELS), SIM_BASE_URL: gate.url } });
    });
    afterAll(async () => {
      await gated.stop();
      await gate.stop();
    });
    /** 20,000 tokens cost $0.50. */
    const send = (account: Caller, api: Api, model: string): Promise<Response> =>
      postCall(gated, account, api, bodyOf(api, LONG, { model, [LIMIT_OF[api]]: OUTPUT_MAX }));

    for (const [api, model] of pairsOn(store, STREAMED_APIS, CUT_MODELS))
      test(`ends as at the output limit if nothing more can be held (${api}, ${model})`, async () => {
        const account = await accountOn(gated, 0.3);
        const keyed = (index: number): TestAccount =>
          withHeaders(account, { "idempotency-key": `key-${index}` });
        gate.close();
        const pending = [0, 1].map((index) => send(keyed(index), api, model));
        await eventually(() => gate.waiting() === 2);
        gate.open();
        const responses = await Promise.all(pending);
        const bodies = (await Promise.all(responses.map((one) => one.json()))) as Json[];
        await expectSettledLedger(gated.server.db);
        const { promo, held } = await readWallet(gated.server.db, account.id);
        expect([promo + sum(await costsOn(gated, account)), held]).toEqual([300_000_000n, 0n]);
        const records = await usageRecordsOf(gated.server.db, account.id);
        const record = records.find(({ outcome }) => outcome === "budget_cut");
        const cut = responses.findIndex(
          (one) => one.headers.get("x-request-id") === record?.["id"],
        );
        const [response, body] = [responses[cut], bodies[cut]];
        expect(response?.status).toBe(200);
        expect(body).toMatchObject({ postern: { stopped_by: "budget" } });
        const text = JSON.stringify(body);
        expect(text).toContain(FINISH[api][1]);
        expect(textOf(body ?? {}).length).toBeGreaterThan(4_000);
        const output = Number(record?.["output_tokens"]);
        expect(output).toBeGreaterThan(1_000);
        const counted = /"(?:output|completion)_tokens":(\d+)/.exec(text)?.[1];
        expect(Number(counted)).toBe(output);
        const cost = usdText(BigInt(String(record?.["cost_nano"])));
        expect(response?.headers.get("x-postern-cost-usd")).toBe(cost);
        expect(text).toContain(`"cost":${Number(cost)}`);
        // Nothing is kept for a repetition: it is a new call, which the balance does not cover any more.
        const again = await send(keyed(cut), api, model);
        expect(again.headers.get("x-postern-idempotent-replay")).toBeNull();
        expect(again.headers.get("x-request-id")).not.toBe(
          response?.headers.get("x-request-id") ?? "",
        );
      });

    test.each(STREAMED_APIS)(
      "costs nothing and asks for a repetition if its hold was released meanwhile (%s)",
      async (api) => {
        const account = await accountOn(gated, 0.4);
        const { db } = gated.server;
        gate.close();
        const pending = send(account, api, "sim/large");
        await eventually(() => gate.waiting() === 1);
        // As another process does while this one is suspended.
        await db.write(async (tx) => {
          const rows = await tx.all("select id, account_id, key_id from hold");
          await releaseHolds(tx, Date.now(), rows);
        });
        gate.open();
        const response = await pending;
        const error = errorOf(await response.json());
        expect([response.status, error["code"]]).toEqual([503, "overloaded"]);
        expect(error["message"]).toContain("Send the request again");
        expect(sum(await costsOn(gated, account))).toBe(0n);
        const { promo, held } = await readWallet(db, account.id);
        expect([promo, held]).toEqual([400_000_000n, 0n]);
      },
    );
  });

for (const store of STORE_KINDS)
  test(`charges what a collected reply had sent when it timed out (${store})`, async () => {
    const env = withModels(MODELS);
    const gateway = await startGateway({ store, env, timeouts: { replyMs: 2_000 } });
    const account = await accountOn(gateway, 0.5);
    const text = "[[sim: tokens=2000 chunks=200 hang=20]] go";
    const more = { model: "sim/large", max_tokens: OUTPUT_MAX };
    const response = await postCall(gateway, account, "chat", bodyOf("chat", text, more));
    expect(response.status).toBe(504);
    await expectSettledLedger(gateway.server.db);
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    expect(record?.["outcome"]).toBe("upstream_timeout");
    // It had sent 20 of 200 parts.
    const output = Number(record?.["output_tokens"]);
    expect(output).toBeGreaterThan(0);
    expect(BigInt(String(record?.["cost_nano"]))).toBeGreaterThan(BigInt(output) * OUTPUT_NANO);
    await gateway.stop();
  });
