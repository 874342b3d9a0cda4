// How a key is shown: its public record, and one example for the documents.

import { z } from "zod";
import { usdText } from "../base/money.ts";
import { LIMIT_WINDOWS } from "../base/spend-window.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import type { Key } from "./keys.ts";

export const KeyRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `key_`." }),
    object: z.literal("api_key"),
    name: z.string().nullable(),
    prefix: z
      .string()
      .meta({ description: "The first twelve characters of the raw key, to tell keys apart." }),
    last4: z.string(),
    created_at: z.string(),
    last_used_at: z.string().nullable().meta({ description: "Within a minute of the last use." }),
    expires_at: z.string().nullable(),
    revoked_at: z.string().nullable(),
    limit_usd: z
      .number()
      .nullable()
      .meta({ description: "The most that this key may spend, in its window or ever." }),
    limit_window: z
      .enum(LIMIT_WINDOWS)
      .nullable()
      .meta({ description: "UTC day, week from Monday, or month; null: the limit never resets." }),
    spent_usd: z
      .number()
      .meta({ description: "What counts against the limit: spent in its window, or ever." }),
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
  };
}
