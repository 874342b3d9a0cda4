// The API record of a webhook delivery, and its example.

import { z } from "zod";
import { type Delivery, DELIVERY_STATUSES } from "../activity/deliveries.ts";
import { EVENT_EXAMPLE } from "../activity/event-record.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import { WEBHOOK_EXAMPLE } from "./webhook-record.ts";

export const DeliveryRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `dlv_`." }),
    object: z.literal("webhook_delivery"),
    webhook_id: z.string(),
    event_id: z.string().meta({ description: "Sent as `webhook-id`; the same at every attempt." }),
    event_type: z.string(),
    status: z.enum(DELIVERY_STATUSES).meta({
      description:
        "`pending`: waiting for its first attempt or a retry. `failed`: all attempts failed. `cancelled`: the webhook was disabled or deleted.",
    }),
    tries: z.int().meta({ description: "Attempts since it was created or last replayed." }),
    next_try_at: z.string().nullable(),
    attempts: z
      .array(
        z.object({
          at: z.string(),
          duration_ms: z.int(),
          status: z
            .int()
            .nullable()
            .meta({ description: "The HTTP status; null if the endpoint did not respond." }),
          error: z.string().nullable(),
          response: z.string().meta({ description: "The first 1,024 bytes of the response body." }),
        }),
      )
      .meta({ description: "The last 50 attempts, oldest first, also those before a replay." }),
    created_at: z.string(),
    ended_at: z.string().nullable(),
  })
  .meta({ id: "WebhookDelivery" });

export const DELIVERY_EXAMPLE = {
  id: "dlv_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "webhook_delivery",
  webhook_id: WEBHOOK_EXAMPLE.id,
  event_id: EVENT_EXAMPLE.id,
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

export function toDeliveryRecord(delivery: Delivery): z.infer<typeof DeliveryRecord> {
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
