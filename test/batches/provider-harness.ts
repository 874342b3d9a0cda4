// A gateway with simulated providers that run batches, and an account whose charges are checked.

import { expect } from "bun:test";
import {
  expectSettledLedger,
  type Json,
  readWallet,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";
import type { StoreKind } from "../support/stores/stores.ts";
import { createBatch, readLines, waitForEnd } from "./batch-harness.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;

export const CLAUDE = "anthropic/claude-haiku-4-5";
export const GEMINI = "google/gemini-2.5-flash";
export const GPT = "openai/gpt-5-mini";
export const LLAMA = "together/meta-llama/Llama-3.3-70B-Instruct-Turbo";
export const MISTRAL = "mistral/mistral-small-latest";
/** One model of each form of batch API. */
export const BATCH_MODELS = [GPT, CLAUDE, GEMINI, MISTRAL, LLAMA] as const;

const PROVIDERS = ["openai", "anthropic", "google", "groq", "mistral", "together", "sim"];

/** The fields of a short call. */
export function hello(model: string, more: Json = {}): Json {
  return { model, max_tokens: 64, messages: [{ role: "user", content: "Hi" }], ...more };
}

export function requestsTo(model: string, count: number): readonly Json[] {
  return Array.from({ length: count }, (_, index) => ({
    custom_id: `item-${index}`,
    body: hello(model),
  }));
}

export interface ProviderFixture {
  readonly gateway: Gateway;
  /** The account of the last batch. */
  readonly owner: () => TestAccount;
  readonly fund: () => Promise<TestAccount>;
  /** Creates a batch of a new account. */
  readonly start: (requests: readonly unknown[], more?: Json) => Promise<Json>;
  readonly held: () => Promise<bigint>;
  readonly resultsOf: (batch: Json) => Promise<readonly Json[]>;
  /** What the simulator has of batches. */
  readonly simulated: () => Promise<Json>;
  /** The batch at the provider, as it is stored. */
  readonly submissionOf: (batch: Json) => Promise<Json>;
  /** Waits until the batch at the provider is in this state. */
  readonly reach: (batch: Json, state: string) => Promise<void>;
  /** Waits until the batch has ended. */
  readonly end: (batch: Json) => Promise<Json>;
  /** Each item has one usage record, and they add up to the cost of the batch. */
  readonly expectPaidOnce: (batch: Json, items: number) => Promise<void>;
  readonly now: () => number;
  readonly advance: (ms: number) => void;
  readonly close: () => Promise<void>;
}

export async function openProviderFixture(
  store: StoreKind,
  env: Readonly<Record<string, string>> = {},
): Promise<ProviderFixture> {
  let clockOffset = 0;
  const now = (): number => Date.now() + clockOffset;
  const gateway = await openGateway({ store, providers: PROVIDERS, env, now, simulatorNow: now });
  const { db } = gateway.server;
  let owner = await fundedAccount(gateway);
  let funds = 0n;
  const fund = async (): Promise<TestAccount> => {
    owner = await fundedAccount(gateway);
    const { promo, paid } = await readWallet(db, owner.id);
    funds = promo + paid;
    return owner;
  };
  const submissionOf = async ({ id }: Json): Promise<Json> =>
    (await db.get("select * from provider_batch where batch_id = ?", [String(id)])) ?? {};
  return {
    gateway,
    owner: () => owner,
    fund,
    start: async (requests, more = {}) => createBatch(gateway, await fund(), requests, more),
    held: async () => (await readWallet(db, owner.id)).held,
    resultsOf: (batch) => readLines(gateway, owner, `/v1/batches/${String(batch["id"])}/results`),
    simulated: async () =>
      (await (await fetch(`${gateway.simulatorUrl}/sim/batches`)).json()) as Json,
    submissionOf,
    reach: async (batch, state) => {
      await eventually(async () => (await submissionOf(batch))["state"] === state);
    },
    end: ({ id }) => waitForEnd(gateway, owner, id),
    expectPaidOnce: async (batch, items) => {
      const usage = await usageRecordsOf(db, owner.id);
      expect(usage.length).toBe(items);
      const sum = usage.reduce((total, row) => total + BigInt(String(row["cost_nano"])), 0n);
      expect(Number(batch["cost_usd"])).toBeCloseTo(Number(sum) / 1e9, 9);
      const { promo, paid, held } = await readWallet(db, owner.id);
      expect([promo + paid + sum, held]).toEqual([funds, 0n]);
      const listed = await call(gateway, owner, `GET /v1/usage?batch=${String(batch["id"])}`);
      expect((listed.json["data"] as unknown[]).length).toBe(items);
    },
    now,
    advance: (ms) => {
      clockOffset += ms;
    },
    close: async () => {
      await expectSettledLedger(db);
      await gateway.stop();
    },
  };
}
