// /v1/webhooks: the HTTP face of the events room. Deliveries, events and the balance alert are in the files beside it.

import { z } from "zod";
import { type AuditAction, record } from "../audit/audit.ts";
import { UNSAFE_TEXT_MESSAGE, isSafeText } from "../base/safe-text.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import {
  type Caller,
  type RouteInput,
  keyRoute,
  keyWriteRoute,
  type Route,
} from "../http/route.ts";
import type { Db, Tx } from "../store/db.ts";
import { URL_LENGTH_MAX } from "./endpoint.ts";
import { ALL_EVENTS } from "../events/events.ts";
import {
  NEW_WEBHOOK_EXAMPLE,
  NewWebhookRecord,
  showWebhook,
  SubscribedEventType,
  WEBHOOK_EXAMPLE,
  WebhookRecord,
} from "./record.ts";
import { deliveryRoutes } from "./routes-deliveries.ts";
import { eventRoutes } from "../events/routes.ts";
import {
  getWebhook,
  listWebhooks,
  removeWebhook,
  type Webhook,
  type Webhooks,
} from "./webhooks.ts";

const DESCRIPTION_MAX = 200;
const EVENTS_MAX = 20;

const WebhookPath = z.object({
  id: z.string().meta({ description: "The webhook's id.", example: WEBHOOK_EXAMPLE.id }),
});

const WebhookUrl = z.string().min(1).max(URL_LENGTH_MAX).meta({
  description: "A public https:// address on port 443 or 8443, without user name and password.",
});

const EventTypes = z
  .array(SubscribedEventType)
  .min(1)
  .max(EVENTS_MAX)
  .meta({ description: "The types to hear of; `*`, which is the default, for all." });

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
    status: z
      .enum(["active", "disabled"])
      .optional()
      .meta({ description: "`active` also enables what was disabled for failing." }),
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
    ...eventRoutes(deps),
  ];
}

const WEBHOOK_DOC = { tag: "Webhooks", dialect: "openai" } as const;

function addRoute(webhooks: Webhooks): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "POST",
    path: "/v1/webhooks",
    id: "addWebhook",
    summary: "Set up a webhook",
    description:
      "Events are posted to the address as JSON, signed in the Standard Webhooks form. The signing secret is in this answer and nowhere else. Try it with POST /v1/webhooks/{id}/test.",
    revealsSecret: true,
    body: NewWebhookBody,
    requestExample: { url: WEBHOOK_EXAMPLE.url, events: ["balance.low", "balance.empty"] },
    responses: {
      201: {
        description: "The webhook's record and, once, its secret.",
        schema: NewWebhookRecord,
        example: NEW_WEBHOOK_EXAMPLE,
      },
    },
    faults: ["conflict"],
    run: async (tx, input) => {
      const { caller, body, now } = input;
      const { webhook, secret } = await webhooks.add(tx, caller.accountId, body, now);
      await recordAudit(tx, "webhook.created", webhook, input);
      return { status: 201, body: { ...showWebhook(webhook), secret: secret.reveal() } };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    ...WEBHOOK_DOC,
    method: "GET",
    path: "/v1/webhooks",
    id: "listWebhooks",
    summary: "List webhooks",
    description: "Newest first, deleted ones included. Secrets cannot be shown again.",
    query: z.strictObject({ ...PageQuery, cursor: cursorSchema("whk") }),
    responses: {
      200: {
        description: "A page of webhooks.",
        schema: listSchema(WebhookRecord, "WebhookList"),
        example: { object: "list", data: [WEBHOOK_EXAMPLE], has_more: false, next_cursor: null },
      },
    },
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listWebhooks(db, caller.accountId, query);
      return { status: 200, body: { ...page, data: page.data.map(showWebhook) } };
    },
  });
}

