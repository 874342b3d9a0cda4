// How webhooks, deliveries and events are shown: their public records, and one example of each for the documents.

import { z } from "zod";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import { type Delivery, DELIVERY_STATUSES } from "./deliveries.ts";
import { EVENT_TYPES, ALL_EVENTS, type StoredEvent } from "../events/events.ts";
import { type Webhook, WEBHOOK_STATUSES } from "./webhooks.ts";

export const SubscribedEventType = z.enum([...EVENT_TYPES, ALL_EVENTS]);

export const WebhookRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `whk_`." }),
    object: z.literal("webhook"),
    url: z.string(),
    events: z.array(z.string()).meta({ description: "The types that it hears of; `*` for all." }),
    description: z.string().nullable(),
    status: z.enum(WEBHOOK_STATUSES),
    disabled_reason: z.string().nullable().meta({
      description: "Why it is disabled: by request, or because nothing could be delivered.",
    }),
    failing_since: z.string().nullable().meta({
      description: "Since when no delivery has arrived; null where the last one did.",
    }),
    former_secret_until: z.string().nullable().meta({
      description: "Until when the secret before signs, too, after a rotation.",
    }),
    created_at: z.string(),
  })
  .meta({ id: "Webhook" });

export const NewWebhookRecord = WebhookRecord.extend({
  secret: z.string().meta({ description: "What signs; shown once. Begins with `whsec_`." }),
}).meta({ id: "NewWebhook" });

export const WEBHOOK_EXAMPLE = {
  id: "whk_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "webhook",
  url: "https://example.com/hooks/postern",
  events: ["*"],
  description: null,
  status: "active",
  disabled_reason: null,
  failing_since: null,
  former_secret_until: null,
  created_at: "2026-11-21T09:30:00.000Z",
};

export const NEW_WEBHOOK_EXAMPLE = {
  ...WEBHOOK_EXAMPLE,
  secret: "whsec_<BASE64>",
};

export function showWebhook(webhook: Webhook): z.infer<typeof WebhookRecord> {
  return {
    id: webhook.id,
    object: "webhook",
    url: webhook.url,
    events: [...webhook.events],
    description: webhook.description,
    status: webhook.status,
    disabled_reason: webhook.disabledReason,
    failing_since: timestampOrNull(webhook.failingSince),
    former_secret_until: webhook.formerUntil === 0 ? null : timestamp(webhook.formerUntil),
    created_at: timestamp(webhook.createdAt),
  };
}

export const DeliveryRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `dlv_`." }),
    object: z.literal("webhook_delivery"),
    webhook_id: z.string(),
    event_id: z.string().meta({ description: "Sent as `webhook-id`; the same at every try." }),
    event_type: z.string(),
    status: z.enum(DELIVERY_STATUSES).meta({
      description:
        "`pending`: sent now or tried again later. `failed`: given up. `cancelled`: the webhook was disabled or deleted.",
    }),
    tries: z.int().meta({ description: "Since it was created, or last replayed." }),
    next_try_at: z.string().nullable(),
    attempts: z
      .array(
        z.object({
          at: z.string(),
          duration_ms: z.int(),
          status: z
            .int()
            .nullable()
            .meta({ description: "The endpoint's status, if it answered." }),
          error: z.string().nullable(),
          response: z.string().meta({ description: "The first 1,024 bytes of its body." }),
        }),
      )
      .meta({ description: "The last ten, the oldest first." }),
    created_at: z.string(),
    ended_at: z.string().nullable(),
  })
  .meta({ id: "WebhookDelivery" });

export const DELIVERY_EXAMPLE = {
  id: "dlv_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "webhook_delivery",
  webhook_id: WEBHOOK_EXAMPLE.id,
  event_id: "evt_01kah5t3mq7d2c9w4e6r8t0yax",
  event_type: "key.created",
  status: "delivered",
  tries: 1,
  next_try_at: null,
  attempts: [
    {
      at: "2026-11-21T09:30:01.000Z",
      duration_ms: 84,
      status: 204,
      error: null,
      response: "",
    },
  ],
  created_at: "2026-11-21T09:30:00.000Z",
  ended_at: "2026-11-21T09:30:01.000Z",
};

export function showDelivery(delivery: Delivery): z.infer<typeof DeliveryRecord> {
  return {
    id: delivery.id,
    object: "webhook_delivery",
    webhook_id: delivery.webhookId,
    event_id: delivery.eventId,
    event_type: delivery.eventType,
    status: delivery.status,
    tries: delivery.tries,
    next_try_at: delivery.status === "pending" ? timestamp(delivery.dueAt) : null,
    attempts: delivery.attempts.map(({ at, durationMs, status, error, response }) => ({
      at: timestamp(at),
      duration_ms: durationMs,
      status,
      error,
      response,
    })),
    created_at: timestamp(delivery.createdAt),
    ended_at: timestampOrNull(delivery.endedAt),
  };
}

export const EventRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `evt_`." }),
    object: z.literal("event"),
    type: z.string(),
    created_at: z.string(),
    account_id: z.string(),
    data: z.record(z.string(), z.unknown()).meta({ description: "Depends on the type." }),
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

export function showEvent(event: StoredEvent): z.infer<typeof EventRecord> {
  return {
    id: event.id,
    object: "event",
    type: event.type,
    created_at: timestamp(event.createdAt),
    account_id: event.accountId,
    data: event.data,
  };
}

export const BalanceAlertRecord = z
  .object({
    object: z.literal("balance_alert"),
    low_usd: z.number().meta({
      description: "`balance.low` is raised when a charge takes the balance below this; 0: never.",
    }),
  })
  .meta({ id: "BalanceAlert" });

export const BALANCE_ALERT_EXAMPLE = { object: "balance_alert", low_usd: 1 };
