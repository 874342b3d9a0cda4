// Endpoints of a webhook's deliveries: list, replay, and send a test event.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { getDelivery, listDeliveries } from "../activity/deliveries.ts";
import { getWebhook } from "../activity/webhook-rows.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { DELIVERY_EXAMPLE, DeliveryRecord, toDeliveryRecord } from "./delivery-record.ts";
import { replayDelivery, testWebhook } from "./manual-deliveries.ts";
import { WEBHOOK_EXAMPLE } from "./webhook-record.ts";

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
    scope: "webhooks:write",
    summary: "Send a test event to a webhook",
    description:
      "Sends an event of type `webhook.test`, signed and retried like any other. Read the result in the webhook's deliveries.",
    params: WebhookPath,
    responses: {
      202: {
        description: "The new delivery.",
        schema: DeliveryRecord,
        example: { ...PENDING_EXAMPLE, event_type: "webhook.test" },
      },
    },
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
    responses: {
      202: {
        description: "The delivery, pending again.",
        schema: DeliveryRecord,
        example: PENDING_EXAMPLE,
      },
    },
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const { id: webhookId, delivery_id: id } = params;
      const act = keyAct(caller, { clientIp, now });
      const delivery = await replayDelivery(tx, act, { webhookId, id });
      return { status: 202, body: toDeliveryRecord(delivery) };
    },
  });
}
