// The public record of an API key.

import { z } from "zod";
import { dataRulesOf, dataRulesText, parseDataRules } from "../base/data-rules.ts";
import { usdNumber } from "../base/money/money.ts";
import { LIMIT_WINDOWS } from "../base/money/spend-window.ts";
import { CACHE_SECONDS_MAX, type KeyPolicy } from "../http/key-policy.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import { SESSION_ID } from "../usage/session-labels.ts";
import { USAGE_APIS } from "../usage/usage.ts";
import { CredentialRecord, toCredentialRecord } from "./key-credential.ts";
import type { Key } from "./key.ts";

const GLOBS_MAX = 50;
const GLOB_MAX = 256;
const RATE_MAX = 1_000_000_000;
const Globs = z.array(z.string().trim().min(1).max(GLOB_MAX)).min(1).max(GLOBS_MAX).nullable();
const Rate = z.number().int().min(1).max(RATE_MAX).nullable();

/** The restrictions of a key, as requests and responses name them; null for none. */
export const POLICY_SCHEMA = {
  allowed_models: Globs.meta({
    description: "Globs of model ids: `openai/*`.",
  }),
  allowed_providers: Globs.meta({
    description: "Globs of providers.",
  }),
  allowed_endpoints: z
    .array(z.string())
    .min(1)
    .refine((apis) => apis.every((api) => USAGE_APIS.some((known) => known === api)), {
      error: `must contain only ${USAGE_APIS.join(", ")}`,
    })
    .nullable()
    .meta({ description: "Such as `chat`." }),
  allowed_mcp_servers: z.array(z.string()).max(GLOBS_MAX).nullable().meta({
    description: "Globs of names.",
  }),
  requests_per_minute: Rate.meta({
    description: "Of model calls.",
  }),
  tokens_per_minute: Rate.meta({
    description: "Counted when calls end.",
  }),
  max_concurrent_calls: Rate.meta({
    description: "Open model calls.",
  }),
  max_price_per_million_usd: z.number().min(0).max(RATE_MAX).nullable().meta({
    description: "Highest list price.",
  }),
  session_limit_usd: z.number().min(0).max(9_000_000).nullable().meta({
    description: "Most that each session may spend.",
  }),
  session: z
    .string()
    .regex(SESSION_ID, "must be 1 to 64 letters, digits and `_.:@+-`")
    .nullable()
    .meta({ description: "Of its calls." }),
  data_policy: z
    .string()
    .max(60)
    .refine((text) => dataRulesOf(parseDataRules(text)) !== undefined, {
      error: "must be zdr, deny or region=<name>, or several of them separated by commas",
    })
    .nullable()
    .meta({ description: "`zdr`, `deny`: see `/docs/data-policy`." }),
  receipts: z.literal(true).nullable().meta({ description: "For every call." }),
  cache_ttl: z.int().min(1).max(CACHE_SECONDS_MAX).nullable().meta({
    description: "Seconds to cache replies.",
  }),
  prompt_logging: z.literal(true).nullable().meta({
    description: "Keeps requests and replies.",
  }),
  alert_percents: z.array(z.number().int().min(1).max(100)).min(1).max(5).nullable().meta({
    description: "Of `limit_usd`; fire `key.limit_reached`.",
  }),
};

/** The field of the API for each field of a policy. */
export const POLICY_PARAMS: Readonly<Record<keyof KeyPolicy, keyof typeof POLICY_SCHEMA>> = {
  models: "allowed_models",
  providers: "allowed_providers",
  requestsPerMinute: "requests_per_minute",
  tokensPerMinute: "tokens_per_minute",
  concurrentCalls: "max_concurrent_calls",
  maxPriceUsd: "max_price_per_million_usd",
  sessionLimitUsd: "session_limit_usd",
  dataPolicy: "data_policy",
  endpoints: "allowed_endpoints",
  mcpServers: "allowed_mcp_servers",
  receipts: "receipts",
  cacheSeconds: "cache_ttl",
  promptLogging: "prompt_logging",
  session: "session",
};

