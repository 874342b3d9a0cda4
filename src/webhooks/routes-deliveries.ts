// /v1/webhooks/{id}/deliveries: the log of what was sent, sending it again, and a test.

import { z } from "zod";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import { getDelivery, listDeliveries, replayDelivery } from "./deliveries.ts";
import { DELIVERY_EXAMPLE, DeliveryRecord, showDelivery, WEBHOOK_EXAMPLE } from "./record.ts";
import { getWebhook, testWebhook } from "./webhooks.ts";

const WebhookPath = z.object({
  id: z.string().meta({ description: "The webhook's id.", example: WEBHOOK_EXAMPLE.id }),
});

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
    summary: "Send a test event to a webhook",
    description:
      "An event of the type `webhook.test`, delivered, signed and tried again like any other. How it went is in the webhook's deliveries a moment later.",
    params: WebhookPath,
    responses: {
      202: {
        description: "The delivery that was begun.",
        schema: DeliveryRecord,
        example: { ...PENDING_EXAMPLE, event_type: "webhook.test" },
      },
    },
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params, now }) => {
      const id = await testWebhook(tx, caller.accountId, params.id, now);
      const delivery = await getDelivery(tx, caller.accountId, params.id, id);
      return { status: 202, body: showDelivery(delivery) };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    ...DELIVERY_DOC,
    method: "GET",
    path: "/v1/webhooks/{id}/deliveries",
    id: "listWebhookDeliveries",
    summary: "The log of a webhook's deliveries",
    description: "Newest first, with what the endpoint answered. Kept for 30 days.",
    params: WebhookPath,
    query: z.strictObject({ ...PageQuery, cursor: cursorSchema("dlv") }),
    responses: {
      200: {
        description: "A page of deliveries.",
        schema: listSchema(DeliveryRecord, "WebhookDeliveryList"),
        example: { object: "list", data: [DELIVERY_EXAMPLE], has_more: false, next_cursor: null },
      },
    },
    faults: ["not_found"],
    run: async ({ caller, params, query }) => {
      const webhook = await getWebhook(db, caller.accountId, params.id);
      const page = await listDeliveries(db, caller.accountId, webhook.id, query);
      return { status: 200, body: { ...page, data: page.data.map(showDelivery) } };
    },
  });
}

function replayRoute(): Route {
  return keyWriteRoute({
    ...DELIVERY_DOC,
    method: "POST",
    path: "/v1/webhooks/{id}/deliveries/{delivery_id}/replay",
    id: "replayWebhookDelivery",
    summary: "Send a delivery again",
    description:
      "At once, with a new round of tries, whatever became of it before. It bears the same `webhook-id`, so an endpoint that has seen the event can tell.",
    params: WebhookPath.extend({
      delivery_id: z
        .string()
        .meta({ description: "The delivery's id.", example: DELIVERY_EXAMPLE.id }),
    }),
    responses: {
      202: {
        description: "The delivery, which is pending again.",
        schema: DeliveryRecord,
        example: PENDING_EXAMPLE,
      },
    },
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params, now }) => {
      const { id: webhookId, delivery_id: id } = params;
      const delivery = await replayDelivery(tx, {
        accountId: caller.accountId,
        webhookId,
        id,
        now,
      });
      return { status: 202, body: showDelivery(delivery) };
    },
  });
}
