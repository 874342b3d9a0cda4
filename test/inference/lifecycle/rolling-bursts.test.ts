// Providers send faster than a hold rolls, in bursts, or bill output that they never showed. What is charged never exceeds what
// is held, so neither a key's limit, nor a session's, a budget, a ceiling or the balance is ever exceeded.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type Arbitrary,
  array,
  assert,
  asyncProperty,
  constantFrom,
  integer,
  record,
} from "fast-check";
import { nanoFromUsd, usdText } from "../../../src/base/money/money.ts";
import { setBudgets } from "../../../src/ledger/wallet-budgets.ts";
import { getResponse, waitUntilEnded } from "../../responses/harness.ts";
import { openSocket } from "../../responses/websocket-client.ts";
import { pairsOn, runs } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { TEST_SEED } from "../../support/random.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  type Caller,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  readWallet,
  STREAMED_APIS,
  usageRecordsOf,
  withHeaders,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

/** 40,000 tokens cost 1 US dollar. */
const COMMON = {
  context_length: 1_000_000,
  max_output_tokens: 128_000,
  pricing: { tokens: { input: "5", output: "25" } },
};
const MODELS = [
  { ...COMMON, id: "sim/large", wires: ["chat", "responses", "messages"] },
  { ...COMMON, id: "sim/large-chat", wires: ["chat"] },
  { ...COMMON, id: "sim/large-reason", wires: ["messages"], supported: ["reasoning"] },
  // This wire shows no reasoning.
  { ...COMMON, id: "sim/large-hidden", wires: ["responses"], supported: ["reasoning"] },
];
const LIMIT_OF = { chat: "max_tokens", messages: "max_tokens", responses: "max_output_tokens" };

const SHAPES = [
  ["in one event", { model: "sim/large", events: 1, reasoning: 0 }],
  ["in events of many tokens", { model: "sim/large", events: 20, reasoning: 0 }],
  ["hidden in reasoning", { model: "sim/large-hidden", events: 20, reasoning: 60_000 }],
] as const;

type StreamedApi = (typeof STREAMED_APIS)[number];

/** What one call asks for, and how the provider sends it. */
interface Burst {
  readonly api: StreamedApi;
  readonly model: string;
  readonly tokens: number;
  /** 1 sends the whole reply in one event. */
  readonly events: number;
  /** Tokens of reasoning before the text. */
  readonly reasoning: number;
  /** Bytes of each write, regardless of events; 0 for the simulator's own. */
  readonly slice: number;
}

const DELTA = "response.output_text.delta";

type Cap = "balance" | "key" | "session" | "budget" | "ceiling";
const CAPS: readonly Cap[] = ["balance", "key", "session", "budget", "ceiling"];

const burst: Arbitrary<Burst> = record({
  api: constantFrom(...STREAMED_APIS),
  model: constantFrom("sim/large", "sim/large-chat", "sim/large-reason", "sim/large-hidden"),
  tokens: integer({ min: 1, max: 24_000 }),
  events: constantFrom(1, 2, 7, 100, 24_000),
  reasoning: constantFrom(0, 100, 20_000, 60_000),
  slice: constantFrom(0, 0, 4_099, 65_536),
});

