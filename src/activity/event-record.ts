// The API record of an event, and its example.

import { z } from "zod";
import { timestamp } from "../http/schemas.ts";
import type { StoredEvent } from "./events.ts";

export const EventRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `evt_`." }),
    object: z.literal("event"),
    type: z.string(),
    created_at: z.string(),
    account_id: z.string(),
    data: z.record(z.string(), z.unknown()).meta({ description: "Depends on `type`." }),
  })
  .meta({ id: "Event" });

export const EVENT_EXAMPLE = {
  id: "evt_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "event",
  type: "balance.low",
  created_at: "2026-11-21T09:30:00.000Z",
  account_id: "acct_01kah5t3mq7d2c9w4e6r8t0yax",
  data: { credits: 998_400, usd: 0.9984, below_usd: 1 },
};

/**
 * The body of a delivery, identical at every attempt. `timestamp` is Standard Webhooks' name, `created_at` is this API's.
 */
export function deliveryBody({ id, type, createdAt, accountId, data }: StoredEvent): string {
  const at = timestamp(createdAt);
  return JSON.stringify({ id, type, timestamp: at, created_at: at, account_id: accountId, data });
}

export function toEventRecord(event: StoredEvent): z.infer<typeof EventRecord> {
  return {
    id: event.id,
    object: "event",
    type: event.type,
    created_at: timestamp(event.createdAt),
    account_id: event.accountId,
    data: event.data,
  };
}
