// The public record of an API key.

import { z } from "zod";
import { usdText } from "../base/money.ts";
import { LIMIT_WINDOWS } from "../base/spend-window.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import { SCOPE_NAMES } from "../http/scopes.ts";
import type { Key } from "./keys.ts";

export const KeyRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `key_`." }),
    object: z.literal("api_key"),
    name: z.string().nullable(),
    prefix: z
      .string()
      .meta({ description: "The first 12 characters of the raw key, to identify it." }),
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
    scopes: z.array(z.enum(SCOPE_NAMES)).nullable().meta({
      description:
        "What the key may do. null: everything or, with a limit, everything that does not reach beyond the limit. See docs/site/keys.md.",
    }),
    created_by: z
      .string()
      .nullable()
      .meta({ description: "The id of the key or person that created it." }),
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
  created_by: null,
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
    limit_usd: key.limit === null ? null : Number(usdText(key.limit)),
    limit_window: key.limitWindow,
    spent_usd: Number(usdText(key.spent)),
    scopes: key.scopes === null ? null : [...key.scopes],
    created_by: key.createdBy,
  };
}