for (const store of STORE_KINDS)
  describe(`bursts of output on ${store}`, () => {
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({ store, env: withModels(MODELS) });
    });
    afterAll(() => gateway.stop());

    const accountWith = async (usd: number): Promise<TestAccount> => {
      const account = await registerAccount(gateway);
      // Registration grants 5 cents.
      await grantCredits(gateway, account, (nanoFromUsd(usd) ?? 0n) - 50_000_000n);
      return account;
    };

    const call = (caller: Caller, one: Burst, more: Json = {}): Promise<Response> => {
      const { api, model, tokens, events, reasoning, slice } = one;
      const sliced = slice === 0 ? "" : ` slice=${slice}`;
      const text = `[[sim: tokens=${tokens} chunks=${Math.min(events, tokens)} reasoning=${reasoning}${sliced}]] go`;
      const body = { model, stream: true, [LIMIT_OF[api]]: 128_000, ...more };
      return postCall(gateway, caller, api, bodyOf(api, text, body));
    };
    const run = async (...args: Parameters<typeof call>): Promise<string> =>
      (await call(...args)).text();

    const mintKey = async (account: TestAccount, settings: Json): Promise<TestAccount> => {
      const minted = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(settings),
      });
      const { api_key: key } = (await minted.json()) as { api_key: string };
      return withHeaders({ ...account, key }, { authorization: `Bearer ${key}` });
    };

    const costsOf = async ({ id }: TestAccount): Promise<readonly bigint[]> =>
      (await usageRecordsOf(gateway.server.db, id)).map(({ cost_nano }) =>
        BigInt(String(cost_nano)),
      );

    const sum = (costs: readonly bigint[]): bigint => costs.reduce((all, one) => all + one, 0n);

    const expectNoDebt = async ({ id }: TestAccount): Promise<void> => {
      const records = await usageRecordsOf(gateway.server.db, id);
      expect(records.map(({ overrun_nano }) => Number(overrun_nano))).toEqual(records.map(() => 0));
      expect((await readWallet(gateway.server.db, id)).held).toBe(0n);
    };

    /** The calls of one account, all with what caps them; `spendable` is the cap. */
    const capped = async (
      cap: Cap,
      credits: number,
    ): Promise<{
      readonly account: TestAccount;
      readonly caller: TestAccount;
      readonly more: Json;
    }> => {
      const usd = credits / 1_000;
      const account = await accountWith(cap === "balance" ? usd : 50);
      if (cap === "key")
        return { account, caller: await mintKey(account, { limit_usd: usd }), more: {} };
      const session = { "x-postern-session": "s-1", "x-postern-session-limit-usd": String(usd) };
      if (cap === "session") return { account, caller: withHeaders(account, session), more: {} };
      if (cap === "ceiling")
        return { account, caller: account, more: { postern: { max_cost_usd: usd } } };
      if (cap === "budget")
        await gateway.server.db.write((tx) =>
          setBudgets(tx, account.id, { day: BigInt(credits) * 1_000_000n }, Date.now()),
        );
      return { account, caller: account, more: {} };
    };

    test("charges at most what caps the calls, whatever the providers send", async () => {
      await assert(
        asyncProperty(
          constantFrom(...CAPS),
          integer({ min: 110, max: 3_000 }),
          array(burst, { minLength: 1, maxLength: 6 }),
          async (cap, credits, bursts) => {
            const { account, caller, more } = await capped(cap, credits);
            const texts = await Promise.all(bursts.map((one) => run(caller, one, more)));
            await expectSettledLedger(gateway.server.db);
            const costs = await costsOf(account);
            const most = BigInt(credits) * 1_000_000n;
            const bound = cap === "ceiling" ? most * BigInt(bursts.length) : most;
            expect([sum(costs) <= bound, costs.every((cost) => cost <= most)]).toEqual([
              true,
              true,
            ]);
            await expectNoDebt(account);
            for (const [index, text] of texts.entries()) {
              const { api = "chat" } = bursts[index] ?? {};
              expect(text.startsWith("{") || isCompleteStream(api, text)).toBe(true);
            }
          },
        ),
        { seed: TEST_SEED, numRuns: runs(15) },
      );
    });

    for (const [api, [name, shape]] of pairsOn(store, STREAMED_APIS, SHAPES))
      test(`never charges more than a key's limit for ten replies at once, ${name} (${api})`, async () => {
        const account = await accountWith(100);
        const limited = await mintKey(account, { limit_usd: 1.5 });
        const one = { api, tokens: 20_000, slice: 0, ...shape };
        const texts = await Promise.all(Array.from({ length: 10 }, () => run(limited, one)));
        await expectSettledLedger(gateway.server.db);
        const spent = sum(await costsOf(account));
        expect(usdText(spent)).toBe(usdText(spent < 1_500_000_000n ? spent : 1_500_000_000n));
        // The limit pays for three whole texts; the others are cut.
        const whole = texts.filter((text) => text.length > 60_000 && !text.includes("stopped_by"));
        expect(whole.length).toBeLessThanOrEqual(3);
        // A reply of $0.50 fits, whatever the others hold.
        expect(spent).toBeGreaterThan(500_000_000n);
        await expectNoDebt(account);
      });

    test("charges hidden reasoning in full if it can be held, however fast it came", async () => {
      const account = await accountWith(10);
      const one = { api: "messages", events: 1, reasoning: 60_000, slice: 0 } as const;
      await run(account, { ...one, model: "sim/large-hidden", tokens: 100 });
      await expectSettledLedger(gateway.server.db);
      const [cost = 0n] = await costsOf(account);
      expect(cost).toBeGreaterThan(60_000n * 25_000n);
    });

    const largest = (text: string): Json => ({
      model: "sim/large",
      max_output_tokens: 128_000,
      input: text,
    });
    /** A text of $0.50 in one event. */
    const WHOLE_TEXT = "[[sim: tokens=20000 chunks=1]] go";
    const expectAtMost = async (account: TestAccount, whole: number): Promise<void> => {
      await expectSettledLedger(gateway.server.db);
      const spent = sum(await costsOf(account));
      expect(usdText(spent)).toBe(usdText(spent < 1_500_000_000n ? spent : 1_500_000_000n));
      expect(whole).toBeLessThanOrEqual(3);
      await expectNoDebt(account);
    };
    const isWhole = (value: unknown): boolean => JSON.stringify(value).length > 60_000;

    test("stores no text that a background response could not pay for", async () => {
      const account = await accountWith(100);
      const limited = await mintKey(account, { limit_usd: 1.5 });
      const accepted = await Promise.all(
        Array.from({ length: 10 }, () =>
          postCall(gateway, limited, "responses", { ...largest(WHOLE_TEXT), background: true }),
        ),
      );
      const bodies = await Promise.all(accepted.map(async (each) => (await each.json()) as Json));
      const ids = bodies.flatMap(({ id }) => (typeof id === "string" ? [id] : []));
      const ended = await Promise.all(ids.map((id) => waitUntilEnded(gateway, limited, id)));
      await expectAtMost(account, ended.filter(isWhole).length);
    });

    test("stores no text that a stream could not pay for, nor replays it", async () => {
      const account = await accountWith(100);
      const limited = await mintKey(account, { limit_usd: 1.5 });
      const streams = await Promise.all(
        Array.from({ length: 10 }, async (_, index) => {
          const keyed = withHeaders(limited, { "idempotency-key": `k${index}` });
          const body = { ...largest(WHOLE_TEXT), stream: true };
          return await (await postCall(gateway, keyed, "responses", body)).text();
        }),
      );
      await expectAtMost(account, streams.filter(isWhole).length);
      const ids = streams.flatMap((text) => /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? []);
      const stored = await Promise.all(
        ids.map(async (id) => (await getResponse(gateway, limited, id)).json),
      );
      await expectAtMost(account, stored.filter(isWhole).length);
    });

    test("keeps to the key's limit on WebSockets", async () => {
      const account = await accountWith(100);
      const limited = await mintKey(account, { limit_usd: 1.5 });
      const sockets = await Promise.all(
        Array.from({ length: 10 }, () => openSocket(gateway, limited.headers)),
      );
      const last = await Promise.all(sockets.map((socket) => socket.create(largest(WHOLE_TEXT))));
      await expectAtMost(account, last.filter(isWhole).length);
      const sent = sockets.map(({ events }) => events.filter(({ type }) => type === DELTA));
      await expectAtMost(account, sent.filter(isWhole).length);
      for (const socket of sockets) socket.close();
    });

    /** Reads until this many bytes have arrived, then leaves. */
    const leave = async (caller: TestAccount, one: Burst, bytes: number): Promise<void> => {
      const controller = new AbortController();
      const response = await call({ ...caller, signal: controller.signal }, one);
      const reader = response.body?.getReader();
      let read = 0;
      while (read < bytes) {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
        if (done) break;
        read += value.length;
      }
      controller.abort();
    };

    for (const [api, model] of pairsOn(store, STREAMED_APIS, ["sim/large", "sim/large-hidden"]))
      test(`charges ten clients that leave their streams no more than the key's limit (${api}, ${model})`, async () => {
        const account = await accountWith(100);
        const limited = await mintKey(account, { limit_usd: 1.5 });
        const shape = { api, model, tokens: 20_000, events: 200, reasoning: 0, slice: 0 };
        await Promise.all(
          Array.from({ length: 10 }, (_, index) =>
            leave(limited, { ...shape, reasoning: index * 6_000 }, index * 20_000),
          ),
        );
        await expectSettledLedger(gateway.server.db);
        const spent = sum(await costsOf(account));
        expect(usdText(spent)).toBe(usdText(spent < 1_500_000_000n ? spent : 1_500_000_000n));
        expect(spent).toBeGreaterThan(100_000_000n);
        await expectNoDebt(account);
      });
  });
