// Holds and charges of calls of Google's API, at Google's own wire and translated, on both stores: what the other APIs promise.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { casesOn, runs } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  countOpenHolds,
  expectSettledLedger,
  grantCredits,
  type Json,
  readWallet,
  simStats,
  usageRecordOf,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

const OUTPUT_MAX = 128_000;
const LARGE = {
  context_length: 1_000_000,
  max_output_tokens: OUTPUT_MAX,
  pricing: { tokens: { input: "5", output: "25" } },
};
const WIRES = ["gemini", "chat", "messages", "responses", "converse"] as const;
const modelOn = (wire: (typeof WIRES)[number]): string => `sim/large-${wire}`;
const MODELS = WIRES.map((wire) => ({ ...LARGE, id: modelOn(wire), wires: [wire] }));
/** Longer than the credits of a test pay for. */
const LONG = "[[sim: tokens=20000 chunks=20000]] go";
const CENT = 10_000_000n;
/** What an account gets when it is created. */
const STARTING = 5n * CENT;

for (const store of STORE_KINDS)
  describe(`calls of Google's API on ${store}`, () => {
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({
        store,
        env: withModels(MODELS),
        abandonedCallsPerMinute: 1e6,
      });
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const accountWith = async (amount: bigint): Promise<TestAccount> => {
      const account = await registerAccount(gateway);
      if (amount > STARTING) await grantCredits(gateway, account, amount - STARTING);
      return account;
    };
    const call = (
      { key }: TestAccount,
      model: string,
      text: string,
      {
        isStream = false,
        config = {},
        signal,
      }: {
        readonly isStream?: boolean;
        readonly config?: Json;
        readonly signal?: AbortSignal;
      } = {},
    ): Promise<Response> =>
      fetch(
        `${gateway.url}/v1beta/models/${model}:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
        {
          method: "POST",
          headers: { "content-type": "application/json", "x-goog-api-key": key },
          body: JSON.stringify({
            contents: [{ role: "user", parts: [{ text }] }],
            generationConfig: config,
          }),
          ...(signal === undefined ? {} : { signal }),
        },
      );
    const chunksOf = (text: string): readonly Json[] =>
      [...text.matchAll(/^data: (.*)$/gm)].map(([, line = ""]) => JSON.parse(line) as Json);

    for (const wire of casesOn(store, WIRES)) {
      test(`a stream ends as at the output limit if nothing more can be held (${wire})`, async () => {
        const amount = 30n * CENT;
        const options = { isStream: true, config: { maxOutputTokens: OUTPUT_MAX } };
        const callTwice = async () => {
          const account = await accountWith(amount);
          const responses = await Promise.all([
            call(account, modelOn(wire), LONG, options),
            call(account, modelOn(wire), LONG, options),
          ]);
          const texts = await Promise.all(responses.map((response) => response.text()));
          return { account, responses, texts };
        };
        // One of the calls is refused if the other holds all credits at that moment.
        let calls = await callTwice();
        for (let tries = 0; tries < 9 && calls.responses.some(({ ok }) => !ok); tries++)
          calls = await callTwice();
        const { account, responses, texts } = calls;
        await expectSettledLedger(gateway.server.db);
        const records = await usageRecordsOf(gateway.server.db, account.id);
        const spent = records.reduce((sum, one) => sum + BigInt(String(one["cost_nano"])), 0n);
        const { promo, held } = await readWallet(gateway.server.db, account.id);
        expect([promo + spent, held]).toEqual([amount, 0n]);
        const cut = records.find(({ outcome }) => outcome === "budget_cut");
        const at = responses.findIndex((one) => one.headers.get("x-request-id") === cut?.["id"]);
        const last = chunksOf(texts[at] ?? "").at(-1);
        expect(last).toMatchObject({
          candidates: [{ finishReason: "MAX_TOKENS" }],
          postern: { stopped_by: "budget" },
          usageMetadata: { cost: Number(String(cut?.["cost_nano"])) / 1e9 },
        });
        expect(texts[at]).not.toContain('"error":{');
      });

      test(`a caller that leaves pays for its input and what it got (${wire})`, async () => {
        const account = await accountWith(100n * CENT);
        const abort = new AbortController();
        const { completed_streams: before } = await simStats(gateway);
        const response = await call(
          account,
          modelOn(wire),
          "[[sim: tokens=200 chunks=200 pace=20]] go",
          { isStream: true, config: { maxOutputTokens: 300 }, signal: abort.signal },
        );
        const reader = response.body?.getReader();
        await reader?.read();
        abort.abort();
        await reader?.cancel().catch(() => {});
        await waitUntil(
          () => usageRecordsOf(gateway.server.db, account.id),
          (records) => records.length === 1,
        );
        const [record] = await usageRecordsOf(gateway.server.db, account.id);
        expect(record?.["outcome"]).toBe("client_aborted");
        expect(BigInt(String(record?.["cost_nano"]))).toBeGreaterThan(0n);
        expect((await simStats(gateway)).completed_streams).toBeGreaterThanOrEqual(before);
        await expectSettledLedger(gateway.server.db);
      });
    }

    test("concurrent calls spend no more than the credits", async () => {
      const amount = 10n * CENT;
      const account = await accountWith(amount);
      const config = { maxOutputTokens: 1_000 };
      const responses = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          call(account, modelOn(index % 2 === 0 ? "gemini" : "chat"), "[[sim: tokens=900]] go", {
            isStream: index % 3 === 0,
            config,
          }),
        ),
      );
      const statuses = await Promise.all(
        responses.map(async (response) => {
          await response.text();
          return response.status;
        }),
      );
      expect(new Set(statuses).isSubsetOf(new Set([200, 402, 429]))).toBe(true);
      expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0);
      expect(statuses.filter((status) => status !== 200).length).toBeGreaterThan(0);
      await expectSettledLedger(gateway.server.db);
      const records = await usageRecordsOf(gateway.server.db, account.id);
      const spent = records.reduce((sum, one) => sum + BigInt(String(one["cost_nano"])), 0n);
      const { promo } = await readWallet(gateway.server.db, account.id);
      expect(promo + spent).toBe(amount);
    });

    test("the last event of a stream is sent after the charge", async () => {
      const account = await accountWith(100n * CENT);
      for (const wire of ["gemini", "messages"] as const) {
        const response = await call(account, modelOn(wire), "[[sim: tokens=40 chunks=10]] go", {
          isStream: true,
        });
        const reader = response.body?.getReader();
        const decoder = new TextDecoder();
        let text = "";
        while (!text.includes('"finishReason"')) {
          const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
          if (done) break;
          text += decoder.decode(value);
        }
        const id = response.headers.get("x-request-id");
        const record = await usageRecordOf(gateway.server.db, id);
        expect(Number(record["output_tokens"])).toBe(40);
        await reader?.cancel();
      }
      expect(await countOpenHolds(gateway.server.db)).toBe(0);
    });

    test("no call costs more than its quote, whatever it asks for", async () => {
      const account = await accountWith(10_000n * CENT);
      const part = fc.oneof(
        fc.string({ maxLength: 60, unit: "grapheme" }).map((text) => ({ text: `x${text}` })),
        fc.constant({ inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" } }),
      );
      const request = fc.record(
        {
          contents: fc
            .array(part, { minLength: 1, maxLength: 3 })
            .map((parts) => [{ role: "user", parts }]),
          systemInstruction: fc.constant({ parts: [{ text: "Be brief." }] }),
          tools: fc.constant([
            { functionDeclarations: [{ name: "f", parameters: { type: "OBJECT" } }] },
          ]),
          generationConfig: fc.record(
            {
              maxOutputTokens: fc.integer({ min: 1, max: 300 }),
              temperature: fc.constantFrom(0, 1),
              stopSequences: fc.constant(["END"]),
            },
            { requiredKeys: ["maxOutputTokens"] },
          ),
        },
        { requiredKeys: ["contents", "generationConfig"] },
      );
      await fc.assert(
        fc.asyncProperty(request, fc.constantFrom(...WIRES), async (body, wire) => {
          const model = modelOn(wire);
          const quoted = await fetch(`${gateway.url}/v1/quote?api=gemini`, {
            method: "POST",
            headers: account.headers,
            body: JSON.stringify({ ...body, model }),
          });
          const quote = (await quoted.json()) as Json;
          const response = await fetch(`${gateway.url}/v1beta/models/${model}:generateContent`, {
            method: "POST",
            headers: account.headers,
            body: JSON.stringify(body),
          });
          const text = await response.text();
          expect([quoted.status, response.status, text]).toEqual([200, 200, text]);
          const cost = Number(response.headers.get("x-postern-cost-usd"));
          expect(cost).toBeGreaterThan(0);
          expect(cost).toBeLessThanOrEqual(Number(quote["cost_usd_max"]));
        }),
        { numRuns: runs(25) },
      );
    });
  });
