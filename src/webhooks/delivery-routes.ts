// Endpoints of a webhook's deliveries: list, replay, and send a test event.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import {
  type Delivery,
  DELIVERY_STATUSES,
  getDelivery,
  listDeliveries,
} from "../activity/deliveries.ts";
import { EVENT_EXAMPLE } from "../activity/event-record.ts";
import { getWebhook } from "../activity/webhook-rows.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import {
  cursorSchema,
  listResponse,
  PageQuery,
  timestamp,
  timestampOrNull,
} from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { replayDelivery, testWebhook } from "./manual-deliveries.ts";
import { WEBHOOK_EXAMPLE, WebhookPath } from "./webhook-record.ts";

const DeliveryRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `dlv_`." }),
    object: z.literal("webhook_delivery"),
    webhook_id: z.string(),
    event_id: z.string().meta({ description: "Sent as `webhook-id`; the same at every attempt." }),
    event_type: z.string(),
    status: z.enum(DELIVERY_STATUSES).meta({
      description:
        "`pending`: waiting for its first attempt or a retry. `delivered`: an attempt got a 2xx. `failed`: all attempts failed. `cancelled`: the webhook was disabled or deleted.",
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

const DELIVERY_EXAMPLE = {
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

function toDeliveryRecord(delivery: Delivery): z.infer<typeof DeliveryRecord> {
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

const PENDING_EXAMPLE = {
  ...DELIVERY_EXAMPLE,
  status: "pending",
  tries: 0,
  next_try_at: "2026-11-21T09:30:00.000Z",
  attempts: [],
  ended_at: null,
};

const DELIVERY_DOC = { tag: "Webhooks", dialect: "openai" } as const;

export function deliveryRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [testRoute(), listRoute(db), replayRoute()];
}

function testRoute(): Route {
  return keyWriteRoute({
    ...DELIVERY_DOC,
    method: "POST",
    path: "/v1/webhooks/{id}/test",
    id: "testWebhook",
    scope: "webhooks:write",
    summary: "Send a test event to a webhook",
    description:
      "Sends an event of type `webhook.test`, signed and retried like any other. Read the result in the webhook's deliveries.",
    params: WebhookPath,
    responses: oneResponse(
      "The new delivery.",
      DeliveryRecord,
      { ...PENDING_EXAMPLE, event_type: "webhook.test" },
      202,
    ),
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const id = await testWebhook(tx, keyAct(caller, { clientIp, now }), params.id);
      const delivery = await getDelivery(tx, caller.accountId, params.id, id);
      return { status: 202, body: toDeliveryRecord(delivery) };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    ...DELIVERY_DOC,
    method: "GET",
    path: "/v1/webhooks/{id}/deliveries",
    id: "listWebhookDeliveries",
    scope: "webhooks:read",
    summary: "List a webhook's deliveries",
    description: "Newest first, with the endpoint's responses. Kept for 30 days.",
    params: WebhookPath,
    query: z.strictObject({ ...PageQuery, cursor: cursorSchema("dlv") }),
    responses: listResponse(
      "A page of deliveries.",
      DeliveryRecord,
      "WebhookDeliveryList",
      DELIVERY_EXAMPLE,
    ),
    faults: ["not_found"],
    run: async ({ caller, params, query }) => {
      const webhook = await getWebhook(db, caller.accountId, params.id);
      const page = await listDeliveries(db, caller.accountId, webhook.id, query);
      return { status: 200, body: { ...page, data: page.data.map(toDeliveryRecord) } };
    },
  });
}

function replayRoute(): Route {
  return keyWriteRoute({
    ...DELIVERY_DOC,
    method: "POST",
    path: "/v1/webhooks/{id}/deliveries/{delivery_id}/replay",
    id: "replayWebhookDelivery",
    scope: "webhooks:write",
    summary: "Replay a delivery",
    description:
      "Sends the delivery again at once, with a new round of attempts, whatever its status. `webhook-id` stays the same, so the endpoint can recognize an event that it has already processed.",
    params: WebhookPath.extend({
      delivery_id: z
        .string()
        .meta({ description: "The delivery's id.", example: DELIVERY_EXAMPLE.id }),
    }),
    responses: oneResponse("The delivery, pending again.", DeliveryRecord, PENDING_EXAMPLE, 202),
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const { id: webhookId, delivery_id: id } = params;
      const act = keyAct(caller, { clientIp, now });
      const delivery = await replayDelivery(tx, act, { webhookId, id });
      return { status: 202, body: toDeliveryRecord(delivery) };
    },
  });
}