export const KeyRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `key_`." }),
    object: z.literal("api_key"),
    name: z.string().nullable(),
    prefix: z.string().meta({ description: "The first 12 characters of the raw key." }),
    last4: z.string(),
    created_at: z.string(),
    last_used_at: z.string().nullable().meta({ description: "Accurate to a minute." }),
    expires_at: z.string().nullable(),
    revoked_at: z.string().nullable(),
    limit_usd: z
      .number()
      .nullable()
      .meta({ description: "Spending limit per window, or in total; null for no limit." }),
    limit_window: z.enum(LIMIT_WINDOWS).nullable().meta({
      description:
        "When the limit resets: daily, weekly (on Monday) or monthly, in UTC; null for never.",
    }),
    spent_usd: z
      .number()
      .meta({ description: "Spend that counts against the limit: in its window, or in total." }),
    scopes: z.array(z.string()).nullable().meta({
      description:
        "What the key may do. null: all scopes or, for a key with a limit, all that such a key can have. See `/docs/keys`.",
    }),
    ...POLICY_SCHEMA,
    created_by: z.string().nullable().meta({ description: "The key or person that created it." }),
    derived_from: z.array(z.string()).nullable().meta({
      description: "The keys above a derived key, the first one first.",
    }),
    credential: CredentialRecord.nullable().meta({
      description: "What authenticates the key; null for a secret.",
    }),
    former_secret: z
      .object({
        last4: z.string(),
        expires_at: z.string(),
        last_used_at: z.string().nullable().meta({ description: "Its last use." }),
      })
      .nullable()
      .meta({ description: "The former secret, while it works." }),
  })
  .meta({ id: "ApiKey" });

export const KEY_EXAMPLE = {
  id: "key_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "api_key",
  name: "ci",
  prefix: "pst-rt-8Kd0a",
  last4: "Xy2b",
  created_at: "2026-11-21T09:30:00.000Z",
  last_used_at: null,
  expires_at: null,
  revoked_at: null,
  limit_usd: 5,
  limit_window: "day",
  spent_usd: 0,
  scopes: null,
  allowed_models: ["openai/*"],
  allowed_providers: null,
  allowed_endpoints: null,
  allowed_mcp_servers: null,
  requests_per_minute: 60,
  tokens_per_minute: null,
  max_concurrent_calls: null,
  max_price_per_million_usd: null,
  session_limit_usd: null,
  session: null,
  data_policy: null,
  receipts: null,
  cache_ttl: null,
  prompt_logging: null,
  alert_percents: [80, 100],
  created_by: null,
  derived_from: null,
  credential: null,
  former_secret: null,
};

export function toKeyRecord(key: Key): z.infer<typeof KeyRecord> {
  return {
    id: key.id,
    object: "api_key",
    name: key.name,
    prefix: key.prefix,
    last4: key.last4,
    created_at: timestamp(key.createdAt),
    last_used_at: timestampOrNull(key.lastUsedAt),
    expires_at: timestampOrNull(key.expiresAt),
    revoked_at: timestampOrNull(key.revokedAt),
    limit_usd: key.limit === null ? null : usdNumber(key.limit),
    limit_window: key.limitWindow,
    spent_usd: usdNumber(key.spent),
    scopes: key.scopes === null ? null : [...key.scopes],
    ...toPolicyRecord(key),
    created_by: key.createdBy,
    derived_from: key.derivedFrom === null ? null : [...key.derivedFrom],
    credential: toCredentialRecord(key.credential),
    former_secret: key.formerSecret && {
      last4: key.formerSecret.last4,
      expires_at: timestamp(key.formerSecret.until),
      last_used_at: timestampOrNull(key.formerSecret.lastUsedAt),
    },
  };
}

function toPolicyRecord({ policy, alertPercents }: Pick<Key, "policy" | "alertPercents">) {
  const { maxPriceUsd, sessionLimitUsd } = policy;
  return {
    allowed_models: policy.models === undefined ? null : [...policy.models],
    allowed_providers: policy.providers === undefined ? null : [...policy.providers],
    allowed_endpoints: policy.endpoints === undefined ? null : [...policy.endpoints],
    allowed_mcp_servers: policy.mcpServers === undefined ? null : [...policy.mcpServers],
    requests_per_minute: policy.requestsPerMinute ?? null,
    tokens_per_minute: policy.tokensPerMinute ?? null,
    max_concurrent_calls: policy.concurrentCalls ?? null,
    max_price_per_million_usd: maxPriceUsd === undefined ? null : Number(maxPriceUsd),
    session_limit_usd: sessionLimitUsd === undefined ? null : Number(sessionLimitUsd),
    session: policy.session ?? null,
    data_policy: policy.dataPolicy === undefined ? null : dataRulesText(policy.dataPolicy),
    receipts: policy.receipts ?? null,
    cache_ttl: policy.cacheSeconds ?? null,
    prompt_logging: policy.promptLogging ?? null,
    alert_percents: alertPercents === null ? null : [...alertPercents],
  };
}