function getRoute(db: Db): Route {
  return keyRoute({
    ...WEBHOOK_DOC,
    method: "GET",
    path: "/v1/webhooks/{id}",
    id: "getWebhook",
    summary: "Read one webhook",
    params: WebhookPath,
    responses: {
      200: { description: "The webhook.", schema: WebhookRecord, example: WEBHOOK_EXAMPLE },
    },
    faults: ["not_found"],
    run: async ({ caller, params }) => ({
      status: 200,
      body: showWebhook(await getWebhook(db, caller.accountId, params.id)),
    }),
  });
}

function changeRoute(webhooks: Webhooks): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "PATCH",
    path: "/v1/webhooks/{id}",
    id: "changeWebhook",
    summary: "Change a webhook, disable it or enable it again",
    description:
      "Only the fields that are sent are changed. Disabling cancels what is still to be delivered; what happens meanwhile is not sent later.",
    params: WebhookPath,
    body: WebhookUpdate,
    requestExample: { status: "active" },
    responses: {
      200: {
        description: "The webhook as it is now.",
        schema: WebhookRecord,
        example: WEBHOOK_EXAMPLE,
      },
    },
    faults: ["not_found", "conflict"],
    run: async (tx, input) => {
      const { caller, params, body, now } = input;
      const webhook = await webhooks.change(tx, caller.accountId, params.id, { ...body, now });
      await recordAudit(tx, "webhook.changed", webhook, input);
      return { status: 200, body: showWebhook(webhook) };
    },
  });
}

function removeRoute(): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "DELETE",
    path: "/v1/webhooks/{id}",
    id: "deleteWebhook",
    summary: "Delete a webhook",
    description:
      "Its secret is destroyed and nothing more is sent; its record and the log of its deliveries stay. Repeating the call gives the same answer.",
    params: WebhookPath,
    responses: {
      200: {
        description: "The deleted webhook's record.",
        schema: WebhookRecord,
        example: { ...WEBHOOK_EXAMPLE, status: "deleted" },
      },
    },
    faults: ["not_found"],
    run: async (tx, input) => {
      const { caller, params, now } = input;
      const { webhook, removed } = await removeWebhook(tx, caller.accountId, params.id, now);
      if (removed) await recordAudit(tx, "webhook.deleted", webhook, input);
      return { status: 200, body: showWebhook(webhook) };
    },
  });
}

function rotateRoute(webhooks: Webhooks): Route {
  return keyWriteRoute({
    ...WEBHOOK_DOC,
    method: "POST",
    path: "/v1/webhooks/{id}/rotate",
    id: "rotateWebhookSecret",
    summary: "Replace a webhook's signing secret",
    description:
      "For 24 hours both secrets sign, so that the endpoint can change over without missing an event. A second rotation within that time ends the oldest secret at once.",
    revealsSecret: true,
    params: WebhookPath,
    responses: {
      200: {
        description: "The webhook's record and, once, its new secret.",
        schema: NewWebhookRecord,
        example: { ...NEW_WEBHOOK_EXAMPLE, former_secret_until: "2026-11-22T09:30:00.000Z" },
      },
    },
    faults: ["not_found", "conflict"],
    run: async (tx, input) => {
      const { caller, params, now } = input;
      const { webhook, secret } = await webhooks.rotate(tx, caller.accountId, params.id, now);
      await recordAudit(tx, "webhook.secret_rotated", webhook, input);
      return { status: 200, body: { ...showWebhook(webhook), secret: secret.reveal() } };
    },
  });
}

/** The address may hold a secret of the endpoint's, so only its host is written down. */
async function recordAudit(
  tx: Tx,
  action: AuditAction,
  { id, accountId, url, events, status }: Webhook,
  { caller, clientIp, now }: RouteInput<unknown, unknown, unknown, Caller>,
): Promise<void> {
  await record(tx, {
    accountId,
    actor: { type: "key", id: caller.keyId },
    action,
    target: id,
    detail: { host: new URL(url).host, events, status },
    network: networksOf(clientIp)[1],
    now,
  });
}
