// The API record of a webhook, and its examples.

import { z } from "zod";
import { ALL_EVENTS, EVENT_TYPES } from "../activity/events.ts";
import { type Webhook, WEBHOOK_STATUSES } from "../activity/webhook-rows.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";

export const SubscribedEventType = z.enum([...EVENT_TYPES, ALL_EVENTS]);

export const WebhookRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `whk_`." }),
    object: z.literal("webhook"),
    url: z.string(),
    events: z
      .array(z.string())
      .meta({ description: "The event types that are sent; `*` for all." }),
    description: z.string().nullable(),
    status: z.enum(WEBHOOK_STATUSES),
    disabled_reason: z.string().nullable().meta({
      description: "Why it is disabled: by request, or because its endpoint failed.",
    }),
    failing_since: z.string().nullable().meta({
      description: "Since when every attempt has failed; null if the last one succeeded.",
    }),
    former_secret_until: z.string().nullable().meta({
      description: "After a rotation: until when events are also signed with the former secret.",
    }),
    created_at: z.string(),
  })
  .meta({ id: "Webhook" });

export const NewWebhookRecord = WebhookRecord.extend({
  secret: z.string().meta({ description: "The signing secret, shown once. Begins with `whsec_`." }),
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

export function toWebhookRecord(webhook: Webhook): z.infer<typeof WebhookRecord> {
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

export const WebhookPath = z.object({
  id: z.string().meta({ description: "The webhook's id.", example: WEBHOOK_EXAMPLE.id }),
});
