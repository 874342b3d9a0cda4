// A usage record as any other, for tests that change what they are about.

import type { UsageRecord } from "../../src/usage/usage.ts";

export const RECORD: UsageRecord = {
  id: "req_01kah5t3mq7d2c9w4e6r8t0yax",
  accountId: "acct_01kah5t3mq7d2c9w4e6r8t0yax",
  keyId: "key_01kah5t3mq7d2c9w4e6r8t0yax",
  createdAt: 1_800_000_000_000,
  model: "openai/gpt-5-mini",
  provider: "openai",
  api: "chat",
  stream: false,
  outcome: "completed",
  status: 200,
  inputTokens: 10,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 5,
  reasoningTokens: 0,
  price: [],
  attempts: [],
  cost: 1_500n,
  byok: false,
  exact: true,
  latencyMs: 12,
  firstTokenMs: null,
};
