// The first part of a rolling hold follows the outputs of the model's recent calls: nearly all replies fit it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { array, assert, integer, property } from "fast-check";
import {
  createRecentOutputs,
  TRANCHE_TOKENS,
} from "../../../src/inference/streaming/recent-outputs.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { TEST_SEED } from "../../support/random.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  addPaidCredits,
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  USD,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

describe("the first part", () => {
  const firstOf = (outputs: readonly number[]): number => {
    const recent = createRecentOutputs();
    for (const tokens of outputs) recent.record("m", tokens);
    return recent.firstTokens("m");
  };
  const repeat = (tokens: number, count: number): readonly number[] =>
    Array.from({ length: count }, () => tokens);

  test("is 4,096 tokens until the model has had enough calls", () => {
    expect(firstOf([])).toBe(4_096);
    expect(firstOf(repeat(10, 127))).toBe(4_096);
    expect(firstOf(repeat(10, 128))).toBe(2_048);
  });

  test("covers 99 of 100 recent replies, between 2,048 and 8,192 tokens", () => {
    expect(firstOf([...repeat(100, 254), ...repeat(50_000, 2)])).toBe(2_048);
    expect(firstOf([...repeat(100, 253), ...repeat(50_000, 3)])).toBe(8_192);
    expect(firstOf([...repeat(3_000, 253), ...repeat(3_500, 3)])).toBe(3_500);
    // Older calls do not count.
    expect(firstOf([...repeat(50_000, 256), ...repeat(100, 256)])).toBe(2_048);
    const outputs = array(integer({ min: 0, max: 200_000 }), { minLength: 128, maxLength: 600 });
    assert(
      property(outputs, (all) => {
        const first = firstOf(all);
        expect(first).toBeGreaterThanOrEqual(2_048);
        expect(first).toBeLessThanOrEqual(8_192);
      }),
      { seed: TEST_SEED },
    );
  });

  test("is that of each model", () => {
    const recent = createRecentOutputs();
    for (const tokens of repeat(10, 128)) recent.record("short", tokens);
    expect([recent.firstTokens("short"), recent.firstTokens("other")]).toEqual([2_048, 4_096]);
  });
});

const OUTPUT_MAX = 128_000;
const CREDITS_PER_TOKEN = 25;

for (const store of STORE_KINDS)
  describe(`the first part on ${store}`, () => {
    let gateway: Gateway;
    beforeAll(async () => {
      const pricing = { tokens: { input: "5", output: String(CREDITS_PER_TOKEN) } };
      const common = { wires: ["messages"], context_length: 1_000_000, pricing };
      const models = ["a", "b"].map((name) => ({
        ...common,
        id: `sim/${name}`,
        max_output_tokens: OUTPUT_MAX,
      }));
      gateway = await startGateway({ store, env: withModels(models) });
    });
    afterAll(() => gateway.stop());

    const call = (
      account: TestAccount,
      model: string,
      text: string,
      more: Json,
    ): Promise<Response> =>
      postCall(gateway, account, "messages", bodyOf("messages", text, { model, ...more }));
    const run = async (account: TestAccount, model: string, tokens: number): Promise<void> => {
      const response = await call(account, model, `[[sim: tokens=${tokens}]] go`, {
        max_tokens: tokens,
      });
      await response.text();
      expect(response.status).toBe(200);
    };
    const streamHoldOf = async (account: TestAccount, model: string): Promise<number> => {
      const quote = await fetch(`${gateway.url}/v1/quote?api=messages`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(bodyOf("messages", "go", { model, max_tokens: OUTPUT_MAX })),
      });
      return Number(((await quote.json()) as Json)["stream_hold_credits"]);
    };

    test("follows the calls of paying accounts, in quotes and holds", async () => {
      const payer = await registerAccount(gateway);
      await addPaidCredits(gateway, payer, 50n * USD);
      const before = await streamHoldOf(payer, "sim/a");
      for (let calls = 0; calls < 128; calls += 16)
        await Promise.all(Array.from({ length: 16 }, () => run(payer, "sim/a", 20)));
      const after = await streamHoldOf(payer, "sim/a");
      expect(before - after).toBe((TRANCHE_TOKENS - 2_048) * CREDITS_PER_TOKEN);
      // 6 cents pay for the smaller part and not for the larger.
      const poor = await registerAccount(gateway);
      await grantCredits(gateway, poor, 10_000_000n);
      const stream = { stream: true, max_tokens: OUTPUT_MAX };
      const served = await call(poor, "sim/a", "go", stream);
      await served.text();
      const refused = await call(poor, "sim/b", "go", stream);
      expect([served.status, refused.status]).toEqual([200, 402]);
      expect(Number(errorOf(await refused.json())["required_credits"])).toBeGreaterThan(100_000);
      await expectSettledLedger(gateway.server.db);
    });

    test("does not follow calls that cost their account little to cause", async () => {
      const free = await registerAccount(gateway);
      await grantCredits(gateway, free, USD);
      for (let calls = 0; calls < 128; calls += 16)
        await Promise.all(Array.from({ length: 16 }, () => run(free, "sim/b", 20)));
      expect(await streamHoldOf(free, "sim/b")).toBeGreaterThan(TRANCHE_TOKENS * CREDITS_PER_TOKEN);
    });

    test("of a model with long replies refuses no call that the usual part would serve", async () => {
      const payer = await registerAccount(gateway);
      await addPaidCredits(gateway, payer, 100n * USD);
      for (let calls = 0; calls < 128; calls += 16)
        await Promise.all(Array.from({ length: 16 }, () => run(payer, "sim/b", 9_000)));
      expect(await streamHoldOf(payer, "sim/b")).toBeGreaterThan(8_192 * CREDITS_PER_TOKEN);
      const poor = await registerAccount(gateway);
      await grantCredits(gateway, poor, 60_000_000n);
      const served = await call(poor, "sim/b", "go", { stream: true, max_tokens: OUTPUT_MAX });
      await served.text();
      expect(served.status).toBe(200);
    });
  });
