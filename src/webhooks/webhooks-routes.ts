// Endpoints of /v1/webhooks. Those of a webhook's deliveries are in delivery-routes.ts.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { ALL_EVENTS } from "../activity/events.ts";
import { getWebhook, listWebhooks } from "../activity/webhook-rows.ts";
import { URL_LENGTH_MAX } from "../base/network/public-endpoint.ts";
import { UNSAFE_TEXT_MESSAGE, isSafeText } from "../base/text/safe-text.ts";
import { SECOND_MS } from "../base/time.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { cursorSchema, listResponse, OverlapSeconds, PageQuery } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { deliveryRoutes } from "./delivery-routes.ts";
import {
  NEW_WEBHOOK_EXAMPLE,
  NewWebhookRecord,
  SubscribedEventType,
  toWebhookRecord,
  WEBHOOK_EXAMPLE,
  WebhookRecord,
  WebhookPath,
} from "./webhook-record.ts";
import { removeWebhook, type Webhooks } from "./webhooks.ts";

const DESCRIPTION_MAX = 200;

const WebhookUrl = z.string().min(1).max(URL_LENGTH_MAX).meta({
  description: "A public https:// URL on port 443 or 8443, without user name and password.",
});

const EventTypes = z
  .array(SubscribedEventType)
  .min(1)
  .max(SubscribedEventType.options.length)
  .meta({
    description:
      "The event types to send: see `/docs/webhooks`. `*` for all, which is the default.",
  });

const Description = z
  .string()
  .trim()
  .min(1)
  .max(DESCRIPTION_MAX)
  .refine(isSafeText, UNSAFE_TEXT_MESSAGE)
  .nullable()
  .optional();

const NewWebhookBody = z
  .strictObject({
    url: WebhookUrl,
    events: EventTypes.default([ALL_EVENTS]),
    description: Description,
  })
  .meta({ id: "NewWebhookRequest" });

const WebhookUpdate = z
  .strictObject({
    url: WebhookUrl.optional(),
    events: EventTypes.optional(),
    description: Description,
    status: z.enum(["active", "disabled"]).optional().meta({
      description: "`active` also enables a webhook that was disabled because it failed.",
    }),
  })
  .meta({ id: "WebhookSettings" });

export interface WebhookRouteDeps {
  readonly db: Db;
  readonly webhooks: Webhooks;
}

export function webhookRoutes(deps: WebhookRouteDeps): readonly Route[] {
  const { db, webhooks } = deps;
  return [
    addRoute(webhooks),
    listRoute(db),
    getRoute(db),
    changeRoute(webhooks),
    removeRoute(),
    rotateRoute(webhooks),
    ...deliveryRoutes(deps),
  ];
}

const WEBHOOK_DOC = { tag: "Webhooks", dialect: "openai" } as const;

function addRoute(webhooks: Webhooks): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "POST",
    path: "/v1/webhooks",
    id: "createWebhook",
    revealsSecret: true,
    scope: "webhooks:write",
    summary: "Create a webhook",
    description:
      "Events are sent to the URL as JSON with POST, signed as Standard Webhooks specifies. Only this response contains the signing secret. Send a test event with POST /v1/webhooks/{id}/test.",
    body: NewWebhookBody,
    requestExample: { url: WEBHOOK_EXAMPLE.url, events: ["balance.low", "balance.empty"] },
    responses: oneResponse(
      "The webhook and, only here, its secret.",
      NewWebhookRecord,
      NEW_WEBHOOK_EXAMPLE,
      201,
    ),
    faults: ["conflict"],
    run: async (tx, { caller, body, clientIp, now }) => {
      const { webhook, secret } = await webhooks.add(tx, keyAct(caller, { clientIp, now }), body);
      return { status: 201, body: { ...toWebhookRecord(webhook), secret: secret.reveal() } };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    ...WEBHOOK_DOC,
    method: "GET",
    path: "/v1/webhooks",
    id: "listWebhooks",
    scope: "webhooks:read",
    summary: "List webhooks",
    description: "Newest first, including deleted webhooks. Secrets are not shown again.",
    query: z.strictObject({ ...PageQuery, cursor: cursorSchema("whk") }),
    responses: listResponse("A page of webhooks.", WebhookRecord, "WebhookList", WEBHOOK_EXAMPLE),
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listWebhooks(db, caller.accountId, query);
      return { status: 200, body: { ...page, data: page.data.map(toWebhookRecord) } };
    },
  });
}

function getRoute(db: Db): Route {
  return keyRoute({
    ...WEBHOOK_DOC,
    method: "GET",
    path: "/v1/webhooks/{id}",
    id: "getWebhook",
    scope: "webhooks:read",
    summary: "Get a webhook",
    params: WebhookPath,
    responses: oneResponse("The webhook.", WebhookRecord, WEBHOOK_EXAMPLE),
    faults: ["not_found"],
    run: async ({ caller, params }) => ({
      status: 200,
      body: toWebhookRecord(await getWebhook(db, caller.accountId, params.id)),
    }),
  });
}

function changeRoute(webhooks: Webhooks): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "PATCH",
    path: "/v1/webhooks/{id}",
    id: "changeWebhook",
    scope: "webhooks:write",
    summary: "Change, disable or enable a webhook",
    description:
      "Changes only the fields that you send. Disabling cancels the pending deliveries. Events that occur while the webhook is disabled are not sent later.",
    params: WebhookPath,
    body: WebhookUpdate,
    requestExample: { status: "active" },
    responses: oneResponse("The updated webhook.", WebhookRecord, WEBHOOK_EXAMPLE),
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const webhook = await webhooks.change(tx, act, params.id, body);
      return { status: 200, body: toWebhookRecord(webhook) };
    },
  });
}

function removeRoute(): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "DELETE",
    path: "/v1/webhooks/{id}",
    id: "deleteWebhook",
    scope: "webhooks:write",
    summary: "Delete a webhook",
    description:
      "Erases the secret and cancels the pending deliveries. The record and the delivery log stay. Repeating the call returns the same response.",
    params: WebhookPath,
    responses: oneResponse("The deleted webhook.", WebhookRecord, {
      ...WEBHOOK_EXAMPLE,
      status: "deleted",
    }),
    faults: ["not_found"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const webhook = await removeWebhook(tx, keyAct(caller, { clientIp, now }), params.id);
      return { status: 200, body: toWebhookRecord(webhook) };
    },
  });
}

function rotateRoute(webhooks: Webhooks): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "POST",
    path: "/v1/webhooks/{id}/rotate",
    id: "rotateWebhookSecret",
    revealsSecret: true,
    scope: "webhooks:write",
    summary: "Rotate a webhook's signing secret",
    description:
      "During the overlap, events are signed with both secrets, so you can switch over without rejecting an event. A second rotation within that time revokes the oldest secret at once.",
    params: WebhookPath,
    body: z
      .strictObject({
        overlap_seconds: OverlapSeconds.meta({
          description:
            "How long the former secret signs too; a day by default, a week at most, 0 for not at all.",
        }),
      })
      .meta({ id: "WebhookSecretRotation" }),
    requestExample: { overlap_seconds: 86_400 },
    responses: oneResponse("The webhook and, only here, its new secret.", NewWebhookRecord, {
      ...NEW_WEBHOOK_EXAMPLE,
      former_secret_until: "2026-11-22T09:30:00.000Z",
    }),
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params: { id }, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const overlapMs = body.overlap_seconds * SECOND_MS;
      const { webhook, secret } = await webhooks.rotate(tx, act, { id, overlapMs });
      return { status: 200, body: { ...toWebhookRecord(webhook), secret: secret.reveal() } };
    },
  });
}
