// The caller's own provider key is tried first at its provider and costs nothing. If it fails, the call falls back to the
// gateway's accounts, which are charged.

import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  usageRecordOf,
  USD,
  readWallet,
} from "../support/harness.ts";
import { type FaultyProvider, startFaultyProvider } from "../support/routing-harness.ts";

let gateway: Gateway;
let openai: FaultyProvider;
let azure: FaultyProvider;
let account: TestAccount;

beforeAll(async () => {
  [openai, azure] = [startFaultyProvider(), startFaultyProvider()];
  gateway = await startGateway({
    providers: [],
    env: {
      OPENAI_API_KEY: "gateway-key",
      OPENAI_BASE_URL: openai.url,
      AZURE_OPENAI_API_KEY: "gateway-key",
      AZURE_OPENAI_BASE_URL: azure.url,
    },
  });
});
afterAll(async () => {
  await gateway.stop();
  await Promise.all([openai.stop(), azure.stop()]);
});
beforeEach(async () => {
  for (const provider of [openai, azure]) provider.failure = undefined;
  account = await registerAccount(gateway);
  const added = await fetch(`${gateway.url}/v1/provider-keys`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({ provider: "azure", api_key: "a-key-of-my-own-at-azure" }),
  });
  expect(added.status).toBe(201);
});

const ORDER = { provider: { order: ["azure", "openai"] } };

async function call(more: Json): Promise<{
  status: number;
  provider: unknown;
  byok: unknown;
  cost: bigint;
  attemptCount: number;
}> {
  const body = bodyOf("chat", "hello", { model: "openai/gpt-5-mini", ...more });
  const response = await postCall(gateway, account, "chat", body);
  await response.text();
  const row = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
  const { attempts } = JSON.parse(String(row["detail"])) as { attempts: unknown[] };
  await expectSettledLedger(gateway.server.db);
  return {
    status: response.status,
    provider: row["provider"],
    byok: Number(row["byok"]),
    cost: BigInt(String(row["cost_nano"])),
    attemptCount: attempts.length,
  };
}

test("a call with the caller's key costs nothing, and needs no balance", async () => {
  // Nothing is held for the caller's key, so a call above the balance is accepted.
  const result = await call({ ...ORDER, max_tokens: 100_000 });
  expect(result).toEqual({ status: 200, provider: "azure", byok: 1, cost: 0n, attemptCount: 1 });
});

test("charges the next provider once if all accounts of the first fail", async () => {
  await grantCredits(gateway, account, USD);
  azure.failure = { status: 503 };
  const result = await call(ORDER);
  expect([result.status, result.provider, result.byok]).toEqual([200, "openai", 0]);
  // Two attempts with the caller's key, because the next candidate is at the same provider, then one per account.
  expect(result.attemptCount).toBe(4);
  const wallet = await readWallet(gateway.server.db, account.id);
  expect(result.cost).toBeGreaterThan(0n);
  expect([wallet.promo + wallet.paid, wallet.held]).toEqual([USD + 50_000_000n - result.cost, 0n]);
});

test("calls with a caller's key do not count in the provider's statistics", async () => {
  azure.failure = { status: 500 };
  const alone = { provider: { only: ["azure"] } };
  await call(alone).catch(() => undefined);
  azure.failure = undefined;
  const response = await fetch(`${gateway.url}/v1/models/azure/gpt-5-mini/endpoints`);
  const { data } = (await response.json()) as {
    data: { provider: string; uptime: number | null }[];
  };
  const before = data.find(({ provider }) => provider === "azure")?.uptime ?? 0;
  for (let turn = 0; turn < 3; turn++) await call(alone);
  const again = await fetch(`${gateway.url}/v1/models/azure/gpt-5-mini/endpoints`);
  const after = ((await again.json()) as { data: { provider: string; uptime: number | null }[] })
    .data;
  expect(after.find(({ provider }) => provider === "azure")?.uptime ?? 0).toBe(before);
});
