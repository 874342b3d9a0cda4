// A stream holds its input and a first part of its output, and more while it runs. If nothing more can be held, it ends as at
// an output limit and is charged for what it had.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { nanoFromUsd } from "../../../src/base/money/money.ts";
import { TRANCHE_TOKENS } from "../../../src/inference/streaming/recent-outputs.ts";
import { setBudgets } from "../../../src/ledger/wallet-budgets.ts";
import claudeCode from "../../clients/requests/claude-code.json" with { type: "json" };
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
  type Api,
  bodyOf,
  type Caller,
  countOpenHolds,
  errorOf,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
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

/** The recorder of test/clients wrote it. */
const CLAUDE_CODE = claudeCode as { readonly requests: readonly { readonly body: Json }[] };

/** As Claude Code asks of the largest model: 128,000 tokens at 25 US dollars per million are $3.20. */
const OUTPUT_MAX = 128_000;
const OUTPUT_NANO = 25_000n;
const LIMIT_OF = {
  chat: "max_tokens",
  messages: "max_tokens",
  responses: "max_output_tokens",
  embeddings: "max_tokens",
} as const;
const COMMON = {
  context_length: 1_000_000,
  max_output_tokens: OUTPUT_MAX,
  pricing: { tokens: { input: "5", output: "25" } },
};
const MODELS = [
  { ...COMMON, id: "sim/large", wires: ["chat", "responses", "messages"] },
  { ...COMMON, id: "sim/large-chat", wires: ["chat"] },
  { ...COMMON, id: "sim/large-messages", wires: ["messages"] },
  { ...COMMON, id: "sim/large-reason", wires: ["messages"], supported: ["reasoning"] },
];
const CUT_MODELS = [
  ["passed through", "sim/large"],
  ["translated to chat", "sim/large-chat"],
  ["translated to messages", "sim/large-messages"],
] as const;
const LEFT_MODELS = ["sim/large", "sim/large-chat", "sim/large-reason"] as const;
const DELTAS: Readonly<Record<string, RegExp>> = {
  chat: /"delta":\{"content":"/g,
  messages: /"type":"text_delta"/g,
  responses: /"type":"response.output_text.delta"/g,
};
/** Of a stream with ten tokens in an event. */
const tokensIn = (api: string, text: string): number =>
  10 * (text.match(DELTAS[api] ?? /$^/)?.length ?? 0);
/**
 * Longer than two calls can hold for. Each event has one token: a provider generates more slowly than a loopback sends, and so
 * one read of the socket has no more tokens than a hold covers ahead.
 */
const LONG = "[[sim: tokens=20000 chunks=20000]] go";

for (const store of STORE_KINDS)
  describe(`rolling holds on ${store}`, () => {
    let gateway: Gateway;
    let gate: GatedSimulator;
    let gated: Gateway;
    let monotonicOffset = 0;
    beforeAll(async () => {
      const monotonicNow = (): number => performance.now() + monotonicOffset;
      const models = withModels(MODELS);
      gateway = await startGateway({ store, env: models, monotonicNow });
      gate = startGatedSimulator();
      gated = await startGateway({ store, env: { ...models, SIM_BASE_URL: gate.url } });
    });
    afterAll(async () => {
      for (const one of [gateway, gated]) {
        await expectSettledLedger(one.server.db);
        await one.stop();
      }
      await gate.stop();
    });

    const accountWith = async (usd: number, target = gateway): Promise<TestAccount> => {
      const account = await registerAccount(target);
      // Registration grants 5 cents.
      await grantCredits(target, account, (nanoFromUsd(usd) ?? 0n) - 50_000_000n);
      return account;
    };
    const streamBody = (api: Api, text: string, more: Json = {}): Json =>
      bodyOf(api, text, {
        model: "sim/large",
        stream: true,
        [LIMIT_OF[api]]: OUTPUT_MAX,
        ...more,
      });
    const stream = (account: Caller, api: Api, text: string, more?: Json) =>
      postCall(gateway, account, api, streamBody(api, text, more));
    const recordOf = (response: Response) =>
      usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));

    test("holds a first part of the output, and gives what is affordable as the output limit", async () => {
      const account = await accountWith(0.5);
      const { requests } = await simStats(gateway);
      const pending = stream(account, "messages", "[[sim: tokens=1500 latency=400]] go");
      await waitUntil(
        () => simStats(gateway),
        (stats) => stats.requests > requests,
      );
      const { held } = await readWallet(gateway.server.db, account.id);
      const output = BigInt(TRANCHE_TOKENS) * OUTPUT_NANO;
      expect(held).toBeGreaterThan(output);
      expect(held).toBeLessThan(output + 20_000_000n);
      const response = await pending;
      const text = await response.text();
      expect(isCompleteStream("messages", text)).toBe(true);
      const limit = Number(response.headers.get("x-postern-max-tokens"));
      expect(limit).toBeGreaterThan(15_000);
      expect(limit).toBeLessThan(20_000);
      expect(response.headers.get("x-postern-budget-cut")).toBe("true");
      expect(JSON.parse((await lastSimulatorRequest(gateway)).body)).toMatchObject({
        max_tokens: limit,
      });
      const record = await recordOf(response);
      expect([record["outcome"], Number(record["output_tokens"])]).toEqual(["completed", 1_500]);
    });

    test("raises the hold while more arrives, and charges the provider's usage", async () => {
      const account = await accountWith(4);
      const response = await stream(account, "chat", LONG);
      const held = new Set<bigint>();
      const sample = async (): Promise<void> => {
        if ((await countOpenHolds(gateway.server.db)) === 0) return;
        held.add((await readWallet(gateway.server.db, account.id)).held);
      };
      const reader = response.body?.getReader();
      let text = "";
      const decoder = new TextDecoder();
      for (;;) {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
        if (done) break;
        text += decoder.decode(value);
        await sample();
      }
      expect(isCompleteStream("chat", text)).toBe(true);
      expect(response.headers.get("x-postern-max-tokens")).toBeNull();
      expect(held.size).toBeGreaterThan(3);
      const record = await recordOf(response);
      expect([record["outcome"], Number(record["output_tokens"])]).toEqual(["completed", 20_000]);
      await expectSettledLedger(gateway.server.db);
    });

    for (const [[name, model], api] of pairsOn(store, CUT_MODELS, STREAMED_APIS))
      test(`ends as at the output limit if nothing more can be held (${api}, ${name})`, async () => {
        const account = await accountWith(0.3, gated);
        gate.close();
        const more = { model, stream_options: { include_usage: true } };
        const body = streamBody(api, LONG, more);
        const calls = [1, 2].map(() => postCall(gated, account, api, body));
        // Both have a first part of their hold.
        await waitUntil(gate.waiting, (waiting) => waiting === 2);
        gate.open();
        const responses = await Promise.all(calls);
        const texts = await Promise.all(responses.map((response) => response.text()));
        await expectSettledLedger(gated.server.db);
        const records = await usageRecordsOf(gated.server.db, account.id);
        const spent = records.reduce(
          (sum, record) => sum + BigInt(String(record["cost_nano"])),
          0n,
        );
        const { promo, held } = await readWallet(gated.server.db, account.id);
        expect([promo + spent, held]).toEqual([300_000_000n, 0n]);
        const cut = records.findIndex(({ outcome }) => outcome === "budget_cut");
        const record = records[cut];
        const text =
          texts[responses.findIndex((one) => one.headers.get("x-request-id") === record?.["id"])] ??
          "";
        expect(isCompleteStream(api, text)).toBe(true);
        expect(text).toContain('"postern":{"stopped_by":"budget"}');
        expect(text).toContain(LENGTH_STOP[api] ?? "");
        expect(text).not.toContain('"error":{');
        const output = Number(record?.["output_tokens"]);
        expect(output).toBeGreaterThan(1_000);
        const counted = [...text.matchAll(/(?:output|completion)_tokens":(\d+)/g)].at(-1)?.[1];
        expect(Number(counted)).toBe(output);
      });

    for (const [api, model] of pairsOn(store, STREAMED_APIS, LEFT_MODELS))
      test(`charges a client that leaves for what it got, and ends the hold (${api}, ${model})`, async () => {
        const account = await accountWith(2);
        const controller = new AbortController();
        const text = "[[sim: tokens=9000 chunks=900 pace=1]] go";
        const response = await stream({ ...account, signal: controller.signal }, api, text, {
          model,
        });
        const reader = response.body?.getReader();
        const decoder = new TextDecoder();
        let received = "";
        // Its hold was raised by then: a token may be as short as a byte.
        while (tokensIn(api, received) < TRANCHE_TOKENS / 2) {
          const { value } = (await reader?.read()) ?? {};
          received += decoder.decode(value, { stream: true });
        }
        controller.abort();
        const [record] = await waitUntil(
          () => usageRecordsOf(gateway.server.db, account.id),
          (records) => records.length === 1,
        );
        const output = Number(record?.["output_tokens"]);
        expect(record?.["outcome"]).toBe("client_aborted");
        expect(output).toBeGreaterThanOrEqual(tokensIn(api, received));
        expect(output).toBeLessThanOrEqual(9_000);
        const cost = BigInt(String(record?.["cost_nano"]));
        expect(cost).toBeGreaterThanOrEqual(BigInt(output) * OUTPUT_NANO);
        const { promo, held } = await readWallet(gateway.server.db, account.id);
        expect([promo + cost, held]).toEqual([2_000_000_000n, 0n]);
      });

    test("keeps to a budget, a key's limit, a session's limit and a ceiling of the call", async () => {
      const account = await accountWith(10);
      const limited = await mintKey(account, { limit_usd: 0.2 });
      const session = withHeaders(account, {
        "x-postern-session": "s-1",
        "x-postern-session-limit-usd": "0.2",
      });
      for (const caller of [limited, session]) {
        const responses = await Promise.all([
          stream(caller, "chat", LONG),
          stream(caller, "chat", LONG),
        ]);
        const statuses = responses.map(({ status }) => status);
        expect(statuses).toContain(200);
        await Promise.all(responses.map((response) => response.text()));
        const spent = await costsOf(responses);
        expect(spent).toBeGreaterThan(50_000_000n);
        expect(spent).toBeLessThanOrEqual(200_000_000n);
      }
      const capped = await stream(account, "chat", LONG, { postern: { max_cost_usd: 0.15 } });
      await capped.text();
      expect(await costsOf([capped])).toBeLessThanOrEqual(150_000_000n);
      const { db } = gateway.server;
      const before = await readWallet(db, account.id);
      const spentBefore = 10_000_000_000n - before.promo;
      await db.write((tx) =>
        setBudgets(tx, account.id, { day: spentBefore + 200_000_000n }, Date.now()),
      );
      const responses = await Promise.all([
        stream(account, "chat", LONG),
        stream(account, "chat", LONG),
      ]);
      await Promise.all(responses.map((response) => response.text()));
      const after = await readWallet(db, account.id);
      expect(before.promo - after.promo).toBeLessThanOrEqual(200_000_000n);
      expect(before.promo - after.promo).toBeGreaterThan(50_000_000n);
    });

    test("covers what a model may reason by time, also before its first event", async () => {
      const account = await accountWith(0.4);
      const { requests } = await simStats(gateway);
      const slow = "[[sim: latency=120000]] go";
      const thinking = { type: "enabled", budget_tokens: 2_000 };
      const more = { model: "sim/large-reason", thinking };
      const responses = [slow, slow].map((text) => stream(account, "messages", text, more));
      await waitUntil(
        () => simStats(gateway),
        (stats) => stats.requests === requests + 2,
      );
      // Two thirds of a minute in which the provider may have reasoned.
      monotonicOffset += 40_000;
      const statuses: unknown[] = [];
      for (const response of await Promise.all(responses)) {
        const error = errorOf(await response.json());
        statuses.push([response.status, error["code"]]);
      }
      expect(statuses).toEqual([
        [402, "insufficient_credits"],
        [402, "insufficient_credits"],
      ]);
      const records = await usageRecordsOf(gateway.server.db, account.id);
      for (const record of records) {
        expect([record["outcome"], Number(record["exact"])]).toEqual(["budget_cut", 0]);
        expect(Number(record["output_tokens"])).toBeGreaterThan(TRANCHE_TOKENS);
      }
      const spent = records.reduce((sum, record) => sum + BigInt(String(record["cost_nano"])), 0n);
      const { promo, held } = await readWallet(gateway.server.db, account.id);
      expect([promo + spent, held]).toEqual([400_000_000n, 0n]);
    });

    test("is quoted with its first part and with everything", async () => {
      const account = await accountWith(0.5);
      const quote = await fetch(`${gateway.url}/v1/quote?api=messages`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(
          bodyOf("messages", "go", { model: "sim/large", max_tokens: OUTPUT_MAX }),
        ),
      });
      const { hold_credits: all, stream_hold_credits: first } = (await quote.json()) as Json;
      expect(Number(all)).toBeGreaterThan(3_200_000);
      expect(Number(first)).toBeGreaterThan(TRANCHE_TOKENS * 25);
      expect(Number(first)).toBeLessThan(TRANCHE_TOKENS * 25 + 20_000);
    });

    test("runs what Claude Code sends with 50 cents, and ten at once with 3 dollars", async () => {
      const request = CLAUDE_CODE.requests.find(({ body }) => body["stream"] === true);
      const body = { ...request?.body, model: "sim/large-reason", max_tokens: OUTPUT_MAX };
      const run = async (account: TestAccount): Promise<void> => {
        const response = await postCall(gateway, account, "messages", body);
        const text = await response.text();
        expect([response.status, isCompleteStream("messages", text)]).toEqual([200, true]);
        expect((await recordOf(response))["outcome"]).toBe("completed");
      };
      await run(await accountWith(0.5));
      const shared = await accountWith(3);
      await Promise.all(Array.from({ length: 10 }, () => run(shared)));
    });

    test("holds everything at first if the caller asks for it", async () => {
      const account = await accountWith(0.5);
      const full = withHeaders(account, { "x-postern-hold": "full" });
      const refused = await stream(full, "messages", "go");
      expect(refused.status).toBe(402);
      expect(Number(errorOf(await refused.json())["required_credits"])).toBeGreaterThan(3_000_000);
      const option = await stream(account, "messages", "go", { postern: { hold: "full" } });
      expect(option.status).toBe(402);
      const unknown = await stream(account, "messages", "go", { postern: { hold: "some" } });
      const error = errorOf(await unknown.json());
      expect([unknown.status, error["param"]]).toEqual([400, "postern.hold"]);
    });

    test("refuses a call whose first part is not affordable, and tells that part", async () => {
      const account = await accountWith(0.1);
      const response = await stream(account, "messages", "go");
      const error = errorOf(await response.json());
      expect([response.status, error["code"]]).toEqual([402, "insufficient_credits"]);
      expect(Number(error["required_credits"])).toBeLessThan(120_000);
      expect(Number(error["affordable_max_tokens"])).toBeGreaterThan(3_000);
    });

    async function mintKey(account: TestAccount, settings: Json): Promise<TestAccount> {
      const minted = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(settings),
      });
      const { api_key: key } = (await minted.json()) as { api_key: string };
      return withHeaders({ ...account, key }, { authorization: `Bearer ${key}` });
    }

    async function costsOf(responses: readonly Response[]): Promise<bigint> {
      const served = responses.filter(({ status }) => status === 200);
      const records = await Promise.all(served.map(recordOf));
      return records.reduce((sum, record) => sum + BigInt(String(record["cost_nano"])), 0n);
    }
  });

const LENGTH_STOP: Readonly<Record<string, string>> = {
  chat: '"finish_reason":"length"',
  messages: '"stop_reason":"max_tokens"',
  responses: '"incomplete_details":{"reason":"max_output_tokens"}',
};
