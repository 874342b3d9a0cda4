// The key, the credits and a call as OpenRouter's API returns them, for clients that ask OpenRouter for these. They are described
// in docs/site/guides/from-openrouter.md, and not among the endpoints, because ours have more.

import { z } from "zod";
import { usdNumber } from "../base/money/money.ts";
import type { LimitWindow } from "../base/money/spend-window.ts";
import { keyRoute, oneResponse, type Route } from "../http/route.ts";
import { timestamp } from "../http/schemas.ts";
import { toKeyRecord } from "../keys/key-record.ts";
import { getKey } from "../keys/keys.ts";
import { getWallet } from "../ledger/ledger.ts";
import type { Db } from "../store/db.ts";
import { readUsage, totalUsage } from "../usage/usage-stats.ts";
import { getUsage, type UsageRecord } from "../usage/usage.ts";

export function openRouterRoutes(db: Db): readonly Route[] {
  return [keyInfoRoute(db), creditsRoute(db), generationRoute(db)];
}

const Usd = z.number().meta({ description: "US dollars." });

const KeyInfo = z
  .object({
    data: z.object({
      label: z.string().meta({ description: "The key's first and last characters." }),
      usage: Usd.meta({ description: "Spend that counts against the limit, in US dollars." }),
      limit: Usd.nullable(),
      limit_remaining: Usd.nullable(),
      limit_reset: z.string().nullable(),
      is_free_tier: z.boolean().meta({ description: "Whether the account has no paid credit." }),
      expires_at: z.string().nullable(),
    }),
  })
  .meta({ id: "OpenRouterKey" });

const RESETS: Readonly<Record<LimitWindow, string>> = {
  day: "daily",
  week: "weekly",
  month: "monthly",
};

function keyInfoRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/api/v1/key",
    id: "getOpenRouterKey",
    scope: undefined,
    tag: "Keys",
    summary: "Get the calling key in OpenRouter's format",
    description: "GET /v1/keys/self has more. Needs no scope.",
    dialect: "openai",
    hidden: true,
    responses: oneResponse("The key.", KeyInfo, {
      data: {
        label: "pst-rt-8Kd0a…Xy2b",
        usage: 1.25,
        limit: 5,
        limit_remaining: 3.75,
        limit_reset: "daily",
        is_free_tier: false,
        expires_at: null,
      },
    }),
    faults: [],
    run: async ({ caller, now }) => {
      const [key, wallet] = await Promise.all([
        getKey(db, caller.accountId, caller.keyId, now),
        getWallet(db, caller.accountId),
      ]);
      const record = toKeyRecord(key);
      const { limit_usd: limit, spent_usd: usage, limit_window: window } = record;
      const data: z.infer<typeof KeyInfo>["data"] = {
        label: `${record.prefix}…${record.last4}`,
        usage,
        limit,
        limit_remaining: limit === null ? null : Math.max(0, limit - usage),
        limit_reset: window === null ? null : RESETS[window],
        is_free_tier: wallet.paid <= 0n,
        expires_at: record.expires_at,
      };
      return { status: 200, body: { data } };
    },
  });
}

const Credits = z
  .object({
    data: z.object({
      total_credits: Usd.meta({ description: "The balance and what was spent, in US dollars." }),
      total_usage: Usd.meta({ description: "What calls have cost, in US dollars." }),
    }),
  })
  .meta({ id: "OpenRouterCredits" });

function creditsRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/api/v1/credits",
    id: "getOpenRouterCredits",
    scope: "usage:read",
    tag: "Accounts",
    summary: "Get the credits in OpenRouter's format",
    description: "The difference of both is the balance. GET /v1/account has more.",
    dialect: "openai",
    hidden: true,
    responses: oneResponse("The credits.", Credits, {
      data: { total_credits: 20, total_usage: 3.5 },
    }),
    faults: [],
    run: async ({ caller }) => {
      const [{ paid, promo }, { cost }] = await Promise.all([
        getWallet(db, caller.accountId),
        readUsage(db, (reader) => totalUsage(reader, caller.accountId)),
      ]);
      const data = { total_credits: usdNumber(paid + promo + cost), total_usage: usdNumber(cost) };
      return { status: 200, body: { data } };
    },
  });
}

const Generation = z
  .object({
    data: z.object({
      id: z.string(),
      created_at: z.string(),
      model: z.string(),
      provider_name: z.string(),
      api_type: z.string(),
      streamed: z.boolean(),
      cancelled: z.boolean(),
      is_byok: z.boolean(),
      total_cost: Usd,
      usage: Usd,
      latency: z.int().nullable().meta({ description: "Milliseconds to the first token." }),
      generation_time: z.int().meta({ description: "Milliseconds to the end of the reply." }),
      tokens_prompt: z.int(),
      tokens_completion: z.int(),
      native_tokens_prompt: z.int(),
      native_tokens_completion: z.int(),
      native_tokens_reasoning: z.int(),
      native_tokens_cached: z.int(),
    }),
  })
  .meta({ id: "OpenRouterGeneration" });

const GENERATION_EXAMPLE: z.infer<typeof Generation> = {
  data: {
    id: "req_01kah5t3mq7d2c9w4e6r8t0yax",
    created_at: "2026-11-21T09:31:00.000Z",
    model: "sim/echo",
    provider_name: "sim",
    api_type: "chat",
    streamed: false,
    cancelled: false,
    is_byok: false,
    total_cost: 0.000028,
    usage: 0.000028,
    latency: null,
    generation_time: 12,
    tokens_prompt: 12,
    tokens_completion: 8,
    native_tokens_prompt: 12,
    native_tokens_completion: 8,
    native_tokens_reasoning: 0,
    native_tokens_cached: 0,
  },
};

function generationRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/api/v1/generation",
    id: "getOpenRouterGeneration",
    scope: "usage:read",
    tag: "Usage",
    summary: "Get a call's cost and tokens in OpenRouter's format",
    description: "GET /v1/usage/{id} has more.",
    dialect: "openai",
    hidden: true,
    query: z.object({
      id: z.string().max(64).meta({
        description: "The `x-request-id` of the call's response.",
        example: GENERATION_EXAMPLE.data.id,
      }),
    }),
    responses: oneResponse("The call.", Generation, GENERATION_EXAMPLE),
    faults: ["not_found"],
    run: async ({ caller, query }) => {
      const record = await readUsage(db, (reader) => getUsage(reader, caller.accountId, query.id));
      return { status: 200, body: { data: toGeneration(record) } };
    },
  });
}

function toGeneration(record: UsageRecord): z.infer<typeof Generation>["data"] {
  const cost = usdNumber(record.cost);
  const { inputTokens, outputTokens } = record;
  return {
    id: record.id,
    created_at: timestamp(record.createdAt),
    model: record.model,
    provider_name: record.provider,
    api_type: record.api,
    streamed: record.stream,
    cancelled: record.outcome === "client_aborted",
    is_byok: record.byok,
    total_cost: cost,
    usage: cost,
    latency: record.firstTokenMs,
    generation_time: record.latencyMs,
    tokens_prompt: inputTokens,
    tokens_completion: outputTokens,
    native_tokens_prompt: inputTokens,
    native_tokens_completion: outputTokens,
    native_tokens_reasoning: record.reasoningTokens,
    native_tokens_cached: record.cacheReadTokens,
  };
}
